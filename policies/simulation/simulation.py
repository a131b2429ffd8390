"""A run: a cluster at time 0, what arrives, and what comes of it."""

from __future__ import annotations

import gc
from functools import partial
from itertools import takewhile
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from policies.controllers.templates import pod_of_template, template_of
from policies.objects.storage import default_storage_class
from policies.scheduling.cluster_objects import ClusterObjects
from policies.semantics import DEFAULT
from policies.simulation.api_server import ApiServer, controller_of
from policies.simulation.arriving import arrive
from policies.simulation.clock import Clock
from policies.simulation.controller_manager import FIRST_COLLECTION, ControllerManager
from policies.simulation.controller_view import ControllerView
from policies.simulation.controller_workers import ControllerWorkers
from policies.simulation.latencies import Latencies
from policies.simulation.quotas import Quotas
from policies.simulation.recreation import Recreation
from policies.simulation.scheduler import QUEUE_STARTS, Scheduler
from policies.simulation.scheduler_cache import SchedulerCache
from policies.simulation.storage_controllers import StorageControllers
from policies.simulation.taint_evictions import TaintEvictions
from policies.simulation.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from policies.controllers.view import Key, PodState
    from policies.objects.fields import ApiObject
    from policies.objects.pod import Pod
    from policies.semantics import Semantics
    from policies.simulation.scenario import Arrival, World

MOST_STEPS: Final = 2_000_000
"""What a run may take: an input that somebody wrote does not keep a machine busy for good."""
STEPS_EACH: Final = 200
"""What it may take for each node and pod that there is when it begins, where that is more: who loads many has asked for
a large answer, and has the memory."""
MOST_PODS: Final = 200_000
"""New pods in a run, likewise."""
_PROGRESS_EVERY: Final = 1000
_COLLECT_AFTER: Final = 200_000, 50
"""After how many new objects the collector of cycles looks at them, and after how many such looks at older ones: a run
keeps nearly all that it makes, and makes hardly any cycles."""
_APART: Final = 1e-3
"""Seconds between two arrivals at one moment."""


