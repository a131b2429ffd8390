"""Converts changes of a cluster to arrivals of a simulation: reads them from files, and applies admission to them."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import ObjectRef, Path, duration, listed, plural, with_fix
from forewarn.policies.inputs.manifests.deploy_order import is_recreated
from forewarn.policies.inputs.manifests.documents import Fault
from forewarn.policies.inputs.manifests.reading import values
from forewarn.policies.inputs.sources.files import File, PathLike, SourceError, fspath, read_file
from forewarn.policies.kubernetes.cluster.admission import with_default_resources
from forewarn.policies.kubernetes.controllers.applied import applied_views
from forewarn.policies.kubernetes.controllers.own_pods import pods_of, replicas_of
from forewarn.policies.kubernetes.controllers.replica_set import spec_replicas
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.priority import Forbidden, admit_pod, admit_pod_group, check_default
from forewarn.policies.kubernetes.kube_apiserver.validation import pod as pod_validation
from forewarn.policies.kubernetes.kube_apiserver.validation import priority_class as validation
from forewarn.policies.kubernetes.kube_apiserver.validation.decode import POD_STRUCT, decode_fault
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import FieldError
from forewarn.policies.kubernetes.kube_apiserver.validation.priority_class import name_faults, policy_fault
from forewarn.policies.kubernetes.kube_apiserver.validation.resources import fault_of_resources
from forewarn.policies.kubernetes.kube_apiserver.validation.tables import check
from forewarn.policies.kubernetes.kube_apiserver.validation.workload import (
    check_workload_update,
    validate_workload_update,
)
from forewarn.policies.kubernetes.objects import fields
from forewarn.policies.kubernetes.objects.extent import TooLargeToRetain
from forewarn.policies.kubernetes.objects.namespace import namespace_not_found
from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
from forewarn.policies.kubernetes.objects.workload import Workload, applied_to, last_applied, pod_template_of
from forewarn.policies.linting.config.load import place_of_entry
from forewarn.policies.linting.rules.support.names import suggestion
from forewarn.policies.prediction.simulation.scenario import (
    FORM,
    MAX_BYTES,
    OPERATIONS,
    Arrival,
    DumpCache,
    EntryFault,
    World,
    read_events,
    world_of,
)
from forewarn.policies.questions.application.cluster import require_lists
from forewarn.policies.questions.application.places import PodsRejected
from forewarn.policies.questions.whatif import MAX_UNTIL
from forewarn.policies.questions.whatif.questions import elsewhere, is_there, node_named

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.releases.semantics import Semantics

_IN_TURN: Final = (
    registry.DISRUPTION_BUDGET,
    registry.POD_GROUP,
    registry.CLAIM,
    registry.VOLUME,
    registry.RESOURCE_QUOTA,
)
AT_ONCE: Final = (registry.PRIORITY_CLASS, *(kind for kind in registry.APPLIED if kind not in _IN_TURN))
"""Kinds that count from time 0 regardless of their arrival: no component reacts to them later in a simulation."""
_CREATED: Final = (registry.POD, "apps/ReplicaSet", "batch/Job")
"""Kinds whose objects controllers create during a simulation, with names that begin with the owner's name."""
_MAX_NOTES: Final = 20


def world_with(cache: DumpCache, arrivals: Sequence[Arrival], until: float) -> World:
    """Return the World of a cluster snapshot with these arrivals. Raises InvalidObject, and InvalidInput for `until`.

    Adds created objects of the kinds AT_ONCE to `cache`, unless kube-apiserver rejects the class.
    """
    if not 0 < until <= MAX_UNTIL:
        raise fields.InvalidInput(f"until must be above 0 and at most {MAX_UNTIL:.0f} seconds")
    admit_at_once(cache, arrivals)
    return world_of(cache, sorted(arrivals, key=lambda arrival: arrival.at), until=until)


def with_classes(
    cluster: ClusterSnapshot, objects: Iterable[fields.ApiObject]
) -> tuple[dict[str, PriorityClass], list[fields.InvalidObject]]:
    """Return the PriorityClasses by name after the creation of these, and the errors of those that kube-apiserver
    rejects (invalid, changed value or policy, second default).

    Source: pkg/apis/scheduling/validation, `ValidatePriorityClassUpdate`; plugin/pkg/admission/priority.
    """
    classes, faults = dict(cluster.priority_classes), []
    for obj in objects:
        try:
            new = PriorityClass.from_api(obj)
            if error := _class_fault(new, obj, classes):
                why, ref = f"rejected: {error.text}", fields.ref_of(obj)
                raise fields.InvalidObject(why, error.path, ref, error.fix, error.text)
        except fields.InvalidObject as fault:
            faults.append(fault)
        else:
            classes[new.name] = new
    return classes, faults


