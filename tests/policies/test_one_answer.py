"""Nine commands give one answer about one manifest, and five about one restart, on random clusters.

`ANSWERS=500` compares 500 of each; a failure names the seeds.
"""

from __future__ import annotations

import json
import os
import re
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.cases import cases
from tests.in_process import forewarn

if TYPE_CHECKING:
    from collections.abc import Callable

SEEDS = range(int(os.environ.get("ANSWERS", cases(12))))
FIRST = int(os.environ.get("ANSWERS_FROM", "0"))
Obj = dict[str, Any]
CLASSES = {"low": 10, "mid": 50, "high": 100, "never": 100}
KINDS = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1", "Pod": "v1"}
ZONE = "topology.kubernetes.io/zone"


class State(NamedTuple):
    """A random cluster, and how much cpu is free on each node."""

    objects: list[Obj]
    free: dict[str, int]
    dice: Random


def made(version: str, kind: str, name: str, namespace: str | None = "default", **rest: Any) -> Obj:
    metadata = {"name": name, "uid": f"{kind}-{name}".lower(), **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def pod_spec(dice: Random, app: str, priority_class: str, cpu: int) -> Obj:
    spec: Obj = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": f"{cpu}m"}}}],
        "terminationGracePeriodSeconds": dice.choice([5, 30]),
        **({"priorityClassName": priority_class} if priority_class else {}),
    }
    selector = {"matchLabels": {"app": app}}
    if dice.random() < 0.15:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    elif dice.random() < 0.15:
        spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        spec["topologySpreadConstraints"] = [spread]
    return spec


def _class(name: str, value: int) -> Obj:
    policy = "Never" if name == "never" else "PreemptLowerPriority"
    return made(
        "scheduling.k8s.io/v1", "PriorityClass", name, None, value=value, preemptionPolicy=policy, globalDefault=False
    )


def random_state(dice: Random) -> State:
    """Nodes, classes, workloads with running Pods, PDBs, and sometimes a ResourceQuota."""
    objects = [made("v1", "Namespace", "default", None)]
    objects += [_class(name, value) for name, value in CLASSES.items()]
    free = {}
    for number in range(dice.randint(2, 4)):
        name = f"n{number}"
        free[name] = dice.choice([2000, 4000])
        labels = {"kubernetes.io/hostname": name, ZONE: "ab"[number % 2]}
        amounts = {"cpu": f"{free[name]}m", "memory": "16Gi", "pods": "20"}
        node = made("v1", "Node", name, None, status={"allocatable": amounts, "capacity": amounts})
        node["metadata"]["labels"] = labels
        node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        objects.append(node)
    state = State(objects, free, dice)
    for number in range(dice.randint(1, 4)):
        _running(state, f"w{number}")
    if dice.random() < 0.25:
        _quota(state)
    if dice.random() < 0.2:
        _devices(state)
    return state


def _running(state: State, name: str) -> None:
    """Add a Deployment, with its ReplicaSet and running Pods, or Pods without a workload, and sometimes a PDB."""
    dice = state.dice
    priority_class, cpu = dice.choice(["low", "low", "mid", "high", ""]), dice.choice([500, 1000, 1500, 2000])
    spec, labels = pod_spec(Random(0), name, priority_class, cpu), {"app": name}
    template = {"metadata": {"labels": {**labels, "pod-template-hash": "1"}}, "spec": spec}
    names = []
    for index in range(dice.randint(1, 4)):
        places = [node for node, cpu_left in state.free.items() if cpu_left >= cpu]
        if not places:
            break
        node = dice.choice(places)
        state.free[node] -= cpu
        pod = made("v1", "Pod", f"{name}-1-{index}", status=_status(dice))
        pod["metadata"] |= {"labels": {**template["metadata"]["labels"]}, "creationTimestamp": "2026-01-01T00:00:00Z"}
        policy = "Never" if priority_class == "never" else "PreemptLowerPriority"
        pod["spec"] = {**spec, "nodeName": node, "priority": CLASSES.get(priority_class, 0), "preemptionPolicy": policy}
        names.append(pod)
    state.objects.extend(names)
    if not names:
        return
    if dice.random() < 0.75:
        selector = {"matchLabels": labels}
        deployment = made("apps/v1", "Deployment", name)
        surge, unavailable = dice.choice([(0, 1), (1, 0), (1, 1), ("25%", "25%")])
        deployment["spec"] = {
            "replicas": len(names),
            "selector": selector,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        }
        replica_set = made("apps/v1", "ReplicaSet", f"{name}-1")
        replica_set["metadata"] |= {"labels": template["metadata"]["labels"], "ownerReferences": [_owner(deployment)]}
        hashed = {"matchLabels": template["metadata"]["labels"]}
        replica_set["spec"] = {"replicas": len(names), "selector": hashed, "template": template}
        state.objects.extend((deployment, replica_set))
        for pod in names:
            pod["metadata"]["ownerReferences"] = [_owner(replica_set)]
    if dice.random() < 0.4:
        allowed = dice.randint(0, len(names))
        pdb = made("policy/v1", "PodDisruptionBudget", name)
        pdb["spec"] = {"minAvailable": len(names) - allowed, "selector": {"matchLabels": labels}}
        counts = {"currentHealthy": len(names), "desiredHealthy": len(names) - allowed, "expectedPods": len(names)}
        pdb["status"] = {"disruptionsAllowed": allowed, **counts}
        state.objects.append(pdb)