class Simulation:
    """One run. `random`: the dice for ties and jitter; None: fixed latencies, and of equal nodes the first by name."""

    def __init__(
        self,
        world: World,
        random: Random | None = None,
        *,
        choose: Callable[[Sequence[str]], str] | None = None,
        progress: Callable[[float, int], None] | None = None,
        cache: SchedulerCache | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`choose`: which of several nodes that are equal to preemption is taken, None: as `random` has it. `progress`
        is told now and then how many seconds are over, and how many steps were made. `cache`: what the scheduler knows
        beforehand; `clock`: one that has not been used."""
        self.world, self._progress = world, progress
        self.clock = clock or Clock(QUEUE_STARTS)
        self.timeline = Timeline(self.clock)
        base = world.base or ClusterObjects()
        self.api = ApiServer(self.clock, self.timeline, world.epoch, base)
        self.api.recreated = world.recreated
        self._latencies = latencies = Latencies(random, asks_webhooks=world.asks_webhooks)
        if world.pods_take_time_to_start:
            self.api.seconds_to_start = latencies.start
        default_class = default_storage_class(base.storage_classes.values())
        view = ControllerView(self.api, world.admission, random.random if random else None, default_class)
        self.cache = cache or SchedulerCache(world.base)
        self.controllers: ControllerManager = (
            ControllerManager(self.clock, self.api, view, latencies, grows_only=True)
            if world.grows_only
            else ControllerWorkers(self.clock, self.api, view, latencies)
        )
        tie = random.choice if random else None
        self.scheduler = Scheduler(
            self.clock,
            self.api,
            self.cache,
            latencies,
            choose or partial(_choose, random),
            tie,
            semantics_of(world),
        )
        self._view = view
        if world.quotas_of is not None:
            self.api.quotas = Quotas(self.clock, latencies, world.quotas_of, world.defaulted, self._template_for)
        self._load(None if world.order_known else random)
        self.api.note_unlisted_claims()
        self.storage = StorageControllers(self.clock, self.api, view, latencies, base)
        self.clock.at(0.0, self.controllers.start)
        self.clock.at(0.0, self.storage.start)
        if not world.grows_only:
            self.clock.at(0.0, TaintEvictions(self.clock, self.api, latencies).start)
        if world.recreated:
            Recreation(self.clock, self.api, latencies, world.recreated).start()
        self._place = self.clock.reserve()
        """That of the arrivals among all that happens."""
        self._steps = 0
        """Those that were made before it runs."""
        self.most_steps = max(MOST_STEPS, STEPS_EACH * (len(world.nodes) + len(world.pods)))
        """After how many it is given up."""
        self._arrivals = len(world.arrivals)
        """How many have not come yet."""
        self.awaited = 0
        """How many things come by themselves at a time that is known: the run does not end before."""
        self.settled = True
        """Whether a run that is over would not have come to anything more."""
        self.stopped = ""
        """Why a run was given up, empty where it was not."""
        self._arrange_arrivals()

    def _load(self, random: Random | None) -> None:
        """`random`: draws the order in which the scheduler heard of pods, where nobody knows it (see `_any_order`)."""
        for node in self.world.nodes:
            self.api.put_node(node)
        for workload in self.world.workloads:
            self.api.put_workload(workload)
        pods = self.world.pods
        for pod in pods if random is None else _any_order(pods, random):
            self.api.load_pod(pod)
        if random is not None:
            self.scheduler.queue.draw_attempts(random.randrange)
        self.timeline.events.clear()
        self.controllers.set_statuses()

    def _template_for(self, pod: Pod) -> ApiObject | None:
        """Its workload's template, where a pod of it asks for as much as this one."""
        owner = controller_of(pod)
        state = None if owner is None else self.api.workloads.get(owner)
        if state is None:
            return None
        template = template_of(state.object)
        made = pod_of_template(self._view, state.key, state.object, template)
        return template if made.occupies == pod.occupies else None

    def _arrange_arrivals(self) -> None:
        time = -1.0
        for number, arrival in enumerate(self.world.arrivals, self._place):
            time = arrival.at if arrival.at > time else time + _APART
            self.clock.at(time, partial(self.controllers.arrive, partial(self._arrive, arrival)), number)

    # What many runs of one cluster have in common is done once, and they are copied from there by forking

    def begin(self) -> None:
        """Do what comes before all arrivals of a simulation that was made without any and has not run."""
        while self.clock.is_due_before(0.0, self._place):
            self._advance()

    def look_around(self) -> bool:
        """After `begin`: let every controller look at its objects as it does first, up to the collector's first round;
        whether nothing happens until then. Where something does, this simulation is of no further use.

        Where nothing does, all pods are as they were, and nodes that are lost at time 0 can be taken away afterwards:
        their pods are collected later than that. Controllers look at pods, which are the same, and not at nodes; but
        for DaemonSets, which look again at each loss (see `is_as_if_new`).
        """
        if min(self.world.horizon, self.world.quiet) <= FIRST_COLLECTION:
            return False
        while self.clock.is_due_before(FIRST_COLLECTION) and not self.timeline.events and self._steps < self.most_steps:
            self._advance()
        return not self.clock.is_due_before(FIRST_COLLECTION) and not self.timeline.events

    def _advance(self) -> None:
        self._steps += 1
        self.clock.advance()

    def expect(self, arrivals: Sequence[Arrival]) -> None:
        """What arrives, from time 0 on, of a simulation that was made without and has not run. After `look_around`:
        losses of nodes alone, and time begins again."""
        self.world, self._arrivals = self.world._replace(arrivals=arrivals), len(arrivals)
        if arrivals:
            self.clock.now = min(self.clock.now, 0.0)
        self._arrange_arrivals()

    @property
    def is_as_if_new(self) -> bool:
        """Of a simulation that has looked around and has run: whether it came to what one would that had not. Else a
        DaemonSet has made or deleted pods at once, while others would have looked for the first time."""
        first = takewhile(lambda event: event.t < FIRST_COLLECTION, self.timeline.events)
        return all(event.event == "nodeRemoved" for event in first)

    def _arrive(self, arrival: Arrival) -> None:
        self._arrivals -= 1
        arrive(self.clock, self.api, self._latencies, self.world.admission, arrival)

    def run(self) -> None:
        """Until the horizon, until all has been quiet for long enough, or until that has become too much work.

        Raises NotPredicted.
        """
        with _seldom_collected:
            self._run()

    def _run(self) -> None:
        for step in range(self._steps, self.most_steps):
            if step % _PROGRESS_EVERY == 0 and self._is_too_large(step):
                return
            time = self.clock.next_time
            if time is None:
                return
            if time > self.world.horizon:
                self.clock.now, self.settled = self.world.horizon, False
                return
            if not self._arrivals and not self.awaited and not self.controllers.terminations:
                quiet = max(self.timeline.last, 0.0) + self.world.quiet
                if time > quiet and not self.controllers.may_try_again:
                    self.clock.now = quiet
                    return
            self.clock.advance()
        self._give_up(f"after {self.most_steps:,} steps")

    def _is_too_large(self, steps: int) -> bool:
        if self._progress is not None:
            self._progress(self.clock.now, steps)
        if self.api.created > MOST_PODS:
            self._give_up(f"after {MOST_PODS:,} new Pods")
        return bool(self.stopped)

    def _give_up(self, why: str) -> None:
        self.stopped, self.settled = why, False

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
            **({"stopped": self.stopped} if self.stopped else {}),
        }


