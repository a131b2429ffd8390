"""What forewarn predicts for a change is what the real scheduler and controllers then do.

Random small clusters with kube-controller-manager and kubelets that keep to grace periods: Deployments, StatefulSets
with and without claims on volumes of two zones, DaemonSets, Jobs and CronJobs, a quarter of them spread. Workloads and
Pods are created, workloads are scaled and given another class, through the webhook; or one apply creates two objects: a
quota, a class, a budget, a claim template or a workload before a workload. One cluster in six has a tight
ResourceQuota; its changes take most of a minute each, because controllers try again ever more seldom. CHANGES says how
many changes there are, SEED which ones, and FIRST the number of the first one, a multiple of A_CLUSTER. QUOTAS=1: each
cluster has a quota. WIDE=1: 7 to 10 nodes, Pending Pods, Pods that never preempt, autoscalers, restarts, and several
changes in one apply. EVIDENCE names a directory for the cluster snapshot, the change, the warnings and what was seen of
every change.

Three things are compared with what happened: `forewarn whatif events` of a snapshot, the warning, and the prediction
in the audit log. The verdict on the last one is compared with that of `forewarn webhook accuracy`. Ends are compared by
workload, because controllers choose the names of Pods.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.e2e.api import Refused, identity, path_of
from tests.e2e.graceful_kubelet import workload_of
from tests.e2e.living import (
    A_CLUSTER,
    DEVICES,
    NAMESPACE,
    WORKLOADS,
    Ending,
    build,
    clear,
    forewarn,
    keep,
    made,
    of_any_kind,
    settled,
    settled_with_jobs,
    simulated,
    workloads,
)
from tests.e2e.objects import priority_class
from tests.e2e.random_cases import SEED
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.e2e.api import Answer, Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.living import Living
    from tests.e2e.webhook import Webhook

pytestmark = [pytest.mark.e2e, pytest.mark.whole]

CHANGES = int(os.environ.get("CHANGES", "30"))
FIRST = int(os.environ.get("FIRST", "0"))
QUOTAS = bool(os.environ.get("QUOTAS"))
WIDE = bool(os.environ.get("WIDE"))
QUIET = 13
"""Seconds without an event after which all is over: more than kube-scheduler's longest back-off, 10 s."""
QUIET_WITH_A_QUOTA = 45
"""The same where a quota rejects Pods: what a controller waits that has tried for 40 s."""
TOGETHER = ("quota", "class", "budget", "claims", "workload")
"""What one apply creates before a workload."""
WIDER = ("several", "both", "both", "restart")
"""What else happens in wide clusters: several changes in one apply; replicas and class of one workload; a restart."""
ONE_IN = 6
"""Clusters of which one has a quota."""
IMPACT = "validate.forewarn.dev/preemption-impact"
TOLD_BY = ("[preempts-running-pods]", "[rollout-preempts-itself]")


def change_of(there: list[Obj], pods: list[Obj], number: int, rng: random.Random) -> list[Obj]:
    """The objects of one apply; the last is a workload or Pod: a new one, or one of those that are there, changed."""
    what = rng.choice(("create", "create", "scale", "class", "pod", "cron", *TOGETHER, *(WIDER if WIDE else ())))
    name, class_ = f"new-{number}", rng.choice(("mid", "high"))
    changed = [obj for obj in there if obj["kind"] != "CronJob"]
    if what == "pod":
        spec = made("Deployment", name, rng, class_)["spec"]["template"]
        return [{**identity("Pod", name, NAMESPACE), "spec": spec["spec"]}]
    if what == "cron":
        return [of_any_kind(name, rng, class_, ["CronJob"])]
    if what in TOGETHER:
        return together(what, changed, pods, number, rng)
    if what == "several":
        new = [of_any_kind(f"{prefix}-{number}", rng, rng.choice(("", "mid", "high"))) for prefix in ("one", "two")]
        return [*new, of_any_kind(name, rng, class_)]
    if what == "create" or not changed:
        return [of_any_kind(name, rng, class_)]
    found: Obj = json.loads(json.dumps(rng.choice(changed)))
    found["metadata"] = {key: found["metadata"][key] for key in ("name", "namespace")}
    found.pop("status", None)
    if found["kind"] == "Job":  # its template stays as it is
        found["spec"]["parallelism"] += rng.randint(1, 3)
    elif what == "scale" and found["kind"] != "DaemonSet":
        found["spec"]["replicas"] += rng.randint(1, 3)
    else:
        if what == "both" and found["kind"] != "DaemonSet":
            found["spec"]["replicas"] += rng.randint(1, 4)
        if what == "restart":
            found["spec"]["template"]["metadata"]["annotations"] = {"restarted": str(number)}
            return [found]
        found["spec"]["template"]["spec"]["priorityClassName"] = "high"
        found["spec"]["template"]["spec"].pop("priority", None)
    return [found]