def _status(dice: Random) -> Obj:
    started = f"2026-01-01T00:{dice.randint(10, 59)}:00Z"
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": started}]
    return {"phase": "Running", "startTime": started, "conditions": conditions}


def _owner(obj: Obj) -> Obj:
    name, uid = obj["metadata"]["name"], obj["metadata"]["uid"]
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": name, "uid": uid, "controller": True}


def _quota(state: State) -> None:
    """Add a quota of Pods that leaves 0 to 3 more."""
    used = sum(obj["kind"] == "Pod" for obj in state.objects)
    hard = used + state.dice.randint(0, 3)
    quota = made("v1", "ResourceQuota", "q", spec={"hard": {"pods": str(hard)}})
    quota["status"] = {"hard": {"pods": str(hard)}, "used": {"pods": str(used)}}
    state.objects.append(quota)


def _devices(state: State) -> None:
    """Add 0 to 2 devices on each node, and a ResourceClaimTemplate for one of them."""
    version = "resource.k8s.io/v1"
    state.objects.append(made(version, "DeviceClass", "gpu", None, spec={}))
    for node in state.free:
        devices = [{"name": f"d{number}"} for number in range(state.dice.randint(0, 2))]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example", "nodeName": node, "pool": pool, "devices": devices}
        state.objects.append(made(version, "ResourceSlice", node, None, spec=spec))
    requests = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    state.objects.append(made(version, "ResourceClaimTemplate", "one", spec={"spec": requests}))


def random_manifest(state: State) -> Obj:
    """A new Deployment, StatefulSet, Job or Pod, with claims if there are devices; in few cases with a class that does
    not exist.
    """
    dice = state.dice
    kind = dice.choice([*KINDS])
    priority_class = "none" if dice.random() < 0.05 else dice.choice([*CLASSES, "high", "mid"])
    spec, count = pod_spec(dice, "new", priority_class, dice.choice([500, 1000, 2000, 3000])), dice.randint(1, 4)
    if any(obj["kind"] == "ResourceClaimTemplate" for obj in state.objects):
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    if kind == "Pod":
        obj = made("v1", "Pod", "new", spec=spec)
        obj["metadata"]["labels"] = {"app": "new"}
        return obj
    template = {"metadata": {"labels": {"app": "new"}}, "spec": spec}
    if kind == "Job":
        spec["restartPolicy"] = "Never"
        return made("batch/v1", "Job", "new", spec={"parallelism": count, "completions": count, "template": template})
    obj = made("apps/v1", kind, "new", spec={"replicas": count, "template": template})
    obj["spec"] |= {"selector": {"matchLabels": {"app": "new"}}}
    if kind == "StatefulSet":
        obj["spec"] |= {"podManagementPolicy": "Parallel", "serviceName": "new"}
    return obj


def wanted_of(manifest: Obj) -> int:
    spec = manifest["spec"]
    return 1 if manifest["kind"] == "Pod" else int(spec.get("replicas", spec.get("parallelism", 1)))


# What each command says


