"""manifests/base on the API server as they are, but for three things that need a real network.

The Service is an ExternalName for localhost, where the proxy listens that stands for it, and the webhook configurations
name its port. Nobody makes pods of the Deployment: the test starts replicas.
"""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tests.e2e.api import identity

if TYPE_CHECKING:
    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
CONFIGURATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
NAMESPACE = "forewarn"


def rendered(plane: ControlPlane, path: Path) -> list[Obj]:
    """What `kubectl kustomize` makes of a directory."""
    told = plane.kubectl("kustomize", str(path))
    assert told.status == 0, told.err
    return [obj for obj in yaml.safe_load_all(told.out) if obj]


class Installation:
    """Everything but the configurations is applied at once; these come and go with the webhooks of the tests."""

    def __init__(self, plane: ControlPlane) -> None:
        objects = rendered(plane, MANIFESTS / "base")
        self._configurations = [obj for obj in objects if obj["kind"] in CONFIGURATIONS]
        rest = [obj for obj in objects if obj["kind"] not in (*CONFIGURATIONS, "Service")]
        service = identity("Service", "forewarn", NAMESPACE)
        rest.append({**service, "spec": {"type": "ExternalName", "externalName": "localhost"}})
        self._rest: Obj = {"apiVersion": "v1", "kind": "List", "items": rest}
        self.apply(plane)

    def apply(self, plane: ControlPlane) -> None:
        """Put everything but the configurations on the cluster."""
        told = plane.kubectl("apply", "-f", "-", stdin=json.dumps(self._rest))
        assert told.status == 0, told.err

    @property
    def objects(self) -> list[Obj]:
        """Everything but the configurations."""
        items: list[Obj] = json.loads(json.dumps(self._rest))["items"]
        return items

    def take_away(self, plane: ControlPlane) -> None:
        """Everything but the configurations and the namespace goes, until it is applied again."""
        items = [item for item in self._rest["items"] if item["kind"] != "Namespace"]
        told = plane.kubectl("delete", "-f", "-", stdin=json.dumps({**self._rest, "items": items}))
        assert told.status == 0, told.err

    def register(self, api: Api, port: int, failure_policy: str = "", bundle: bytes = b"") -> None:
        """Let the API server call this port. `failure_policy`: of all webhooks, instead of what is shipped."""
        for made in self.configurations(port, failure_policy):
            for webhook in made["webhooks"]:
                if bundle:  # nobody else writes it, nor the path
                    webhook["clientConfig"]["caBundle"] = b64encode(bundle).decode()
                    path = "/mutate" if made["kind"].startswith("Mutating") else "/validate"
                    webhook["clientConfig"]["service"]["path"] = path
            api.create(made)

    def configurations(self, port: int, failure_policy: str = "") -> list[Obj]:
        """The webhook configurations as they are shipped, for this port."""
        found: list[Obj] = json.loads(json.dumps(self._configurations))
        for webhook in (webhook for configuration in found for webhook in configuration["webhooks"]):
            webhook["clientConfig"]["service"]["port"] = port
            webhook["failurePolicy"] = failure_policy or webhook["failurePolicy"]
        return found

    def changed(self, port: int, label: str, failure_policy: str = "") -> str:
        """All manifests as the next version might have them: each with a label more."""
        items = [*json.loads(json.dumps(self._rest))["items"], *self.configurations(port, failure_policy)]
        for item in items:
            item["metadata"].setdefault("labels", {})["next"] = label
        return json.dumps({**self._rest, "items": items})

    def pod(self, deployment: str, node: str) -> Obj:
        """A pod of a Deployment as its controller would make it, on a node."""
        items = json.loads(json.dumps(self._rest))["items"]
        (found,) = (o for o in items if o["kind"] == "Deployment" and o["metadata"]["name"] == deployment)
        template = found["spec"]["template"]
        made = identity("Pod", f"{deployment}-0", NAMESPACE)
        made["metadata"] |= {"labels": template["metadata"]["labels"]}
        return {**made, "spec": {**template["spec"], "nodeName": node}}

    def unregister(self, api: Api) -> None:
        """Let it call nobody."""
        for kind in CONFIGURATIONS:
            api.delete(identity(kind, "forewarn"))
