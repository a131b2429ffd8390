"""A search for objects that cost much: hypothesis, driven to where an answer takes the most CPU time.

`python tests/hostile/search.py [--minutes N] [--seed N] [--over MS]` prints the dearest objects that were found and how
long beyond their time the answers came; it ends with status 1 where one was late by more than 50 ms, or memory grew.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings, target

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.hostile.attacks import ATTACKS  # noqa: E402
from tests.hostile.judging import MOST_BYTES, OVERSHOOT, Cost, judge, permitted  # noqa: E402
from tests.hostile.strategies import LARGEST, reviews, size_of  # noqa: E402

SECONDS: Final = 0.1
"""The time that each request has: little, so that many are tried."""
MOST_GROWTH: Final = 256
"""MB that the process may grow by, all objects together."""
SHOWN: Final = 10
EXAMPLES: Final = 150
FOUND: Final = ROOT / ".cache" / "hostile"


class Dear(NamedTuple):
    """An object and what it costs. `over`: seconds beyond what is permitted, negative where it is in time."""

    over: float
    cost: Cost
    review: Any


class Search:
    """What has been found so far."""

    def __init__(self, ends: float, more: float = 0.0) -> None:
        """`ends`: on the monotonic clock; `more`: seconds that are permitted beside the others."""
        self._ends, self._more = ends, more
        self.dearest: list[Dear] = []
        self.count = 0

    @property
    def is_over(self) -> bool:
        """Whether the time for the search is up."""
        return time.monotonic() >= self._ends

    def look(self, review: Any) -> float:
        """Judge one; what seems late is judged again, because others have the machine too. Seconds over."""
        self.count += 1
        most = permitted(review, SECONDS) + self._more
        cost = judge(review, SECONDS)
        for _ in range(3):
            if cost.seconds <= most:
                break
            cost = min(cost, judge(review, SECONDS), key=lambda each: each.seconds)
        over = cost.seconds - most
        if cost.size > MOST_BYTES:
            over = max(over, 1.0)
        self.dearest = sorted([*self.dearest, Dear(over, cost, review)], key=lambda dear: -dear.over)[:SHOWN]
        return over

    def round(self, number: int) -> None:
        """Some hundred objects, each drawn towards what was dear before."""

        @seed(number)
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.target],
            suppress_health_check=list(HealthCheck),
        )
        @given(reviews())
        def try_it(review: Any) -> None:
            if (
                self.is_over
                or max(map(size_of, (review["request"]["object"], review["request"]["oldObject"]))) > LARGEST
            ):
                return
            target(self.look(review), label="seconds over")

        try_it()


def main() -> int:
    """Search, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--over", type=float, default=1000 * OVERSHOOT, help="milliseconds that an answer may be late")
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.minutes:g} minutes", flush=True)
    for name in ("Deployment of 2,000,000,000", "500 resources in a quota"):
        judge(ATTACKS[name]())  # what is imported and made once
    before = _megabytes()
    search = Search(time.monotonic() + 60 * options.minutes, options.over / 1000 - OVERSHOOT)
    number = options.seed
    while not search.is_over:
        search.round(number)
        number += 1
    growth = _megabytes() - before
    print(f"{search.count} objects; memory grew by {growth} MB (most: {MOST_GROWTH})")
    print(f"{'over, ms':>9} {'cpu, ms':>8} {'asked':>6} {'answer, B':>10}  object")
    for dear in search.dearest:
        cost = dear.cost
        figures = f"{1000 * dear.over:9.1f} {1000 * cost.seconds:8.1f} {cost.asked:6} {cost.size:10}"
        print(f"{figures}  {_described(dear.review)}")
    late = [dear for dear in search.dearest if dear.over > 0]
    for place, dear in enumerate(late):
        FOUND.mkdir(parents=True, exist_ok=True)
        (FOUND / f"{options.seed}-{place}.json").write_text(json.dumps(dear.review))
    if late:
        print(f"{len(late)} came late; they are in {FOUND}")
    return 1 if late or growth > MOST_GROWTH else 0


def _megabytes() -> int:
    """What this process has now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


def _described(review: Any) -> str:
    """The kind, the operation, and how many of what there are."""
    request = review["request"]
    obj = request["object"] or request["oldObject"]
    sizes: dict[str, int] = {}
    _count(obj, sizes)
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:5]
    counts = ", ".join(f"{count} {name}" for name, count in largest if count > 1)
    return f"{request['operation']} {obj['kind']}: {len(json.dumps(obj))} bytes; {counts}"


def _count(value: Any, sizes: dict[str, int], name: str = "") -> None:
    if isinstance(value, dict | list):
        sizes[name] = sizes.get(name, 0) + len(value)
        for key, entry in value.items() if isinstance(value, dict) else ((name, entry) for entry in value[:1]):
            _count(entry, sizes, str(key)[:40])


if __name__ == "__main__":
    sys.exit(main())
