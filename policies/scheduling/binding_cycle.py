"""The binding cycle of one Pod as a value: reserved resources, pending Permit plugins, and the result.

This module has no clock and does not block: the caller runs one step after the other. Source: kubernetes
`pkg/scheduler/schedule_one.go` (`prepareForBindingCycle`, `bindingCycle`), `framework/runtime/framework.go`,
`framework/runtime/waiting_pods_map.go`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from forewarn.policies.scheduling.extension_points import MAX_PERMIT_TIMEOUT
from forewarn.policies.scheduling.status import SKIP, Code, CycleState, Status, failed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.framework import Framework


class Stage(StrEnum):
    """The next step of a binding cycle; BOUND and FAILED are final."""

    RESERVE = "Reserve"
    PERMIT = "Permit"
    PRE_BIND_PRE_FLIGHT = "PreBindPreFlight"
    WAIT_ON_PERMIT = "WaitOnPermit"
    PRE_BIND = "PreBind"
    BIND = "Bind"
    POST_BIND = "PostBind"
    BOUND = "bound"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class BindingCycle:
    """The binding cycle of a Pod that is assumed to be on `node_name`. Each step returns a new BindingCycle.

    `timeouts`: plugin -> maximum seconds for which the plugin holds the Pod after PERMIT. `announced`: whether
    kube-scheduler writes `nominatedNodeName` before slow steps (since 1.35). `status`, `failed_at`: the reason and the
    stage of a failure.
    """

    pod: Pod
    node_name: str
    stage: Stage = Stage.RESERVE
    timeouts: Mapping[str, float] = field(default_factory=dict)
    announced: bool = False
    status: Status | None = None
    failed_at: Stage | None = None

    @property
    def is_done(self) -> bool:
        """Whether the cycle is in a final stage."""
        return self.stage in (Stage.BOUND, Stage.FAILED)

    @property
    def waiting(self) -> bool:
        """Whether Permit plugins hold the Pod. The cycle continues when all these plugins have allowed the Pod."""
        return self.stage is Stage.WAIT_ON_PERMIT and bool(self.timeouts)

    def step(self, framework: Framework, state: CycleState) -> BindingCycle:
        """Run the plugins of the current stage and return the next cycle; return this cycle if the Pod waits or the
        cycle is done.

        A failure releases the reserved resources.
        """
        if self.is_done or self.waiting:
            return self
        taken, status = _TAKE[self.stage](self, framework, state)
        if status is None:
            return replace(taken, stage=_NEXT[self.stage])
        return taken.fail(status, framework, state)

    def fail(self, status: Status, framework: Framework, state: CycleState) -> BindingCycle:
        """Return the failed cycle, and release the reserved resources. Source: upstream `handleBindingCycleError`."""
        run_unreserve_plugins(framework, state, self.pod, self.node_name)
        return replace(self, stage=Stage.FAILED, status=status, failed_at=self.stage)


_Taken = tuple[BindingCycle, "Status | None"]


def _reserve(cycle: BindingCycle, framework: Framework, state: CycleState) -> _Taken:
    return cycle, run_reserve_plugins(framework, state, cycle.pod, cycle.node_name)


def _permit(cycle: BindingCycle, framework: Framework, state: CycleState) -> _Taken:
    waits, status = run_permit_plugins(framework, state, cycle.pod, cycle.node_name)
    waiting = status is not None and status.code is Code.WAIT
    return replace(cycle, timeouts=waits), None if waiting else status


def _pre_flight(cycle: BindingCycle, framework: Framework, state: CycleState) -> _Taken:
    """Run PreBindPreFlight and set `announced`.

    Does nothing in releases that do not write `nominatedNodeName` before binding: there, no PreBind plugin is skipped.
    """
    if not framework.snapshot.semantics.expected_bindings_are_announced:
        return cycle, None
    status = run_pre_bind_pre_flights(framework, state, cycle.pod, cycle.node_name)
    skipped = status is not None and status.code is Code.SKIP
    return replace(cycle, announced=status is None or bool(cycle.timeouts)), None if skipped else status


def _pre_bind(cycle: BindingCycle, framework: Framework, state: CycleState) -> _Taken:
    return cycle, run_pre_bind_plugins(framework, state, cycle.pod, cycle.node_name)


def _bind(cycle: BindingCycle, framework: Framework, state: CycleState) -> _Taken:
    return cycle, run_bind_plugins(framework, state, cycle.pod, cycle.node_name)


def _post_bind(cycle: BindingCycle, framework: Framework, state: CycleState) -> _Taken:
    run_post_bind_plugins(framework, state, cycle.pod, cycle.node_name)
    return cycle, None


_TAKE: Final[dict[Stage, Callable[[BindingCycle, Framework, CycleState], _Taken]]] = {
    Stage.RESERVE: _reserve,
    Stage.PERMIT: _permit,
    Stage.PRE_BIND_PRE_FLIGHT: _pre_flight,
    Stage.WAIT_ON_PERMIT: lambda cycle, framework, state: (cycle, None),  # noqa: ARG005
    Stage.PRE_BIND: _pre_bind,
    Stage.BIND: _bind,
    Stage.POST_BIND: _post_bind,
}
_NEXT: Final = dict(zip(_TAKE, (*list(_TAKE)[1:], Stage.BOUND), strict=True))


def run_reserve_plugins(framework: Framework, state: CycleState, pod: Pod, node_name: str) -> Status | None:
    """Run Reserve plugins until one fails.

    After a failure, the caller has to call `run_unreserve_plugins`. Source: upstream `RunReservePluginsReserve`.
    """
    for plugin in framework.reserves:
        status = plugin.reserve(state, pod, node_name)
        if status is not None:
            return _of_binding(status, "Reserve", plugin.name)
    return None


def run_unreserve_plugins(framework: Framework, state: CycleState, pod: Pod, node_name: str) -> None:
    """Run Unreserve of all Reserve plugins in reverse order. Source: upstream `RunReservePluginsUnreserve`."""
    for plugin in reversed(framework.reserves):
        plugin.unreserve(state, pod, node_name)


def run_permit_plugins(
    framework: Framework, state: CycleState, pod: Pod, node_name: str
) -> tuple[dict[str, float], Status | None]:
    """Return (plugin -> seconds for which the plugin holds the Pod, status). Status: None (allowed), WAIT or a
    rejection.

    Source: upstream `RunPermitPlugins`.
    """
    waits: dict[str, float] = {}
    waiting: Status | None = None
    for plugin in framework.permits:
        status, timeout = plugin.permit(state, pod, node_name)
        if status is None:
            continue
        if status.code is not Code.WAIT:
            return {}, _of_binding(status, "Permit", plugin.name)
        waits[plugin.name] = min(timeout, MAX_PERMIT_TIMEOUT)
        waiting = status
    if waiting is None:
        return {}, None
    message = "one or more plugins asked to wait and no plugin rejected pod"
    return waits, Status(Code.WAIT, (*waiting.reasons, message))


def run_pre_bind_pre_flights(framework: Framework, state: CycleState, pod: Pod, node_name: str) -> Status | None:
    """Return SKIP if all PreBind plugins skip the Pod, an error if one fails, otherwise None. Source: upstream
    `RunPreBindPreFlights`.

    Adds the plugins that skip the Pod to `state.skip_pre_bind`.
    """
    found: Status | None = SKIP
    for plugin in framework.pre_binds:
        status = plugin.pre_bind_pre_flight(state, pod, node_name)
        if status is None:
            found = None
        elif status.code is Code.SKIP:
            state.skip_pre_bind.add(plugin.name)
        elif status.code is Code.ERROR:
            return status.while_running(f'running PreBindPreFlight "{plugin.name}"', plugin.name)
        else:
            return failed(
                f'PreBindPreFlight {plugin.name} returned "{status.code}", which is unsupported. It is supposed to '
                "return Success, Skip, or Error status"
            )
    return found


def run_pre_bind_plugins(framework: Framework, state: CycleState, pod: Pod, node_name: str) -> Status | None:
    """Run PreBind plugins in order until one fails, except those in `state.skip_pre_bind`.

    Source: upstream `RunPreBindPlugins`, which may run some in parallel.
    """
    for plugin in framework.pre_binds:
        status = None if plugin.name in state.skip_pre_bind else plugin.pre_bind(state, pod, node_name)
        if status is not None:
            return _of_binding(status, "PreBind", plugin.name)
    return None


def run_bind_plugins(framework: Framework, state: CycleState, pod: Pod, node_name: str) -> Status | None:
    """Run Bind plugins until one binds or rejects the Pod.

    Returns None after success, SKIP if all skip. Source: upstream `RunBindPlugins`.
    """
    status: Status | None = SKIP
    for plugin in framework.binds:
        status = plugin.bind(state, pod, node_name)
        if status is None:
            return None
        if status.code is not Code.SKIP:
            return _of_binding(status, "Bind", plugin.name)
    return status


def run_post_bind_plugins(framework: Framework, state: CycleState, pod: Pod, node_name: str) -> None:
    """Run all PostBind plugins. Source: upstream `RunPostBindPlugins`."""
    for plugin in framework.post_binds:
        plugin.post_bind(state, pod, node_name)


def _of_binding(status: Status, point: str, plugin: str) -> Status:
    if status.rejected:
        return status.of(plugin)
    return status.while_running(f'running {point} plugin "{plugin}"', plugin)
