"""Named configurations of Kubernetes distributions.

Source: OpenShift's cluster-kube-scheduler-operator (`spec.profile` of its Scheduler). AKS (SchedulerConfiguration, in
preview) and EKS use fields of a KubeSchedulerConfiguration: pass these as a file. GKE does not document its profile
optimize-utilization.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.scheduling.configuration.schema import API_VERSION, KIND

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEADER: Final = {"apiVersion": API_VERSION, "kind": KIND}
_ALL: Final = {"disabled": [{"name": "*"}]}

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "default": _HEADER,
    "openshift-low-node-utilization": _HEADER,
    "openshift-high-node-utilization": {
        **_HEADER,
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {
                    "score": {
                        "enabled": [{"name": "NodeResourcesFit", "weight": 5}],
                        "disabled": [{"name": "NodeResourcesBalancedAllocation"}],
                    }
                },
                "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}],
            }
        ],
    },
    "openshift-no-scoring": {
        **_HEADER,
        "profiles": [{"schedulerName": "default-scheduler", "plugins": {"preScore": _ALL, "score": _ALL}}],
    },
}
"""Name -> KubeSchedulerConfiguration."""
