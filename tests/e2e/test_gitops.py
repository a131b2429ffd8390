"""What Flux and Argo CD do again and again: to apply what is there already changes nothing, and takes nobody's fields.

Both compare by a server-side dry run, or by three ways as `kubectl diff` and `kubectl apply` do.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.webhook.admission.impact_annotation import ANNOTATION
from tests.e2e.api import Refused, identity
from tests.e2e.installation import CONFIGURATIONS
from tests.e2e.objects import deployment, node, running
from tests.e2e.truth import wait_until
from tests.e2e.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation
    from tests.e2e.staging import Stage

pytestmark = pytest.mark.e2e

APPLIER = "git"
FLAGS = {"client-side": (f"--field-manager={APPLIER}",), "server-side": ("--server-side", f"--field-manager={APPLIER}")}
RENEWED = ("Lease",)
"""What forewarn itself writes every few seconds."""


class Applied:
    """Objects as a tool applies them, in one of two ways."""

    def __init__(self, plane: ControlPlane, how: str, objects: list[Obj]) -> None:
        self._plane, self._flags, self.objects = plane, FLAGS[how], objects
        self._all = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})

    def apply(self) -> None:
        """No conflict, no warning."""
        told = self._plane.kubectl("apply", *self._flags, "-f", "-", stdin=self._all)
        assert (told.status, told.err) == (0, "")

    def difference(self) -> str:
        """What `kubectl diff` prints."""
        told = self._plane.kubectl("diff", *self._flags, "-f", "-", stdin=self._all)
        assert told.status in (0, 1), told.err
        return told.out

    def versions(self, api: Api) -> dict[tuple[str, str], str]:
        """Kind and name -> resourceVersion, of what nobody writes all the time."""
        told = self._plane.kubectl("get", "-o", "json", "-f", "-", stdin=self._all)
        found = [obj for obj in json.loads(told.out)["items"] if obj["kind"] not in RENEWED]
        return {(obj["kind"], obj["metadata"]["name"]): obj["metadata"]["resourceVersion"] for obj in found}


def managers(obj: Obj, *path: str) -> set[str]:
    """Who owns a field, by managedFields; the part of a path that a list has is its key as JSON."""
    entries = obj["metadata"].get("managedFields", [])
    return {entry["manager"] for entry in entries if _has(entry["fieldsV1"], path)}


def _has(fields: Any, path: tuple[str, ...]) -> bool:
    for step in path:
        if not isinstance(fields, dict) or step not in fields:
            return False
        fields = fields[step]
    return True


def token_is_there(api: Api) -> bool:
    found = [webhook["clientConfig"] for kind in CONFIGURATIONS for webhook in api.get(kind, "forewarn")["webhooks"]]
    return all(client.get("caBundle") and client["service"].get("path", "").count("/") == 2 for client in found)


@contextmanager
def at_work(
    plane: ControlPlane, installed: Installation, api: Api, how: str, skipped: tuple[str, ...] = ()
) -> Iterator[tuple[Applied, Webhook]]:
    """Installed by a tool, at work, and with all that it writes written. `skipped`: kinds that the tool leaves out."""
    made = Webhook(plane, installed)
    installed.take_away(plane)
    objects = [*installed.objects, *installed.configurations(made.proxy.port)]
    applied = Applied(plane, how, [obj for obj in objects if obj["kind"] not in skipped])
    try:
        applied.apply()
        made.start()
        made.wait_until_asked(api)
        wait_until(lambda: token_is_there(api), 60, "the CA injector has written bundle and path")
        yield applied, made
    finally:
        made.close()
        with suppress(Refused):
            installed.unregister(api)
        installed.take_away(plane)
        installed.apply(plane)


@pytest.fixture(params=sorted(FLAGS))
def forewarn(
    plane: ControlPlane, installed: Installation, api: Api, request: pytest.FixtureRequest
) -> Iterator[tuple[Applied, Webhook]]:
    with at_work(plane, installed, api, request.param) as found:
        yield found


@pytest.fixture
def workload(stage: Stage, api: Api, classes: None) -> Iterator[Obj]:
    """A Deployment that pushes a pod out."""
    stage.put(
        {
            "namespaces": [{"metadata": {"name": "default"}}],
            "nodes": [node("only", cpu="2")],
            "pods": [running("low", "only", "2")],
        }
    )
    yield deployment("shop", "high", cpu="2")
    api.delete_all("Deployment", "default")
    stage.clear()


def test_to_apply_again_changes_nothing_of_forewarn_nor_of_what_it_annotates(
    forewarn: tuple[Applied, Webhook], plane: ControlPlane, api: Api, workload: Obj, stage: Stage
) -> None:
    applied, made = forewarn
    before = applied.versions(api)
    assert applied.difference() == ""
    applied.apply()
    assert applied.versions(api) == before
    assert applied.difference() == ""
    for kind in CONFIGURATIONS:
        found = api.get(kind, "forewarn")
        for webhook in found["webhooks"]:
            place = ("f:webhooks", f'k:{{"name":"{webhook["name"]}"}}', "f:clientConfig")
            assert APPLIER in managers(found, *place, "f:service", "f:port")
            for field in (("f:caBundle",), ("f:service", "f:path")):
                owners = managers(found, *place, *field)
                assert owners
                assert APPLIER not in owners, field

    made.catch_up(stage.api)
    how = next(name for name, flags in FLAGS.items() if flags == applied._flags)
    tenant = Applied(plane, how, [workload])
    told = plane.kubectl("apply", *FLAGS[how], "-f", "-", stdin=json.dumps(workload))
    assert told.status == 0, told.err
    found = api.get("Deployment", "shop")
    assert json.loads(found["metadata"]["annotations"][ANNOTATION])["preemptions"]
    assert managers(found, "f:spec", "f:replicas") == {APPLIER}
    assert managers(found, "f:metadata", "f:annotations", f"f:{ANNOTATION}") == set(), (
        "nobody's: no apply takes it away"
    )
    before = tenant.versions(api)
    api.delete(identity("Pod", "low"), gracePeriodSeconds="0")
    made.catch_up(stage.api)
    assert tenant.difference() == "", "whatever it would say by now"
    tenant.apply()
    assert tenant.versions(api) == before


def test_installed_without_leases_it_creates_them_and_issues_certificates(
    plane: ControlPlane, installed: Installation, api: Api
) -> None:
    """As by Argo CD, which skips Leases (argo-cd util/settings/resources_filter.go)."""
    with at_work(plane, installed, api, "server-side", ("Lease",)) as (_, made):
        holder = {lease["metadata"]["name"]: lease["spec"]["holderIdentity"] for lease in api.list("Lease", "forewarn")}
        assert holder.keys() == {"forewarn-ca-injector", "forewarn-global-default"}
        assert holder["forewarn-ca-injector"] == made.injector.name
        assert all(api.get("Secret", name, "forewarn")["data"] for name in ("forewarn-ca", "forewarn-serving-cert"))


def test_paths_that_former_manifests_named_stay_when_these_are_applied_on_the_servers_side(
    plane: ControlPlane, installed: Installation, api: Api
) -> None:
    """As docs/guides/run-the-webhook.md has it: at no moment are API servers without a path."""
    made = Webhook(plane, installed)
    configurations = installed.configurations(made.proxy.port)
    former = json.loads(json.dumps(configurations))
    for configuration in former:
        for webhook in configuration["webhooks"]:
            own = "/mutate" if configuration["kind"].startswith("Mutating") else "/validate"
            webhook["clientConfig"]["service"]["path"] = own
    try:
        for objects, flags in ((former, ()), (configurations, ("--server-side", "--force-conflicts"))):
            told = plane.kubectl(
                "apply", *flags, "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
            )
            assert told.status == 0, told.err
            if objects is former:
                made.start()
                wait_until(lambda: token_is_there(api), 60, "the CA injector has written the token")
                made.injector.stop()
        assert token_is_there(api)
        told = plane.kubectl(
            "apply",
            "--server-side",
            "-f",
            "-",
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": configurations}),
        )
        assert (told.status, token_is_there(api)) == (0, True), told.err
    finally:
        made.close()
        installed.unregister(api)
