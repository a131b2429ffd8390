"""Rules of the webhook as ValidatingAdmissionPolicies and MutatingAdmissionPolicies, for clusters without the webhook.

The semantics are those of the rules and of `rules/support/allowed_classes.py`, written in CEL. Names and patterns of
the configuration appear only in literals that `quoted` and `regular_expression` write.
"""

from __future__ import annotations

import re
from fnmatch import translate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.findings import Action, Severity, cut, grouped, listed, quote
from forewarn.policies.kubernetes.kinds.registry import BY_GROUP_KIND, NAMESPACE, POD, PRIORITY_CLASS
from forewarn.policies.kubernetes.kube_apiserver.priority import SYSTEM_NAMESPACE
from forewarn.policies.kubernetes.objects import priority_class
from forewarn.policies.kubernetes.objects.namespace import DEFAULT_CLASS_ANNOTATION
from forewarn.policies.kubernetes.objects.pod import MIRROR_ANNOTATION
from forewarn.policies.kubernetes.releases.minors import RECORDED_MINOR
from forewarn.policies.kubernetes.releases.semantics import Semantics
from forewarn.policies.linting.config.model import Config, ConfigError, Exemption
from forewarn.policies.linting.rules import RULES
from forewarn.policies.linting.rules.support.allowed_classes import CONTROLLERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.policies.kubernetes.options import AllowedClasses
    from forewarn.policies.kubernetes.selectors import Requirement

API: Final = "admissionregistration.k8s.io/v1"
COVERED: Final = {
    "priority-value-too-high": "new PriorityClasses (kube-apiserver also rejects them)",
    "reserved-system-name": "new PriorityClasses (kube-apiserver also rejects them)",
    "global-default-not-unique": "PriorityClasses; two requests at the same moment can both pass",
    "below-autoscaler-cutoff": "PriorityClasses",
    "class-not-allowed": "Pods, workloads and default classes of Namespaces; not PodGroups or ControllerRevisions",
    "class-required": "Pods and workloads without a controller; the severity `error` denies",
    "system-class-outside-kube-system": "Pods and workloads",
    "pinned-priority": "workloads",
}
"""Rules that the policies cover -> the extent."""
_OWN: Final = "only for clusters with the webhook"
_ITSELF: Final = "kube-apiserver itself rejects the request"
_OTHERS: Final = "the rule reads other objects"
_NOT_WRITTEN: Final = "the command does not write it"
_REASONS: Final = {
    **dict.fromkeys(("class-of-forewarn", "exemption-not-allowed", "exemption-without-effect"), _OWN),
    **dict.fromkeys(("preemption-policy-mismatch", "priority-mismatch", "pod-group-invalid"), _ITSELF),
    "unknown-priority-class": "the rule reads other objects; kube-apiserver itself rejects Pods",
}
NOT_COVERED: Final = {
    rule.ID: _REASONS.get(rule.ID)
    or (_OTHERS if rule.DEPENDS_ON.stored else _ITSELF if rule.ACTION is Action.DENY else _NOT_WRITTEN)
    for rule in RULES
    if rule.ACTION and rule.ID not in COVERED
}
"""All other rules of the webhook -> the reason why the policies do not cover them."""

_ACTIONS: Final = {Action.DENY: ["Deny"], Action.WARN: ["Warn", "Audit"], Action.AUDIT: ["Audit"]}
_BY_SEVERITY: Final = {Severity.ERROR: Action.DENY, Severity.WARNING: Action.WARN, Severity.NOTE: Action.AUDIT}
_RULES: Final = {rule.ID: rule for rule in RULES}
_PLAIN: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_.,:;/()[]{}*?^$|+=!<>@#%&~'"
)
_MAX_LENGTH: Final = 100_000
"""Maximum characters of an expression (cel-go, `ExpressionSizeCodePointLimit`)."""
_MAX_REASONS: Final = 8


class AdmissionPolicies(NamedTuple):
    """Policies with their bindings, as API objects; the rules that they cover, and those of the configuration that they
    do not (with the reasons).
    """

    objects: tuple[ApiObject, ...]
    rules: tuple[str, ...]
    not_covered: Mapping[str, str]


