"""What an apply would do to running pods: predicted once for each subject, in the order of the apply."""

from __future__ import annotations

from collections import Counter
from functools import cached_property, partial
from heapq import nsmallest
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from policies.disclosure import OPEN, count_range, priority_range
from policies.findings import listed, plural
from policies.metering import CutShort, Excess, TooLarge, each, excess_of, limited, meter, metered
from policies.objects.fields import NOTHING, InvalidObject, at
from policies.objects.workload import pod_template_of
from policies.rules.support.context import Phase
from policies.rules.support.rule_text import MOST_CHARACTERS, counted, naming, of_namespaces, priority_band

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from policies.aftermath import Aftermath
    from policies.cluster import ClusterSnapshot
    from policies.controllers.changes import Coming
    from policies.controllers.pod_sequences import DaemonPods
    from policies.disclosure import Audience
    from policies.objects.pod import Pod
    from policies.objects.resource_quota import ResourceQuota
    from policies.objects.reviewed_object import ReviewedObject
    from policies.rules.support.context import Context
    from policies.scheduling.schedule_one import Prediction
    from policies.scheduling.snapshot import Snapshot
    from policies.scheduling.vectorized.capacity import OnEachNode
    from policies.waiting import Waiting


_SHOWN: Final = 10
"""Preemptions, and names in each, that programs are told: an object's annotations hold 256 KiB in all."""


_ORDERED: Final = 200
_NAMED: Final = 3
"""Victims whose names a message has."""
MOST_PREEMPTIONS: Final = 500
"""Preemptions for one object that are worked out where time is limited: to tell of more takes time as well."""
MOST_DAEMONS: Final = 2_000
"""The same for a DaemonSet, whose pods are worked out all at once."""
MOST_VICTIMS: Final = 3_000
"""Victims of one object that are named or counted where time is limited: some microseconds for each of them."""
MOST_PLACED: Final = 20_000
"""Pods of one object that are put in their places at once, for what comes after them."""
MOST_REHEARSED: Final = 100
"""Pods of a workload whose rollout is simulated: of more its first pods are predicted one after the other."""
MOST_REHEARSING: Final = 200_000
"""Units of work that this may cost, where work is limited at all."""
_BINDING: Final = 12
"""Units that it costs to make a pod and bind it."""


