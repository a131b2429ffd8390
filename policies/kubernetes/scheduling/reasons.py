"""kube-scheduler's reasons for rejections, in its words and in ours. Each is defined with the plugin that gives it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self

from forewarn.policies.base.findings import cut, plural
from forewarn.policies.kubernetes.objects.fields import NOTHING

_KINDS: Final = {
    "persistentvolumeclaim": "PersistentVolumeClaim",
    "persistentvolume": "PersistentVolume",
    "storageclass.storage.k8s.io": "StorageClass",
}
CREATE_IT: Final = "create what is missing first"
RECREATE_IT: Final = "recreate the claim after its deletion"
UNCORDON: Final = "uncordon the node"
_MAX_LENGTH: Final = 200
_FEW: Final = 3
_SHORT: Final = 120
"""Maximum characters of a few reasons in a first line."""
LOWER_REQUESTS: Final = "lower requests"


class Reason(str):
    """A reason of kube-scheduler, exactly as upstream writes it.

    `short`: the reason in forewarn's words (by default its text). `fixes`: what users can change. `resource`: the
    insufficient one, or "". `of_volumes`: whether the reason is about the Pod's volumes. `of_pods`: whether it is
    about running Pods, so that preemption may resolve it.
    """

    short: str
    fixes: tuple[str, ...]
    resource: str
    of_volumes: bool
    of_pods: bool

    def __new__(
        cls,
        text: str,
        short: str = "",
        *fixes: str,
        resource: str = "",
        of_volumes: bool = False,
        of_pods: bool = False,
    ) -> Self:
        """Make a reason from upstream's text."""
        reason = super().__new__(cls, text)
        reason.short, reason.fixes, reason.resource, reason.of_volumes = short or text, fixes, resource, of_volumes
        reason.of_pods = of_pods or bool(resource)
        return reason

    def with_fixes(self, *fixes: str) -> Self:
        """Return the reason with other fixes."""
        reason = type(self)(self, self.short, *fixes, resource=self.resource, of_volumes=self.of_volumes)
        reason.of_pods = self.of_pods
        return reason


def as_reason(text: str) -> Reason:
    """Return the text as a Reason; without fixes unless it is a Reason already."""
    return text if isinstance(text, Reason) else Reason(text)


def insufficient(resources: Iterable[str]) -> str:
    """Return the resources as a phrase: `insufficient cpu and memory`."""
    return f"insufficient {' and '.join(resources)}"


def joined(reasons: Iterable[str], separator: str = " and ") -> Reason:
    """Return one Reason that joins several."""
    several = [as_reason(reason) for reason in reasons]
    fixes = dict.fromkeys(fix for reason in several for fix in reason.fixes)
    short = separator.join(reason.short for reason in several)
    of_volumes, of_pods = any(reason.of_volumes for reason in several), any(reason.of_pods for reason in several)
    return Reason(separator.join(several), short, *fixes, of_volumes=of_volumes, of_pods=of_pods)


def ranked(reasons: Mapping[str, int]) -> list[tuple[Reason, int]]:
    """Return reasons with their numbers of nodes: first those about running Pods, then those of most nodes.

    Capacity or preemption could remove the first ones. All other nodes, such as those of other pools, do not suit the
    Pod regardless of their Pods.
    """
    counted = [(as_reason(reason), nodes) for reason, nodes in reasons.items()]
    return sorted(counted, key=lambda each: (not each[0].of_pods, -each[1], each[0]))


NOT_HELPFUL: Final = Reason("Preemption is not helpful for scheduling")
NO_VICTIMS_IN_SHORT: Final = "no Pod of lower priority"
"""The reason of nodes on which preemption is not tried."""
TOO_SMALL: Final = "too small even when empty: "
_WITHOUT_OTHERS: Final = "even without Pods of lower priority"


