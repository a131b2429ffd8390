"""Somebody deletes the namespace and nothing else: the webhook configurations go too, and nobody is locked out.

The namespace controller and the garbage collector are the real ones. The test plays the kubelet: pods end some seconds
after they are told to, as replicas drain for 15 s.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.e2e.api import Refused, identity, path_of
from tests.e2e.installation import CONFIGURATIONS, NAMESPACE
from tests.e2e.objects import priority_class
from tests.e2e.truth import wait_until
from tests.e2e.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Api
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = pytest.mark.e2e

BOUND = 60
"""Seconds after which PriorityClasses can be changed again, whatever was left out."""
DRAIN = 16
"""Seconds that a pod takes to end: FOREWARN_DRAIN of the manifests, and one."""
HELD = {**identity("ConfigMap", "held", NAMESPACE), "data": {}}


@pytest.fixture
def controllers(plane: ControlPlane, api: Api) -> Iterator[None]:
    """Both controllers, at work: the collector has taken something away whose owner is not there."""
    plane.start_controllers("namespace-controller", "garbage-collector-controller")
    orphan = identity("ConfigMap", "orphan")
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "gone", "uid": "gone"}
    orphan["metadata"]["ownerReferences"] = [owner]
    api.create(orphan)
    wait_until(lambda: not exists(api, "ConfigMap", "orphan", "default"), 90, "the garbage collector collects")
    yield
    plane.processes.stop("kube-controller-manager")


@pytest.fixture
def running(plane: ControlPlane, installed: Installation, api: Api, controllers: None) -> Iterator[Webhook]:
    """forewarn as it is shipped, with pods in its namespace."""
    made = Webhook(plane, installed, 2)
    api.create(identity("Node", "home"))
    try:
        made.begin(api)
        for name in ("forewarn", "forewarn-ca-injector"):
            api.create(installed.pod(name, "home"))
        wait_until(lambda: all(owners(api, kind) for kind in CONFIGURATIONS), 90, "the configurations have an owner")
        yield made
    finally:
        made.close()
        for kind in CONFIGURATIONS:
            with suppress(Refused):
                api.delete(identity(kind, "forewarn"))
        api.delete(identity("Node", "home"))
        wait_until(lambda: not exists(api, "Namespace", NAMESPACE, ""), 90, "the namespace is gone")
        installed.apply(plane)


def owners(api: Api, kind: str) -> list[str]:
    found = api.get(kind, "forewarn")["metadata"].get("ownerReferences", [])
    return [owner["name"] for owner in found if owner["kind"] == "Namespace"]


def exists(api: Api, kind: str, name: str, namespace: str) -> bool:
    try:
        api.get(kind, name, namespace)
    except Refused:
        return False
    return True


def locked(api: Api) -> bool:
    """Whether a PriorityClass cannot be created."""
    obj = priority_class("free", 1)
    return api.ask("POST", path_of(obj, name="", dryRun="All"), obj).code != 201


class Deleted:
    """The namespace has been deleted; what happens then, by the clock."""

    def __init__(self, webhook: Webhook, api: Api) -> None:
        self._webhook, self._api, self._ended = webhook, api, False
        self.locked = list[float]()
        """When PriorityClasses could not be created: seconds since."""
        self.started = time.monotonic()
        api.delete(identity("Namespace", NAMESPACE))

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def watch(self) -> None:
        """See what can be done now, and let pods end when it is time."""
        if self.seconds > DRAIN and not self._ended:
            self._ended = True
            for replica in self._webhook.replicas:
                replica.stop()
            self._webhook.injector.stop()
            for pod in self._api.list("Pod", NAMESPACE):
                self._api.delete(pod, gracePeriodSeconds="0")
        if locked(self._api):
            self.locked.append(self.seconds)
        time.sleep(0.25)


def test_the_configurations_go_with_the_namespace(running: Webhook, api: Api) -> None:
    deleted = Deleted(running, api)
    while any(exists(api, kind, "forewarn", "") for kind in CONFIGURATIONS):
        deleted.watch()
        assert deleted.seconds < BOUND, deleted.locked
    gone = deleted.seconds
    assert not locked(api)
    told = f"locked from {deleted.locked[0]:.0f} to {deleted.locked[-1]:.0f} s" if deleted.locked else "never locked"
    print(f"\ne2e: namespace deleted: PriorityClasses {told}; the configurations are gone after {gone:.0f} s")


def test_a_namespace_that_does_not_go_locks_nobody_out(running: Webhook, api: Api) -> None:
    """Something in it has a finalizer that nobody takes off: it is there for ever, and so are the configurations."""
    api.create({**HELD, "metadata": {**HELD["metadata"], "finalizers": ["example.com/held"]}})
    deleted = Deleted(running, api)
    try:
        while deleted.seconds < BOUND:
            deleted.watch()
        assert exists(api, CONFIGURATIONS[1], "forewarn", "")
        assert deleted.seconds - deleted.locked[-1] > 10, "and it stays so"
        assert not locked(api)
        print(
            f"\ne2e: namespace held: PriorityClasses locked from {deleted.locked[0]:.0f} to {deleted.locked[-1]:.0f} s"
        )
    finally:
        api.patch(HELD, {"metadata": {"finalizers": None}})