def admission_policies(config: Config, minor: int) -> AdmissionPolicies:
    """The policies for a configuration and a Kubernetes minor. Raises ConfigError if a name or expression cannot be
    written in CEL.
    """
    checks = [check for matched in _matched(config) for check in _checks(config, matched)]
    # One policy can have only one action, and one kind of parameter.
    policies = grouped(((each.matched.name, each.action, each.of_each_class), each) for each in checks)
    objects = [obj for policy in policies.values() for obj in _validating(config, policy, minor)]
    if Semantics(minor).serves_mutating_policies:
        objects += _default_class(config)
    rules = tuple(dict.fromkeys(check.rule for check in checks))
    configured = {rule for rule, action in config.actions.items() if action is not Action.OFF}
    configured |= {"limited-class-without-quota"} if config.options.limited_resources else set()
    configured |= {"violates-expectation"} if config.options.promises else set()
    not_covered = {rule: NOT_COVERED[rule] for rule in sorted(configured) if rule in NOT_COVERED}
    return AdmissionPolicies(tuple(objects), rules, not_covered)


def quoted(text: str) -> str:
    """A CEL string literal. Raises ConfigError for a lone surrogate, which CEL cannot represent."""
    if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise ConfigError(f"{cut(ascii(text), 80)}: not a valid name; it contains a surrogate")
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in _PLAIN:
        return character
    if character in '"\\':
        return f"\\{character}"
    return f"\\u{ord(character):04x}" if ord(character) < 1 << 16 else f"\\U{ord(character):08x}"


def regular_expression(pattern: str) -> str:
    """The RE2 expression that matches the same texts as a shell pattern (`selectors.one_of`)."""
    return f"^(?s:{''.join(_to_re2(part[0]) for part in _PART.finditer(pattern))})$"


_PART: Final = re.compile(r"\[(?:!.|[^!])[^\]]*\]|\*+|.", re.DOTALL)
"""One part of a shell pattern: a class of characters (whose first one may be `]`), asterisks, or one character."""
_IN_CLASS: Final = re.compile(r"\\.|\[", re.DOTALL)
_NEVER: Final = "[^\\x00-\\x{10FFFF}]"


def _to_re2(part: str) -> str:
    if part[0] == "*":
        return ".*"
    if part == "?":
        return "."
    if len(part) == 1:
        return re.escape(part)
    inner = translate(part)[4:-3]  # without (?s: and )\Z
    if inner == "(?!)":
        return _NEVER
    return inner[0] + _IN_CLASS.sub(lambda match: "\\[" if match[0] == "[" else match[0], inner[1:])


def one_of(patterns: Iterable[str], subject: str) -> str:
    """The CEL condition that a value matches one of the shell patterns, as `selectors.one_of`."""
    names = [pattern for pattern in patterns if not _WILD & set(pattern)]
    parts = [f"{subject} in [{', '.join(map(quoted, names))}]"] if names else []
    expressions = [regular_expression(pattern) for pattern in patterns if _WILD & set(pattern)]
    return _any([*parts, *(f"{subject}.matches({quoted(each)})" for each in expressions)])


_WILD: Final = frozenset("*?[")


def _any(parts: Sequence[str]) -> str:
    return f"({' || '.join(parts)})" if parts else "false"


def _all(parts: Sequence[str]) -> str:
    return f"({' && '.join(parts)})" if parts else "true"


def _required(requirement: Requirement, labels: str) -> str:
    key, values = quoted(requirement.key), ", ".join(map(quoted, sorted(requirement.values)))
    there = f"{key} in {labels}"
    among = f"({there} && {labels}[{key}] in [{values}])"
    return {"In": among, "NotIn": f"!{among}", "Exists": there, "DoesNotExist": f"!({there})"}[requirement.operator]


class _Matched(NamedTuple):
    """Requests for the same kinds of objects: a suffix of names, resource rules, and the path of the Pod spec."""

    name: str
    rules: tuple[ApiObject, ...]
    spec: tuple[str, ...] = ()
    kind: str = ""
    """The only kind, of a custom resource."""

    @property
    def is_template(self) -> bool:
        return len(self.spec) > 1

    @property
    def namespace(self) -> str:
        """The CEL expression of the namespace; "" for cluster-scoped objects, except Namespaces."""
        return {"priorityclasses": "", "namespaces": "object.metadata.name"}.get(self.name, "request.namespace")

    @property
    def operations(self) -> list[str]:
        return ["CREATE"] if self.name == "pods" else ["CREATE", "UPDATE"]


class _Check(NamedTuple):
    """One validation. `valid` and `message` are CEL expressions."""

    rule: str
    action: Action
    matched: _Matched
    valid: str
    message: str
    of_each_class: bool = False
    """Evaluate the check for each PriorityClass, which is the parameter of the policy."""


