"""The accuracy of predictions: compares the prediction for an admitted Pod with kube-scheduler's decision.

A prediction is compared with kube-scheduler's first decision about the Pod: bind it, nominate a node (and preempt other
Pods there), or report it as unschedulable. This includes Pods of controllers. Predictions for workloads, and for Pods
without a controller, are compared with the end of the rollout (webhook.workload_accuracy).

A difference is explained if objects that predictions read changed between prediction and decision, otherwise wrong.
Without a decision, the result is unknown.

Memory is bounded: the number of predictions at a time (the oldest is dropped), of names in each, of changes and of
examples.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import socketserver
import stat
import tempfile
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from itertools import takewhile
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.documents import to_dict
from forewarn.policies.base.findings import listed
from forewarn.policies.kubernetes.kinds.registry import DISRUPTION_BUDGET, KINDS, POD, SERVICE
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, at, items, sequence
from forewarn.policies.kubernetes.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.kubernetes.scheduling.preemption import rank_of
from forewarn.webhook import workload_accuracy

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
    from forewarn.policies.prediction.forecast.impact import Impact
    from forewarn.webhook.workload_accuracy import AccuracyExample, WorkloadTable

_MAX_LENGTH: Final = 64
FITS, PREEMPTS, PENDING = "fits", "preempts", "pending"


class Outcome(StrEnum):
    """The outcome of a prediction, as a label of metrics. SKIPPED: the queue was too long."""

    NO_PREEMPTION = "no-preemption"
    PREEMPTS = "preempts"
    PENDING = "pending"
    NOT_PREDICTED = "not-predicted"
    INCOMPLETE = "incomplete"
    SKIPPED = "skipped"


NAMED: Final = 32
"""Maximum number of nodes or victims of a prediction that are recorded; if there are more, they are not compared."""
VOLUMES: Final = 64
"""Maximum number of volumes of a followed Pod; with more volumes, the check would exceed the deadline."""


class Victim(NamedTuple):
    """A victim of preemption. `key`: namespace and name. `rank`: see `rank_of`."""

    uid: str
    key: str
    rank: tuple[int, ...]


class Expectation(NamedTuple):
    """The prediction for one Pod, in plain values that can be pickled.

    `nodes`: the possible nodes; empty if nodes are not compared. `victims`: the victims on `node`, if only one node is
    possible; None if victims are not compared. `whole`: the prediction for the end of the rollout; None for a
    controller's Pod.
    """

    uid: str
    outcome: str
    nodes: tuple[str, ...] = ()
    node: str = ""
    victims: tuple[Victim, ...] | None = None
    whole: workload_accuracy.WorkloadExpectation | None = None

    def __str__(self) -> str:
        nodes = self.nodes or ((self.node,) if self.node else ())
        more = [f"{len(nodes) - 3} more"] if len(nodes) > 3 else []
        return summary_of(self.outcome, " or ".join([*nodes[:3], *more]), self.victims or ())


class Act(NamedTuple):
    """kube-scheduler's first decision on a Pod."""

    outcome: str
    node: str = ""


def expectation_of(
    subject: ReviewedObject, impact: Impact | None
) -> Expectation | workload_accuracy.WorkloadExpectation | None:
    """Return the values of a prediction for a later comparison; None without a prediction, or if it cannot be
    compared.

    Only reads what the response has already computed.
    """
    if impact is None:
        return None
    is_pod = subject.object.get("kind") == "Pod"
    if is_pod and subject.operation is not Operation.CREATE:
        return None
    whole: workload_accuracy.WorkloadExpectation | None = None
    with suppress(InvalidObject):
        whole = workload_accuracy.workload_expectation_of(subject, impact)
    first = _pod_expectation(subject, impact) if is_pod else None
    return whole if first is None else first._replace(whole=whole)


