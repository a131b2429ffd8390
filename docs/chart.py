"""The Helm chart in manifests/chart, made of manifests/base and its components by `make docs`.

A template is an object of the base with Helm's actions in the places that a value decides about; values.yaml has what
stood there. So `helm template` without values gives the objects of the base, and with the files of manifests/chart/ci
those of the overlays (tests/e2e/test_chart.py).
"""

from __future__ import annotations

import json
from configparser import ConfigParser
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).resolve().parent.parent
MANIFESTS: Final = ROOT / "manifests"
CHART: Final = MANIFESTS / "chart"
_COMPONENTS: Final = MANIFESTS / "components"
_NAME: Final = "forewarn"
_INJECTOR: Final = "forewarn-ca-injector"
_MADE: Final = "Made by `make docs` of manifests/base and manifests/components: change those."
_OWN_CERTIFICATE: Final = "not .Values.certManager.enabled"
_CERT_MANAGER: Final = ".Values.certManager.enabled"

Object = dict[str, Any]


@dataclass(frozen=True)
class Action:
    """A scalar that Helm writes, as `{{ .Values.replicas }}`."""

    text: str


@dataclass(frozen=True)
class Text:
    """A text with actions in it, written as a literal block."""

    text: str
    style: str = "|-"


@dataclass(frozen=True)
class Nested:
    """A mapping or list that Helm writes: the value of a pipeline."""

    pipeline: str


@dataclass(frozen=True)
class If:
    """An entry of a mapping or an item of a list that is there on a condition."""

    condition: str
    node: Any


@dataclass(frozen=True)
class Lines:
    """Items of a list, as lines of a template."""

    text: str


def values_action(path: str) -> Action:
    """The value itself."""
    return Action(f"{{{{ .Values.{path} }}}}")


def template(node: Object) -> str:
    """An object as text of a template."""
    return "".join(f"{line}\n" for line in _mapping(node, 0))


def _mapping(node: Object, indent: int) -> Iterator[str]:
    for key, value in node.items():
        if isinstance(value, If):
            yield f"{' ' * indent}{{{{- if {value.condition} }}}}"
            yield from _entry(key, value.node, indent)
            yield f"{' ' * indent}{{{{- end }}}}"
        else:
            yield from _entry(key, value, indent)


def _entry(key: str, value: Any, indent: int) -> Iterator[str]:
    pad = " " * indent
    if isinstance(value, Nested):
        yield f"{pad}{key}:"
        yield f"{pad}  {{{{- {value.pipeline} | nindent {indent + 2} }}}}"
    elif isinstance(value, str) and "\n" in value:
        yield from _entry(key, Text(value.rstrip("\n"), "|" if value.endswith("\n") else "|-"), indent)
    elif isinstance(value, Text):
        yield f"{pad}{key}: {value.style}"
        yield from (f"{pad}  {line}" for line in value.text.splitlines())
    elif isinstance(value, dict) and value:
        yield f"{pad}{key}:"
        yield from _mapping(value, indent + 2)
    elif isinstance(value, list) and value:
        yield f"{pad}{key}:"
        yield from _items(value, indent)
    else:
        yield f"{pad}{key}: {_scalar(value)}"


def _items(items: list[Any], indent: int) -> Iterator[str]:
    pad = " " * indent
    for condition, together in groupby(items, lambda item: item.condition if isinstance(item, If) else ""):
        if condition:
            yield f"{pad}{{{{- if {condition} }}}}"
            yield from _items([item.node for item in together], indent)
            yield f"{pad}{{{{- end }}}}"
            continue
        yield from _unconditional(together, indent)


def _unconditional(items: Iterator[Any], indent: int) -> Iterator[str]:
    pad = " " * indent
    for item in items:
        if isinstance(item, Lines):
            yield from (f"{pad}{line}" for line in item.text.splitlines())
        elif isinstance(item, dict):
            first, *rest = _mapping(item, indent + 2)
            yield f"{pad}- {first.strip()}"
            yield from rest
        else:
            yield f"{pad}- {_scalar(item)}"


def _scalar(value: Any) -> str:
    if isinstance(value, Action):
        return value.text
    text = yaml.safe_dump(value, width=10_000, default_flow_style=True).removesuffix("\n").removesuffix("\n...")
    if "{{" in text or "\n" in text:
        raise ValueError(f"not to be written as one line of a template: {text}")
    return text


