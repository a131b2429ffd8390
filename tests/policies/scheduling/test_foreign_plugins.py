"""Plugins of one's own: the page that builds two, and those that fail."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import yaml

from forewarn import policies
from forewarn.policies.base.metering import metered
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.releases.semantics import DEFAULT, Semantics
from forewarn.policies.kubernetes.scheduling import foreign_plugins
from forewarn.policies.kubernetes.scheduling.configuration import scheduler_configuration
from forewarn.policies.kubernetes.scheduling.find_nodes import NodeFilters
from forewarn.policies.kubernetes.scheduling.foreign_plugins import guarded, named_only, with_installed
from forewarn.policies.kubernetes.scheduling.framework import (
    InvalidPlugin,
    PermitResult,
    Plugin,
    PreFilterResult,
    StaticFilterPlugin,
    Status,
    unresolvable,
)
from forewarn.policies.kubernetes.scheduling.plugins.other_points import queue_order
from forewarn.policies.kubernetes.scheduling.plugins.registry import IN_TREE
from forewarn.policies.kubernetes.scheduling.queue.priority_queue import QueuedPodInfo
from forewarn.policies.kubernetes.scheduling.recurring_cycle import RecurringCycles
from tests.builders import make_node, make_pod
from tests.policies.scheduling.profiles import cluster, config, point, semantics

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.kubernetes.objects.node import Node

PAGE = Path("docs/reference/scheduler-profiles.md").read_text()


@pytest.fixture(scope="module")
def page() -> Any:
    """The module that the page writes."""
    (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(source.splitlines()) <= 53
    module = ModuleType("company_plugins")
    sys.modules["company_plugins"] = module
    exec(compile(source, "docs/reference/scheduler-profiles.md", "exec"), module.__dict__)
    return module


@pytest.fixture
def meant(page: Any) -> Semantics:
    """A cluster with the page's plugins and profile."""
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    return semantics(yaml.safe_load(text), guarded(page.ReservedPool), guarded(page.StartTogether))


def test_a_pool_that_is_kept_for_some_classes(meant: Semantics) -> None:
    snapshot = cluster(meant, make_node("n1").labels(pool="web"), make_node("n2").labels(pool="batch"))
    low = make_pod("low").spec(priorityClassName="batch")
    assert policies.predict(snapshot, low.obj).feasible == ["n2"]
    high = make_pod("high").spec(priorityClassName="web")
    prediction = policies.predict(snapshot, high.obj)
    assert prediction.feasible == ["n1", "n2"]
    assert prediction.without_columns == ""
    full = policies.predict(snapshot, low.obj, reasons=True)
    assert full.statuses["n1"].reasons == ("node(s) are kept for web, critical",)


class SamePool(Plugin, StaticFilterPlugin):
    """A plugin of kube-scheduler's own that reads labels of Pods."""

    name = "SamePool"
    reads_whole_pod = True

    def filter(self, _state: Any, pod: Pod, node_info: Any) -> Status | None:
        return None if node_info.node.labels["pool"] == pod.labels["pool"] else unresolvable("other pool")

    def static_filter(self, pod: Pod) -> Callable[[Node], bool]:
        return lambda node: node.labels["pool"] == pod.labels["pool"]


def test_pods_of_one_spec_do_not_share_the_nodes_of_a_plugin_that_reads_labels() -> None:
    of_pools = semantics(config({"plugins": {"filter": point("SamePool")}}), SamePool)
    snapshot = cluster(of_pools, make_node("n1").labels(pool="web"), make_node("n2").labels(pool="batch"))
    node_filters, cycles, first = NodeFilters(snapshot.scheduling), RecurringCycles(), Pod.from_api(make_pod("p").obj)
    for pool, name in (("web", "n1"), ("batch", "n2")):
        prediction = policies.predict(snapshot, make_pod("p").labels(pool=pool).obj)
        assert (prediction.feasible, prediction.without_columns) == ([name], "")
        pod = replace(first, labels={"pool": pool})
        assert [info.name for info in snapshot.scheduling.node_infos if node_filters.filter_for(pod)(info.node)] == [
            name
        ]
        with snapshot.scheduling.derived.locked():
            assert cycles.cycle(snapshot.scheduling, pod) is None


