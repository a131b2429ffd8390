"""Jobs in a simulation: when they make pods again. The times are those of `oracle scenarios`."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.policies.prediction.simulation.scenario import Arrival, DumpCache, world_of
from forewarn.policies.prediction.simulation.simulation import Simulation
from tests.builders import Made, make_node, make_pod
from tests.recorded.commands import answer_scenario as answer_case

END = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "j-1", "namespace": "default"}}


def outcome(policy: str, *, scaling_down: bool = True) -> dict[str, Any]:
    """A Job of one pod with a grace of a minute, which somebody deletes after 10.5 s."""
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never", "terminationGracePeriodSeconds": 60}
    template = {"metadata": {"labels": {"app": "j"}}, "spec": pod}
    job = Made("batch/v1", "Job", "j", "default").spec(podReplacementPolicy=policy, template=template)
    arrivals = [{"at": 1, "op": "create", "object": job.obj}, {"at": 10.5, "op": "delete", "object": END}]
    case = {"nodes": [make_node("n1").obj], "arrivals": arrivals, "scalingDown": scaling_down}
    (found,) = answer_case(case)["outcomes"]
    return dict(found)


@pytest.mark.parametrize(
    ("policy", "again"),
    [("TerminatingOrFailed", 20.001), ("Failed", 80.001)],
    ids=["10 s after it was told to end", "10 s after it has ended"],
)
def test_the_back_off_begins_when_the_pod_counts_as_failed(policy: str, again: float) -> None:
    created = [event["t"] for event in outcome(policy)["timeline"] if event["event"] == "created"]
    assert created[1:] == [pytest.approx(again, abs=1e-3)]


def test_a_job_looks_again_a_second_after_its_own_status_has_changed() -> None:
    """So it may miss the end of its back-off. The pod ends at 18.55 s, the Job looks at 19.55, and again a second after
    it has written that no pod is ending any more: of the 10 s less than one is left, and it waits one. Source:
    `updateJob`, `enqueueSyncJobWithDelay`.
    """
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never", "terminationGracePeriodSeconds": 10}
    template = {"metadata": {"labels": {"app": "j"}, "annotations": {"terminationSeconds": "7"}}, "spec": pod}
    job = Made("batch/v1", "Job", "j", "default").spec(template=template)
    arrivals = [{"at": 1, "op": "create", "object": job.obj}, {"at": 11.55, "op": "delete", "object": END}]
    (found,) = answer_case({"nodes": [make_node("n1").obj], "arrivals": arrivals, "scalingDown": True})["outcomes"]
    created = [event["t"] for event in found["timeline"] if event["event"] == "created"]
    assert created[1:] == [pytest.approx(21.553, abs=1e-3)]


@pytest.mark.parametrize(
    ("spec", "failures", "created", "failure"),
    [
        ({"backoffLimitPerIndex": 0}, 0, [], "FailedIndexes"),
        ({"backoffLimitPerIndex": 1}, 0, [10], ""),
        ({"backoffLimitPerIndex": 1}, 1, [], "FailedIndexes"),
        ({"backoffLimitPerIndex": 2}, 1, [20], ""),
        ({"backoffLimitPerIndex": 0, "completions": 2, "parallelism": 2}, 0, [0], ""),
        ({"backoffLimitPerIndex": 0, "completions": 2, "maxFailedIndexes": 0}, 0, [], "MaxFailedIndexesExceeded"),
    ],
)
def test_an_index_fails_with_more_failures_than_its_limit(
    spec: dict[str, Any], failures: int, created: list[int], failure: str
) -> None:
    """A Pod of index 0 is deleted, which had `failures` before. Source: `isIndexFailed`."""
    pod = make_pod("j-0-a").on("n1").labels(**{"batch.kubernetes.io/job-completion-index": "0"})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    counted = {"batch.kubernetes.io/job-index-failure-count": f"{failures}"}
    pod.metadata(ownerReferences=[owner], annotations=counted)
    template = {"spec": {**pod.obj["spec"], "nodeName": "", "restartPolicy": "Never"}}
    job = Made("batch/v1", "Job", "j", "default").metadata(uid="j")
    job.spec(**{"completionMode": "Indexed", "completions": 1, "template": template, **spec})
    cache = DumpCache()
    for made in (make_node("n1"), pod, job):
        cache.add(made.obj)
    simulation = Simulation(world_of(cache, [Arrival(0.0, "delete", pod.obj)], until=600.0))
    simulation.run()
    events = simulation.timeline.events
    assert [round(event.t) for event in events if event.event == "created"] == created
    assert simulation.api.workloads["batch/Job", "default", "j"].status.failure == failure


def test_a_cron_job_starts_no_other_run_while_the_pods_of_a_failed_one_end() -> None:
    """With concurrencyPolicy Forbid: the Job of 0:01 fails after 30 s, and its pod has 100 s to end."""
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never", "terminationGracePeriodSeconds": 100}
    spec = {"activeDeadlineSeconds": 30, "template": {"metadata": {"labels": {"app": "c"}}, "spec": pod}}
    given = {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": spec}}
    cron = Made("batch/v1", "CronJob", "c", "default").spec(**given).obj
    case = {
        "nodes": [make_node("n1").obj],
        "arrivals": [{"at": 1, "op": "create", "object": cron}],
        "scalingDown": True,
    }
    (found,) = answer_case({**case, "horizonSeconds": 200})["outcomes"]
    times = {what: [e["t"] for e in found["timeline"] if e["event"] == what] for what in ("created", "deleted", "gone")}
    assert times["deleted"][0] == pytest.approx(90, abs=1)
    assert times["gone"][0] == pytest.approx(190, abs=1)
    assert times["created"][1:] == [pytest.approx(times["gone"][0] + 1, abs=0.1)]


def test_in_the_world_of_the_recordings_it_begins_with_the_delete() -> None:
    """So 10 s are over when the pod ends, and its Job is synced a second later."""
    events = outcome("Failed", scaling_down=False)["timeline"]
    gone, again = (next(e["t"] for e in events if e["event"] == what and e["t"] > 11) for what in ("gone", "created"))
    assert again - gone == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(("deadline", "failures"), [(600, 0), (5 * 10**9, 0), (2**63 - 1, 1)])
def test_a_deadline_has_64_bits(deadline: int, failures: int) -> None:
    """Also of a CronJob. Go's `time.Duration(deadline) * time.Second` overflows: the last one is -1 s."""
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    spec = {"activeDeadlineSeconds": deadline, "template": {"metadata": {"labels": {"app": "c"}}, "spec": pod}}
    given = {
        "schedule": "* * * * *",
        "startingDeadlineSeconds": min(deadline, 5 * 10**9),
        "concurrencyPolicy": "Forbid",
    }
    cron = Made("batch/v1", "CronJob", "c", "default").spec(**given, jobTemplate={"spec": spec}).obj
    arrivals = [{"at": 1, "op": "create", "object": cron}]
    case = {"nodes": [make_node("n1").obj], "arrivals": arrivals, "scalingDown": True, "horizonSeconds": 100}
    (found,) = answer_case(case)["outcomes"]
    events = [event["event"] for event in found["timeline"]]
    assert ("created" in events, events.count("jobFailed")) == (not failures, failures)


