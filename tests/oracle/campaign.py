#!/usr/bin/env python3
"""Compare forewarn with the oracles of several releases, in chunks, as far as somebody has patience.

campaign.py [--minors 1.34,1.36] [--suites wide,devices] [--chunk 1000]

In rounds: a chunk of each suite for each release, until each has as many cases as it wants. What is done is kept in
the journal, a line a chunk, and not done again. Prints the counts reached and, for each disagreement, how to make its
case again. Ends with 1 where there is any.
"""

import argparse
import copy
import functools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from forewarn.policies.kubernetes.kube_apiserver.validation.decode import unknown_fields
from forewarn.policies.kubernetes.releases.minors import KNOWN_MINORS
from forewarn.policies.kubernetes.releases.release import Release, known_minor
from tests.oracle.compare import NOT_ANSWERED, disagreements
from tests.oracle.generator.kinds import KINDS, make_case
from tests.recorded.commands import cache_of_case

TOP = Path(__file__).resolve().parents[2]
DEVICES = [kind for kind in KINDS if kind.startswith("devices")]
SHARED_DEVICES = [kind for kind in KINDS if kind.startswith("dra-")]
OTHERS = [kind for kind in KINDS if kind not in (*DEVICES, *SHARED_DEVICES)]


NEWER = "not a case: unknown field"
"""How the oracle's answer begins where a case has fields that its release does not know."""
AGAIN = 16
"""How often the oracle is asked about a case again on which it and forewarn disagree."""
OUTCOMES = ("agree", "agree with one of several answers", "do not", "not answered by the oracle")


class Suite(NamedTuple):
    """Random cases of some kinds; the numbers of its cases go on from chunk to chunk, its seed stays."""

    seed: int
    wanted: int
    kinds: list[str]
    configured: bool = False

    def again(self, number: int) -> str:
        """The command that makes the case of this number again."""
        kind = self.kinds[number % len(self.kinds)]
        configured = " --configured" if self.configured else ""
        return f"generate.py --seed {self.seed} --first {number} --count 1 --kinds {kind}{configured}"


SUITES = {
    "wide": Suite(4001, 20_000, OTHERS),
    "configured": Suite(4002, 5_000, [*OTHERS, *DEVICES], configured=True),
    "devices": Suite(4003, 5_000, DEVICES),
    "shared-devices": Suite(4004, 3_000, SHARED_DEVICES),
}


class Chunk(NamedTuple):
    """A line of the journal: which cases these were, and what came of them.

    `either`: how many agree with an answer that the oracle gives only sometimes; upstream goes through some things in
    the order of a Go map.
    """

    minor: str
    suite: str
    first: int
    cases: int
    agree: int
    either: int
    unanswered: list[list[Any]]
    wrong: list[list[Any]]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minors", default=",".join(f"1.{minor}" for minor in KNOWN_MINORS))
    parser.add_argument("--suites", default=",".join(SUITES), help=f"of {', '.join(SUITES)} (default all)")
    parser.add_argument("--chunk", type=int, default=1000, help="cases a chunk (default 1000)")
    parser.add_argument("--count", type=int, help="cases of each suite (default: 20000 wide ones, 5000 others)")
    parser.add_argument("--oracles", type=Path, default=TOP / ".cache", help="where oracle-1.MM.* are")
    parser.add_argument("--journal", type=Path, default=TOP / ".cache" / "campaign.jsonl")
    parser.add_argument("--report", action="store_true", help="print what the journal holds, and stop")
    options = parser.parse_args(arguments)
    minors, suites = options.minors.split(","), options.suites.split(",")
    if unknown := set(suites) - set(SUITES):
        parser.error(f"unknown suites: {', '.join(sorted(unknown))} (there are {', '.join(SUITES)})")
    for minor in minors:
        known_minor(minor)
    if not options.report:
        options.journal.parent.mkdir(parents=True, exist_ok=True)
        for chunk in rounds(options, minors, suites):
            print(f"{chunk.minor} {chunk.suite} from {chunk.first}: {chunk.agree} of {chunk.cases} agree", flush=True)
    return report(journal(options.journal))


