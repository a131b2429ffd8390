"""The place of the global default: how it is taken, kept and freed."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.webhook.admission.decide import DefaultCandidate
from forewarn.webhook.apiserver.typed_client import Conflict, Forbidden, ObjectApiError
from forewarn.webhook.controllers.leases import CLASSES, LEASE_SECONDS, RECONCILE_SECONDS, STALE_SECONDS, Reserver
from forewarn.webhook.metrics import Metrics
from tests.webhook.fake_api import LEASE, FakeApi, unreachable

DEFAULT = {"globalDefault": True}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Replicas:
    """Some replicas of the webhook before one API server."""

    def __init__(self, count: int = 2) -> None:
        self.api, self.clock = FakeApi(LEASE), Clock()
        self.each = [Reserver(self.api, LEASE, Metrics(), self.clock) for _ in range(count)]

    def reserve(self, name: str, request: str = "", replica: int = 0) -> str:
        return self.each[replica].reserve(DefaultCandidate(name, request or f"create uid-of-{name}"), 3)

    def created(self, name: str, **fields: Any) -> None:
        self.api.put(f"{CLASSES}/{name}", {**DEFAULT, **fields}, f"uid-of-{name}")

    def reconcile(self, replica: int = 0) -> None:
        self.each[replica].reconcile()

    @property
    def holder(self) -> str:
        return str(self.api.objects[LEASE].get("spec", {}).get("holderIdentity", ""))


def test_the_place_is_held_by_name_for_longer_than_an_api_server_takes() -> None:
    replicas = Replicas()
    assert replicas.reserve("normal") == ""
    spec = replicas.api.objects[LEASE]["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("normal", 40)
    assert spec["renewTime"].endswith("Z")
    assert STALE_SECONDS > 34
    assert STALE_SECONDS + RECONCILE_SECONDS <= LEASE_SECONDS


def test_another_class_is_refused_by_every_replica_and_told_who_has_the_place() -> None:
    replicas = Replicas()
    replicas.reserve("normal")
    for replica in (0, 1):
        rejection = replicas.reserve("standard", replica=replica)
        assert 'PriorityClass "normal"' in rejection
        assert "within 40 seconds" in rejection


def test_the_same_class_may_try_again() -> None:
    replicas = Replicas()
    assert [replicas.reserve("normal", replica=replica) for replica in (0, 1, 0)] == ["", "", ""]
    assert replicas.reserve("standard")


def test_the_place_is_free_once_the_class_is_stored() -> None:
    replicas = Replicas()
    replicas.reserve("normal")
    replicas.reconcile()
    assert replicas.holder == "normal"
    replicas.created("normal")
    replicas.reconcile(1)
    assert replicas.holder == ""
    assert "normal is already marked as default" in replicas.reserve("standard")
    assert replicas.holder == ""


def test_a_class_that_is_stored_frees_the_place_for_whom_it_would_be_legal_at_once() -> None:
    replicas = Replicas()
    replicas.reserve("normal")
    replicas.created("normal", globalDefault=False)
    assert replicas.reserve("standard", replica=1) == ""
    assert replicas.holder == "standard"


def test_a_reservation_whose_class_never_comes_frees_itself() -> None:
    replicas = Replicas()
    replicas.reserve("normal")
    waited = 0.0
    while replicas.reserve("standard", replica=1):
        replicas.clock.now += RECONCILE_SECONDS
        waited += RECONCILE_SECONDS
        replicas.reconcile(1)
    assert 34 < waited <= LEASE_SECONDS


def test_a_deleted_lease_is_created_again_and_admits_nobody_while_its_holder_may_still_be_stored() -> None:
    replicas = Replicas()
    replicas.reserve("normal")
    replicas.api.delete(LEASE)
    assert "was deleted; forewarn uses the new one after 40 seconds" in replicas.reserve("standard", replica=1)
    waited = 0.0
    while replicas.reserve("standard"):
        replicas.clock.now += RECONCILE_SECONDS
        waited += RECONCILE_SECONDS
    assert STALE_SECONDS <= waited <= LEASE_SECONDS
    assert replicas.holder == "standard"


def test_of_two_replicas_that_create_the_lease_one_is_quicker() -> None:
    replicas = Replicas()
    replicas.api.delete(LEASE)

    def first(verb: str, _path: str) -> None:
        if verb == "replace":
            replicas.api.before = lambda _verb, _path: None
            replicas.reconcile(1)

    replicas.api.before = first
    replicas.reconcile()
    assert replicas.holder == "forewarn/recreated"


def test_a_missing_lease_that_forewarn_may_not_create_is_named_and_the_request_denied() -> None:
    replicas = Replicas()
    replicas.api.delete(LEASE)

    def forbidden(verb: str, path: str) -> None:
        if verb == "replace":
            raise Forbidden(path)

    replicas.api.before = forbidden
    assert replicas.reserve("normal").startswith(
        "the Lease forewarn-global-default is missing, and forewarn may not create it. An administrator must apply"
    )


def test_an_unused_place_is_freed_by_looking() -> None:
    replicas = Replicas()
    replicas.reserve("normal")
    for _ in range(8):
        replicas.reconcile(1)
        replicas.clock.now += RECONCILE_SECONDS
    assert replicas.holder == ""


def test_a_class_of_the_same_name_but_another_request_frees_nothing() -> None:
    replicas = Replicas()
    replicas.reserve("normal", "create uid-1")
    replicas.api.put(f"{CLASSES}/normal", {}, "uid-2")
    replicas.reconcile()
    assert replicas.holder == "normal"


def test_two_requests_for_one_class_hold_the_place_for_as_long_as_the_later_may_last() -> None:
    replicas = Replicas()
    replicas.reserve("normal", "create uid-1")
    replicas.clock.now += 20
    replicas.reserve("normal", "create uid-2", 1)
    replicas.api.put(f"{CLASSES}/normal", {}, "uid-2")  # deleted again, and uid-1 could still be created
    replicas.reconcile()
    assert replicas.holder == "normal"
    replicas.clock.now += 30
    replicas.reconcile()
    assert replicas.holder == "normal"
    replicas.clock.now += STALE_SECONDS
    replicas.reconcile()
    assert replicas.holder == ""


@pytest.mark.parametrize("change", ["stored", "deleted", "recreated"])
def test_an_update_frees_the_place_once_the_version_that_it_saw_is_gone(change: str) -> None:
    replicas = Replicas()
    path = f"{CLASSES}/normal"
    old = replicas.api.put(path, {})["metadata"]
    assert replicas.reserve("normal", f"update {old['uid']} {old['resourceVersion']}") == ""
    replicas.reconcile()
    assert replicas.holder == "normal"
    if change == "deleted":
        replicas.api.delete(path)
    else:
        replicas.api.put(path, DEFAULT, "another" if change == "recreated" else "")
    replicas.reconcile()
    assert replicas.holder == ""


def test_a_request_that_cannot_be_told_apart_is_never_confirmed() -> None:
    replicas = Replicas()
    replicas.each[0].reserve(DefaultCandidate("normal", ""), 3)
    replicas.created("normal", globalDefault=False)
    replicas.reconcile()
    assert replicas.holder == "normal"


def test_a_change_on_the_watch_wakes_whoever_looks() -> None:
    replicas = Replicas()
    first, _ = replicas.each
    replicas.reserve("normal")
    first.wake.clear()
    first.seen({"metadata": {"name": "other"}})
    assert not first.wake.is_set()
    first.seen({"metadata": {"name": "normal"}})
    assert first.wake.is_set()
    replicas.created("normal")
    first.reconcile()
    assert not first.pending


def test_a_class_that_came_by_the_watch_and_is_gone_again_frees_the_place() -> None:
    replicas = Replicas()
    replicas.reserve("normal")
    replicas.reconcile(1)
    assert replicas.holder == "normal"
    replicas.each[1].seen({"metadata": {"name": "normal", "uid": "uid-of-normal"}})
    assert replicas.reserve("standard", replica=1) == ""


def test_only_so_many_classes_are_remembered() -> None:
    replicas = Replicas()
    replicas.reserve("normal")
    for number in range(300):
        replicas.each[0].seen({"metadata": {"name": "x", "uid": "uid-of-normal" if number == 0 else f"uid-{number}"}})
    assert replicas.reserve("standard")


def test_foreign_annotations_of_the_lease_are_kept() -> None:
    replicas = Replicas()
    replicas.api.put(LEASE, {"metadata": {"annotations": {"kustomize": "x"}, "labels": {"app": "forewarn"}}})
    replicas.reserve("normal")
    replicas.created("normal")
    replicas.reconcile()
    metadata = replicas.api.objects[LEASE]["metadata"]
    assert (metadata["annotations"], metadata["labels"]) == ({"kustomize": "x"}, {"app": "forewarn"})


def test_what_the_api_server_does_not_answer_is_an_error_and_no_permission() -> None:
    replicas = Replicas()
    replicas.api.before = unreachable
    with pytest.raises(ObjectApiError, match="connection refused"):
        replicas.reserve("normal")


def conflicts(replicas: Replicas, first: int) -> None:
    """The first so many writes come too late: somebody else has changed the Lease."""
    left = iter(range(first))

    def meddled(verb: str, path: str) -> None:
        if verb == "replace" and next(left, None) is not None:
            raise Conflict(path)

    replicas.api.before = meddled


def writes(replicas: Replicas) -> int:
    return replicas.api.calls.count(("replace", LEASE))


def counted(replicas: Replicas, outcome: str) -> float:
    """How many reservations came to this, on all replicas."""
    each = (reserver._metrics.reservations.labels(outcome) for reserver in replicas.each)
    return sum(float(counter._value.get()) for counter in each)


def test_a_lease_that_changes_under_every_attempt_is_an_error() -> None:
    replicas = Replicas()
    conflicts(replicas, 99)
    with pytest.raises(ObjectApiError, match="too many concurrent changes"):
        replicas.reserve("normal")
    assert writes(replicas) == 10


def test_a_write_that_comes_too_late_is_tried_again_while_there_is_time() -> None:
    replicas = Replicas()
    conflicts(replicas, 9)
    assert replicas.reserve("normal") == ""
    assert replicas.holder == "normal"


@pytest.mark.parametrize("seconds", [0, -1])
def test_when_time_is_up_nothing_is_tried_again(seconds: float) -> None:
    replicas = Replicas()
    conflicts(replicas, 1)
    with pytest.raises(ObjectApiError, match="too many concurrent changes"):
        replicas.each[0].reserve(DefaultCandidate("normal", "create uid-1"), seconds)
    assert writes(replicas) == 1


def test_a_place_that_is_refused_stays_with_the_request_that_had_it_before() -> None:
    """The earlier one of the same class may still be stored: another default came past an exemption."""
    replicas = Replicas()
    assert replicas.reserve("normal", "create uid-1") == ""
    replicas.created("standard")
    assert "standard is already marked as default" in replicas.reserve("normal", "create uid-2", 1)
    assert replicas.holder == "normal"


def test_a_place_that_somebody_changed_while_it_was_freed_is_not_free_yet() -> None:
    replicas = Replicas()
    replicas.reserve("normal")
    replicas.created("normal")
    conflicts(replicas, 1)
    replicas.reconcile()
    assert replicas.each[0].pending
    assert counted(replicas, "confirmed") == 0
    replicas.reconcile()
    assert not replicas.each[0].pending
    assert counted(replicas, "confirmed") == 1


def test_the_last_classes_of_the_watch_are_remembered() -> None:
    """Without a bound a tenant's stream of classes would fill the memory."""
    [reserver] = Replicas(1).each
    for number in range(259):
        reserver.seen({"metadata": {"name": "x", "uid": str(number)}})
    assert list(reserver._seen) == [str(number) for number in range(3, 259)]
