"""Replicas, API servers and requests in every order: never two global defaults.

The model's API server does not check uniqueness at all: the reservation alone must hold it. It stores a request's class
up to 34 s after the request came, updates only over the version that admission saw, and asks admission anew when that
one is gone, as kube-apiserver does. Replicas have clocks of their own, and may die between any two steps.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import forewarn.webhook.controllers.leases as module
from forewarn.webhook.admission.decide import DefaultCandidate
from forewarn.webhook.apiserver.typed_client import ObjectApiError
from forewarn.webhook.controllers.leases import CLASSES, Reserver
from forewarn.webhook.metrics import Metrics
from tests.cases import cases
from tests.webhook.fake_api import LEASE, FakeApi
from tests.webhook.interleaving import Actor

if TYPE_CHECKING:
    from collections.abc import Callable

CEILING = 34.0
NAMES = ("a", "b", "c")
WAITS = (0.5, 5.0, 16.0, 20.0, 34.0, 36.0)
Move = tuple[str, int]


class Cluster:
    def __init__(self, replicas: int) -> None:
        self.api, self.now, self.running = FakeApi(LEASE), 0.0, None
        self.api.before = self._stand
        self.replicas = [Reserver(self.api, LEASE, Metrics(), self._clock(number * 1e4)) for number in range(replicas)]
        self.actors: list[Actor] = []
        self.events: list[dict[str, Any]] = []
        self.heard = dict.fromkeys(self.replicas, 0)
        self.stored, self._uid = 0, 0

    running: Actor | None

    def _clock(self, offset: float) -> Callable[[], float]:
        return lambda: self.now + offset

    def _stand(self, _verb: str, _path: str) -> None:
        assert self.running is not None
        self.running.pause()

    def start(self, run: Callable[[], None]) -> None:
        self.actors.append(Actor(lambda _: run()))

    def step(self, actor: Actor) -> None:
        self.running = actor
        actor.step()
        if actor.ended:
            self.actors.remove(actor)
        defaults = [path for path, obj in self.api.objects.items() if obj.get("globalDefault")]
        assert len(defaults) <= 1, defaults

    def _pause(self) -> None:
        assert self.running is not None
        self.running.pause()

    def create(self, name: str, replica: Reserver) -> None:
        path, began = f"{CLASSES}/{name}", self.now
        self._uid += 1
        uid = f"uid-{self._uid}"
        if self._granted(replica, DefaultCandidate(name, f"create {uid}"), began) and path not in self.api.objects:
            self._store(path, {"globalDefault": True}, uid)

    def promote(self, name: str, replica: Reserver) -> None:
        """A PATCH: where the object has changed meanwhile, admission is asked anew."""
        path, began = f"{CLASSES}/{name}", self.now
        while self.now <= began + CEILING and path in self.api.objects:
            old = self.api.objects[path]
            metadata = old["metadata"]
            self._pause()
            candidate = DefaultCandidate(name, f"update {metadata['uid']} {metadata['resourceVersion']}")
            if not old.get("globalDefault") and not self._granted(replica, candidate, began):
                return
            if self.api.objects.get(path) == old:
                self._store(path, {"globalDefault": True}, metadata["uid"])
                return

    def _store(self, path: str, obj: dict[str, Any], uid: str) -> None:
        self.events.append(self.api.put(path, obj, uid))
        self.stored += 1

    def _granted(self, replica: Reserver, candidate: DefaultCandidate, began: float) -> bool:
        """Whether admission allows it, and the API server gets to storing it in time."""
        try:
            allowed = replica.reserve(candidate, 3) == ""
        except ObjectApiError:
            return False
        self._pause()
        return allowed and self.now <= began + CEILING

    def demote(self, name: str) -> None:
        path = f"{CLASSES}/{name}"
        if path in self.api.objects:
            self.api.put(path, {})

    def reconcile(self, replica: Reserver) -> None:
        replica.reconcile()

    def begin(self, kind: str, which: int) -> None:
        name, replica = NAMES[which % len(NAMES)], self.replicas[which // len(NAMES) % len(self.replicas)]
        if kind == "ask":
            run = self.promote if f"{CLASSES}/{name}" in self.api.objects else self.create
            self.start(lambda: run(name, replica))
        elif kind == "look":
            self.start(lambda: self.reconcile(replica))
        elif kind == "hear":
            for event in self.events[self.heard[replica] :]:
                replica.seen(event)
            self.heard[replica] = len(self.events)
        elif kind == "demote":
            self.demote(name)
        else:
            self.api.delete(f"{CLASSES}/{name}")

    def act(self, kind: str, which: int) -> None:
        """One of the things that can happen."""
        if kind == "step":
            actor = self.actors[which % len(self.actors)] if self.actors else None
            for _ in range(which // 3):
                if actor in self.actors:
                    self.step(actor)
        elif kind == "die":
            if self.actors:
                self.actors.pop(which % len(self.actors)).kill()
        elif kind == "wait":
            self.now += WAITS[which % len(WAITS)]
        else:
            self.begin(kind, which)


def run(history: list[Move], replicas: int) -> int:
    """How many classes became the default."""
    cluster = Cluster(replicas)
    for name in NAMES[:2]:
        cluster.api.put(f"{CLASSES}/{name}", {})
    try:
        for move in history:
            cluster.act(*move)
        while cluster.actors:
            cluster.step(cluster.actors[0])
    finally:
        for actor in cluster.actors:
            actor.kill()
    return cluster.stored


def moves(*kinds: str) -> st.SearchStrategy[Move]:
    return st.tuples(st.sampled_from(kinds), st.integers(0, 35))  # of both, the quotient and the rest mean something


asking = st.lists(moves("ask"), min_size=2, max_size=3)
mixed = st.lists(
    moves("step", "step", "step", "ask", "look", "hear", "wait", "wait", "demote", "delete", "die"), max_size=30
)
histories = st.builds(lambda first, then: [*first, *then], asking, mixed)


A_WAITS_B_TRIES_TWICE: list[Move] = [
    ("ask", 0),
    ("step", 15),
    ("ask", 4),
    ("step", 35),
    ("wait", 1),
    ("ask", 4),
    ("step", 35),
]
"""The one is allowed and not stored yet; the other is refused by another replica, and tries again 5 s later."""
BOTH_HAVE_READ: list[Move] = [("ask", 0), ("ask", 4), ("step", 10), ("step", 9), ("step", 6), ("step", 7)]
"""Both have read the Lease before either writes it."""


@settings(max_examples=cases(150), deadline=None)
@given(histories, st.integers(1, 3))
@example(A_WAITS_B_TRIES_TWICE, 2)
@example(BOTH_HAVE_READ, 2)
def test_two_classes_are_never_the_default_at_once(history: list[Move], replicas: int) -> None:
    run(history, replicas)


@settings(max_examples=cases(25), deadline=None)
@given(st.permutations([i % 8 for i in range(64)]))
def test_of_eight_parallel_requests_one_at_most_gets_through(order: list[int]) -> None:
    cluster = Cluster(2)
    for number in range(8):
        cluster.start(lambda number=number: cluster.create(f"class-{number}", cluster.replicas[number % 2]))  # type: ignore[misc]
    actors = list(cluster.actors)
    for index in order:
        if actors[index] in cluster.actors:
            cluster.step(actors[index])
    while cluster.actors:
        cluster.step(cluster.actors[0])
    assert cluster.stored == 1


@pytest.mark.parametrize("weakness", ["no list", "early expiry", "no version", "no merging"])
def test_the_model_finds_what_is_wrong_with_a_weaker_protocol(weakness: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if weakness == "no list":
        monkeypatch.setattr(Reserver, "_defaults", lambda _self: iter(()))
    elif weakness == "early expiry":
        monkeypatch.setattr(module, "STALE_SECONDS", 4.0)
    elif weakness == "no version":
        monkeypatch.setattr(Reserver, "_write", _write_over)
    else:
        monkeypatch.setattr(module.Reservation, "is_over", lambda _self, stored, _seen: stored is not None)

    @settings(max_examples=5000, deadline=None, database=None, phases=[Phase.explicit, Phase.generate])
    @given(histories)
    @example(A_WAITS_B_TRIES_TWICE)
    @example(BOTH_HAVE_READ)
    def holds(history: list[Move]) -> None:
        run(history, 2)

    with pytest.raises(AssertionError):
        holds()


def _write_over(self: Reserver, place: module.Reservation, name: str, request: str) -> module.Reservation:
    api = self._api
    assert isinstance(api, FakeApi)
    api.before("replace", LEASE)
    held = place.held_by(name, 40, datetime.now(UTC), {module.REQUEST: request})
    return module.Reservation(api.put(LEASE, held))
