"""The basis of a prediction: the release, the profile, and whether the numpy implementation (`vectorized`) was used."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from forewarn.policies.scheduling.schedule_one import Prediction


class Explanation(NamedTuple):
    """The basis of a prediction.

    `kubernetes`: the release. `configuration`: the file or preset of the profile; "" for the default profile.
    `because`: why every plugin ran on every node; "" if the numpy implementation (`vectorized`) was used.
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
    """Return the basis of a prediction; None if the Pod is not predicted."""
    if prediction.not_predicted:
        return None
    semantics = prediction.snapshot.semantics
    profile = prediction.framework.profile.scheduler_name
    return Explanation(semantics.release, profile, prediction.configuration.source, prediction.without_columns)
