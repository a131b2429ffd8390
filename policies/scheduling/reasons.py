"""kube-scheduler's reasons for rejections, in its words and in ours. Each is defined with the plugin that gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from forewarn.policies.findings import plural
from forewarn.policies.objects.fields import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CREATE_IT: Final = "create what is missing first"
RECREATE_IT: Final = "recreate the claim after its deletion"


class Reason(str):
    """A reason of kube-scheduler, exactly as upstream writes it.

    `short`: the reason in forewarn's words (by default its text). `fixes`: what users can change. `resource`: the
    insufficient one, or "". `of_volumes`: whether the reason is about the Pod's volumes.
    """

    short: str
    fixes: tuple[str, ...]
    resource: str
    of_volumes: bool

    def __new__(cls, text: str, short: str = "", *fixes: str, resource: str = "", of_volumes: bool = False) -> Self:
        """Make a reason from upstream's text."""
        reason = super().__new__(cls, text)
        reason.short, reason.fixes, reason.resource, reason.of_volumes = short or text, fixes, resource, of_volumes
        return reason


def as_reason(text: str) -> Reason:
    """Return the text as a Reason; a text that is not one has no fix."""
    return text if isinstance(text, Reason) else Reason(text)


def joined(reasons: Iterable[str], separator: str = " and ") -> Reason:
    """Return one Reason for several."""
    several = [as_reason(reason) for reason in reasons]
    fixes = dict.fromkeys(fix for reason in several for fix in reason.fixes)
    short = separator.join(reason.short for reason in several)
    return Reason(separator.join(several), short, *fixes, of_volumes=any(reason.of_volumes for reason in several))


NOT_HELPFUL: Final = Reason("Preemption is not helpful for scheduling")
NO_VICTIMS_IN_SHORT: Final = "no Pod of lower priority"
"""The reason of nodes on which preemption is not tried."""


class FitError(str):
    """kube-scheduler's message for a Pod that fits on no node, exactly as upstream writes it (`FitError.Error`).

    `reasons`: reason -> number of nodes; 0 for a reason about no node. `preemption`: why preemption does not
    help; "" if it was not tried.
    """

    reasons: Mapping[str, int]
    preemption: str

    def __new__(cls, text: str, reasons: Mapping[str, int] = NOTHING, preemption: str = "") -> Self:
        """Make a message from upstream's text."""
        message = super().__new__(cls, text)
        message.reasons, message.preemption = reasons, preemption
        return message

    @property
    def short(self) -> str:
        """The message in forewarn's words: `20 nodes: insufficient cpu, no Pod of lower priority`."""
        counted = sorted(self.reasons.items(), key=lambda item: (-item[1], item[0]))
        parts = [
            f"{plural(nodes, 'node')}: {as_reason(reason).short}" if nodes else as_reason(reason).short
            for reason, nodes in counted
        ]
        return _with_preemption(parts, self.preemption)


def in_short(message: str) -> str:
    """Return a message of kube-scheduler in forewarn's words; another text unchanged."""
    return message.short if isinstance(message, (FitError, Reason)) else message


def _with_preemption(parts: list[str], why: str) -> str:
    """The reasons of nodes, with the reason why preemption does not help."""
    if not isinstance(why, FitError):
        return "; ".join([*parts, *filter(None, [in_short(why)])])
    others = [as_reason(reason).short for reason in why.reasons]
    if len(parts) == len(others) == 1 and others[0] == NO_VICTIMS_IN_SHORT:
        return f"{parts[0]}, {NO_VICTIMS_IN_SHORT}"
    if len(parts) == len(others) == 1 and parts[0].endswith(f": {others[0]}"):
        return f"{parts[0]} even after preempting all Pods of lower priority"
    named = " or ".join(as_reason(reason).short for reason in why.reasons if reason != NOT_HELPFUL)
    return "; ".join([*parts, f"preemption does not help{named and ': '}{named}"])


def not_found(resource: str, name: str, context: str = "") -> Reason:
    """Return the reason of a Pod whose volumes refer to a missing object. Source: apimachinery `NewNotFound`."""
    return Reason(f'{context}{resource} "{name}" not found', "", CREATE_IT, of_volumes=True)
