"""The scheduling queue: who is tried next, and what wakes whom."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.objects.node import Node
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.releases.semantics import DEFAULT_SCHEDULER
from forewarn.policies.kubernetes.scheduling.framework import PreEnqueuePlugin, Status, unresolvable
from forewarn.policies.kubernetes.scheduling.plugins.other_points import SchedulingGates
from forewarn.policies.kubernetes.scheduling.queue.priority_queue import (
    Nominator,
    PodHeap,
    PriorityQueue,
    QueuedPodInfo,
)
from forewarn.policies.kubernetes.scheduling.queue.registrations import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    EVENTS_TO_REGISTER,
    NODE,
    NODE_ADD,
    POD,
    UPDATE,
    UPDATE_NODE_ALLOCATABLE,
    UPDATE_NODE_LABEL,
    UPDATE_NODE_TAINT,
    UPDATE_POD_LABEL,
    ClusterEvent,
    QueueingHints,
    node_scheduling_properties_change,
)
from tests.builders import Made, MadePod, make_node, make_pod

ZONE = "topology.kubernetes.io/zone"


def view(made: Made) -> Pod:
    return Pod.from_api(made.obj)


def node(made: Made) -> Node:
    return Node.from_api(made.obj)


class Shut:
    """A gate that somebody opens."""

    name: ClassVar[str] = "DefaultPreemption"

    def __init__(self) -> None:
        self.shut: set[str] = set()

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return unresolvable("shut") if pod.name in self.shut else None


class Desk:
    """A queue, its clock, and the API server's pods."""

    def __init__(self, *gates: PreEnqueuePlugin) -> None:
        self.now = 0.0
        self.stored: dict[str, Pod] = {}
        self.nominated: list[tuple[str, str]] = []
        nominator = Nominator(lambda _, name: self.stored.get(name), self.note)
        self.queue = PriorityQueue(lambda: self.now, nominator, QueueingHints(), {DEFAULT_SCHEDULER: gates})

    def note(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None:
            self.nominated.remove((old.name, old.nominated_node_name))
        if new is not None:
            self.nominated.append((new.name, new.nominated_node_name))

    def add(self, made: MadePod) -> Pod:
        pod = self.stored[made.obj["metadata"]["name"]] = view(made)
        self.queue.add(pod)
        return pod

    def change(self, made: MadePod) -> None:
        new = view(made)
        old, self.stored[new.name] = self.stored[new.name], new
        self.queue.update(old, new)

    def take(self) -> QueuedPodInfo | None:
        info = self.queue.pop()
        assert info is None or isinstance(info, QueuedPodInfo)
        return info

    def pop(self) -> str:
        info = self.take()
        return info.pod.name if info else ""

    def fail(self, *plugins: str, after: float = 0.0) -> str:
        """The next pod is tried and rejected."""
        info = self.take()
        assert info is not None
        self.now += after
        self.reject(info, *plugins)
        return info.pod.name

    def reject(self, info: QueuedPodInfo, *plugins: str) -> None:
        info.unschedulable_plugins = set(plugins)
        self.queue.add_unschedulable_if_not_present(info)

    def happens(self, event: ClusterEvent, old: Any = None, new: Any = None) -> None:
        self.queue.move_all_to_active_or_backoff_queue(event, old, new)


POD_ON_NODE = view(make_pod("gone").on("n1"))


def test_the_highest_priority_comes_first_then_who_waits_longest() -> None:
    desk = Desk()
    for name, priority in (("late", 5), ("low", 1), ("later", 5)):
        desk.add(make_pod(name).priority(priority))
        desk.now += 1
    assert [desk.pop() for _ in range(4)] == ["late", "later", "low", ""]


def test_a_rejected_pod_waits_until_its_plugin_is_told_of_something() -> None:
    desk = Desk()
    desk.add(make_pod("a").request(cpu="1"))
    desk.fail("NodeResourcesFit")
    desk.happens(ASSIGNED_POD_ADD, None, POD_ON_NODE)
    assert desk.pop() == ""
    desk.happens(ASSIGNED_POD_DELETE, POD_ON_NODE)
    assert desk.pop() == "a"


def test_an_idle_scheduler_does_not_wait_for_a_back_off() -> None:
    desk = Desk()
    desk.add(make_pod("a"))
    desk.fail("NodeResourcesFit")
    desk.happens(ASSIGNED_POD_DELETE, POD_ON_NODE)
    assert not len(desk.queue.active)
    assert desk.pop() == "a"


def test_pods_that_are_due_come_before_pods_that_back_off_whatever_their_priority() -> None:
    desk = Desk()
    desk.add(make_pod("high").priority(9))
    desk.fail("NodeResourcesFit")
    desk.happens(ASSIGNED_POD_DELETE, POD_ON_NODE)
    desk.add(make_pod("low"))
    assert [desk.pop(), desk.pop()] == ["low", "high"]


def test_of_pods_that_back_off_the_earlier_second_comes_first_then_the_priority() -> None:
    desk = Desk()
    for name, priority, when in (("early", 1, 0.1), ("low", 2, 1.2), ("high", 3, 1.9)):
        desk.now = when
        desk.add(make_pod(name).priority(priority))
        desk.fail("NodeResourcesFit")
    desk.happens(ASSIGNED_POD_DELETE, POD_ON_NODE)
    assert [desk.pop() for _ in range(3)] == ["early", "high", "low"]


def test_back_off_doubles_up_to_ten_seconds() -> None:
    desk = Desk()
    desk.add(make_pod("a"))
    expirations = []
    for _ in range(6):
        desk.now = 0.0
        desk.fail("NodeResourcesFit")
        desk.happens(ASSIGNED_POD_DELETE, POD_ON_NODE)
        info = next(iter(desk.queue.backoff))
        expirations.append(desk.queue.backoff.expiration(info))
    assert expirations == [1, 2, 4, 8, 10, 10]


def test_after_an_error_a_pod_waits_for_the_whole_second_after_its_back_off() -> None:
    desk = Desk()
    desk.add(make_pod("a"))
    desk.now = 0.5
    desk.fail()
    assert desk.pop() == ""
    desk.now = 1.0
    desk.queue.flush_backoff_completed()
    assert desk.pop() == ""
    desk.now = 2.0
    desk.queue.flush_backoff_completed()
    assert desk.pop() == "a"


def test_what_happens_during_an_attempt_counts_when_it_has_failed() -> None:
    desk = Desk()
    desk.add(make_pod("a"))
    info = desk.take()
    assert info is not None
    desk.happens(ASSIGNED_POD_DELETE, POD_ON_NODE)
    desk.reject(info, "NodeResourcesFit")
    assert desk.pop() == "a"


def test_what_happened_before_an_attempt_does_not() -> None:
    desk = Desk()
    desk.add(make_pod("a"))
    desk.happens(ASSIGNED_POD_DELETE, POD_ON_NODE)
    desk.fail("NodeResourcesFit")
    assert desk.pop() == ""


def test_five_minutes_after_its_last_attempt_a_pod_is_tried_again() -> None:
    desk = Desk()
    desk.add(make_pod("a"))
    desk.fail("NodeAffinity", after=1.0)
    desk.now = 301.0
    desk.queue.flush_unschedulable_leftover()
    assert desk.pop() == ""
    desk.now = 301.5
    desk.queue.flush_unschedulable_leftover()
    assert desk.pop() == "a"


def test_a_gate_keeps_a_pod_out_until_it_is_gone() -> None:
    desk = Desk(SchedulingGates)
    desk.add(make_pod("a").spec(schedulingGates=[{"name": "g"}]))
    desk.happens(ASSIGNED_POD_DELETE, POD_ON_NODE)
    assert desk.pop() == ""
    desk.change(make_pod("a").spec(schedulingGates=[]))
    assert desk.pop() == "a"


def test_who_is_gated_by_its_own_preemption_is_woken_by_pods_that_go_alone() -> None:
    """No event of a node and no flush moves it, after the preemption is over too."""
    gate = Shut()
    desk = Desk(gate)
    desk.add(make_pod("a").request(cpu="1"))
    desk.fail("NodeResourcesFit")
    gate.shut.add("a")
    desk.happens(ASSIGNED_POD_DELETE, POD_ON_NODE)
    gate.shut.clear()
    desk.happens(NODE_ADD, None, node(make_node("n2")))
    desk.now = 1000.0
    desk.queue.flush_unschedulable_leftover()
    assert desk.pop() == ""
    desk.happens(ASSIGNED_POD_DELETE, POD_ON_NODE)
    assert desk.pop() == "a"


def test_a_pod_that_goes_is_in_no_queue() -> None:
    desk = Desk()
    for plugins in ((), ("NodeAffinity",)):
        pod = desk.add(make_pod("a"))
        desk.fail(*plugins)
        desk.queue.delete(pod)
        assert not list(desk.queue)


def test_a_nomination_that_is_not_stored_yet_survives_an_update() -> None:
    desk = Desk()
    pod = desk.add(make_pod("a"))
    desk.fail("NodeResourcesFit")
    desk.queue.nominator.add(pod, "n1")
    desk.change(make_pod("a").labels(new="label"))
    assert desk.nominated == [("a", "n1")]
    desk.change(make_pod("a").nominated("n2"))
    assert desk.nominated == [("a", "n2")]
    desk.change(make_pod("a"))
    assert desk.nominated == []


def test_nobody_is_nominated_who_is_bound_or_gone() -> None:
    desk = Desk()
    pod = view(make_pod("a"))
    desk.queue.nominator.add(pod, "n1")
    desk.stored["a"] = view(make_pod("a").on("n2"))
    desk.queue.nominator.add(pod, "n1")
    assert desk.nominated == []
    assert desk.queue.nominator.pods_for_node("n1") == []


def test_who_is_nominated_as_before_is_the_last_of_his_node_and_nobody_is_told() -> None:
    desk = Desk()
    nominator, told = desk.queue.nominator, desk.nominated
    a, b = (desk.add(make_pod(name)) for name in "ab")
    nominator.add(a, "n1")
    nominator.add(b, "n1")
    nominator.add(a, "n1")
    assert told == [("a", "n1"), ("b", "n1")]
    assert [pod.name for pod in nominator.pods_for_node("n1")] == ["b", "a"]
    nominator.add(a, "n2")
    assert told == [("b", "n1"), ("a", "n2")]
    nominator.add(a, "")
    nominator.add(a, "")
    assert told == [("b", "n1")]


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 3), st.booleans())))
def test_a_heap_gives_its_pods_in_order(steps: list[tuple[str, int, bool]]) -> None:
    heap = PodHeap(lambda info: info.timestamp)
    there: dict[str, float] = {}
    for name, when, takes in steps:
        if takes:
            assert (heap.take(("default", name)) is None) == (there.pop(name, None) is None)
        else:
            heap.put(QueuedPodInfo(pod=view(make_pod(name)), timestamp=when))
            there[name] = when
    popped = []
    while (info := heap.pop()) is not None:
        popped.append(info)
    assert [info.timestamp for info in popped] == sorted(there.values())
    assert {info.key[1] for info in popped} == set(there)


