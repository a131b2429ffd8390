"""Scenarios of further kinds, with what the first ones leave out. They are apart so that a number of those stays the
same scenario: evictions by taints, drains, CronJobs, what a Job's spec may say, minReadySeconds, partitions."""

from __future__ import annotations

from datetime import timedelta

from .dice import Dice, Obj
from .scenarios import ARRIVING, KINDS, ODDITIES, TIME_0, Arriving, Scenario, ScenarioKind, make_scenario, name_of

WIDER: dict[str, ScenarioKind] = {
    "no-execute": ScenarioKind(
        arrivals={"evict": 5, "heal": 3, "add-node": 1}, oddities={"tolerates-for": 0.6}, arriving=(2, 6)
    ),
    "drained": ScenarioKind(arrivals={"drain": 5, "uncordon": 3}, pdbs=0.7, arriving=(1, 4)),
    "cron-jobs": ScenarioKind({"CronJob": 5}, {"CronJob": 5, "suspend-cron": 2}, {"cron": 1.0}, close=0.5),
    "job-specs": ScenarioKind(
        {"Job": 8}, {"Job": 3, "suspend": 2, "parallelism": 3, "delete-pod": 2}, {"job-spec": 0.7}, arriving=(2, 6)
    ),
    "late": ScenarioKind(
        {"Deployment": 5, "StatefulSet": 3, "DaemonSet": 1}, {"roll": 6, "grow": 2}, {"late": 0.7, "strategy": 0.5}
    ),
    "partitioned": ScenarioKind(
        {"StatefulSet": 6, "DaemonSet": 2}, {"roll": 6, "delete-pod": 3}, {"partition": 0.6, "parallel": 0.3}
    ),
    "paused": ScenarioKind(
        {"Deployment": 8},
        {"roll": 5, "pause": 3, "back": 2, "grow": 2, "shrink": 2},
        {"strategy": 0.6},
        arriving=(2, 7),
    ),
    "soft": ScenarioKind(oddities={"spread-softly": 0.4, "beside-softly": 0.3, "two-spreads": 0.2}),
    "everything": ScenarioKind(
        {"DaemonSet": 1, "Deployment": 3, "StatefulSet": 2, "Job": 2, "CronJob": 1},
        {"StatefulSet": 1, "Job": 1, "Deployment": 1, "delete-pod": 2, "add-node": 1, "lose-node": 1, "cordon": 1,
         "drain": 1, "evict": 1, "heal": 1, "roll": 3, "grow": 1, "shrink": 1, "delete-workload": 1},
        {"never": 0.1, "apart": 0.1, "spread": 0.1, "parallel": 0.2, "tolerates-for": 0.2, "job-spec": 0.2,
         "late": 0.2},
        arriving=(3, 9),
        pdbs=0.3,
    ),
}  # fmt: skip
ALL_KINDS = {**KINDS, **WIDER}
CRON_JOB_AGE = timedelta(seconds=57)
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