class Impact(NamedTuple):
    """What becomes of the `new` pods that a subject brings.

    `predictions`: one by one, in order, of those of which more is known than that they fit; `fitting`: how many others
    fit; `own`: identities of the workload's pods that run now; `rest`: what becomes of those that are left: the same
    as of the last, because that one stays pending (`"pending"`), or not known because time was up or there is too much
    to work out (`"unknown"`); a quota refuses them (`"refused"`), or a rollout makes them when those before them run
    (`"later"`), or how kube-scheduler places them is not modelled (`"not-predicted"`, and `why_not` says what). `new`
    is what the object asks for, however many: nothing grows with it. `priority` None: not worked
    out. `beside_old`: a rollout's pods come while old ones are still there; `ended_first`: how many of those are told
    to end before it shows what becomes of the first new one. `aftermath`: what becomes of the victims; None where there
    are none, or it was not asked for. `let_in`: identities of pods that waited, and take the room that old pods leave
    before the new ones come: who pushes these out again takes nothing that runs now. `by_waiting`: the predictions of
    others that waited, and with that room preempt. `excess`: the bound that stopped it; None if time was up.
    `first_only`: the rollout is too much to simulate, so that only its first new pods are predicted.
    """

    predictions: tuple[Prediction, ...]
    new: int
    priority: int | None
    own: frozenset[str] = frozenset()
    rest: str = ""
    fitting: int = 0
    beside_old: bool = False
    ended_first: int = 0
    aftermath: Aftermath | None = None
    let_in: frozenset[str] = frozenset()
    by_waiting: tuple[Prediction, ...] = ()
    excess: Excess | None = None
    first_only: bool = False
    why_not: str = ""
    assumes: tuple[str, ...] = ()
    """What holds only where lists that the cluster state lacks are empty."""

    @property
    def is_incomplete(self) -> bool:
        """Whether it is not known what becomes of some new pods."""
        return self.rest == "unknown" or self.first_only

    @property
    def is_cut_short(self) -> bool:
        """Whether more would have been worked out with more time, or without a bound."""
        return self.is_incomplete or (self.aftermath is not None and not self.aftermath.known)

    @property
    def by_timing(self) -> bool:
        """Whether the rollout ends old pods while the first new ones come: these preempt them only if they are tried
        before."""
        return self.beside_old and self.ended_first > 0 and self.preempts_own

    @property
    def preempts_own(self) -> bool:
        """Whether new pods preempt the workload's own."""
        return any(victim.identity in self.own for prediction in self.preempting for victim in prediction.victims)

    @property
    def brings(self) -> int:
        """How many pods the workload has when all have come; 0 where they come in the place of old ones."""
        if self.beside_old or self.ended_first:
            return 0
        return len(self.own) + (self.predicted if self.rest == "refused" else self.new)

    @property
    def predicted(self) -> int:
        """Of how many new pods it is known what becomes of them."""
        return len(self.predictions) + self.fitting

    @property
    def preempting(self) -> tuple[Prediction, ...]:
        """The predictions in which somebody has to go who runs now."""
        found = (p for p in self.predictions if p.outcome == "preempts")
        if not self.let_in:
            return tuple(found)
        return tuple(p for p in found if any(victim.identity not in self.let_in for victim in p.victims))

    @property
    def pending(self) -> int:
        """How many new pods fit nowhere, even after preemption."""
        stuck = sum(p.outcome == "pending" for p in self.predictions)
        return stuck + (self.new - self.predicted if self.rest == "pending" else 0)

    def to_dict(self, audience: Audience = OPEN) -> dict[str, object]:
        """For programs, compact: the annotation forewarn.dev/preemption-impact."""
        if audience.shown.not_predicted:
            return {"notPredicted": audience.shown.not_predicted}
        if audience.coarse:
            return self._to_coarse_dict(audience)
        told: dict[str, object] = {} if self.priority is None else {"priority": self.priority}
        told |= {"newPods": self.new, "predicted": self.predicted}
        if preempting := self.preempting:
            told["preemptions"] = [_told(prediction, audience) for prediction in preempting[:_SHOWN]]
            told |= _more("Preemptions", len(preempting))
        if self.by_waiting:
            told["byPendingPods"] = [_told(prediction, audience) for prediction in self.by_waiting[:_SHOWN]]
            told |= _more("ByPendingPods", len(self.by_waiting))
        if self.aftermath is not None:
            told["cascade"] = self.aftermath.to_dict()
        if self.by_timing:
            told["byTiming"] = True
        if self.pending:
            told["pending"] = self.pending
        if self.is_incomplete:
            told["incomplete"] = True
        if self.rest == "refused":
            told["rejectedByQuota"] = self.new - self.predicted
        if self.why_not:
            told["notPredicted"] = self.why_not
        if self.assumes:
            told["assumes"] = list(self.assumes)
        return told

    def _to_coarse_dict(self, audience: Audience) -> dict[str, object]:
        """The same with the lower ends of ranges for numbers, and all preemptions in one."""
        told: dict[str, object] = (
            {"coarse": True} if self.priority is None else {"coarse": True, "priority": self.priority}
        )
        if preempting := self.preempting:
            told["preemptions"] = [_merged(preempting, audience)]
        if self.by_waiting:
            told["byPendingPods"] = [_merged(self.by_waiting, audience)]
        if self.aftermath is not None:
            told["cascade"] = self.aftermath.to_coarse_dict()
        if self.pending:
            told["pending"] = count_range(self.pending).lowest
        if self.is_incomplete:
            told["incomplete"] = True
        if self.rest == "refused":
            told["rejectedByQuota"] = count_range(self.new - self.predicted).lowest
        if self.why_not:
            told["notPredicted"] = self.why_not
        if self.assumes:
            told["assumes"] = list(self.assumes)
        return told

    def cut_short(self, audience: Audience = OPEN) -> str:
        """What is not predicted, and what is assumed, as sentences behind a message; empty if there is neither.

        `. Time ran out after 3 of 10 new Pods`.
        """
        assumed = (f". {sentence[:1].upper()}{sentence[1:]}" for sentence in self.assumes)
        return "".join([self._unfinished(audience), *assumed])

    def _unfinished(self, audience: Audience) -> str:
        if self.rest != "unknown":
            return ". The rollout is too large to predict it to its end" if self.first_only else ""
        if self.excess is not None:
            after = "" if audience.coarse else f" after {self.predicted} of {self.new} new Pods"
            return f". Not evaluated{after}: {self.excess.problem}"
        if audience.coarse:
            return ". Time ran out before all new Pods were predicted"
        return f". Time ran out after {self.predicted} of {self.new} new Pods"

    def stopped(self, why: CutShort) -> Impact:
        """The same, with nothing known of the Pods that are left."""
        return self._replace(rest="unknown", excess=excess_of(why))

    def check_bounds(self) -> None:
        """Raises TooLarge where a bound, not the clock, stopped the prediction."""
        if self.rest == "unknown" and self.excess is not None:
            raise TooLarge(*self.excess, detail=self.to_dict())


def _told(prediction: Prediction, audience: Audience) -> dict[str, object]:
    """One preemption, for programs. Nodes are for who sees everything: a node's name tells where others run."""
    named = [victim.key for victim in prediction.victims if audience.is_told_of(victim.namespace)]
    counted = [v.effective_priority for v in prediction.victims if not audience.is_told_of(v.namespace)]
    told: dict[str, object] = {"victims": named[:_SHOWN], **_more("Victims", len(named))}
    if audience.sees_all:
        nodes = prediction.best_nodes
        told["node"] = prediction.nominated_node
        told |= {"orAnyOf": nodes[:_SHOWN], **_more("Nodes", len(nodes))} if len(nodes) > 1 else {}
    if prediction.may_be_others:
        told["byChance"] = True
    if counted:
        told |= {"unnamedVictims": len(counted), "unnamedPriorities": [min(counted), max(counted)]}
    return {**told, "pdbViolations": prediction.num_pdb_violations}


def _merged(predictions: Sequence[Prediction], audience: Audience) -> dict[str, object]:
    """Several preemptions as one, in ranges: the reader's own victims by name, of the others their lower ends."""
    victims = victims_of(tuple(predictions))
    named = [victim.key for victim in victims if audience.is_told_of(victim.namespace)]
    others = [victim.effective_priority for victim in victims if not audience.is_told_of(victim.namespace)]
    told: dict[str, object] = {"victims": named[:_SHOWN], **_more("Victims", len(named)), "byChance": True}
    if others:
        band = priority_range(min(others), max(others))
        told |= {"unnamedVictims": count_range(len(others)).lowest, "unnamedPriorities": [band.lowest, band.highest]}
    return {**told, "pdbViolations": int(any(prediction.num_pdb_violations for prediction in predictions))}


