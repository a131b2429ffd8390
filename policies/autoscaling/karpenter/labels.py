"""Labels that Karpenter knows. Source: pkg/apis/v1/labels.go."""

from __future__ import annotations

from typing import Final

GROUP: Final = "karpenter.sh"
NODE_POOL: Final = f"{GROUP}/nodepool"
CAPACITY_TYPE: Final = f"{GROUP}/capacity-type"
INITIALIZED: Final = f"{GROUP}/initialized"
REGISTERED: Final = f"{GROUP}/registered"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
RESERVATION_ID: Final = "karpenter.k8s.aws/capacity-reservation-id"
RESERVED: Final = "reserved"
SIMULATED: Final = (REGISTERED, INITIALIZED)
"""Labels of a template that only decide which DaemonSet Pods run on the node."""

_PROVIDER: Final = tuple(
    f"karpenter.k8s.aws/instance-{what}" for what in ("category", "family", "generation", "size", "cpu", "memory")
)
WELL_KNOWN: Final = frozenset(
    {NODE_POOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, RESERVATION_ID, *_PROVIDER}
    | {"node.kubernetes.io/windows-build"}
)
NORMALIZED: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "beta.kubernetes.io/arch": ARCH,
    "beta.kubernetes.io/os": OS,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
}
CAPACITY_TYPES: Final = ("on-demand", "reserved", "spot")


def restricted(key: str) -> str:
    """Return why Pods and NodePools must not require a label; "" for others. Source: `IsRestrictedLabel`."""
    domain = key.partition("/")[0] if "/" in key else ""
    if key in WELL_KNOWN or (key != HOSTNAME and domain != GROUP and not domain.endswith(f".{GROUP}")):
        return ""
    return (
        f"using label {key} is not allowed as it might interfere with the internal provisioning logic; specify a well "
        f"known label: [{' '.join(sorted(WELL_KNOWN))}], or a custom label that does not use a restricted domain: "
        f"[{GROUP}]"
    )