def new_classes(before: ClusterSnapshot, after: ClusterSnapshot) -> list[str]:
    """Return the created PriorityClasses, such as `gold (value 5)`, and those that a tool recreates with another value,
    such as `gold (recreated, value 3 → 5)`.
    """
    old, new = before.priority_classes, after.priority_classes
    created = [f"{name} (value {new[name].value})" for name in sorted(new.keys() - old.keys())]
    recreated = [name for name in sorted(new.keys() & old.keys()) if new[name].value != old[name].value]
    return [*created, *(f"{name} (recreated, value {old[name].value} → {new[name].value})" for name in recreated)]


def _class_fault(new: PriorityClass, obj: fields.ApiObject, classes: Mapping[str, PriorityClass]) -> FieldError | None:
    """Return why kube-apiserver rejects a PriorityClass, with a fix; None if it does not."""
    old = None if is_recreated(obj) else classes.get(new.name)
    if new.global_default and (why := check_default(new.name, new.name in classes, classes.values())):
        return FieldError(("globalDefault",), why, fix="set globalDefault: false in one of them")
    if old is None:
        return next(iter(validation.validate_priority_class(obj)), None)
    for error in validation.validate_priority_class_update(new, old):
        kept = old.value if error.path == ("value",) else old.preemption_policy
        fix = "delete and recreate the class (forewarn whatif class)"
        return FieldError(error.path, f"immutable, stays {kept}", fix=fix)
    return None


def admit_at_once(cache: DumpCache, arrivals: Sequence[Arrival]) -> list[tuple[fields.ApiObject, fields.InvalidObject]]:
    """Add created objects of the kinds AT_ONCE to the cache, and remove PriorityClasses that are deleted at the start.

    Skips objects that kube-apiserver rejects, and returns PriorityClasses of these with the errors; `rejected` returns
    the others. Raises InvalidObject.
    """
    problem = []
    objects = [each.object for each in arrivals if each.op == "create" and fields.group_kind(each.object) in AT_ONCE]
    semantics = cache.snapshot().semantics
    others = [obj for obj in objects if fields.group_kind(obj) != registry.PRIORITY_CLASS and is_valid(obj, semantics)]
    for obj in objects:
        if fields.group_kind(obj) == registry.PRIORITY_CLASS:
            faults = with_classes(cache.snapshot(), [obj])[1]
            problem += [(obj, fault) for fault in faults]
            if not faults:
                cache.add(obj)
    for arrival in filter(_deletes_class, arrivals):
        cache.remove(arrival.object)
    if others:
        unreadable: list[fields.InvalidObject] = []
        cache.put_views(applied_views(cache.snapshot(), others, unreadable))
        for fault in unreadable:
            raise fault
    return problem


def is_valid(obj: fields.ApiObject, semantics: Semantics) -> bool:
    """Report whether kube-apiserver accepts the values of a new object."""
    try:
        check(obj, semantics)
    except fields.InvalidObject:
        return False
    return True


def _deletes_class(arrival: Arrival) -> bool:
    return arrival.op == "delete" and arrival.at == 0 and fields.group_kind(arrival.object) == registry.PRIORITY_CLASS


def checked(
    arrivals: Iterable[Arrival],
) -> tuple[list[fields.ApiObject], dict[int, fields.ApiObject | None], Collection[int]]:
    """Return what to pass to `rejected`: created objects, updated and scaled workloads; the objects that earlier
    events create or delete, empty for updates of stored ones; and the `id`s of the objects that are applied.
    """
    objects: list[fields.ApiObject] = []
    applied: set[int] = set()
    latest: dict[ObjectRef, fields.ApiObject | None] = {}
    before: dict[int, fields.ApiObject | None] = {}
    for arrival in sorted(arrivals, key=lambda arrival: arrival.at):
        ref = fields.ref_of(arrival.object, "default")
        kind, is_created = fields.group_kind(arrival.object), arrival.op == "create"
        if arrival.op == "delete":
            latest[ref] = None
        elif is_created or (arrival.op == "update" and registry.POD_TEMPLATE_PATHS.get(kind)):
            objects.append(arrival.object)
            applied.update([id(arrival.object)] * is_created)
            if ref in latest:
                before[id(arrival.object)] = latest[ref]
            latest[ref] = arrival.object if is_created else latest.get(ref, fields.NOTHING)
        elif arrival.op == "scale" and ref not in latest:
            objects.append(arrival.object)
    return objects, before, applied


