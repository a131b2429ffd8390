#!/usr/bin/env python3
"""Compare what forewarn simulates with the scenario oracle on fresh random scenarios, as far as somebody has patience.

scenarios_campaign.py [--seed 6001] [--count 10000] [--chunk 210]

What is done is kept in the journal, a line a chunk, and not done again. Each scenario is run once by either with fixed
latencies. Where these differ, forewarn is run again, and of several nodes that are equal to preemption takes the one
that the oracle took: `with the same ties`. Where these differ too, both are run 8 times, all but once with dice, then
40 times: it is counted as `one of several` where some run of one is a run of the other, to the end and by every event
of every pod in its order; as `the end alone` where only an end is; as `by workload` where in some two runs as many pods
of each workload are on each node, are pushed out and wait in the end, under other names. Prints the counts and how to
make each other case again.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from forewarn.policies.kubernetes.releases.release import semantics_of
from forewarn.policies.kubernetes.releases.semantics import DEFAULT, Semantics
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.prediction.simulation.summary import Outcome as OneRun
from tests.oracle.compare_scenarios import Outcome, with_plain_names
from tests.oracle.generator.claims import CLAIMS, make_scenario_of_every_kind
from tests.oracle.generator.gangs import GANGS
from tests.oracle.generator.scenarios import KINDS
from tests.oracle.generator.wider import WIDER
from tests.oracle.owners import ask_oracle, victims_of
from tests.policies.simulation.comparing import by_pod, final, order
from tests.recorded.commands import answer_scenario as answer_case
from tests.recorded.scenario import read_scenario

TOP = Path(__file__).resolve().parents[2]
SEVERAL = (8, 40)
"""Runs of either where those of fixed latencies differ."""
AGREED = ("agree", "with the same ties", "one of several")
VERDICTS = (*AGREED, "the end alone", "by workload", "do not", "not answered by the oracle")
DECIDED = (5e-4, 1.6e-3)
"""Seconds from when a node is chosen until the nomination is stored: a write takes 1 to 1.1 ms."""
FAMILIES = {"first": KINDS, "further": WIDER, "claims": CLAIMS, "gangs": GANGS}
"""Kinds that a campaign takes in turn."""
GATES = {"gangs": "GenericWorkload=true"}
"""Feature gates of a family's scenarios, which are then those of the newest minor."""
Events = tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...]


class Chunk(NamedTuple):
    """A line of the journal: which scenarios, how many came to which verdict, and (number, verdict) of all that are
    not in AGREED. `family`: of FAMILIES."""

    seed: int
    first: int
    verdicts: dict[str, int]
    others: list[list[Any]]
    family: str = "first"


class End(NamedTuple):
    """A run, less its times. `pods`: every event of every pod; `final`: where each is; `by_workload`: how many pods of
    each workload are on which node, and how many were pushed out."""

    pods: Events
    final: tuple[tuple[str, tuple[str, str, bool]], ...]
    by_workload: tuple[tuple[tuple[str, str], int], ...]

    @classmethod
    def of(cls, outcome: Outcome) -> "End":
        """Of an outcome, with its hashes numbered."""
        plain = with_plain_names(outcome)
        places = final(plain)
        counts = Counter((workload_of(pod), node) for pod, (node, _, _) in places.items())
        counts.update((workload_of(pod), "pushed out") for pod in victims_of(plain))
        events = ((pod, tuple(what)) for pod, what in order(by_pod(plain)).items())
        return cls(tuple(sorted(events)), tuple(sorted(places.items())), tuple(sorted(counts.items())))


def workload_of(pod: str) -> str:
    """`default/w3-new0-2`: default/w3."""
    return pod.split("-")[0]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=6001)
    parser.add_argument("--count", type=int, default=10_000, help="scenarios, of all kinds in turn (default 10000)")
    parser.add_argument("--chunk", type=int, help="scenarios a chunk (default: ten of each kind)")
    for option, family, text in (
        ("--wider", "further", "of the further kinds (generator/wider.py)"),
        ("--claims", "claims", "of the kinds with claims and volumes (generator/claims.py)"),
        ("--gangs", "gangs", "of the kinds with PodGroups (generator/gangs.py), with an oracle of 1.37"),
    ):
        parser.add_argument(option, action="store_const", dest="family", const=family, default="first", help=text)
    parser.add_argument("--oracle", type=Path, default=TOP / ".cache" / "oracle")
    parser.add_argument("--journal", type=Path, default=TOP / ".cache" / "scenarios-campaign.jsonl")
    parser.add_argument("--report", action="store_true", help="print what the journal holds, and stop")
    options = parser.parse_args(arguments)
    if not options.report:
        options.journal.parent.mkdir(parents=True, exist_ok=True)
        same = [each for each in journal(options.journal) if (each.seed, each.family) == (options.seed, options.family)]
        done, size = (
            sum(sum(each.verdicts.values()) for each in same),
            options.chunk or 10 * len(FAMILIES[options.family]),
        )
        for first in range(done, options.count, size):
            chunk = run(options.oracle, options.seed, first, min(size, options.count - first), options.family)
            with options.journal.open("a") as out:
                out.write(json.dumps(chunk._asdict()) + "\n")
            print(f"seed {chunk.seed} from {chunk.first}: {told(chunk.verdicts)}", flush=True)
    return report(list(journal(options.journal)))