def _matched(config: Config) -> Iterator[_Matched]:
    yield _Matched("priorityclasses", (_resource(PRIORITY_CLASS),))
    yield _Matched("namespaces", (_resource(NAMESPACE, "namespaces", "namespaces/status", "namespaces/finalize"),))
    yield _Matched("pods", (_resource(POD),), ("spec",))
    built_in: dict[tuple[str, ...], list[str]] = {}
    for kind, path in config.options.pod_template_paths.items():
        if kind in BY_GROUP_KIND:
            built_in.setdefault(path, []).append(kind)
        else:
            group, _, name = kind.partition("/")
            resource = {"apiGroups": [group], "apiVersions": ["*"], "resources": ["*"], "scope": "Namespaced"}
            yield _Matched(f"{name.lower()}.{group}", (resource,), (*path, "spec"), name)
    for path, kinds in built_in.items():
        name = "workloads" if path == ("spec", "template") else BY_GROUP_KIND[kinds[0]].plural
        yield _Matched(name, tuple(map(_resource, kinds)), (*path, "spec"))


def _resource(kind: str, *resources: str) -> ApiObject:
    spec = BY_GROUP_KIND[kind]
    version = spec.api_version.rpartition("/")[2]
    return {"apiGroups": [spec.group], "apiVersions": [version], "resources": list(resources) or [spec.plural]}


def _checks(config: Config, matched: _Matched) -> Iterator[_Check]:
    """The checks of all covered rules for these objects."""
    for rule, valid, message in _validations(config, matched):
        action = _action(config, rule, is_template=matched.is_template)
        if action is not Action.OFF:
            tagged = f"{message} + {quoted(f' [{rule}]')}"
            yield _Check(rule, action, matched, valid, tagged, of_each_class=rule == "global-default-not-unique")


def _action(config: Config, name: str, *, is_template: bool) -> Action:
    from forewarn.policies.linting.rules.support.context import Target

    rule = _RULES[name]
    if rule.ACTION is None and name not in config.actions:
        return _BY_SEVERITY[config.severity(rule) or Severity.ERROR]
    return config.action(rule, Target.TEMPLATE if is_template else Target.POD)


def _validations(config: Config, matched: _Matched) -> Iterator[tuple[str, str, str]]:
    """Yield rule, condition and message."""
    if matched.name == "priorityclasses":
        yield from _class_rules(config)
        return
    if config.options.allowed_classes:
        message = f'"class \\"" + variables.className + "\\" is not allowed in namespace " + {matched.namespace}'
        fix = quoted(". Fix: use another class, or ask for an entry in allowedClasses")
        yield "class-not-allowed", _is_allowed(config.options.allowed_classes, matched), f"{message} + {fix}"
    if not matched.spec:
        return
    for entry in config.options.required_classes:
        permitted = listed([*map(quote, entry.classes)])
        if entry.classes:
            problem = f"the configuration requires another PriorityClass. Fix: use {permitted}"
        else:
            problem = "no PriorityClass, but the configuration requires one. Fix: use a PriorityClass"
        applies = [one_of(entry.namespaces, "request.namespace")] if entry.namespaces else []
        applies += [one_of(entry.kinds, "request.kind.kind")] if entry.kinds else []
        named = one_of(entry.classes, "variables.className") if entry.classes else 'variables.className != ""'
        # As the rule, but an update of a stored object may keep its class.
        yield "class-required", _any([f"!{_all(applies)}", "variables.hadClass", _OWNED, named]), quoted(problem)
    names = ", ".join(map(quoted, sorted(priority_class.SYSTEM_NAMES)))
    outside = quoted('" outside kube-system: its Pods rank above all your workloads. Fix: use a class of your own')
    message = f"""{quoted('class "')} + variables.className + {outside}"""

    yield "system-class-outside-kube-system", f"!(variables.className in [{names}])", message
    if matched.is_template:
        problem = "template sets priority; Pods are rejected if the class has another value. Fix: remove priority"
        yield "pinned-priority", f"!({_present('object', *matched.spec, 'priority')})", quoted(problem)


def _class_rules(config: Config) -> Iterator[tuple[str, str, str]]:
    system = priority_class.SYSTEM_PRIORITY_CLASS_PREFIX
    prefix = f"object.metadata.name.startsWith({quoted(system)})"
    most, cutoff = priority_class.HIGHEST_USER_DEFINABLE_PRIORITY, config.options.autoscaler_cutoff
    problem = f"maximum value is {most}. Fix: use a value of {most} or less"
    yield "priority-value-too-high", f"oldObject != null || {prefix} || object.value <= {most}", quoted(problem)
    default = "(has({0}.globalDefault) && {0}.globalDefault)"
    own = [
        f"(object.metadata.name == {quoted(c.name)} && object.value == {c.value} && !{default.format('object')})"
        for c in priority_class.SYSTEM_CLASSES
    ]
    problem = f'prefix "{system}" is reserved for Kubernetes. Fix: use a name without the prefix'
    yield "reserved-system-name", f"oldObject != null || !{prefix} || {_any(own)}", quoted(problem)
    same = "params.metadata.name == object.metadata.name"
    message = (
        '"PriorityClass " + params.metadata.name + " is already the global default. Fix: set globalDefault: false"'
    )
    valid = f"!{default.format('object')} || !{default.format('params')} || {same}"
    yield "global-default-not-unique", valid, message
    problem = f"value is below cluster-autoscaler's cutoff ({cutoff}): it adds no nodes for these Pods"
    yield "below-autoscaler-cutoff", f"object.value >= {cutoff}", quoted(problem)