A = make_pod("a").request(cpu="2").labels(app="x")
SPREAD = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
TERM = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "x"}}}


def labelled(name: str) -> MadePod:
    return make_pod(name).labels(app="x").on("n1")


N = make_node("n1")
IN_ZONE = make_pod("a").spec(nodeSelector={ZONE: "z"})
NEAR, FAR = (make_pod("a").affinity(kind, TERM) for kind in ("podAffinity", "podAntiAffinity"))
ALOOF = make_pod("b").affinity("podAntiAffinity", TERM).on("n1")
EVEN = make_pod("a").spec(topologySpreadConstraints=[{**SPREAD, "labelSelector": TERM["labelSelector"]}])


@pytest.mark.parametrize(
    ("plugin", "pod", "event", "old", "new", "woken"),
    [
        ("NodeResourcesFit", A, NODE_ADD, None, make_node("n").has(cpu="1"), False),
        ("NodeResourcesFit", A, NODE_ADD, None, make_node("n").has(cpu="2"), True),
        ("NodeResourcesFit", A, UPDATE_NODE_ALLOCATABLE, N, make_node("n1").has(cpu="5"), True),
        ("NodeResourcesFit", A, UPDATE_NODE_ALLOCATABLE, N, make_node("n1").has(memory="9Gi"), False),
        ("NodeResourcesFit", A, UPDATE_NODE_LABEL, N, make_node("n1").zone("z"), False),
        ("NodeResourcesFit", A, UPDATE_NODE_TAINT, N, make_node("n1").taint("t"), True),
        ("NodeResourcesFit", A, ASSIGNED_POD_DELETE, make_pod("waits"), None, False),
        ("NodeResourcesFit", A, ASSIGNED_POD_DELETE, make_pod("waits").nominated("n1"), None, True),
        ("TaintToleration", A, UPDATE_NODE_TAINT, make_node("n1").taint("t"), N, True),
        ("TaintToleration", A, UPDATE_NODE_TAINT, N, make_node("n1").taint("t"), False),
        ("NodeUnschedulable", A, UPDATE_NODE_TAINT, make_node("n1").spec(unschedulable=True), N, True),
        ("NodeUnschedulable", A, UPDATE_NODE_TAINT, N, N, False),
        ("NodeAffinity", IN_ZONE, UPDATE_NODE_LABEL, N, make_node("n1").zone("z"), True),
        ("NodeAffinity", IN_ZONE, NODE_ADD, None, N, False),
        ("NodePorts", make_pod("a").port(80), ASSIGNED_POD_DELETE, make_pod("b").port(80).on("n1"), None, True),
        ("NodePorts", make_pod("a").port(80), ASSIGNED_POD_DELETE, make_pod("b").port(81).on("n1"), None, False),
        ("InterPodAffinity", NEAR, ASSIGNED_POD_ADD, None, labelled("b"), True),
        ("InterPodAffinity", NEAR, ASSIGNED_POD_DELETE, labelled("b"), None, False),
        ("InterPodAffinity", FAR, ASSIGNED_POD_DELETE, labelled("b"), None, True),
        ("InterPodAffinity", A, ASSIGNED_POD_DELETE, ALOOF, None, True),
        ("InterPodAffinity", FAR, NODE_ADD, None, N, True),
        ("InterPodAffinity", NEAR, NODE_ADD, None, N, False),
        ("InterPodAffinity", NEAR, NODE_ADD, None, make_node("n").zone("z"), True),
        ("PodTopologySpread", EVEN, ASSIGNED_POD_ADD, None, labelled("b"), True),
        ("PodTopologySpread", EVEN, ASSIGNED_POD_ADD, None, make_pod("b").on("n1"), False),
        ("PodTopologySpread", EVEN, NODE_ADD, None, N, False),
        ("PodTopologySpread", EVEN, NODE_ADD, None, make_node("n").zone("z"), True),
        ("DefaultPreemption", A, ASSIGNED_POD_DELETE, labelled("b"), None, False),
    ],
)  # fmt: skip
def test_hints(plugin: str, pod: MadePod, event: Any, old: Made | None, new: Made | None, woken: bool) -> None:
    event = ClusterEvent(NODE, event) if isinstance(event, int) else event
    read: Any = node if event.resource == NODE else view
    objects = [None if made is None else read(made) for made in (old, new)]
    hints = QueueingHints().hints_for(event).get(plugin, ())
    assert any(hint(view(pod), *objects) for hint in hints) == woken