class _SeldomCollected:
    """While any run goes on the collector of cycles looks seldom: else it takes a tenth of a large run, or more.

    Its thresholds are those of the whole process, where several threads may run one.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs = 0
        self._before = 0, 0, 0

    def __enter__(self) -> None:
        with self._lock:
            self._runs += 1
            if self._runs == 1:
                self._before = new, looks, older = gc.get_threshold()
                if new:  # 0: it never looks
                    gc.set_threshold(max(_COLLECT_AFTER[0], new), max(_COLLECT_AFTER[1], looks), older)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._runs -= 1
            if not self._runs:
                gc.set_threshold(*self._before)


_seldom_collected: Final = _SeldomCollected()


def _any_order(pods: Sequence[PodState], random: Random) -> list[PodState]:
    """Pods as the scheduler may have heard of them: of those that came in one second, workload after workload, more
    mixed in one run than in another. A Pod on a node came when it was bound, at most a second before it started.

    Of pods on a node it decides which of one priority that started in one second goes, of those that wait, which of
    one priority is tried first. Source: upstream `MoreImportantPod`, `PrioritySort`; `NodeInfo.Pods` has them in the
    order in which they came.
    """
    mixed = 2 * random.random()
    turns: dict[Key | None, float] = {}

    def turn(state: PodState) -> tuple[float, float]:
        owner = controller_of(state.pod)
        bound = state.pod.start_time if state.pod.node_name else None
        return state.created if bound is None else float(bound), turns.setdefault(
            owner, random.random()
        ) + mixed * random.random()

    return sorted(pods, key=turn)


def _entry(state: PodState) -> dict[str, Any]:
    entry: dict[str, Any] = {"node": state.pod.node_name}
    if state.pod.nominated_node_name:
        entry["nominated"] = state.pod.nominated_node_name
    if state.terminating:
        entry["terminating"] = True
    return entry


def semantics_of(world: World) -> Semantics:
    """What the release and the scheduler's configuration of its cluster change."""
    return DEFAULT if world.base is None else world.base.semantics


def _choose(random: Random | None, names: Sequence[str]) -> str:
    return names[0] if random is None else random.choice(names)
