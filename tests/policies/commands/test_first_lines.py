"""The first line that a command prints is its answer; no line has a banned word. Recorded, to be read; UPDATE=1 records
again.
"""

import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from forewarn.policies.cli.commands.whatif import argument_parser
from forewarn.policies.cli.main import COMMANDS
from forewarn.policies.kubernetes.objects.namespace import DEFAULT_CLASS_ANNOTATION
from forewarn.policies.kubernetes.objects.node import ZONE
from tests.builders import (
    Made,
    cluster_text,
    make_budget,
    make_claim,
    make_node,
    make_pod,
    make_priority_class,
    make_volume,
)
from tests.in_process import forewarn
from tests.style_words import banned_in_report

RECORDED = Path(__file__).parents[1] / "cases/first_lines.yaml"
ANSWERS: list[dict[str, Any]] = yaml.safe_load(RECORDED.read_text())
WITHOUT_AN_ANSWER = {"lsp", "ui", "snapshot", "webhook serve", "webhook ca-injector", "completion", "demo"}
"""Commands that run until they are stopped, write a file or a script, or show others."""
WITH_A_LIVE_WEBHOOK = {"webhook doctor", "webhook accuracy"}
"""Commands whose own tests compare the first line."""
WEB = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}}"
PINNED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "agent", "namespace": "kube-system"},
    "spec": {
        "nodeName": "b-1",
        "priorityClassName": "system-node-critical",
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
    },
}
REVIEW: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u",
        "operation": "CREATE",
        "kind": {"kind": "Pod", "version": "v1", "group": ""},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "shop",
        "name": "a",
        "userInfo": {"username": "you"},
        "object": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a", "namespace": "shop"},
            "spec": {"priorityClassName": "none", "containers": [{"name": "c", "image": "i"}]},
        },
    },
}


GPU: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "infer", "namespace": "shop"},
    "spec": {
        "priorityClassName": "gold",
        "priority": 100000,
        "containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
    },
}


