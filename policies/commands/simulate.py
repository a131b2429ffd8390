"""`forewarn simulate`: what becomes of a cluster, one event after the other."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from policies.commands.batch import run_batch
from policies.objects.fields import InvalidObject
from policies.sources import SourceError
from policies.terminal import columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.objects.fields import ApiObject

OK, USAGE, FAILED = 0, 2, 3
MOST_RUNS: Final = 1000


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status: 0 answered, 1 a bad line, 2 usage, 3 not done."""
    options = _parser().parse_args(arguments)
    try:
        return run_batch(options.batch, partial(answer_case, runs=options.runs, seed=options.seed))
    except (SourceError, InvalidObject) as fault:
        print(f"forewarn simulate: {fault}", file=sys.stderr)  # noqa: T201
        return FAILED


def answer_case(case: ApiObject, *, runs: int = 1, seed: int = 0) -> ApiObject:
    """The answer to one scenario, as recordings have it. Raises InvalidObject and ValueError."""
    from policies.simulation.outcomes import explore
    from policies.simulation.scenario import read_scenario
    from policies.simulation.simulation import Simulation

    scenario = read_scenario(case)
    outcomes = explore(lambda random: Simulation(scenario, random=random), runs, seed)
    finals = {repr(outcome.simulation.final()) for outcome in outcomes}
    category = {"category": case["category"]} if "category" in case else {}
    answer = {"runs": runs, "distinctFinals": len(finals), "outcomes": [outcome.to_dict() for outcome in outcomes]}
    return {**category, **answer}


def _runs(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MOST_RUNS:
        raise argparse.ArgumentTypeError(f"must be between 1 and {MOST_RUNS}")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="forewarn simulate",
        description="Say what becomes of a cluster, one event after the other: who is pushed out, where replacements"
        " go, who stays pending.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=columns()),
    )
    parser.add_argument(
        "--batch", metavar="FILE", required=True, help="scenarios as JSON lines (.gz too; -: standard input)"
    )
    parser.add_argument(
        "--runs",
        metavar="N",
        type=_runs,
        default=1,
        help="explore ties and races in so many runs, the first of them with fixed latencies (default 1)",
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the dice of --runs (default 0)")
    return parser