class Answer(NamedTuple):
    """What a command says of a manifest; None: the command says nothing of it.

    `fits`: Pods that fit without preemption. `victims`: running Pods that the new Pods preempt. `ends`: new Pods that
    run at the end. `beyond`: evictions that violate PDBs. `quota`: Pods that a quota rejects. `no_class`: whether
    admission rejects the class.
    """

    fits: int | None = None
    victims: frozenset[str] | None = None
    ends: int | None = None
    beyond: int | None = None
    quota: int | None = None
    no_class: bool | None = None
    nodes: frozenset[str] | None = None
    is_blocked: bool | None = None
    in_the_end: int | None = None
    counts: bool = True

    def of_rollout(self, wanted: int) -> Answer:
        """The answer about a rollout, of which a command may count old Pods too: whether it is blocked, not how many
        Pods run.
        """
        is_blocked = self.is_blocked
        if self.counts and self.ends is not None:
            is_blocked = self.ends < wanted or bool(self.quota)
        return Answer(victims=self.victims, beyond=self.beyond, is_blocked=is_blocked, in_the_end=self.in_the_end)


def written(state: State, folder: Path) -> str:
    """Write the cluster, and return its directory. Lists without objects are known to be empty."""
    place = folder / "cluster"
    place.mkdir(exist_ok=True)
    quotas = [obj for obj in state.objects if obj["kind"] == "ResourceQuota"]
    others = [obj for obj in state.objects if obj["kind"] != "ResourceQuota"]
    lists = {"List": others, "ResourceQuotaList": quotas, "LimitRangeList": []}
    for kind, found in lists.items():
        (place / f"{kind}.json").write_text(json.dumps({"apiVersion": "v1", "kind": kind, "items": found}))
    return str(place)


def asked(*arguments: str) -> tuple[int, Any, str]:
    """The exit status, the JSON documents, and the errors of a command."""
    done = forewarn(*arguments, "-o", "json")
    assert "internal error" not in done.stderr, (arguments, done.stderr)
    decoder, text, documents = json.JSONDecoder(), done.stdout.strip(), []
    while text:
        document, end = decoder.raw_decode(text)
        documents.append(document)
        text = text[end:].strip()
    return done.returncode, documents, done.stderr


_NO_CLASS = "no PriorityClass with name none was found"


def by_predict(state: str, *arguments: str) -> Answer:
    status, documents, err = asked("predict", *arguments, "-vv", "--cluster", state)
    if status == 3:
        assert _NO_CLASS in err, err
        return Answer(no_class=True)
    (document,) = documents
    pods, counts, victims, beyond = document["pods"], document["outcomes"], set[str](), 0
    for pod in pods:
        if pod["outcome"] == "preempts":
            candidate = pod["candidates"][pod["nominatedNode"]]
            own = {*candidate["victims"]}.union(*pod.get("inVain", {}).values())
            beyond += candidate["pdbViolations"] if not victims.issuperset(own) else 0
            victims |= own
    assert document["counters"]["victims"] == len(victims)
    is_contested = any(CONTESTED in warning for warning in document["warnings"])
    ends = sum(counts.get(outcome, 0) for outcome in ("fits", "preempts", "waits"))
    return Answer(
        None if victims else ends,  # Pods that wait for the same victims count as Pods that fit, or that preempt
        None if is_contested else frozenset(victims),
        ends,
        beyond,
        counts.get("rejected", 0),
        no_class=False,
        nodes=frozenset(pods[0]["selected"]) if len(pods) == 1 and counts.keys() <= {pods[0]["outcome"]} else None,
    )


CONTESTED = "which controller first uses the quota"
"""What a prediction says if chance decides the victims, of which a simulation shows others."""
_BLOCKED = {"fits-nowhere", "stays-pending"}
_RULES = ("preempts-running-pods", "preempts", "fits-nowhere", "stays-pending")


