"""Checks of forewarn's configuration and permissions, and of the cluster's PriorityClasses, quotas and namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.config import Config, ConfigError
from forewarn.policies.config.load import read_config
from forewarn.policies.evaluation.evaluator import EvaluationRequest, Phase, evaluate, stored_objects
from forewarn.policies.findings import Action, Severity, listed, plural
from forewarn.policies.kinds.registry import BY_GROUP_KIND, KINDS, NAMESPACE, PRIORITY_CLASS, RESOURCE_QUOTA, KindSpec
from forewarn.policies.objects.fields import InvalidObject, at
from forewarn.policies.objects.namespace import EXEMPT_UNTIL_ANNOTATION
from forewarn.policies.objects.priority_class import SYSTEM_NAMES, SYSTEM_PRIORITY_CLASS_PREFIX
from forewarn.policies.objects.reviewed_object import ChangeSet, User
from forewarn.policies.rules import RULES
from forewarn.policies.rules.support.context import Target
from forewarn.webhook.admission.access_reviews import PATH, access_review
from forewarn.webhook.doctor.client import Client, part
from forewarn.webhook.doctor.report import AGAIN, Area, Line

if TYPE_CHECKING:
    from datetime import datetime

    from forewarn.webhook.doctor.installation import Installed

AREA: Final = Area("configuration")
_ABOUT: Final = {Target.PRIORITY_CLASS, Target.NAMESPACE, Target.RESOURCE_QUOTA}
_RULES: Final = frozenset(
    rule.ID
    for rule in RULES
    if {*rule.TARGETS} <= _ABOUT and rule.SEVERITY is not None and "pods" not in rule.DEPENDS_ON.stored
)
"""Ids of the rules about these kinds that read no Pods, because a cluster can have very many Pods."""


def check(
    client: Client, installed: Installed, read: tuple[Config | None, list[Line]], now: datetime
) -> Iterator[Line]:
    """Check the configuration (from `read_configuration`), permissions, PriorityClasses, quotas and namespaces."""
    config, lines = read
    yield from lines
    yield from _rights(client, installed)
    yield from _objects(client, installed, config or Config(), now)


def read_configuration(client: Client, installed: Installed) -> tuple[Config | None, list[Line]]:
    """Return the webhook's configuration (None if unreadable or invalid), and lines of the report about it."""
    path = f"/api/v1/namespaces/{part(installed.namespace)}/configmaps/forewarn"
    seen = client.get(path, "the ConfigMap forewarn")
    if not seen.exists:
        if seen.is_missing:
            return Config(), [AREA.ok("configuration", "no ConfigMap forewarn: the defaults apply")]
        return None, [AREA.unknown("configuration", seen.why)]
    text = at(seen.object, "data", "forewarn.yaml")
    try:
        config = read_config(str(text or ""), "forewarn.yaml")
    except ConfigError as fault:
        fix = f"kubectl -n {installed.namespace} edit configmap forewarn; see docs/reference/configuration.md"
        return None, [AREA.problem("configuration", f"the ConfigMap forewarn is invalid: {fault}", fix)]
    off = sorted(rule for rule, action in config.actions.items() if action is Action.OFF)
    quiet = sum(action is Action.AUDIT for action in config.actions.values())
    phrases = [f"off: {listed(off)}"] if off else []
    phrases += [f"audit only: {plural(quiet, 'rule')}"] if quiet else []
    phrases += [plural(len(config.exemptions), "exemption")] if config.exemptions else []
    return config, [
        AREA.ok("configuration", f"the ConfigMap forewarn: {'; '.join(phrases) or 'all rules at their defaults'}")
    ]


def _rights(client: Client, installed: Installed) -> Iterator[Line]:
    """Check the permissions of the service account by SubjectAccessReviews."""
    user = f"system:serviceaccount:{installed.namespace}:{installed.account}"
    wanted = [(spec.group, spec.plural, verb, "", "") for spec in KINDS if not spec.optional for verb in spec.verbs]
    lease = ("coordination.k8s.io", "leases", installed.namespace, "forewarn-global-default")
    wanted += [(*lease[:2], verb, *lease[2:]) for verb in ("update", "create")]
    wanted.append(("authorization.k8s.io", "subjectaccessreviews", "create", "", ""))
    lacking: list[str] = []
    for right in wanted:
        answer = _may(client, user, *right)
        if isinstance(answer, str):
            yield AREA.unknown("permissions", answer, "run this as a user who can create SubjectAccessReviews")
            return
        if not answer:
            group, resource, verb, _, name = right
            lacking.append(f"{verb} {resource}{'.' + group if group else ''}{' ' + name if name else ''}")
    if lacking:
        yield AREA.problem("permissions", f"missing permissions of {user}: {listed(lacking, 5)}", AGAIN)
    else:
        yield AREA.ok("permissions", f"{user} has all {len(wanted)} permissions that it needs")