def documents(path: Path) -> list[Object]:
    """The objects of a file of manifests."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def built(directory: Path) -> dict[str, list[Object]]:
    """What `kustomize build` makes of manifests/base: file -> objects. ValueError: of something else."""
    found: dict[str, list[Object]] = {}
    (kustomization,) = documents(directory / "kustomization.yaml")
    if unknown := kustomization.keys() - {"apiVersion", "kind", "resources", "labels", "images"}:
        raise ValueError(f"{directory}: the chart is made without looking at {unknown}")
    for resource in kustomization["resources"]:
        path = directory / resource
        if path.is_dir():
            found |= {f"{resource}-{name}": objects for name, objects in built(path).items()}
        else:
            found[resource] = documents(path)
    for labels in kustomization["labels"]:
        for obj in (obj for objects in found.values() for obj in objects):
            _label(obj, labels)
    return found


def _label(obj: Object, labels: Object) -> None:
    places = [obj["metadata"]]
    if labels.get("includeTemplates") and "template" in obj.get("spec", {}):
        places.append(obj["spec"]["template"]["metadata"])
    for place in places:
        place["labels"] = {**place.get("labels", {}), **labels["pairs"]}


def version() -> str:
    """Of forewarn, and so of the image and the chart."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    return setup["metadata"]["version"]


@dataclass(frozen=True)
class Value:
    """What a user of the chart may set. Without `default` it is what stands in the base."""

    path: str
    about: str
    schema: dict[str, Any]
    default: Any = None