def test_a_gang_that_starts_together(meant: Semantics) -> None:
    gang = {"gang": "a", "gang-size": "2"}
    first = make_pod("first").labels(**gang)
    alone = policies.predict(cluster(meant, make_node("n1")), first.obj)
    assert alone.fits
    assert "before it is bound to n1 it waits for StartTogether (up to 60 s)" in alone.caveats
    second = policies.predict(cluster(meant, make_node("n1"), first.on("n1")), make_pod("second").labels(**gang).obj)
    assert second.caveats == ()


def with_method(method: str, does: Callable[..., Any], **more: Any) -> Any:
    return type("Mine", (Plugin,), {"name": "Mine", method: does, **more})


def asked(plugin: Any, points: dict[str, Any], *nodes: str) -> policies.Prediction:
    meant = semantics(config({"plugins": points}), guarded(plugin))
    return policies.predict(cluster(meant, *(make_node(name) for name in nodes or ("n1",))), make_pod("p").obj)


FAILING = [
    ("raises", lambda self, state, pod, node: 1 / 0, "plugin Mine raised ZeroDivisionError: division by zero"),
    (
        "True",
        lambda self, state, pod, node: True,
        "plugin Mine answered nonsense: filter must give Status or None, not bool",
    ),
]


@pytest.mark.parametrize(("does", "why"), [case[1:] for case in FAILING], ids=[case[0] for case in FAILING])
def test_a_filter_that_fails_is_named(does: Any, why: str) -> None:
    def decide(self: Any, state: Any, pod: Any, node_info: Any) -> Any:
        return does(self, state, pod, node_info)

    prediction = asked(with_method("filter", decide), {"filter": point("Mine")})
    assert prediction.outcome == "not-predicted"
    assert prediction.not_predicted == prediction.unmodelled == why
    assert prediction.caveats == (f"not predicted: {why}",)


def test_a_plugin_that_is_still_at_it_when_time_is_up_is_named() -> None:
    time = SimpleNamespace(up=False)

    def decide(self: Any, state: Any, pod: Any, node_info: Any) -> None:
        time.up = True

    with metered(lambda: time.up):
        prediction = asked(with_method("filter", decide), {"filter": point("Mine")})
        assert prediction.not_predicted == "plugin Mine was still at it when time was up"


def test_scores_that_are_none_leave_open_where() -> None:
    def score(self: Any, state: Any, pod: Any, node_info: Any) -> float:
        return 0.5

    prediction = asked(with_method("score", score), {"score": point("Mine")}, "n1", "n2")
    assert prediction.fits
    assert prediction.best_nodes == ["n1", "n2"]
    assert prediction.not_scored == "plugin Mine answered nonsense: score must give a whole number, not 0.5"


@pytest.mark.parametrize("number", [-1, 101])
def test_scores_out_of_range_that_no_method_normalizes_leave_open_where(number: int) -> None:
    """Upstream ends the cycle with an error. Source: `RunScorePlugins`."""
    plugin = with_method("score", lambda *_: number)
    prediction = asked(plugin, {"score": point("Mine")}, "n1", "n2")
    assert prediction.not_scored == f"plugin Mine answered nonsense: score must give scores from 0 to 100, not {number}"
    same = with_method("score", lambda *_: number, normalize_score=lambda _a, _b, _c, scores: scores.update(n1=1, n2=0))
    assert asked(same, {"score": point("Mine")}, "n1", "n2").best_nodes == ["n1"]


def test_a_constructor_that_fails_is_named() -> None:
    class Mine(Plugin):
        name: ClassVar[str] = "Mine"

        def __init__(self, handle: Any, args: Any = None) -> None:
            super().__init__(handle, args)
            raise KeyError("pool")

        def filter(self, state: Any, pod: Any, node_info: Any) -> None:
            """Everything passes."""

    assert "plugin Mine raised KeyError" in asked(Mine, {"filter": point("Mine")}).not_predicted


INVALID = [
    ("no class", 7, "must be a class with a `name`"),
    ("no name", type("A", (), {"filter": lambda s, a, b, c: None}), "must be a class with a `name`"),
    ("nothing", type("A", (Plugin,), {"name": "A"}), "extends nothing"),
    ("misspelt", type("A", (Plugin,), {"name": "A", "filters": lambda s, a, b, c: None}), "did you mean filter?"),
    (
        "run together",
        type("A", (Plugin,), {"name": "A", "prefilter": lambda s, a, b, c: None}),
        "did you mean pre_filter?",
    ),
    (
        "arguments",
        type("A", (Plugin,), {"name": "A", "filter": lambda s, pod: None}),
        "filter must take (self, state, pod, node",
    ),
    ("half", type("A", (Plugin,), {"name": "A", "reserve": lambda s, a, b, c: None}), "has reserve without unreserve"),
]


