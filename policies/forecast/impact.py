"""The result of a forecast: the outcome of the new Pods of one object, and the running Pods that they preempt."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from forewarn.policies.disclosure import OPEN, count_range, shown_pods
from forewarn.policies.light import NamedTuple
from forewarn.policies.metering import CutShort, Excess, TooLarge, excess_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.disclosure import Audience
    from forewarn.policies.forecast.aftermath import Aftermath
    from forewarn.policies.forecast.pod_groups import GroupForecast
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.schedule_one import Prediction


MAX_SHOWN: Final = 10
"""Maximum preemptions, and names in each, in JSON: the annotations of an object may have 256 KiB."""
_ORDERED: Final = 200
MAX_NAMED: Final = 3
"""Maximum names of victims in a message."""
BY_NODES: Final = "the random order in which the DaemonSet controller visits nodes"
BY_RETRIES: Final = "which controller first uses the quota that victims free"
WITHOUT_CLAIMS: Final = "volumes of claims that are created with the Pods are ignored"


class Impact(NamedTuple):
    """The impact of one object's new Pods.

    - `predictions`: in order, of the Pods that do more than fit. `fitting`: number of other Pods that fit.
    - `new`: number of new Pods. `own`: identities of the workload's current Pods. `priority`: None if unknown.
    - `rejected`: number of new Pods that are never created, because a quota rejects them or a Pod before them.
      `rejection`: upstream's message about such a Pod at the end of a simulation; "" without a simulation.
    - `rest`: the outcome of the remaining Pods: "pending", like the last predicted Pod; "unknown", if time or work was
      used up; "later", if the controller creates them after the Pods before them run; "not-predicted", if forewarn does
      not model kube-scheduler's decision (`why_not`: the reason); "group", see `group`.
    - `by_chance`: the cause if chance decides how many new Pods preempt or stay Pending (`BY_NODES`, `BY_RETRIES`);
      the impact is then one with many preemptions.
    - `keeps_old`: a rollout creates the Pods while old ones exist. `deleted_first`: number of old Pods that are deleted
      before the outcome of the first new Pod is known.
    - `aftermath`: the cascade; None without victims, or if not requested.
    - `let_in`: identities of Pending Pods that use the capacity of old Pods before the new Pods do; preempting these
      affects no running Pod. `by_waiting`: predictions of other Pending Pods that preempt with that capacity.
    - `excess`: the exceeded limit; None if time was used up. `first_only`: the rollout is too large for a simulation,
      so only its first Pods are predicted.
    - `group`: the forecast for the PodGroup of the new Pods; `rest` is then "group" unless all of them fit.
    """

    predictions: tuple[Prediction, ...]
    new: int
    priority: int | None
    own: frozenset[str] = frozenset()
    rest: str = ""
    fitting: int = 0
    rejected: int = 0
    rejection: str = ""
    by_chance: str = ""
    keeps_old: bool = False
    deleted_first: int = 0
    aftermath: Aftermath | None = None
    let_in: frozenset[str] = frozenset()
    by_waiting: tuple[Prediction, ...] = ()
    excess: Excess | None = None
    first_only: bool = False
    why_not: str = ""
    group: GroupForecast | None = None
    assumes: tuple[str, ...] = ()
    """Sentences about lists missing from the cluster state. The result holds only if these lists are empty."""

    @property
    def is_incomplete(self) -> bool:
        return self.rest == "unknown" or self.first_only

    @property
    def is_cut_short(self) -> bool:
        """Whether more time or work would give a more complete result."""
        return self.is_incomplete or (self.aftermath is not None and not self.aftermath.known)

    @property
    def by_timing(self) -> bool:
        """Whether new Pods preempt Pods of their workload only if they are scheduled before the rollout deletes
        old Pods.
        """
        return self.keeps_old and self.deleted_first > 0 and self.preempts_own

    @property
    def preempts_own(self) -> bool:
        return any(victim.identity in self.own for prediction in self.preempting for victim in prediction.victims)

    @property
    def brings(self) -> int:
        """The number of Pods of the workload after the change; 0 if the change replaces old Pods."""
        if self.keeps_old or self.deleted_first:
            return 0
        return len(self.own) + self.new - self.rejected

    @property
    def predicted(self) -> int:
        return len(self.predictions) + self.fitting

    @property
    def preempting(self) -> tuple[Prediction, ...]:
        """The predictions in which new Pods preempt running Pods."""
        predictions = (p for p in self.predictions if p.outcome == "preempts")
        if not self.let_in:
            return tuple(predictions)
        return tuple(p for p in predictions if any(victim.identity not in self.let_in for victim in p.victims))

    @property
    def pending(self) -> int:
        """Number of new Pods that stay Pending even with preemption."""
        stuck = sum(p.outcome == "pending" for p in self.predictions)
        return stuck + (self.new - self.predicted - self.rejected if self.rest == "pending" else 0)

    def to_dict(self, audience: Audience = OPEN) -> dict[str, object]:
        """Return the impact as a JSON object, the value of the annotation forewarn.dev/preemption-impact.

        `audience`: determines the details that the readers may see.
        """
        if audience.shown.not_predicted:
            return {"notPredicted": audience.shown.not_predicted}
        if audience.coarse:
            return self._to_coarse_dict(audience)
        document: dict[str, object] = {} if self.priority is None else {"priority": self.priority}
        document |= {"newPods": self.new, "predicted": self.predicted}
        document |= self._of_group(audience)
        if preempting := self.preempting:
            document["preemptions"] = [
                _preemption_as_dict(prediction, audience, bool(self.by_chance)) for prediction in preempting[:MAX_SHOWN]
            ]
            document |= _more("Preemptions", len(preempting))
        if self.by_waiting:
            document["byPendingPods"] = [
                _preemption_as_dict(prediction, audience) for prediction in self.by_waiting[:MAX_SHOWN]
            ]
            document |= _more("ByPendingPods", len(self.by_waiting))
        if self.aftermath is not None:
            document["cascade"] = self.aftermath.to_dict()
        if self.by_timing:
            document["byTiming"] = True
        return document | self._of_all_pods(self.pending, self.rejected)

    def _of_all_pods(self, pending: int | None, rejected: int | None) -> dict[str, object]:
        """Return the members about all new Pods. `pending`, `rejected`: their numbers as the audience may see them."""
        document = {
            "byChance": bool(self.by_chance),
            "pending": pending,
            "incomplete": self.is_incomplete,
            "rejectedByQuota": rejected,
            "notPredicted": self.why_not,
            "assumes": list(self.assumes),
        }
        return {key: value for key, value in document.items() if value}

    def _of_group(self, audience: Audience) -> dict[str, object]:
        return {} if self.group is None else {"podGroup": self.group.as_annotation(audience)}

    def _to_coarse_dict(self, audience: Audience) -> dict[str, object]:
        """Return `to_dict` with the lower ends of ranges in place of numbers, and one entry for all preemptions."""
        document: dict[str, object] = (
            {"coarse": True} if self.priority is None else {"coarse": True, "priority": self.priority}
        )
        document |= self._of_group(audience)
        if preempting := self.preempting:
            document["preemptions"] = [_merged(preempting, audience)]
        if self.by_waiting:
            document["byPendingPods"] = [_merged(self.by_waiting, audience)]
        if self.aftermath is not None:
            document["cascade"] = self.aftermath.to_coarse_dict()
        return document | self._of_all_pods(count_range(self.pending).lowest, count_range(self.rejected).lowest)

    def stopped(self, why: CutShort) -> Impact:
        """Return the impact with an unknown outcome for the remaining Pods, and the exceeded limit of `why`."""
        return self._replace(rest="unknown", excess=excess_of(why))

    def check_bounds(self) -> None:
        """Raise TooLarge if the prediction stopped at a limit, and not because time was used up."""
        if self.rest == "unknown" and self.excess is not None:
            raise TooLarge(*self.excess, detail={**self.to_dict(), "basis": "rollout"})


def _preemption_as_dict(prediction: Prediction, audience: Audience, by_chance: bool = False) -> dict[str, object]:
    """Return one preemption as a JSON object. Contains node names only for audiences with full access.

    `by_chance`: whether chance decides if the Pod preempts.
    """
    shown = shown_pods(prediction.victims, audience)
    document: dict[str, object] = {"victims": [*shown.named[:MAX_SHOWN]], **_more("Victims", len(shown.named))}
    if audience.sees_all:
        nodes = prediction.best_nodes
        document["node"] = prediction.nominated_node
        document |= {"orAnyOf": nodes[:MAX_SHOWN], **_more("Nodes", len(nodes))} if len(nodes) > 1 else {}
    if by_chance or prediction.may_be_others:
        document["byChance"] = True
    if shown.other_priorities is not None:
        document |= {"unnamedVictims": shown.others.lowest, "unnamedPriorities": [*shown.other_priorities]}
    return {**document, "pdbViolations": prediction.num_pdb_violations}


def _merged(predictions: Sequence[Prediction], audience: Audience) -> dict[str, object]:
    """Return several preemptions as one JSON object: victims by name if the audience may see them, otherwise the
    lower end of a range.
    """
    shown = shown_pods(victims_of(tuple(predictions)), audience)
    document: dict[str, object] = {"victims": [*shown.named[:MAX_SHOWN]], **_more("Victims", len(shown.named))}
    document["byChance"] = True
    if shown.other_priorities is not None:
        document |= {"unnamedVictims": shown.others.lowest, "unnamedPriorities": [*shown.other_priorities]}
    return {**document, "pdbViolations": int(any(prediction.num_pdb_violations for prediction in predictions))}


def _more(what: str, count: int) -> dict[str, object]:
    return {f"more{what}": count - MAX_SHOWN} if count > MAX_SHOWN else {}


def victims_of(predictions: tuple[Prediction, ...]) -> list[Pod]:
    """Return the victims of all predictions without duplicates, the highest priority first, then by name."""
    victims = {victim.identity: victim for prediction in predictions for victim in prediction.victims}
    by_priority: dict[int, list[Pod]] = {}
    for victim in victims.values():
        by_priority.setdefault(-(victim.priority or 0), []).append(victim)
    ordered: list[Pod] = []
    for priority in sorted(by_priority):
        pods = by_priority[priority]
        # Messages contain only a few names, so thousands of Pods need no order.
        ordered += sorted(pods, key=lambda pod: pod.key) if len(pods) <= _ORDERED else _first_few(pods)
    return ordered


def _first_few(pods: list[Pod]) -> list[Pod]:
    """Return the Pods with the alphabetically first MAX_NAMED names first, and the others in any order."""
    first = nsmallest(MAX_NAMED, pods, key=lambda pod: pod.key)
    named = {id(pod) for pod in first}
    return [*first, *(pod for pod in pods if id(pod) not in named)]
