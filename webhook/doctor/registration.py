"""Checks of both webhook configurations against those in forewarn's manifests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.findings import listed
from forewarn.policies.objects.fields import NOTHING, ApiObject, at
from forewarn.policies.selectors import InvalidSelector, parse_label_selector
from forewarn.webhook.doctor.report import AGAIN, Area, Line, kubectl_patch

if TYPE_CHECKING:
    from forewarn.webhook.doctor.client import Client

AREA: Final = Area("registration")
SUFFIX: Final = ".forewarn.dev"
VALIDATING, MUTATING = "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"
_GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
_PATHS: Final = {
    VALIDATING: f"{_GROUP}/validatingwebhookconfigurations",
    MUTATING: f"{_GROUP}/mutatingwebhookconfigurations",
}
_SELECTED: Final = {
    "namespaceSelector": ("/api/v1/namespaces", "namespaces of the cluster"),
    "objectSelector": ("/apis/apps/v1/deployments", "Deployments of all namespaces"),
}
"""Selector of a webhook -> path and name of the objects to which doctor applies it."""
_PODS_AND_WORKLOADS: Final = (
    ("", "v1", "pods", "CREATE", "Namespaced"),
    ("apps", "v1", "deployments", "CREATE", "Namespaced"),
    ("batch", "v1", "jobs", "CREATE", "Namespaced"),
)
_CLASSES: Final = (("scheduling.k8s.io", "v1", "priorityclasses", "CREATE", "Cluster"),)


class Webhook(NamedTuple):
    """A registered webhook: its fields, the kind and name of its configuration, and its index in the configuration."""

    fields: ApiObject
    kind: str = ""
    configuration: str = ""
    place: int = 0

    @property
    def service(self) -> ApiObject | None:
        """The Service reference; None if API servers call a URL."""
        service = at(self.fields, "clientConfig", "service")
        return service if isinstance(service, dict) else None

    @property
    def path(self) -> str:
        """The expected path, without the token that the CA injector appends."""
        return "/mutate" if self.kind == MUTATING else "/validate"

    def patch(self, op: str, field: str, value: object = None) -> str:
        """The kubectl command that changes one field of this webhook only."""
        path = f"/webhooks/{self.place}"
        change = {"op": op, "path": f"{path}/{field}", **({} if op == "remove" else {"value": value})}
        is_it = {"op": "test", "path": f"{path}/name", "value": self.fields.get("name")}
        return kubectl_patch(f"{self.kind.lower()} {self.configuration}", is_it, change)


class Registered(NamedTuple):
    """The registered webhooks. `webhooks`: forewarn's webhooks by name. `is_known`: both kinds of configurations were
    readable.
    """

    webhooks: Mapping[str, Webhook]
    is_known: bool
    lines: list[Line]

    @property
    def service(self) -> ApiObject:
        """The Service that most webhooks call; empty if API servers call a URL or there are no webhooks."""
        webhooks = [service for webhook in self.webhooks.values() if (service := webhook.service) is not None]
        counts = Counter(map(service_name, webhooks))
        return max(webhooks, key=lambda service: counts[service_name(service)], default=NOTHING)


@cache
def shipped() -> Mapping[str, Mapping[str, ApiObject]]:
    """Return the webhooks of manifests/base: kind of configuration -> name -> webhook."""
    objects: Mapping[str, Mapping[str, ApiObject]] = json.loads(
        files(__package__ or "").joinpath("shipped.json").read_text("utf-8")
    )
    return objects


def check(client: Client) -> Registered:
    """Read both kinds of webhook configurations, and compare forewarn's webhooks with those in its manifests."""
    lines: list[Line] = []
    webhooks: dict[str, Webhook] = {}
    others: dict[str, list[tuple[str, ApiObject]]] = {}
    is_known = True
    for kind, path in _PATHS.items():
        configuration = _read(client, path, kind)
        if isinstance(configuration, str):
            is_known = False
            lines.append(AREA.unknown(kind, configuration, "run this as a user who can read webhook configurations"))
            continue
        names = [str(webhook.fields.get("name") or "") for webhook in configuration]
        ours = {name: webhook for name, webhook in zip(names, configuration, strict=True) if name.endswith(SUFFIX)}
        webhooks |= ours
        others[kind] = [
            (w.configuration, w.fields) for name, w in zip(names, configuration, strict=True) if name not in ours
        ]
        lines += _configuration(client, kind, ours)
    registered = Registered(webhooks, is_known, lines)
    lines += _elsewhere(registered)
    if webhooks:
        lines += _others(others)
    return registered


def _elsewhere(registered: Registered) -> Iterator[Line]:
    """Report the webhooks that are called at another Service than most."""
    usual = service_name(registered.service)
    for name, webhook in registered.webhooks.items():
        if webhook.service is not None and service_name(webhook.service) != usual:
            own, most = ("/".join(names) for names in (service_name(webhook.service), usual))
            text = f"{name} is called at the Service {own}, the others at {most}"
            field, value = ("name", usual[1]) if webhook.service.get("name") != usual[1] else ("namespace", usual[0])
            yield AREA.problem(webhook.kind, text, webhook.patch("replace", f"clientConfig/service/{field}", value))