def _may(client: Client, user: str, group: str, resource: str, verb: str, namespace: str, name: str) -> bool | str:
    """Report whether a user has a permission; a string gives the reason why this is unknown."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}", "system:authenticated")
    review = access_review(
        User(user, groups), group=group, resource=resource, verb=verb, namespace=namespace, name=name
    )
    seen = client.create(PATH, review, "the permissions of its service account")
    return bool(at(seen.object, "status", "allowed")) if seen.exists else seen.why


def _objects(client: Client, installed: Installed, config: Config, now: datetime) -> Iterator[Line]:
    cache, whole = Cache(), True
    for name in (PRIORITY_CLASS, NAMESPACE, RESOURCE_QUOTA):
        spec = BY_GROUP_KIND[name]
        listed = client.all(spec.path, f"{spec.plural} of the cluster")
        whole = whole and listed.is_complete
        if listed.why:
            yield AREA.unknown(spec.plural, listed.why)
            if spec.kind == "PriorityClass":
                return  # without PriorityClasses, references to them cannot be checked
        yield from _added(cache, spec, listed.objects)
    cluster = cache.snapshot()
    if installed.priority_class and installed.priority_class not in cluster.priority_classes:
        missing = f"PriorityClass {installed.priority_class} of forewarn's Pods not found: new Pods are rejected"
        yield AREA.problem("priorityclasses", missing, AGAIN)
    yield from _reserved(cluster)
    exempt = [
        str(reason)
        for _, namespace in sorted(cluster.namespaces.items())
        if (reason := config._replace(exemptions=()).exemption(None, namespace, now))
    ]
    for reason in exempt:
        fix = f"if not needed any more: kubectl annotate namespace NAME {EXEMPT_UNTIL_ANNOTATION}-"
        yield AREA.warning("exemptions", reason, fix)
    subjects = tuple(stored_objects(cluster))
    selected = config._replace(selected=_RULES)
    findings = evaluate(
        EvaluationRequest(
            ChangeSet(subjects), cluster, selected, phase=Phase.LINT, now=now, expired=lambda: not client.remaining
        )
    )
    problems = [finding for finding in findings if finding.severity is not Severity.NOTE]
    for finding in sorted(problems, key=lambda f: (f.severity, f.rule, f.object)):
        make = AREA.problem if finding.severity is Severity.ERROR else AREA.warning
        text = f"{finding.object}: {finding.message} [{finding.rule}]"
        yield make(finding.object.kind, text, finding.remediation or f"forewarn explain {finding.rule}")
    if not problems:
        some = "" if whole else " (not all were read)"
        yield AREA.ok("objects", f"no problems in {len(subjects)} PriorityClasses, ResourceQuotas and Namespaces{some}")


def _reserved(cluster: ClusterSnapshot) -> Iterator[Line]:
    """Yield lines about PriorityClasses with the prefix `system-`, which only older API servers accepted."""
    for name in sorted({*cluster.priority_classes} - SYSTEM_NAMES):
        if name.startswith(SYSTEM_PRIORITY_CLASS_PREFIX):
            text = f"PriorityClass {name}: the name is reserved for the two system classes [reserved-system-name]"
            yield AREA.problem(
                "PriorityClass", text, "create a PriorityClass with another name, move its Pods to it, delete this one"
            )


def _added(cache: Cache, spec: KindSpec, objects: list[dict[str, Any]]) -> Iterator[Line]:
    for obj in objects:
        try:
            cache.add({**obj, "apiVersion": spec.api_version, "kind": spec.kind})
        except InvalidObject as fault:
            yield AREA.unknown(spec.plural, f"cannot read an object: {fault}")
