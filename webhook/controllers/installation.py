"""The installation in a cluster: its namespace, and the names of its objects in the manifests."""

from __future__ import annotations

from dataclasses import dataclass

from forewarn.webhook.controllers.leader import lease_path
from forewarn.webhook.x509 import NAMES


@dataclass(frozen=True, slots=True)
class Installation:
    """A namespace, and the name of this process among those that do the same."""

    namespace: str
    identity: str

    @property
    def path(self) -> str:
        """Path of the namespace itself."""
        return f"/api/v1/namespaces/{self.namespace}"

    @property
    def authorities(self) -> str:
        """Path of the Secret with the CAs and their keys: the CA injector's."""
        return f"{self.path}/secrets/forewarn-ca"

    @property
    def serving(self) -> str:
        """Path of the Secret with the certificate that replicas serve."""
        return f"{self.path}/secrets/forewarn-serving-cert"

    @property
    def election(self) -> str:
        """Path of the Lease by which one CA injector of several is elected."""
        return lease_path(self.namespace, "forewarn-ca-injector")

    @property
    def default(self) -> str:
        """Path of the Lease on which the place of the global default is reserved."""
        return lease_path(self.namespace, "forewarn-global-default")

    @property
    def audit(self) -> str:
        """Path of the Lease by which the replica that audits is elected."""
        return lease_path(self.namespace, "forewarn-audit")

    @property
    def names(self) -> tuple[str, ...]:
        """The subject names of the certificate."""
        service = f"forewarn.{self.namespace}.svc"
        return tuple(dict.fromkeys((*NAMES, service, f"{service}.cluster.local")))