def _read(client: Client, path: str, kind: str) -> list[Webhook] | str:
    """Return the webhooks of all configurations of a kind; a string gives the reason why they are unknown."""
    listed = client.all(path, f"{kind}s")
    objects = listed.objects
    if listed.status == 403:
        one = client.get(f"{path}/forewarn", f"{kind} forewarn")
        if not one.exists and not one.is_missing:
            return one.why
        objects = [one.object] if one.exists else []
    elif listed.why:
        return listed.why
    return [
        Webhook(webhook, kind, str(at(obj, "metadata", "name") or ""), index)
        for obj in objects
        for index, webhook in enumerate(_objects(obj.get("webhooks")))
    ]


def _configuration(client: Client, kind: str, ours: Mapping[str, Webhook]) -> Iterator[Line]:
    wanted = shipped()[kind]
    if not ours:
        if kind == VALIDATING:
            yield AREA.problem(kind, "none with a webhook of forewarn: API servers do not call forewarn", AGAIN)
        else:
            text = "none with a webhook of forewarn: no annotations, no default PriorityClasses of namespaces"
            yield AREA.warning(kind, text, f"none if intended (overlay audit-only); else {AGAIN}")
        return
    lines = [line for name, webhook in wanted.items() for line in _webhook(client, kind, webhook, ours.get(name))]
    yield from lines
    if not lines:
        yield AREA.ok(kind, f"{listed(sorted(ours), 4)}: rules, selectors, matchConditions and timeouts as shipped")


def _webhook(client: Client, kind: str, wanted: ApiObject, webhook: Webhook | None) -> Iterator[Line]:
    name = wanted["name"]
    if webhook is None:
        yield AREA.problem(kind, f"the webhook {name} is missing", AGAIN)
        return
    fields = webhook.fields
    missing = [_words(rule) for rule in _rules(wanted) if not _is_covered(rule, _objects(fields.get("rules")))]
    if missing:
        yield AREA.problem(kind, f"{name} is not called for {listed(missing, 5)}", AGAIN)
    if fields.get("matchPolicy") == "Exact":
        text = f"{name}: matchPolicy is Exact, so objects in other API versions are not checked"
        yield AREA.problem(kind, text, webhook.patch("replace", "matchPolicy", wanted["matchPolicy"]))
    versions, version = _texts(fields, "admissionReviewVersions"), wanted["admissionReviewVersions"]
    if version[0] not in versions:
        text = f"{name}: admissionReviewVersions is {listed(versions)}, and forewarn answers only {version[0]}"
        yield AREA.problem(kind, text, webhook.patch("replace", "admissionReviewVersions", version))
    policy = fields.get("failurePolicy")
    if policy != wanted["failurePolicy"]:
        meant = "Fail, requests are rejected while forewarn does not respond" if policy == "Fail" else _open(name)
        text = f"{name}: failurePolicy is {policy} instead of {wanted['failurePolicy']}; with {meant}"
        repair = webhook.patch("replace", "failurePolicy", wanted["failurePolicy"])
        yield AREA.warning(kind, text, f"{_IF_INTENDED}{repair}")
    yield from _narrowed(client, kind, wanted, webhook)
    yield from _called(kind, wanted, webhook)


_IF_INTENDED: Final = "none if intended; else "


def _open(name: str) -> str:
    if name.startswith("classes."):
        return "Ignore, there can be two global defaults while forewarn does not respond"
    return "Ignore, objects are admitted unchecked while forewarn does not respond"


def _narrowed(client: Client, kind: str, wanted: ApiObject, webhook: Webhook) -> Iterator[Line]:
    """Check selectors, matchConditions and the timeout against the shipped webhook `wanted`.

    kubectl apply and helm upgrade merge selectors and matchConditions by key, so additions of users remain.
    """
    name, fields = wanted["name"], webhook.fields
    for selector in _SELECTED:
        if fields.get(selector):
            repair = webhook.patch("replace", selector, {})
            text = f"{name} has the {selector} {json.dumps(fields[selector])}"
            count, total, what = _selected(client, selector, fields[selector])
            if total and not count:
                yield AREA.problem(kind, f"{text}, which selects none of {total} {what}", repair)
            else:
                some = f", which selects {count} of {total} {what}" if total else ""
                yield AREA.warning(kind, f"{text}{some}: others are not checked", f"{_IF_INTENDED}{repair}")
    shipped_ones, conditions = _conditions(wanted), _conditions(fields)
    for index, condition in enumerate(conditions):
        if condition not in shipped_ones:
            text = f'{name} has an additional matchCondition "{condition}": {conditions[condition]}'
            yield AREA.warning(kind, text, f"{_IF_INTENDED}{webhook.patch('remove', f'matchConditions/{index}')}")
    for condition in sorted({*shipped_ones} - {*conditions}):
        yield AREA.warning(kind, f'{name} has no matchCondition "{condition}"', f"{_IF_INTENDED}{AGAIN}")
    for condition in sorted({*shipped_ones} & {*conditions}):
        if shipped_ones[condition] != conditions[condition]:
            text = f'{name}: the matchCondition "{condition}" differs: {conditions[condition]}'
            yield AREA.warning(kind, text, f"{_IF_INTENDED}{AGAIN}")
    seconds = fields.get("timeoutSeconds")
    if seconds != wanted["timeoutSeconds"]:
        text = f"{name}: timeoutSeconds is {seconds} instead of {wanted['timeoutSeconds']}; it limits predictions"
        repair = webhook.patch("replace", "timeoutSeconds", wanted["timeoutSeconds"])
        yield AREA.warning(kind, text, f"{_IF_INTENDED}{repair}")