def journal(path: Path) -> Iterator[Chunk]:
    """What is done already."""
    for line in path.read_text().splitlines() if path.exists() else ():
        yield Chunk(**json.loads(line))


def run(oracle: Path, seed: int, first: int, count: int, family: str) -> Chunk:
    """Some scenarios, one after the other."""
    numbers = range(first, first + count)
    scenarios = [make_scenario_of_every_kind(seed, number, kind_of(number, family)) for number in numbers]
    verdicts, others = Counter[str](), []
    answers = ask_oracle(oracle, scenarios, 1, GATES.get(family, ""))
    for number, scenario, answer in zip(numbers, scenarios, answers, strict=True):
        verdict = "not answered by the oracle" if "error" in answer else verdict_on(oracle, scenario, answer, family)
        verdicts[verdict] += 1
        if verdict not in AGREED:
            others.append([number, verdict])
    return Chunk(seed, first, dict(verdicts), others, family)


def kind_of(number: int, family: str) -> str:
    """The kind of scenario that has this number."""
    kinds = list(FAMILIES[family])
    return kinds[number % len(kinds)]


def verdict_on(oracle: Path, scenario: Any, answer: Any, family: str = "first") -> str:
    """What it is counted as."""
    gates, semantics = GATES.get(family, ""), semantics_for(family)
    theirs_fixed = answer["outcomes"][0]
    if End.of(theirs_fixed) == End.of(answer_case(scenario, semantics=semantics)["outcomes"][0]):
        return "agree"
    if End.of(theirs_fixed) == End.of(with_its_ties(scenario, theirs_fixed, semantics)):
        return "with the same ties"
    for runs in SEVERAL:
        theirs = {End.of(each) for each in next(ask_oracle(oracle, [scenario], runs, gates))["outcomes"]}
        ours = {End.of(each) for each in answer_case(scenario, runs=runs, semantics=semantics)["outcomes"]}
        if theirs & ours:
            return "one of several"
    if {end.final for end in theirs} & {end.final for end in ours}:
        return "the end alone"
    return "by workload" if {end.by_workload for end in theirs} & {end.by_workload for end in ours} else "do not"


def semantics_for(family: str) -> Semantics:
    """What the scenarios of a family are simulated with."""
    return semantics_of(37, {"GenericWorkload": True}) if family in GATES else DEFAULT


def with_its_ties(scenario: Any, theirs: Outcome, semantics: Semantics = DEFAULT) -> Outcome:
    """Our run of fixed latencies, where nodes that are equal to preemption are chosen as in the oracle's.

    Upstream takes the first one that a Go map yields. What is not among the equal ones is never taken.
    """
    nominated = [(event["t"], event["node"]) for event in theirs["timeline"] if event["event"] == "nominated"]

    def choose(names: Sequence[str]) -> str:
        soon = (node for t, node in nominated if DECIDED[0] < t - simulation.clock.now < DECIDED[1])
        return next((node for node in soon if node in names), names[0])

    simulation = Simulation(read_scenario(scenario, semantics), choose=choose)
    simulation.run()
    return OneRun(simulation).to_dict()


def told(verdicts: dict[str, int]) -> str:
    return ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS if verdicts.get(verdict))


def report(chunks: list[Chunk]) -> int:
    for seed, family in sorted({(chunk.seed, chunk.family) for chunk in chunks}):
        sums, by_kind = Counter[str](), Counter[str]()
        for chunk in chunks:
            if (chunk.seed, chunk.family) == (seed, family):
                sums.update(chunk.verdicts)
                by_kind.update(kind_of(number, family) for number, verdict in chunk.others if verdict == "do not")
        print(f"seed {seed}, {family} kinds: {sums.total()} scenarios: {told(sums)}")
        print(f"   do not, by kind: {', '.join(f'{kind} {count}' for kind, count in by_kind.most_common()) or '-'}")
    for chunk in chunks:
        for number, verdict in chunk.others:
            again = f"--seed {chunk.seed} --first {number} --count 1 --kinds {kind_of(number, chunk.family)}"
            print(f"{verdict}: generate.py --scenarios {again}")
    return 1 if any(verdict == "do not" for chunk in chunks for _, verdict in chunk.others) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
