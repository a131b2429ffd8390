"""The installation in a cluster: its namespace, and the names of its objects in the manifests."""

from __future__ import annotations

from dataclasses import dataclass

from forewarn.webhook.controllers.leader import lease_path
from forewarn.webhook.x509 import NAMES


@dataclass(frozen=True, slots=True)
class Installation:
    """The namespace of forewarn, and the name of this process among the replicas."""

    namespace: str
    identity: str

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    @property
    def authorities(self) -> str:
        """API path of the Secret with the CAs and their keys; only the CA injector reads it."""
        return f"{self.path}/secrets/forewarn-ca"

    @property
    def serving(self) -> str:
        return f"{self.path}/secrets/forewarn-serving-cert"

    @property
    def election(self) -> str:
        return lease_path(self.namespace, "forewarn-ca-injector")

    @property
    def default(self) -> str:
        return lease_path(self.namespace, "forewarn-global-default")

    @property
    def audit(self) -> str:
        """API path of the Lease that elects the replica that runs the audit."""
        return lease_path(self.namespace, "forewarn-audit")

    @property
    def names(self) -> tuple[str, ...]:
        """The subject names of the certificate."""
        service = f"forewarn.{self.namespace}.svc"
        return tuple(dict.fromkeys((*NAMES, service, f"{service}.cluster.local")))
