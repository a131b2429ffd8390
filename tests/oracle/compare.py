#!/usr/bin/env python3
"""Compare forewarn's answers with the oracle's: compare.py [--kubernetes-version 1.35] CASES EXPECTED

Files are JSON lines, gzipped or not. A case agrees when all of its parts do. Each is answered twice: with reasons, by
all plugins on every node, and without, by columns where the profile has them; both must come to what the oracle says.
Prints the first disagreements, how many agree by part, and `N agree, M do not, K not answered by the oracle`.
"""

import argparse
import gzip
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.releases.release import Release, known_minor
from forewarn.policies.kubernetes.releases.semantics import Semantics
from forewarn.policies.kubernetes.scheduling.configuration import InvalidConfiguration
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from tests.recorded.commands import prediction_of_case

NOT_ANSWERED = ("scheduler: no profile", "devices:", "not a case", "panic:")
"""How errors begin that are the oracle's own, and not of the scheduling cycle."""

Part = tuple[str, Any, Any]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases")
    parser.add_argument("expected")
    parser.add_argument("--kubernetes-version", default="1.36")
    parser.add_argument("--show", type=int, default=5, help="disagreements to print (default 5)")
    parser.add_argument("--share", default="0/1", help="0/2 and 1/2: one half of the cases each")
    options = parser.parse_args(arguments)
    semantics = Release(known_minor(options.kubernetes_version), {}, None).semantics()
    share, shares = map(int, options.share.split("/"))
    tally, parts, kinds, shown = Counter[str](), Counter[str](), Counter[str](), 0
    began = time.process_time()
    with opened(options.cases) as cases, opened(options.expected) as expected:
        for number, (case_line, answer_line) in enumerate(zip(cases, expected, strict=True)):
            if number % shares != share:
                continue
            case, want = json.loads(case_line), json.loads(answer_line)
            unanswered = want.get("error", "").startswith(NOT_ANSWERED)
            wrong = [] if unanswered else list(disagreements(case, want, semantics))
            tally["unanswered" if unanswered else "wrong" if wrong else "agree"] += 1
            for name, expects, has in wrong:
                parts[name] += 1
                kinds[case["id"].rsplit("-", 1)[0]] += 1
                if shown < options.show:
                    shown += 1
                    print(f"{case['id']}: {name}\n   want {json.dumps(expects)[:800]}\n   got  {json.dumps(has)[:800]}")
    for title, counter in (("by part", parts), ("by kind", kinds)):
        if counter:
            print(f"{title}: {', '.join(f'{name} {count}' for name, count in counter.most_common())}")
    print(f"{time.process_time() - began:.0f} s of CPU time", file=sys.stderr)
    print(f"{tally['agree']} agree, {tally['wrong']} do not, {tally['unanswered']} not answered by the oracle")
    return 1 if tally["wrong"] else 0


def opened(path: str) -> TextIO:
    return gzip.open(path, "rt") if path.endswith(".gz") else open(path)


def disagreements(case: Any, want: Any, semantics: Semantics, cache: Cache | None = None) -> Iterator[Part]:
    """What differs: (part, what the oracle says, what forewarn says). `cache`: the case's, where it was read before."""
    rejected = bool(want.get("configError"))
    try:
        walked = prediction_of_case(case, count_nominated=True, semantics=semantics, cache=cache)
    except InvalidConfiguration as error:
        if not rejected:
            yield "refused", None, str(error)
        return
    if rejected:
        yield "refused", want["configError"], None
        return
    got = walked.to_dict()
    if "error" in want:
        yield from (part for part in error_parts(want["error"], walked, got) if part[1] != part[2])
        return
    yield from (part for part in parts_of(case, want, got) if part[1] != part[2])
    yield from (part for part in in_columns(walked) if part[1] != part[2])


def parts_of(case: Any, want: Any, got: Any) -> Iterator[Part]:
    yield "predicted", "", " ".join(got["standing"]) if got["outcome"] == "not-predicted" else ""
    yield "feasible", sorted(want["feasible"]), sorted(got["feasible"])
    yield "statuses", statuses(want), statuses(got)
    yield "preFilter", status(want.get("preFilter")), status(got.get("preFilter"))
    yield "scores", nonzero(want.get("scores") or {}), nonzero(got.get("scores") or {})
    if want["feasible"]:
        yield "selected", want["selected"], sorted(got["selected"])
        return
    yield "eligible", want["eligible"], got["eligible"]
    yield "candidates", victims(case, want), victims(case, got)
    yield "nominated", want["selected"], sorted(got["selected"])
    if "numCandidates" in want:
        yield "numCandidates", want["numCandidates"], got.get("numCandidates")


def nonzero(scores: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Scores by node and plugin without those of plugins that give nothing: columns leave these out."""
    return {node: {plugin: score for plugin, score in by.items() if score} for node, by in scores.items()}


def error_parts(error: str, walked: Prediction, got: Any) -> Iterator[Part]:
    """Where upstream's cycle ends in an error, so it does here. In a dry run it leaves the pod pending."""
    where = error.partition(":")[0].partition(" ")[0]
    if where in ("PreScore", "Score"):
        yield "error", ("pending", True), (got["outcome"], bool(walked.error))
    elif where == "dry":
        yield "error", "pending", got["outcome"]
    else:
        found = [got.get("preFilter"), *got["statuses"].values()]
        yield "error", "Error", "Error" if any(status and status["code"] == "Error" for status in found) else None
        yield "error", "pending", got["outcome"]


def status(answer: Any) -> Any:
    return answer and [answer["code"], answer.get("plugin", ""), sorted(answer["reasons"])]


def statuses(answer: Any) -> dict[str, Any]:
    return {name: status(found) for name, found in (answer.get("statuses") or {}).items()}


def victims(case: Any, answer: Any) -> dict[str, Any]:
    """Where pods tie on priority and start time, their order is not to be seen."""
    found = {node: (c["victims"], c["pdbViolations"]) for node, c in answer["candidates"].items()}
    if "ties" not in case["id"]:
        return found
    pods = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod for pod in case["pods"]}

    def rank(name: str) -> Any:
        return [pods[name]["spec"]["priority"], pods[name]["status"].get("startTime", "")]

    return {node: (sorted(map(rank, names)), violations) for node, (names, violations) in found.items()}


def in_columns(walked: Prediction) -> Iterator[Part]:
    """The same without reasons."""
    short = Prediction(walked.snapshot, walked.pod)
    yield "columns: feasible", sorted(walked.feasible), sorted(short.feasible)
    yield "columns: nominated", walked.nominated_node, short.nominated_node
    yield "columns: victims", [pod.key for pod in walked.victims], [pod.key for pod in short.victims]
    yield "columns: violations", walked.num_pdb_violations, short.num_pdb_violations
    yield "columns: best", walked.best_nodes, sorted(short.best_nodes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