class WiderScenario(Scenario):
    """One of these kinds while it is made up."""

    def workload(self, kind: str, name: str, priority: int) -> Obj:
        if kind == "CronJob":
            return self._cron_job(name, priority)
        made = super().workload(kind, name, priority)
        spec, chance = made["spec"], self.dice.chance
        for what in ("job-spec", "late", "partition"):
            if kind in CHANGED[what] and chance(self.kind.oddities.get(what, 0)):
                getattr(self, "_" + what.replace("-", "_"))(kind, spec)
        return made

    def run(self, workload: Obj) -> bool:
        """A CronJob, a minute old, and a suspended Job have no pods at time 0. An indexed Job's have their index."""
        spec, before = workload["spec"], len(self.pods)
        if workload["kind"] == "CronJob":
            workload["metadata"]["creationTimestamp"] = f"{TIME_0 - CRON_JOB_AGE:%Y-%m-%dT%H:%M:%SZ}"
        if workload["kind"] == "CronJob" or spec.get("suspend"):
            return True
        if "completions" in spec:
            spec["parallelism"] = min(spec["parallelism"], spec["completions"])
        ran = super().run(workload)
        if spec.get("completionMode") == "Indexed":
            for index, pod in enumerate(self.pods[before:]):
                metadata = pod["metadata"]
                metadata["name"] = f"{name_of(workload)}-{index}-{index + 1}"
                metadata["labels"] = {**metadata["labels"], COMPLETION_INDEX: str(index)}
                metadata["annotations"] = {**metadata.get("annotations", {}), COMPLETION_INDEX: str(index)}
        return ran

    def _cron_job(self, name: str, priority: int) -> Obj:
        dice = self.dice
        job = super().workload("Job", name, priority)
        if dice.chance(0.4):
            self._job_spec("Job", job["spec"])
        job["spec"].pop("suspend", None)
        spec: Obj = {
            "schedule": dice.pick(("* * * * *", "*/2 * * * *", "*/3 * * * *", "1-59/5 * * * *", "@hourly")),
            "concurrencyPolicy": dice.pick(("Allow", "Forbid", "Replace")),
            "jobTemplate": {"metadata": {"labels": {"app": name}}, "spec": job["spec"]},
        }
        if dice.chance(0.2):
            spec["startingDeadlineSeconds"] = dice.number(10, 200)
        metadata = {"name": name, "namespace": "default", "labels": {"app": name}}
        return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec}

    def _job_spec(self, _: str, spec: Obj) -> None:
        dice = self.dice
        if dice.chance(0.5):
            spec["completions"] = dice.number(1, 6)
            if dice.chance(0.5):
                spec["completionMode"] = "Indexed"
        if dice.chance(0.3):
            spec["backoffLimit"] = dice.number(0, 3)
        if dice.chance(0.2):
            spec["activeDeadlineSeconds"] = dice.number(20, 400)
        if dice.chance(0.2):
            spec["suspend"] = True

    def _late(self, _: str, spec: Obj) -> None:
        spec["minReadySeconds"] = self.dice.pick((1, 5, 20, 60))

    def _partition(self, kind: str, spec: Obj) -> None:
        dice = self.dice
        if dice.chance(0.3):
            spec["updateStrategy"] = {"type": "OnDelete"}
        elif kind == "StatefulSet":
            spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": dice.number(0, 4)}}
        else:
            limits = {"maxSurge": dice.number(1, 2), "maxUnavailable": 0}
            spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": limits}


CHANGED = {
    "job-spec": ("Job",),
    "late": ("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet"),
    "partition": ("StatefulSet", "DaemonSet"),
}


# Oddities of templates


def _tolerates_for(scenario: Scenario, _: str, spec: Obj) -> None:
    toleration: Obj = {"key": "out", "operator": "Exists", "effect": "NoExecute"}
    if scenario.dice.chance(0.8):
        toleration["tolerationSeconds"] = scenario.dice.pick((7, 30, 90, 300))
    spec["tolerations"] = [toleration]


def _spread_softly(scenario: Scenario, app: str, spec: Obj) -> None:
    _spread(scenario, app, spec, "ScheduleAnyway")


def _two_spreads(scenario: Scenario, app: str, spec: Obj) -> None:
    _spread(scenario, app, spec, "ScheduleAnyway")
    _spread(scenario, app, spec, "DoNotSchedule")


def _spread(scenario: Scenario, app: str, spec: Obj, otherwise: str) -> None:
    key = scenario.dice.pick(("kubernetes.io/hostname", "topology.kubernetes.io/zone"))
    constraint = {"maxSkew": scenario.dice.number(1, 2), "topologyKey": key, "whenUnsatisfiable": otherwise}
    known = spec.setdefault("topologySpreadConstraints", [])
    if (key, otherwise) not in {(each["topologyKey"], each["whenUnsatisfiable"]) for each in known}:
        known.append({**constraint, "labelSelector": {"matchLabels": {"app": app}}})