def test_a_job_that_goes_on_has_its_whole_deadline_again() -> None:
    """Suspended after 30 of 60 s and resumed at 100 s, it ends its pod 60 s later. It has failed when it has looked a
    second after that pod is gone, which had a second to end. Source: syncJob (`JobResumed`), `enactJobFinished`.
    """

    def job(*, suspend: bool) -> dict[str, Any]:
        pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
        template = {"metadata": {"labels": {"app": "j"}}, "spec": {**pod, "terminationGracePeriodSeconds": 1}}
        spec = {"activeDeadlineSeconds": 60, "suspend": suspend, "template": template}
        return dict(Made("batch/v1", "Job", "j", "default").spec(**spec).obj)

    steps = ((1, "create", False), (31, "update", True), (100, "update", False))
    arrivals = [{"at": at, "op": op, "object": job(suspend=suspend)} for at, op, suspend in steps]
    (found,) = answer_case({"nodes": [make_node("n1").obj], "arrivals": arrivals, "scalingDown": True})["outcomes"]
    ends = [event["t"] for event in found["timeline"] if event["event"] in ("deleted", "jobFailed")]
    assert ends[1:] == [pytest.approx(160, abs=0.1), pytest.approx(162, abs=0.1)]


def test_a_cron_job_does_not_start_before_its_time_when_a_pod_of_its_job_changes() -> None:
    """It waits a tenth of a second longer than its schedule says, and only its Jobs wake it. Source: syncCronJob."""
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never", "terminationGracePeriodSeconds": 5}
    template = {"metadata": {"labels": {"app": "c"}}, "spec": pod}
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}
    made = Made("batch/v1", "CronJob", "c", "default").spec(**spec).obj
    first = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c-29671201-1", "namespace": "default"}}
    arrivals = [{"at": 1, "op": "create", "object": made}, {"at": 115.05, "op": "delete", "object": first}]
    case = {"nodes": [make_node("n1").obj], "arrivals": arrivals, "scalingDown": True, "horizonSeconds": 122}
    (found,) = answer_case(case)["outcomes"]
    times = [event["t"] for event in found["timeline"] if event["event"] == "created"]
    assert times[:2] == [pytest.approx(60.1, abs=0.01), pytest.approx(120.1, abs=0.01)]


IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
NODE = make_node("n1")
TAINTED = make_node("n1").spec(taints=[{"key": "k", "effect": "NoExecute"}]).obj
EVICTED = {"at": 10, "op": "drain", "object": NODE.obj}


@pytest.mark.parametrize(
    ("arrivals", "again"),
    [
        ([EVICTED], True),
        ([{**EVICTED, "op": "update", "object": TAINTED}], True),
        ([{**EVICTED, "op": "delete"}], True),
        ([{**EVICTED, "op": "delete", "object": END}], False),
        ([{**EVICTED, "op": "delete", "object": END}, {**EVICTED, "at": 11}], True),
    ],
    ids=["drained", "tainted", "lost", "deleted", "deleted, then drained"],
)
def test_a_job_that_ignores_disruptions_goes_on_unless_somebody_else_deletes_its_pod(
    arrivals: list[dict[str, Any]], again: bool
) -> None:
    """A Job without retries. Who evicts for a drain or a taint, and who collects the pods of a lost node, gives the
    condition DisruptionTarget, as preemption does. The endings are those of `oracle scenarios`."""
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never", "terminationGracePeriodSeconds": 5}
    spec = {"backoffLimit": 0, "podFailurePolicy": {"rules": [IGNORE]}, "template": {"spec": pod}}
    created = {"at": 1, "op": "create", "object": Made("batch/v1", "Job", "j", "default").spec(**spec).obj}
    nodes = [NODE.obj, make_node("n2").spec(taints=[{"key": "later", "effect": "NoSchedule"}]).obj]
    free = {"at": 5, "op": "update", "object": make_node("n2").obj}
    case = {"nodes": nodes, "arrivals": [created, free, *arrivals], "scalingDown": True}
    (found,) = answer_case(case)["outcomes"]
    assert list(found["final"]) == (["default/j-2"] if again else [])


def pods_made(job: Made, *pods: Made) -> int:
    """How many pods a stored Job makes though nothing happens."""
    cache = DumpCache()
    for one in (make_node("n1"), job, *pods):
        cache.add(one.obj)
    simulation = Simulation(world_of(cache, [], until=3600))
    there = {state.pod.key for state in simulation.api.pods.values()}
    simulation.run()
    return sum(event.event == "created" for event in simulation.timeline.events if event.pod not in there)


def stored_job(status: dict[str, Any], **spec: Any) -> Made:
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    template = {"metadata": {"labels": {"app": "j"}}, "spec": pod}
    return Made("batch/v1", "Job", "j", "default").spec(template=template, **spec).status(**status)


def condition(type_: str, status: str = "True") -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": status}]}


@pytest.mark.parametrize(
    ("status", "made"),
    [
        (condition("Failed"), 0),
        (condition("Complete"), 0),
        (condition("SuccessCriteriaMet"), 0),
        (condition("FailureTarget"), 0),
        (condition("Failed", "False"), 10),
        ({"startTime": "2026-01-01T00:00:00Z"}, 10),
        ({"startTime": "2026-01-01T00:00:00Z", "succeeded": 7}, 3),
        ({"startTime": "2026-01-01T00:00:00Z", "succeeded": 10}, 0),
        ({"startTime": "2026-01-01T00:00:00Z", "failed": 7}, 0),
        ({"startTime": "2026-01-01T00:00:00Z", "failed": "7"}, 10),
        ({}, 10),
    ],
)
def test_a_job_whose_pods_are_gone_is_continued_by_its_status(status: dict[str, Any], made: int) -> None:
    assert pods_made(stored_job(status, parallelism=10, completions=10)) == made


@pytest.mark.parametrize(("listed", "made"), [("0-3,5", 5), ("0-9", 0), ("0,2,4,6,8", 5), ("x,-1,3-,99999999999,7", 9)])
def test_an_indexed_job_makes_the_indexes_that_are_missing(listed: str, made: int) -> None:
    status = {"startTime": "2026-01-01T00:00:00Z", "completedIndexes": listed}
    job = stored_job(status, parallelism=10, completions=10, completionMode="Indexed")
    assert pods_made(job) == made


def test_a_pod_that_has_ended_and_is_there_is_counted_once() -> None:
    status = {"startTime": "2026-01-01T00:00:00Z", "succeeded": 4}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": True}
    done = make_pod("j-1").on("n1").status(phase="Succeeded").metadata(ownerReferences=[owner])
    assert pods_made(stored_job(status, parallelism=10, completions=10), done) == 6
