#!/usr/bin/env python3
"""Put what `forewarn whatif` is asked into scenarios, and compare its answers with those of Kubernetes' own code.

owners.py [--events node,zone,drain,class,scale,restart,add] [--count 500] [--seed 1] [--first 0]

Each case is a random cluster with one event at time 0: a node or zone is lost, a node drained, a PriorityClass
changed and what uses it restarted, a workload scaled or restarted, nodes added. `whatif` is given it as a dump,
`oracle scenarios` as a scenario. They agree where the same pods are pushed out and the same pods wait in the end.
Where ties and races decide, two runs of either need not agree: on a disagreement both are asked for several runs, all
but one diced for, and `one of several` is said where some run of one is a run of the other. Ends with 1 where there
is a disagreement.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from forewarn.policies.kubernetes.objects.node import ZONE

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from forewarn.policies.kubernetes.objects.fields import group_kind
from forewarn.policies.prediction.simulation.api_server import EPOCH
from forewarn.policies.prediction.simulation.scenario import QUIET, Arrival, DumpCache, World, world_of
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.prediction.simulation.summary import Outcome as OneRun
from forewarn.policies.prediction.simulation.summary import explore
from forewarn.policies.questions.whatif import questions
from forewarn.policies.questions.whatif.class_change import Change, apply_change, effect_of, restarts
from forewarn.policies.questions.whatif.comparison import ask
from forewarn.policies.questions.whatif.questions import Question
from tests.oracle.compare_scenarios import SEVERAL, differences, with_plain_names
from tests.oracle.generator.claims import CLAIMS, ClaimScenario
from tests.oracle.generator.dice import Dice, Obj
from tests.oracle.generator.scenarios import KINDS, Scenario, ScenarioKind, name_of
from tests.policies.simulation.comparing import judge

TOP = Path(__file__).resolve().parents[2]
AGAIN: Final = 40
"""Runs of a case on which they disagree."""
BY_WORKLOAD: Final = f"{SEVERAL}, by workload"
"""Runs in which as many pods of each workload were pushed out and wait, but not those of the same names: upstream goes
through lost pods in the order of a Go map, of which there are more than anybody runs."""
HORIZON: Final = 3600.0
EVENTS: Final = ("node", "zone", "drain", "class", "scale", "restart", "add")
ROLLED: Final = ("class", "scale", "restart")
"""Events of clusters with workloads that can be scaled and restarted."""
SHAPES: Final = (
    "simple",
    "deployments",
    "stateful",
    "jobs",
    "daemons",
    "budgets",
    "never",
    "slow",
    "topology",
    "apart",
)
"""Kinds of clusters, as `generate.py --scenarios` has them; what arrives there does not come here."""
READY: Final = [{"type": "Ready", "status": "True"}]
Outcome = dict[str, Any]


class Asked(NamedTuple):
    """A case: `scenario` for the oracle, and the same question to forewarn."""

    scenario: Obj
    question: Question
    world: World


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", default=",".join(EVENTS), help="of these (default all)")
    parser.add_argument("--count", type=int, default=500, help="clusters for each event (default 500)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first cluster (default 0)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--claims", action="store_true", help="clusters with claims and volumes (generator/claims.py)")
    parser.add_argument("--oracle", type=Path, default=TOP / ".cache" / "oracle")
    parser.add_argument("--show", type=int, default=10, help="disagreements of an event to tell of (default 10)")
    options = parser.parse_args(arguments)
    if unknown := set(options.events.split(",")) - set(EVENTS):
        parser.error(f"unknown events: {', '.join(sorted(unknown))} (there are {', '.join(EVENTS)})")
    wrong = 0
    for event in options.events.split(","):
        tally = compare(event, options)
        wrong += tally["do not"] + tally["not answered by the oracle"]
        print(f"{event} (seed {options.seed}): {', '.join(f'{count} {what}' for what, count in sorted(tally.items()))}")
    return 1 if wrong else 0


def compare(event: str, options: argparse.Namespace) -> Counter[str]:
    """How many clusters came to what."""
    tally, shown = Counter[str](), 0
    numbers = range(options.first, options.first + options.count)
    cases = [make_case(options.seed, number, event, claims=options.claims) for number in numbers]
    for case, answer in zip(cases, ask_oracle(options.oracle, [case.scenario for case in cases], 1), strict=True):
        if "error" in answer:
            tally["not answered by the oracle"] += 1
            print(f"{case.scenario['id']}: {answer['error'][:300]}")
            continue
        verdict, lines = verdict_on(case, answer, options.oracle)
        tally[verdict] += 1
        if verdict == "do not" and shown < options.show:
            shown += 1
            print(f"{case.scenario['id']} ({case.scenario['category']}): {case.question.title}")
            print("".join(f"   {line}\n" for line in lines), end="", flush=True)
    return tally


def verdict_on(case: Asked, answer: Obj, oracle: Path) -> tuple[str, list[str]]:
    """What it is counted as, and how it differs from the oracle's run of fixed latencies."""
    answered = ask(case.question, case.world)
    ours = with_plain_names(OneRun(answered.after.simulation).to_dict())
    theirs = [with_plain_names(each) for each in answer["outcomes"]]
    assert Counter(push.victim for push in answered.after.preempted) == Counter(
        victims_of(OneRun(answered.after.simulation).to_dict())
    )
    if end_of(ours) in map(end_of, theirs):
        whole = not judge({"outcomes": theirs}, ours)[0]
        return ("agree, every event in its place" if whole else "agree"), []
    several = [with_plain_names(each) for each in next(ask_oracle(oracle, [case.scenario], AGAIN))["outcomes"]]
    own = [ours, *(with_plain_names(each.to_dict()) for each in explore(partial(Simulation, case.world), AGAIN))]
    for verdict, end in ((SEVERAL, end_of), (BY_WORKLOAD, by_workload)):
        if {end(each) for each in several} & {end(each) for each in own}:
            return verdict, []
    told = [
        f"{what}: {one} instead of {other}"
        for what, one, other in zip(("pushed out", "waiting in the end"), end_of(ours), end_of(theirs[0]), strict=True)
        if one != other
    ]
    return "do not", [*told, *differences(theirs[0], ours, "final")]


