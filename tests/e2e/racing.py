"""Eight requests for the place of the global default at the same moment, spread over the API servers."""

from __future__ import annotations

import time
from collections import Counter
from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple

from tests.e2e.api import Answer, identity, path_of
from tests.e2e.objects import priority_class
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from tests.e2e.api import Api

AT_ONCE = 8
TTL = 40
"""Seconds after which a place that was reserved for nothing is free: LEASE_SECONDS of global_default.reservation."""
MERGE = "application/merge-patch+json"


class Told(NamedTuple):
    """What became of the requests, by who refused them; the longest that a legal one had to wait, in seconds."""

    counts: Counter[str]
    waited: float

    def __str__(self) -> str:
        return f"{dict(self.counts)}; a legal one waited at most {self.waited:.1f} s"


def clear(api: Api) -> None:
    """No class but the built-in ones and forewarn's."""
    for found in api.list("PriorityClass"):
        if not found["metadata"]["name"].startswith(("system-", "forewarn")):
            api.delete(found)


def defaults(api: Api) -> list[str]:
    return [found["metadata"]["name"] for found in api.list("PriorityClass") if found.get("globalDefault")]


def create(api: Api, name: str, **query: str) -> Answer:
    obj = priority_class(name, 1, globalDefault=True)
    return api.ask("POST", path_of(obj, name="", **query), obj)


def change(api: Api, name: str) -> Answer:
    return api.ask("PATCH", path_of(identity("PriorityClass", name)), {"globalDefault": True}, MERGE)


def creates(apis: Sequence[Api], pool: ThreadPoolExecutor) -> Iterator[int]:
    """Create eight at once, until there are several defaults; how many there are each time. None is left."""
    for _ in range(50):
        list(pool.map(lambda n: create(apis[n % len(apis)], f"round-{n}"), range(AT_ONCE)))
        count = len(defaults(apis[0]))
        clear(apis[0])
        yield count
        if count > 1:
            break


def race(apis: Sequence[Api], pool: ThreadPoolExecutor, rounds: int) -> Told:
    """Four creates and four changes at once, again and again; fails if there are two defaults after a round."""
    counts, waits = Counter[str](), []
    for turn in range(rounds):
        api = apis[turn % len(apis)]
        answers = _round(apis, pool, turn)
        is_leader = [answer for answer in answers if answer.code in (200, 201)]
        counts.update(by_whom(answer) for answer in answers)
        assert len(defaults(api)) == len(is_leader) <= 1, [answer.body for answer in is_leader]
        waits.append(0.0 if is_leader else legal_one(apis, f"late-{turn}"))
        assert len(defaults(api)) == 1
        clear(api)
    return Told(counts, max(waits))


def _round(apis: Sequence[Api], pool: ThreadPoolExecutor, turn: int) -> list[Answer]:
    works = [create if number // 2 % 2 else change for number in range(AT_ONCE)]
    names = [f"round-{turn}-{number}" for number in range(AT_ONCE)]
    for work, name in zip(works, names, strict=True):
        if work is change:
            apis[0].create(priority_class(name, 1))
    return [*pool.map(lambda n: works[n](apis[n % len(apis)], names[n]), range(AT_ONCE))]


def by_whom(answer: Answer) -> str:
    """Who refused, if anybody did."""
    message = str(answer.body.get("message"))
    if answer.code in (200, 201):
        return "stored"
    if 'admission webhook "classes.validate.forewarn.dev" denied the request' in message:
        return "forewarn"
    return "API server" if "already marked as default" in message else message


def legal_one(apis: Sequence[Api], name: str) -> float:
    """Seconds until a class can be made the default when nobody else tries to."""
    started, turns = time.monotonic(), cycle(apis)
    wait_until(lambda: create(next(turns), name).code == 201, TTL + 5, "a legal default is stored")
    return time.monotonic() - started