def _more(what: str, count: int) -> dict[str, object]:
    return {f"more{what}": count - _SHOWN} if count > _SHOWN else {}


class Forecast:
    """Impacts of the subjects of one apply: each sees the pods of those before it in their places."""

    def __init__(
        self,
        cluster: ClusterSnapshot,
        paths: Mapping[str, tuple[str, ...]],
        expired: Callable[[], bool],
        *,
        pods_defaulted: bool = False,
        aftermath: bool = True,
        quotas_of: Callable[[ReviewedObject, str], Sequence[ResourceQuota]] | None = None,
        stored_quotas: bool = True,
    ) -> None:
        """`aftermath`: also work out what becomes of victims; `quotas_of`: a namespace's quotas once they are charged
        with this subject, by default as the cluster has them. `stored_quotas`: whether no others limit the subjects."""
        self._aftermath, self._quotas_of, self._stored_quotas = aftermath, quotas_of, stored_quotas
        self._cluster, self._paths, self._expired, self._pods_defaulted = cluster, paths, expired, pods_defaulted
        self._next: Callable[[], Snapshot] = lambda: cluster.scheduling
        self._waiting: Waiting | None = None
        """Who waits beside the pods of the subject; None: not asked yet."""
        self._placed: set[str] = set()
        """Identities of those who did and have been let in, or preempt, of all subjects so far."""

    def _snapshot(self) -> Snapshot:
        """The cluster as the subjects so far leave it; worked out when the next one asks, and once."""
        snapshot = self._next()
        self._next = lambda: snapshot
        return snapshot

    def of(self, subject: ReviewedObject, most: int | None = None) -> Impact | None:
        """The next subject's impact; None where nothing new comes, or nothing can be said.

        `most`: how many new pods quotas let in, None where they let all in.
        """
        from policies.controllers.changes import asks_for_no_pods, coming
        from policies.scheduling.responsible import not_scheduled

        try:
            if asks_for_no_pods(subject, self._paths):
                return None
            _check_extent(subject, self._paths)
            found = coming(subject, self._cluster, self._paths, pods_defaulted=self._pods_defaulted)
            if found.pods:
                self._cluster.check_kept(found.pods[0].namespace)
        except CutShort as why:
            return _not_looked_at(subject, self._paths, why)
        except InvalidObject:
            return None  # other rules say what is wrong with it
        if not found.pods or not_scheduled(found.pods[0], self._snapshot()):
            return None
        return self._of_pods(subject, found, most)

    def _of_pods(self, subject: ReviewedObject, found: Coming, most: int | None) -> Impact:
        from policies.scheduling.responsible import unmodelled

        impact, pod = _begun(found), found.pods[0]
        if why_not := unmodelled(pod, self._snapshot()):
            return impact._replace(rest="not-predicted", why_not=why_not)
        if self._expired():
            return impact._replace(rest="unknown")
        try:
            done = self._in_full(found, impact, most)
        except CutShort as why:
            return impact.stopped(why)
        told = done.rest not in ("unknown", "not-predicted")
        wanted = self._aftermath and (done.preempting or done.by_waiting) and told
        done = self._with_aftermath(subject, done) if wanted and done.aftermath is None else done
        return self._with_assumptions(done, pod)

    def _with_assumptions(self, impact: Impact, pod: Pod) -> Impact:
        from policies.scheduling.missing_lists import assumptions

        victims = bool(impact.preempting or impact.by_waiting)
        assumed = assumptions(self._cluster.objects, (pod,), victims=victims)
        return impact._replace(assumes=(*assumed, *impact.assumes))

    def _in_full(self, found: Coming, impact: Impact, most: int | None) -> Impact:
        """A rollout, and pods whose claims are created with them, are simulated. If a rollout is too much to simulate,
        its first pods are predicted, and marked as such. Raises CutShort."""
        too_many = max(len(found.pods), len(found.own)) > MOST_REHEARSED
        is_rollout = found.rolled_out is not None
        try:
            done = None if too_many else self._rehearsed(found, impact, most)
        except CutShort:
            if self._expired():
                raise
            return self._one_by_one(found, impact, most)._replace(first_only=is_rollout)
        done = self._one_by_one(found, impact, most) if done is None else done
        return done._replace(first_only=too_many and is_rollout and done.fitting < done.new)

    def _one_by_one(self, found: Coming, impact: Impact, most: int | None) -> Impact:
        """The result without a simulation. Raises CutShort."""
        from policies.controllers.new_pods import WITHOUT_CLAIMS

        done = self._limited(found, impact, most)
        return done._replace(assumes=(*done.assumes, WITHOUT_CLAIMS)) if found.without_claims else done

    def _rehearsed(self, found: Coming, impact: Impact, most: int | None) -> Impact | None:
        """The result of a simulation; None of what is predicted without one. Raises CutShort."""
        change = found.rolled_out or found.creates_claims
        if change is None or (most is not None and not self._stored_quotas):
            return None
        from policies.scheduling.missing_lists import lists_storage

        if found.creates_claims is not None and not lists_storage(self._cluster.objects):
            return None
        from policies.simulation.rehearsal import rehearse
        from policies.waiting import waiting_in_turn

        try:
            with metered(self._expired, MOST_REHEARSING):
                waiting = waiting_in_turn(self._cluster, impact.own | self._placed)
                emptied = _without(self._snapshot(), found.own)
                plain = most is None and not found.under_way and not found.without_claims
                fits = plain and self._have_room(found.pods)
                if fits and not _help_anybody(waiting, emptied, found.own):
                    self._next = partial(_with_all, emptied, found.pods)
                    return impact._replace(fitting=impact.new)
                creates = found.rolled_out is None and not found.own  # else what is stored must be known
                came = rehearse(self._cluster, self._snapshot(), change, waiting, creates=creates)
        except InvalidObject:
            return None
        unknown = found.creates_claims is not None and came.has_unknown_volumes
        if unknown or any(prediction.outcome != "pending" for prediction in came.pending):
            return None
        self._next = lambda: came.snapshot
        self._placed.update(came.let_in)
        if found.under_way:  # nobody knows beforehand how many of the old template come as well
            impact = impact._replace(new=max(impact.new, came.made, len(came.preempting) + len(came.pending)))
        fitting = max(min(came.made, impact.new) - len(came.preempting) - len(came.pending), 0)
        missing = impact.new - fitting - len(came.preempting) - len(came.pending)
        return impact._replace(
            predictions=(*came.preempting, *came.pending),
            fitting=fitting,
            rest="" if missing <= 0 else "refused" if came.refused else "later",
            by_waiting=came.by_waiting,
            let_in=came.let_in,
            aftermath=came.aftermath if self._aftermath and (came.preempting or came.by_waiting) else None,
        )

    def _have_room(self, pods: Sequence[Pod]) -> bool:
        """Whether all of them fit beside everybody who is there now, their workload's old pods too."""
        from policies.scheduling.bulk import room_for

        if not _alike(pods):
            return False
        room = room_for(self._snapshot(), pods[0])
        return room is not None and room.total >= len(pods)

    def _with_aftermath(self, subject: ReviewedObject, impact: Impact) -> Impact:
        """What becomes of the victims, as far as that can be told in the time that is left, and with little work."""
        from policies.aftermath import MOST_WORK, NOT_KNOWN, aftermath_of
        from policies.waiting import waiting_in_turn

        quotas_of = None if self._quotas_of is None else partial(self._quotas_of, subject)
        try:
            if self._expired():
                raise CutShort("time is up")
            with metered(self._expired, MOST_WORK):
                itself = impact.own | impact.let_in
                waiting = waiting_in_turn(self._cluster, impact.own | self._placed)
                preempting = (*impact.preempting, *impact.by_waiting)
                comes = aftermath_of(self._cluster, self._snapshot(), preempting, itself, quotas_of, waiting)
        except (CutShort, InvalidObject):
            comes = NOT_KNOWN
        return impact._replace(aftermath=comes)

    def _limited(self, found: Coming, impact: Impact, most: int | None) -> Impact:
        """No more than `most` pods come: a quota refuses the others, but in the place of old pods that end."""
        refused = most is not None and most < len(found.pods) and not found.ended_first
        arriving = found.pods[:most] if refused else found.pods
        if not arriving:
            return impact._replace(rest="refused")
        self._waiting = None
        let_in: dict[str, Prediction] = {}
        if gone := found.ended.get(0):
            self._next = partial(_without, self._snapshot(), gone)
            self._let_in(gone, impact, let_in)
        done = self._at_once(arriving, impact, found) if not any(found.ended) else None
        done = self._in_turn(arriving, impact, found, let_in) if done is None else done
        if let_in:
            self._placed.update(let_in)
            preempt = tuple(p for p in let_in.values() if p.outcome == "preempts")
            placed = frozenset(identity for identity, p in let_in.items() if p.outcome == "fits")
            done = done._replace(let_in=placed, by_waiting=preempt)
        return done._replace(rest="refused") if refused and done.rest in ("", "later") else done

    def _at_once(self, arriving: Sequence[Pod], impact: Impact, found: Coming) -> Impact | None:
        """Without looking at pods one by one: all fit, or each has a node of its own. None where that cannot tell."""
        from policies.controllers.pod_sequences import DaemonPods
        from policies.scheduling.bulk import on_each_node, room_for

        if isinstance(arriving, DaemonPods):
            on_each = on_each_node(self._snapshot(), arriving.anywhere, arriving.nodes)
            return None if on_each is None else self._on_each_node(arriving, impact, on_each)
        if len(arriving) == 1 or not _alike(arriving):
            return None
        room = room_for(self._snapshot(), arriving[0])
        if room is None or (room.total < len(arriving) and room.by_node is None):
            return None
        if room.total >= len(arriving):
            self._next = partial(_with_all, self._snapshot(), arriving)
            return impact._replace(fitting=len(arriving))
        assert room.by_node is not None
        if room.total > MOST_PLACED:
            return impact._replace(fitting=room.total).stopped(_too_many_pods(MOST_PLACED))
        self._next = partial(_filled, self._snapshot(), arriving[: room.total], room.by_node)
        return self._in_turn(arriving[room.total :], impact._replace(fitting=room.total), found, {})

    def _on_each_node(self, arriving: DaemonPods, impact: Impact, found: OnEachNode) -> Impact:
        """Daemons do not get in each other's way, save for the budgets of those whom they push out."""
        from policies.scheduling.schedule_one import Prediction
        from policies.scheduling.vectorized.node_fit import VectorizedAnswer

        snapshot, work = self._snapshot(), meter()
        predictions: list[Prediction] = []
        placed = [node for node in arriving.nodes if node in found.fits]
        victims = 0
        for node, candidate in found.others:
            if limited() and (len(predictions) >= MOST_DAEMONS or victims >= MOST_VICTIMS):
                before = arriving.nodes.index(node) - len(predictions)
                found_so_far = impact._replace(predictions=tuple(predictions), fitting=before)
                return found_so_far.stopped(_too_many_preemptions(MOST_DAEMONS))
            work.charge(1 + _BINDING)
            known = VectorizedAnswer([], [node] if candidate else [], candidate)
            predictions.append(Prediction(snapshot, arriving.of(node), known))
            victims += len(candidate.victims) if candidate else 0
        self._next = partial(_with_daemons, snapshot, arriving, placed, predictions)
        return impact._replace(predictions=tuple(predictions), fitting=len(placed))

    def _in_turn(self, arriving: Sequence[Pod], impact: Impact, found: Coming, let_in: dict[str, Prediction]) -> Impact:
        """Each pod after those before it. `let_in`: what became of others that waited; more may come to it."""
        from policies.controllers.new_pods import MOST_IN_TURN
        from policies.scheduling.schedule_one import Prediction

        predictions: list[Prediction] = []
        begun, pushing, victims, waiting = self._snapshot(), 0, 0, 0
        try:
            for place, pod in enumerate(arriving[:MOST_IN_TURN]):
                if predictions and self._expired():
                    return impact._replace(predictions=tuple(predictions), rest="unknown")
                self._end_before(place, found, impact, let_in)
                prediction = Prediction(self._snapshot(), pod)
                outcome = prediction.outcome
                if why_not := prediction.unmodelled:
                    done = impact._replace(predictions=tuple(predictions), rest="not-predicted")
                    return done._replace(why_not=why_not)
                self._next = prediction.in_the_end if found.one_by_one else prediction.snapshot_after
                predictions.append(
                    prediction if outcome == "pending" else prediction.settled(begun, _SHOWN - len(predictions) > 0)
                )
                self._come_back(prediction.victims, let_in)
                pushing, victims = pushing + (outcome == "preempts"), victims + len(prediction.victims)
                waiting += outcome == "pending" or (outcome == "preempts" and not found.one_by_one)
                if limited() and (pushing >= MOST_PREEMPTIONS or victims >= MOST_VICTIMS):
                    raise _too_many_preemptions(MOST_PREEMPTIONS)
                if found.window is not None and waiting >= found.window:
                    rest = "later" if len(predictions) < len(arriving) else ""
                    return impact._replace(predictions=tuple(predictions), rest=rest)
                if outcome == "pending" and _alike(arriving):
                    # A StatefulSet that goes in order creates no Pod before the one that stays Pending is ready.
                    rest = "later" if found.one_by_one else "pending"
                    return impact._replace(
                        predictions=tuple(predictions), rest=rest if len(predictions) < len(arriving) else ""
                    )
        except CutShort as why:
            return impact._replace(predictions=tuple(predictions)).stopped(why)
        impact = impact._replace(predictions=tuple(predictions))
        return impact.stopped(_too_many_pods(MOST_IN_TURN)) if len(predictions) < len(arriving) else impact

    def _end_before(self, place: int, found: Coming, impact: Impact, let_in: dict[str, Prediction]) -> None:
        """Old pods that have ended before this new one comes; before the first one, that is done."""
        if place and (gone := found.ended.get(place)):
            self._next = partial(_without, self._snapshot(), gone)
            self._let_in(gone, impact, let_in)

    def _let_in(self, gone: Sequence[Pod], impact: Impact, let_in: dict[str, Prediction]) -> None:
        """Pods that wait take the room which these leave before a controller has made new ones, or preempt with it.
        Raises CutShort."""
        from policies.scheduling.schedule_one import Prediction
        from policies.waiting import may_be_helped, waiting_in_turn

        if not self._cluster.waiting_pods:
            return
        if self._waiting is None:
            self._waiting = waiting_in_turn(self._cluster, impact.own | self._placed)
        nodes = {pod.node_name for pod in gone if pod.node_name}
        for pod in self._waiting.pods:
            if self._expired():
                raise CutShort("time is up")
            if pod.identity in let_in or not may_be_helped(pod, self._snapshot(), nodes):
                continue
            prediction = Prediction(self._snapshot(), pod)
            if prediction.outcome in ("fits", "preempts"):
                self._next = prediction.snapshot_after
                let_in[pod.identity] = prediction

    def _come_back(self, victims: Sequence[Pod], let_in: Mapping[str, Prediction]) -> None:
        """Of those that were let in and are pushed out, replacements wait as they did."""
        from policies.waiting import made_anew

        again = [made_anew(let_in[v.identity].pod) for v in victims if v.identity in let_in and v.owner is not None]
        if again and self._waiting is not None:
            self._waiting = self._waiting._replace(pods=(*self._waiting.pods, *again))


