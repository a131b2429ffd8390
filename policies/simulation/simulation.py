"""A run: a cluster at time 0, what arrives, and what comes of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from policies.objects.fields import group_kind, text
from policies.objects.pod import Pod
from policies.simulation.api_server import EPOCH, ApiServer
from policies.simulation.clock import Clock
from policies.simulation.controller_manager import ControllerManager
from policies.simulation.controller_view import ControllerView
from policies.simulation.latencies import Latencies
from policies.simulation.scenario import read_node, read_pod, read_workload
from policies.simulation.scheduler import QUEUE_STARTS, Scheduler
from policies.simulation.scheduler_cache import SchedulerCache
from policies.simulation.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from policies.controllers.view import PodState
    from policies.objects.fields import ApiObject
    from policies.scheduling.objects import Objects
    from policies.simulation.scenario import Arrival, Scenario

_LAST: Final = "\U0010ffff"
MOST_STEPS: Final = 5_000_000
"""What a run may take: an input that somebody wrote does not keep a machine busy for good."""
_APART: Final = 1e-3
"""Seconds between two arrivals at one moment."""


class Simulation:
    """One run. `random`: the dice for ties and jitter; None: fixed latencies, and of equal nodes the first by name."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        admission: Callable[[ApiObject], Pod] = Pod.from_api,
        base: Objects | None = None,
        epoch: float = EPOCH,
        random: Random | None = None,
        grows_only: bool = True,
    ) -> None:
        self.scenario = scenario
        self.clock = Clock(QUEUE_STARTS)
        self.timeline = Timeline(self.clock)
        self.api = ApiServer(self.clock, self.timeline, epoch)
        latencies = Latencies(random)
        view = ControllerView(self.api, admission)
        self._admission = admission
        self.cache = SchedulerCache(base)
        self.controllers = ControllerManager(self.clock, self.api, view, latencies, grows_only=grows_only)
        self.scheduler = Scheduler(
            self.clock, self.api, self.cache, latencies, partial(_choose, random), random.choice if random else None
        )
        for obj in sorted(scenario.objects, key=_name_of_node):
            self._load(obj)
        self.timeline.events.clear()
        self.controllers.set_budgets()
        self.clock.at(0.0, self.controllers.start)
        self._arrivals = len(scenario.arrivals)
        self._arrange_arrivals()

    def _load(self, obj: ApiObject) -> None:
        kind = group_kind(obj)
        if kind == "/Node":
            self.api.put_node(read_node(obj))
        elif kind == "/Pod":
            self.api.load_pod(read_pod(obj))
        elif kind not in ("/Namespace", "scheduling.k8s.io/PriorityClass"):
            self.api.put_workload(read_workload(obj))

    def _arrange_arrivals(self) -> None:
        time = -1.0
        for arrival in self.scenario.arrivals:
            time = arrival.at if arrival.at > time else time + _APART
            self.clock.at(time, partial(self.controllers.arrive, partial(self._arrive, arrival)))

    def _arrive(self, arrival: Arrival) -> None:
        self._arrivals -= 1
        kind, obj = group_kind(arrival.object), arrival.object
        if kind == "/Pod":
            self._pod_arrives(arrival)
        elif kind == "/Node":
            if arrival.op == "delete":
                self.api.remove_node(text(obj, "metadata", "name"))
            else:
                self.api.put_node(read_node(obj))
        elif kind != "/Namespace":
            state = read_workload(obj)
            old = self.api.workloads.get(state.key)
            if arrival.op == "delete":
                self.api.remove_workload(state.key)
            elif (old is None) == (arrival.op == "create"):
                self.api.put_workload(state if old is None else old.__class__(old.key, obj, old.status, old.created))

    def _pod_arrives(self, arrival: Arrival) -> None:
        obj = arrival.object
        if arrival.op == "delete":
            key = text(obj, "metadata", "namespace", default="default"), text(obj, "metadata", "name")
            self.api.delete_pod(key, "deleted", message="user")
            return
        pod = self._admission(obj)
        if arrival.op == "create":
            self.api.create_pod(pod, obj)
        else:
            self.api.update_pod(pod, obj)

    def run(self) -> None:
        """Until the horizon, or until all has been quiet for long enough. Raises ValueError: that takes too long."""
        for _ in range(MOST_STEPS):
            time = self.clock.next_time
            if time is None:
                return
            if time > self.scenario.horizon:
                self.clock.now = self.scenario.horizon
                return
            if not self._arrivals and not self.controllers.terminations:
                quiet = max(self.timeline.last, 0.0) + self.scenario.quiet
                if time > quiet:
                    self.clock.now = quiet
                    return
            self.clock.advance()
        raise ValueError(f"more than {MOST_STEPS} steps in {self.clock.now:.0f} seconds")

    def final(self) -> dict[str, dict[str, Any]]:
        """Every pod that exists, by `namespace/name`: its node, empty while it waits for one."""
        return {state.pod.key: _entry(state) for _, state in sorted(self.api.pods.items())}

    def outcome(self) -> dict[str, Any]:
        """The end, as recordings have it."""
        final = self.final()
        return {
            "count": 1,
            "timeline": [event.to_dict() for event in self.timeline.events],
            "final": final,
            "pending": [name for name, entry in final.items() if not entry["node"]],
            "endedAt": round(self.clock.now, 4),
        }


def _entry(state: PodState) -> dict[str, Any]:
    entry: dict[str, Any] = {"node": state.pod.node_name}
    if state.pod.nominated_node_name:
        entry["nominated"] = state.pod.nominated_node_name
    if state.terminating:
        entry["terminating"] = True
    return entry


def _name_of_node(obj: ApiObject) -> str:
    """Nodes are listed by name, before all else."""
    return text(obj, "metadata", "name") if group_kind(obj) == "/Node" else _LAST


def _choose(random: Random | None, names: Sequence[str]) -> str:
    return names[0] if random is None else random.choice(names)
