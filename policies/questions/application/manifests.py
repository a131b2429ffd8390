"""The manifests of a question: the new Pods and workloads, and the cluster with the other objects of the same apply."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.inputs.manifests.object_finder import NO_KIND
from forewarn.policies.inputs.manifests.reading import UNUSABLE, Reading, only_found, read
from forewarn.policies.inputs.sources.files import File, PathLike, SourceError, find_files, fspath, read_file
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, decoded, key_of
from forewarn.policies.kubernetes.controllers.applied import later_quotas, with_applied
from forewarn.policies.kubernetes.controllers.own_pods import check_template
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kinds.class_paths import CREATORS
from forewarn.policies.kubernetes.kube_apiserver.validation.decode import Plain, Struct, decode_fault, unknown_fields
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    ApiObject,
    InvalidInput,
    InvalidObject,
    group_kind,
    int32,
    mapping,
    ref_of,
)
from forewarn.policies.kubernetes.objects.workload import applied_to
from forewarn.policies.linting.rules.file import advice
from forewarn.policies.prediction.simulation.scenario import Arrival, bounded
from forewarn.policies.questions.application.places import API_OBJECT, Places, Rejected
from forewarn.policies.questions.application.simulated import (
    checked,
    is_deleted_first,
    is_valid,
    rejected,
    with_classes,
)
from forewarn.policies.questions.whatif.questions import Rescaling, rescaled

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject

Read = str | File | Mapping[str, Any]
Manifest = Read | PathLike[str]
"""A path (file, directory, or `-`), a file in memory, or an API object."""


def given_manifests(manifests: Manifest | Sequence[Manifest]) -> Sequence[Read]:
    """Return the manifests as a sequence. Raises InvalidInput if there are none."""
    if not (given := manifests_of(manifests)):
        raise InvalidInput("no manifest given", fix="pass a path or an API object")
    return given


def manifests_of(manifests: Manifest | Sequence[Manifest]) -> Sequence[Read]:
    """Return the manifests as a sequence, and paths as text."""
    several = [manifests] if isinstance(manifests, str | PathLike | File | Mapping) else manifests
    return [fspath(each) if isinstance(each, PathLike) else each for each in several]


def files_of(manifests: Iterable[Read]) -> Iterator[File]:
    """Yield the files of all paths, and a file for each API object. Raises InvalidInput for other values."""
    for manifest in manifests:
        if isinstance(manifest, File):
            yield manifest
        elif isinstance(manifest, str):
            yield from find_files([manifest])
        else:
            if not group_kind(manifest):
                raise InvalidInput("an API object has no apiVersion and kind", fix="set both")
            yield File("", called=API_OBJECT, data=json.dumps(manifest).encode())


def reading_of(file: File, wanted: Collection[str], namespace: str, faults: list[Exception] | None = None) -> Reading:
    """The objects of a file. `wanted`: their `group/Kind`. `faults`: collects the errors of single documents; None:
    raise the first. Raises SourceError if the file is unreadable.
    """
    reading = read(read_file(file), file.name, frozenset(wanted), namespace=namespace)
    for diagnostic in reading.diagnostics:
        if diagnostic.rule in UNUSABLE:
            if not file.path:
                raise InvalidInput(diagnostic.message)
            where = diagnostic.location
            _collect(faults, [SourceError(where.file, diagnostic.to_line, where.line)])
    return reading


def applied(
    manifests: Iterable[Read],
    namespace: str,
    places: Places,
    cluster: ClusterSnapshot | None = None,
    *,
    strict: bool = True,
    others: list[ApiObject] | None = None,
) -> Iterator[Arrival]:
    """Yield the objects of manifests as arrivals at time 0; workloads of `cluster` keep their other fields.

    `places` records the objects' positions. `strict`: as for `check_decodes`. `others`: gets the objects of Kueue
    and HorizontalPodAutoscalers, which are skipped otherwise.

    Raises SourceError; InvalidObject if a Pod template or number of replicas is invalid; Rejected if several errors are
    found.
    """
    faults = list[Exception]()
    for manifest in manifests:
        skipped, count = Counter[str](), 0
        for file in files_of([manifest]):
            kinds = (registry.NODE, *registry.LINTED, *registry.POD_TEMPLATE_PATHS)
            wanted = kinds if others is None else (*kinds, *_OTHERS)
            subjects = _subjects(file, wanted, namespace, places, skipped, faults)
            for obj in _decoded(subjects, faults, strict=strict):
                count += 1
                if others is not None and group_kind(obj) in _OTHERS:
                    others.append(obj)
                    continue
                try:
                    check_template(obj, cluster)
                    int32(obj, "spec", "replicas")
                except InvalidObject as fault:
                    faults.append(fault)
                else:
                    yield from arrivals_of(cluster, obj) if cluster else (Arrival(0.0, "create", bounded(obj)),)
        if not (count or faults) and (left_out := places.left_out):
            raise Rejected(left_out)
        if not (count or faults):
            events = "; pass a list of events with whatif events --events" if [*skipped] == [NO_KIND] else ""
            raise _nothing([manifest], f"no object that can be simulated{only_found(skipped)}", events)
    if faults:
        raise Rejected([*map(places.located, faults)]) if faults[1:] else faults[0]


def _subjects(
    file: File,
    wanted: Collection[str],
    namespace: str,
    places: Places,
    skipped: Counter[str],
    faults: list[Exception] | None,
) -> Iterator[ReviewedObject]:
    """Yield the wanted objects of a file, and record their positions, and the objects that create others. `skipped`:
    counts the other ones. `faults`: see `reading_of`. Raises SourceError.
    """
    reading = reading_of(file, (*wanted, *CREATORS), namespace, faults)
    skipped.update(reading.skipped)
    for subject in reading.subjects:
        if group_kind(subject.object) in CREATORS:
            places.leave_out(subject)
        else:
            places.add(subject)
            yield subject


_APPLY: Final = "use `forewarn whatif apply`"
_NOT_FOLLOWED: Final = f"; this is not predicted. Fix: {_APPLY}"
_RECREATED: Final = "a tool deletes and recreates the workload"
_TEXT: Final = Plain("string", "string")
_IDENTITY: Final = Struct("ObjectMeta", dict.fromkeys(("name", "generateName", "namespace"), _TEXT))


def check_decodes(subject: ReviewedObject, *, strict: bool = True) -> None:
    """Raise InvalidObject if kube-apiserver cannot decode a name, such as an unquoted boolean of YAML.

    `strict`: also for a field that no supported release has, as for `kubectl apply`.
    """
    obj = subject.object
    fault = decode_fault(obj, Struct(str(obj.get("kind")), {"metadata": _IDENTITY}))
    if fault is not None:
        raise InvalidObject(fault.text, fault.path, subject.ref, fault.fix)
    version, kind = obj.get("apiVersion"), obj.get("kind")
    if strict and (removed := registry.removed_version(version, kind)) is not None:
        raise InvalidObject(removed.problem(version, kind), ("apiVersion",), subject.ref, removed.fix)
    for unknown in unknown_fields(obj) if strict else ():
        _, hint, _ = advice(unknown, obj)
        raise InvalidObject(f"unknown field: kubectl rejects it{hint}", unknown.path, subject.ref)


def arrivals_of(cluster: ClusterSnapshot, obj: ApiObject, before: ApiObject = NOTHING) -> Iterator[Arrival]:
    """Yield the apply of an object; a workload of the cluster keeps the fields that only the cluster has.

    A workload with changed immutable fields that Argo CD or Flux recreates is deleted first. `before`: the previous
    manifest. Raises ValueError for too many Pods.
    """
    if is_deleted_first(cluster, obj):
        yield from (Arrival(0.0, "delete", obj), Arrival(0.0, "create", bounded(obj)))
    else:
        yield Arrival(0.0, "create", bounded(_as_stored(cluster, obj, before)))


def _as_stored(cluster: ClusterSnapshot, obj: ApiObject, before: ApiObject = NOTHING) -> ApiObject:
    ref = ref_of(obj, registry.DEFAULT_NAMESPACE)
    stored = cluster.workload(group_kind(obj), ref.namespace, ref.name)
    return obj if stored is None else applied_to(stored.object, obj, before)


def with_manifests(
    cluster: ClusterSnapshot,
    manifest: Manifest | Sequence[Manifest],
    namespace: str,
    places: Places,
    faults: list[Exception] | None = None,
) -> tuple[list[ApiObject], ClusterSnapshot]:
    """Return the Pods and workloads of the manifests as an apply stores them, and the cluster with their other objects.

    `places`: records the positions of objects. `faults`: collects errors of single files or objects, so that the others
    are still read; None: raise the errors. Leaves out objects that the Priority plugin rejects. Raises SourceError if
    nothing is found or readable, and InvalidObject.
    """
    in_order = list[ApiObject]()
    skipped, manifests = Counter[str](), given_manifests(manifest)
    for file in files_of(manifests):
        try:
            wanted = (*registry.LINTED, *registry.POD_TEMPLATE_PATHS, *_OTHERS)
            subjects = _subjects(file, wanted, namespace, places, skipped, faults)
            in_order += map(partial(_as_stored, cluster), _decoded(subjects, faults))
        except (SourceError, InvalidObject) as fault:
            _collect(faults, [fault])
    workloads = registry.POD, *registry.POD_TEMPLATE_PATHS
    of_kinds = (registry.PRIORITY_CLASS,), registry.APPLIED, _QUEUES, workloads, (registry.AUTOSCALER,)
    classes, others, queues, objects, scalers = (
        [obj for obj in in_order if group_kind(obj) in kinds] for kinds in of_kinds
    )
    in_order = _without({*map(id, scalers)}, in_order)
    priority_classes, invalid = with_classes(cluster, classes)
    _collect(faults, invalid)
    cluster_with_classes, unreadable = replace(cluster, priority_classes=priority_classes), list[InvalidObject]()
    _, before, _ = checked(_named(in_order))
    recreated = {id(obj): None for obj in objects if is_deleted_first(cluster, obj)}
    ranges = [obj for obj in others if group_kind(obj) == registry.LIMIT_RANGE and is_valid(obj, cluster.semantics)]
    problems = rejected(with_applied(cluster_with_classes, ranges, []), in_order, before | recreated)
    for obj in filter(lambda obj: id(obj) in recreated, objects):
        problems.append((obj, InvalidObject(f"not predicted: {_RECREATED}", (), ref_of(obj), _APPLY, _RECREATED)))
    _collect(faults, (fault for _, fault in problems))
    left_out = {id(obj) for obj, _ in problems}
    to_be = with_applied(cluster_with_classes, _without(left_out, others), unreadable)
    to_be = with_queues(to_be, queues, unreadable)
    _collect(faults, unreadable)
    if not objects:
        not_wanted = (*classes, *_without(left_out, others), *scalers)
        skipped += Counter(str(obj.get("kind")) for obj in not_wanted)
        faults = faults or places.left_out
        if not faults:
            raise _nothing(manifests, f"no Pod or workload found{only_found(skipped)}")
        raise Rejected([*map(places.located, faults)]) if isinstance(faults[0], InvalidObject) else faults[0]
    objects = _latest(_without(left_out, objects))
    places.notes = _not_followed(rescaled(map(partial(Arrival, 0.0, "create"), objects), cluster, {}, scalers))
    return objects, replace(to_be, later_quotas=later_quotas(in_order, cluster))


def _not_followed(again: Iterable[Rescaling]) -> list[str]:
    return [f"{each.note}{_NOT_FOLLOWED if each.arrival else ''}" for each in again]


def _decoded(
    subjects: Iterable[ReviewedObject], faults: list[Exception] | None, *, strict: bool = True
) -> Iterator[ApiObject]:
    """Yield the objects that can be decoded. `faults`: collects the errors of the others; None: raise them. `strict`:
    see `check_decodes`.
    """
    for subject in subjects:
        try:
            check_decodes(subject, strict=strict)
        except InvalidObject as fault:
            _collect(faults, [fault])
        else:
            names = {"name": subject.ref.name} | ({"namespace": subject.ref.namespace} if subject.ref.namespace else {})
            yield {**subject.object, "metadata": {**mapping(subject.object, "metadata"), **names}}


_QUEUES: Final = frozenset(spec.group_kind for spec in registry.KUEUE)
_OTHERS: Final = _QUEUES | {registry.AUTOSCALER}


def with_queues(cluster: ClusterSnapshot, objects: Iterable[ApiObject], faults: list[InvalidObject]) -> ClusterSnapshot:
    """Return the cluster with these objects of Kueue. Adds the errors of unreadable ones to `faults`."""
    tables = {kind: dict(views) for kind, views in cluster.kueue.items()}
    for obj in objects:
        kind = group_kind(obj)
        try:
            tables.setdefault(kind, {})[key_of(obj, kind)] = decoded(kind, obj)
        except InvalidObject as fault:
            faults.append(fault)
    return replace(cluster, kueue=tables) if objects else cluster


def _named(objects: Iterable[ApiObject]) -> Iterator[Arrival]:
    """Yield the creation of each object whose name is not generated."""
    return (Arrival(0.0, "create", obj) for obj in objects if not ref_of(obj).name.endswith("*"))


def _latest(objects: Iterable[ApiObject]) -> list[ApiObject]:
    """Return the objects; if several have the same name, only the last. Generated names always differ."""
    refs = ((ref_of(obj, registry.DEFAULT_NAMESPACE), obj) for obj in objects)
    return [*{id(obj) if ref.name.endswith("*") else ref: obj for ref, obj in refs}.values()]


def _without(left_out: set[int], objects: Iterable[ApiObject]) -> list[ApiObject]:
    """Return the objects whose `id` is not in `left_out`."""
    return [obj for obj in objects if id(obj) not in left_out]


def _nothing(manifests: Sequence[Read], problem: str, instead: str = "") -> Exception:
    """The error for manifests without a needed object. `instead`: a further fix."""
    if isinstance(manifests[0], Mapping):
        return InvalidInput(problem)
    fix = f"pass manifests of a Pod or workload, such as a Deployment{instead}"
    return SourceError(manifests[0] if isinstance(manifests[0], str) else "", problem, fix=fix)


def _collect(faults: list[Exception] | None, new: Iterable[Exception]) -> None:
    """Add errors to `faults`; None: raise the first."""
    if faults is not None:
        faults.extend(new)
    else:
        for fault in new:
            raise fault