@pytest.mark.parametrize(("plugin", "why"), [case[1:] for case in INVALID], ids=[case[0] for case in INVALID])
def test_what_is_no_plugin_is_an_error(plugin: Any, why: str) -> None:
    with pytest.raises(InvalidPlugin) as rejected:
        guarded(plugin)
    assert why in str(rejected.value)


def strange(points: dict[str, Any], *nodes: str, priority: int = 0) -> policies.Prediction:
    """Under a profile with a plugin that nobody brings."""
    meant = Semantics(scheduler=scheduler_configuration(config({"plugins": points}), DEFAULT, unknown=named_only))
    made = [make_node(name) for name in nodes or ("n1",)]
    return policies.predict(cluster(meant, *made, make_pod("low").on("n1")), make_pod("p").priority(priority).obj)


def test_a_plugin_that_nobody_brings_is_named_where_it_decides() -> None:
    assert strange({"filter": point("Mine")}).not_predicted.startswith("plugin Mine is not one of kube-scheduler's own")
    assert strange({"multiPoint": point("Mine")}).outcome == "not-predicted"
    assert strange({"preEnqueue": point("Mine")}).outcome == "not-predicted"
    assert strange({"postFilter": point("Mine")}).fits
    assert strange({"queueSort": point(disabled=()), "postBind": point("Mine")}).caveats == ()
    one = strange({"score": point("Mine")})
    assert (one.fits, one.not_scored) == (True, "")
    assert "plugin Mine is not one of" in strange({"score": point("Mine")}, "n1", "n2").not_scored
    held = strange({"permit": point("Mine")})
    assert "whether it is bound to n1 is not predicted: plugin Mine" in held.caveats[0]


def test_installed_plugins_stand_beside_the_schedulers_own(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [SimpleNamespace(value="company_plugins:ReservedPool", load=lambda: page.ReservedPool)]
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: entries if group == foreign_plugins.GROUP else []
    )
    assert with_installed().keys() - IN_TREE.keys() == {"ReservedPool"}
    entries.append(entries[0])
    with pytest.raises(InvalidPlugin, match="there is a plugin ReservedPool already"):
        with_installed()
    entries[:] = [SimpleNamespace(value="gone:Gone", load=lambda: 1 / 0)]
    with pytest.raises(InvalidPlugin, match="gone:Gone: ZeroDivisionError"):
        with_installed()


def test_other_answers_are_looked_at_too() -> None:
    def pre_filter(self: Any, state: Any, pod: Any, nodes: Any) -> Any:
        return PreFilterResult(names="n1")  # type: ignore[arg-type]

    assert "names of nodes" in asked(with_method("pre_filter", pre_filter), {"preFilter": point("Mine")}).not_predicted

    def permit(self: Any, state: Any, pod: Any, node_name: Any) -> Any:
        return None

    assert "must give PermitResult" in asked(with_method("permit", permit), {"permit": point("Mine")}).caveats[0]
    assert PermitResult().status is None


def test_an_own_order_of_the_queue_is_reported() -> None:
    own = with_method("less", lambda self, first, second: False)
    prediction = asked(own, {"queueSort": point("Mine", disabled=("*",))})
    assert prediction.fits
    assert prediction.assumes == ("priority orders the queue, although plugin Mine sorts it (queueSort)",)


def test_priority_sort_is_the_order_of_the_queue() -> None:
    infos = [
        QueuedPodInfo(pod=Pod.from_api(make_pod("p").priority(p).obj), timestamp=t) for p, t in ((1, 0), (5, 9), (5, 2))
    ]
    ordered = [infos[2], infos[1], infos[0]]
    less = policies.predict(cluster(DEFAULT, make_node("n1")), make_pod("p").obj).framework.plugin("PrioritySort").less
    assert sorted(infos, key=lambda info: queue_order(info.priority, info.timestamp)) == ordered
    assert [less(a, b) for a in ordered for b in ordered] == [i < j for i in range(3) for j in range(3)]
