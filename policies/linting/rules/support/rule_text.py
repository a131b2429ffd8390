"""Texts and lookups shared by several rules, also of the workloads that a label selector selects."""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Location, Path, Problem, cut, field_path, listed
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.base.metering import TooLarge
from forewarn.policies.kubernetes.kube_apiserver.priority import (
    Forbidden,
    Resolved,
    class_by_namespace,
    establish_priority,
)
from forewarn.policies.kubernetes.objects.fields import (
    INT32,
    REQUIRED,
    ApiObject,
    InvalidObject,
    at,
    list_at,
    mapping,
    mapping_at,
    namespace_of,
    text_at,
)
from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
from forewarn.policies.kubernetes.objects.workload import PodTemplate, Workload, parts_of, pod_template_of
from forewarn.policies.kubernetes.selectors import selector_or_error
from forewarn.policies.linting.rules.support.context import Context, Phase, Target

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject


def name_of(subject: ReviewedObject) -> str:
    """The object's name; "" if there is no readable one."""
    return text_at(subject.object, "metadata", "name")


def completed(subject: ReviewedObject) -> ApiObject:
    """The object with its namespace, and an example of a generated name if needed. The metadata must be decodable."""
    metadata = dict(subject.object.get("metadata") or {})
    metadata["namespace"] = subject.effective_namespace
    if metadata.get("generateName") and not metadata.get("name"):
        metadata["name"] = f"{metadata['generateName'][:58]}xxxxx"
    return {**subject.object, "metadata": metadata}