def _is_allowed(entries: Sequence[AllowedClasses], matched: _Matched) -> str:
    """The CEL condition that a Pod may use a class, as `allowed_classes.is_allowed`."""
    naming = [_all(['variables.className != ""', one_of(entry.classes, "variables.className")]) for entry in entries]
    permitting = [
        _all([named, *_conditions(entry, matched, "variables.labels", "variables.needsNoPermission")])
        for named, entry in zip(naming, entries, strict=True)
    ]
    return _any([f"!{_any(naming)}", *permitting])


def _conditions(
    entry: AllowedClasses | Exemption, matched: _Matched, labels: str, user_is_exempt: str = ""
) -> Iterator[str]:
    """The conditions of an entry on namespace and user."""
    if entry.namespaces:
        yield one_of(entry.namespaces, matched.namespace) if matched.namespace else "false"
    if entry.namespace_selector is not None:
        required = [_required(requirement, labels) for requirement in entry.namespace_selector.requirements]
        yield _all(required) if matched.namespace else "false"
    of_user = [one_of(entry.users, "variables.user")] if entry.users else []
    of_user += [f"variables.groups.exists(g, {one_of(entry.groups, 'g')})"] if entry.groups else []
    if of_user:
        yield _any([user_is_exempt, _all(of_user)]) if user_is_exempt else _all(of_user)


_OWNED: Final = (
    "(has(object.metadata.ownerReferences) && "
    "object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller))"
)


def _present(*path: str) -> str:
    """The CEL condition that a field and all its parents exist."""
    return _all([f"has({'.'.join(path[: length + 1])})" for length in range(1, len(path))])


def _class_in(root: str, matched: _Matched) -> str:
    """The class that an object names, or that a Namespace has as default; "" for none."""
    path = (root, *matched.spec, "priorityClassName")
    return f'({_present(*path)} ? {".".join(path)} : "")' if matched.spec else _annotated(root)


def _annotated(root: str) -> str:
    annotations, key = f"{root}.metadata.annotations", quoted(DEFAULT_CLASS_ANNOTATION)
    return f'(has({annotations}) && {key} in {annotations} ? {annotations}[{key}] : "")'


def _labels_of(root: str) -> str:
    return f"has({root}.metadata.labels) ? {root}.metadata.labels : {{}}"


def _variables(config: Config, matched: _Matched, minor: int) -> dict[str, str]:
    """The variables of a policy, in order: CEL expressions by name."""
    user, groups = "request.userInfo.username", "request.userInfo.groups"
    variables = {"user": f'has({user}) ? {user} : ""', "groups": f"has({groups}) ? {groups} : []"}
    is_namespace = matched.name == "namespaces"
    stored = f"oldObject != null && {_labels_of('oldObject')}" if is_namespace else _labels_of("namespaceObject")
    if matched.namespace:
        variables["storedLabels"] = stored
        variables["labels"] = _labels_of("object") if is_namespace else "variables.storedLabels"
        variables["namedClass"] = _class_in("object", matched)
        default = f'variables.namedClass == "" ? {_annotated("namespaceObject")} : variables.namedClass'
        has_default = matched.is_template and Semantics(minor).serves_mutating_policies
        variables["className"] = default if has_default else "variables.namedClass"
        variables["hadClass"] = f"oldObject != null && variables.namedClass == {_class_in('oldObject', matched)}"
        controllers = ", ".join(map(quoted, sorted(CONTROLLERS)))
        variables["needsNoPermission"] = f"variables.hadClass || variables.user in [{controllers}]"
    exempt = [_all(list(_conditions(entry, matched, "variables.storedLabels"))) for entry in config.exemptions]
    return variables | {"isExempt": _any(exempt)}


def _used(variables: Mapping[str, str], expressions: Sequence[str], name: str) -> list[ApiObject]:
    """The variables that expressions use directly or through other variables."""
    used: list[ApiObject] = []
    text = " ".join(expressions)
    for key, expression in reversed(list(variables.items())):
        if f"variables.{key}" in text:
            used.append({"name": key, "expression": _bounded(expression, name)})
            text = f"{text} {expression}"
    return used[::-1]


