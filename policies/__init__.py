"""Pod priority semantics: rules and the scheduling core. No network, no threads, no clock.

    from forewarn import policies

    cache = policies.Cache()                       # or policies.load_cluster("cluster.json.gz")
    cache.add(obj); cache.remove(obj)              # API objects as dicts
    prediction = policies.predict(cache.snapshot(), pod)
    prediction.nominated_node, prediction.victims, prediction.violated_pdbs, prediction.to_dict()

The names above are imported on first use (PEP 562), numpy by the first prediction.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.admission import predict
    from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction

VERSION: Final = "0.1.0"

__all__ = ["Cache", "ClusterSnapshot", "Prediction", "load_cluster", "predict"]

_HOMES: Final = {
    "Cache": "policies.kubernetes.cluster.cache",
    "ClusterSnapshot": "policies.kubernetes.cluster.cache",
    "predict": "policies.kubernetes.cluster.admission",
    "load_cluster": "policies.inputs.sources.cluster",
    "Prediction": "policies.kubernetes.scheduling.schedule_one",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"forewarn.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