def end_of(outcome: Outcome) -> tuple[tuple[str, ...], ...]:
    """(who was pushed out, who waits in the end)."""
    waiting = (pod for pod, state in outcome["final"].items() if not state["node"])
    return tuple(sorted(victims_of(outcome))), tuple(sorted(waiting))


def by_workload(outcome: Outcome) -> tuple[tuple[str, ...], ...]:
    """The same of workloads: how many of their pods."""
    victims, waiting = end_of(outcome)
    return tuple(sorted(map(_workload_of, victims))), tuple(sorted(map(_workload_of, waiting)))


def _workload_of(pod: str) -> str:
    return pod.split("-")[0]


def victims_of(outcome: Outcome) -> list[str]:
    """A pod that two others evict at once is one victim: it is told again only where it has come back meanwhile."""
    found, ending = [], set[str]()
    for event in outcome["timeline"]:
        pod = event.get("pod", "")
        if event["event"] == "preempted":
            if pod not in ending:
                found.append(pod)
            ending.add(pod)
        elif event["event"] == "gone":
            ending.discard(pod)
    return found


def ask_oracle(oracle: Path, scenarios: list[Obj], runs: int, gates: str = "") -> Iterator[Obj]:
    """Its answers, in order. `gates`: as in `--feature-gates`."""
    command = [str(oracle), "scenarios", "--runs", str(runs), *(["--feature-gates", gates] if gates else [])]
    text = "".join(json.dumps(scenario, separators=(",", ":")) + "\n" for scenario in scenarios)
    environment = {**os.environ, "GOMAXPROCS": "1"}
    told = subprocess.run(command, input=text, capture_output=True, text=True, env=environment)
    answers = [json.loads(line) for line in told.stdout.splitlines()]
    if told.returncode not in (0, 1) or len(answers) != len(scenarios):
        sys.exit(f"{oracle.name} ended with {told.returncode} after {len(answers)} cases:\n{told.stderr[-2000:]}")
    yield from answers


# Cases