def _begun(found: Coming) -> Impact:
    """Before anything is predicted."""
    own = frozenset(pod.identity for pod in found.own)
    priority = found.pods[-1].effective_priority
    return Impact((), len(found.pods), priority, own, beside_old=found.beside_old, ended_first=found.ended_first)


def _without(snapshot: Snapshot, gone: Sequence[Pod]) -> Snapshot:
    """The cluster when these pods have ended: those that are still there, whatever has become of them."""
    left: list[Pod] = []
    for name in {pod.node_name for pod in gone}:
        info = snapshot.get(name)
        identities = {pod.identity for pod in gone if pod.node_name == name}
        left += [pod for pod in info.pods if pod.identity in identities] if info is not None else []
    return snapshot.with_pods((), left)


def _help_anybody(waiting: Waiting, snapshot: Snapshot, gone: Sequence[Pod]) -> bool:
    """Whether somebody who waits may take the room that these have left. Raises CutShort."""
    from policies.waiting import may_be_helped

    nodes = {pod.node_name for pod in gone if pod.node_name}
    return bool(waiting.left_out) or any(may_be_helped(pod, snapshot, nodes) for pod in waiting.pods)


def _check_extent(subject: ReviewedObject, paths: Mapping[str, tuple[str, ...]]) -> None:
    """Raises CutShort for a pod that holds too much, and for a workload that does so beside its template."""
    from policies.extent import MOST_REQUIREMENTS, MOST_VOLUMES, check_extent, check_metadata_extent, exceeds

    template = pod_template_of(subject.object, paths)
    if template is None:
        return
    check_extent(template.spec)
    check_metadata_extent(template.object.get("metadata"))
    check_metadata_extent(subject.object.get("metadata"))
    if limited() and template.is_template:
        selector = at(subject.object, "spec", "selector")
        conditions = at(selector, "matchExpressions") if isinstance(selector, dict) else None
        labels = at(selector, "matchLabels") if isinstance(selector, dict) else None
        conditions_of_it = (
            (part, "requirements in its selector", MOST_REQUIREMENTS) for part in (selector, conditions, labels)
        )
        claims = at(subject.object, "spec", "volumeClaimTemplates")
        for part, what, most in (*conditions_of_it, (claims, "volumeClaimTemplates", MOST_VOLUMES)):
            if isinstance(part, list | dict) and len(part) > most:
                raise exceeds("the object", len(part), what, most)