def together(what: str, there: list[Obj], pods: list[Obj], number: int, rng: random.Random) -> list[Obj]:
    """A new workload, and the object before it in the same apply that decides its Pods' fate."""
    new = of_any_kind(f"new-{number}", rng, rng.choice(("mid", "high")))
    if what == "quota":
        return [quota_of(f"quota-{number}", pods, rng), new]
    if what == "class":
        new["spec"]["template"]["spec"]["priorityClassName"] = f"class-{number}"
        return [priority_class(f"class-{number}", rng.choice((50, 500, 2000))), new]
    if what == "budget":
        app = rng.choice([obj["metadata"]["name"] for obj in there] or ["none"])
        spec = {"minAvailable": rng.randint(1, 2), "selector": {"matchLabels": {"app": app}}}
        return [{**identity("PodDisruptionBudget", f"budget-{number}", NAMESPACE), "spec": spec}, new]
    if what == "workload":
        return [of_any_kind(f"first-{number}", rng, rng.choice(("mid", "high"))), new]
    request = {"name": "device", "exactly": {"deviceClassName": DEVICES}}
    template = {**identity("ResourceClaimTemplate", f"claim-{number}", NAMESPACE)}
    template["spec"] = {"spec": {"devices": {"requests": [request]}}}
    pod = new["spec"]["template"]["spec"]
    pod["resourceClaims"] = [{"name": "device", "resourceClaimTemplateName": f"claim-{number}"}]
    pod["containers"][0]["resources"]["claims"] = [{"name": "device"}]
    return [template, new]


def foretold(plane: ControlPlane, change: list[Obj], directory: Path) -> set[Ending]:
    """What people are told: `forewarn snapshot`, then `forewarn whatif events` of it."""
    dump, file = directory / "cluster.json", directory / "change.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": change}))
    forewarn(plane, "snapshot", "-o", str(dump))
    return simulated(plane, dump, "-f", str(file))


def limit(api: Api, rng: random.Random) -> None:
    """Leave little room beside what there is."""
    api.create(quota_of("tight", api.list("Pod", NAMESPACE), rng))
    wait_until(lambda: api.get("ResourceQuota", "tight", NAMESPACE).get("status", {}).get("used"), 30, "it is counted")


def quota_of(name: str, pods: list[Obj], rng: random.Random) -> Obj:
    """A quota with little room beside these Pods: for all Pods, for what they ask for, or for a class."""
    kind, more = rng.choice(("pods", "requests.cpu", "class")), rng.randint(0, 2)
    if kind == "class":
        within = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
        spec = {"hard": {"pods": str(more)}, "scopeSelector": {"matchExpressions": [within]}}
    elif kind == "pods":
        spec = {"hard": {"pods": str(len(pods) + more)}}
    else:
        spec = {"hard": {"requests.cpu": f"{sum(map(asked, pods)) + 1000 * more}m"}}
    return {**identity("ResourceQuota", name, NAMESPACE), "spec": spec}


def asked(pod: Obj) -> int:
    """Thousandths of a core."""
    cpu: str = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return int(cpu[:-1]) if cpu.endswith("m") else 1000 * int(cpu)