def make_case(seed: int, number: int, event: str, *, claims: bool = False) -> Asked:
    """One case; the same seed, number and event always give the same one."""
    kinds = CLAIMS if claims else {shape: KINDS[shape] for shape in SHAPES}
    shape = list(kinds)[number % len(kinds)]
    dice = Dice(f"{seed}/{number}/{event}")
    while True:
        kind = with_rollouts(kinds[shape]) if event in ROLLED else kinds[shape]
        made = ClaimScenario(dice, kind) if claims else Scenario(dice, kind)
        made.fill()
        if made.pods and (event not in ROLLED or sized(made)):
            break
    classes = Classes(dice)
    for obj in (*made.workloads, *made.pods):
        classes.give(obj)
    cache = DumpCache()
    case = made.to_case(f"{event}-{seed}-{number}", shape)
    storage = (stored(obj, key) for key in STORAGE for obj in case.get(key, ()))
    for obj in (*made.nodes, *classes.objects, *made.workloads, *map(running, made.pods), *made.pdbs, *storage):
        cache.add(obj)
    question, arrivals = ASKED[event](cache, made, classes, dice)
    world = world_of(cache, question.arrivals, until=HORIZON)._replace(epoch=EPOCH)
    # As in the oracle's world.
    world = world._replace(asks_webhooks=False, order_known=True, pods_take_time_to_start=False)
    objects = {name_of(pod): pod for pod in made.pods}
    # Its annotations say how long a pod takes to end.
    world = world._replace(pods=[replace(state, template=objects[state.pod.name]) for state in world.pods])
    order = {state.key: place for place, state in enumerate(world.workloads)}
    case["workloads"].sort(key=lambda obj: order[group_kind(obj), "default", name_of(obj)])
    case["pods"].sort(key=lambda obj: (obj["status"]["startTime"], name_of(obj)))
    known = sorted(cache.snapshot().priority_classes.values(), key=lambda each: each.name)
    case["priorityClasses"] = [each.to_api() for each in known]
    case |= {"arrivals": arrivals, "horizonSeconds": int(HORIZON), "quietSeconds": int(QUIET)}
    return Asked(case, question, world)


def with_rollouts(kind: ScenarioKind) -> ScenarioKind:
    """The same with more that can be scaled and restarted."""
    more = {"Deployment": 4, "StatefulSet": 3}
    return ScenarioKind(
        {**kind.workloads, **more},
        kind.arrivals,
        kind.oddities,
        kind.nodes,
        kind.arriving,
        kind.pdbs,
        kind.slow,
        kind.close,
    )


def sized(made: Scenario) -> list[Obj]:
    """What can be scaled and restarted."""
    return [w for w in made.workloads if w["kind"] in ("Deployment", "StatefulSet") and w["spec"]["replicas"]]