def _selected(client: Client, field: str, selector: Any) -> tuple[int, int, str]:
    """Return how many objects of the cluster a selector selects, of how many, and their kind; 0 of 0 if unknown."""
    path, what = _SELECTED[field]
    with suppress(InvalidSelector):
        parsed, objects = parse_label_selector(selector), client.all(path, what).objects
        labels = [at(obj, "metadata", "labels") or {} for obj in objects]
        return sum(parsed is not None and parsed.matches(some) for some in labels), len(labels), what
    return 0, 0, what


def _called(kind: str, wanted: ApiObject, webhook: Webhook) -> Iterator[Line]:
    """Check the path of the Service, which can end in a token. A webhook with a URL gets a warning only.

    Only users change a path: the manifests do not contain one, and the CA injector only appends the token.
    """
    service = webhook.service
    if service is None:
        url = at(webhook.fields, "clientConfig", "url")
        text = f"{wanted['name']} is called at {url}" if url else f"{wanted['name']} has no address"
        yield AREA.warning(kind, text, "none if the webhook runs outside the cluster")
        return
    base = f"/{str(service.get('path') or '').strip('/').partition('/')[0]}"
    path = webhook.path
    if base != path:
        text = f"{wanted['name']} is called at the path {base} instead of {path}"
        yield AREA.problem(kind, text, webhook.patch("add", "clientConfig/service/path", path))


def service_name(service: ApiObject) -> tuple[str, str]:
    return str(service.get("namespace") or ""), str(service.get("name") or "")


def _others(others: Mapping[str, Sequence[tuple[str, ApiObject]]]) -> Iterator[Line]:
    """Report other webhooks that can change Pods and workloads, or must respond before a PriorityClass is stored."""
    every = [webhook for webhooks in others.values() for webhook in webhooks]
    required = [(name, webhook) for name, webhook in every if webhook.get("failurePolicy") != "Ignore"]
    for webhooks, rules, what in (
        (
            others.get(MUTATING, ()),
            _PODS_AND_WORKLOADS,
            "can also change Pods and workloads; /validate checks the result",
        ),
        (required, _CLASSES, "must also respond before a PriorityClass is stored"),
    ):
        names = {
            f"{configuration} ({webhook.get('name')})"
            for configuration, webhook in webhooks
            if any(_is_covered(rule, _objects(webhook.get("rules"))) for rule in rules)
        }
        if names:
            yield AREA.ok("other webhooks", f"{listed(sorted(names), 5)} {what}")


Rule = tuple[str, str, str, str, str]
"""Group, version, resource, operation and scope of a webhook rule."""


def _rules(webhook: ApiObject) -> list[Rule]:
    return [
        (group, version, resource, operation, rule["scope"])
        for rule in _objects(webhook.get("rules"))
        for group in _texts(rule, "apiGroups")
        for version in _texts(rule, "apiVersions")
        for resource in _texts(rule, "resources")
        for operation in _texts(rule, "operations")
    ]


def _is_covered(rule: Rule, rules: Iterable[ApiObject]) -> bool:
    """Report whether one of these webhook rules matches. `*` matches all resources, `*/*` also subresources."""
    group, version, resource, operation, scope = rule
    subresource = resource.partition("/")[2]
    same = {resource, "*/*", f"{resource.partition('/')[0]}/*"} | ({f"*/{subresource}"} if subresource else {"*"})
    return any(
        {group, "*"} & {*_texts(is_covered, "apiGroups")}
        and {version, "*"} & {*_texts(is_covered, "apiVersions")}
        and same & {*_texts(is_covered, "resources")}
        and {operation, "*"} & {*_texts(is_covered, "operations")}
        and is_covered.get("scope", "*") in (scope, "*")
        for is_covered in rules
    )


def _words(rule: Rule) -> str:
    group, _, resource, operation, _ = rule
    return f"{operation} of {resource}{'.' + group if group else ''}"


def _conditions(webhook: ApiObject) -> dict[str, str]:
    """Return the matchConditions: name -> CEL expression with normalized blanks."""
    return {
        str(condition.get("name")): " ".join(str(condition.get("expression")).split())
        for condition in _objects(webhook.get("matchConditions"))
    }


def _objects(value: Any) -> list[ApiObject]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _texts(rule: ApiObject, field: str) -> list[str]:
    value = rule.get(field)
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