def evaluated(plane: ControlPlane, change: Obj, before: dict[str, Obj], pods: list[Obj], preempted: set[str]) -> str:
    """Whether the prediction in the audit log is what happened: `matched`, `wrong`, `explained` or `cut-short`.

    `before`: Pods before the change, by uid; `pods`: those at the end; `preempted`: uids. Only what can be seen from
    outside is used: as many new Pods Pending, and as many running Pods preempted, of these priorities. A Pod that
    replacements preempt may have got its node after the change.
    """
    told = predicted(plane, change)
    if told.get("incomplete") or told.get("notPredicted"):
        return "cut-short"
    cascade = told.get("cascade", {})
    preemptions = [*told.get("preemptions", ()), *told.get("byPendingPods", ())]
    victims = {name for each in preemptions for name in each["victims"]}
    ran = {uid: pod for uid, pod in before.items() if pod["spec"].get("nodeName")}
    priorities = {f"{NAMESPACE}/{pod['metadata']['name']}": priority_of(pod) for pod in ran.values()}
    gone = Counter(priority_of(pod) for uid, pod in ran.items() if uid in preempted)
    key = f"{NAMESPACE}/{change['metadata']['name']}"
    own = [pod for pod in pods if workload_of(pod) == key and pod["metadata"]["uid"] not in before]
    if sum(not pod["spec"].get("nodeName") for pod in own) != told.get("pending", 0):
        return "explained" if told.get("assumes") else "wrong"
    count = len(victims) + cascade.get("preempted", 0)
    as_many = cascade.get("incomplete") or gone.total() <= count <= len(preempted)
    if as_many and Counter(priorities.get(name, 0) for name in victims) <= gone:
        return "matched"
    by_chance = any("byChance" in each or "orAnyOf" in each for each in preemptions)
    return "explained" if by_chance or told.get("assumes") else "wrong"


def predicted(plane: ControlPlane, change: Obj) -> Obj:
    """The prediction for a change; empty if the audit log has none: all new Pods fit."""
    found: Obj = {}
    for line in (plane.home / "audit.log").read_text().splitlines():
        event = json.loads(line)
        ref = event.get("objectRef", {})
        by_hand = event["verb"] in ("create", "patch") and not event.get("userAgent", "").startswith("kube-")
        if by_hand and "subresource" not in ref and ref.get("name") == change["metadata"]["name"]:
            found = json.loads(event.get("annotations", {}).get(IMPACT, "{}"))
    return found


def priority_of(pod: Obj) -> int:
    priority: int = pod["spec"].get("priority", 0)
    return priority


def account(webhook: Webhook) -> Obj:
    """What `forewarn webhook accuracy` has found so far, once it has compared every workload."""
    found: Obj = {}

    def is_complete() -> bool:
        nonlocal found
        found = webhook.replicas[0].accuracy()
        return not found["workloads"]["open"]

    wait_until(is_complete, 120, "every workload has its result")
    return found


def result_of(change: Obj, before: Obj, after: Obj) -> str:
    """The result of the prediction for a change; empty if there was none."""
    if change["kind"] == "Pod":
        return ""  # beside Pods that controllers create
    one, other = (table["workloads"]["results"] for table in (before, after))
    return next((result for result in other if other[result] != one[result]), "")


@dataclass
class Tally:
    """What was found of all changes so far."""

    simulated: int = 0
    warned: int = 0
    raced: int = 0
    precision: Counter[bool] = field(default_factory=Counter)
    """Whether a preemption followed, of warnings."""
    recall: Counter[bool] = field(default_factory=Counter)
    """Whether a warning came before, of preemptions."""
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """From outside, and by `forewarn webhook accuracy`."""
    differences: list[str] = field(default_factory=list)
    apart: int = 0

    def add(self, what: str, found: Ending, expected: set[Ending], warnings: Sequence[str], *, preempted: bool) -> None:
        """A change; `preempted`: whether a Pod was that ran before."""
        self.simulated += found in expected
        if found not in expected:
            told = "; or ".join(map(str, sorted(expected, key=str)[:3]))
            self.note(f"{what}: {found}; one of {len(expected)} was predicted: {told}")
        loud = any(rule in line for line in warnings for rule in TOLD_BY)
        self.precision.update([preempted] if loud else [])
        self.recall.update([loud] if preempted else [])
        either_way = found in expected and {True, False} <= {bool(end.preempted) for end in expected}
        self.warned += loud == preempted
        self.raced += loud != preempted and either_way
        if loud != preempted and not either_way:
            self.note(f"{what}: {found}; warned {warnings}")

    def add_verdicts(self, what: str, outside: str, account: str, example: Obj) -> None:
        """The two verdicts on one prediction for a workload."""
        self.verdicts[outside, account] += 1
        if (outside == "matched") != (account == "matched"):
            self.apart += 1
            self.note(f"{what}: {outside} from outside, {account} by accuracy {example}")

    def note(self, line: str) -> None:
        self.differences.append(line)
        print(line, flush=True)

    def lines(self, changes: int) -> Iterator[str]:
        yield f"{self.simulated} of {changes} as simulated"
        yield f"{self.warned} of {changes} rightly warned of or not, {self.raced} were a race"
        yield f"warnings followed by a preemption: {self.precision[True]} of {self.precision.total()}"
        yield f"preemptions preceded by a warning: {self.recall[True]} of {self.recall.total()}"
        outside = sum(count for (verdict, _), count in self.verdicts.items() if verdict == "matched")
        account = sum(count for (_, verdict), count in self.verdicts.items() if verdict == "matched")
        yield f"predictions for workloads that came true, of {self.verdicts.total()}: {outside} from outside,"
        yield f"{account} by forewarn; verdicts differ in {self.apart}: {dict(self.verdicts)}"