def _pod_expectation(subject: ReviewedObject, impact: Impact) -> Expectation | None:
    uid = at(subject.object, "metadata", "uid")
    if not isinstance(uid, str) or not 0 < len(uid) <= _MAX_LENGTH or len(impact.predictions) != 1 or impact.new != 1:
        return None
    prediction = impact.predictions[0]
    volumes = sequence(subject.object, "spec", "volumes")
    if len(volumes) > VOLUMES or any(at(volume, "ephemeral") is not None for volume in volumes):
        return None
    # imports numpy, which a prediction has loaded already
    from forewarn.policies.kubernetes.scheduling.find_nodes import MIN_FEASIBLE_NODES

    # On larger clusters, kube-scheduler evaluates a random part of the nodes, so the node is not compared.
    small = len(prediction.snapshot.node_infos) <= MIN_FEASIBLE_NODES
    if prediction.outcome == FITS:
        feasible = prediction.feasible if small else ()
        return Expectation(uid, FITS, tuple(feasible) if len(feasible) <= NAMED else ())
    if prediction.outcome == PREEMPTS:
        return _preemption(uid, prediction, small)
    return Expectation(uid, PENDING) if prediction.outcome == PENDING else None


def _preemption(uid: str, prediction: Prediction, small: bool) -> Expectation:
    nodes = tuple(prediction.best_nodes) if small else ()
    going = [victim for victim in prediction.victims if not (victim.terminating or victim.preempted)]
    victims = tuple(Victim(v.identity, v.key, rank_of(v)) for v in going) if len(going) <= NAMED else None
    return Expectation(uid, PREEMPTS, nodes if len(nodes) <= NAMED else (), prediction.nominated_node, victims)