def rejected(
    cluster: ClusterSnapshot,
    objects: Iterable[fields.ApiObject],
    before: Mapping[int, fields.ApiObject | None] = {},
    applied: Collection[int] | None = None,
) -> list[tuple[fields.ApiObject, fields.InvalidObject]]:
    """Return objects of missing Namespaces, PodGroups that the Priority plugin rejects, objects whose new Pods it
    rejects, and then objects whose Pods name a rejected PodGroup, with the errors. `before`: `id` of an object -> the
    object that an earlier event created, None if it deleted the object. `applied`: the `id`s of the objects that
    kubectl applies; None: of all.
    """
    objects = list(objects)
    created = {fields.ref_of(obj).name for obj in objects if fields.group_kind(obj) == registry.NAMESPACE}

    def fault_of(obj: fields.ApiObject) -> fields.InvalidObject | None:
        is_applied = applied is None or id(obj) in applied
        missing = _missing_namespace_error(cluster, obj, created)
        return missing or not_admitted(cluster, obj, before, is_applied=is_applied)

    faults = [(obj, fault_of(obj)) for obj in objects]
    found = [(obj, fault) for obj, fault in faults if fault is not None]
    groups = {_key(obj) for obj, _ in found if fields.group_kind(obj) == registry.POD_GROUP}
    left = [obj for obj, fault in faults if fault is None] if groups else []
    return found + [(obj, fault) for obj in left if (fault := _group_error(obj, groups))]


def _key(obj: fields.ApiObject) -> tuple[str, str]:
    ref = fields.ref_of(obj, "default")
    return ref.namespace, ref.name


def _missing_namespace_error(
    cluster: ClusterSnapshot, obj: fields.ApiObject, created: Collection[str]
) -> fields.InvalidObject | None:
    ref = fields.ref_of(obj, "default")
    if not registry.is_namespaced(fields.group_kind(obj)) or not cluster.lacks_namespace(ref.namespace, created):
        return None
    problem, fix = namespace_not_found(ref.namespace), "create the Namespace first"
    return fields.InvalidObject(problem, ("metadata", "namespace"), ref, fix)


def _group_error(obj: fields.ApiObject, rejected_groups: Collection[tuple[str, str]]) -> fields.InvalidObject | None:
    template, ref = pod_template_of(obj, registry.POD_TEMPLATE_PATHS), fields.ref_of(obj, "default")
    name = fields.text_at(template.object, "spec", "schedulingGroup", "podGroupName") if template else ""
    if (ref.namespace, name) not in rejected_groups:
        return None
    return fields.InvalidObject(f"kube-apiserver rejects PodGroup {name}", (), ref, "correct the PodGroup")


def not_admitted(
    cluster: ClusterSnapshot,
    obj: fields.ApiObject,
    before: Mapping[int, fields.ApiObject | None] = {},
    *,
    is_applied: bool = True,
) -> fields.InvalidObject | None:
    """Return the error, with a fix, if the Priority plugin rejects a PodGroup or the Pods of an object, if defaults of
    LimitRanges make these Pods invalid, if an apply changes immutable fields of a workload, or if a value is invalid;
    otherwise None. Of an event that adds replicas, the Pods are those of the stored workload.

    It ignores Pods and PodGroups that the cluster already has. `before`: as for `rejected`. `is_applied`: kubectl
    applies the object, and so reads its last apply. Raises SourceError without a list of PriorityClasses.
    """
    ref, is_group = fields.ref_of(obj, "default"), fields.group_kind(obj) == registry.POD_GROUP
    given, obj = obj, obj if is_applied else _scaled_up(cluster, obj)
    try:
        template = pod_template_of(obj, registry.POD_TEMPLATE_PATHS)
        result, old = _check_update(cluster, obj, before, is_applied=is_applied)
        stored: Mapping[tuple[str, str], object] = cluster.objects.pod_groups if is_group else cluster.pods
        where = template.path if template else ()
        is_admitted = bool(template or is_group)
        if is_admitted and not (where or id(obj) in before) and _key(obj) in stored:
            return None
        if obj is given:
            check(result, cluster.semantics, old)
        if not is_admitted:
            return None
        spec = fields.mapping(obj, *where, "spec")
        fields.int32(obj, *where, "spec", "priority")
        for field in ("priorityClassName", "preemptionPolicy"):
            fields.text(obj, *where, "spec", field)
        if is_group:
            _admit_group(obj, cluster)
        else:
            _check_types(obj, where, ref)
            admit_pod(spec, cluster.priority_classes)
            return None if _has_pods(cluster, obj) else _fault_of_defaults(cluster, spec, where, ref)
    except fields.InvalidObject as fault:
        return fault
    except Forbidden as fault:
        path, hint, fix = (*where, *fault.path), ("", ""), ""
        if path[-1] == "priorityClassName":
            require_lists(cluster, [registry.PRIORITY_CLASS], ())
            hint = suggestion(fields.text(obj, *path), cluster.priority_classes)
        else:
            fix = f"{'set' if fields.at(obj, *path) is None else 'remove'} {path[-1]}"
        kind = PodsRejected if where and _is_valid(spec) else fields.InvalidObject
        return kind(f"{fault}{''.join(hint)}", path, ref, fix, f"{fault}{hint[0]}")
    return None


