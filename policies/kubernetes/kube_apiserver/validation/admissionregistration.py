"""Tables of webhook configurations. Source: pkg/apis/admissionregistration/validation.

CEL expressions are not compiled, and CA bundles not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from forewarn.policies.base.findings import Path, field_path
from forewarn.policies.base.light import later
from forewarn.policies.base.metering import charging
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.validation import tables
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import (
    FieldError,
    dns1123_subdomain,
    duplicate,
    invalid,
    not_supported,
    qualified_name,
    required,
    too_many,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.policies.kubernetes.releases.semantics import Semantics

_Faults = Iterator[FieldError]
_SEGMENTS: Final = 3
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_DNS1035: Final = later("[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_DNS1035_CHARACTERS: Final = 63
_VERSIONS: Final = ("v1", "v1beta1")
_CONDITIONS: Final = 64
_PORTS: Final = 65_535
_ESCAPE: Final = later("%(?![0-9A-Fa-f]{2})")
_HOST: Final = later(r"(\[[^\[\]\s]*\]|[^\[\]\s<>\"\\^`{}|:]*)(:[0-9]*)?")


def _qualified_domain(path: Path, name: str) -> _Faults:
    """Yield the error of a name that is not fully qualified (`IsFullyQualifiedName`)."""
    if not name:
        yield required(path)
    elif faults := dns1123_subdomain(name):
        yield invalid(path, name, ",".join(faults))
    elif name.count(".") < _SEGMENTS - 1:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def _list(entries: Any) -> list[str]:
    return [entry or "" for entry in entries or ()]


def _rule(rule: ApiObject, path: Path, _: Semantics) -> _Faults:
    """Yield the errors of a rule of a webhook (`validateRuleWithOperations`)."""
    for name in ("operations", "apiGroups", "apiVersions"):
        entries = _list(rule.get(name))
        if not entries:
            yield required((*path, name))
        if len(entries) > 1 and "*" in entries:
            yield invalid((*path, name), entries, "if '*' is present, must not specify others")
        for index, entry in enumerate(entries):
            if name == "operations" and entry not in _OPERATIONS:
                yield not_supported((*path, name, index), entry, _OPERATIONS)
            if name == "apiVersions" and not entry:
                yield required((*path, name, index))
    yield from _resources(_list(rule.get("resources")), (*path, "resources"))


def _resources(resources: Sequence[str], path: Path) -> _Faults:
    """Yield the errors of the resources of a rule (`validateResources`)."""
    if not resources:
        yield required(path)
    with_all_subresources, of_all_resources, is_last_plain = set[str](), set[str](), False
    for index, entry in enumerate(charging(resources, 1)):
        resource, slash, subresource = entry.partition("/")
        if not entry:
            yield required((*path, index))
            continue
        if not slash:
            is_last_plain = entry != "*"
            continue
        if resource in with_all_subresources:
            yield invalid((*path, index), entry, f"if '{resource}/*' is present, must not specify {entry}")
        if subresource in of_all_resources:
            yield invalid((*path, index), entry, f"if '*/{subresource}' is present, must not specify {entry}")
        if subresource == "*":
            with_all_subresources.add(resource)
        if resource == "*":
            of_all_resources.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        yield invalid(path, [*resources], "if '*/*' is present, must not specify other resources")
    if "*" in resources and is_last_plain:
        yield invalid(path, [*resources], "if '*' is present, must not specify other resources without subresources")


def _review_versions(hook: ApiObject, path: Path) -> _Faults:
    """Yield the errors of admissionReviewVersions (`validateAdmissionReviewVersions`)."""
    versions, here, seen = _list(hook.get("admissionReviewVersions")), (*path, "admissionReviewVersions"), set[str]()
    if not versions:
        yield required(here, f"must specify one of {', '.join(_VERSIONS)}")
        return
    for index, version in enumerate(versions):
        if version in seen:
            yield invalid((*here, index), version, "duplicate version")
        elif len(version) > _DNS1035_CHARACTERS or _DNS1035.fullmatch(version) is None:
            yield invalid((*here, index), version, "must be a DNS-1035 label")
        seen.add(version)
    if not seen & {*_VERSIONS}:
        yield invalid(here, versions, f"must include at least one of {', '.join(_VERSIONS)}")


def _client_config(config: ApiObject, path: Path, _: Semantics) -> _Faults:
    url, given = config.get("url"), config.get("service")
    service: ApiObject = given or {}
    if (url is None) == (given is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url((*path, "url"), url)
    else:
        here = (*path, "service")
        # Upstream swaps the names of these two.
        for name, named in (("name", "namespace"), ("namespace", "name")):
            if not service.get(name):
                yield required((*here, name), field=field_path((*here, named)))
        port = service.get("port")
        yield from tables.check_range(1, _PORTS)((*here, "port"), 443 if port is None else port)
        yield from _service_path((*here, "path"), service.get("path") or "/")


def _url(path: Path, url: str) -> _Faults:
    """Yield the errors of the URL of a webhook (`ValidateWebhookURL`)."""
    form = "desired format: https://host[/path]"
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    host = parts.netloc.rpartition("@")[2] if parts else ""
    if parts is None or _ESCAPE.search(url) or _HOST.fullmatch(host) is None or not url.isprintable():
        yield required(path, f"url must be a valid URL; {form}")
        return
    if parts.scheme != "https":
        yield invalid(path, parts.scheme, f"'https' is the only allowed URL scheme; {form}")
    if not host:
        yield invalid(path, host, f"host must be specified; {form}")
    if "@" in parts.netloc:
        yield invalid(path, url, "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(path, parts.query, "query parameters are not permitted in the URL")


def _service_path(path: Path, value: str) -> _Faults:
    """Yield the errors of the path of a service (`ValidateWebhookService`)."""
    if value == "/":
        return
    if not value.startswith("/"):
        yield invalid(path, value, "must start with a '/'")
    for index, step in enumerate(value[1:].removesuffix("/").split("/") if value != "//" else [""]):
        faults = dns1123_subdomain(step) if step else ["may not be empty"]
        yield from (invalid(path, value, f"segment[{index}] {fault}") for fault in faults)


def _conditions(hook: ApiObject, path: Path) -> _Faults:
    """Yield the errors of matchConditions (`validateMatchConditions`)."""
    conditions, here = hook.get("matchConditions") or (), (*path, "matchConditions")
    if len(conditions) > _CONDITIONS:
        yield too_many(here, len(conditions), _CONDITIONS)
    for index, condition in enumerate([each or {} for each in conditions]):
        name = condition.get("name") or ""
        if not (condition.get("expression") or "").strip():
            yield required((*here, index, "expression"))
        if not name:
            yield required((*here, index, "name"))
        yield from (invalid((*here, index, "name"), name, fault) for fault in (qualified_name(name) if name else ()))
    yield from (duplicate((*here, index, "name"), name) for index, name in tables.repeated(conditions, "name"))


def _webhook(hook: ApiObject, path: Path, _: Semantics) -> _Faults:
    if hook.get("sideEffects") is None:
        yield required((*path, "sideEffects"), "must specify one of None, NoneOnDryRun")
    yield from _review_versions(hook, path)
    yield from _conditions(hook, path)


def _names(configuration: ApiObject, path: Path, _: Semantics) -> _Faults:
    for index, name in tables.repeated(configuration.get("webhooks") or (), "name"):
        yield duplicate((*path, "webhooks", index, "name"), name)


_STRUCTS: Final = tables.STRUCTS.extended(
    {
        "client-config": _client_config,
        "names": _names,
        "qualified-domain": _qualified_domain,
        "rule": _rule,
        "webhook": _webhook,
    }
)
KINDS: Final = dict.fromkeys(
    registry.WEBHOOK_CONFIGURATIONS, tables.Kind(_STRUCTS, "WebhookConfiguration", namespaced=False)
)