def _too_many_pods(most: int) -> TooLarge:
    return TooLarge(f"the object asks for more Pods than forewarn evaluates, which is {most}", "ask for fewer Pods")


def _too_many_preemptions(most: int) -> TooLarge:
    victims = f"or {MOST_VICTIMS} victims"
    return TooLarge(f"forewarn evaluates at most {most} preemptions {victims} of one object", "ask for fewer Pods")


def _not_looked_at(subject: ReviewedObject, paths: Mapping[str, tuple[str, ...]], why: CutShort) -> Impact | None:
    """The impact of an object that was too much to read; None where it brings no pods."""
    from policies.controllers.new_pods import replicas_of

    try:
        template = pod_template_of(subject.object, paths)
        if template is None:
            return None
        new = replicas_of(subject.object) if template.is_template else 1
    except TooLarge:
        new = 1
    except InvalidObject:
        return None
    return Impact((), new, None).stopped(why) if new else None


def _alike(pods: Sequence[Pod]) -> bool:
    """Whether what holds for one of these pods holds for the next: the scheduler does not tell them apart."""
    from policies.controllers.new_pods import MOST_IN_TURN
    from policies.controllers.pod_sequences import NumberedPods

    if isinstance(pods, NumberedPods) and pods.alike:
        return True
    if len(pods) > MOST_IN_TURN:
        return False
    first = pods[0]
    return all(
        (pod.spec, pod.occupies, pod.labels, pod.priority) == (first.spec, first.occupies, first.labels, first.priority)
        for pod in pods
    )