class FitError(str):
    """kube-scheduler's message for a Pod that fits on no node, exactly as upstream writes it (`FitError.Error`).

    `reasons`: reason -> number of nodes; 0 for a reason about no node. `preemption`: why preemption does not
    help; "" if it was not tried. `cause`: the one reason that rejects the Pod on every
    node, whatever Pods run there; None if unknown.
    """

    reasons: Mapping[str, int]
    preemption: str
    cause: Reason | None

    def __new__(
        cls, text: str, reasons: Mapping[str, int] = NOTHING, preemption: str = "", cause: Reason | None = None
    ) -> Self:
        """Make a message from upstream's text."""
        message = super().__new__(cls, text)
        message.reasons, message.preemption, message.cause = reasons, preemption, cause
        return message

    @property
    def short(self) -> str:
        """The message in forewarn's words: `20 nodes: insufficient cpu; no Pod of lower priority`."""
        if self.cause:
            return self.cause.short
        reasons = ranked(self.reasons)
        if of_volumes := self._volume_reasons:
            first = FitError("", self.reasons).short
            return f"{FitError('', of_volumes).short} (without preemption: {first})"
        shorts, why = _with_preemption(reasons, self.preemption)
        parts = [
            f"{plural(nodes, 'node')}: {short}" if nodes else short
            for short, (_, nodes) in zip(shorts, reasons, strict=True)
        ]
        return "; ".join([*parts, *filter(None, [why])])

    @property
    def _volume_reasons(self) -> Mapping[str, int]:
        """Volume reason -> number of nodes that only it rejects after preemption; empty if others reject more nodes."""
        after = self.preemption.reasons if isinstance(self.preemption, FitError) else NOTHING
        left = {reason: nodes for reason, nodes in after.items() if reason != NOT_HELPFUL}
        return left if all(as_reason(reason).of_volumes for reason in left) else NOTHING


def join_phrases(phrases: Sequence[str]) -> str:
    """Return all of a few short phrases, or the first and the number of the others."""
    text = "; ".join(phrases)
    if len(phrases) <= _FEW and len(text) <= _SHORT:
        return text
    more = f" and {plural(len(phrases) - 1, 'more reason')}" if phrases[1:] else ""
    return f"{cut(phrases[0], _MAX_LENGTH)}{more}"


def shorten(message: str) -> str:
    """Return a message of kube-scheduler or about an exceeded quota in forewarn's words; another text unchanged."""
    return str(getattr(message, "short", message))


def _with_preemption(reasons: Sequence[tuple[Reason, int]], why: str) -> tuple[list[str], str]:
    """Return (reasons in forewarn's words, why preemption does not help; "" if the reasons say it).

    `reasons`: with the number of nodes. `why`: a message's `preemption`.
    """
    shorts = [reason.short for reason, _ in reasons]
    if not isinstance(why, FitError):
        return shorts, shorten(why)
    others = [as_reason(reason).short for reason in why.reasons if reason != NOT_HELPFUL]
    if others == [NO_VICTIMS_IN_SHORT]:
        return shorts, NO_VICTIMS_IN_SHORT
    form = _form(reasons, others, why.reasons.get(NOT_HELPFUL, 0))
    if form:
        return [
            form.format(short) if reason.of_pods else short for short, (reason, _) in zip(shorts, reasons, strict=True)
        ], ""
    if len(shorts) == 1 and others == shorts:
        return [f"{shorts[0]} even after preempting all Pods of lower priority"], ""
    if not why.reasons:
        others = [f"no node fits the Pod {_WITHOUT_OTHERS}"]
    elif not others and any(reason.resource for reason, _ in reasons):
        others = [TOO_SMALL.removesuffix(": ")]
    named = " or ".join(others)
    return shorts, f"preemption does not help{named and ': '}{named}"


def _form(reasons: Sequence[tuple[Reason, int]], others: Sequence[str], unhelped: int) -> str:
    """Return a format for the reasons about running Pods which says why preemption does not help on any node; "" if
    the numbers of nodes do not say that it holds for all.

    `others`: the reasons after preemption. `unhelped`: number of nodes on which preemption was not tried.
    """
    about_pods = [reason for reason, _ in reasons if reason.of_pods]
    certain = sum(nodes for reason, nodes in reasons if not reason.of_pods)
    if others or not (unhelped or not certain):
        return ""
    if not about_pods:
        return "{}"
    return f"{TOO_SMALL}{{}}" if unhelped and len(about_pods) == 1 and about_pods[0].resource else ""


def not_found(resource: str, name: str, context: str = "") -> Reason:
    """Return the reason of a Pod whose volumes refer to a missing object. Source: apimachinery `NewNotFound`."""
    kind = _KINDS.get(resource, resource)
    return Reason(f'{context}{resource} "{name}" not found', f'{kind} "{name}" not found', CREATE_IT, of_volumes=True)