def _check_types(obj: fields.ApiObject, template: Path, ref: ObjectRef) -> None:
    """Raise InvalidObject if kube-apiserver cannot decode a field of a template; quantities are read with the Pods."""
    fault = decode_fault({**fields.mapping(obj, *template), "kind": "Pod"}, POD_STRUCT)
    if fault is not None and fault.fix:
        raise fields.InvalidObject(fault.text, (*template, *fault.path), ref, fault.fix)


def _check_update(
    cluster: ClusterSnapshot, obj: fields.ApiObject, before: Mapping[int, fields.ApiObject | None], *, is_applied: bool
) -> tuple[fields.ApiObject, fields.ApiObject | None]:
    """Return a workload after and before an apply. Raise InvalidObject if kubectl cannot read the last apply of a
    workload, or if immutable fields change.
    """
    kind, ref = fields.group_kind(obj), fields.ref_of(obj, "default")
    stored = cluster.workload(kind, ref.namespace, ref.name)
    if stored is not None and is_applied:
        last_applied(stored.object)
    known = before.get(id(obj), fields.NOTHING)
    old = stored.object if stored and known is fields.NOTHING else known
    with suppress(TooLargeToRetain):  # the simulation reports it
        if old:
            result = applied_to(old, obj)
            check_workload_update(result, old, ref, cluster.semantics)
            return result, old
    return obj, None


def _scaled_up(cluster: ClusterSnapshot, obj: fields.ApiObject) -> fields.ApiObject:
    """Return the stored workload if `obj` is an event that raises its replicas; otherwise return `obj`."""
    replicas = None if "spec" in obj else obj.get("replicas")
    stored = cluster.workload(fields.group_kind(obj), *_key(obj))
    return stored.object if stored and isinstance(replicas, int) and replicas > spec_replicas(stored.object) else obj


def _has_pods(cluster: ClusterSnapshot, obj: fields.ApiObject) -> bool:
    """Report whether a workload is stored with the same template and has all its Pods, so an apply creates none."""
    stored = cluster.workload(fields.group_kind(obj), *_key(obj))
    if stored is None or stored.object is obj:  # the event scales the workload up
        return False
    old, new = (
        pod_template_of(each, registry.POD_TEMPLATE_PATHS) for each in (stored.object, applied_to(stored.object, obj))
    )
    same = old is not None and new is not None and old.object == new.object
    return same and replicas_of(obj) <= len(pods_of(cluster, obj))


def fault_of_defaults(cluster: ClusterSnapshot, workload: fields.ApiObject) -> fields.InvalidObject | None:
    """Return the error if defaults of LimitRanges make the new Pods of a stored workload invalid."""
    where = registry.POD_TEMPLATE_PATHS.get(fields.group_kind(workload), ())
    with suppress(fields.InvalidObject):  # creates no new Pods
        spec = fields.mapping(workload, *where, "spec")
        return _fault_of_defaults(cluster, spec, where, fields.ref_of(workload, "default")) if where else None
    return None


def _fault_of_defaults(
    cluster: ClusterSnapshot, spec: fields.ApiObject, where: Path, ref: ObjectRef
) -> fields.InvalidObject | None:
    """Return the error if defaults of LimitRanges make a Pod invalid. `where`: the path of its template, or ()."""
    pod = {"metadata": {"namespace": ref.namespace}, "spec": spec}
    whole, ranges = with_default_resources(pod, cluster), cluster.limit_ranges_of(ref.namespace)
    error = fault_of_resources(pod, whole, ranges) if ranges or whole is not pod else None
    kind = PodsRejected if where else fields.InvalidObject
    return error and kind(error.text, (*where, *error.path), ref, error.fix)