def of_findings(found: list[Any], name: str, wanted: int) -> Answer:
    """What the linter, the webhook or an audit says: nothing where all Pods fit."""
    rules = {
        one["rule"].replace("restart-", ""): one.get("detail", {}) for one in found if one["object"]["name"] == name
    }
    if "unknown-priority-class" in rules:
        return Answer(no_class=True)
    detail: Obj = next((rules[rule] for rule in _RULES if rules.get(rule)), {})
    preemptions = detail.get("preemptions", [])
    victims, beyond = set[str](), 0
    for one in preemptions:
        beyond += one["pdbViolations"] if not victims.issuperset(one["victims"]) else 0
        victims |= {*one["victims"]}
    pending, refused = detail.get("pending", 0), detail.get("rejectedByQuota", 0)
    if not detail and "quota-exceeded" in rules:
        refused = wanted - max(rules["quota-exceeded"]["pod"] - 1, 0)
    new = detail.get("newPods", wanted)
    ends = None if detail.get("predicted", new) != new else new - pending - refused
    fits: int | None = None if victims else ends
    is_blocked: bool | None = bool(pending or refused or rules.keys() & _BLOCKED)
    if not is_blocked and "quota-exceeded" in rules:  # of Pods above the replicas, without which a rollout may go on
        is_blocked = None
    is_contested = any(CONTESTED in one["message"] for one in found if one["object"]["name"] == name)
    named = None if is_contested else frozenset(victims)
    return Answer(fits, named, ends, beyond, refused, no_class=False, is_blocked=is_blocked, counts=False)


def by_lint(state: str, manifest: str, name: str, wanted: int) -> Answer:
    _, [report], _ = asked("lint", manifest, "--cluster", state)
    return of_findings(report["findings"], name, wanted)


def by_webhook(state: str, review: str, name: str, wanted: int) -> Answer:
    _, [answer], _ = asked("webhook", "review", "--phase", "validate", "-f", review, "--cluster", state)
    return of_findings(answer["findings"], name, wanted)


def by_whatif(state: str, name: str, *arguments: str, rollout: int = 0) -> Answer:
    """`rollout`: the number of replicas of a rollout, which may be unaffected; 0 for a new workload."""
    status, documents, err = asked("whatif", *arguments, "--cluster", state)
    if status == 3:
        assert _NO_CLASS in err, err
        return Answer(no_class=True)
    answer, own = documents[0], f"default/{name}"
    there = json.loads((Path(state) / "List.json").read_text())["items"]
    ran = {f"default/{obj['metadata']['name']}" for obj in there if obj["kind"] == "Pod"}
    victims = {one["victim"]["pod"] for one in answer["preempted"] if one["by"]["workload"] == own} & ran
    counts = next((one for one in answer["workloads"] if one["workload"] == own), None)
    pending = counts["pending"]["after"] if counts else 0
    ends = counts["running"]["after"] if counts else 0
    ends = rollout - pending if rollout else ends
    beyond = sum(answer["pdbs"]["violatedByPreemption"].values())
    return Answer(
        None,
        frozenset(victims),
        ends,
        quota=answer["rejectedByQuota"].get(own, 0),
        no_class=False,
        in_the_end=beyond,
    )


def by_headroom(state: str, manifest: str, wanted: int) -> Answer:
    status, documents, err = asked("headroom", "-f", manifest, "--cluster", state)
    if status == 3:
        assert _NO_CLASS in err, err
        return Answer(no_class=True)
    (found,) = documents[0]["objects"]
    without, preempting = (min(found[key]["pods"], wanted) for key in ("withoutPreemption", "withPreemption"))
    if preempting != without or "quota" in found:  # of Pods before any preemption, and quota before it is freed
        is_limited = found.get("quota", {"pods": wanted})["pods"] < wanted
        return Answer(ends=None if is_limited else preempting, no_class=False)
    quota = found.get("quota", {"pods": wanted})["pods"]
    return Answer(without, ends=preempting, quota=max(wanted - quota, 0), no_class=False)


def admitted(pod: Obj) -> Obj:
    """A Pod with the fields that the Priority plugin sets before validating webhooks."""
    name = pod["spec"].get("priorityClassName", "")
    policy = "Never" if name == "never" else "PreemptLowerPriority"
    spec = {**pod["spec"], "priority": CLASSES.get(name, 0), "preemptionPolicy": policy}
    return {**pod, "spec": spec} if name in ("", *CLASSES) else pod