def journal(path: Path) -> list[Chunk]:
    return [Chunk(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def rounds(options: argparse.Namespace, minors: list[str], suites: list[str]) -> Iterator[Chunk]:
    """The chunks that are not done yet, one of each suite and release a round.

    Releases that are equally far are asked together: most of the work is to make the cases and to read them.
    """
    done = Counter[tuple[str, str]]()
    for chunk in journal(options.journal):
        done[chunk.minor, chunk.suite] += chunk.cases
    lacking: set[str] = set()
    while True:
        went_on = False
        for suite in suites:
            wanted = options.count or SUITES[suite].wanted
            found = {minor: oracle(options.oracles, minor, lacking) for minor in minors if done[minor, suite] < wanted}
            programs = {minor: program for minor, program in found.items() if program is not None}
            for first in sorted({done[minor, suite] for minor in programs}):
                together = {minor: program for minor, program in programs.items() if done[minor, suite] == first}
                for chunk in run(together, suite, first, min(options.chunk, wanted - first)):
                    with options.journal.open("a") as out:
                        out.write(json.dumps(chunk._asdict()) + "\n")
                    done[chunk.minor, suite] += chunk.cases
                    went_on = True
                    yield chunk
        if not went_on:
            return


def oracle(where: Path, minor: str, lacking: set[str]) -> Path | None:
    """The newest patch release that was built; it is looked for anew each round, as it may be built meanwhile."""
    found = sorted(
        (path for path in where.glob(f"oracle-{minor}.*") if path.suffix[1:].isdigit()),
        key=lambda path: int(path.suffix[1:]),
    )
    if not found and minor not in lacking:
        lacking.add(minor)
        print(f"no oracle of {minor} in {where}: make oracle KUBERNETES={minor}.N", file=sys.stderr)
    return found[-1] if found else None


def run(programs: Mapping[str, Path], name: str, first: int, count: int) -> list[Chunk]:
    """The same cases, answered by the oracles of some releases (minor -> program)."""
    suite = SUITES[name]
    numbers = range(first, first + count)
    cases = [make_case(suite.seed, n, suite.kinds[n % len(suite.kinds)], configured=suite.configured) for n in numbers]
    chunks = {minor: Chunk(minor, name, first, count, 0, 0, [], []) for minor in programs}
    answers = {minor: ask(program, cases) for minor, program in programs.items()}
    stored = {minor: as_stored(programs[minor], known_minor(minor), cases, answers[minor]) for minor in programs}
    semantics = {minor: Release(known_minor(minor), {}, None).semantics() for minor in programs}
    for place, (number, case) in enumerate(zip(numbers, cases, strict=True)):
        shared = cache_of_case(case, count_nominated=True)
        for minor, program in programs.items():
            chunk, want = chunks[minor], answers[minor][place]
            own = stored[minor].get(place)
            asked, cache = (own, None) if own else (case, shared)
            if want.get("error", "").startswith(NOT_ANSWERED):
                chunk.unanswered.append([number, case["id"], want["error"][:200]])
                continue
            found = next(disagreements(asked, want, semantics[minor], cache), None)
            if found is None:
                chunks[minor] = chunk._replace(agree=chunk.agree + 1)
            elif any(not any(disagreements(asked, again, semantics[minor])) for again in ask(program, [asked] * AGAIN)):
                chunks[minor] = chunk._replace(either=chunk.either + 1)
            else:
                part, expects, has = found
                chunk.wrong.append([number, case["id"], part, json.dumps(expects)[:400], json.dumps(has)[:400]])
    return list(chunks.values())


def as_stored(program: Path, minor: int, cases: list[Any], answers: list[Any]) -> dict[int, Any]:
    """By place the cases as this minor's API server would hold them, where it does not know all of their fields.

    Their answers are replaced by those to what it holds.
    """
    unknown = [place for place, answer in enumerate(answers) if answer.get("error", "").startswith(NEWER)]
    found = {place: without_newer_fields(cases[place], minor) for place in unknown}
    for place, answer in zip(unknown, ask(program, list(found.values())) if found else (), strict=True):
        answers[place] = answer
    return found


def without_newer_fields(case: Any, minor: int) -> Any:
    """A case whose pods have the fields of this minor alone."""
    made = copy.deepcopy(case)
    for pod in (*made["pods"], made["pod"]):
        for unknown in list(unknown_fields({"apiVersion": "v1", "kind": "Pod", **pod}, minor)):
            *parents, last = unknown.path
            del functools.reduce(lambda obj, key: obj[key], parents, pod)[last]
    return made


def ask(program: Path, cases: list[Any]) -> list[Any]:
    """The oracle's answers, in the order of the cases; an error for a case on which upstream's code panics."""
    text = "".join(json.dumps(case, separators=(",", ":")) + "\n" for case in cases)
    command = [str(program), "preemption", "--workers", "1"]
    told = subprocess.run(command, input=text, capture_output=True, text=True, env={**os.environ, "GOMAXPROCS": "1"})
    if told.stderr.startswith("panic: "):
        half = len(cases) // 2
        return ask(program, cases[:half]) + ask(program, cases[half:]) if half else [{"error": told.stderr[:200]}]
    answers = [json.loads(line) for line in told.stdout.split("\n") if line]  # texts may contain other line breaks
    if told.returncode not in (0, 1) or len(answers) != len(cases):
        last = "\n".join(told.stderr.splitlines()[:30])
        sys.exit(f"{program.name} ended with {told.returncode} after {len(answers)} of {len(cases)} cases:\n{last}")
    return answers


def report(chunks: list[Chunk]) -> int:
    tally = Counter[tuple[str, str, str]]()
    for chunk in chunks:
        key = (chunk.minor, chunk.suite)
        tally[*key, "agree"] += chunk.agree
        tally[*key, "agree with one of several answers"] += chunk.either
        tally[*key, "do not"] += len(chunk.wrong)
        tally[*key, "not answered by the oracle"] += len(chunk.unanswered)
    for minor, suite in sorted({key[:2] for key in tally}):
        parts = [f"{tally[minor, suite, what]} {what}" for what in OUTCOMES]
        print(f"{minor} {suite} (seed {SUITES[suite].seed}): {', '.join(parts)}")
    for chunk in chunks:
        for number, identity, *rest in [*chunk.wrong, *chunk.unanswered]:
            print(f"{chunk.minor} {identity}: {' | '.join(rest)}\n    {SUITES[chunk.suite].again(number)}")
    return 1 if any(chunk.wrong for chunk in chunks) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