def _is_valid(spec: fields.ApiObject) -> bool:
    """Report whether kube-apiserver accepts the priority fields of a Pod template (`ValidatePodSpec`)."""
    name = fields.text(spec, "priorityClassName")
    return not (policy_fault(spec.get("preemptionPolicy")) or (name and name_faults(name)))


def is_deleted_first(cluster: ClusterSnapshot, obj: fields.ApiObject) -> bool:
    """Report whether Helm, Argo CD or Flux deletes a workload: immutable fields change. Raises InvalidObject."""
    old = cluster.workload(fields.group_kind(obj), *_key(obj)) if is_recreated(obj) else None
    return old is not None and any(validate_workload_update(applied_to(old.object, obj), old.object, cluster.semantics))


def _admit_group(group: fields.ApiObject, cluster: ClusterSnapshot) -> None:
    """Raise Forbidden if the Priority plugin rejects a new PodGroup."""
    if group.get("apiVersion") not in pod_validation.group_versions() or pod_validation.group_decode_error(group):
        return
    is_on, with_policy = pod_validation.admission_gates(group, cluster.semantics)
    if is_on:
        spec = pod_validation.defaulted_group(group, cluster.semantics)
        admit_pod_group(spec, cluster.priority_classes, with_policy=with_policy)


def passed_over(arrivals: Iterable[Arrival]) -> Iterator[str]:
    """Yield a sentence for each kind of change that the simulation ignores: changes of the kinds AT_ONCE that
    `admit_at_once` does not apply.
    """
    changes = Counter(
        (fields.group_kind(arrival.object).rpartition("/")[2], arrival.op)
        for arrival in arrivals
        if fields.group_kind(arrival.object) in AT_ONCE and arrival.op != "create" and not _deletes_class(arrival)
    )
    for (kind, operation), count in sorted(changes.items()):
        what = f"{operation}s of {kind}" if count > 1 else f"{operation} of a {kind}"
        yield f"{count} {what} ignored: existing objects apply for the whole simulation"


def events_without_effect(cluster: ClusterSnapshot, arrivals: Sequence[Arrival]) -> Iterator[str]:
    """Yield a sentence about events on objects that exist only if a controller creates them during the simulation."""
    missing = [
        f"{OPERATIONS[arrival.op].noun or arrival.op} of {_named(arrival)}"
        for arrival in _unresolved(cluster, arrivals)
    ]
    if missing:
        what = plural(len(missing), "event")
        yield f"{what} without effect unless a controller creates the object: {listed(missing)}"


def _named(arrival: Arrival) -> str:
    ref = fields.ref_of(arrival.object, "default")
    return f"node {ref.name}" if ref.kind == "Node" else str(ref)


def _unresolved(cluster: ClusterSnapshot, arrivals: Iterable[Arrival]) -> Iterator[Arrival]:
    """Yield events on objects that are not in the cluster and that no earlier event creates."""
    made = set[tuple[str, str, str]]()
    for arrival in sorted(arrivals, key=lambda arrival: arrival.at):
        kind, ref = fields.group_kind(arrival.object), fields.ref_of(arrival.object, "default")
        key = kind, ref.namespace, ref.name
        if arrival.op == "create":
            made.add(key)
        elif kind not in AT_ONCE and key not in made and not is_there(cluster, *key):
            yield arrival


def _check_names(cluster: ClusterSnapshot, created: Iterable[Arrival], events: Sequence[Arrival]) -> None:
    """Raise EntryFault for the first event on an object that does not exist and that nothing can create before."""
    every = [*created, *events]
    owners = {(key[1], f"{key[2]}-") for key in cluster.workloads}
    refs = (fields.ref_of(arrival.object, "default") for arrival in every if arrival.op == "create")
    owners.update((ref.namespace, f"{ref.name}-") for ref in refs)
    unresolved = {id(arrival) for arrival in _unresolved(cluster, every)}
    for number, event in enumerate(events, 1):
        kind, ref = fields.group_kind(event.object), fields.ref_of(event.object, "default")
        owned = kind in _CREATED and any(ns == ref.namespace and ref.name.startswith(name) for ns, name in owners)
        must_exist = kind in (registry.NODE, registry.DISRUPTION_BUDGET, *_CREATED, *registry.POD_TEMPLATE_PATHS)
        if id(event) not in unresolved or owned or not must_exist:
            continue
        try:
            if kind == registry.NODE:
                node_named(cluster, ref.name)
        except fields.InvalidInput as fault:
            raise EntryFault(number, f"event {number}: {fault}") from None
        near, fix = elsewhere(cluster, kind, ref.namespace, ref.name)
        raise EntryFault(number, with_fix(f"event {number}: {_named(event)} not found in the cluster{near}", fix))


