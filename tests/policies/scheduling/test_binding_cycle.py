"""The binding cycle of one pod, what is run in which order, what waits, what is given back."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.releases.semantics import Semantics
from forewarn.policies.kubernetes.scheduling.find_nodes import framework_of
from forewarn.policies.kubernetes.scheduling.framework import (
    SKIP,
    Code,
    CycleState,
    Framework,
    PermitResult,
    Plugin,
    Status,
    failed,
    unschedulable,
)
from forewarn.policies.kubernetes.scheduling.not_predicted import Binding, run_binding_cycle
from tests.builders import make_node, make_pod
from tests.policies.scheduling.profiles import cluster, config, point, semantics

WAIT = Status(Code.WAIT)
CALLS: list[str] = []
ANSWERS: dict[str, Any] = {}
"""Method, or `Plugin.method` -> what it answers instead of success."""


class Recorded(Plugin):
    """Notes every call, and answers what ANSWERS holds."""

    def _said(self, method: str) -> Any:
        CALLS.append(f"{self.name}.{method}")
        return ANSWERS.get(f"{self.name}.{method}", ANSWERS.get(method))

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._said("reserve")  # type: ignore[no-any-return]

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._said("unreserve")

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> PermitResult:
        return self._said("permit") or PermitResult()

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._said("pre_bind_pre_flight")  # type: ignore[no-any-return]

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._said("pre_bind")  # type: ignore[no-any-return]

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._said("bind")  # type: ignore[no-any-return]

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._said("post_bind")


class First(Recorded):
    """Asked first."""

    name: ClassVar[str] = "First"


class Second(Recorded):
    """Asked second."""

    name: ClassVar[str] = "Second"


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    CALLS.clear()
    ANSWERS.clear()


@pytest.fixture
def framework() -> Framework:
    every = point("PrioritySort", "First", "Second", disabled=("*",))
    meant = semantics(config({"schedulerName": "default-scheduler", "plugins": {"multiPoint": every}}), First, Second)
    return framework_of(cluster(meant, make_node("n1")).scheduling, THE_POD)


THE_POD = Pod.from_api(make_pod("p").obj)


def both(method: str) -> list[str]:
    return [f"First.{method}", f"Second.{method}"]


def test_every_extension_point_in_upstreams_order(framework: Framework) -> None:
    assert run_binding_cycle(framework, THE_POD, "n1") == Binding()
    stages = ["reserve", "permit", "pre_bind_pre_flight", "pre_bind"]
    binding = ["First.bind", *both("post_bind")]
    assert [call for stage in stages for call in both(stage)] + binding == CALLS


@pytest.mark.parametrize(
    ("method", "point"),
    [("reserve", "Reserve"), ("permit", "Permit"), ("pre_bind", "PreBind"), ("bind", "Bind")],
)
def test_what_says_no_ends_it_and_all_is_given_back_in_reverse(framework: Framework, method: str, point: str) -> None:
    no = unschedulable("no")
    ANSWERS[f"Second.{method}"] = PermitResult(no) if method == "permit" else no
    ANSWERS["First.bind"] = SKIP
    assert run_binding_cycle(framework, THE_POD, "n1") == Binding(point, no.with_plugin("Second"))
    assert CALLS[-2:] == ["Second.unreserve", "First.unreserve"]


def test_a_fault_is_told_as_the_framework_tells_it(framework: Framework) -> None:
    ANSWERS["First.pre_bind"] = failed("no API server")
    cycle = run_binding_cycle(framework, THE_POD, "n1")
    assert cycle.status == Status(Code.ERROR, ('running PreBind plugin "First": no API server',), "First")
    assert "Second.pre_bind" not in CALLS


def test_a_pod_waits_for_all_that_hold_it(framework: Framework) -> None:
    ANSWERS["permit"] = PermitResult(WAIT, 30)
    cycle = run_binding_cycle(framework, THE_POD, "n1")
    assert cycle == Binding(timeouts={"First": 30, "Second": 30})
    assert CALLS[-1] == "Second.pre_bind_pre_flight"


def test_up_to_1_34_nobody_is_told_of_the_node_and_nobody_is_asked_whether_it_has_to_wait() -> None:
    every = point("PrioritySort", "First", "Second", disabled=("*",))
    given = config({"schedulerName": "default-scheduler", "plugins": {"multiPoint": every}})
    ANSWERS["pre_bind_pre_flight"] = SKIP
    older = semantics(given, First, Second, base=Semantics(34))
    for meant, announced in ((older, False), (older.with_gates(NominatedNodeNameForExpectation=True), True)):
        CALLS.clear()
        framework = framework_of(cluster(meant, make_node("n1")).scheduling, THE_POD)
        assert run_binding_cycle(framework, THE_POD, "n1") == Binding()
        assert ("First.pre_bind_pre_flight" in CALLS) is announced


def test_what_has_nothing_to_do_before_binding_is_left_out(framework: Framework) -> None:
    ANSWERS["pre_bind_pre_flight"] = SKIP
    assert run_binding_cycle(framework, THE_POD, "n1") == Binding()
    assert "First.pre_bind" not in CALLS


def test_a_flight_before_binding_says_yes_or_skip_or_error(framework: Framework) -> None:
    ANSWERS["First.pre_bind_pre_flight"] = unschedulable("no")
    cycle = run_binding_cycle(framework, THE_POD, "n1")
    assert cycle.status is not None
    assert cycle.status.code is Code.ERROR
    assert "which is unsupported" in cycle.status.reasons[0]


def test_who_skips_leaves_binding_to_the_next(framework: Framework) -> None:
    ANSWERS["First.bind"] = SKIP
    assert run_binding_cycle(framework, THE_POD, "n1") == Binding()
    assert "Second.bind" in CALLS


def test_where_all_skip_nobody_binds(framework: Framework) -> None:
    ANSWERS["bind"] = SKIP
    cycle = run_binding_cycle(framework, THE_POD, "n1")
    assert cycle.failed_at == "Bind"


def test_the_schedulers_own_plugins_bind_a_plain_pod() -> None:
    snapshot = cluster(semantics(config()), make_node("n1")).scheduling
    assert run_binding_cycle(framework_of(snapshot, THE_POD), THE_POD, "n1") == Binding()
