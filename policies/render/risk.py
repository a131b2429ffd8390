"""What workloads risk, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import listed, plural
from policies.render.markdown import cell_of, text_of
from policies.render.simulation import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policies.risk import Loss, Pusher, Risk, Risks

MOST_WORKLOADS: Final = 40
_MOST_LOSSES: Final = 5
_GIB: Final = 2**30


def _plain(text: str, style: str) -> str:  # noqa: ARG001  (the signature of a painter)
    return text


def render(found: Risks, paint: Callable[[str, str], str] = _plain) -> Iterator[str]:
    """Workload after workload, those that lose most first."""
    for risk in found.risks[:MOST_WORKLOADS]:
        named = f"class {risk.priority_class}, " if risk.priority_class else ""
        title = f"{risk.workload} ({named}priority {risk.priority})"
        yield f"{paint(title, 'bold')}: {plural(risk.pods, 'pod')} on {plural(risk.nodes, 'node')}"
        yield from (f"  {line}" for line in _of_workload(risk, found, paint))
    left = len(found.risks) - MOST_WORKLOADS
    if left > 0:
        yield f"and {plural(left, 'workload')} more: -o json has them all"
    yield from (paint(note, "warning") for note in notes(found))


def _cut_off(found: Risks) -> Iterator[str]:
    """Which losses were not tried to their ends, by why."""
    by_why: dict[str, list[str]] = {}
    for each in found.unended:
        why = f"given up {each.stopped}" if each.stopped else f"not settled after {duration(each.at)}"
        by_why.setdefault(why, []).append(each.what)
    for why, losses in by_why.items():
        longer = "" if why.startswith("given up") else "; longer with --until"
        yield f"{plural(len(losses), 'loss', 'losses')} {why} ({listed(losses, _MOST_LOSSES)}): told as of then{longer}"


def _of_workload(risk: Risk, found: Risks, paint: Callable[[str, str], str]) -> Iterator[str]:
    pushers = pushed_out_by(risk)
    if pushers:
        yield f"may be pushed out by {pushers}"
    elif risk.above:
        yield "what ranks above it finds room elsewhere"
    else:
        yield "no class ranks above it"
    if risk.losses:
        told = [f"{loss.what} ({loss.replicas})" for loss in risk.losses]
        yield paint(f"loses replicas for good with {listed(told, _MOST_LOSSES)}{_refused(risk.losses)}", "warning")
    elif any(found.tried):
        tried = f"{plural(found.tried[0], 'zone')} and {plural(found.tried[1], 'node')}"
        cut_off = f", as far as {_tries(found)} went" if found.unended else ""
        yield paint(f"survives the loss of each single one of {tried}{cut_off}", "good")
    if risk.first_on:
        yield f"goes first under node pressure on {plural(risk.first_on, 'node')}, where use does not decide"


def pushed_out_by(risk: Risk) -> str:
    """Who may push it out, and by how large a pod; empty: nobody."""
    pushers = [pusher for pusher in risk.pushers if _size(pusher)]
    if not pushers:
        return ""
    others = [pusher.priority_class for pusher in pushers[1:]]
    more = f" (and {listed(others)})" if others else ""
    who = f"class {pushers[0].priority_class} ({pushers[0].priority}){more}"
    return f"{who}: by a pod that asks for {_size(pushers[0])}"


HEADS: Final = (
    "workload",
    "class",
    "priority",
    "pods",
    "loses replicas with",
    "may be pushed out by",
    "first on nodes",
)


def cells(risk: Risk) -> list[str | int]:
    """A workload by these columns."""
    losses = listed([f"{loss.what} ({loss.replicas})" for loss in risk.losses], _MOST_LOSSES) + _refused(risk.losses)
    pushers = pushed_out_by(risk) or "-"
    return [risk.workload, risk.priority_class or "-", risk.priority, risk.pods, losses or "-", pushers, risk.first_on]


def notes(found: Risks) -> Iterator[str]:
    """What was not tried, or not to its end."""
    for what, tried, there in zip(("zone", "node"), found.tried, found.there, strict=True):
        if tried < there:
            yield f"of {plural(there, what)} the loss of {tried} was simulated: --most N"
    yield from _cut_off(found)
    yield from (f"not predicted: what replaces the lost Pods of {problem}" for problem in found.unread[:MOST_WORKLOADS])
    yield from found.assumes
    yield from found.not_modelled[:_MOST_LOSSES]


def markdown(found: Risks) -> str:
    """A comment: a table, those that lose most first."""
    lines = ["### What each workload risks", "", f"| {' | '.join(HEADS)} |", "|" + "---|" * len(HEADS)]
    rows = (map(cell_of, cells(risk)) for risk in found.risks[:MOST_WORKLOADS])
    lines += (f"| {' | '.join(row)} |" for row in rows)
    left = len(found.risks) - MOST_WORKLOADS
    lines += ["", f"and {plural(left, 'more workload')}"] if left > 0 else []
    told = [f"- {text_of(note)}" for note in notes(found)]
    return "\n".join([*lines, *(["", *told] if told else [])]) + "\n"


def _refused(losses: Sequence[Loss]) -> str:
    """`; a ResourceQuota refuses the replacements`, of some losses which."""
    refused = [loss for loss in losses if loss.refused]
    if not refused:
        return ""
    if all(loss.refused == loss.replicas for loss in losses):
        return "; a ResourceQuota refuses the replacements"
    with_which = listed([f"{loss.what} ({loss.refused})" for loss in refused], _MOST_LOSSES)
    return f"; a ResourceQuota refuses replacements with {with_which}"


def _tries(found: Risks) -> str:
    """Those that were cut off."""
    count = len(found.unended)
    return "one that was not tried to its end" if count == 1 else f"{count} that were not tried to their ends"


def _size(pusher: Pusher) -> str:
    """How large the pods are that may push it out; empty: there are none."""
    parts = []
    if pusher.room[0] > pusher.free[0]:
        parts.append(f"more than {pusher.free[0] / 1000:g} and up to {pusher.room[0] / 1000:g} cpu")
    if pusher.room[1] > pusher.free[1]:
        parts.append(f"more than {pusher.free[1] / _GIB:.3g}Gi and up to {pusher.room[1] / _GIB:.3g}Gi of memory")
    return ", or ".join(parts)