def events_of(
    source: str | PathLike[str] | File, cluster: ClusterSnapshot, created: Sequence[Arrival]
) -> list[Arrival]:
    """Return the events in a file. `created`: the arrivals before them.

    Raises SourceError for an unreadable file, and InvalidInput for other contents and objects that do not exist.
    """
    file = source if isinstance(source, File) else File(fspath(source))
    name, data = file.name, read_file(file, MAX_BYTES)
    if len(data) > MAX_BYTES:
        raise SourceError(name, f"larger than {MAX_BYTES // 2**20} MiB, the limit for an events file")

    def invalid(problem: str, *place: int, fix: str = "") -> fields.InvalidInput:
        return fields.InvalidInput(str(SourceError(name, problem, *place, fix=fix)))

    try:
        events = list(read_events(value for value, _ in values(data, name)))
        _check_names(cluster, created, events)
    except Fault as fault:
        raise invalid(fault.message, fault.start) from None
    except EntryFault as fault:
        raise invalid(str(fault), *place_of_entry(data, fault.number)) from None
    except ValueError as fault:
        raise invalid(str(fault)) from None
    if not events:
        raise invalid("no events", fix=f"write a {FORM}")
    return events


def with_run_times(cluster: ClusterSnapshot, events: Sequence[Arrival]) -> tuple[list[Arrival], list[str]]:
    """Return the events with the run times that `run` does not give, and notes about their sources.

    The run time of a Job is the median of the completed Jobs of the same CronJob.
    """
    if not any(map(_lacks_run_time, events)):
        return list(events), []
    created = {fields.ref_of(event.object, "default"): event.object for event in events if event.op == "create"}
    known, notes = _run_times(cluster), dict[str, None]()
    results: list[Arrival] = []
    for event in events:
        results.append(event)
        if not _lacks_run_time(event):
            continue
        ref = fields.ref_of(event.object, "default")
        job = cluster.workload(registry.JOB, ref.namespace, ref.name)
        if job is None and ref in created:
            job = Workload.from_api(created[ref])
        kind, name = job.controller if job else ("", "")
        whose = f"of CronJob {ref.namespace}/{name}" if kind == registry.CRON_JOB else "of the same CronJob"
        times = sorted(known.get((ref.namespace, name), ())) if kind == registry.CRON_JOB else []
        if times:
            seconds = times[len(times) // 2]
            results[-1] = event._replace(object={**event.object, "durationSeconds": seconds})
            source = f"the median of {plural(len(times), 'completed Job')} {whose}"
            notes[f"Job {ref.namespace}/{ref.name} runs for {duration(seconds)}: {source}"] = None
        else:
            why = f"no durationSeconds, no completed Job {whose}"
            notes[f"not predicted: when Job {ref.namespace}/{ref.name} completes ({why})"] = None
    more = len(notes) - _MAX_NOTES
    return results, [*notes][:_MAX_NOTES] + ([f"{plural(more, 'more note')} about run times"] if more > 0 else [])


def _lacks_run_time(event: Arrival) -> bool:
    return event.op == "run" and "durationSeconds" not in event.object


def _run_times(cluster: ClusterSnapshot) -> dict[tuple[str, str], list[float]]:
    """Return (namespace, name) of a CronJob -> run times of its completed Jobs whose Pods ran at the same time, without
    failures.
    """
    found: dict[tuple[str, str], list[float]] = {}
    for (kind, namespace, _), workload in cluster.workloads.items():
        if kind != registry.JOB or workload.controller[0] != registry.CRON_JOB:
            continue
        with suppress(fields.InvalidObject):
            job = workload.object
            started, ended = (fields.timestamp(job, "status", name) for name in ("startTime", "completionTime"))
            pods, at_once = (fields.int32(job, "spec", name) or 1 for name in ("completions", "parallelism"))
            failed = fields.int32(job, "status", "failed")
            if started is not None and ended is not None and ended >= started and pods <= at_once and not failed:
                found.setdefault((namespace, workload.controller[1]), []).append(float(ended - started))
    return found
