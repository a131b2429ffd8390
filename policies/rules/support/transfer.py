"""Send a prediction's result from a forked process to its parent, which has the same cluster state."""

from __future__ import annotations

import io
import pickle
from base64 import b85decode, b85encode
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forewarn.policies.forecast.impact import Impact
    from forewarn.policies.scheduling.schedule_one import Prediction
    from forewarn.policies.scheduling.snapshot import Snapshot


def sent(value: Any, snapshot: Snapshot) -> str:
    """Return a value as text; the Snapshot of the cluster is sent as a reference."""
    data = io.BytesIO()
    _Pickler(data, snapshot).dump(value)
    return b85encode(data.getvalue()).decode()


def received(text: str, snapshot: Snapshot) -> Any:
    """Return the value of `sent`, from another process of this program."""
    return _Unpickler(io.BytesIO(b85decode(text)), snapshot).load()


def settled_impact(impact: Impact, snapshot: Snapshot) -> Impact:
    """Return the impact with predictions that keep only their outcomes and this Snapshot."""

    def plain(predictions: tuple[Prediction, ...]) -> tuple[Prediction, ...]:
        return tuple(prediction.settled(snapshot, not prediction.fits) for prediction in predictions)

    return impact._replace(predictions=plain(impact.predictions), by_waiting=plain(impact.by_waiting))


class _Pickler(pickle.Pickler):
    def __init__(self, data: io.BytesIO, snapshot: Snapshot) -> None:
        super().__init__(data, pickle.HIGHEST_PROTOCOL)
        self._snapshot = snapshot

    def persistent_id(self, obj: Any) -> str | None:
        """Return a reference for the Snapshot; None for other objects."""
        return "snapshot" if obj is self._snapshot else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: io.BytesIO, snapshot: Snapshot) -> None:
        super().__init__(data)
        self._snapshot = snapshot

    def persistent_load(self, _: Any) -> Snapshot:
        """Return the Snapshot for its reference."""
        return self._snapshot
