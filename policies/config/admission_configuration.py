"""Reads the limitedResources in kube-apiserver's AdmissionConfiguration.

Source: apiserver `pkg/admission/config.go`, `pkg/admission/plugin/resourcequota/config.go`. As in upstream, an unknown
field is an error. Unlike upstream, an unknown operator is an error too: upstream starts with it, and then checks no
quota at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from forewarn.policies.config.document import ConfigNode, contents, parse
from forewarn.policies.options import LimitedResource, ScopeSelector

_OUTER: Final = ("apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1")
_INNER: Final[Mapping[str, str]] = {
    "apiserver.config.k8s.io/v1": "ResourceQuotaConfiguration",
    "resourcequota.admission.k8s.io/v1beta1": "Configuration",
    "resourcequota.admission.k8s.io/v1alpha1": "Configuration",
}
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def load_limited_resources(path: Path | str) -> tuple[LimitedResource, ...]:
    """The limitedResources of an AdmissionConfiguration, whose `path` is relative to it. Raises ConfigError."""
    file = Path(path)
    entry = parse(contents(file), str(path))
    fields = dict(entry.items())
    _expect(entry, fields, "kind", ("AdmissionConfiguration",))
    _expect(entry, fields, "apiVersion", _OUTER)
    fields = entry.fields(("apiVersion", "kind", "plugins"))
    for plugin in fields["plugins"].elements() if "plugins" in fields else ():
        given = plugin.fields(("name", "path", "configuration"))
        if "name" in given and given["name"].text() == "ResourceQuota":
            return _plugin(given, file.parent)
    return ()


def _plugin(given: Mapping[str, ConfigNode], folder: Path) -> tuple[LimitedResource, ...]:
    """The limitedResources of the ResourceQuota plugin: its inline `configuration`, otherwise the file at `path`."""
    if "configuration" in given:
        return _configuration(given["configuration"])
    if "path" in given:
        file = folder / given["path"].text()
        return _configuration(parse(contents(file), str(file)))
    return ()


def _configuration(entry: ConfigNode) -> tuple[LimitedResource, ...]:
    fields = dict(entry.items())
    version = _expect(entry, fields, "apiVersion", tuple(_INNER))
    _expect(entry, fields, "kind", (_INNER[version],))
    fields = entry.fields(("apiVersion", "kind", "limitedResources"))
    return tuple(map(limited_resource, fields["limitedResources"].elements())) if "limitedResources" in fields else ()


def limited_resource(entry: ConfigNode) -> LimitedResource:
    """Parse one entry of limitedResources. Raises ConfigError."""
    fields = entry.fields(("apiGroup", "resource", "matchContains", "matchScopes"))
    resource = fields["resource"].text() if "resource" in fields else ""
    if not resource:
        raise entry.fault("resource is missing. Fix: set the limited resource, such as pods")
    return LimitedResource(
        resource,
        match_contains=fields["matchContains"].texts() if "matchContains" in fields else (),
        match_scopes=tuple(map(_scope, fields["matchScopes"].elements())) if "matchScopes" in fields else (),
        api_group=fields["apiGroup"].text() if "apiGroup" in fields else "",
    )


def _scope(entry: ConfigNode) -> ScopeSelector:
    fields = entry.fields(("scopeName", "operator", "values"), required=("scopeName", "operator"))
    return ScopeSelector(
        fields["scopeName"].text(),
        fields["operator"].word(_OPERATORS, "operator"),
        fields["values"].texts() if "values" in fields else (),
    )


def _expect(entry: ConfigNode, fields: Mapping[str, ConfigNode], key: str, values: tuple[str, ...]) -> str:
    """Return the value of a header field. Raises ConfigError if missing or not in `known`."""
    if key not in fields:
        raise entry.fault(f"{key} is missing: must be {' or '.join(values)}")
    if fields[key].text() not in values:
        raise fields[key].fault(f'must be {" or ".join(values)}, not "{fields[key].text()}"')
    return fields[key].text()
