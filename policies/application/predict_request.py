"""The request of `predict`. Each field that is an option of the command is declared here alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar

from forewarn.policies.options import Options

if TYPE_CHECKING:
    from forewarn.policies.application.manifests import Manifest
    from forewarn.policies.whatif.autoscalers import Autoscaling

_T = TypeVar("_T", bool, str, int | None)


class Option(NamedTuple):
    """An option of `forewarn predict`. `label`: of its input on the page Predict of `forewarn ui`; "" if the page has
    none. `most`: of a number. `option`: on the command line.
    """

    default: bool | str | int | None
    help: str
    label: str
    most: int
    option: str = ""

    @property
    def kind(self) -> Literal["flag", "word", "number"]:
        """Of its value, from that of the default."""
        return "flag" if isinstance(self.default, bool) else "word" if isinstance(self.default, str) else "number"


def _option(default: _T, help_text: str, label: str = "", most: int = 2**31 - 1) -> _T:
    option: _T = field(default=default, metadata={"option": Option(default, help_text, label, most)})
    return option


@dataclass(frozen=True, slots=True)
class PredictRequest:
    """Manifests of Pods and workloads, or a Pending Pod of the cluster.

    `pod`: namespace and name. `namespace`: namespace of objects that name none. `replicas`: instead of the number in a
    manifest. `autoscaling`: settings of autoscalers (default: those of the cluster). `explain`: `documents()` shows how
    each prediction was made. `cascade`: `head.assumes` also lists what a simulation of the cascade assumes. `options`:
    those of rules, which select placeholder Pods.
    """

    manifests: Manifest | Sequence[Manifest] = ()
    pod: tuple[str, str] | None = None
    namespace: str = "default"
    replicas: int | None = _option(None, "use N instead of the number of Pods in the manifest")
    autoscaling: Autoscaling | None = None
    explain: bool = _option(False, "show the release, the profile and the steps of the decision", "show the steps")
    cascade: bool = _option(False, "with -f: also simulate what happens after the preemption")
    options: Options = field(default_factory=Options)


OPTIONS: Final[Mapping[str, Option]] = {
    each.name: each.metadata["option"]._replace(option=f"--{each.name.replace('_', '-')}")
    for each in fields(PredictRequest)
    if each.metadata
}
"""Field of the request -> the option of the same name."""
