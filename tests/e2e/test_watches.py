"""What forewarn knows recovers when the API server goes away, connections break, or history is forgotten.

In between nobody is denied by what it does not know: it is asked all the time, and its configuration says Fail.
"""

from __future__ import annotations

import shutil
import time
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import TYPE_CHECKING

import pytest

from tests.e2e.load import load
from tests.e2e.objects import deployment, pod, priority_class
from tests.e2e.quotas import quota
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from tests.e2e.api import Api
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.webhook import Webhook

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("classes")]

BOUND = 20
"""Seconds within which it has to know again. Between two attempts there are at most 5."""
RESTORED_BOUND = 120
"""The same if watches are silent at first: for 90 seconds."""


@pytest.fixture(autouse=True)
def fresh(webhook: Webhook) -> None:
    """A process that has met with no failure yet: after several it waits longer before it tries again."""
    webhook.replicas[0].stop(SIGKILL)
    webhook.replicas[0].start()


def knows(webhook: Webhook, class_: str) -> bool:
    """Whether this class is in the cache. Notes go by it alone, while a warning would be confirmed by a live GET."""
    notes = webhook.review(quota("probe", "default", class_)).get("auditAnnotations", {})
    return "quota-matches-nothing" not in notes


def recovered(webhook: Webhook, class_: str, what: str) -> None:
    started = time.monotonic()
    wait_until(lambda: knows(webhook, class_), BOUND, f"{class_} is known after {what}")
    print(f"\ne2e: {what}: known again after {time.monotonic() - started:.1f} s")
    assert not knows(webhook, "missing")


def expired(webhook: Webhook) -> float:
    """How often a kind had to be listed anew because its resource version was too old."""
    return webhook.replicas[0].metric("forewarn_watch_failures_total", reason="expired")


def creates(api: Api, class_: str) -> str:
    """Create a pod of a class by dry run; returns what went wrong."""
    answer = api.ask("POST", "api/v1/namespaces/default/pods?dryRun=All", pod("probe", priorityClassName=class_))
    lags = "no PriorityClass with name" in str(answer.body.get("message")) and "denied" not in str(answer.body)
    return "" if answer.code == 201 or lags else f"{answer.code}: {answer.body.get('message')}"


def test_watch_connections_break(webhook: Webhook, api: Api) -> None:
    for turn in range(3):
        broken = webhook.to_api.cut()
        assert turn or broken > 10
        api.create(priority_class(f"cut-{turn}", turn))
        with load(lambda _: creates(api, f"cut-{turn}"), per_second=50, threads=4) as made:  # noqa: B023
            recovered(webhook, f"cut-{turn}", "connections cut")
        assert made.faults == []


def test_the_api_server_is_away_for_a_while(webhook: Webhook, api: Api) -> None:
    """A class that came meanwhile is not known: a workload gets a warning, a pod is not denied."""
    webhook.cut_off()
    api.create(priority_class("meanwhile", 7))
    for _ in range(20):
        assert creates(api, "meanwhile") == ""
        assert creates(api, "high") == ""
        lost = webhook.review(pod("probe", priorityClassName="meanwhile", priority=7))
        assert lost["allowed"], "the cache alone must not deny"
        doubted = webhook.review(deployment("probe", "meanwhile"))["warnings"]
        assert "Not confirmed by the API server" in str(doubted)
        assert knows(webhook, "high")
    webhook.let_through()
    recovered(webhook, "meanwhile", "cut off")
    webhook.catch_up(api)


def test_the_api_server_is_restarted(webhook: Webhook, plane: ControlPlane, api: Api) -> None:
    api.close()
    plane.processes.stop("kube-apiserver", SIGKILL)
    for _ in range(10):
        assert knows(webhook, "high")
        assert not knows(webhook, "missing")
        assert webhook.review(pod("probe", priorityClassName="unseen", priority=7))["allowed"]
    plane.start_api_server()
    api.create(priority_class("restarted", 8))
    recovered(webhook, "restarted", "API server restarted")
    webhook.catch_up(api)


def test_history_is_forgotten(webhook: Webhook, plane: ControlPlane, api: Api) -> None:
    """Its resource versions are too old after a compaction, and the restarted API server has no memory of its own."""
    before = expired(webhook)
    webhook.cut_off()
    api.create(priority_class("forgotten", 9))
    api.delete(priority_class("meanwhile", 7))
    for turn in range(50):
        api.patch(priority_class("high", 1000), {"description": f"revision {turn}"})
    api.close()
    plane.processes.stop("kube-apiserver", SIGKILL)
    plane.compact()
    plane.start_api_server()
    webhook.let_through()
    recovered(webhook, "forgotten", "compacted")
    webhook.catch_up(api)
    assert not knows(webhook, "meanwhile")
    assert expired(webhook) > before


def test_the_api_server_accepts_and_does_not_answer(webhook: Webhook, plane: ControlPlane, api: Api) -> None:
    plane.processes.signal("kube-apiserver", SIGSTOP)
    try:
        for _ in range(3):
            assert knows(webhook, "high")
            lost = webhook.review(pod("probe", priorityClassName="unseen", priority=7))
            assert lost["allowed"], "the cache alone must not deny"
            assert webhook.replicas[0].ready()
    finally:
        plane.processes.signal("kube-apiserver", SIGCONT)
    api.create(priority_class("resumed", 10))
    recovered(webhook, "resumed", "API server resumed")


def test_an_earlier_state_of_the_cluster_is_restored(webhook: Webhook, plane: ControlPlane, api: Api) -> None:
    """Resource versions go back: watches from later ones stay silent, and events have been seen before."""

    def end(*names: str) -> None:
        api.close()
        for name in names:
            plane.processes.stop(name, SIGKILL)

    end("kube-apiserver", "etcd")
    data, saved = plane.home / "etcd", plane.home / "etcd-saved"
    shutil.copytree(data, saved)
    plane.start_etcd()
    plane.start_api_server()
    api.create(priority_class("undone", 11))
    recovered(webhook, "undone", "API server restarted")
    for turn in range(50):
        api.patch(priority_class("high", 1000), {"description": f"undone {turn}"})
    end("kube-apiserver", "etcd")
    shutil.rmtree(data)
    saved.rename(data)
    plane.start_etcd()
    plane.start_api_server()
    api.create(priority_class("redone", 12))
    started = time.monotonic()
    wait_until(lambda: not knows(webhook, "undone"), RESTORED_BOUND, "a class is forgotten that was never there")
    print(f"\ne2e: restored: {time.monotonic() - started:.1f} s")
    recovered(webhook, "redone", "restored")
    webhook.catch_up(api)