def _of_workload(name: str, zones: str, **spec: Any) -> list[Made]:
    """A StatefulSet with a Pod in each of these zones."""
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    workload = Made("apps/v1", "StatefulSet", name, "default")
    workload.spec(replicas=len(zones), podManagementPolicy="Parallel", template=template)
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "controller": True}
    pods = (make_pod(f"{name}-{number}").on(f"{zone}-1") for number, zone in enumerate(zones))
    return [workload, *(pod.labels(app=name).metadata(ownerReferences=[owner]).spec(**spec) for pod in pods)]


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """A directory whose path is long and looks like several parts of a line: no wording depends on it."""
    with TemporaryDirectory(prefix=f"{'long' * 40}; x, y (z: ") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def files(directory: Path) -> dict[str, str]:
    """Word in a recorded command -> a file."""
    (directory / "review.json").write_text(json.dumps(REVIEW))
    of_classes = {"group": "scheduling.k8s.io", "version": "v1"}
    new_default = make_priority_class(100_000, "normal", globalDefault=True).obj
    request = {"kind": of_classes | {"kind": "PriorityClass"}, "name": "normal", "namespace": "", "object": new_default}
    request = REVIEW["request"] | request | {"resource": of_classes | {"resource": "priorityclasses"}}
    (directory / "default-review.json").write_text(json.dumps(REVIEW | {"request": request}))
    running = [make_pod(f"web-{each}").on("n1") for each in range(120)]
    (directory / "classless.json").write_text(cluster_text([make_node("n1"), *running]))
    (directory / "web.yaml").write_text(WEB)
    (directory / "gpu.json").write_text(json.dumps(GPU))
    picky = make_pod("picky", "shop").spec(priority=100000, priorityClassName="gold", nodeSelector={"disk": "ssd"})
    (directory / "picky.json").write_text(json.dumps(picky.obj))
    job = Made("batch/v1", "Job", "import", "reports").spec(template={"spec": {"containers": []}})
    spec = {"priorityClassName": "gold", "containers": []}
    gold = Made("batch/v1", "Job", "export", "reports").spec(template={"spec": spec})
    (directory / "job.json").write_text(cluster_text([job, gold]))
    (directory / "pinned.json").write_text(json.dumps(PINNED))
    spec = {name: value for name, value in PINNED["spec"].items() if name != "nodeName"}
    (directory / "system.json").write_text(json.dumps(PINNED | {"spec": spec}))
    (directory / "pod.json").write_text(json.dumps(REVIEW["request"]["object"]))
    for part in "01":
        shard = ("lose", "--each", "node", "--shard", f"{part}/2", "-o", "json")
        done = forewarn("whatif", *shard, "--cluster", "docs/examples/whatif/cluster.yaml")
        (directory / f"part-{part}.json").write_text(done.stdout)
    names = {
        "REVIEW": "review.json",
        "NEW_DEFAULT": "default-review.json",
        "WITHOUT_CLASSES": "classless.json",
        "DEPLOYMENT": "web.yaml",
        "POD": "pod.json",
        "PINNED": "pinned.json",
        "SYSTEM": "system.json",
        "GPU": "gpu.json",
        "PICKY": "picky.json",
        "JOB": "job.json",
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "crunch", "controller": True, "uid": "uid-crunch"}
    crunch: list[Made] = [make_node("n1"), Made("batch/v1", "Job", "crunch", "batch").spec(parallelism=2)]
    made = (make_pod(f"crunch-{each}", "batch").request(cpu="64") for each in (1, 2))
    crunch.extend(pod.metadata(ownerReferences=[owner]) for pod in made)
    (directory / "crunch.json").write_text(cluster_text(crunch))
    names["CRUNCH"] = "crunch.json"
    guarded = make_pod("b").priority(9).request(cpu="4").labels(app="b").on("n4")
    unsettled = [
        *(make_node(name).has(cpu="4") for name in ("n1", "n4")),
        make_pod("low").request(cpu="4").on("n1"),
        make_pod("urgent").priority(9).request(cpu="4"),
        guarded.status(conditions=[{"type": "Ready", "status": "True"}]),
        make_budget("b", 0, app="b").spec(minAvailable="100%"),
    ]
    (directory / "unsettled.json").write_text(cluster_text(unsettled))
    names["UNSETTLED"] = "unsettled.json"
    pause = make_pod("pause").priority(-5).request(cpu="4").on("n1")
    pause.obj["spec"]["containers"][0]["image"] = "registry.k8s.io/pause:3.10"
    (directory / "reserved.json").write_text(cluster_text([make_node("n1").has(cpu="4"), pause]))
    (directory / "volcano.json").write_text(json.dumps(PINNED | {"spec": {**spec, "schedulerName": "volcano"}}))
    spec = {"priorityClassName": "batch", "restartPolicy": "Never", "containers": PINNED["spec"]["containers"]}
    early = Made("batch/v1", "Job", "early", "reports").spec(template={"spec": spec}).obj
    (directory / "events.json").write_text(json.dumps([{"at": 0, "create": early}, {"at": 60, "delete": early}]))
    cache = yaml.safe_load(Path("docs/examples/headroom/cache.yaml").read_text())
    (directory / "promo.json").write_text(json.dumps([{"at": 0, "create": cache}, {"at": 60, "delete": cache}]))
    nightly = Made("apps/v1", "Deployment", "nightly", "reports").obj
    deleted = [{"at": 0, "lost": "a-1"}, {"at": 600, "delete": nightly}]
    (directory / "deleted.json").write_text(json.dumps(deleted))
    web = {"kind": "Deployment", "namespace": "shop", "name": "web"}
    evening = [{"scale": web | {"replicas": 8}}, {"at": 60, "lost": "b-2"}, {"at": 900, "scale": web | {"replicas": 4}}]
    (directory / "evening.json").write_text(json.dumps(evening))
    names |= {
        "PROMO": "promo.json",
        "CREATED_AND_DELETED": "events.json",
        "PREEMPTED_AND_DELETED": "deleted.json",
        "EVENING": "evening.json",
    }
    small = {"priorityClassName": "batch", "containers": [{"name": "c", "image": "i"}]}
    of_database: dict[str, Any] = {"metadata": {"labels": {"app": "db"}}, "spec": small}
    redis = Made("apps/v1", "StatefulSet", "redis", "reports")
    redis.spec(replicas=3, selector={"matchLabels": {"app": "db"}}, template=of_database)
    quota = Made("v1", "ResourceQuota", "reports", "reports").spec(hard={"pods": "5"})
    (directory / "ordered.json").write_text(cluster_text([redis, quota]))
    database = Made("apps/v1", "StatefulSet", "db", "default").spec(replicas=1, template=of_database)
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": True}
    first = make_pod("db-0").labels(app="db").metadata(ownerReferences=[owner]).on("n1")
    (directory / "database.json").write_text(
        cluster_text([make_node("n1"), database, first, make_budget("db", 0, app="db").spec(minAvailable=1)])
    )
    names |= {"ORDERED": "ordered.json", "DATABASE": "database.json"}
    pdb = {"maxUnavailable": 3, "selector": {"matchLabels": {"app": "web"}}}
    (directory / "pdb.json").write_text(
        json.dumps(Made("policy/v1", "PodDisruptionBudget", "two", "shop").spec(**pdb).obj)
    )
    names |= {"RESERVED": "reserved.json", "VOLCANO": "volcano.json", "TWO_PDBS": "pdb.json"}
    template = "      spec:\n        priorityClassName: batch\n"
    of_another_scheduler = template + "        schedulerName: volcano\n"
    shown = Path("docs/examples/whatif/cluster.yaml").read_text()
    (directory / "others.yaml").write_text(shown.replace(template, of_another_scheduler))
    classless = shown.replace(template, "      spec:\n")
    (directory / "classless.yaml").write_text(classless)
    default = classless.replace("value: 100,", "value: 100, globalDefault: true,")
    (directory / "default.yaml").write_text(default)
    middle = Made("scheduling.k8s.io/v1", "PriorityClass", "middle").obj | {"value": 50_000}
    preempting = default.replace(", preemptionPolicy: Never", "").replace("items:\n", f"items:\n- {middle}\n", 1)
    (directory / "preempting.yaml").write_text(preempting)
    names |= {"PREEMPTING_DEFAULT": "preempting.yaml"}
    for name in ("batch", "gold"):
        (directory / f"{name}-default").mkdir()
        namespace = Made("v1", "Namespace", "reports").metadata(annotations={DEFAULT_CLASS_ANNOTATION: name})
        (directory / f"{name}-default/namespace.json").write_text(json.dumps(namespace.obj))
    names |= {"CLASSLESS": "classless.yaml", "BATCH_IN_REPORTS": "batch-default", "GOLD_IN_REPORTS": "gold-default"}
    bare = make_pod("db").labels(app="db").on("n1")
    short = make_budget("db", 0, app="db").spec(minAvailable=1)
    (directory / "short.json").write_text(cluster_text([make_node("n1"), make_node("n2"), bare, short]))
    many = [make_pod(f"db-{each}", "shop").priority(each) for each in range(5)]
    (directory / "many.json").write_text(cluster_text([make_node("n1"), *(pod.on("n1") for pod in many)]))
    twins = (make_pod(name, "shop").request(cpu="2").on("b-1") for name in ("left", "right"))
    (directory / "twins.json").write_text(cluster_text([make_node("b-1").has(cpu="4"), *twins]))
    names |= {"MANY": "many.json", "TWINS": "twins.json"}
    names |= {"OTHERS": "others.yaml", "DEFAULT": "default.yaml", "SHORT": "short.json"}
    rollout = next(obj for obj in next(yaml.safe_load_all(shown))["items"] if obj["kind"] == "Deployment")
    rollout["spec"]["replicas"] = 5
    rollout["spec"]["template"]["metadata"]["annotations"] = {"version": "2"}
    (directory / "rollout.json").write_text(json.dumps(rollout))
    names |= {"ROLLOUT": "rollout.json"}
    (directory / "before").mkdir()
    (directory / "before/web.json").write_text(json.dumps(rollout))
    (directory / "empty").mkdir()
    (directory / "too-large").mkdir()
    rollout["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "40"
    (directory / "too-large/web.json").write_text(json.dumps(rollout))
    names |= {"TOO_LARGE": "too-large", "BEFORE": "before", "EMPTY": "empty"}
    pdb["maxUnavailable"] = 0
    never = Made("policy/v1", "PodDisruptionBudget", "web", "shop").spec(**pdb)
    quota = Made("v1", "ResourceQuota", "batch", "reports").spec(hard={"pods": "3"})
    (directory / "never.json").write_text(json.dumps(never.obj))
    (directory / "exceeded").mkdir()
    (directory / "exceeded/quota.json").write_text(json.dumps(quota.obj))
    names |= {"NEVER_DISRUPTED": "never.json", "EXCEEDED": "exceeded"}
    nodes = [make_node(f"{zone}-1").has(cpu="4", pods="110").zone(zone) for zone in "abc"]
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}]
    data = [
        make_claim("data", "pv"),
        make_volume("pv", nodeAffinity={"required": {"nodeSelectorTerms": terms}}).status(phase="Bound"),
    ]
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    of_volume = _of_workload("db", "aa", volumes=volumes)
    (directory / "volume.json").write_text(cluster_text([*nodes, *data, *of_volume]))
    full = [make_pod(f"full-{zone}").priority(9).request(cpu="4").on(f"{zone}-1") for zone in "bc"]
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    of_full = _of_workload("db", "aa", volumes=volumes, containers=containers)
    (directory / "volume-and-full.json").write_text(cluster_text([*nodes, *data, *of_full, *full]))
    names |= {"OTHER_ZONES_FULL": "volume-and-full.json"}
    selector = {"matchLabels": {"app": "web"}}
    spread = {"maxSkew": 1, "minDomains": 3, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    of_spread = _of_workload("web", "abc", topologySpreadConstraints=[spread | {"labelSelector": selector}])
    (directory / "spread.json").write_text(cluster_text([*nodes, *of_spread]))
    (directory / "volume-and-spread.json").write_text(cluster_text([*nodes, *data, *of_volume, *of_spread]))
    halves = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
    racing = [
        each
        for name, zone in (("api", "a"), ("web", "a"), ("worker", "b"))
        for each in _of_workload(name, zone, containers=halves)
    ]
    (directory / "race.json").write_text(cluster_text([*nodes[:2], *racing]))
    halves[0]["resources"] = {"requests": {"cpu": "4"}}
    high = {"priority": 9, "priorityClassName": "high"}
    of_tie = [("api", "a", {}), ("web", "b", {}), ("worker", "c", high)]
    tied = [each for name, zone, spec in of_tie for each in _of_workload(name, zone, containers=halves, **spec)]
    (directory / "tie.json").write_text(cluster_text([make_priority_class(9, "high"), *nodes, *tied]))
    names |= {"RACE": "race.json", "TIE": "tie.json"}
    names |= {"VOLUME": "volume.json", "SPREAD": "spread.json", "BOTH": "volume-and-spread.json"}
    for word, of_db, of_web in (("TWO_GONE", "aa", "aa"), ("ONE_GONE", "a", "ab")):
        both = _of_workload("db", of_db, volumes=volumes) + _of_workload("web", of_web, volumes=volumes)
        (directory / f"{word}.json").write_text(cluster_text([*nodes, *data, *both]))
        names[word] = f"{word}.json"
    names |= {"FIRST": "part-0.json", "SECOND": "part-1.json"}
    (directory / "huge.json").write_text(json.dumps(make_pod("huge", "shop").request(cpu="99").obj))
    top = Made("scheduling.k8s.io/v1", "PriorityClass", "top").obj | {"value": 500_000}
    with_top = next(obj for obj in next(yaml.safe_load_all(shown))["items"] if obj["kind"] == "Deployment")
    with_top["spec"]["template"]["spec"]["priorityClassName"] = "top"
    (directory / "top.json").write_text(cluster_text([top, with_top]))
    large = {"metadata": {"labels": {"app": "later"}}, "spec": make_pod("later").request(cpu="4").obj["spec"]}
    later = Made("apps/v1", "StatefulSet", "later", "reports").spec(replicas=1, template=large)
    (directory / "later.json").write_text(json.dumps(later.obj))
    four_pods = Made("v1", "ResourceQuota", "four", "shop").spec(hard={"pods": "4"})
    (directory / "four.json").write_text(json.dumps(four_pods.obj))
    eight_pods = Made("v1", "ResourceQuota", "eight", "shop").spec(hard={"pods": "8"})
    (directory / "eight.json").write_text(json.dumps(eight_pods.obj))
    on_nodes = [{"at": 0, "cordon": "a-1"}, {"at": 0, "cordon": "a-2"}, {"at": 60, "uncordon": "a-1"}]
    (directory / "nodes.json").write_text(json.dumps([*on_nodes, {"at": 60, "create": make_node("c-1").obj}]))
    names["ON_NODES"] = "nodes.json"
    for word, example in (("LONG_NAMES", "cluster"), ("LONG_GROUPS", "node-groups")):
        text = Path(f"docs/examples/whatif/{example}.yaml").read_text()
        for name in ("nightly", "web", "spot-large"):
            text = re.sub(rf"\b{name}\b", f"{name}-of-the-storefront-in-region-eu-west", text)
        (directory / f"{word}.yaml").write_text(text)
        names[word] = f"{word}.yaml"
    three_pods = Made("v1", "ResourceQuota", "three", "prod").spec(hard={"pods": "3"})
    (directory / "three.json").write_text(json.dumps(three_pods.obj))
    names |= {"THREE_PODS": "three.json"}
    names |= {
        "LATER": "later.json",
        "HUGE": "huge.json",
        "WEB_GETS_TOP": "top.json",
        "EIGHT_PODS": "eight.json",
        "FOUR_PODS": "four.json",
    }
    return {word: str(directory / name) for word, name in names.items()}


@pytest.mark.usefixtures("few_runs")
@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer["command"])
def test_the_first_line_is_the_answer(answer: dict[str, Any], files: dict[str, str]) -> None:
    words = [files.get(word, word) for word in shlex.split(answer["command"])]
    done = forewarn(*words, merged=True)
    first = done.stdout.splitlines()[0]
    for word, name in files.items():
        first = first.replace(name, word)
    if os.environ.get("UPDATE"):
        answer["first"] = first
        RECORDED.write_text(yaml.safe_dump(ANSWERS, sort_keys=False, width=1000, allow_unicode=True))
    assert done.returncode in (0, 1) or (done.returncode == 3 and first.startswith("NO ANSWER"))
    assert first == answer["first"]
    assert len(first) <= 256
    assert banned_in_report(done.stdout) == []


