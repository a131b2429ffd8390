"""New Pods and PodGroups whose priority differs from that of their class: kube-apiserver rejects them, so no command
predicts them.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders import Made, cluster_text, make_node, make_pod, make_priority_class
from tests.in_process import forewarn

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import CompletedProcess

SAMPLE = "webhook/sample/manifests/mutated.yaml"
NOT_OF_CLASS = (
    "spec.priority: the integer value of priority ({}) must not be provided in pod spec; "
    "priority admission controller computed {} from the given PriorityClass name. Fix: remove priority"
)


def deployment(name: str, **pod: Any) -> Made:
    made = make_pod(name).of_class(5).request(cpu="1").spec(**pod).labels(app=name).obj
    template = {"metadata": made["metadata"], "spec": made["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    return Made("apps/v1", "Deployment", name, "default").spec(**spec)


def group(priority: int) -> Made:
    made = Made("scheduling.k8s.io/v1beta1", "PodGroup", "train", "default")
    return made.spec(schedulingPolicy={"basic": {}}, priorityClassName="class-5", priority=priority)


def asked(directory: Path, command: str, new: list[Made], *stored: Made) -> CompletedProcess[str]:
    there = [
        make_node("n1"),
        make_priority_class(5),
        make_priority_class(7, "never", preemptionPolicy="Never"),
        *stored,
    ]
    (directory / "cluster.json").write_text(cluster_text(there))
    (directory / "new.json").write_text("\n".join(f"---\n{json.dumps(each.obj)}" for each in new))
    return forewarn(*command.split(), "-f", directory / "new.json", "--cluster", directory / "cluster.json")


@pytest.mark.parametrize("command", ["predict", "whatif apply", "headroom"])
def test_a_mutated_pod_is_rejected_with_its_position_and_a_fix(command: str) -> None:
    answer = forewarn(*command.split(), "-f", SAMPLE, "--cluster", "webhook/sample/cluster.yaml")
    problem = f"{SAMPLE}:9:13: Pod reports/report-now: {NOT_OF_CLASS.format(1000000, 100)}\n"
    assert answer.stderr == f"forewarn {command.partition(' ')[0]}: {problem}"
    first = "REJECTED  Pod reports/report-now: the integer value of priority (1000000) must not be provided in"
    assert (answer.returncode, answer.stdout[: len(first)]) == (3, first)
    assert "…" not in answer.stdout, "the whole reason"


@pytest.mark.parametrize(
    ("pod", "what", "problem"),
    [
        ({"priority": 6}, "Pods of Deployment", NOT_OF_CLASS.format(6, 5)),
        ({"priorityClassName": "", "priority": 6}, "Pods of Deployment", NOT_OF_CLASS.format(6, 0)),
        (
            {"priorityClassName": "never", "preemptionPolicy": "PreemptLowerPriority"},
            "Pods of Deployment",
            "Fix: remove preemptionPolicy",
        ),
        (
            {"priorityClassName": "class-6", "priority": 6},
            "Pods of Deployment",
            "no PriorityClass with name class-6 was found; known: ",
        ),
        ({"priority": 2**40}, "Deployment", "spec.template.spec.priority: 1099511627776 does not fit into 32 bits"),
        (
            {"priorityClassName": ["a"]},
            "Deployment",
            "spec.template.spec.priorityClassName: must be a string, not array",
        ),
        ({"priorityClassName": "Class_6"}, "Deployment", "no PriorityClass with name Class_6 was found; known: "),
        ({"preemptionPolicy": "Sometimes"}, "Deployment", "Fix: remove preemptionPolicy"),
    ],
)
def test_a_workload_whose_pods_are_rejected_is_left_out(
    pod: dict[str, Any], what: str, problem: str, tmp_path: Path
) -> None:
    new = [deployment("bad", **pod), deployment("good")]
    predicted = asked(tmp_path, "predict", new)
    assert predicted.returncode == 3
    assert predicted.stdout.startswith("REJECTED  2 objects: 1 object rejected, the new Pod runs on n1\n")
    assert f"\nWHY 1 OBJECT IS REJECTED\n    1  {what} default/bad (" in predicted.stdout
    assert problem in predicted.stderr
    assert predicted.stderr.startswith(f"forewarn predict: {tmp_path / 'new.json'}:2:")


@pytest.mark.parametrize("command", ["predict", "whatif apply", "headroom"])
def test_invalid_numbers_of_pods_and_selectors_are_rejected(command: str, tmp_path: Path) -> None:
    template = deployment("job").obj["spec"]["template"]
    jobs = Made("batch/v1", "CronJob", "jobs", "default").spec(
        schedule="@daily", jobTemplate={"spec": {"parallelism": -1, "template": template}}
    )
    job = Made("batch/v1", "Job", "job", "default").spec(completions=-3, template=template)
    unselected = deployment("other").spec(selector={"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]})
    old = Made("v1", "ReplicationController", "old", "default").spec(selector={"app": "old"}, template=template)
    new = [deployment("bad").spec(replicas=-2), jobs, job, unselected, old, deployment("good")]
    answer = asked(tmp_path, command, new)
    labels, unmatched = "spec.template.metadata.labels", "`selector` does not match template `labels`. Fix: add the"
    for line, problem in zip(
        answer.stderr.splitlines(),
        [
            "Deployment default/bad: spec.replicas: Invalid value: -2: must be greater than or equal to 0",
            "CronJob default/jobs: spec.jobTemplate.spec.parallelism: Invalid value: -1: must be greater",
            "Job default/job: spec.completions: Invalid value: -3: must be greater than or equal to 0",
            f'Deployment default/other: {labels}: Invalid value: {{"app":"other"}}: {unmatched}',
            f'ReplicationController default/old: {labels}: Invalid value: {{"app":"job"}}: {unmatched}',
        ],
        strict=True,
    ):
        assert problem in line
    assert (answer.returncode, bool(answer.stdout)) == (3, True)


def test_a_headline_counts_the_rejected_objects_beside_the_others(tmp_path: Path) -> None:
    new = [deployment("bad").spec(replicas=-2), deployment("worse").spec(replicas=-2), deployment("good")]
    answer = asked(tmp_path, "predict", new)
    assert answer.stdout.startswith("REJECTED  3 objects: 2 objects rejected, the new Pod runs on ")


@pytest.mark.parametrize("command", ["predict", "whatif apply", "headroom"])
@pytest.mark.parametrize(
    ("fields", "fix"),
    [
        ({"env": [{"name": "A", "value": 1}]}, "quote the value"),
        ({"command": [1]}, "quote the value"),
        ({"args": [True]}, "quote the value"),
        ({"command": [["sleep"]]}, "write a value of this type"),
        ({"tty": "yes"}, "write true or false without quotes"),
        ({"args": "sleep"}, "write a list"),
    ],
)
def test_a_value_of_a_wrong_type_is_rejected_as_by_the_linter(
    command: str, fields: dict[str, Any], fix: str, tmp_path: Path
) -> None:
    new = deployment("new")
    new.obj["spec"]["template"]["spec"]["containers"][0].update(fields)
    answer = asked(tmp_path, command, [new])
    assert (answer.returncode, "json: cannot unmarshal" in answer.stderr) == (3, True)
    assert answer.stderr.endswith(f". Fix: {fix}\n")


@pytest.mark.parametrize(
    ("kind", "field", "value", "problem"),
    [
        ("apps/v1/StatefulSet", "ordinals.start", "x", "must be an integer, not string"),
        ("apps/v1/StatefulSet", "ordinals.start", -1, "Invalid value: -1: must be greater than or equal to 0"),
        ("apps/v1/StatefulSet", "updateStrategy.rollingUpdate.partition", True, "must be an integer, not bool"),
        ("apps/v1/Deployment", "minReadySeconds", 1.5, "must be an integer, not number"),
        ("apps/v1/Deployment", "progressDeadlineSeconds", [], "must be an integer, not array"),
        ("apps/v1/DaemonSet", "revisionHistoryLimit", 2**31, "2147483648 does not fit into 32 bits"),
        ("batch/v1/Job", "backoffLimit", "x", "must be an integer, not string"),
        ("batch/v1/CronJob", "failedJobsHistoryLimit", "x", "must be an integer, not string"),
        ("batch/v1/CronJob", "jobTemplate.spec.backoffLimit", -1, "Invalid value: -1: must be greater"),
        ("apps/v1/Deployment", "paused", "yes", "must be a boolean, not string"),
        ("batch/v1/Job", "manualSelector", "true", "must be a boolean, not string"),
        ("batch/v1/CronJob", "suspend", 1, "must be a boolean, not number"),
        ("batch/v1/CronJob", "jobTemplate.spec.suspend", 0, "must be a boolean, not number"),
    ],
)
def test_lint_reports_values_that_kube_apiserver_cannot_decode(
    kind: str, field: str, value: object, problem: str, tmp_path: Path
) -> None:
    template = deployment("web").obj["spec"]["template"]
    version, _, name = kind.rpartition("/")
    spec: dict[str, Any] = {"template": template, "selector": {"matchLabels": template["metadata"]["labels"]}}
    spec = {"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}} if name == "CronJob" else spec
    *above, last = field.split(".")
    part = spec
    for key in above:
        part = part.setdefault(key, {})
    part[last] = value
    path = tmp_path / "new.json"
    path.write_text(json.dumps(Made(version, name, "web", "default").spec(**spec).obj))
    assert f"{name} default/web: spec.{field}: {problem}" in forewarn("lint", str(path)).stdout


def test_a_class_beside_the_template_is_an_error_of_the_workload(tmp_path: Path) -> None:
    predicted = asked(tmp_path, "predict", [deployment("bad").spec(priorityClassName="never"), deployment("good")])
    assert "    1  Deployment default/bad (priorityClassName: unknown field: " in predicted.stdout


@pytest.mark.parametrize("command", ["headroom", "predict", "whatif apply"])
def test_every_rejected_workload_is_named_up_to_a_limit(command: str, tmp_path: Path) -> None:
    bad = [deployment(f"bad-{number}", priority=6) for number in range(22)]
    answer = asked(tmp_path, command, [*bad, deployment("good")])
    lines = answer.stderr.splitlines()
    assert (answer.returncode, bool(answer.stdout)) == (3, True)
    assert [f"Deployment default/bad-{number}:" in line for number, line in enumerate(lines)] == [True] * 20 + [False]
    assert lines[-1] == f"forewarn {command.split()[0]}: 2 more objects with errors"
    few = asked(tmp_path, command, bad[:2]).stderr.splitlines()
    assert ["Deployment default/bad-0:" in few[0], "Deployment default/bad-1:" in few[1]] == [True, True]


@pytest.mark.parametrize("command", ["predict", "whatif apply"])
@pytest.mark.parametrize("cpu", ["1", "3"], ids=["selector", "limit"])
def test_the_answer_about_a_rejected_object_is_also_json(command: str, cpu: str, tmp_path: Path) -> None:
    bad = deployment("bad")
    spec = bad.obj["spec"]
    spec["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}, "limits": {"cpu": "2"}}
    spec["selector"] = {"matchLabels": {"app": "other"}}
    answer = asked(tmp_path, f"{command} -o json --fail-on rejected", [bad])
    document = json.loads(answer.stdout)
    assert (answer.returncode, document["status"], document["counters"]["rejected"]) == (3, "REJECTED", 1)
    assert document["question"] == "Deployment default/bad"


def test_a_simulation_names_the_workload_that_is_left_out(tmp_path: Path) -> None:
    simulated = asked(tmp_path, "whatif apply", [deployment("bad", priority=6), deployment("good")])
    assert simulated.stdout.startswith("REJECTED  2 objects applied: 1 object rejected, 1 of 1 new Pod runs\n")
    assert "\nWHY 1 OBJECT IS REJECTED\n    1  Pods of Deployment default/bad (" in simulated.stdout
    assert f": Deployment default/bad: spec.template.{NOT_OF_CLASS.format(6, 5)}\n" in simulated.stderr


@pytest.mark.parametrize(
    ("command", "status", "first"),
    [
        ("restart deployment/bad", 3, "REJECTED  Pods of Deployment default/bad: no PriorityClass with name gone was"),
        ("scale deployment/bad 3", 3, "REJECTED  Pods of Deployment default/bad: no PriorityClass with name gone was"),
        ("scale deployment/bad 0", 0, "OK  Deployment default/bad scaled to 0 replicas: "),
    ],
)
def test_a_restart_and_a_scale_up_are_answered_like_an_apply(
    command: str, status: int, first: str, tmp_path: Path
) -> None:
    stored = [make_node("n1"), make_priority_class(5), deployment("bad", priorityClassName="gone")]
    (tmp_path / "cluster.json").write_text(cluster_text(stored))
    answer = forewarn("whatif", *command.split(), "--fail-on", "blocked", "--cluster", tmp_path / "cluster.json")
    assert (answer.returncode, answer.stdout[: len(first)]) == (status, first)


def test_events_on_workloads_whose_pods_are_rejected_are_left_out(tmp_path: Path) -> None:
    """An update to an existing class is accepted, and so is a scale-up after it."""
    bad = [deployment(name, priorityClassName="gone") for name in ("one", "two", "three")]
    (tmp_path / "cluster.json").write_text(cluster_text([make_node("n1"), make_priority_class(5), *bad]))
    scale = {"kind": "Deployment", "namespace": "default", "replicas": 2}
    events = [
        {"at": 1, "update": bad[0].obj},
        {"at": 1, "scale": {**scale, "name": "two"}},
        {"at": 1, "update": deployment("three").obj},
        {"at": 2, "scale": {**scale, "name": "three"}},
    ]
    (tmp_path / "events.json").write_text(json.dumps(events))
    given = ("--events", tmp_path / "events.json", "--cluster", tmp_path / "cluster.json")
    answer = forewarn("whatif", "events", *given)
    names = [line.split()[3] for line in answer.stderr.splitlines()]
    assert (answer.returncode, names) == (3, ["default/one:", "default/two:"])
    assert answer.stdout.startswith("REJECTED  4 events: 2 objects rejected, 2 of 2 new Pods run\n")


@pytest.mark.parametrize("replicas", [9, "9", None])
def test_a_misplaced_number_of_replicas_hides_no_rejection(replicas: object, tmp_path: Path) -> None:
    stored, bad = deployment("web"), deployment("web", priorityClassName="gone")
    (tmp_path / "cluster.json").write_text(cluster_text([make_node("n1"), make_priority_class(5), stored]))
    (tmp_path / "events.json").write_text(json.dumps([{"at": 0, "create": {**bad.obj, "replicas": replicas}}]))
    given = ("--events", tmp_path / "events.json", "--cluster", tmp_path / "cluster.json")
    answer = forewarn("whatif", "events", *given)
    assert (answer.returncode, answer.stdout.startswith("REJECTED  ")) == (3, True)


def test_a_limit_range_is_not_blamed_for_a_missing_class(tmp_path: Path) -> None:
    stored = [make_node("n1"), make_priority_class(5), deployment("web", priorityClassName="class-5")]
    stored.append(make_pod("web-1").labels(app="web").on("n1").of_class("class-5"))
    (tmp_path / "cluster.json").write_text(cluster_text(stored))
    limit_range = Made("v1", "LimitRange", "l", "default").spec(limits=[{"type": "Container", "default": {"cpu": "1"}}])
    gone = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "class-5"}}
    events = [{"at": 0, "create": limit_range.obj}, {"at": 0, "delete": gone}]
    (tmp_path / "events.json").write_text(json.dumps(events))
    given = ("--events", tmp_path / "events.json", "--cluster", tmp_path / "cluster.json")
    answer = forewarn("whatif", "events", *given)
    assert re.search(r"^default/web +5 +rejected ", answer.stdout, re.MULTILINE), answer.stdout
    assert "ResourceQuota" not in answer.stdout + answer.stderr


def test_a_class_change_is_answered_although_the_restart_is_rejected(tmp_path: Path) -> None:
    limits = {"type": "Container", "default": {"cpu": "500m"}}
    limit_range = Made("v1", "LimitRange", "limits", "default").spec(limits=[limits])
    stored = [make_node("n1"), make_priority_class(5), deployment("web"), limit_range]
    (tmp_path / "cluster.json").write_text(cluster_text(stored))
    answer = forewarn("whatif", "class", "class-5", "--value", "6", "--cluster", tmp_path / "cluster.json")
    assert answer.returncode == 3
    assert answer.stdout.startswith(
        "REJECTED  PriorityClass class-5 deleted and recreated (value 5 → 6): 1 object rejected"
    )
    assert re.search(r"^default/web +5 +6 ", answer.stdout, re.MULTILINE), answer.stdout


@pytest.mark.parametrize("command", ["predict", "whatif apply", "headroom"])
def test_a_pod_that_the_cluster_has_was_admitted_before_its_class_changed(command: str, tmp_path: Path) -> None:
    pod = make_pod("waiting").request(cpu="1").priority(6).spec(priorityClassName="class-5")
    answer = asked(tmp_path, command, [pod], pod)
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize("pod", [{"priority": 5}, {"priority": 5, "preemptionPolicy": "PreemptLowerPriority"}])
def test_a_pod_with_the_priority_of_its_class_is_accepted(pod: dict[str, Any], tmp_path: Path) -> None:
    answer = asked(tmp_path, "predict", [deployment("good", **pod)])
    assert (answer.returncode, answer.stdout.partition("\n")[0]) == (
        0,
        "OK  Deployment default/good: the new Pod runs on n1",
    )


@pytest.mark.parametrize("command", ["predict", "whatif apply", "headroom"])
def test_a_new_pod_group_has_the_priority_of_its_class(command: str, tmp_path: Path) -> None:
    pod = make_pod("new").of_class(5).request(cpu="1").spec(schedulingGroup={"podGroupName": "train"})
    rejected = asked(tmp_path, command, [pod, group(6)])
    problem = (
        "PodGroup default/train: spec.priority: priority set in the pod group (6) must match the priority computed"
    )
    assert problem in rejected.stderr.splitlines()[0]
    assert (rejected.returncode, "PodGroup default/train (" in rejected.stdout) == (3, True)
    for new, stored in ([group(5), pod], []), ([group(6), pod], [group(6)]):
        assert problem not in asked(tmp_path, command, new, *stored).stderr


def test_pods_of_a_rejected_pod_group_are_left_out(tmp_path: Path) -> None:
    new = [deployment("bad", schedulingGroup={"podGroupName": "train"}), group(6), deployment("good")]
    answer = asked(tmp_path, "predict", new)
    _, of_pods = answer.stderr.splitlines()
    assert ": Deployment default/bad: kube-apiserver rejects PodGroup train. Fix: " in of_pods
    assert answer.stdout.startswith("REJECTED  3 objects: 2 objects rejected, the new Pod runs on n1\n")
    assert "    1  PodGroup default/train (" in answer.stdout
    assert "    1  not predicted; see the errors\n" in answer.stdout


@pytest.mark.parametrize(
    "change",
    [{"priorityClassName": "web"}, {"resources": {"requests": {"cpu": "3"}}}, {"nodeSelector": {"zone": "a"}}],
)
@pytest.mark.parametrize(
    "command", ["predict", "whatif apply", "whatif events", "headroom", "classes plan", "diff", "lint"]
)
def test_the_template_of_a_job_cannot_change(command: str, change: dict[str, Any], tmp_path: Path) -> None:
    container = {"name": "nightly", "image": "nightly", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    for name, new in (("old", {}), ("new", change)):
        class_name = new.get("priorityClassName", "batch")
        container |= {key: value for key, value in new.items() if key == "resources"}
        spec = {"priorityClassName": class_name, "restartPolicy": "Never", "containers": [{**container}]}
        spec |= {key: value for key, value in new.items() if key == "nodeSelector"}
        job = Made("batch/v1", "Job", "nightly", "reports").spec(parallelism=4, template={"spec": spec})
        (tmp_path / name).mkdir()
        (tmp_path / name / "job.json").write_text(json.dumps(job.obj))
    (tmp_path / "events.json").write_text(json.dumps([{"at": 1, "update": job.obj}]))
    given: dict[str, list[Any]] = {"whatif events": ["--events", tmp_path / "events.json"]}
    given |= {"diff": [tmp_path / "old", tmp_path / "new"], "lint": [tmp_path / "new"]}
    files = given.get(command, ["-f", tmp_path / "new"])
    answer = forewarn(*command.split(), *files, "--cluster", "webhook/sample/cluster.yaml")
    if command == "classes plan" and "priorityClassName" not in change:
        assert ": nothing to change\n" in answer.stdout
    else:
        assert "field is immutable" in answer.stdout + answer.stderr


FORCED = {"argocd.argoproj.io/sync-options": "Replace=true,Force=true"}
IMMUTABLE = "REJECTED  StatefulSet default/db: serviceName: field is immutable\n"
DB_FIX = "Fix: delete the StatefulSet first (--cascade=orphan keeps its Pods), or name it differently"
PART = {**deployment("db").obj, "kind": "StatefulSet", "spec": {"replicas": 3}}


@pytest.mark.parametrize(
    ("command", "annotations", "first"),
    [
        ("predict", {}, IMMUTABLE),
        ("whatif apply", {}, IMMUTABLE),
        ("headroom", {}, IMMUTABLE),
        ("whatif events", {}, "REJECTED  2 events: 1 object rejected, "),
        ("diff -v", {}, "REJECTED  StatefulSet default/db changed: 1 object rejected\n"),
        ("lint", {}, "new/db.json:1:461: error: StatefulSet default/db: spec.serviceName: field is immutable"),
        ("predict", FORCED, "NO ANSWER  StatefulSet default/db: a tool deletes and recreates the workload\n"),
        ("whatif apply", FORCED, "HARM  StatefulSet default/db applied: 1 workload down"),
        ("diff", FORCED, "HARM  StatefulSet default/db changed (Pod template): 1 workload down for up to 30 s\n"),
    ],
)
def test_the_service_of_a_stateful_set_cannot_change(
    command: str, annotations: dict[str, str], first: str, tmp_path: Path
) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": True}
    pods = [make_pod(f"db-{n}").of_class(5).request(cpu="1").labels(app="db").on("n1") for n in (0, 1)]
    stored = [make_node("n1"), make_priority_class(5), *(pod.metadata(ownerReferences=[owner]) for pod in pods)]
    for directory, service in (("old", "db"), ("new", "db-headless")):
        db = deployment("db").spec(serviceName=service, replicas=2).metadata(annotations=annotations)
        db.obj["kind"] = "StatefulSet"
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "db.json").write_text(json.dumps(db.obj))
        stored += [db] * (directory == "old")
    (tmp_path / "cluster.json").write_text(cluster_text(stored))
    (tmp_path / "events.json").write_text(json.dumps([{"at": 0, "update": PART}, {"at": 60, "update": db.obj}]))
    given: dict[str, list[Any]] = {"whatif events": ["--events", tmp_path / "events.json"]}
    given |= {"diff": [tmp_path / "old", tmp_path / "new"], "lint": [tmp_path / "new"]}
    files = given.get(command.removesuffix(" -v"), ["-f", tmp_path / "new"])
    answer = forewarn(*command.split(), *files, "--cluster", tmp_path / "cluster.json")
    assert answer.stdout.replace(f"{tmp_path}/", "").startswith(first)
    assert (DB_FIX in " ".join((answer.stdout + answer.stderr).split())) is (not annotations)


def test_a_plan_recreates_a_job_that_a_tool_recreates(tmp_path: Path) -> None:
    spec = {"priorityClassName": "web", "restartPolicy": "Never", "containers": [{"name": "c", "image": "c"}]}
    job = Made("batch/v1", "Job", "nightly", "reports").spec(parallelism=4, template={"spec": spec}).obj
    job["metadata"]["annotations"] = {"argocd.argoproj.io/sync-options": "Replace=true,Force=true"}
    (tmp_path / "job.json").write_text(json.dumps(job))
    answer = forewarn("classes", "plan", "-f", tmp_path / "job.json", "--cluster", "webhook/sample/cluster.yaml")
    assert answer.stdout.startswith("OK  change of PriorityClasses in 1 step: 1 min 5 s, no Pod preempted")
    assert "delete and recreate 1 workload (new priority 100,000); reports/nightly\n" in answer.stdout
    assert "keep their priority" not in answer.stdout


def test_events_are_read_from_standard_input() -> None:
    given = ("--events", "-", "--cluster", "webhook/sample/cluster.yaml")
    answer = forewarn("whatif", "events", *given, stdin="- {at: 1m, drain: node-a}")
    assert "  1 event: " in answer.stdout.partition("\n")[0]


def test_manifests_from_standard_input_are_read_once_for_an_answer_with_fixes() -> None:
    pods = [make_pod(f"large-{number}").request(cpu="1500m").spec(priority=None).obj for number in range(9)]
    given = ("-f", "-", "--cluster", "webhook/sample/cluster.yaml", "-o", "json")
    answer = forewarn("whatif", "apply", *given, stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    assert not answer.stderr
    assert json.loads(answer.stdout)["counters"]["pending"] > 0


@pytest.mark.parametrize(
    ("deleted_at", "class_name", "problem"),
    [(1, "web", ""), (3, "web", "field is immutable"), (1, "none", "no PriorityClass with name none was found")],
)
def test_an_event_recreates_a_job_that_an_earlier_one_deletes(
    deleted_at: int, class_name: str, problem: str, tmp_path: Path
) -> None:
    containers = [{"name": "nightly", "image": "nightly"}]
    spec = {"restartPolicy": "Never", "priorityClassName": class_name, "containers": containers}
    job = Made("batch/v1", "Job", "nightly", "reports").spec(parallelism=2, template={"spec": spec}).obj
    name = {**job, "spec": {}}
    (tmp_path / "events.json").write_text(json.dumps([{"at": 2, "create": job}, {"at": deleted_at, "delete": name}]))
    given = ("--events", tmp_path / "events.json", "--cluster", "webhook/sample/cluster.yaml")
    answer = forewarn("whatif", "events", *given)
    assert (problem in answer.stderr, "4 → 2" in answer.stdout) == (True, not problem)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, 0),
        ({"parallelism": 1}, 0),
        ({"completions": 2}, 3),
        ({"template": {"spec": {"priorityClassName": "batch"}}}, 0),
        ({"template": {"spec": {"priorityClassName": "web"}}}, 3),
    ],
)
def test_immutable_fields_of_a_job_that_an_event_creates_cannot_change(
    change: dict[str, Any], status: int, tmp_path: Path
) -> None:
    spec = {"restartPolicy": "Never", "priorityClassName": "batch", "containers": [{"name": "c", "image": "c"}]}
    specs = ({"completions": 1, "template": {"spec": spec}}, change)
    jobs = [Made("batch/v1", "Job", "new", "reports").spec(**each).obj for each in specs]
    (tmp_path / "events.json").write_text(json.dumps([{"at": 0, "create": jobs[0]}, {"at": 60, "update": jobs[1]}]))
    given = ("--events", tmp_path / "events.json", "--cluster", "webhook/sample/cluster.yaml")
    answer = forewarn("whatif", "events", *given)
    assert answer.returncode == status
    assert ("field is immutable" in answer.stderr) is bool(status)
    assert ("Job reports/new (" in answer.stdout) is bool(status)
    assert "1 of 1 new Pod runs" in answer.stdout.partition("\n")[0]


@pytest.mark.parametrize(
    ("annotations", "is_reported"),
    [
        ({}, True),
        ({"argocd.argoproj.io/sync-options": "Replace=true"}, True),
        ({"argocd.argoproj.io/sync-options": "Replace=true, Force=true"}, False),
        ({"kustomize.toolkit.fluxcd.io/force": "Enabled"}, False),
        ({"kustomize.toolkit.fluxcd.io/force": "Disabled"}, True),
        ({"helm.sh/hook": "pre-upgrade"}, False),
    ],
)
def test_lint_ignores_a_job_that_a_tool_recreates(
    annotations: dict[str, str], is_reported: bool, tmp_path: Path
) -> None:
    spec = {"restartPolicy": "Never", "containers": [{"name": "nightly", "image": "nightly:2"}]}
    job = Made("batch/v1", "Job", "nightly", "reports").spec(parallelism=4, template={"spec": spec})
    obj = {**job.obj, "metadata": {**job.obj["metadata"], "annotations": annotations}}
    (tmp_path / "job.json").write_text(json.dumps(obj))
    answer = forewarn("lint", tmp_path / "job.json", "--cluster", "webhook/sample/cluster.yaml")
    assert ("job-field-changed" in answer.stdout) == is_reported


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("whatif apply", "OK  Job reports/nightly applied: no Pod preempted, newly Pending or lost"),
        ("diff", "OK  Job reports/nightly changed (requests): no Pod preempted, newly Pending or lost"),
        ("predict", "NO ANSWER  Job reports/nightly: a tool deletes and recreates the workload"),
        ("headroom", "NO ANSWER  Job reports/nightly: a tool deletes and recreates the workload"),
    ],
)
def test_a_job_that_a_tool_recreates_is_not_rejected(command: str, said: str, tmp_path: Path) -> None:
    """More Pods of the deleted Job terminate than may fail in the new one."""
    for name, cpu in (("old", "1"), ("new", "500m")):
        container = {"name": "report", "image": "report", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
        spec = {"priorityClassName": "batch", "restartPolicy": "Never", "containers": [container]}
        job = Made("batch/v1", "Job", "nightly", "reports").spec(parallelism=4, backoffLimit=1, template={"spec": spec})
        job.obj["metadata"]["annotations"] = {"argocd.argoproj.io/sync-options": "Replace=true,Force=true"}
        (tmp_path / name).mkdir()
        (tmp_path / name / "job.json").write_text(json.dumps(job.obj))
    files = [tmp_path / "old", tmp_path / "new"] if command == "diff" else ["-f", tmp_path / "new"]
    answer = forewarn(*command.split(), *files, "--cluster", "webhook/sample/cluster.yaml")
    assert said in answer.stdout.splitlines()[0]


@pytest.mark.parametrize("command", ["predict", "whatif apply"])
def test_invalid_values_of_other_kinds_are_rejected_and_have_no_effect(command: str, tmp_path: Path) -> None:
    """The default of the LimitRange, which would reject the Pod, does not hold."""
    limit = {"type": "Container", "max": {"memory": "1Gi"}, "default": {"memory": "2Gi"}}
    tolerating = deployment("bad", tolerations=[{"key": "a", "operator": "exists"}])
    new = [
        Made("policy/v1", "PodDisruptionBudget", "budget", "default").spec(minAvailable="2"),
        Made("v1", "LimitRange", "range", "default").spec(limits=[limit]),
        Made("v1", "ResourceQuota", "quota", "default").spec(hard={"gpu": "1"}),
        tolerating,
        deployment("good"),
    ]
    answer = asked(tmp_path, command, new)
    problems = [
        "PodDisruptionBudget default/budget: spec.minAvailable: Invalid value",
        "LimitRange default/range: spec.limits[0].default.memory: Invalid value",
        "ResourceQuota default/quota: spec.hard.gpu: Invalid value",
        "Deployment default/bad: spec.template.spec.tolerations[0].operator: Unsupported value",
    ]
    for line, problem in zip(answer.stderr.splitlines(), problems, strict=True):
        assert problem in line
    assert "WHY 4 OBJECTS ARE REJECTED" in answer.stdout


@pytest.mark.parametrize("command", ["predict", "whatif apply"])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_null_label_is_the_empty_string(kind: str, command: str, tmp_path: Path) -> None:
    made = deployment("web")
    made.obj["kind"] = kind
    made.obj["spec"]["template"]["metadata"]["labels"]["empty"] = None
    answer = asked(tmp_path, command, [made])
    assert answer.returncode == 0
    assert answer.stdout.startswith("OK")
