"""The result of `headroom --survive`, and the answer in the form of all answers: the nodes to add, and each loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.base.documents import Hidden, inlined_in_json
from forewarn.policies.base.documents.answer import AnswerDocument, AnswerStatus, Counter, Fix, Rows, Table
from forewarn.policies.base.findings import grouped, listed, plural
from forewarn.policies.kubernetes.cluster.cache import Result

if TYPE_CHECKING:
    from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import Price


class AddedNodes(NamedTuple):
    """Nodes to add: like those of a pool or node group, in a zone. `price`: per month; absent without prices."""

    like: str
    zone: str
    nodes: int
    price: Price | None = None


class LossHarm(NamedTuple):
    """A loss: the protected Pods that are preempted, and Pending at the end, now and with the added nodes."""

    loss: str
    preempted: int
    pending: int
    preempted_then: int
    pending_then: int

    @property
    def gain(self) -> int:
        """How many fewer Pods are harmed with the nodes."""
        return self.preempted + self.pending - self.preempted_then - self.pending_then


class Trial(NamedTuple):
    """A simulated choice of nodes, with the harm of its worst loss."""

    nodes: str
    preempted: int
    pending: int


@dataclass(frozen=True, repr=False)
class Survival(Result):
    """The output of `forewarn headroom --survive`.

    `scope`: what is lost. `selector`: of a pool. `protect`: the classes of protected Pods; empty for all above 0.
    `add`: the nodes to add. `survives`: whether no loss harms protected Pods with these. `losses`: the worst first.
    `trials`: the simulated choices. `price`: per month; absent without prices. `notes`: what the search leaves out.
    """

    scope: str
    selector: str
    protect: Sequence[str]
    add: Sequence[AddedNodes]
    survives: bool
    losses: Sequence[LossHarm]
    trials: Sequence[Trial]
    price: Price | None
    notes: Sequence[str]
    unknown: Hidden[str] = field(default="", kw_only=True)
    """Why there is no answer."""
    loses: Hidden[bool] = field(default=False, kw_only=True)
    """Whether protected replicas are lost that no node brings back, as those of failed Jobs."""
    is_found: Hidden[bool] = field(default=True, kw_only=True)
    """Whether no new node helps beyond `add`; otherwise the search ends without an answer."""

    @property
    def nodes(self) -> int:
        """The number of nodes to add."""
        return sum(each.nodes for each in self.add)

    @inlined_in_json
    def document(self) -> AnswerDocument:
        what = f"pool {self.selector}" if self.selector else f"any one {self.scope}"
        pods = f"class {listed([*self.protect], 2)}" if self.protect else "all classes above 0"
        return AnswerDocument(
            status=self._status,
            question=f"survive the loss of {what} ({pods})",
            clause=self._clause,
            shown=[*self._counters()],
            warnings=self.notes,
            tables=[*self._tables()],
            fix=[*self._fixes()],
            more=("-v trials", "--protect CLASS", "--like NODE, pool or node group"),
        )

    @property
    def _status(self) -> AnswerStatus:
        if self.unknown:
            return AnswerStatus.NO_ANSWER
        if not self.survives:
            return AnswerStatus.HARM
        return AnswerStatus.WARN if self.add or self.loses else AnswerStatus.OK

    @property
    def _clause(self) -> str:
        if self.unknown:
            return self.unknown
        if not self.is_found:
            return "no number of nodes that was tried suffices"
        cost = f", {self.price} per month" if self.price else ""
        none = "no more nodes needed" if self.survives else "no new node helps"
        needed = f"{plural(self.nodes, 'more node')} needed{cost}" if self.add else none
        if self.survives:
            return needed
        then = "then " if self.add else ""
        return f"{needed}; {then}{plural(self._pending_then, 'Pod stays', 'Pods stay')} Pending in the worst loss"

    @property
    def _pending_then(self) -> int:
        return max((each.pending_then for each in self.losses), default=0)

    def _counters(self) -> Iterator[Counter]:
        then = self.survives or self.add
        for name in ("preempted", "pending") if self.losses else ():
            now, later = (
                max((getattr(each, key) for each in self.losses), default=0) for key in (name, f"{name}_then")
            )
            yield Counter(name, now, after=later if then else None, more=" in the worst loss")
        yield Counter("nodes to add", self.nodes)
        new = f", {self.nodes} of them new" if self.scope == "node" and self.nodes else ""
        yield Counter("losses", len(self.losses), more=f" (each {self.scope} alone{new})")

    def _tables(self) -> Iterator[Table]:
        if self.add:
            rows: Rows = [
                [each.like, each.zone, each.nodes, str(each.price) if each.price else ""] for each in self.add
            ]
            yield Table(("ADD NODES LIKE", "ZONE", "NODES", "PER MONTH"), rows)
        harmful = [each for each in self.losses if any(each[1:])]
        heads = ("LOSS, PROTECTED PODS", "PREEMPTED NOW", "PENDING NOW", "PREEMPTED WITH THEM", "PENDING WITH THEM")
        yield Table(heads, harmful, zeros=True)
        if len(self.trials) > 1:
            yield Table(("NODES TRIED", "PREEMPTED IN THE WORST LOSS", "PENDING"), self.trials, detail=1, zeros=True)

    def _fixes(self) -> Iterator[Fix]:
        helped = [each for each in self.losses if each[1:3] != each[3:5]]
        if self.add and helped:
            worst = max(helped, key=lambda each: each.gain)
            changes = (
                ("Pending", worst.pending, worst.pending_then),
                ("preempted", worst.preempted, worst.preempted_then),
            )
            effect = ", ".join(f"{name} {now:,} → {then:,}" for name, now, then in changes if now != then)
            many = grouped((each.like if self.add[3:] else " ".join(filter(None, each[:2])), each) for each in self.add)
            nodes = listed([f"{sum(each.nodes for each in alike)} like {like}" for like, alike in many.items()], 4)
            yield Fix(f"add {nodes}", f"{worst.loss} lost: {effect}")