STORAGE: Final = {
    "pvcs": ("v1", "PersistentVolumeClaim"),
    "pvs": ("v1", "PersistentVolume"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "csiNodes": ("storage.k8s.io/v1", "CSINode"),
}
"""Lists of a scenario -> apiVersion and kind of what is in them."""


def stored(obj: Obj, key: str) -> Obj:
    """An object of one of these lists as a dump has it."""
    version, kind = STORAGE[key]
    return {**obj, "apiVersion": version, "kind": kind}


def running(pod: Obj) -> Obj:
    """As a dump has it."""
    return {**pod, "status": {**pod["status"], "conditions": READY}}


class Classes:
    """PriorityClasses for the priorities that a cluster has: templates name them, pods have their numbers too."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._named: dict[tuple[int, str], str] = {}
        self._bare = {f"w{number}" for number in range(1, 15) if dice.chance(0.15)}
        """Workloads without a class."""

    def give(self, obj: Obj) -> None:
        """Name classes in a workload or pod, which keeps its rank."""
        spec = obj["spec"].get("template", obj)["spec"] if obj["kind"] != "Pod" else obj["spec"]
        policy = spec.pop("preemptionPolicy", "PreemptLowerPriority")
        bare = obj["metadata"]["labels"]["app"] in self._bare and policy != "Never"
        if "priority" not in spec:
            return
        value = spec.pop("priority")
        if bare:
            value = 0
        else:
            spec["priorityClassName"] = self._named.setdefault((value, policy), f"c{value}-{policy.lower()}")
        if obj["kind"] == "Pod":
            spec |= {"priority": value, "preemptionPolicy": policy}

    @property
    def objects(self) -> list[Obj]:
        """As they are stored."""
        return [
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
                "preemptionPolicy": policy,
            }
            for (value, policy), name in sorted(self._named.items())
        ]


Made = tuple[Question, list[Obj]]


def _node(cache: DumpCache, made: Scenario, _: Classes, dice: Dice) -> Made:
    question = questions.nodes_lost(cache.snapshot(), [name_of(dice.pick(made.nodes))])
    return question, _deleted(question)


def _zone(cache: DumpCache, made: Scenario, _: Classes, dice: Dice) -> Made:
    zone = dice.pick(made.nodes)["metadata"]["labels"][ZONE]
    question = questions.zone_lost(cache.snapshot(), zone)
    return question, _deleted(question)


def _deleted(question: Question) -> list[Obj]:
    return [{"at": 0.0, "op": "delete", "object": arrival.object} for arrival in question.arrivals]


def _drain(cache: DumpCache, made: Scenario, _: Classes, dice: Dice) -> Made:
    question = questions.drained(cache.snapshot(), [name_of(dice.pick(made.nodes))])
    return question, [{"at": 0.0, "op": "drain", "object": arrival.object} for arrival in question.arrivals]


def _scale(cache: DumpCache, made: Scenario, _: Classes, dice: Dice) -> Made:
    workload = dice.pick(sized(made))
    count = dice.pick((0, 1, workload["spec"]["replicas"] + dice.number(1, 6), 2 * workload["spec"]["replicas"]))
    name = f"{workload['kind'].lower()}/{name_of(workload)}"
    question = questions.scaled(cache.snapshot(), name, count, "default")
    changed = {**workload, "spec": {**workload["spec"], "replicas": count}}
    return question, [{"at": 0.0, "op": "update", "object": changed}]


def _restart(cache: DumpCache, made: Scenario, _: Classes, dice: Dice) -> Made:
    workload = dice.pick(sized(made))
    question = questions.restart(cache.snapshot(), f"{workload['kind'].lower()}/{name_of(workload)}", "default")
    return question, [{"at": 0.0, "op": "update", "object": arrival.object} for arrival in question.arrivals]


def _add(cache: DumpCache, made: Scenario, _: Classes, dice: Dice) -> Made:
    model, count = dice.pick(made.nodes), dice.number(1, 3)
    question = questions.added(cache.snapshot(), "node", name_of(model), count)
    labels = model["metadata"].get("labels", {})
    alike = ({"name": name, "labels": {**labels, "kubernetes.io/hostname": name}} for name in question.added)
    return question, [{"at": 0.0, "op": "create", "object": {**model, "metadata": metadata}} for metadata in alike]


def _class(cache: DumpCache, made: Scenario, classes: Classes, dice: Dice) -> Made:
    """What rolls out is restarted with its class changed, as `whatif class` does it."""
    named = [w["spec"]["template"]["spec"].get("priorityClassName") for w in sized(made)]
    known = [each["metadata"]["name"] for each in classes.objects]
    name = dice.pick([each for each in named if each] or known or ["new"])
    value = 10 * dice.number(1, 160)
    changes: dict[str, Callable[[], Change]] = {
        "value": lambda: Change(name, value=value),
        "default": lambda: Change(name, default=True, value=None if name in known else value),
        "policy": lambda: Change(name, policy="Never", value=None if name in known else value),
    }
    before = cache.snapshot()
    apply_change(cache, changes[dice.weighted({"value": 6, "default": 2, "policy": 2})]())
    found: list[Arrival] = restarts(effect_of(before, cache.snapshot(), name, {}))
    told = [{"at": 0.0, "op": "update", "object": arrival.object} for arrival in found]
    return Question(f"class {name} changed, {len(found)} restarted", found), told


ASKED: dict[str, Callable[[DumpCache, Scenario, Classes, Dice], Made]] = {
    "node": _node,
    "zone": _zone,
    "drain": _drain,
    "class": _class,
    "scale": _scale,
    "restart": _restart,
    "add": _add,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
