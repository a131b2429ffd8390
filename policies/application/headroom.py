"""Count the replicas of Pods and workloads that still fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.application.cluster import Cluster, autoscaling_for, snapshot_of
from forewarn.policies.application.manifests import Manifest, with_manifests
from forewarn.policies.application.places import Places, Rejected, refs_of
from forewarn.policies.cluster.cache import AnswerHead, ClusterSnapshot, head_of
from forewarn.policies.documents import Inlined, to_dict
from forewarn.policies.findings import cut, described, one_line
from forewarn.policies.objects.fields import ApiObject, at, check_numbers, check_one_of
from forewarn.policies.options import Options
from forewarn.policies.sources.cluster import objects_of
from forewarn.policies.sources.files import SourceError
from forewarn.policies.whatif.capacity_buffers import Buffers, CapacityBuffers
from forewarn.policies.whatif.headroom import Headroom
from forewarn.policies.whatif.headroom import headroom as headroom_of
from forewarn.policies.whatif.placeholders import Placeholders, placeholders
from forewarn.policies.whatif.questions import workloads_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.whatif.autoscalers import Autoscaling

_LONG: Final = 200


@dataclass(frozen=True, slots=True)
class HeadroomRequest:
    """Manifests of Pods and workloads, or a workload of the cluster.

    `namespace`: namespace of objects that name none. `workload`: `KIND/NAME`, instead of manifests. `placeholders`: the
    number of Pods that must start without waiting for new nodes. `autoscaling`: settings of autoscalers (default: those
    of the cluster). `options`: those of rules, which select placeholder Pods.
    """

    manifests: Manifest | Sequence[Manifest] = ()
    namespace: str = "default"
    placeholders: int | None = None
    autoscaling: Autoscaling | None = None
    workload: str = ""
    options: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True, repr=False)
class ObjectHeadroom:
    """The headroom for one object."""

    headroom: Inlined[Headroom]
    placeholders: Placeholders | None = None
    capacity_buffers: Buffers | None = None

    def __repr__(self) -> str:
        return described(self, repr(self.headroom))


class HeadroomLine(NamedTuple):
    """A line of `forewarn headroom`: one object.

    `placeholders`: with `--placeholders`. `capacityBuffers`: if the cluster has CapacityBuffers. `notCounted`: the
    objects that are left out because of errors.
    """

    head: AnswerHead
    object: Inlined[ObjectHeadroom]
    not_counted: Sequence[str] = ()


@dataclass(frozen=True, slots=True, repr=False)
class HeadroomResult:
    """The headroom for each object; of several Pods of a PodGroup, only for the first.

    `faults`: errors of the objects that are left out.
    """

    head: AnswerHead
    cluster: ClusterSnapshot
    objects: Sequence[ObjectHeadroom]
    faults: Sequence[Exception] = ()

    def __repr__(self) -> str:
        return described(self, "; ".join(map(repr, self.objects)))

    def least(self, *, preempting: bool = False) -> Headroom:
        """The headroom of the object of which the fewest replicas fit. `preempting`: with preemption."""
        return min((obj.headroom for obj in self.objects), key=lambda headroom: headroom.more[preempting])

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield a JSON object for each object."""
        yield from (to_dict(HeadroomLine(self.head, obj, refs_of(self.faults))) for obj in self.objects)


def headroom(
    cluster: Cluster | ClusterSnapshot,
    request: HeadroomRequest | Manifest | Sequence[Manifest],
    buffers: CapacityBuffers | None = None,
) -> HeadroomResult:
    """Count the replicas that fit. `request`: a HeadroomRequest, or its manifests alone.

    `buffers`: the CapacityBuffers of the cluster. Raises SourceError and InvalidObject.
    """
    if not isinstance(request, HeadroomRequest):
        request = HeadroomRequest(request)
    check_numbers(0, placeholders=request.placeholders)
    check_one_of(workload=request.workload, manifests=request.manifests)
    autoscaling = autoscaling_for(cluster, request.autoscaling)
    cluster, places, buffers = snapshot_of(cluster), Places(), buffers or CapacityBuffers()
    faults = list[Exception]()
    with places.locating():
        if request.workload:
            objects: Sequence[ApiObject] = workloads_of(cluster, [request.workload], request.namespace)
        else:
            objects, cluster = with_manifests(cluster, request.manifests, request.namespace, places, faults)
        faults = [places.located(fault) for fault in faults]
        if not objects:
            raise Rejected(faults)
        objects = _one_of_each_group(objects)
        rooms = [headroom_of(cluster, obj, autoscaling) for obj in objects]
        rooms = [room._replace(notes=[*room.notes, buffers.note]) for room in rooms] if buffers.note else rooms
        results = []
        for obj, room in zip(objects, rooms, strict=True):
            own = buffers.of(obj, request.placeholders)
            buffered, reserve = own.provisioned if own else 0, None
            if wanted := request.placeholders:
                reserve = placeholders(cluster, obj, room, wanted, request.options, autoscaling.cutoff, buffered)
            results.append(ObjectHeadroom(room, reserve, own))
    head = head_of(cluster, (clause for room in rooms for clause in room.assumes))
    return HeadroomResult(head, cluster, results, faults)


def _one_of_each_group(objects: Sequence[ApiObject]) -> list[ApiObject]:
    """Return the objects, with only the first of several Pods of a PodGroup."""
    groups: dict[object, ApiObject] = {}
    for number, obj in enumerate(objects):
        name = at(obj, "spec", "schedulingGroup", "podGroupName")
        groups.setdefault((at(obj, "metadata", "namespace"), name) if isinstance(name, str) else number, obj)
    return list(groups.values())


def read_buffers(sources: Sequence[str], buffers: CapacityBuffers) -> CapacityBuffers:
    """Add the CapacityBuffers of running clusters, or the note that they cannot be read."""
    try:
        for source in sources:
            for obj in objects_of(source, "capacity_buffers"):
                buffers.collect(obj)
    except SourceError as fault:
        buffers.note = f"CapacityBuffers not read: {cut(one_line(str(fault)), _LONG)}"
    return buffers
