"""PodGroups in the scheduling queue: which Pods are scheduled together, and when."""

from __future__ import annotations

from math import floor
from typing import Any, ClassVar

import pytest

from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.objects.pod_group import PodGroup
from forewarn.policies.kubernetes.releases.semantics import DEFAULT_SCHEDULER
from forewarn.policies.kubernetes.scheduling.framework import Code, Status, unresolvable
from forewarn.policies.kubernetes.scheduling.queue.priority_queue import Nominator, PriorityQueue, QueuedPodGroupInfo
from forewarn.policies.kubernetes.scheduling.queue.registrations import (
    ASSIGNED_POD_DELETE,
    POD_GROUP_UPDATE,
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD_ADD,
    ClusterEvent,
    QueueingHints,
)
from tests.builders import MadePod, make_pod


def member(name: str, group: str = "g") -> MadePod:
    return make_pod(name).spec(schedulingGroup={"podGroupName": group})


def pod_group(name: str = "g", priority: int = 0, least: int = 0) -> PodGroup:
    return PodGroup("default", name, priority, False, (), least)


class Gate:
    """GangScheduling, by the number of Pods that it has been told of."""

    name: ClassVar[str] = "GangScheduling"

    def __init__(self) -> None:
        self.least, self.pods = 0, 0

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return unresolvable("too few") if pod.spec.pod_group and self.pods < self.least else None


class Desk:
    def __init__(self) -> None:
        self.now = 0.0
        self.gate = Gate()
        nominator = Nominator(lambda _namespace, _name: None, lambda _old, _new: None)
        gates = {DEFAULT_SCHEDULER: [self.gate]}
        self.queue = PriorityQueue(lambda: self.now, nominator, QueueingHints(), gates, has_pod_groups=True)
        assert self.queue.groups is not None
        self.groups = self.queue.groups

    def add(self, *names: str, group: str = "g") -> None:
        for name in names:
            self.gate.pods += 1
            pod = Pod.from_api((member(name, group) if group else make_pod(name)).obj)
            self.queue.add(pod)
            self.happens(UNSCHEDULED_POD_ADD, None, pod)

    def happens(self, event: ClusterEvent, old: Any = None, new: Any = None) -> None:
        self.queue.move_all_to_active_or_backoff_queue(event, old, new)

    def pop(self) -> list[str]:
        """The names of the Pods that are tried together."""
        self.popped = self.queue.pop()
        return [] if self.popped is None else [each.pod.name for each in self.popped.members]

    def fail(self, *names: str, code: Code | None = Code.UNSCHEDULABLE) -> None:
        """What was popped was tried; these Pods come back."""
        assert isinstance(self.popped, QueuedPodGroupInfo)
        for info in list(self.popped.members):
            if info.pod.name in names:
                self.queue.add_unschedulable_if_not_present(info)
            else:
                self.queue.done(info.pod)
        self.groups.add_attempted(self.popped, code)

    def after(self, seconds: float) -> list[str]:
        self.now += seconds
        self.queue.flush_backoff_completed()
        return self.pop()


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_pods_without_their_podgroup_are_kept_aside(desk: Desk) -> None:
    desk.add("b", "a")
    assert desk.pop() == []
    assert sorted(info.pod.name for info in desk.queue) == ["a", "b"]
    desk.groups.add_group(pod_group())
    assert desk.pop() == ["a", "b"]


def test_without_podgroups_every_pod_is_tried_alone() -> None:
    nominator = Nominator(lambda _namespace, _name: None, lambda _old, _new: None)
    queue = PriorityQueue(lambda: 0.0, nominator, QueueingHints())
    for name in ("a", "b"):
        queue.add(Pod.from_api(member(name).obj))
    first = queue.pop()
    assert first is not None
    assert [each.pod.name for each in first.members] == ["a"]


def test_a_group_is_ordered_by_its_own_priority(desk: Desk) -> None:
    desk.groups.add_group(pod_group("low", -1))
    desk.groups.add_group(pod_group("high", 1))
    desk.add("l", group="low")
    desk.add("alone", group="")
    desk.add("h", group="high")
    assert [desk.pop(), desk.pop(), desk.pop()] == [["h"], ["alone"], ["l"]]