def integer(value: Any) -> int | None:
    """Return the value if it is an int32, otherwise None: another rule reports values of a wrong type."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value in INT32 else None


def class_of(subject: ReviewedObject) -> PriorityClass:
    """The subject as a PriorityClass. Raises InvalidObject."""
    return PriorityClass.from_api(subject.object)


def class_name(template: PodTemplate) -> str:
    """The PriorityClass that a Pod or template names; "" for none."""
    return text_at(template.spec, "priorityClassName")


def pods_of(template: PodTemplate) -> str:
    return "Pods" if template.is_template else "the Pod"


def class_names_of_workloads(context: Context) -> Iterator[tuple[Workload, str]]:
    """Yield the workloads of the cluster that have a template, with the PriorityClass that it names."""
    for workload in context.cluster.workloads.values() if context.cluster else ():
        try:
            template = pod_template_of(workload.object, context.options.pod_template_paths)
        except InvalidObject:
            continue
        if template is not None:
            yield workload, class_name(template)


def is_template_variable(value: object, subject: ReviewedObject, context: Context, error: str = "") -> bool:
    """True if a value in a file is or contains a template variable ({{ … }}, ${X}, #{X}, {X}, @X@, %X%), or is a
    placeholder. `error`: see `is_placeholder`.
    """
    in_file = context.phase is Phase.LINT and (is_variable(str(value)) or is_placeholder(value, error))
    return in_file and bool(subject.locate(()).line)  # a stored object is what it will be


def is_variable(text: str) -> bool:
    return bool(_VARIABLE.search(text))


_VARIABLE: Final = later(
    r"\{\{|[$#]\{.|\$\(.|\$[A-Za-z_]|<%|@[A-Za-z_][\w.-]*@|%[A-Za-z_][\w.-]*%|<[A-Z_]+>"
    r"|^(?:[\w.-]*\{[A-Za-z_]\w*\})+[\w.-]*$|^\{'[A-Z][A-Z0-9_]+': None\}$"
)
"""The last form is `{X}` without quotes, a mapping; a mapping such as `{app: }` lacks a value."""


_NO_LITERAL: Final = r"(?!(?:TRUE|FALSE|YES|OFF|NONE|NULL|NAN|INF|AUTO|ALL|ONE|TWO|THREE)$)"
_CAPITALS: Final = later(rf"{_NO_LITERAL}[A-Z]{{3,}}")


def is_capitals(value: object) -> bool:
    """Report whether a value is a word in capitals, which a program replaces by a value of another type."""
    return is_placeholder(value) or (isinstance(value, str) and bool(_CAPITALS.fullmatch(value)))


def is_placeholder(value: object, error: str = "") -> bool:
    """Report whether a value has the form of one that a person or a program replaces: `<node name>`, `__NAMESPACE__`,
    `job-TASK_ID`, `FILLED BY THE OPERATOR`, `APPNAME`, `YOUR-NAME` or `APP-hpa`.

    `error`: a text about the value; a word of it in another case, as IF_NOT_PRESENT for IfNotPresent, is a mistake.
    """
    if not isinstance(value, str) or not _PLACEHOLDER.search(value[:_MAX_PLACEHOLDER_LENGTH]):
        return False
    word = _BETWEEN_WORDS.sub("", value)
    return not any(word == name.upper() for name in _NAME_OF_VALUE.findall(error))


def shown_values(error: str) -> Sequence[str]:
    """Return the values that an error of kube-apiserver shows in quotes, without supported values."""
    shown = error.replace("\\u003c", "<").replace("\\u003e", ">")  # as Go escapes them in JSON
    return _QUOTED.findall(shown.partition("supported values")[0])


_PLACEHOLDER: Final = later(
    r"<[^<>]+>|^ENC\[|\{[A-Za-z_]\w*\}|#\{[\w. ]+\}|__[A-Za-z]\w*__|(?<![A-Za-z0-9])_+[A-Z][A-Z0-9]*_+(?![A-Za-z0-9])"
    rf"|(?<![A-Za-z0-9]){_NO_LITERAL}(?:[A-Z][A-Z0-9]*(?:[_ ][A-Z0-9]+)+|[A-Z]{{5,}}|X{{3,}})(?![A-Za-z0-9])"
    r"|^(?:APP|NAME)(?:-[a-z0-9-]+)?$"
    r"|^(?:[A-Z0-9]+-)*(?:YOUR|MY|REPLACE|CHANGE|NAME)(?:-[A-Z0-9]+)*$"
)
_MAX_PLACEHOLDER_LENGTH: Final = 300
_QUOTED: Final = later(r"\"((?:[^\"\\]|\\.)*)\"")
_BETWEEN_WORDS: Final = later(r"[-_ ]")
_NAME_OF_VALUE: Final = later(r"\b[A-Z]\w*[a-z]\w*")
_TESTS: Final = later(
    r"(?:^|[/_.-])(?:e2e|tests?|testing|testdata|fixtures?|examples?|samples?|demos?|hack|benchmarks?|contrib|docs?"
    r"|recipes?|cookbooks?|tutorials?|archived?|deprecated|scripts?|jenkins|poc|_?scaffold|_?skel|(?:kubevirt)?ci)(?=[/_.-])|testserver|testmanifests",
    re.IGNORECASE,
)


NAMING: Final = {Target.PART: "custom resources, PodGroups, Workloads"}
"""Parts of objects that rules about names of classes check."""


PRODUCTION: Final = later(r"prod|prd|live")
"""Names of files and directories for production."""


def is_test_file(path: str) -> bool:
    """Report whether the path of a file says that it is a test, an example or documentation."""
    return bool(_TESTS.search(path))


_STATIC: Final = later(r"(?:^|/)(?:etc/kubernetes/manifests|static-?pods?|pod-manifests|kubelet\.d)/[^/]*$")


def is_static_pod(subject: ReviewedObject) -> bool:
    """Report whether the kubelet of a node starts a Pod from a file, without an API server."""
    annotations = mapping_at(subject.object, "metadata", "annotations")
    is_of_file = annotations.get("kubernetes.io/config.source") == "file"
    return is_of_file or bool(_STATIC.search(subject.locate(()).file))


def class_to_be(template: PodTemplate, namespace: str, context: Context) -> str:
    """Return the PriorityClass of new Pods: the class that they name, otherwise the default of their namespace.

    "" if the global default applies. A Pod after mutation already has its final class.
    """
    name = class_name(template)
    if context.phase is Phase.VALIDATE and not template.is_template:
        return name
    given = class_by_namespace(name, context.namespace(namespace), context.classes)
    return given if given in context.classes or (given and not context.classes_known) else name


def class_or_default(template: PodTemplate, namespace: str, context: Context) -> str:
    """Return the PriorityClass of new Pods, which may be the global default; "" for none."""
    name = class_to_be(template, namespace, context)
    priority = None if name else resolved(template, context)
    return priority.priority_class_name if priority else name


def location_suffix(location: Location) -> str:
    """The suffix ` (classes.yaml:3)`; "" for a location outside a file."""
    return f" ({location})" if location.line else ""


MAX_CHARACTERS: Final = 120
"""Maximum characters of a message: a line of a terminal, and half of the part of a warning that kube-apiserver
sends.
"""
MAX_PATH_LENGTH: Final = 50


def shown_path(path: Path) -> str:
    """Return the path of a field, without its first steps if it is long."""
    text, left = field_path(path), list(path)
    while len(text) > MAX_PATH_LENGTH and len(left) > 1:
        left = left[2:] if isinstance(left[1], int) and len(left) > 2 else left[1:]
        text = f"….{field_path(tuple(left))}"
    return text


_SHORTEST_NAME: Final = 20
"""Minimum characters of the first name in a list."""


_MAX_TEXT_LENGTH: Final = 300
"""Maximum characters of a text of kube-apiserver that is shown whole: only one with a very long value has more."""


def api_text(text: str) -> str:
    """Return a text of kube-apiserver; of a very long one its start and its end, which gives the reason."""
    if len(text) <= _MAX_TEXT_LENGTH:
        return text
    return f"{text[: _MAX_TEXT_LENGTH // 3].rstrip()}…{text[-2 * _MAX_TEXT_LENGTH // 3 :].lstrip()}"


def naming(before: str, names: Sequence[str], count: int, after: str = "", limit: int = 3) -> str:
    """Return a message of the form `before`, `a, b and 2 more` (of `count` names), `after`.

    Contains as many of the first `limit` names as fit into MAX_CHARACTERS, at least one, shortened if necessary.
    """
    room = MAX_CHARACTERS - len(before) - len(after)
    for shown in range(min(limit, len(names)), 0, -1):
        text = listed(names, shown, count)
        if len(text) <= room:
            return f"{before}{text}{after}"
    rest = f" and {count - 1} more" if count > 1 else ""
    return f"{before}{cut(names[0], max(room - len(rest), _SHORTEST_NAME)) if names else ''}{rest}{after}"


def priorities_of(pods: Sequence[Pod]) -> str:
    """The priority values of Pods, the most frequent first: `100`, or `100 or 200`."""
    return " or ".join(str(value) for value, _ in Counter(p.priority or 0 for p in pods).most_common(3))


def is_earlier_than_the_default(template: PodTemplate, context: Context) -> bool:
    """Report whether the Priority plugin has completed a Pod without a global default: no class, and priority 0.

    The plugin's cache may not contain a global default that was just created.
    """
    given = template.spec.get("priority")
    return context.phase is Phase.VALIDATE and not template.is_template and given == 0 and not class_name(template)


def resolved(template: PodTemplate, context: Context, namespace: str = "") -> Resolved | None:
    """The values that the Priority plugin would set in this Pod; None if unknown, or if the class does not exist.

    `namespace`: to take its default class into account.
    """
    return resolved_class(class_to_be(template, namespace, context) if namespace else class_name(template), context)


def resolved_class(name: str, context: Context) -> Resolved | None:
    """The values that the Priority plugin would set in a Pod with this class ("": no class); None as for `resolved`."""
    if not name and context.cluster is None and not context.classes_known:
        return None  # a real cluster may have a default
    with suppress(Forbidden):
        return establish_priority(name, context.classes)
    return None


KARPENTER: Final = "karpenter"
CLUSTER_AUTOSCALER: Final = "cluster-autoscaler"


def autoscaler_of(cluster: ClusterSnapshot) -> str | None:
    """Return CLUSTER_AUTOSCALER or KARPENTER if the cluster has it; None if neither is known."""
    if any(CLUSTER_AUTOSCALER in name for *_, name in cluster.workloads):
        return CLUSTER_AUTOSCALER
    is_karpenter = any("karpenter.sh/nodepool" in node.labels for node in cluster.objects.nodes.values())
    return KARPENTER if is_karpenter else None


def diagnostics(rule: str, context: Context) -> Iterator[Problem]:
    """The problems that parsing the files of the change set has found for this rule."""
    for diagnostic in context.change_set.diagnostics:
        if diagnostic.rule == rule:
            yield Problem(
                diagnostic.message,
                (),
                diagnostic.remediation,
                location=diagnostic.location,
                object=diagnostic.object,
                severity=diagnostic.severity,
            )


MAX_WORKLOADS: Final = 1_000
"""Maximum number of workloads that one selector is compared with."""


MAX_COMPARISONS: Final = 1_000_000
"""Maximum number of comparisons of selectors with workloads in one change set."""


class Comparisons:
    """The comparisons of selectors with the workloads of a change set. Equal selectors are compared once."""

    def __init__(self, _: Context) -> None:
        self._left = MAX_COMPARISONS
        self.selected: dict[tuple[tuple[str, ...], str], list[Labelled]] = {}

    def charge(self, count: int) -> None:
        """Count comparisons before they are made. Raises TooLarge."""
        self._left -= count
        if self._left < 0:
            problem = f"the selectors of this input require more than {MAX_COMPARISONS:,} comparisons with workloads"
            raise TooLarge(problem, "check fewer files at once")


class Labelled(NamedTuple):
    """A workload, custom resource or Pod, and the labels of its Pods."""

    subject: ReviewedObject
    template: PodTemplate
    labels: Mapping[str, str]


def _labelled_by_namespace(context: Context) -> Mapping[str, Sequence[Labelled]]:
    """The workloads, Pods and custom resources with Pod templates of a change set, by namespace."""
    labelled = defaultdict[str, list[Labelled]](list)
    for subject in context.change_set.subjects:
        with suppress(InvalidObject):
            whole = None if subject.part else context.template(subject)
            parts = () if whole else parts_of(subject.object, context.options.class_paths)
            for template in [whole] if whole else parts:
                given = mapping(template.object, "metadata", "labels") or {}
                labels = {key: value for key, value in given.items() if isinstance(value, str)}
                if whole or labels:
                    labelled[subject.effective_namespace].append(Labelled(subject, template, labels))
    return labelled


def workloads_in(namespaces: Collection[str], context: Context) -> Iterator[Labelled]:
    """Yield the first workloads and Pods of the change set in these namespaces."""
    by_namespace = context.once(_labelled_by_namespace)
    return islice((w for namespace in namespaces for w in by_namespace.get(namespace, ())), MAX_WORKLOADS)


def selected(selector: Any, namespaces: Collection[str], context: Context) -> list[Labelled]:
    """Return the workloads and Pods that a label selector selects. An empty or invalid selector selects none. Raises
    TooLarge.
    """
    comparisons = context.once(Comparisons)
    key = tuple(sorted(namespaces)), json.dumps(selector, sort_keys=True, default=str)
    if key not in comparisons.selected:
        comparisons.selected[key] = _selected(selector, namespaces, context)
    return comparisons.selected[key]


def satisfying(term: Any, subject: ReviewedObject, context: Context) -> list[Labelled]:
    """The workloads that a term of an affinity selects; none if its own Pods do, and with a namespaceSelector."""
    names = [name for name in list_at(term, "namespaces") if isinstance(name, str)]
    namespaces = () if at(term, "namespaceSelector") is not None else names or [subject.effective_namespace]
    workloads = selected(at(term, "labelSelector"), namespaces, context)
    return [] if any(workload.subject is subject for workload in workloads) else workloads


def required_by(subject: ReviewedObject, context: Context) -> Iterator[ReviewedObject]:
    """Yield the objects to whose Pods those of an object require affinity. Raises InvalidObject, TooLarge."""
    template = context.template(subject)
    for term in list_at(template.spec, *AFFINITY_TERMS) if template else ():
        yield from (workload.subject for workload in satisfying(term, subject, context))


AFFINITY_TERMS: Final = ("affinity", "podAffinity", REQUIRED)


def only_on_workload(labels: ApiObject, workloads: Sequence[Labelled], context: Context) -> tuple[str, str]:
    """Return the problem and the fix for labels that a workload has itself, but not its Pods; ("", "") if none has."""
    context.once(Comparisons).charge(len(workloads))
    for subject, _, of_pods in workloads:
        own = mapping_at(subject.object, "metadata", "labels")
        lacking = [key for key, value in labels.items() if of_pods.get(key) != value == own.get(key)]
        if lacking and all(value in (own.get(key), of_pods.get(key)) for key, value in labels.items()):
            key, place = lacking[0], subject.source.locate(("metadata", "labels", lacking[0]), key=True)
            who = f"{subject.ref.kind} {cut(subject.ref.name, _SHOWN)}"
            file = os.path.normpath(place.file)
            is_of_kustomize = os.path.basename(file).startswith(_KUSTOMIZATION)
            add = f"write {key}: {of_pods[key]}" if key in of_pods else f"add {key} to the labels of its Pods"
            fix = f"set includeTemplates: true in {file}" if is_of_kustomize else add
            return f"only {who} itself has the label {key}: {cut(str(labels[key]), _SHOWN)}, not its Pods", fix
    return "", ""


_SHOWN: Final = 40
_KUSTOMIZATION: Final = ("kustomization.", "Kustomization")


def namespace_of_others(selector: Any, own: str, context: Context) -> str:
    """Return the only namespace except one in which a label selector selects workloads; "" for none or several."""
    names = context.once(_namespaces)
    others = sorted(names - {own}) if len(names) <= _MAX_NAMESPACES else []
    places = {each.subject.effective_namespace for each in selected(selector, others, context)} if others else set()
    return places.pop() if len(places) == 1 else ""


def _namespaces(context: Context) -> set[str]:
    """Return the namespaces that objects of the change set name."""
    return {each.effective_namespace for each in context.change_set.subjects if namespace_of(each.object)}


_MAX_NAMESPACES: Final = 100


def _selected(selector: Any, namespaces: Collection[str], context: Context) -> list[Labelled]:
    parsed, _ = selector_or_error(selector)
    workloads = list(workloads_in(namespaces, context))
    context.once(Comparisons).charge(len(workloads))
    return [w for w in workloads if parsed and w.labels and parsed.matches(w.labels)]
