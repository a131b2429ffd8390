"""Rules about files: what parsing has found, and objects that kube-apiserver cannot decode or decodes in part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Path, Problem, Severity, cut, field_path, listed, nearest_word, quote
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kinds.class_paths import ITEMS, VALUES, found_at
from forewarn.policies.kubernetes.kube_apiserver.validation.decode import (
    Unknown,
    fields_of,
    homes,
    minors_of,
    stable_version,
    type_of,
    unknown_fields,
)
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, group_kind, list_at, mapping_at
from forewarn.policies.kubernetes.releases.minors import NEWEST
from forewarn.policies.linting.rules.support.context import POD_SPECS, Context, Target, rule
from forewarn.policies.linting.rules.support.names import is_misspelt
from forewarn.policies.linting.rules.support.rule_text import MAX_PATH_LENGTH, api_text, diagnostics, shown_path

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
    from forewarn.policies.kubernetes.objects.workload import PodTemplate


@rule(Target.FILE, severity=Severity.WARNING)
def ambiguous_value(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """kubectl reads a value differently from some other YAML parsers.

    Why: kubectl reads an unquoted yes, no, on or off as a boolean, 0777 as an octal number, and 1:30 as a string.
    Other parsers can read other values.

    Bad:

        PriorityClass low
        value: 010

    Good:

        PriorityClass low
        value: 8

    Fix: if you mean text, quote the value. Otherwise, write a decimal number, or true or false.
    """
    yield from diagnostics("ambiguous-value", context)


@rule(Target.FILE, severity=Severity.WARNING)
def duplicate_key(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A mapping has the same key twice.

    Why: `kubectl apply -f` uses the last value and prints no warning. Other programs can use another value, or reject
    the file.

    Details: the rule also reports loops of Helm templates that print several objects without `---` between them, and
    repeated keys in the values files of charts and in kustomizations.

    Bad:

        Pod web
          name: web-2

    Good:

        Pod web

    Fix: keep one of the two keys.
    """
    yield from diagnostics("duplicate-key", context)


