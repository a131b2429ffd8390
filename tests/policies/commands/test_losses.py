"""What many losses come to: the same by forks of one simulation as by a simulation for each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from policies.commands.losses import lost_replicas
from policies.simulation.dump import DumpCache, world_of
from policies.whatif import questions
from policies.whatif.comparison import ask
from tests.builders import Made, make_node, make_pod

if TYPE_CHECKING:
    from collections.abc import Mapping


def cluster() -> DumpCache:
    """Three nodes of 4 cpus; there is room for what runs on the third, and for some of what runs on the others."""
    cache = DumpCache()
    for name in ("n1", "n2", "n3"):
        cache.add(make_node(name).has(cpu="4", memory="8Gi", pods="110").obj)
    for name, node, cpu, count in (("web", "n1", "1500m", 2), ("db", "n2", "3600m", 1), ("small", "n3", "500m", 1)):
        pod = make_pod(name).request(cpu=cpu).obj
        template = {"metadata": {"labels": {"app": name}}, "spec": pod["spec"]}
        selector = {"matchLabels": {"app": name}}
        made = Made("apps/v1", "ReplicaSet", name, "default")
        cache.add(made.spec(replicas=count, selector=selector, template=template).obj)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": "1", "controller": True}
        ready = [{"type": "Ready", "status": "True"}]
        for number in range(count):
            made_pod = make_pod(f"{name}-{number}").request(cpu=cpu).on(node).labels(app=name)
            cache.add(made_pod.metadata(ownerReferences=[owner]).status(conditions=ready).obj)
    return cache


def lost() -> list[Mapping[str, int]]:
    cache = cluster()
    asked = [questions.nodes_lost(cache.snapshot(), [name]) for name in ("n1", "n2", "n3")]
    return list(lost_replicas(world_of(cache, [], until=600.0), asked))


def test_a_fork_answers_as_a_simulation_of_its_own() -> None:
    cache, expected = cluster(), []
    for name in ("n1", "n2", "n3"):
        question = questions.nodes_lost(cache.snapshot(), [name])
        answer = ask(question, world_of(cache, question.arrivals, until=600.0))
        expected.append({standing.workload: standing.lost for standing in answer.standings if standing.lost})
    assert lost() == expected == [{}, {"default/db": 1}, {}]


def test_where_nothing_can_be_forked_all_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError("no more processes")

    forked = lost()
    monkeypatch.setattr(os, "fork", refused)
    assert lost() == forked


def test_a_fork_that_ends_early_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    forked, fork = lost(), os.fork

    def killed() -> int:
        process = fork()
        if process == 0:
            os._exit(1)
        return process

    monkeypatch.setattr(os, "fork", killed)
    assert lost() == forked