def _with_all(snapshot: Snapshot, pods: Sequence[Pod]) -> Snapshot:
    """The cluster with pods in their places one after the other."""
    from policies.scheduling.schedule_one import Prediction

    if len(pods) > MOST_PLACED:
        raise _too_many_pods(MOST_PLACED)
    for pod in pods:
        snapshot = Prediction(snapshot, pod).snapshot_after()
    return snapshot


def _filled(snapshot: Snapshot, pods: Sequence[Pod], by_node: Mapping[str, int]) -> Snapshot:
    """The cluster with as many pods on each node as fit there."""
    places = chain.from_iterable(repeat(node, count) for node, count in by_node.items())
    bound, work = [], meter()
    for pod, node in zip(pods, places, strict=True):
        work.charge(_BINDING)
        bound.append(snapshot.bound(pod, node))
    return snapshot.with_pods(bound, ())


def _with_daemons(
    snapshot: Snapshot, pods: DaemonPods, nodes: Sequence[str], predictions: Sequence[Prediction]
) -> Snapshot:
    """The cluster with the daemons of these nodes, and those that push others out."""
    pushing = [p for p in predictions if p.outcome == "preempts"]
    placed = snapshot.with_pods([snapshot.bound(pods.named_for(node), node) for node in each(nodes, 2 * _BINDING)], ())
    return placed.with_preemptions([(p.pod, p.node, p.victims) for p in each(pushing, _BINDING)])