def _beside_softly(scenario: Scenario, app: str, spec: Obj) -> None:
    dice = scenario.dice
    kind = dice.pick(("podAffinity", "podAntiAffinity"))
    other = f"w{dice.number(1, 6)}" if dice.chance(0.6) else app
    key = dice.pick(("kubernetes.io/hostname", "topology.kubernetes.io/zone"))
    term = {"labelSelector": {"matchLabels": {"app": other}}, "topologyKey": key}
    preferred = [{"weight": dice.number(1, 100), "podAffinityTerm": term}]
    spec.setdefault("affinity", {})[kind] = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}


ODDITIES.update(
    {
        "tolerates-for": _tolerates_for,
        "spread-softly": _spread_softly,
        "two-spreads": _two_spreads,
        "beside-softly": _beside_softly,
    }
)


# Arrivals


def _evict(scenario: Scenario, what: str, _: str) -> Arriving:
    """A node gets a taint that evicts, or loses its taints."""
    node = scenario.dice.pick(scenario.nodes)
    taints = [{"key": "out", "effect": "NoExecute"}] if what == "evict" else []
    if taints and scenario.dice.chance(0.2):
        taints.append({"key": scenario.dice.pick(("more", "own")), "effect": "NoExecute"})
    return [("update", {**node, "spec": {**node["spec"], "taints": taints}})]


def _drain(scenario: Scenario, _: str, __: str) -> Arriving:
    return [("drain", scenario.dice.pick(scenario.nodes))]


def _of_kind(scenario: Scenario, *kinds: str) -> list[Obj]:
    arrived = [a["object"] for a in scenario.arrivals if a["op"] in ("create", "update")]
    found = {name_of(obj): obj for obj in (*scenario.workloads, *arrived) if obj["kind"] in kinds}
    return list(found.values())


def _respecified(scenario: Scenario, changed: Obj, *kinds: str) -> Arriving:
    found = _of_kind(scenario, *kinds)
    if not found:
        return []
    workload = scenario.dice.pick(found)
    return [("update", {**workload, "spec": {**workload["spec"], **changed}})]


def _suspend(scenario: Scenario, _: str, __: str) -> Arriving:
    return _respecified(scenario, {"suspend": scenario.dice.chance(0.5)}, "Job")


def _suspend_cron(scenario: Scenario, _: str, __: str) -> Arriving:
    return _respecified(scenario, {"suspend": scenario.dice.chance(0.6)}, "CronJob")


def _parallelism(scenario: Scenario, _: str, __: str) -> Arriving:
    return _respecified(scenario, {"parallelism": scenario.dice.number(0, 6)}, "Job")


def _pause(scenario: Scenario, _: str, __: str) -> Arriving:
    return _respecified(scenario, {"paused": scenario.dice.chance(0.6)}, "Deployment")


def _back(scenario: Scenario, _: str, __: str) -> Arriving:
    """Somebody applies again what was there at first."""
    own = [workload for workload in scenario.workloads if workload["kind"] == "Deployment"]
    return [("update", scenario.dice.pick(own))] if own else []


ARRIVING.update(
    {
        "evict": _evict,
        "heal": _evict,
        "drain": _drain,
        "suspend": _suspend,
        "suspend-cron": _suspend_cron,
        "parallelism": _parallelism,
        "pause": _pause,
        "back": _back,
    }
)


def make_any_scenario(seed: int, number: int, name: str) -> Obj:
    """One scenario of any kind; the same seed, number and kind always give the same one."""
    if name in KINDS:
        return make_scenario(seed, number, name)
    scenario = WiderScenario(Dice(f"{seed}/{number}/{name}"), WIDER[name])
    scenario.fill()
    scenario.arrive()
    case = scenario.to_case(f"{name}-{seed}-{number}", name)
    if {"evict", "CronJob"} & {*scenario.kind.arrivals}:  # pods that come and are evicted again and again
        case["horizonSeconds"] -= 1000
    return case