def _validating(config: Config, checks: Sequence[_Check], minor: int) -> Iterator[ApiObject]:
    matched, first = checks[0].matched, checks[0]
    name = f"forewarn-{first.action.value}-{'global-default' if first.of_each_class else matched.name}"
    spec: dict[str, Any] = {"failurePolicy": "Fail"}
    if first.of_each_class:
        spec["paramKind"] = _PARAMETER
    spec["matchConstraints"] = _constraints(matched.rules, matched.operations)
    spec["matchConditions"] = list(_match_conditions(matched))
    unless = "variables.isExempt || " if config.exemptions else ""
    valid = [_bounded(unless + check.valid, name) for check in checks]
    spec["variables"] = _used(_variables(config, matched, minor), [*valid, *(c.message for c in checks)], name)
    spec["validations"] = [
        {"expression": expression, "messageExpression": check.message, "reason": "Forbidden"}
        for expression, check in zip(valid, checks, strict=True)
    ]
    yield _object("ValidatingAdmissionPolicy", name, spec)
    binding: dict[str, Any] = {"policyName": name, "validationActions": _ACTIONS[first.action]}
    yield _object("ValidatingAdmissionPolicyBinding", name, binding | (_ALL_CLASSES if first.of_each_class else {}))


def _default_class(config: Config) -> Iterator[ApiObject]:
    """The policy that assigns the default class of a Namespace to new Pods, as `webhook/admission/mutation.py`.

    kube-apiserver's Priority plugin runs before and after policies. Only an absent priority lets it use the new class.
    """
    pods = _Matched("pods", (_resource(POD),), ("spec",))
    name, variables = "forewarn-default-class", _variables(config, pods, RECORDED_MINOR)
    removed = " + ".join(
        f'(has(object.spec.{field}) ? [JSONPatch{{op: "remove", path: "/spec/{field}"}}] : [])'
        for field in ("priority", "preemptionPolicy")
    )
    added = '[JSONPatch{op: "add", path: "/spec/priorityClassName", value: params.metadata.name}]'
    default = f"{_annotated('namespaceObject')} == params.metadata.name"
    unless = " && !variables.isExempt" if config.exemptions else ""
    expression = f'{default} && variables.className == ""{unless} ? {added} + {removed} : []'
    node, annotations = '"system:nodes" in request.userInfo.groups', "object.metadata.annotations"
    mirror = f"has({annotations}) && {quoted(MIRROR_ANNOTATION)} in {annotations}"
    not_mirror = {"name": "not-mirror-pods", "expression": f"!({node} && {mirror})"}
    spec: dict[str, Any] = {
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "paramKind": _PARAMETER,
        "matchConstraints": _constraints(pods.rules, pods.operations),
        "matchConditions": [*_match_conditions(pods), not_mirror],
        "variables": _used(variables, [expression], name),
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    yield _object("MutatingAdmissionPolicy", name, spec)
    yield _object("MutatingAdmissionPolicyBinding", name, {"policyName": name, **_ALL_CLASSES})


_PARAMETER: Final = {"apiVersion": BY_GROUP_KIND[PRIORITY_CLASS].api_version, "kind": "PriorityClass"}
_ALL_CLASSES: Final[dict[str, Any]] = {"paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}}


def _constraints(rules: Sequence[ApiObject], operations: list[str]) -> ApiObject:
    return {"matchPolicy": "Equivalent", "resourceRules": [{**rule, "operations": operations} for rule in rules]}


def _match_conditions(matched: _Matched) -> Iterator[ApiObject]:
    expression = f"!has(request.namespace) || request.namespace != {quoted(SYSTEM_NAMESPACE)}"
    yield {"name": "not-kube-system", "expression": expression}
    if matched.kind:
        yield {"name": "kind", "expression": f"request.kind.kind == {quoted(matched.kind)}"}


def _object(kind: str, name: str, spec: ApiObject) -> ApiObject:
    labels = {"app.kubernetes.io/managed-by": "forewarn-policies"}
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": spec}


def _bounded(expression: str, name: str) -> str:
    if len(expression) > _MAX_LENGTH:
        problem = f"{name}: an expression would have {len(expression):,} characters, more than {_MAX_LENGTH:,}"
        raise ConfigError(f"{problem}; list fewer names, or use patterns")
    return expression


def reasons(not_covered: Mapping[str, str]) -> str:
    return listed([f"{rule} ({reason})" for rule, reason in not_covered.items()], _MAX_REASONS)