def reasons_of(predictions: Sequence[Prediction]) -> list[tuple[str, int]]:
    """Why no node helps, and how many nodes each reason is of, the most frequent first; 0: it is of none in particular.

    Of pods that have a node each, why that does not help. Where nobody could go, what stands in the way is what it was
    before preemption was tried.
    """
    from policies.scheduling.preemption import NO_VICTIMS

    first = predictions[0]
    if first.pre_filter is not None:
        return [("; ".join(first.pre_filter.reasons), 0)]
    counts: Counter[str] = Counter()
    for prediction in predictions if node_of(first.pod) else (first,):
        node = node_of(prediction.pod)
        for name, status in prediction.statuses.items() if not node else prediction.status_of(node):
            dropped = prediction.preemption.statuses.get(name, NO_VICTIMS)
            counts[" and ".join((status if dropped is NO_VICTIMS else dropped).reasons)] += 1
    return counts.most_common()


def nodes_that_fit(reasons: Sequence[tuple[str, int]], audience: Audience = OPEN) -> str:
    """`0/3 nodes fit (2 Insufficient cpu, 1 cordoned)`, as kube-scheduler words it.

    Without numbers for a reader of ranges. Of reasons that are of no node in particular: `no node can fit (reason)`.
    """
    shown = [(_SHORT_REASONS.get(reason, reason), count) for reason, count in reasons[:_REASONS]]
    more = ", …" if len(reasons) > _REASONS else ""
    if audience.coarse or not reasons[0][1]:
        return f"no node can fit ({', '.join(sorted(reason for reason, _ in shown))}{more})"
    listed = shown[0][0] if len(reasons) == 1 else ", ".join(f"{count} {reason}" for reason, count in shown)
    return f"0/{sum(count for _, count in reasons)} nodes fit ({listed}{more})"


_REASONS: Final = 3
_SHORT_REASONS: Final = {"node(s) were unschedulable": "cordoned"}
_FIXES: Final = (
    ("Insufficient ", "lower requests"),
    ("not found", "create what is missing first"),
    ("Too many pods", "add nodes"),
    ("node(s) were unschedulable", "uncordon the node"),
    ("node(s) had untolerated taint", "add a toleration"),
    ("node(s) didn't match Pod's node affinity/selector", "change nodeSelector or nodeAffinity"),
    ("node(s) didn't match pod affinity", "change podAffinity"),
    ("node(s) didn't match pod anti-affinity", "change podAntiAffinity"),
    ("node(s) didn't match pod topology spread", "change topologySpreadConstraints"),
)
"""How a reason of kube-scheduler begins -> what to change."""


def fix_of(reasons: Sequence[tuple[str, int]], instead: Mapping[str, str] = NOTHING) -> str:
    """What to change so that a node fits; empty if the reasons do not say. `instead`: other words for a fix."""
    found = [fix for start, fix in _FIXES if any(start in reason for reason, _ in reasons[:_REASONS])][:_MOST_FIXES]
    return " or ".join(instead.get(fix, fix) for fix in found)


_MOST_FIXES: Final = 2


def node_of(pod: Pod) -> str:
    """The one node that a daemon's pod is for; empty for other pods."""
    required = pod.spec.node_affinity.required
    named = {name for term in required.terms for name in term.names or ("", " ")} if required else set()
    return named.pop() if len(named) == 1 else ""


def victims_of(predictions: tuple[Prediction, ...]) -> list[Pod]:
    """Everybody who would have to go, most important first."""
    found = {victim.identity: victim for prediction in predictions for victim in prediction.victims}
    by_priority: dict[int, list[Pod]] = {}
    for victim in found.values():
        by_priority.setdefault(-(victim.priority or 0), []).append(victim)
    ordered: list[Pod] = []
    for priority in sorted(by_priority):
        pods = by_priority[priority]
        # Nobody is told the names of more than a few: thousands need not be in order.
        ordered += sorted(pods, key=lambda pod: pod.key) if len(pods) <= _ORDERED else _first_few(pods)
    return ordered


def _first_few(pods: list[Pod]) -> list[Pod]:
    """The pods, those in front that come first by name."""
    first = nsmallest(_NAMED, pods, key=lambda pod: pod.key)
    named = {id(pod) for pod in first}
    return [*first, *(pod for pod in pods if id(pod) not in named)]


def of_new_pods(count: int, impact: Impact, audience: Audience = OPEN) -> str:
    """The subject of a sentence, with a space behind it: `1 of 3 new Pods `; empty if there is only one new Pod.

    `some new Pods ` for a reader of ranges.
    """
    if impact.new == 1:
        return ""
    if count == impact.new:
        return "both new Pods " if count == 2 and not audience.coarse else _all_of(count, audience)
    return "some new Pods " if audience.coarse else f"{count} of {impact.new} new Pods "


def _all_of(count: int, audience: Audience) -> str:
    return "all new Pods " if audience.coarse else f"all {count} new Pods "


def on_nodes(predictions: tuple[Prediction, ...], audience: Audience) -> str:
    """` on node-1`: the nodes with the victims; ` on node-1 or node-2` if several tie for one Pod.

    Empty for a reader who may not see everything: the name of a node shows where others run.
    """
    return f" on {_nodes_of(predictions)}" if audience.sees_all else ""