@rule(Target.FILE, severity=Severity.ERROR)
def invalid_suppression(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A suppression is malformed or expired, has no reason, or names an unknown rule.

    Why: an invalid suppression has no effect.

    Example (also pinned-priority):

          Deployment team/web
          spec:
            template:
              spec:
        -       priority: 0  # forewarn: ignore[pinned-priority]
        +       priority: 0  # forewarn: ignore[pinned-priority] the vendor's chart writes it until=2099-01-31

    Fix: for a comment, write `# forewarn: ignore[RULE] REASON until=2027-01-31` after the value or on the line above.
    """
    yield from diagnostics("invalid-suppression", context)


@rule(Target.FILE, severity=Severity.NOTE)
def template_braces(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A file is a template that is not rendered.

    Why: forewarn does not know the values of a template before an engine such as Helm renders it.

    Details: in such a file, the linter checks only some parts, such as literal class names.

    Bad:

        apiVersion: v1
        kind: Pod
        metadata:
          name: {{ .Release.Name }}-web

    Good:

        Pod prod-web

    Fix: lint the rendered manifests, for Helm with `helm template CHART | forewarn lint -`.
    """
    yield from diagnostics("template-braces", context)


@rule(Target.FILE, severity=Severity.ERROR)
def unknown_kind(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The kind or `apiVersion` of a PriorityClass or workload is misspelled.

    Why: kubectl does not know the kind, and creates no object.

    Bad:

        apiVersion: scheduling.k8s.io/v1
        kind: Priorityclass
        metadata:
          name: gold
        value: 1000

    Good:

        PriorityClass gold
        value: 1000

    Fix: write the kind and `apiVersion` that the finding names.
    """
    yield from diagnostics("unknown-kind", context)


@rule(Target.FILE, severity=Severity.WARNING)
def unused_suppression(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A suppression matches no finding.

    Why: an unused suppression can hide a later problem.

    Details: the rule ignores suppressions whose findings depend on a cluster or release that the linter does not know.

    Example:

          Deployment team/web
          spec:
            template:
        -     # forewarn: ignore[pinned-priority] the vendor's chart writes it
              spec: {}

    Fix: remove the suppression.
    """
    yield from diagnostics("unused-suppression", context)


_WITH_PODS: Final = (Target.PRIORITY_CLASS, *POD_SPECS, Target.UPDATED_POD, Target.STATIC_POD)


@rule(Target.FILE, severity=Severity.ERROR)
def parse_error(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """forewarn cannot read a file or an object in it, or `kustomize build` fails.

    Why: forewarn cannot check what it cannot read. In most cases, kubectl also rejects it. kustomize fails if a
    strategic merge patch has no object, if an operation of JSON Patch has a path that its object lacks, and if
    `resources` names a Component. It also fails if a file or directory that a kustomization names does not exist.

    Details: in Helm charts, the rule reports fields such as `.Release.Name` in a `with` or range, where the dot is
    another value. It reports values that a template always reads although their parent is an empty mapping or a
    scalar: Helm cannot render such a template. It also reports `key: {{- .Values.x }}`, where the
    dash removes the blank.

    Bad:

        Pod web
         labels: {}

    Good:

        Pod web
          labels: {}

    Fix: correct the syntax at the reported line and column.
    """
    yield from diagnostics("parse-error", context)


_NEAR: Final = 0.75
_FEW: Final = 2


@rule(
    Target.POD_GROUP,
    Target.OTHER,
    *_WITH_PODS,
    Target.NAMESPACE,
    Target.RESOURCE_QUOTA,
    severity=Severity.ERROR,
    reads_parts=True,
)
def unknown_field(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """An object has a field that Kubernetes does not define at this place.

    Why: by default, kubectl rejects built-in objects with such a field. Without field validation, kube-apiserver can
    drop the field silently. If you misspell `priorityClassName`, Pods then get the default class, or priority 0.

    Details: if the release is known, for example from `--kubernetes-version` or a cluster, the rule also reports fields
    and versions of other supported releases. It checks strategic merge patches in files that kustomizations name.

    Example:

          Deployment team/web
          spec:
        -   priorityClassName: gold
            template:
        -     spec:
        -       priorityClass: gold
        +     spec: {}

    Fix: correct the spelling, or move the field to the correct place.
    """
    if subject.part:
        yield from _misspelt_in_part(subject, subject.part, context)
        return
    version, kind = subject.object.get("apiVersion"), subject.object.get("kind")
    removed = registry.removed_version(version, kind, context.minor)
    if removed and removed.also:  # what else the replacement lacks, removed-api-version reports
        return
    obj = {**subject.object, "apiVersion": removed.replacement} if removed else subject.object
    if not removed and (unserved := _not_served(obj, context)):
        message, fix = f"no {kind} in version {quote(str(version))}{unserved[0]}: kubectl rejects it", unserved[1]
        yield Problem(message, ("apiVersion",), fix)
    beside: dict[object, list[tuple[Path, dict[str, Any], str, str]]] = {}
    for number, unknown in enumerate(_unknown_in(obj, subject, context)):
        path = unknown.path
        detail, hint, fix = advice(unknown, obj) if number < _MAX_ADVISED else ({}, "", "remove it")
        under = str(detail.get("under", "[*]"))
        there = (*filter(None, under.split(".")),)
        if "[*]" not in under and path[-1] in mapping_at(obj, *there):
            own, other = (subject.source.locate(each, key=True) for each in (path, (*there, path[-1])))
            where = f"line {other.line}" + f" of {other.file}" * (own.file != other.file)
            hint, fix = f"{hint}, which has one", f"remove it, or merge it with {where}"
        is_item = len(path) > 1 and isinstance(path[-2], int)  # an item of another list: one mistake
        cause = path if "meant" in detail else (path[:-1], "" if is_item else hint)
        beside.setdefault(cause, []).append((path, detail, hint, fix))
    for unknown_here in beside.values():
        (path, detail, hint, fix), *others = sorted(unknown_here, key=lambda entry: not entry[2])
        names = [quote(cut(str(other[-1]), MAX_PATH_LENGTH)) for other, *_ in others]
        also = f" (also {listed(names, _MAX_NAMED)})" if names else ""
        yield Problem(
            f"unknown field {quote(shown_path(path))}: kubectl rejects it{hint}{also}",
            path,
            fix,
            location=subject.source.locate(path, key=True),
            detail={"field": str(path[-1]), **detail},
        )


def _not_served(obj: ApiObject, context: Context) -> tuple[str, str] | None:
    """Return the release that does not serve this apiVersion, and the fix; None if it may be served."""
    if stable := stable_version(obj):
        return "", f"write apiVersion: {stable}"
    if type_of(obj) and not type_of(obj, context.minor):
        return f" in Kubernetes 1.{context.minor}", "remove the object, or write a version that this release serves"
    return None


def _unknown_in(obj: ApiObject, subject: ReviewedObject, context: Context) -> Iterator[Unknown]:
    """Yield the unknown fields of an object; of a patch, not those that it removes with null, nor those of a
    StatefulSet, because another patch may change the kind.
    """
    unknown = (field for field in unknown_fields(obj, context.minor) if field.path != ("sops",))  # removed by Flux
    if not subject.is_patch:
        return unknown
    others = {("spec", name) for name in fields_of("StatefulSetSpec").known}
    return (field for field in unknown if at(obj, *field.path) is not None and field.path not in others)


def _misspelt_in_part(subject: ReviewedObject, part: PodTemplate, context: Context) -> Iterator[Problem]:
    """Yield a problem for each misspelled field in the Pod template of a custom resource."""
    for unknown in unknown_fields({**_POD_TYPE, "spec": part.spec}, context.minor) if not part.named else ():
        name, holder = str(unknown.path[-1]), at(part.object, *unknown.path[:-1])
        fields = fields_of(unknown.type).known
        same = [field for field in fields if field.lower() == name.lower() or field == f"{name}Name"]
        near = "" if same else nearest_word(name, sorted(fields), _NEAR)
        meant = same[0] if same else near if is_misspelt(name, near) else ""
        if meant and isinstance(holder, Mapping) and meant not in holder:
            path = (*part.path, *unknown.path)
            text = f"unknown field {quote(shown_path(path))} of a Pod template; did you mean {quote(meant)}?"
            place = subject.source.locate(path, key=True)
            detail = {"field": name, "meant": meant}
            yield Problem(text, path, f"write {meant}", location=place, detail=detail, severity=Severity.WARNING)


_MAX_NAMED: Final = 5
_MAX_ADVISED: Final = 1_000
"""Maximum number of unknown fields of an object for which the field that is meant is searched."""
_POD_TYPE: Final = {"apiVersion": "v1", "kind": "Pod"}


def advice(unknown: Unknown, obj: ApiObject) -> tuple[dict[str, Any], str, str]:
    """Return the suggestion for an unknown field: as JSON, as the end of the message, and as the fix."""
    name, root = str(unknown.path[-1]), type_of(obj)
    fields = fields_of(unknown.type).known
    minors = minors_of(unknown)
    if minors:
        releases = listed([f"1.{minor}" for minor in minors], len(minors))
        have = "has" if len(minors) == 1 else "have"
        return {"minors": list(minors)}, f" in this release; {releases} {have} it", "remove it"
    if fix := _OTHER_FIELDS.get((unknown.type, name)):
        return {}, "", fix
    same = [other for other in fields if other.lower().removesuffix("s") == name.lower().removesuffix("s")]
    near = same[0] if same else nearest_word(name, sorted(fields), _NEAR)
    if near and (same or next(homes(name, root), None) is None):
        return {"meant": near}, f"; did you mean {quote(near)}?", f"write {near}"
    if not (right := _homes_of(unknown, obj, root)):
        return {}, "", "remove it"
    where = " or ".join(_home(path, unknown.path) for path in right) or "the object itself"
    fix = f"move it to {where}"
    if unknown.path[: len(right[0]) + 1] == (*right[0], name):
        fix = f"write what it contains in the outer {name}"
    elif len(right) == 1 and (has := _having(obj, right[0], unknown.path)):
        fix = f"remove it: {has} has it"
    return {"under": field_path(right[0]).replace("[0]", "[*]")}, f"; it belongs under {where}", fix


def _having(obj: ApiObject, home: Path, wrong: Path) -> str:
    """Return what already has a misplaced field in the list where it belongs, as a container of the Pod or the item of
    the same name; "" if nothing.
    """
    name, item = str(wrong[-1]), at(obj, *wrong[:-1], "name")
    if item is not None:
        beside = list_at(obj, *home[:-1])
        is_there = any(at(each, name) is not None and at(each, "name") == item for each in beside)
        return _home(home, wrong) if is_there else ""
    steps = tuple(ITEMS if step == 0 else str(step) for step in home)
    found = found_at(obj, (*steps, name)) if ITEMS in steps else ()
    return next((field_path(path[:-1]) for path, _ in found), "")


def _homes_of(unknown: Unknown, obj: ApiObject, root: str) -> list[Path]:
    """Return what an unknown field of an object belongs in; two structs if it may be in both."""
    holder, name = unknown.path[:-1], str(unknown.path[-1])
    return (
        _inside(unknown, root)
        or _outside(unknown.path, root)[-1:]
        or _present(unknown, obj)
        or ([] if any(not many for _, many in _sibling_structs(unknown)) else _anywhere(unknown, root))
        or [(*holder, field) for field in _MAPS.get(unknown.type, ()) if field[0] == "m" or "/" in name]
    )


_MAPS: Final = {"LabelSelector": ("matchLabels",), "ObjectMeta": ("annotations",)}
"""Types whose unknown fields may belong in a map of theirs; annotations have a prefix."""
_OTHER_FIELDS: Final = {
    ("DeploymentSpec", "updateStrategy"): "write strategy",
    **{(f"{kind}SetSpec", "strategy"): "write updateStrategy" for kind in ("Daemon", "Stateful")},
    ("HorizontalPodAutoscalerSpec", "targetCPUUtilizationPercentage"): (
        "write a metric of type Resource with target.averageUtilization, or apiVersion: autoscaling/v1"
    ),
    **{
        (f"{kind}MetricSource", name): f"write target.{field}, and target.type: {target}"
        for kind in ("ContainerResource", "External", "Object", "Pods", "Resource")
        for name, field, target in (
            ("targetAverageUtilization", "averageUtilization", "Utilization"),
            ("targetAverageValue", "averageValue", "AverageValue"),
            ("targetValue", "value", "Value"),
        )
    },
    **{
        ("autoscaling.v1.HorizontalPodAutoscalerSpec", name): "write apiVersion: autoscaling/v2"
        for name in ("metrics", "behavior")
    },
    **{("ContainerPort", name): "write containerPort" for name in ("port", "targetPort")},
    ("ObjectMeta", "initializers"): "remove it",
    ("Probe", "port"): "write tcpSocket, httpGet or grpc, and port below it",
    ("PodDNSConfig", "ndots"): 'write options: [{name: ndots, value: "2"}]',
    **{(f"{kind}KeySelector", "value"): "write key" for kind in ("Secret", "ConfigMap")},
    ("JobSpec", "spec"): "write template, and spec below it",
    ("Volume", "mountPath"): "remove it; a volume has a source, such as emptyDir: {}",
    ("SecretVolumeSource", "name"): "write secretName",
    ("ConfigMapVolumeSource", "secretName"): "write name",
    ("PersistentVolumeClaimVolumeSource", "name"): "write claimName",
}
"""Type and field of another kind or version -> the fix."""


def _home(right: Path, wrong: Path) -> str:
    """The path where a field belongs; only its end if it is below the struct that contains the field now."""
    if right[:-1] == wrong[:-1]:
        right = right[-2:] if len(right) > 1 and isinstance(right[-2], str) else right[-1:]
    return field_path(right).replace("[0]", "[*]")


def _inside(unknown: Unknown, root: str) -> list[Path]:
    """Return the structs beside an unknown field that have a field of its name, if there are one or two.

    If there is one, the struct around both may also be meant.
    """
    beside = _sibling_structs(unknown)
    paths = [path for path, many in beside if not many]
    if not 0 < len(paths) == len(beside) <= _FEW:
        return []
    around = [path for path in _outside(unknown.path, root) if path == unknown.path[:-2]]
    return paths if len(paths) == _FEW else [*around, *paths]


def _present(unknown: Unknown, obj: ApiObject) -> list[Path]:
    """Return the only struct beside an unknown field that has a field of its name, and that the object has."""
    paths = [path for path, many in _sibling_structs(unknown) if not many and at(obj, *path)]
    return paths if len(paths) == 1 else []


def _sibling_structs(unknown: Unknown) -> list[tuple[Path, str]]:
    """Return what contains a field of the same name beside an unknown one: the path, and how many structs it holds."""
    name, nested = str(unknown.path[-1]), fields_of(unknown.type).nested
    return [((*unknown.path[:-1], key), many) for key, many, kind in nested if name in fields_of(kind).known]


def _outside(path: Path, root: str) -> list[Path]:
    """Return the structs around an unknown field that have a field of its name, the nearest last."""
    return [holder for holder, kind in _holders(path, root) if str(path[-1]) in fields_of(kind).known]


def _holders(path: Path, root: str) -> Iterator[tuple[Path, str]]:
    """Yield the structs that contain a field, the outermost first: (path, type)."""
    kind, at = root, 0
    while kind and at < len(path) - 1:
        yield path[:at], kind
        many, kind = next(((many, inner) for key, many, inner in fields_of(kind).nested if key == path[at]), ("", ""))
        at += 2 if many else 1


def _anywhere(unknown: Unknown, root: str) -> list[Path]:
    """Return the path where a field of this name belongs: nearest to the root, preferably in containers.

    Empty if it is ambiguous, for fields of `metadata` deep in the object, and in volumes, which have one source.
    """
    path = unknown.path
    paths = [home for home in homes(str(path[-1]), root) if "affinity" not in path[:-1] or "affinity" in home]
    if not paths or unknown.type.endswith("VolumeSource"):
        return []
    nearest = [home for home in paths if len(home) == len(paths[0])]
    inside = [home for home in nearest if "containers" in home]
    if nearest == [("metadata",)] and any(isinstance(step, int) for step in path):
        return []
    return (inside or nearest)[:1] if len(nearest) == 1 or inside else []


_REMOVED_VERSIONS: Final = {"v1alpha1": 19, "v1alpha2": 19, "v1beta1": 23, "v1beta2": 28, "v1beta3": 29}
"""Version -> the minor version of k8s.io/kube-scheduler 1.x that no longer has it."""
_PREEMPTION: Final = "DefaultPreemption"
_MAX_PROFILES: Final = 100
_MAX_PROFILE_LENGTH: Final = 40


@rule(Target.OTHER, severity=Severity.ERROR, objects={Target.OTHER: "files of kind KubeSchedulerConfiguration"})
def scheduler_configuration(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A KubeSchedulerConfiguration is invalid, disables preemption, or has a removed version or field.

    Why: without preemption, even critical Pods stay Pending if all nodes are full. kube-scheduler does not start with a
    removed version or an invalid field.

    Bad:

        apiVersion: kubescheduler.config.k8s.io/v1alpha1
        kind: KubeSchedulerConfiguration
        disablePreemption: true

    Good:

        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles:
        - schedulerName: default-scheduler

    Fix: use version v1 with `profiles`. For workloads that must not preempt, use a class with `preemptionPolicy:
    Never`.
    """
    given = subject.object
    if group_kind(given) != registry.SCHEDULER_CONFIGURATION or subject.is_partial:
        return
    version = str(given.get("apiVersion", "")).rpartition("/")[2]
    if minor := _REMOVED_VERSIONS.get(version):
        message = f"no KubeSchedulerConfiguration in {quote(version)}: Kubernetes 1.{minor} removed it"
        yield Problem(message, ("apiVersion",), "write apiVersion: kubescheduler.config.k8s.io/v1")
    for field, fix in registry.REMOVED_SCHEDULER_FIELDS.items():
        if field in given:
            yield Problem(f"no field {quote(field)} since v1beta1", (field,), fix)
    for number, profile in enumerate(list_at(given, "profiles")[:_MAX_PROFILES]):
        if not _preempts(at(profile, "plugins")):
            name = cut(str(at(profile, "schedulerName") or "default-scheduler"), _MAX_PROFILE_LENGTH)
            effect = "even critical Pods stay Pending on full nodes"
            message = f"preemption is disabled for Pods of profile {name}: {effect}"
            path = ("profiles", number, "plugins")
            yield Problem(message, path, "use classes with preemptionPolicy: Never", severity=Severity.WARNING)
    if version == "v1" and len(list_at(given, "profiles")) <= _MAX_PROFILES:
        yield from _invalid_configuration(given, context)


def _invalid_configuration(configuration: ApiObject, context: Context) -> Iterator[Problem]:
    """Yield the errors with which kube-scheduler does not start, and misspelled plugins."""
    from forewarn.policies.kubernetes.releases.semantics import Semantics
    from forewarn.policies.kubernetes.scheduling.configuration import InvalidConfiguration, scheduler_configuration
    from forewarn.policies.kubernetes.scheduling.foreign_plugins import named_only
    from forewarn.policies.kubernetes.scheduling.plugins.registry import IN_TREE

    try:
        scheduler_configuration(configuration, Semantics(context.minor or NEWEST), unknown=named_only)
    except InvalidConfiguration as invalid:
        for fault in invalid.faults[:_MAX_PROFILES]:
            present = takewhile(
                lambda path: at(configuration, *path) is not None, accumulate((step,) for step in fault.path)
            )
            yield Problem(api_text(str(fault)), max(present, key=len, default=()), "correct this field")
        return
    for path, name in found_at(configuration, ("profiles", ITEMS, "plugins", VALUES, VALUES, ITEMS, "name")):
        near = next((known for known in IN_TREE if known != name and is_misspelt(str(name), known)), None)
        if near and name not in IN_TREE:
            message = f"kube-scheduler has no plugin {quote(cut(str(name), _MAX_PROFILE_LENGTH))}"
            yield Problem(message, path, f"write {near}", severity=Severity.WARNING)


def _preempts(plugins: Any) -> bool:
    """Report whether a profile runs DefaultPreemption or another PostFilter. Source: `expandMultiPointPlugins`."""

    def names(point: str, field: str) -> set[object]:
        return {str(at(entry, "name")) for entry in list_at(plugins, point, field)}

    if names("postFilter", "enabled"):
        return True  # this plugin, or one that takes its place
    if names("postFilter", "disabled") & {"*", _PREEMPTION}:
        return False
    return _PREEMPTION in names("multiPoint", "enabled") or not names("multiPoint", "disabled") & {"*", _PREEMPTION}