def review_of(obj: Obj, old: Obj | None = None) -> Obj:
    obj = admitted(obj) if obj["kind"] == "Pod" else obj
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": obj["kind"]}
    resource = {"group": group, "version": version, "resource": f"{obj['kind'].lower()}s"}
    request = {
        "uid": "1",
        "kind": kind,
        "requestKind": kind,
        "resource": resource,
        "requestResource": resource,
        "name": obj["metadata"]["name"],
        "namespace": "default",
        "operation": "UPDATE" if old else "CREATE",
        "userInfo": {"username": "someone"},
        "object": obj,
        **({"oldObject": old} if old else {}),
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def saved(path: Path, value: Any) -> str:
    path.write_text(json.dumps(value))
    return str(path)


def answers_of(seed: int, folder: Path) -> dict[str, Answer]:
    """What nine commands say of one manifest."""
    dice = Random(seed)
    state = random_state(dice)
    manifest = random_manifest(state)
    place, wanted = written(state, folder), wanted_of(manifest)
    file, review = saved(folder / "new.json", manifest), saved(folder / "review.json", review_of(manifest))
    events = saved(folder / "events.json", [{"at": 0, "create": manifest}])
    answers = {
        "predict": by_predict(place, "-f", file),
        "lint": by_lint(place, file, "new", wanted),
        "webhook review": by_webhook(place, review, "new", wanted),
        "whatif apply": by_whatif(place, "new", "apply", "-f", file),
        "whatif events": by_whatif(place, "new", "events", "--events", events),
        "whatif events -f": by_whatif(place, "new", "events", "-f", file),
        "headroom": by_headroom(place, file, wanted),
    }
    return without_races(answers, state, wanted)


def restarts_of(seed: int, folder: Path) -> dict[str, Answer]:
    """What seven commands say of the restart of a Deployment; nothing for a cluster without one."""
    dice = Random(seed)
    state = random_state(dice)
    deployments = [obj for obj in state.objects if obj["kind"] == "Deployment"]
    if not deployments:
        return {}
    old = dice.choice(deployments)
    new, name, wanted = deepcopy(old), old["metadata"]["name"], old["spec"]["replicas"]
    new["spec"]["template"]["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "2026-01-03T00:00:00Z"}
    place, file = written(state, folder), saved(folder / "new.json", new)
    review = saved(folder / "review.json", review_of(new, old))
    events = saved(folder / "events.json", [{"at": 0, "update": new}])
    _, [audit], _ = asked("audit", "--cluster", place)
    found = [one for one in audit["findings"] if one["rule"].startswith("restart-")]
    answers = {
        "audit": of_findings(found, name, wanted),
        "predict": by_predict(place, "-f", file),
        "lint": by_lint(place, file, name, wanted),
        "webhook review": by_webhook(place, review, name, wanted),
        "whatif restart": by_whatif(place, name, "restart", f"deployment/{name}", rollout=wanted),
        "whatif apply": by_whatif(place, name, "apply", "-f", file, rollout=wanted),
        "whatif events": by_whatif(place, name, "events", "--events", events, rollout=wanted),
    }
    rollouts = {command: answer.of_rollout(wanted) for command, answer in answers.items()}
    return without_races(rollouts, state, wanted)


def without_races(answers: dict[str, Answer], state: State, wanted: int) -> dict[str, Answer]:
    """The answers without the victims of simulations if a race decides them: whether kube-scheduler sees the status of
    a PDB that an eviction of the cycle before has changed.
    """
    if wanted == 1 or all(obj["kind"] != "PodDisruptionBudget" for obj in state.objects):
        return answers
    return {name: one._replace(victims=None) if "whatif" in name else one for name, one in answers.items()}


def pods_of(seed: int, folder: Path) -> dict[str, Answer]:
    """What six commands say of one Pod: as a manifest, and as a Pending Pod of the cluster."""
    dice = Random(seed)
    state = random_state(dice)
    state.objects[:] = [obj for obj in state.objects if obj["kind"] != "ResourceQuota"]
    manifest = random_manifest(state)
    spec = manifest["spec"] if manifest["kind"] == "Pod" else manifest["spec"]["template"]["spec"]
    name = spec.get("priorityClassName", "")
    if name == "none":
        return {}
    pod = made("v1", "Pod", "new", spec={**spec, "restartPolicy": "Always"})
    pod["metadata"]["labels"] = {"app": "new"}
    place, file = written(state, folder), saved(folder / "new.json", pod)
    review = saved(folder / "review.json", review_of(pod))
    answers = {
        "predict": by_predict(place, "-f", file),
        "webhook review": by_webhook(place, review, "new", 1),
        "whatif apply": by_whatif(place, "new", "apply", "-f", file),
    }
    created = {**pod["metadata"], "creationTimestamp": "2026-01-02T00:00:00Z"}
    state.objects.append({**admitted(pod), "metadata": created, "status": {"phase": "Pending"}})
    place = written(state, folder)
    answers["why"] = by_why(place)
    nothing = saved(folder / "nothing.json", [{"at": 0, "uncordon": "n0"}])
    answers["whatif events"] = by_whatif(place, "new", "events", "--events", nothing)
    return answers


def by_why(state: str) -> Answer:
    _, [answer], _ = asked("why", "default/new", "--cluster", state)
    troubles = {one["id"]: one["message"] for one in answer["troubles"]}
    victims = frozenset(re.findall(r"default/[-\w]+", troubles.get("will-preempt", "")))
    return Answer(victims=victims, ends=int(bool(victims) or "not-tried-yet" in troubles), no_class=False)


def differing(answers: dict[str, Answer]) -> dict[str, dict[str, Any]]:
    """The fields in which two commands differ, with what each of them says."""
    found = {}
    for field in Answer._fields[:-1]:
        said = {name: getattr(answer, field) for name, answer in answers.items()}
        said = {name: value for name, value in said.items() if value is not None}
        if len({*said.values()}) > 1:
            found[field] = said
    return found


KNOWN = ((answers_of, 61), (answers_of, 80), (answers_of, 421), (restarts_of, 56), (restarts_of, 5236))
"""Seeds that differed: of claims, which no nomination reserves, of a quota that blocks a rollout, and of a quota for
which several controllers wait.
"""


@pytest.mark.usefixtures("few_runs", "no_fixes")
@pytest.mark.parametrize("answers", [answers_of, restarts_of, pods_of])
def test_commands_give_one_answer(answers: Callable[[int, Path], dict[str, Answer]], tmp_path: Path) -> None:
    seeds = [*(FIRST + seed for seed in SEEDS), *(seed for of, seed in KNOWN if of is answers)]
    found = {seed: differing(answers(seed, tmp_path)) for seed in seeds}
    assert {seed: differences for seed, differences in found.items() if differences} == {}


def test_predict_counts_quota_that_victims_free(tmp_path: Path) -> None:
    """A Pod that a quota rejects at first is created when victims of the namespace have terminated."""
    node = made("v1", "Node", "n0", None, status={"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "20"}})
    state = State([node, *(_class(name, value) for name, value in CLASSES.items())], {"n0": 4000}, Random(1))
    for number in range(2):
        pod = made("v1", "Pod", f"old-{number}", status=_status(state.dice))
        pod["spec"] = {**pod_spec(Random(0), "old", "low", 2000), "nodeName": "n0", "priority": 10}
        state.objects.append(pod)
    quota = made("v1", "ResourceQuota", "q", spec={"hard": {"pods": "3"}})
    state.objects.append({**quota, "status": {"hard": {"pods": "3"}, "used": {"pods": "2"}}})
    template = {"spec": {**pod_spec(Random(0), "new", "high", 2000), "restartPolicy": "Never"}}
    spec = {"parallelism": 2, "completions": 2, "template": template}
    file = saved(tmp_path / "new.json", made("batch/v1", "Job", "new", spec=spec))
    place, victims = written(state, tmp_path), frozenset({"default/old-0", "default/old-1"})
    for answer in (by_predict(place, "-f", file), by_lint(place, file, "new", 2)):
        assert (answer.victims, answer.ends, answer.quota) == (victims, 2, 0)
    quota["spec"] = {"hard": {"pods": "2"}}
    state.objects[-1] = {**quota, "status": {"hard": {"pods": "2"}, "used": {"pods": "2"}}}
    place = written(state, tmp_path)
    assert forewarn("predict", "-f", file, "--cluster", place).returncode == 0
    assert forewarn("predict", "-f", file, "--cluster", place, "--fail-on", "rejected").returncode == 1


def test_a_pod_that_preempts_and_stays_pending_counts_once(tmp_path: Path) -> None:
    state = random_state(Random(80))
    file = saved(tmp_path / "new.json", random_manifest(state))
    _, [document], _ = asked("predict", "-f", file, "--cluster", written(state, tmp_path))
    assert document["outcomes"] == {"preempts": 3, "in-vain": 1}
    assert (document["counters"]["victims"], document["counters"]["pending"]) == (6, 1)
