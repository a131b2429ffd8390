"""The result of a forecast: the outcome of the new Pods of one object, and the running Pods that they preempt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final, Literal

from forewarn.policies.base.disclosure import OPEN, Audience, count_range, shown_pods
from forewarn.policies.base.documents import Always, Sparse, to_dict
from forewarn.policies.base.findings import grouped
from forewarn.policies.base.light import NamedTuple
from forewarn.policies.base.metering import CutShort, Excess, TooLarge

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.pod_loss import PodLoss
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
    from forewarn.policies.prediction.forecast.pod_groups import GroupForecast, GroupImpact


MAX_SHOWN: Final = 10
"""Maximum number of preemptions, and names in each, in JSON: the annotations of an object may have 256 KiB."""
_ORDERED: Final = 200
MAX_NAMED: Final = 3
"""Maximum number of names of victims in a message."""
BY_NODES: Final = "the random order in which the DaemonSet controller visits nodes"
BY_RETRIES: Final = "which controller first uses the quota that victims free"
BY_PDBS: Final = "whether kube-scheduler sees in time that a PDB allows no more disruptions"
BY_QUEUE: Final = "which of the Pods of equal priority kube-scheduler tries first"
BY_CHOICE: Final = "which of several nodes and victims kube-scheduler selects"
BY_TIMING: Final = "how many {} the new Pods preempt, if any, depends on whether old Pods terminate first"
"""A note about preemptions during a rollout, if the old Pods terminate less than CLOSE seconds later."""
ESTIMATE: Final = "chance decides between many nodes: the numbers are estimates, also of victims"
WITHOUT_CLAIMS: Final = "volumes of claims that are created with the Pods are ignored"


def preempting_in_vain(predictions: Iterable[Prediction]) -> set[str]:
    """Return the uids of the Pods that preempt and stay Pending; each has two predictions."""
    uids: dict[str, set[str]] = {"preempts": set(), "pending": set()}
    for prediction in predictions:
        uids.get(prediction.outcome, set()).add(prediction.pod.uid)
    return uids["preempts"] & uids["pending"] - {""}


class Cascade(NamedTuple):
    """What follows after the preemptions by new Pods. A missing number is 0. `incomplete`: whether the cascade is not
    predicted, because time or work was used up, or because forewarn does not simulate part of it.

    `replaced`: number of victims that a controller recreates. `not_replaced`: number of other victims; neither includes
    placeholder Pods. `controller_unknown`: number of victims whose controller is unknown or not in the cluster state.
    `preempted`: number of Pods that replacements preempt. `pending`: replacements that stay Pending.
    `rejected_by_quota`: replacements that a quota still rejects at the end, included in `replaced`.
    `pending_not_evaluated`: number of Pending Pods that were not evaluated.
    `notPredicted`: the component that decides what follows, "" for none.
    """

    replaced: Sparse[int] = 0
    not_replaced: Sparse[int] = 0
    preempted: Sparse[int] = 0
    cascade_depth: Sparse[int] = 0
    pending: Sparse[int] = 0
    incomplete: Sparse[bool] = False
    rejected_by_quota: Sparse[int] = 0
    pending_not_evaluated: Sparse[int] = 0
    controller_unknown: Sparse[int] = 0
    not_predicted: str = ""

    @property
    def coarse(self) -> Cascade:
        """The cascade with each count as the lower end of a range; without the depth and `pending_not_evaluated`."""
        lowest = Cascade._make([*(count_range(number).lowest or 0 for number in self[:-1]), ""])
        return lowest._replace(incomplete=self.incomplete, cascade_depth=0, pending_not_evaluated=0)


NOT_PREDICTED: Final = Cascade(incomplete=True)


class PreemptionBy(NamedTuple):
    """The preemption by one new Pod. `node`: the node of all victims. `nodes`: the nodes of the victims if the Pod
    preempts several times. `or_any_of`: all equally suitable nodes. `stays_pending`: whether the Pod stays Pending
    nevertheless, and counts in `pending`. `by_chance`: whether other victims are possible.
    """

    victims: Always[Sequence[str]] = ()
    more_victims: Sparse[int] = 0
    node: str = ""
    nodes: Sequence[str] = ()
    stays_pending: Sparse[bool] = False
    or_any_of: Sequence[str] = ()
    more_nodes: Sparse[int] = 0
    by_chance: Sparse[bool] = False
    unnamed_victims: int | None = None
    unnamed_priorities: Sequence[int | None] = ()
    pdb_violations: int = 0


class Victims(NamedTuple):
    """The victims of all preemptions, with the longest grace period. `losses`: the workloads that fail or are
    interrupted.
    """

    count_: int
    lowest_priority: int
    highest_priority: int
    placeholders: Sparse[int] = 0
    pdb_violations: Sparse[int] = 0
    losses: Sequence[PodLoss] = ()
    grace_seconds: int | None = None


class NodeReason(NamedTuple):
    """A reason of kube-scheduler, and the number of nodes to which it applies; 0 if it is not about single nodes."""

    reason: str
    nodes: int


class NewNodes(NamedTuple):
    """The nodes that autoscalers add for Pending Pods, ready after `seconds`. `pods`: the number of Pods that then fit.

    `notPredicted`: what forewarn does not model, or "".
    """

    nodes: int
    pods: int
    seconds: float
    not_predicted: str = ""


class ImpactDocument(NamedTuple):
    """The effect of an object's new Pods: the annotation forewarn.dev/preemption-impact, and the details of findings.

    `coarse`: numbers are the lower ends of ranges. `by_chance`: the numbers depend on the order in which the DaemonSet
    controller visits nodes, controllers use freed quota, or kube-scheduler tries Pods of equal priority; they are those
    of a case with many preemptions. Or they depend on which of equal nodes kube-scheduler selects; they are those of
    the first by name.
    `predicted`: number of evaluated new Pods. `not_predicted`: the reason why kube-scheduler's decision is not
    modelled, or not shown. Only details of findings have `victims`, `reasons`, `newNodes`, `expectation` and `basis`.
    """

    coarse: Sparse[bool] = False
    priority: int | None = None
    new_pods: int | None = None
    predicted: int | None = None
    pod_group: GroupImpact | None = None
    preemptions: Sequence[PreemptionBy] = ()
    more_preemptions: Sparse[int] = 0
    by_old_template: Sequence[PreemptionBy] = ()
    more_by_old_template: Sparse[int] = 0
    by_pending_pods: Sequence[PreemptionBy] = ()
    more_by_pending_pods: Sparse[int] = 0
    cascade: Cascade | None = None
    by_timing: Sparse[bool] = False
    by_chance: Sparse[bool] = False
    pending: Sparse[int] = 0
    rollout_blocked: Sparse[bool] = False
    incomplete: Sparse[bool] = False
    rejected_by_quota: Sparse[int] = 0
    not_predicted: str = ""
    assumes: Sequence[str] = ()
    stale_cache: Sparse[bool] = False
    basis: Literal["rollout"] | None = None
    victims: Victims | None = None
    reasons: Sequence[NodeReason] = ()
    new_nodes: NewNodes | None = None
    expectation: str | None = None


class Impact(NamedTuple):
    """The impact of one object's new Pods.

    - `predictions`: those of Pods that do more than fit, in order; two for a Pod that preempts and stays Pending.
      `by_old_template`: those of Pods that the rollout creates and deletes again, which do not count as new Pods.
      `fitting`: number of other Pods that fit. `evicted`, `num_pdb_violations`: all Pods that are preempted in a
      simulation, replacement Pods and their victims included, and the number of those beyond what their PDBs allow.
    - `new`: number of new Pods. `own`: identities of the workload's current Pods. `priority`: None if unknown.
    - `rejected`: number of new Pods that are never created, because a quota rejects them or a Pod before them.
      `rejection`: upstream's message about such a Pod at the end of a simulation; "" without a simulation. `delay`: the
      quota that rejects Pods in a simulation only at first, such as `quota shop/q`; otherwise "". `after_rejected`:
      those of them that the controller does not try to create until a rejected Pod runs.
    - `rest`: the outcome of the remaining Pods: "pending", like the last predicted Pod; "unknown", if time or work was
      used up; "later", if the controller creates them after the Pods before them run; "not-predicted", if forewarn does
      not model kube-scheduler's decision (`why_not`: the reason); "group", see `group`.
    - `by_chance`: the cause if chance decides how many new Pods preempt or stay Pending (`BY_NODES`, `BY_RETRIES`,
      `BY_PDBS`, `BY_QUEUE`); the impact is then one with many preemptions. With `BY_CHOICE`, see `least`.
    - `keeps_old`: a rollout creates the Pods while old ones exist. `deleted_first`: number of old Pods that are deleted
      before the outcome of the first new Pod is known.
    - `cascade`: None without victims, or if not requested.
    - `let_in`: identities of Pending Pods that use the capacity of old Pods before the new Pods do; preempting these
      affects no running Pod. `by_waiting`: predictions of other Pending Pods that preempt with that capacity.
    - `excess`: the exceeded limit; None if time was used up. `first_only`: the rollout is too large for a simulation,
      so only its first Pods are predicted. `is_simulated`: the predictions are those at the end of a simulation.
    - `group`: the forecast for the PodGroup of the new Pods; `rest` is then "group" unless all of them fit.
    """

    predictions: tuple[Prediction, ...]
    new: int
    priority: int | None
    own: frozenset[str] = frozenset()
    rest: str = ""
    by_old_template: tuple[Prediction, ...] = ()
    fitting: int = 0
    evicted: tuple[Pod, ...] = ()
    num_pdb_violations: int = 0
    rejected: int = 0
    rejection: str = ""
    delay: str = ""
    after_rejected: int = 0
    by_chance: str = ""
    keeps_old: bool = False
    deleted_first: int = 0
    cascade: Cascade | None = None
    let_in: frozenset[str] = frozenset()
    by_waiting: tuple[Prediction, ...] = ()
    excess: Excess | None = None
    first_only: bool = False
    is_simulated: bool = False
    is_close: bool = False
    """Whether a Pod preempts shortly before old Pods of the workload have terminated (`Rehearsal.is_close`)."""
    why_not: str = ""
    replaces_none: bool = False
    """For an update without new Pods: whether it replaces no existing Pod (`PodChange.replaces_none`)."""
    group: GroupForecast | None = None
    assumes: tuple[str, ...] = ()
    """Sentences about lists that the cluster state lacks. The result holds only if these lists are empty."""

    @property
    def preempted(self) -> int:
        """Number of Pods that are preempted in a simulation."""
        return len(self.evicted)

    @property
    def is_incomplete(self) -> bool:
        return self.rest == "unknown" or self.first_only

    @property
    def is_cut_short(self) -> bool:
        """Whether more time or work would give a more complete result."""
        cascade = self.cascade
        return self.is_incomplete or (cascade is not None and cascade.incomplete and not cascade.not_predicted)

    @property
    def pdb_violations_in_cascade(self) -> int:
        """The number of Pods that neither `predictions` nor `by_old_template` preempt in a simulation, beyond what PDBs
        allow.
        """
        predictions = (*self.predictions, *self.by_old_template)
        return max(self.num_pdb_violations - sum(each.num_pdb_violations for each in predictions), 0)

    @property
    def depends_on_timing(self) -> bool:
        """Whether new Pods preempt only if they are scheduled before old Pods terminate: Pods of the workload that the
        rollout deletes, or any Pods if old Pods terminate at about that time.
        """
        return self.is_close or (self.keeps_old and self.deleted_first > 0 and self.preempts_own)

    @property
    def least(self) -> Least | None:
        """The smallest certain preemption of running Pods by new Pods; None if all preemptions are certain."""
        return least(self.predictions, self.own | self.let_in)

    @property
    def is_estimate(self) -> bool:
        """Whether there are too many choices to determine what is certain."""
        return self.least is not None and self.least.is_estimate

    @property
    def preempts_own(self) -> bool:
        return any(victim.identity in self.own for prediction in self.preempting for victim in prediction.victims)

    @property
    def brings(self) -> int:
        """The number of Pods of the workload after the change; 0 if the change replaces old Pods."""
        return 0 if self.keeps_old or self.deleted_first else len(self.own) + self.new - self.rejected

    @property
    def in_vain(self) -> set[str]:
        """The uids of the new Pods that preempt and stay Pending, with two predictions each."""
        return preempting_in_vain(self.predictions)

    @property
    def predicted(self) -> int:
        """The number of evaluated new Pods."""
        return len(self.predictions) - len(self.in_vain) + self.fitting

    @property
    def outcomes(self) -> Counter[str]:
        """The number of new Pods by outcome: `Prediction.outcome`, "in-vain", or one of `other_outcomes`. Their sum is
        `new`.
        """
        in_vain = self.in_vain
        counts = Counter[str](p.outcome for p in self.predictions if p.pod.uid not in in_vain)
        return counts + Counter({"in-vain": len(in_vain)}) + self.other_outcomes

    @property
    def other_outcomes(self) -> Counter[str]:
        """The number of new Pods without a prediction by outcome: "fits", "rejected" by a quota, "later", or `rest`."""
        counts = Counter(fits=self.fitting, later=self.after_rejected, rejected=self.rejected - self.after_rejected)
        if self.rest:
            counts[self.rest] += self.new - self.predicted - self.rejected
        return counts

    @property
    def preempting(self) -> tuple[Prediction, ...]:
        """The predictions in which Pods of the workload preempt running Pods, those of the old template first."""
        predictions = (p for p in (*self.by_old_template, *self.predictions) if p.outcome == "preempts")
        if not self.let_in:
            return tuple(predictions)
        return tuple(p for p in predictions if any(victim.identity not in self.let_in for victim in p.victims))

    @property
    def is_blocked_rollout(self) -> bool:
        """Whether new Pods that stay Pending, or that a quota rejects, keep the rollout from replacing all old Pods."""
        replaces_old = self.own and (self.keeps_old or self.deleted_first) and not self.replaces_none
        is_decided = self.is_simulated or not (self.keeps_old and self.deleted_first)
        return bool(replaces_old and is_decided and (self.pending or self.rejected))

    @property
    def pending(self) -> int:
        """Number of new Pods that stay Pending even with preemption."""
        stuck = sum(p.outcome == "pending" for p in self.predictions)
        return stuck + (self.new - self.predicted - self.rejected if self.rest == "pending" else 0)

    def to_dict(self, audience: Audience = OPEN) -> dict[str, Any]:
        """Return the value of the annotation forewarn.dev/preemption-impact."""
        return to_dict(self.document(audience))

    def document(self, audience: Audience = OPEN) -> ImpactDocument:
        """Return the impact with the details that the readers may see.

        An audience that sees only ranges gets their lower ends, and one entry for all preemptions.
        """
        if audience.shown.not_predicted:
            return ImpactDocument(not_predicted=audience.shown.not_predicted)
        by_waiting, cascade = self.by_waiting, self.cascade
        if cascade is not None and not audience.sees_all:
            cascade = cascade._replace(not_predicted="")  # names an object of any namespace
        preempting = [p for p in self.preempting if p not in self.by_old_template]
        document = ImpactDocument(
            priority=self.priority,
            pod_group=self.group and self.group.as_annotation(audience),
            by_chance=bool(self.by_chance),
            rollout_blocked=self.is_blocked_rollout,
            incomplete=self.is_incomplete,
            not_predicted=self.why_not,
            assumes=self.assumes,
        )
        if audience.coarse:
            return document._replace(
                coarse=True,
                preemptions=_merge_predictions(preempting, audience),
                by_old_template=_merge_predictions(self.by_old_template, audience),
                by_pending_pods=_merge_predictions(by_waiting, audience),
                cascade=cascade and cascade.coarse,
                pending=count_range(self.pending).lowest or 0,
                rejected_by_quota=count_range(self.rejected).lowest or 0,
            )
        return document._replace(
            new_pods=self.new,
            predicted=self.predicted,
            preemptions=[self._preemption(p, audience) for p in preempting[:MAX_SHOWN]],
            more_preemptions=more(preempting),
            by_old_template=[self._preemption(p, audience) for p in self.by_old_template[:MAX_SHOWN]],
            more_by_old_template=more(self.by_old_template),
            by_pending_pods=[_preemption(p, audience) for p in by_waiting[:MAX_SHOWN]],
            more_by_pending_pods=more(by_waiting),
            cascade=cascade,
            by_timing=self.depends_on_timing,
            pending=self.pending,
            rejected_by_quota=self.rejected,
        )

    def _preemption(self, prediction: Prediction, audience: Audience) -> PreemptionBy:
        document = _preemption(prediction, audience, bool(self.by_chance))
        return document._replace(stays_pending=prediction.pod.uid in self.in_vain)

    def stopped(self, why: CutShort) -> Impact:
        """Return the impact with an unknown outcome for the remaining Pods, and the exceeded limit of `why`."""
        return self._replace(rest="unknown", excess=why.excess if isinstance(why, TooLarge) else None)

    def check_bounds(self) -> None:
        """Raise TooLarge if the prediction stopped at a limit, and not because time was used up."""
        if self.rest == "unknown" and self.excess is not None:
            raise TooLarge(*self.excess, detail=to_dict(self.document()._replace(basis="rollout")))


def _preemption(prediction: Prediction, audience: Audience, by_chance: bool = False) -> PreemptionBy:
    """Return one preemption, with node names only for full access. `by_chance`: whether chance decides it."""
    nodes = prediction.best_nodes if audience.sees_all else ()
    places = victim_nodes([prediction]) if audience.sees_all else []
    return _victims(prediction.victims, audience)._replace(
        node=places[0] if len(places) == 1 else "",
        nodes=places[:MAX_SHOWN] if len(places) > 1 else (),
        or_any_of=nodes[:MAX_SHOWN] if len(nodes) > 1 and len(places) == 1 else (),
        more_nodes=more(nodes),
        by_chance=by_chance or prediction.may_be_others,
        pdb_violations=prediction.num_pdb_violations,
    )


def victim_nodes(predictions: Iterable[Prediction]) -> list[str]:
    """Return the nodes on which Pods are preempted, in the order of the preemptions. Pods of a PodGroup, which are
    preempted together on all nodes, count for the nominated node.
    """
    victims = ((victim, prediction.nominated_node) for prediction in predictions for victim in prediction.victims)
    return list(dict.fromkeys(node if victim.spec.pod_group else victim.node_name for victim, node in victims))


def _merge_predictions(predictions: Sequence[Prediction], audience: Audience) -> Sequence[PreemptionBy]:
    """Return several preemptions as one: victims by name if visible, otherwise the lower end of a range."""
    violates = any(prediction.num_pdb_violations for prediction in predictions)
    merged = _victims(victims_of(predictions), audience)._replace(by_chance=True, pdb_violations=int(violates))
    return [merged] if predictions else ()


def _victims(victims: Sequence[Pod], audience: Audience) -> PreemptionBy:
    shown = shown_pods(victims, audience)
    document = PreemptionBy(shown.named[:MAX_SHOWN], more(shown.named))
    if shown.other_priorities is None:
        return document
    return document._replace(unnamed_victims=shown.others.lowest, unnamed_priorities=[*shown.other_priorities])


def more(shown: Sequence[Any]) -> int:
    """Return the number of items that JSON does not show."""
    return max(len(shown) - MAX_SHOWN, 0)


def newly_preempted(predictions: tuple[Prediction, ...]) -> set[str]:
    """Return the identities of the victims that one of these Pods preempts, without those that terminate already."""
    return {victim.identity for each in predictions for victim in each.victims if not victim.terminating}


class Least(NamedTuple):
    """What is certain about Pods that preempt in turn: at least `pods` Pods preempt at least `victims` Pods.

    `number`: how many of the first predictions the minimums cover. `is_estimate`: whether there are too many choices to
    compare; the numbers are then those of the first nodes by name.
    """

    number: int
    pods: int
    victims: int
    is_estimate: bool = False


def least(predictions: Sequence[Prediction], others: Collection[str] = ()) -> Least | None:
    """Return the smallest preemption, whichever of several nodes and victims kube-scheduler selects; None if all is
    certain. `others`: identities of victims that do not count.
    """
    end_of_ties = 0
    for number, each in enumerate(predictions):
        if number < end_of_ties or (fewest := each.fewest) is None:
            continue
        if not fewest or any(_may_differ(other, each) for other in predictions[number + 1 :]):
            is_estimate = fewest == "unknown"
            end, more = (len(predictions), 0) if fewest == "unknown" else (number, fewest)
            before = [newly_preempted((other,)) - {*others} for other in predictions[:end]]
            victims = len(set[str]().union(*before)) + more
            return Least(end + bool(more), sum(map(bool, before)) + bool(more), victims, is_estimate)
        end_of_ties = number + len(each.best_nodes)  # these Pods preempt on each of the tied nodes, see `_may_differ`
    return None


def _may_differ(later: Prediction, before: Prediction) -> bool:
    """Report whether the outcome of a Pod depends on where a Pod before it preempts. It does not for two kinds of Pods
    that stay Pending: one of the same template, which fits nowhere after as many Pods of this template, and one that no
    node can run.
    """
    from forewarn.policies.kubernetes.scheduling.framework import Code  # deferred: the linter starts without numpy

    is_alike = later.pod.spec is before.pod.spec
    if later.outcome == "pending" and not is_alike:
        return any(status.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE for status in later.statuses.values())
    return not is_alike or (later.outcome == "preempts" and not before.takes_ties_in_turn)


def victims_of(predictions: Sequence[Prediction]) -> list[Pod]:
    """Return the victims of all predictions without duplicates, the highest priority first, then by name."""
    victims = {victim.identity: victim for prediction in predictions for victim in prediction.victims}
    by_priority = grouped((-(victim.priority or 0), victim) for victim in victims.values())
    ordered: list[Pod] = []
    for _, pods in sorted(by_priority.items()):
        # Messages contain only a few names, so thousands of Pods need no order.
        ordered += sorted(pods, key=lambda pod: pod.key) if len(pods) <= _ORDERED else _first_few(pods)
    return ordered


def _first_few(pods: list[Pod]) -> list[Pod]:
    """Return the Pods with the alphabetically first MAX_NAMED names first, and the others in any order."""
    first = nsmallest(MAX_NAMED, pods, key=lambda pod: pod.key)
    named = {id(pod) for pod in first}
    return [*first, *(pod for pod in pods if id(pod) not in named)]
