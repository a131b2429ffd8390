"""The result of `headroom --survive`, and the answer in the common answer format: the nodes to add, and each loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents import Hidden, inlined_in_json
from forewarn.policies.base.documents.answer import (
    NO_CLASS,
    AnswerDocument,
    AnswerStatus,
    Cause,
    Counter,
    Fix,
    Rows,
    Table,
    label,
    why_of,
)
from forewarn.policies.base.findings import grouped, listed, plural
from forewarn.policies.kubernetes.cluster.cache import Result
from forewarn.policies.questions.application.whatif_answer import cause_of
from forewarn.policies.questions.whatif.effects import Kind, reasons_of_loss

if TYPE_CHECKING:
    from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import Price
    from forewarn.policies.questions.whatif.answer import Answer


class AddedNodes(NamedTuple):
    """Nodes to add: like those of a pool or node group, in a zone. `price`: per month; absent without prices.

    `classes`: protected Pods that are Pending without such nodes in the worst loss, and preempted ones of workloads
    without Pending Pods, by PriorityClass; the same for such nodes in all zones, which help these Pods together.
    """

    like: str
    zone: str
    nodes: int
    price: Price | None = None
    classes: Mapping[str, int] = {}


class LossHarm(NamedTuple):
    """A loss: the protected Pods that are preempted, and Pending at the end, and the replicas that are lost, now and
    with the added nodes.
    """

    loss: str
    preempted: int
    pending: int
    lost: int
    preempted_then: int
    pending_then: int
    lost_then: int

    @property
    def gain(self) -> int:
        """How many fewer Pods are harmed with the nodes."""
        return sum(self[1:4]) - sum(self[4:])

    @property
    def effect(self) -> str:
        """The harm that the nodes change: `zone a lost: Pending 3 → 0`."""
        changes = (f"{label(name)} {now:,} → {then:,}" for name, now, then in self.changes if now != then)
        return f"{self.loss} lost: {', '.join(changes)}"

    @property
    def changes(self) -> Sequence[tuple[str, int, int]]:
        """The counters, now and with the nodes."""
        return [*zip(_COUNTERS, self[1:4], self[4:], strict=True)]


_COUNTERS: Final = ("preempted", "pending", "lost")
_FEW: Final = 4
"""Maximum number of losses whose table comes before that of the nodes."""


class Trial(NamedTuple):
    """A simulated choice of nodes, each counter with the worst of the losses that were simulated.

    `helped`: by loss, the protected Pods, Pending or preempted, that more nodes would help.
    """

    nodes: str
    preempted: int
    pending: int
    lost: int
    helped: Mapping[str, int] = {}


@dataclass(frozen=True, repr=False)
class Survival(Result):
    """The output of `forewarn headroom --survive`.

    `scope`: what is lost. `selector`: selects the nodes of a pool. `protect`: the classes of protected Pods; empty for
    all above 0. `add`: the nodes to add. `survives`: whether, with them, no loss harms a protected Pod.
    `losses`: the worst first. `trials`: the simulated choices. `price`: per month; absent without prices. `notes`: what
    the search leaves out.
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
    why: Hidden[Sequence[Cause]] = field(default=(), kw_only=True)
    """Why protected replicas stay lost in the first loss, although nodes are added."""
    unknown: Hidden[str] = field(default="", kw_only=True)
    """Why there is no answer."""
    quotas: Hidden[Sequence[Fix]] = field(default=(), kw_only=True)
    """Quotas to raise, with the nodes that are enough then, and what both change."""
    cheaper: Hidden[Sequence[Fix]] = field(default=(), kw_only=True)
    """The best of the simulated choices with fewer nodes or a lower price."""
    is_found: Hidden[bool] = field(default=True, kw_only=True)
    """Whether no new node helps beyond `add`; otherwise the search ends without an answer."""
    is_least: Hidden[bool] = field(default=False, kw_only=True)
    """Whether all choices with fewer nodes, or a lower price, were tried."""
    runs: Hidden[tuple[int, int]] = field(default=(0, 0), kw_only=True)
    """The number of random runs of the losses, and of those in which no more nodes are needed; 0 in large clusters."""

    @property
    def nodes(self) -> int:
        """The number of nodes to add."""
        return sum(each.nodes for each in self.add)

    @inlined_in_json
    def document(self) -> AnswerDocument:
        what = f"pool {self.selector}" if self.selector else f"any one {self.scope}"
        pods = f"class {listed([*self.protect], 2)}" if self.protect else "all classes above 0"
        number, loss = sum(cause.number for cause in self.why), self.losses[0].loss if self.losses else ""
        one, many = ("STAYS LOST", "STAY LOST") if self.is_found else ("IS LOST TODAY", "ARE LOST TODAY")
        why = f"REPLICA {one} WITH {loss.upper()}", f"REPLICAS {many} WITH {loss.upper()}"
        of_jobs = any(cause.kind == Kind.BACKOFF_LIMIT for cause in self.why)
        return AnswerDocument(
            status=self._status,
            question=f"survive the loss of {what} ({pods})",
            clause=self._clause,
            shown=[*self._counters()],
            warnings=[*self._chance_sentences(), *self.notes],
            why=why_of("lost", number, *why, self.why),
            tables=[*self._tables()],
            fix=[*self._fixes()],
            more=(
                *([f"forewarn whatif lose {loss}: a podFailurePolicy for the Jobs"] if of_jobs else []),
                *("-v trials", "--protect CLASS", "--like NODE, pool or node group"),
            ),
        )

    @property
    def _status(self) -> AnswerStatus:
        if self.unknown:
            return AnswerStatus.NO_ANSWER
        if not self.survives:
            return AnswerStatus.HARM
        return AnswerStatus.WARN if self.add else AnswerStatus.OK

    @property
    def _clause(self) -> str:
        if self.unknown:
            return self.unknown
        first = "without a raised quota, " if self.quotas else ""
        if not self.is_found:
            return f"{first}no number of nodes that was tried suffices"
        none = "no more nodes needed" if self.survives else "no new node helps"
        needed = f"{first}{self._needed if self.add else none}"
        if self.survives:
            return needed
        return f"{needed}; {plural(self._worst('lost')[1], 'replica stays', 'replicas stay')} lost all the same"

    @property
    def _needed(self) -> str:
        """The nodes to add, what they cost, and for which classes they are."""
        cost = f", {self.price} per month" if self.price else ""
        verb = "needed" if self.is_least else "is enough" if self.nodes == 1 else "are enough"
        about = "" if is_verified(self.runs, is_least=self.is_least) else "about "
        helped = f"{',' if cost else ''} for class {listed(self._helped, 2)}" if self._helped else ""
        return f"{about}{plural(self.nodes, 'more node')} {verb}{cost}{helped}"

    @property
    def _helped(self) -> list[str]:
        """The classes of the protected Pods that the nodes to add help."""
        return [*dict.fromkeys(name or NO_CLASS for each in self.add for name in each.classes)]

    def _worst(self, name: str) -> tuple[int, int]:
        """A counter now and with the nodes, of the loss in which it is the worst with the nodes."""
        pairs = ((now, then) for each in self.losses for counter, now, then in each.changes if counter == name)
        return max(pairs, key=lambda pair: pair[::-1], default=(0, 0))

    def _chance_sentences(self) -> Iterator[str]:
        total, held = self.runs
        if held < total:
            often = f"in {total - held} of {total} random runs of the losses"
            yield f"chance decides: {often}, more nodes would help; how many was not found"

    def _counters(self) -> Iterator[Counter]:
        for name in _COUNTERS if self.losses else ():
            now, later = self._worst(name)
            yield Counter(name, now, after=later if self.is_found else None, more=" protected")
        tried = "all cheaper choices were tried" if self.is_least else "others may need fewer"
        if self.is_found:
            yield Counter("nodes to add", self.nodes, more=f" ({tried})" if self.add else "")
        new = f", {self.nodes} of them new" if self.scope == "node" and self.nodes else ""
        alone, total = f"each {self.scope} alone{new}; the worst counts; one run of each", self.runs[0]
        other = ", `whatif lose` has the most frequent" if total else ""
        yield Counter("losses", len(self.losses), more=f" ({alone}{other})")
        yield Counter("verified in", self.runs[1], of=total, more=" random runs", optional=True)

    def _tables(self) -> Iterator[Table]:
        of_losses, of_nodes = self._losses_table(), self._nodes_table()
        # The fixes name the nodes too, but only the table of losses has the loss of each counter.
        yield from (of_losses, of_nodes) if len(of_losses.rows) <= _FEW else (of_nodes, of_losses)
        if len(self.trials) > 1:
            rows: Rows = [
                [*each[:4], listed([f"{name} {count:,}" for name, count in each.helped.items()], 3)]
                for each in self.trials
            ]
            heads = "NODES TRIED", "PREEMPTED IN THE WORST LOSS", "PENDING", "REPLICAS LOST", "MORE NODES WOULD HELP"
            yield Table(heads, rows, detail=1, zeros=True)

    def _losses_table(self) -> Table:
        rows: Rows = [
            [each.loss, *(f"{now:,} → {then:,}" if now != then else now for _, now, then in each.changes)]
            for each in self.losses
            if any(each[1:])
        ]
        return Table(("LOSS, PROTECTED PODS", "PREEMPTED", "PENDING", "REPLICAS LOST"), rows, zeros=True)

    def _nodes_table(self) -> Table:
        rows: Rows = []
        for like, own in grouped((each.like, each) for each in self.add).items():
            zones = ", ".join(f"{each.zone} {each.nodes}" for each in own if each.zone)
            pods = listed([f"{name or NO_CLASS} {count}" for name, count in own[0].classes.items()], 3)
            price = own[0].price and own[0].price._replace(cents=sum(each.price.cents for each in own if each.price))
            rows.append([like, sum(each.nodes for each in own), zones, str(price or ""), pods])
        columns = "ADD NODES LIKE", "NODES", "ZONES", "PER MONTH", "FOR PROTECTED PODS OF CLASS, ALL ZONES"
        return Table(columns, rows, ("total", self.nodes, "", str(self.price or ""), ""))

    def _fixes(self) -> Iterator[Fix]:
        yield from self.quotas
        worst = next((each for each in self.losses if each.gain > 0), None)
        if self.add and worst is not None:
            yield Fix(f"add {nodes_text(each[:3] for each in self.add)}", worst.effect)
        yield from self.cheaper


def is_verified(runs: tuple[int, int], *, is_least: bool) -> bool:
    """Report whether all random runs, or without any all cheaper choices, verify a number of nodes."""
    total, held = runs
    return held == total and (total > 0 or is_least)


def nodes_text(nodes: Iterable[tuple[str, str, int]]) -> str:
    """Return nodes to add as text, such as `2 general a, 1 general b`. `nodes`: like what, in which zone, how many."""
    return ", ".join(" ".join(filter(None, (f"{count}", like, zone))) for like, zone, count in nodes) or "none"


def why_lost(answer: Answer) -> Iterator[Cause]:
    """Yield the reasons why replicas are lost."""
    for reason, share in reasons_of_loss(answer).items():
        cause = cause_of(reason, share)
        if cause.kind == Kind.BACKOFF_LIMIT:
            such = f", such as {next(iter(share.workloads))}" if len(share.workloads) > 1 else ""
            cause = cause._replace(reason=f"{cause.reason}{such}; a podFailurePolicy may prevent it")
        yield cause