def _nodes_of(predictions: tuple[Prediction, ...]) -> str:
    if len(predictions) == 1 and len(predictions[0].best_nodes) > 1:
        tied = predictions[0].best_nodes
        return " or ".join(tied) if len(tied) <= 2 else f"{tied[0]} or {plural(len(tied) - 1, 'other node')}"
    nodes = sorted({prediction.nominated_node for prediction in predictions})
    if any(prediction.may_be_elsewhere for prediction in predictions[:_SHOWN]):
        return f"{', '.join(nodes[:2])} or {'others' if len(nodes) > 1 else 'another node'}"
    return listed(nodes, 2)


def victims_text(
    head: str,
    predictions: tuple[Prediction, ...],
    victims: Sequence[Pod],
    audience: Audience,
    facts: Sequence[str] = (),
    noun: str = "Pod",
) -> str:
    """`HEAD 2 Pods on node-1: batch/a, batch/b (priority 0, 30s grace)`.

    Names are left out until the message is short enough; if one name is too long, the facts become a sentence of their
    own. Victims that the reader may not be told of are counted. `possibly` where chance decides who is a victim.
    """
    told = [victim for victim in victims if audience.is_told_of(victim.namespace)]
    others = [victim for victim in victims if not audience.is_told_of(victim.namespace)]
    names = [victim.key for victim in told[:_NAMED]]
    start = f"{head} {counted(len(victims), noun, audience)}{on_nodes(predictions, audience)}"
    listed_facts = ", ".join((priority_band(victims, audience), *facts))
    behind, sentence = f" ({listed_facts})", f". {listed_facts[:1].upper()}{listed_facts[1:]}"
    if not told:
        start = f"{start}{of_namespaces(others, audience)}"
        return f"{start}{behind if len(start) + len(behind) <= MOST_CHARACTERS else sentence}"
    possibly = audience.coarse or any(prediction.may_be_others for prediction in predictions[:_SHOWN])
    before = f"{start}: {'possibly ' if possibly else ''}"
    after = f", {counted(len(others), 'Pod', audience)}{of_namespaces(others, audience)}" if others else ""
    first = names[0] if len(told) == 1 else f"{names[0]} and {len(told) - 1} more"
    if len(before) + len(first) + len(after) + len(behind) <= MOST_CHARACTERS:
        return naming(before, names, len(told), after + behind, _NAMED)
    return f"{naming(before, names, len(told), after, _NAMED)}{sentence}"


class Recall(Protocol):
    """Gives the impact of a subject on a cluster: one that is known already, or what is worked out now."""

    def __call__(
        self, subject: ReviewedObject, cluster: ClusterSnapshot, work_out: Callable[[], Impact | None], /
    ) -> Impact | None:
        """The impact; None where nothing new comes."""


def worked_out(_: ReviewedObject, _cluster: ClusterSnapshot, work_out: Callable[[], Impact | None], /) -> Impact | None:
    """The `recall` of who remembers nothing."""
    return work_out()


class Predicted:
    """The impacts of one apply, in its order: each subject sees the pods of those before it."""

    def __init__(self, context: Context, recall: Recall | None = None, aftermath: bool = True) -> None:
        """`recall`: for an apply of one subject alone, as impacts depend on what comes before. `aftermath`: whether it
        is asked for."""
        self._aftermath = aftermath
        self._context, self._recall = context, recall or worked_out
        self._impacts: dict[int, Impact | None] = {}

    def of(self, subject: ReviewedObject) -> Impact | None:
        """What a subject's new pods do to running ones; None where no nodes are known or nothing new comes."""
        cluster = self._context.cluster
        if cluster is None or not cluster.objects.nodes:
            return None
        for other in self._context.change_set.subjects:
            if id(other) not in self._impacts:
                self._impacts[id(other)] = self._recall(other, cluster, partial(self._work_out, other))
            if other is subject:
                break
        return self._impacts.get(id(subject))

    @property
    def found(self) -> tuple[Impact, ...]:
        """The impacts that have been worked out so far, in the order of the apply."""
        return tuple(impact for impact in self._impacts.values() if impact is not None)

    def _work_out(self, subject: ReviewedObject) -> Impact | None:
        return self._forecast.of(subject, self._let_in(subject))

    def _let_in(self, subject: ReviewedObject) -> int | None:
        """How many of its new pods quotas let in, None where they let in all."""
        if not self._context.has_quotas(subject) and not self._context.options.limited_resources:
            return None
        from policies.rules.support.quota_use import quota_use_of

        return quota_use_of(self._context).let_in(subject)

    @cached_property
    def _forecast(self) -> Forecast:
        context = self._context
        assert context.cluster_to_be is not None
        past_limit_ranger = context.phase is Phase.VALIDATE
        paths = context.options.pod_template_paths
        return Forecast(
            context.cluster_to_be,
            paths,
            context.expired,
            pods_defaulted=past_limit_ranger,
            aftermath=self._aftermath,
            quotas_of=partial(_quotas_after, context),
            stored_quotas=len(context.change_set.subjects) == 1
            and not (context.defines_quotas or context.options.limited_resources),
        )


def _quotas_after(context: Context, subject: ReviewedObject, namespace: str) -> Sequence[ResourceQuota]:
    """A namespace's quotas once this subject's pods have come. No method, which would hold whoever holds it."""
    if not context.defines_quotas and not (context.cluster and context.cluster.quotas_of(namespace)):
        return ()
    from policies.rules.support.quota_use import quota_use_of

    return quota_use_of(context).after(subject, namespace)


def predicted_of(context: Context) -> Predicted:
    """The impacts of the apply that is judged."""
    return context.once(Predicted)