def act_of(pod: ApiObject) -> Act | None:
    """Return kube-scheduler's decision, read from the stored Pod; None before a decision. Raises InvalidObject.

    Source: pkg/scheduler/schedule_one.go, `handleSchedulingFailure`: one patch sets the condition and the nominated
    node. A nominated node without the condition is the node of a binding in progress
    (NominatedNodeNameForExpectation).
    """
    node, nominated = at(pod, "spec", "nodeName"), at(pod, "status", "nominatedNodeName")
    if node:
        return Act(FITS, str(node))
    for condition in items(pod, "status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            if condition.get("reason") != "Unschedulable":
                return None
            return Act(PREEMPTS, str(nominated)) if nominated else Act(PENDING)
    return Act(FITS, str(nominated)) if nominated else None


def differs(expected: Expectation, act: Act, victims: Iterable[Victim]) -> bool:
    """Report whether the decision differs from the prediction. `victims`: those on the node of the decision."""
    if act.outcome != expected.outcome or (expected.nodes and act.node not in expected.nodes):
        return True
    if expected.outcome != PREEMPTS or expected.victims is None or act.node != expected.node:
        return False
    return sorted(v.rank for v in victims) != sorted(v.rank for v in expected.victims)


def summary_of(outcome: str, where: str, victims: Iterable[Victim]) -> str:
    """Return an outcome as a phrase, for example `stays Pending`."""
    if outcome == FITS:
        return f"runs on {where}" if where else "runs"
    if outcome == PENDING:
        return "stays Pending"
    return f"preempts {listed(sorted(v.key for v in victims)) or 'no Pod'} on {where}"


FOLLOWED: Final = 1024
"""Maximum number of predictions that are followed at a time."""
CHANGES: Final = 4096
SETTLING: Final = 5.0
"""Seconds after kube-scheduler's decision, to receive the deletion of victims and events of other kinds."""
PATIENCE: Final = 300.0
"""Seconds after which a prediction is no longer followed."""
_READ: Final = frozenset({POD, *(spec.group_kind for spec in KINDS if spec.table)} - {SERVICE})
"""Kinds that determine on which nodes a Pod fits. Services and workloads only affect scores."""


class _Change(NamedTuple):
    at: float
    kind: str
    uid: str
    what: str


class _Followed:
    """A prediction without a result. `since`: time of the request. `placed`: whether the cache has the decision."""

    __slots__ = ("act", "acted", "expected", "placed", "pod", "since")

    def __init__(self, expected: Expectation, since: float) -> None:
        self.expected, self.since = expected, since
        self.act: Act | None = None
        self.acted = 0.0
        self.placed = False
        self.pod = ""


class AccuracyTable(NamedTuple):
    """The output of `forewarn webhook accuracy`.

    `results`: number of Pods by result (see the label `result` in the reference of metrics). `open`: number of
    predictions without a result yet. `not_compared`: number of predictions that forewarn cannot compare. `examples`:
    the last 20 of each differing result, newest first. `workloads`: the same for workloads and Pods without a
    controller.
    """

    results: Mapping[str, int]
    open: int
    not_compared: int
    examples: Sequence[AccuracyExample]
    workloads: WorkloadTable


class Accuracy:
    """Follows predictions until their result is known. Safe from any thread.

    `count`: called with each result, one for each prediction of `expect`. `count_workload`: the same for workloads.
    `clock`: monotonic time. `wall`: seconds since 1970.
    """

    def __init__(
        self,
        count: Callable[[str], object] = lambda _: None,
        clock: Callable[[], float] = monotonic,
        wall: Callable[[], float] = lambda: datetime.now(UTC).timestamp(),
        count_workload: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._results, self._clock = workload_accuracy.Results("pod", workload_accuracy.RESULTS, count, wall), clock
        self._workloads = workload_accuracy.WorkloadAccuracy(count_workload, lambda: self._clock(), wall)
        self._lock = Lock()
        self._waiting: OrderedDict[str, _Followed] = OrderedDict()
        self._decided: OrderedDict[str, _Followed] = OrderedDict()
        self._changes: deque[_Change] = deque(maxlen=CHANGES)
        self._forgotten = float("-inf")
        """Time of the latest change that was removed from memory."""
        self._not_compared = 0

    def expect(self, expected: Expectation | workload_accuracy.WorkloadExpectation | None, since: float) -> bool:
        """Follow the prediction for an admitted object; None counts a prediction that cannot be followed.

        Returns False if the object is not followed. A Pod is followed once: by the first prediction.
        """
        with self._lock:
            if isinstance(expected, workload_accuracy.WorkloadExpectation):
                self._workloads.expect(expected, since)
                if expected.key[1] != "Pod":
                    return True
                expected = None
            if expected is None:
                self._not_compared += 1
                return False
            if expected.uid in self._waiting or expected.uid in self._decided:
                return False
            if expected.whole is not None:
                self._workloads.expect(expected.whole, since)
            self._waiting[expected.uid] = _Followed(expected, since)
            if len(self._waiting) > FOLLOWED:
                self._waiting.popitem(last=False)
                self._results.end(workload_accuracy.UNKNOWN)
            return True

    def changed(self, kind: str, before: Any, after: Any) -> None:
        """Record that an object in the cluster state changed, in the order of changes.

        `before`: None if created. `after`: None if deleted.
        """
        with self._lock:
            self._workloads.changed(kind, before, after)
            if kind not in _READ or before == after:
                return
            if kind == POD:
                self._pod_changed(before, after, self._clock())
            else:
                self._note(_Change(self._clock(), kind, "", kind.rpartition("/")[2]))

    def seen(self, pod: ApiObject, deleted: bool) -> None:
        """Record a Pod event of a watch, after `changed` has recorded the change. `deleted`: the Pod was deleted."""
        uid = at(pod, "metadata", "uid")
        with self._lock:
            followed = self._waiting.get(uid) if isinstance(uid, str) else None
            if followed is not None:
                followed.pod = f"{at(pod, 'metadata', 'namespace')}/{at(pod, 'metadata', 'name')}"
                act: Act | None = None
                with suppress(InvalidObject):
                    act = act_of(pod)
                if act is not None:
                    self._acted(followed, act)
                elif deleted:
                    del self._waiting[followed.expected.uid]
                    self._results.end(workload_accuracy.UNKNOWN)
            self._settle()

    def settle(self) -> None:
        """Determine the results of predictions whose waiting time is over."""
        with self._lock:
            self._workloads.settle()
            self._settle()

    def table(self) -> dict[str, Any]:
        """Return the results so far as JSON."""
        with self._lock:
            workloads = self._workloads.table()
            self._settle()
            number, examples = len(self._waiting) + len(self._decided), self._results.examples()
            return to_dict(AccuracyTable(self._results.counts, number, self._not_compared, examples, workloads))

    def _pod_changed(self, before: Pod | None, after: Pod | None, now: float) -> None:
        pod = after or before
        assert pod is not None
        if not (_has_node(before) or _has_node(after)):
            return  # a Pod that stays Pending does not affect others
        followed = self._waiting.get(pod.uid)
        if followed is not None:
            if followed.placed:  # read from a list, so the decision itself was not observed
                del self._waiting[pod.uid]
                self._results.end(workload_accuracy.UNKNOWN)
            followed.placed = True
        self._note(_Change(now, POD, pod.identity, f"Pod {pod.key}"))

    def _note(self, change: _Change) -> None:
        if len(self._changes) == CHANGES:
            self._forgotten = self._changes[0].at
        self._changes.append(change)

    def _acted(self, followed: _Followed, act: Act) -> None:
        expected = followed.expected
        del self._waiting[expected.uid]
        followed.act, followed.acted = act, self._clock()
        if act.outcome == PREEMPTS or differs(expected, act, ()):
            self._decided[expected.uid] = followed
            if len(self._decided) > FOLLOWED:
                self._compare(self._decided.popitem(last=False)[1])
        else:
            self._results.end(workload_accuracy.MATCHED)

    def _settle(self) -> None:
        now = self._clock()
        while self._decided and next(iter(self._decided.values())).acted <= now - SETTLING:
            self._compare(self._decided.popitem(last=False)[1])
        while self._waiting and next(iter(self._waiting.values())).since <= now - PATIENCE:
            self._waiting.popitem(last=False)
            self._results.end(workload_accuracy.UNKNOWN)

    def _compare(self, followed: _Followed) -> None:
        expected, act = followed.expected, followed.act
        assert act is not None
        victims = self._victims(act.node, followed.since) if act.outcome == PREEMPTS else []
        if not differs(expected, act, victims):
            self._results.end(workload_accuracy.MATCHED)
            return
        change = self._change_between(followed, {expected.uid, *(v.uid for v in victims)})
        happened = summary_of(act.outcome, act.node, victims)
        self._results.differ(followed.pod, str(expected), happened, change)

    def _victims(self, node: str, since: float) -> list[Victim]:
        """Return the Pods on a node that kube-scheduler has preempted since a time."""
        recent = takewhile(lambda preempted: preempted.at >= since, reversed(self._workloads.preempted))
        return [Victim(each.uid, each.victim.key, each.rank) for each in recent if each.node == node]

    def _change_between(self, followed: _Followed, own: set[str]) -> str:
        """Return the last change between the prediction and the decision; "" without one.

        `own`: uids of objects whose changes do not count. Changes after the decision also count, because events can
        arrive late. Changes of PodDisruptionBudgets do not, because evictions cause them.
        """
        since = followed.since - workload_accuracy.LAG
        for change in reversed(self._changes):
            if change.at < since:
                return ""
            after = change.at > followed.acted
            if change.uid not in own and not (after and change.kind == DISRUPTION_BUDGET):
                return change.what
        return "more than is remembered" if self._forgotten >= since else ""


def _has_node(pod: Pod | None) -> bool:
    return pod is not None and not pod.terminal and bool(pod.node_name or pod.nominated_node_name)


MAX_TABLE: Final = 1024 * 1024
_SECONDS: Final = 5.0


_MAX_ADDRESS_LENGTH: Final = 107
"""The maximum number of bytes in the path of a Unix socket."""


def path_of(port: int) -> Path:
    """Return the socket of the webhook with this health port, in a private directory. The directory is in `/tmp` if the
    path of another temporary directory is too long.
    """
    name = f"forewarn-{os.geteuid()}-{port}/accuracy"
    paths = [Path(directory, name) for directory in (tempfile.gettempdir(), "/tmp")]
    return next((path for path in paths if len(os.fsencode(path)) <= _MAX_ADDRESS_LENGTH), paths[-1])


def _check_private(directory: Path) -> None:
    """Raise OSError if another user can enter the directory, or replace it."""
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PermissionError(errno.EACCES, "not a directory that only this user can enter", str(directory))


def serve_table(port: int, table: Callable[[], Any]) -> Callable[[], None]:
    """Answer each connection with the table as JSON; return a function that stops this. Raises OSError."""
    path = path_of(port)
    with suppress(FileExistsError):  # a killed process left it behind
        path.parent.mkdir(0o700)
    _check_private(path.parent)
    path.unlink(missing_ok=True)

    class Answer(socketserver.StreamRequestHandler):
        timeout = _SECONDS

        def handle(self) -> None:
            self.wfile.write(json.dumps(table()).encode())

    server = _Server(str(path), Answer)
    Thread(target=server.serve_forever, name="accuracy", daemon=True).start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        with suppress(OSError):
            path.unlink()
            path.parent.rmdir()

    return stop


def request_table(port: int) -> bytes:
    """Return at most MAX_TABLE bytes of the table. Raises OSError."""
    path = path_of(port)
    _check_private(path.parent)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_SECONDS)
        connection.connect(str(path))
        with connection.makefile("rb") as parts:
            return parts.read(MAX_TABLE)


class _Server(socketserver.UnixStreamServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that disconnects."""