_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_MAPPING: Final = {"type": "object"}
_LIST: Final = {"type": "array"}
_COUNT: Final = {"type": "integer", "minimum": 1}
_LABEL: Final = {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
_SUBDOMAIN: Final = {"type": "string", "maxLength": 253, "pattern": "^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"}
_PORTS: Final = {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 1, "maximum": 65_535}}
_LABELS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_SETTINGS_OF_SERVE: Final = (
    "kubernetes-version",
    "feature-gates",
    "tls-min-version",
    "max-cache-age",
    "max-in-flight",
    "prediction-processes",
    "keep-alive",
    "log-level",
)
"""Flags of `forewarn webhook serve` that name neither files nor addresses, which the chart sees to."""
_WORDS: Final = {"kubernetes-version", "feature-gates", "tls-min-version", "log-level"}
VALUES: Final = (
    Value("image.repository", "where nodes find the image", {"type": "string", "minLength": 1}),
    Value("image.tag", "the chart's appVersion if empty", _TEXT, ""),
    Value(
        "image.digest",
        "sha256:…, takes the place of the tag",
        {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
        "",
    ),
    Value("image.pullPolicy", "Kubernetes' own if empty", {"enum": ["", "Always", "IfNotPresent", "Never"]}, ""),
    Value(
        "image.pullSecrets",
        "as in a pod: `[{name: registry}]`",
        {"type": "array", "items": {"type": "object", "required": ["name"]}},
        [],
    ),
    Value("replicas", "how many answer API servers", _COUNT),
    Value("resources", "of a replica", _MAPPING),
    Value(
        "spreadOverNodes",
        "`DoNotSchedule`: never two replicas on one node",
        {"enum": ["ScheduleAnyway", "DoNotSchedule"]},
    ),
    Value("nodeSelector", "of all pods", _LABELS, {}),
    Value("tolerations", "of all pods", {"type": "array", "items": {"type": "object"}}, []),
    Value("config", "the configuration file (docs/reference/configuration.md); read again without a restart", {}),
    Value("auditOnly", "nothing is denied, warned of or changed, whatever `config` says", _FLAG, False),
    Value(
        "failurePolicy",
        "of the two webhooks that fail closed, classes and exemptions; `Ignore`: admitted when nobody answers",
        {"enum": ["Fail", "Ignore"]},
    ),
    Value(
        "excludeNamespaces",
        "namespaces that are left out beside kube-system and forewarn: nothing in them is judged",
        {"type": "array", "items": _LABEL, "uniqueItems": True, "maxItems": 1000},
        [],
    ),
    Value(
        "schedulerConfig",
        "the cluster's KubeSchedulerConfiguration, or a preset (docs/reference/scheduler-profiles.md)",
        {"type": ["string", "object"]},
        "",
    ),
    Value("settings", "flags of `forewarn webhook serve` by their names, as `max-in-flight: 512`", {}, {}),
    Value(
        "priorityClassName", "any other than `forewarn`, which the chart brings, is yours and there already", _SUBDOMAIN
    ),
    Value("caInjector.replicas", "one works, others stand by", _COUNT),
    Value("caInjector.resources", "of the CA injector", _MAPPING),
    Value("certManager.enabled", "cert-manager issues the certificate; there is no CA injector", _FLAG, False),
    Value(
        "certManager.issuerRef",
        "an issuer of yours, as `{kind: ClusterIssuer, name: internal}`; a CA of its own if empty",
        _LABELS,
        {},
    ),
    Value("mutualTLS.enabled", "only clients with a certificate are answered (docs/install.md)", _FLAG, False),
    Value(
        "mutualTLS.clientName",
        "common name, DNS name or URI of API servers' certificate",
        {"type": "string", "minLength": 1},
    ),
    Value("mutualTLS.configMap", "where in `ca.crt` their CA is", _SUBDOMAIN),
    Value("clientToken.enabled", "only who brings a token is answered (docs/install.md)", _FLAG, False),
    Value("clientToken.secret", "where in `tokens` they are; you make it", _SUBDOMAIN),
    Value("clusterAudit.enabled", "one replica audits the cluster regularly (docs/guides/audit.md)", _FLAG, False),
    Value(
        "clusterAudit.interval",
        "seconds between two audits",
        {"type": "integer", "minimum": 60, "maximum": 86_400},
    ),
    Value("networkPolicy.enabled", "policies for both Deployments", _FLAG, True),
    Value("networkPolicy.monitoringNamespace", "from where metrics may be read", _LABEL),
    Value("networkPolicy.apiServerPorts", "where API servers listen", _PORTS),
    Value(
        "monitoring.enabled",
        "ServiceMonitor, PodMonitor, alerts, dashboard: needs the Prometheus operator's kinds",
        _FLAG,
        False,
    ),
    Value("monitoring.labels", "of the monitors and the alerts, by which Prometheus selects them", _LABELS, {}),
)


class Templates:
    """Puts values into the objects of the base, and remembers what stood there."""

    def __init__(self) -> None:
        self.defaults: dict[str, Any] = {}
        self.files = built(MANIFESTS / "base")

    def one(self, kind: str, name: str = _NAME, namespace: bool | None = None) -> Object:
        """The object of this kind and name."""
        (found,) = (
            obj
            for objects in self.files.values()
            for obj in objects
            if (obj["kind"], obj["metadata"]["name"]) == (kind, name)
            and namespace in (None, "namespace" in obj["metadata"])
        )
        return found

    def take(self, node: Any, key: Any, path: str, made: Callable[[str], Any] = values_action) -> None:
        """What stands at this place is the default of a value, and the value stands there."""
        if self.defaults.setdefault(path, node[key]) != node[key]:
            raise ValueError(f"{path} would have two defaults: {self.defaults[path]} and {node[key]}")
        node[key] = made(path)

    def made(self) -> dict[str, str]:
        """Name below templates/ -> text."""
        self._deployment()
        self._injector()
        self._webhooks()
        self._network()
        self._rights()
        self._config()
        whole = {
            "namespace.yaml": 'ne .Release.Namespace "forewarn"',  # else it is there, with the release's own Secrets
            "priority-class.yaml": 'eq .Values.priorityClassName "forewarn"',
            "network-policy.yaml": ".Values.networkPolicy.enabled",
            **{name: _OWN_CERTIFICATE for name in self.files if name.startswith("ca-injector-")},
            "ca-injector-network-policy.yaml": f"and ({_OWN_CERTIFICATE}) .Values.networkPolicy.enabled",
        }
        texts = {}
        for name, objects in self.files.items():
            texts[name] = _joined(objects, whole.get(name, ""))
        mutating, comment = self.one("MutatingWebhookConfiguration"), "{{- if not .Values.auditOnly }}\n"
        texts["webhooks.yaml"] = texts["webhooks.yaml"].replace(
            f"---\n{template(mutating)}", f"{comment}---\n{template(mutating)}{{{{- end }}}}\n"
        )
        return texts | _of_components()

    def _deployment(self) -> None:
        deployment = self.one("Deployment")
        spec = deployment["spec"]
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        self.take(spec, "replicas", "replicas")
        self._pod(pod, "resources")
        hosts = pod["topologySpreadConstraints"][0]
        assert hosts["topologyKey"] == "kubernetes.io/hostname"
        self.take(hosts, "whenUnsatisfiable", "spreadOverNodes")
        for component, condition in (
            ("cert-manager", _CERT_MANAGER),
            ("mutual-tls", ".Values.mutualTLS.enabled"),
            ("client-token", ".Values.clientToken.enabled"),
            ("cluster-audit", ".Values.clusterAudit.enabled"),
        ):
            (patch,) = documents(_COMPONENTS / component / "deployment.yaml")
            added = patch["spec"]["template"]["spec"]
            (more,) = added["containers"]
            self._named(component, more, added)
            container["env"] += [If(condition, item) for item in more["env"]]
            container["volumeMounts"] += [If(condition, item) for item in more.get("volumeMounts", ())]
            pod["volumes"] += [If(condition, item) for item in added.get("volumes", ())]
        preset = 'ternary "/etc/forewarn/scheduler.yaml" .Values.schedulerConfig (kindIs "map" .Values.schedulerConfig)'
        scheduler = {"name": "FOREWARN_SCHEDULER_CONFIG", "value": Action(f"{{{{ {preset} | quote }}}}")}
        container["env"] += [If(".Values.schedulerConfig", scheduler), Lines(_SETTINGS)]

    def _named(self, component: str, container: Object, pod: Object) -> None:
        """Of what a component adds, the names that differ between clusters."""
        if component == "mutual-tls":
            self.take(container["env"][1], "value", "mutualTLS.clientName", _quoted)
            self.take(pod["volumes"][0]["configMap"], "name", "mutualTLS.configMap")
        if component == "cluster-audit":
            container["env"][0]["value"] = int(container["env"][0]["value"])
            self.take(container["env"][0], "value", "clusterAudit.interval", _quoted)
        if component == "client-token":
            self.take(pod["volumes"][0]["secret"], "secretName", "clientToken.secret")

    def _pod(self, pod: Object, resources: str) -> None:
        """What the pods of both Deployments have."""
        (container,) = pod["containers"]
        self.take(pod, "priorityClassName", "priorityClassName")
        self.defaults["image.repository"] = container["image"]
        container["image"] = Action('{{ include "forewarn.image" . }}')
        place = [*container].index("image") + 1
        pulled = ("imagePullPolicy", If(".Values.image.pullPolicy", values_action("image.pullPolicy")))
        entries = [*container.items()]
        container.clear()
        container.update([*entries[:place], pulled, *entries[place:]])
        self.take(container, "resources", resources, _nested)
        for key, path in (
            ("imagePullSecrets", "image.pullSecrets"),
            ("nodeSelector", "nodeSelector"),
            ("tolerations", "tolerations"),
        ):
            pod[key] = If(f".Values.{path}", _nested(path))

    def _injector(self) -> None:
        spec = self.one("Deployment", _INJECTOR)["spec"]
        self.take(spec, "replicas", "caInjector.replicas")
        self._pod(spec["template"]["spec"], "caInjector.resources")

    def _webhooks(self) -> None:
        for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
            configuration = self.one(kind)
            bundle = {"cert-manager.io/inject-ca-from": "forewarn/forewarn-tls"}
            configuration["metadata"]["annotations"] = If(_CERT_MANAGER, bundle)
            for webhook in configuration["webhooks"]:
                path = "/mutate" if kind.startswith("Mutating") else "/validate"
                webhook["clientConfig"]["service"]["path"] = If(_CERT_MANAGER, path)
                self._webhook(webhook)

    def _webhook(self, webhook: Object) -> None:
        if webhook["failurePolicy"] == "Fail":
            self.take(webhook, "failurePolicy", "failurePolicy", _unless_auditing)
        conditions = webhook["matchConditions"]
        names = [condition["name"] for condition in conditions]
        if "not-forewarns-own-namespace" in names:
            listed = "!has(request.namespace) || !(request.namespace in {{ .Values.excludeNamespaces | toJson }})"
            left_out = If(".Values.excludeNamespaces", {"name": "not-excluded-namespaces", "expression": Text(listed)})
            conditions.insert(names.index("not-forewarns-own-namespace") + 1, left_out)

    def _network(self) -> None:
        for name in (_NAME, _INJECTOR):
            spec = self.one("NetworkPolicy", name)["spec"]
            (selector,) = (rule["from"][0]["namespaceSelector"] for rule in spec["ingress"] if "from" in rule)
            self.take(selector["matchLabels"], "kubernetes.io/metadata.name", "networkPolicy.monitoringNamespace")
            (rule,) = spec["egress"]
            self.defaults["networkPolicy.apiServerPorts"] = [port["port"] for port in rule["ports"]]
            each = "{{- range .Values.networkPolicy.apiServerPorts }}\n- port: {{ . }}\n{{- end }}"
            rule["ports"] = [Lines(each)]

    def _rights(self) -> None:
        """With cert-manager forewarn asks neither for its Secret nor for the configurations."""
        for role, key, value in (
            (self.one("Role"), "resourceNames", ["forewarn-serving-cert"]),
            (self.one("ClusterRole"), "apiGroups", ["admissionregistration.k8s.io"]),
        ):
            (place,) = (n for n, rule in enumerate(role["rules"]) if rule.get(key) == value)
            role["rules"][place] = If(_OWN_CERTIFICATE, role["rules"][place])

    def _config(self) -> None:
        data = self.one("ConfigMap")["data"]
        self.defaults["config"] = yaml.safe_load(data["forewarn.yaml"])
        data["forewarn.yaml"] = Text('{{ include "forewarn.config" . | nindent 4 | trim }}', "|")
        file = Text("{{ toYaml .Values.schedulerConfig | nindent 4 | trim }}", "|")
        data["scheduler.yaml"] = If('kindIs "map" .Values.schedulerConfig', file)


def _nested(path: str) -> Nested:
    return Nested(f"toYaml .Values.{path}")


def _quoted(path: str) -> Action:
    return Action(f"{{{{ .Values.{path} | quote }}}}")


def _unless_auditing(path: str) -> Action:
    return Action(f'{{{{ ternary "Ignore" .Values.{path} .Values.auditOnly }}}}')


_SETTINGS: Final = """\
{{- range $flag, $value := .Values.settings }}
- name: FOREWARN_{{ $flag | upper | replace "-" "_" }}
  value: {{ $value | toString | quote }}
{{- end }}"""


def _joined(objects: list[Object], condition: str = "") -> str:
    text = "---\n".join(map(template, objects))
    return _on(condition, text) if condition else text


def _on(condition: str, text: str) -> str:
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"


def _of_components() -> dict[str, str]:
    """Templates of what components add as objects."""
    monitors = []
    for name in ("service-monitor.yaml", "pod-monitor.yaml"):
        (monitor,) = documents(_COMPONENTS / "monitoring" / name)
        monitor["metadata"]["labels"] = If(".Values.monitoring.labels", _nested("monitoring.labels"))
        monitors.append(monitor)
    *own, leaf = documents(_COMPONENTS / "cert-manager/certificates.yaml")
    given = " ".join(f'"{key}" "{value}"' for key, value in leaf["spec"]["issuerRef"].items())
    leaf["spec"]["issuerRef"] = Nested(f"toYaml (default (dict {given}) .Values.certManager.issuerRef)")
    certificates = f"{_joined(own, 'not .Values.certManager.issuerRef')}---\n{template(leaf)}"
    audit = documents(_COMPONENTS / "cluster-audit/rbac.yaml")
    return {
        "certificates.yaml": _on(_CERT_MANAGER, certificates),
        "cluster-audit.yaml": _joined(audit, ".Values.clusterAudit.enabled"),
        "monitors.yaml": _joined(monitors, ".Values.monitoring.enabled"),
        "rules.yaml": _on(".Values.monitoring.enabled", _RULES),
        "dashboard.yaml": _on(".Values.monitoring.enabled", _DASHBOARD),
        "_helpers.tpl": _HELPERS,
        "NOTES.txt": _NOTES.replace("<hello>", (ROOT / "docs/hello.yaml").read_text().partition("\n")[2]),
    }


_RULES: Final = """\
{{- $rules := .Files.Get "files/rules.yaml" | fromYaml }}
{{- with .Values.monitoring.labels }}
{{- $_ := set $rules.metadata "labels" . }}
{{- end }}
{{- toYaml $rules | nindent 0 }}
"""
_DASHBOARD: Final = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: forewarn-dashboard
  namespace: forewarn
  labels:
    grafana_dashboard: "1"
data:
  forewarn.json: |
    {{- .Files.Get "files/forewarn.json" | nindent 4 }}
"""
_HELPERS: Final = """\
{{- define "forewarn.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "forewarn.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.auditOnly -}}
{{- $config = mergeOverwrite $config (.Files.Get "files/audit-only.yaml" | fromYaml) -}}
{{- end -}}
{{ toYaml $config }}
{{- end }}
"""
_NOTES: Final = """\
forewarn is ready once its pods are:

    kubectl -n forewarn rollout status deployment/forewarn

{{- if not (or .Values.auditOnly (eq .Values.failurePolicy "Ignore")) }}

Until then PriorityClasses can be neither created nor changed; everything else is admitted unchecked.
{{- end }}
{{- if not .Values.auditOnly }}

A first warning, which leaves nothing behind:

kubectl apply --dry-run=server -f - <<'END'
<hello>END
{{- end }}
"""


def _values(defaults: dict[str, Any]) -> str:
    lines = [f"# {_MADE}"]
    group = ""
    for value in VALUES:
        within, _, name = value.path.rpartition(".")
        if within and within != group:
            lines.append(f"{within}:")
        group = within
        pad = "  " if within else ""
        lines.append(f"{pad}# {value.about}")
        lines += _entry(name, defaults[value.path], len(pad))
    return "\n".join(lines) + "\n"


def _schema(config: dict[str, Any], flags: dict[str, str]) -> dict[str, Any]:
    """The JSON Schema of the values; `config` is that of the configuration file, `flags` says what each flag is."""
    settings = {
        name: {"type": "string" if name in _WORDS else "number", "description": flags[name]}
        for name in _SETTINGS_OF_SERVE
    }
    own = {
        "config": {key: part for key, part in config.items() if key not in ("$schema", "title")} | {"type": "object"},
        "settings": {"type": "object", "additionalProperties": False, "properties": settings},
    }
    properties: dict[str, Any] = {}
    for value in VALUES:
        group, _, name = value.path.rpartition(".")
        within = properties
        if group:
            empty = {"type": "object", "additionalProperties": False, "properties": {}}
            within = properties.setdefault(group, empty)["properties"]
        within[name] = {"description": value.about, **own.get(value.path, value.schema)}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart forewarn",
        "type": "object",
        "additionalProperties": False,
        "properties": {**properties, "global": {"description": "Helm's own, for charts of charts"}},
    }


def _page(defaults: dict[str, Any]) -> str:
    rows = [f"| `{value.path}` | `{json.dumps(defaults[value.path])}` | {value.about} |" for value in VALUES]
    return _README.format(rows="\n".join(rows))


_README: Final = """\
# The chart

    helm install forewarn manifests/chart --namespace forewarn --create-namespace \\
      --set image.repository=registry.example/forewarn

The objects are those of `manifests/base`, in the namespace `forewarn`, whatever the release is called and wherever it
is kept. Upgrades: docs/install.md; Flux and Argo CD: docs/gitops.md. Made by `make docs`.

| value | default | |
|---|---|---|
{rows}

`ci/` has the values that make of the chart what each overlay makes of the base.
"""
_CHART: Final = """\
# {made}
apiVersion: v2
name: forewarn
description: Predict which Pods Kubernetes will preempt, before you apply
type: application
version: {version}
appVersion: "{version}"
kubeVersion: ">=1.30.0-0"
keywords: [priority, preemption, PriorityClass, admission webhook]
"""


def files(config: dict[str, Any], flags: dict[str, str], audit_only: str) -> dict[Path, str]:
    """Every file that is made -> its text. `audit_only`: the ConfigMap of the component of that name."""
    templates = Templates()
    texts = {f"templates/{name}": text for name, text in templates.made().items()}
    own = {value.path: value.default for value in VALUES if value.default is not None}
    if twice := own.keys() & templates.defaults:
        raise ValueError(f"these have a default in the base: {twice}")
    defaults = own | templates.defaults
    if left_out := defaults.keys() ^ {value.path for value in VALUES}:
        raise ValueError(f"not among the values, or not in the templates: {left_out}")
    (audited,) = yaml.safe_load_all(audit_only)
    made = {
        **{
            name: f"{{{{- /* {_MADE} */}}}}\n{text}" if name.endswith(".yaml") else text for name, text in texts.items()
        },
        "Chart.yaml": _CHART.format(made=_MADE, version=version()),
        "README.md": _page(defaults),
        "values.yaml": _values(defaults),
        "values.schema.json": json.dumps(_schema(config, flags), indent=2, ensure_ascii=False) + "\n",
        "files/audit-only.yaml": audited["data"]["forewarn.yaml"],
        "files/forewarn.json": (_COMPONENTS / "monitoring/forewarn.json").read_text(),
        "files/rules.yaml": (_COMPONENTS / "monitoring/rules.yaml").read_text(),
    }
    return {CHART / name: text for name, text in made.items()}