def test_what_is_predicted_is_what_happens(living: Living, tmp_path: Path) -> None:
    plane, webhook, api, stage, kubelets = living
    tally, limited = Tally(), False
    print(f"\ne2e: {CHANGES} changes, SEED={SEED}")
    for number in range(FIRST, FIRST + CHANGES):
        rng = random.Random(f"{SEED} {number}")
        if number % A_CLUSTER == 0 or number == FIRST:
            if number > FIRST:
                clear(api)
            build(stage, api, rng, every_kind=True, wide=WIDE)
            settled(kubelets, QUIET)
            limited = QUOTAS or rng.randrange(ONE_IN) == 0
            if limited:
                limit(api, rng)
        webhook.catch_up(api)
        changes = change_of(workloads(api), api.list("Pod", NAMESPACE), number, rng)
        change = changes[-1]
        limited = limited or any(obj["kind"] == "ResourceQuota" for obj in changes)
        expected = foretold(plane, changes, tmp_path)
        known = account(webhook)
        before = {pod["metadata"]["uid"]: pod for pod in api.list("Pod")}
        kubelets.preempted.clear()
        kubelets.seen.clear()
        answers = [apply(api, obj) for obj in changes]
        answer = answers[-1]
        rejected = limited and answer.code == 403 and "exceeded quota" in str(answer.body)
        for each in answers[: -1 if rejected else None]:
            if not 200 <= each.code < 300:
                raise Refused(each.code, str(each.body))
        warnings = [warning for each in answers for warning in each.warnings]
        kubelets.changed = time.monotonic()
        settled_with_jobs(api, kubelets, QUIET_WITH_A_QUOTA if limited else QUIET)
        names = [f"{NAMESPACE}/{change['metadata']['name']}"] if rejected else []
        found, preempted = Ending.seen(api, kubelets, names), set(kubelets.preempted)
        what = f"{number}: {' and '.join(obj['kind'] + ' ' + obj['metadata']['name'] for obj in changes)}"
        ran = {uid for uid, pod in before.items() if pod["spec"].get("nodeName")}  # who waited may be let in and out
        tally.add(what, found, expected, warnings, preempted=not ran.isdisjoint(preempted))
        are_several = len([obj for obj in changes if obj["kind"] in WORKLOADS]) > 1
        outside = "" if rejected or are_several else evaluated(plane, change, before, api.list("Pod"), preempted)
        table = account(webhook)
        own = result_of(change, known, table)
        if own and outside:
            tally.add_verdicts(what, outside, own, next(iter(table["workloads"]["examples"]), {}))
        load = f"load {os.getloadavg()[0]:.0f}"
        seen = [what, str(found), f"{outside} {own}", load, *warnings, *kubelets.seen]
        keep(tmp_path, f"{SEED}-{number}", seen)
        if number % 10 == 9:
            done = number + 1 - FIRST
            print(f"e2e: {done} changes; {'; '.join(tally.lines(done))}", flush=True)
    clear(api)
    for line in tally.lines(CHANGES):
        print(f"e2e: {line}")
    print(f"e2e: what was not as predicted (SEED={SEED})")
    print("\n".join(tally.differences))
    assert tally.simulated >= 0.9 * CHANGES
    assert tally.apart <= 0.05 * CHANGES


def apply(api: Api, change: Obj) -> Answer:
    """As kubectl would, with the warnings that it prints."""
    try:
        api.get(change["kind"], change["metadata"]["name"], NAMESPACE)
    except Refused:
        return api.ask("POST", path_of(change, name=""), change)
    return api.ask("PATCH", path_of(change), change, "application/merge-patch+json")
