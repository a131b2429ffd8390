"""Controllers that go by the clock: CronJobs, evictions by taints; and what quotas count."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.controllers.cron_job import most_recent
from forewarn.policies.kubernetes.controllers.taint_eviction import Eviction, evict, tolerated_for
from forewarn.policies.kubernetes.controllers.view import CreateWorkload, DeleteWorkload, PodState, Report, Requeue
from forewarn.policies.kubernetes.kube_apiserver.quota import recalculated
from forewarn.policies.kubernetes.kube_apiserver.validation.batch import InvalidSchedule, parse_schedule
from forewarn.policies.kubernetes.objects.node import Taint
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
from tests.builders import make_pod
from tests.policies.controllers.world import World, workload

START = datetime(2026, 1, 31, 23, 59, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("schedule", "upcoming"),
    [
        ("* * * * *", "2026-02-01 00:00"),
        ("*/15 * * * *", "2026-02-01 00:00"),
        ("5,10-12 6 * * *", "2026-02-01 06:05"),
        ("0 0 29 2 *", "2028-02-29 00:00"),
        ("0 12 * * mon-fri", "2026-02-02 12:00"),
        ("0 0 13 * fri", "2026-02-06 00:00"),
        ("0 0 */10 * 3", "2026-02-01 00:00"),
        ("30 6-16/4 * * 1-5", "2026-02-02 06:30"),
        ("@monthly", "2026-02-01 00:00"),
        ("0 0 31 4 *", None),
    ],
)
def test_when_a_schedule_is_due_next(schedule: str, upcoming: str | None) -> None:
    found = parse_schedule(schedule).next(START)
    assert upcoming == (None if found is None else f"{datetime.fromtimestamp(found, UTC):%Y-%m-%d %H:%M}")


def test_a_schedule_goes_by_its_time_zone() -> None:
    found = parse_schedule("0 6 * * *", ZoneInfo("Asia/Kolkata")).next(START)
    assert found == datetime(2026, 2, 1, 0, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "schedule", ["", "* * * *", "60 * * * *", "* * * * 7", "5-1 * * * *", "*/0 * * * *", "x * * * *"]
)
def test_a_schedule_that_cannot_be_read_is_refused(schedule: str) -> None:
    with pytest.raises(InvalidSchedule):
        parse_schedule(schedule)


@given(st.integers(0, 59), st.integers(1, 12), st.floats(0, 4e6))
def test_the_most_recent_time_is_the_last_one_before_now(minute: int, step: int, elapsed: float) -> None:
    schedule = parse_schedule(f"{minute} */{step} * * *")
    found = most_recent(schedule, START, START + elapsed)
    upcoming = schedule.next(START if found is None else found)
    assert upcoming is not None
    assert upcoming > START + elapsed
    assert found is None or START < found <= START + elapsed


def cron_world(policy: str = "Allow") -> tuple[World, tuple[str, str, str]]:
    world = World(now=START)
    job = workload("Job", parallelism=1)
    obj = {**workload("CronJob"), "spec": {"schedule": "* * * * *", "concurrencyPolicy": policy, "jobTemplate": job}}
    return world, world.add(obj)


@pytest.mark.parametrize(("policy", "jobs", "replaced"), [("Allow", 2, 0), ("Forbid", 1, 0), ("Replace", 1, 1)])
def test_a_run_that_is_due_while_another_one_runs(policy: str, jobs: int, replaced: int) -> None:
    world, key = cron_world(policy)
    (first,) = world.step(key)
    assert first == Requeue(key, START + 30.1)
    deleted = 0
    for _ in range(2):
        world.now = max(a.at for a in world.step(key) if isinstance(a, Requeue))
        actions = world.step(key)
        deleted += sum(isinstance(action, DeleteWorkload) for action in actions)
    assert (len(world.owned(key)), deleted) == (jobs, replaced)
    assert len({state.key[2] for state in world.owned(key)}) == jobs


def test_a_stored_run_is_not_repeated() -> None:
    """The Job may no longer exist: `ttlSecondsAfterFinished`, or a history limit of 0."""
    world, key = cron_world()
    obj = world.objects[key].object
    for minutes, created in ((1, 0), (2, 1)):
        last = datetime.fromtimestamp(START + 30, UTC).isoformat()
        world.add({**obj, "status": {"lastScheduleTime": last}})
        world.now = START + 30 + 60 * (minutes - 1)
        assert sum(isinstance(action, CreateWorkload) for action in world.step(key)) == created


def test_a_run_that_was_missed_by_more_than_its_deadline_is_left_out() -> None:
    world, key = cron_world()
    obj = world.objects[key].object
    world.add({**obj, "spec": {**obj["spec"], "schedule": "0 * * * *", "startingDeadlineSeconds": 10}})
    world.now = START + 120
    assert not [action for action in world.step(key) if isinstance(action, CreateWorkload)]


def test_a_schedule_that_cannot_be_read_is_told() -> None:
    world, key = cron_world()
    obj = world.objects[key].object
    world.add({**obj, "spec": {**obj["spec"], "schedule": "never"}})
    assert [action.reason for action in world.step(key) if isinstance(action, Report)] == ["UnparseableSchedule"]


def tolerating(*tolerations: dict[str, object]) -> PodState:
    return PodState(Pod.from_api(make_pod("p").on("n").spec(tolerations=list(tolerations)).obj))


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        ([], -1),
        ([{"operator": "Exists"}], None),
        ([{"key": "a", "operator": "Exists"}], -1),
        ([{"operator": "Exists", "tolerationSeconds": 300}], 300),
        ([{"key": "a", "operator": "Exists", "tolerationSeconds": 9}, {"operator": "Exists"}], 9),
        ([{"operator": "Exists", "tolerationSeconds": -1}], 0),
    ],
)
def test_for_how_long_taints_are_tolerated(tolerations: list[dict[str, object]], seconds: int | None) -> None:
    taints = [Taint("a", "", "NoExecute"), Taint("b", "", "NoExecute")]
    assert tolerated_for(taints, tolerating(*tolerations).pod.spec.tolerations) == seconds


def test_a_pod_leaves_when_its_time_is_up_and_stays_when_the_taint_goes() -> None:
    pod = tolerating({"operator": "Exists", "tolerationSeconds": 60})
    taint = Taint("a", "", "NoExecute")
    deletes, left = evict([taint], [pod], {}, 100.0)
    assert (deletes, left) == ([], {pod.pod.uid: Eviction(100.0, 160.0)})
    assert evict([Taint("a", "", "NoSchedule")], [pod], left, 120.0) == ([], {})
    deletes, left = evict([taint], [pod], left, 160.0)
    assert ([delete.name for delete in deletes], left) == (["p"], {})
    assert evict([taint], [replace(pod, deleted=160.0)], {}, 170.0) == ([], {})


def test_a_quota_counts_the_pods_that_have_not_ended() -> None:
    hard = {"pods": "5", "requests.cpu": "4"}
    quota = ResourceQuota.from_api({"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}})
    pods = [make_pod(f"p{n}").request(cpu="1500m").obj for n in range(3)]
    pods[2]["status"]["phase"] = "Succeeded"
    found = recalculated(quota, pods)
    assert {name: str(amount) for name, amount in found.used.items()} == {"pods": "2", "requests.cpu": "3"}
