"""A search for objects that cost much: hypothesis, driven to where an answer takes the most CPU time or memory.

`python tests/hostile/search.py [--minutes N] [--seed N] [--over MS]` prints a line every minute, and at the end the
dearest objects that were found, how long beyond their time the answers came, and that of each kind; it ends with status
1 where one was late by more than 50 ms, took more memory than its size on the wire allows, or got past a rule that
denies it because of what else it holds, or where memory grew. Between two rounds of objects, a server gets floods of
connections: API servers and probes must get their answers within a second, with little memory.

What is measured is the thread's processor time. Neighbours that take turns with it on the same core still make it
longer, as they empty the core's caches: on a shared machine, run it with `chrt -f 20` (as root).
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import random
import resource
import sys
import time
import zlib
from pathlib import Path
from typing import Any, Final, NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings, target

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.hostile.attacks import ATTACKS  # noqa: E402
from tests.hostile.connections import FloodSearch  # noqa: E402
from tests.hostile.judging import MAX_BYTES, OVERSHOOT, Cost, Weight, forbidden, judge, permitted, weigh  # noqa: E402
from tests.hostile.strategies import MAX_SIZE, reviews, size_of  # noqa: E402

SECONDS: Final = 0.1
"""The time that each request has: little, so that many are tried."""
MAX_GROWTH: Final = 256
"""MB that the process may grow by, all objects together."""
MAX_MEMORY: Final = 16 * 2**20
"""Bytes that an answer may take, whatever the size of the request: what a prediction keeps while it is worked out."""
MAX_FACTOR: Final = 48
"""Bytes of memory for each byte on the wire: an empty dict takes 72 of three, and is looked at."""
SHOWN: Final = 10
EXAMPLES: Final = 150
FOUND: Final = ROOT / ".cache" / "hostile"
TOLD_EVERY: Final = 60.0
"""Seconds between two lines."""


class Dear(NamedTuple):
    """An object and what it costs. `over`: seconds beyond what is permitted, negative where it is in time; `packed`:
    the review as JSON, compressed: ten objects of 3 MB must not look like memory that is lost."""

    over: float
    cost: Cost
    packed: bytes

    @property
    def review(self) -> Any:
        """The AdmissionReview."""
        return json.loads(zlib.decompress(self.packed))


class Search:
    """What has been found so far."""

    def __init__(self, ends: float, more: float = 0.0, name: str = "found") -> None:
        """`ends`: on the monotonic clock; `more`: seconds that are permitted beside the others. `name`: how files
        begin that have what came late, as soon as it did."""
        self._ends, self._more, self._name = ends, more, name
        self.late = 0
        """How many objects came late."""
        self.dearest: list[Dear] = []
        self.latest: dict[str, float] = {}
        """Kind -> seconds beyond the time that there was for one of its objects, the most."""
        self.heaviest: tuple[float, Weight] = (0.0, Weight(0, 0, False))
        """The part of the memory that an answer may take, the most, and which that was."""
        self.wrong = 0
        """How many objects took more, or got past the rule that denies them."""
        self.count = 0

    @property
    def is_over(self) -> bool:
        """Whether the time for the search is up."""
        return time.monotonic() >= self._ends

    def look(self, review: Any) -> tuple[float, float]:
        """Judge one; what seems late is judged again, because others have the machine too.

        Seconds over, and how long the answer was worked on without asking for the time.
        """
        self.count += 1
        gc.collect()  # the answer's own garbage is collected on its time, and not what hypothesis has left
        most = permitted(review, SECONDS) + self._more
        cost = judge(review, SECONDS)
        for _ in range(3):
            if cost.seconds <= most:
                break
            cost = min(cost, judge(review, SECONDS), key=lambda each: each.seconds)
        over = cost.seconds - most
        kind = review["request"]["kind"]["kind"]
        self.latest[kind] = max(self.latest.get(kind, -1.0), over + OVERSHOOT)
        if cost.size > MAX_BYTES:
            over = max(over, 1.0)
        if len(self.dearest) < SHOWN or over > self.dearest[-1].over:
            dear = Dear(over, cost._replace(told=None), zlib.compress(json.dumps(review).encode(), 1))
            self.dearest = sorted([*self.dearest, dear], key=lambda dear: -dear.over)[:SHOWN]
        if over > 0:
            self.late += 1
            FOUND.mkdir(parents=True, exist_ok=True)
            (FOUND / f"{self._name}-{self.late}.json").write_text(json.dumps(review))
        return over, cost.gap

    def weigh(self, review: Any) -> float:
        """Ask about one in a namespace that its class is not allowed in; bytes of memory for each on the wire."""
        asked = forbidden(review)
        weight = weigh(asked or review)
        most = MAX_MEMORY + MAX_FACTOR * weight.wire
        self.heaviest = max(self.heaviest, (weight.peak / most, weight))
        if weight.peak > most or (asked and not weight.denied):
            self.wrong += 1
            FOUND.mkdir(parents=True, exist_ok=True)
            (FOUND / f"{self._name}-size-{self.wrong}.json").write_text(json.dumps(asked or review))
        return weight.peak / (weight.wire + MAX_MEMORY / MAX_FACTOR)

    def sizes(self, number: int) -> None:
        """Some objects, each drawn towards what took much memory before."""

        @seed(number)
        @settings(
            max_examples=EXAMPLES // 5,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.target],
            suppress_health_check=list(HealthCheck),
        )
        @given(reviews())
        def try_it(review: Any) -> None:
            if not self.is_over:
                self.count += 1
                target(self.weigh(review), label="memory for each byte")

        try_it()
        _settle()

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
                or max(map(size_of, (review["request"]["object"], review["request"]["oldObject"]))) > MAX_SIZE
            ):
                return
            over, gap = self.look(review)
            target(over, label="seconds over")
            target(gap, label="seconds without asking for the time")

        try_it()
        _settle()


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
    before, began = _megabytes(), time.monotonic()
    more = options.over / 1000 - OVERSHOOT
    search, floods = Search(began + 60 * options.minutes, more, str(options.seed)), FloodSearch(more)
    number, told = options.seed, began
    while not search.is_over:
        search.round(number)
        search.sizes(number)
        floods.round(number)
        number += 1
        if (now := time.monotonic()) >= told + TOLD_EVERY:
            told = now
            _tell(now - began, number - options.seed, search)
    growth = _megabytes() - before
    rounds = number - options.seed
    print(f"{search.count} objects in {rounds} rounds; memory grew by {growth} MB from {before} (most: {MAX_GROWTH})")
    for kind, seconds in sorted(search.latest.items(), key=lambda item: -item[1]):
        print(f"{1000 * seconds:9.1f} ms after its time at most: {kind}")
    print(f"{'over, ms':>9} {'cpu, ms':>8} {'gap, ms':>8} {'asked':>6} {'answer, B':>10}  object")
    for dear in search.dearest:
        cost = dear.cost
        figures = (
            f"{1000 * dear.over:9.1f} {1000 * cost.seconds:8.1f} {1000 * cost.gap:8.1f} {cost.asked:6} {cost.size:10}"
        )
        print(f"{figures}  {_described(dear.review)}")
    part, weight = search.heaviest
    print(f"{100 * part:.0f} % of the memory for its size at most: {weight.peak:,} bytes for {weight.wire:,}")
    growth_of = ", ".join(f"{port} {growth:.0f} MiB" for port, growth in floods.growth.items())
    print(
        f"{floods.count} connections; answers after {floods.latest:.2f} s at most; memory grew by {growth_of} at most"
    )
    for problem in floods.problems:
        print(problem)
    if search.wrong:
        print(f"{search.wrong} took more, or got past the rule that denies them; they are in {FOUND}")
    if search.late:
        print(f"{search.late} came late; they are in {FOUND}")
    return 1 if search.late or search.wrong or floods.problems or growth > MAX_GROWTH else 0


def _tell(seconds: float, rounds: int, search: Search) -> None:
    """How it goes."""
    latest = 1000 * max(search.latest.values(), default=0.0)
    told = f"{rounds} rounds, {search.count} objects, {_megabytes()} MB, latest by {latest:.1f} ms"
    print(f"{seconds / 60:5.1f} min: {told}", flush=True)


def _settle() -> None:
    """Collect, and leave out of later collections what hypothesis keeps: the webhook has nothing like it."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _megabytes() -> int:
    """What this process has now; without what was freed and lies about in the allocator."""
    _settle()
    ctypes.CDLL(None).malloc_trim(0)
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