def test_a_general_update_wakes_only_who_registered_for_every_update() -> None:
    registered = ClusterEvent(POD, UPDATE_POD_LABEL)
    assert registered.covers(ClusterEvent("AssignedPod", UPDATE_POD_LABEL))
    assert not registered.covers(ClusterEvent("AssignedPod", UPDATE))
    assert ClusterEvent(POD, UPDATE).covers(ClusterEvent("AssignedPod", UPDATE_POD_LABEL))
    assert not registered.covers(ClusterEvent(NODE, UPDATE_POD_LABEL))


def test_what_changes_in_a_node() -> None:
    changes = {
        UPDATE_NODE_TAINT: [N, make_node("n1").taint("t")],
        UPDATE_NODE_LABEL: [N, make_node("n1").zone("z")],
        UPDATE_NODE_ALLOCATABLE: [N, make_node("n1").has(cpu="9")],
    }
    for action, (old, new) in changes.items():
        assert node_scheduling_properties_change(node(new), node(old)) == [ClusterEvent(NODE, action)]
    cordoned = node(make_node("n1").spec(unschedulable=True))
    assert node_scheduling_properties_change(cordoned, node(N)) == []
    assert node_scheduling_properties_change(node(N), cordoned) == [ClusterEvent(NODE, UPDATE_NODE_TAINT)]


def test_every_plugin_that_rejects_pods_waits_for_something() -> None:
    from forewarn.policies.kubernetes.scheduling.framework import EXTENSION_POINTS, implements
    from forewarn.policies.kubernetes.scheduling.plugins.registry import IN_TREE

    points = "preEnqueue", "preFilter", "filter", "reserve", "permit"
    rejecting = {n for n, plugin in IN_TREE.items() if any(implements(plugin, EXTENSION_POINTS[p]) for p in points)}
    assert rejecting - {*EVENTS_TO_REGISTER} == set()
