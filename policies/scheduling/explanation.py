"""By what a prediction was come to: which release, which profile, and whether columns could tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from policies.scheduling.schedule_one import Prediction


class Explanation(NamedTuple):
    """`kubernetes`: the release; `configuration`: the file or preset of the profile, empty for the release's own.

    `because`: for whose sake every plugin was run on every node, empty where all nodes were looked at in columns.
    """

    kubernetes: str
    profile: str
    configuration: str
    because: str

    def __str__(self) -> str:
        of = f" of {self.configuration}" if self.configuration else ""
        way = (
            f"plugin by plugin on every node, because {self.because}"
            if self.because
            else "all nodes at once, in columns"
        )
        return f"as kube-scheduler {self.kubernetes} with its profile {self.profile}{of}; {way}"


def explanation_of(prediction: Prediction) -> Explanation | None:
    """None where nothing was predicted."""
    if prediction.not_predicted:
        return None
    semantics = prediction.snapshot.semantics
    profile = prediction.framework.profile.scheduler_name
    return Explanation(semantics.release, profile, prediction.configuration.source, prediction.without_columns)