@pytest.mark.parametrize("command", ["whatif apply -f CHANGE", "diff BEFORE CHANGE", "predict -f CHANGE"])
@pytest.mark.parametrize("change", ["TOO_LARGE", "BEFORE"])
def test_a_rollout_that_the_line_calls_blocked_meets_the_condition(
    command: str, change: str, files: dict[str, str]
) -> None:
    words = [files.get(word, word) for word in command.replace("CHANGE", change).split()]
    done = forewarn(*words, "--cluster", "docs/examples/whatif/cluster.yaml", "--fail-on", "blocked")
    is_blocked = change == "TOO_LARGE"
    assert (done.returncode, "blocked" in done.stdout.splitlines()[0].lower()) == (int(is_blocked), is_blocked)


def test_every_command_is_recorded() -> None:
    commands = [answer["command"] for answer in ANSWERS]
    changes = re.findall(r"^    (\w+)  ", argument_parser().format_help(), re.MULTILINE)
    wanted = COMMANDS.keys() - WITHOUT_AN_ANSWER - WITH_A_LIVE_WEBHOOK | {f"whatif {change}" for change in changes}
    assert len(wanted) >= 30
    assert [
        name for name in sorted(wanted) if not any(f"{command} ".startswith(f"{name} ") for command in commands)
    ] == []
