"""kube-scheduler's reasons for rejections, in its words and in ours. Each is defined with the plugin that gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def not_found(resource: str, name: str, context: str = "") -> Reason:
    """Return the reason of a Pod whose volumes refer to a missing object. Source: apimachinery `NewNotFound`."""
    return Reason(f'{context}{resource} "{name}" not found', "", CREATE_IT, of_volumes=True)