def test_a_group_waits_for_enough_pods_and_for_a_lower_mincount(desk: Desk) -> None:
    desk.gate.least = 3
    desk.groups.add_group(pod_group(least=3))
    desk.add("a", "b")
    assert desk.pop() == []
    desk.add("c")
    assert desk.pop() == ["a", "b", "c"]

    desk = Desk()
    desk.gate.least = 3
    desk.groups.add_group(pod_group(least=3))
    desk.add("a", "b")
    desk.gate.least = 2
    desk.happens(ASSIGNED_POD_DELETE, Pod.from_api(make_pod("gone").on("n1").obj))
    assert desk.pop() == []
    desk.groups.update_group(pod_group(least=2))
    desk.happens(POD_GROUP_UPDATE, pod_group(least=3), pod_group(least=2))
    assert desk.pop() == ["a", "b"]


def test_the_flush_looks_at_a_gated_group_again(desk: Desk) -> None:
    desk.gate.least = 2
    desk.groups.add_group(pod_group(least=2))
    desk.add("a")
    desk.gate.least = 1
    desk.happens(UNSCHEDULABLE_TIMEOUT)
    assert desk.pop() == ["a"]


@pytest.mark.parametrize("pods", [1, 4, 9])
def test_the_back_off_of_a_group_grows_with_its_size_and_no_event_ends_it(desk: Desk, pods: int) -> None:
    names = [f"p{number}" for number in range(pods)]
    desk.groups.add_group(pod_group())
    desk.add(*names)
    assert desk.pop() == names
    for wait in (1, 2, 4, 8, 16, 32, 64):
        desk.fail(*names)
        desk.happens(ASSIGNED_POD_DELETE, Pod.from_api(make_pod("gone").on("n1").obj))
        expected = min(wait, 10 * pods**0.5)
        assert desk.pop() == []
        assert desk.after(floor(expected)) == []
        assert desk.after(1) == names


def test_an_error_has_a_back_off_of_its_own(desk: Desk) -> None:
    desk.groups.add_group(pod_group())
    desk.add("a")
    for code, wait in ((Code.UNSCHEDULABLE, 1), (Code.UNSCHEDULABLE, 2), (Code.ERROR, 1), (Code.ERROR, 2)):
        desk.now += 100
        assert desk.after(0) == ["a"]
        desk.fail("a", code=code)
        assert desk.after(wait) == []
    assert desk.after(1) == ["a"]


def test_after_a_success_the_others_are_tried_at_once_before_who_came_later(desk: Desk) -> None:
    desk.groups.add_group(pod_group())
    desk.add("a", "b")
    assert desk.pop() == ["a", "b"]
    desk.now = 5
    desk.add("alone", group="")
    desk.fail("b", code=None)
    assert [desk.pop(), desk.pop()] == [["b"], ["alone"]]


def test_a_pod_that_comes_during_the_cycle_joins_afterwards(desk: Desk) -> None:
    desk.groups.add_group(pod_group())
    desk.add("b")
    assert desk.pop() == ["b"]
    desk.add("a")
    assert desk.queue.pop() is None
    desk.fail("b")
    assert desk.after(2) == ["b", "a"]  # who was tried more often is first


def test_a_pod_that_comes_during_the_back_off_waits_for_its_end(desk: Desk) -> None:
    desk.groups.add_group(pod_group())
    desk.add("a")
    desk.pop()
    desk.fail("a")
    desk.add("b")
    assert desk.pop() == []
    assert desk.after(2) == ["a", "b"]


def test_a_deleted_pod_leaves_its_group_and_a_deleted_group_leaves_its_pods(desk: Desk) -> None:
    desk.groups.add_group(pod_group())
    desk.add("a", "b")
    desk.queue.delete(Pod.from_api(member("a").obj))
    assert desk.queue.get(Pod.from_api(member("a").obj)) is None
    desk.groups.delete_group(pod_group())
    assert desk.pop() == []
    found = desk.queue.get(Pod.from_api(member("b").obj))
    assert found is not None
    assert found.pod.name == "b"
    desk.groups.add_group(pod_group())
    assert desk.pop() == ["b"]


def test_a_group_that_was_deleted_during_its_cycle_is_incomplete_afterwards(desk: Desk) -> None:
    desk.groups.add_group(pod_group())
    desk.add("a")
    desk.pop()
    desk.groups.delete_group(pod_group())
    desk.fail("a")
    assert desk.after(10) == []
    desk.groups.add_group(pod_group())
    assert desk.pop() == ["a"]


def test_an_empty_group_is_in_no_queue_and_starts_afresh(desk: Desk) -> None:
    desk.groups.add_group(pod_group())
    desk.add("a")
    desk.pop()
    desk.fail("a")
    desk.queue.delete(Pod.from_api(member("a").obj))
    desk.add("b")
    assert desk.pop() == ["b"]
