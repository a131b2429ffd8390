"""Writes what is generated from the code: pages of the rules, schema, audit-only configuration, lists of kinds.

`--check` only compares.
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
RBAC = ROOT / "manifests/base/rbac.yaml"
JOBS_RBAC = ROOT / "manifests/jobs/base/rbac.yaml"
DUMP = ROOT / "docs/guides/predict.md"
DIRECTIONS = ROOT / "docs/internals/failure-modes.md"
JSON_PAGE = ROOT / "docs/reference/json.md"
_WIDTH = 110
CONFIGURATION = ROOT / "docs/reference/configuration.md"
_POLICY_ROWS = "| rules | what the policies cover |\n|---|---|\n"
_ROWS_BY_STATE = "| rule | reads | denial |\n|---|---|---|\n"
_STORED = {
    "classes": "PriorityClasses",
    "namespaces": "Namespaces",
    "nodes": "Nodes",
    "podgroups": "PodGroups",
    "pods": "Pods",
    "limitranges": "LimitRanges",
    "quotas": "ResourceQuotas",
}
_STALE = {True: "confirmed", False: "warning"}
sys.path.insert(0, str(ROOT))

import chart  # noqa: E402
import cli_page  # noqa: E402
import gates_page  # noqa: E402
import json_schemas  # noqa: E402
import python_page  # noqa: E402
import webhook_pages  # noqa: E402
from json_schemas import DOCUMENTS  # noqa: E402

from forewarn.policies.base.disclosure import Disclose  # noqa: E402
from forewarn.policies.base.findings import Action, Severity  # noqa: E402
from forewarn.policies.cli.commands.explain import page_of  # noqa: E402
from forewarn.policies.kubernetes.kinds.registry import KINDS, OPTIONAL  # noqa: E402
from forewarn.policies.kubernetes.objects.priority_class import HOSTED_CLASSES  # noqa: E402
from forewarn.policies.linting.config.model import Annotate, RepeatedWarnings  # noqa: E402
from forewarn.policies.linting.rules import RULES  # noqa: E402
from forewarn.policies.linting.rules.support.context import linter_severity  # noqa: E402
from forewarn.policies.linting.rules.support.documentation import documentation_of  # noqa: E402
from forewarn.policies.questions.application.admission_policies import COVERED  # noqa: E402
from forewarn.webhook.settings import FLAGS  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from forewarn.policies.linting.rules.support.context import Rule


RULE_PAGES = ROOT / "docs/reference/rules"
SCHEMAS = ROOT / "docs/reference/schemas"
_SUBJECTS = {
    "pod": "Pods and Pod templates",
    "priority_class": "PriorityClasses",
    "quota": "ResourceQuotas",
    "namespace": "Namespaces",
    "autoscalers": "Autoscalers of workloads",
    "kueue": "Kueue",
    "rejected": "Other objects that kube-apiserver rejects",
    "cluster": "A running cluster (`forewarn audit`)",
    "file": "Files",
}
"""Package or module of a rule -> the heading of its table."""
_RULES_INTRODUCTION = """\
# Rules

In the tables, the column *linter* shows the default severity in `forewarn lint` and `forewarn audit`, and *webhook* the
default action. A rule with *off* runs only if you select or configure it. Some findings have a lower severity or a
weaker action. For Pod templates, custom resources and classes of PodGroups, the default `deny` becomes `warn`, because
the webhook also checks the Pods. To deny these objects, set the action `deny`.

## Configure a rule

In the [configuration](../configuration.md), you can change the linter's severity of a rule (`error`, `warning`,
`note`), and the webhook's action (`deny`, `warn`, `audit`), unless the table shows `-`. The action `"off"` disables a
rule of the tables, also in the linter:

```yaml
severities: {RULE: note}
actions: {RULE: "off"}
```

## Suppress a finding

To suppress a finding of the linter, write a comment above the field, or add an annotation to the object:

```yaml
metadata:
  annotations:
    forewarn.dev/ignore: RULE REASON until=2027-01-31
spec:
  # forewarn: ignore[RULE] REASON until=2027-01-31
  priorityClassName: gold
```

For a finding without a file, use the [configuration](../configuration.md#linter):

```yaml
suppressions:
- rules: [RULE]
  objects: ["KIND NAME"]
  reason: REASON
```

See also [Suppress findings](../../guides/lint.md#suppress-findings).
"""


def _severity(rule: Rule) -> str:
    severity = linter_severity(rule)
    return "-" if severity is None else f"off ({severity})" if rule.ON_REQUEST else severity


def rule_pages() -> dict[Path, str]:
    """The pages of docs/reference/rules: a table of all rules, and one page for each."""
    lines = [_RULES_INTRODUCTION]
    assert {*map(_package, RULES)} == _SUBJECTS.keys()
    for package, subject in _SUBJECTS.items():
        rules = sorted((rule for rule in RULES if _package(rule) == package), key=lambda rule: rule.ID)
        lines += [f"## {subject}", "", "| rule | reports | linter | webhook |", "|---|---|---|---|"]
        lines += [
            f"| [{r.ID}]({r.ID}.md) | {documentation_of(r).what} | {_severity(r)} | {r.ACTION or '-'} |" for r in rules
        ]
        lines.append("")
    pages = {RULE_PAGES / f"{rule.ID}.md": "\n".join([_GENERATED, *_rule_page(rule), ""]) for rule in RULES}
    return {RULE_PAGES / "index.md": "\n".join([_GENERATED, *lines]), **pages}


def _rule_page(rule: Rule) -> Iterator[str]:
    """A rule's page for the documentation, as Markdown lines."""
    yield f"# {rule.ID}"
    for block in page_of(rule):
        yield ""
        if block.kind == "heading":
            yield f"## {block.text}"
        elif block.kind == "prose":
            yield block.text
        else:
            yield f"```{block.kind}\n{block.text.rstrip()}\n```"
    yield "\n[Configure or suppress a rule](index.md#configure-a-rule)"


_GENERATED = "<!-- Generated by `make docs` from the docstrings of policies/rules; do not edit. -->\n"


def _package(rule: Rule) -> str:
    return rule.__module__.removeprefix("forewarn.policies.linting.rules.").partition(".")[0]


_TEXTS = {"type": "array", "items": {"type": "string"}}
_PATTERNS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_SELECTOR = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
        "matchExpressions": {"type": "array", "items": {"type": "object"}},
    },
}
_CONDITIONS = {
    "namespaces": {**_PATTERNS, "description": "names or shell patterns, such as team-*"},
    "namespaceSelector": _SELECTOR,
    "users": _PATTERNS,
    "groups": _PATTERNS,
}
_EXEMPTION = {
    "type": "object",
    "additionalProperties": False,
    "required": ["reason"],
    "minProperties": 2,
    "properties": {
        "reason": {"type": "string", "description": "reason for the exemption, which the log shows"},
        **_CONDITIONS,
    },
}
_BREAK_GLASS = {
    "type": "object",
    "description": "the annotation forewarn.dev/exempt-until",
    "additionalProperties": False,
    "properties": {
        "groups": {**_TEXTS, "description": "groups of users who may set the annotation; names or shell patterns"},
        "maxDuration": {
            "type": "string",
            "pattern": "^[0-9]{1,6}[dhm]$",
            "description": "longest duration of an exemption",
        },
    },
}
_ALLOWED = {
    "type": "object",
    "additionalProperties": False,
    "required": ["classes"],
    "minProperties": 2,
    "properties": {"classes": {**_PATTERNS, "description": "PriorityClasses; names or shell patterns"}, **_CONDITIONS},
}
_REQUIRED = {
    "type": "object",
    "additionalProperties": False,
    "anyOf": [{"required": ["namespaces"]}, {"required": ["kinds"]}],
    "properties": {
        "namespaces": {**_PATTERNS, "description": "names or shell patterns, such as team-*"},
        "kinds": {**_PATTERNS, "description": "kinds, such as Deployment"},
        "classes": {**_PATTERNS, "description": "PriorityClasses that the Pods may use; names or shell patterns"},
    },
}
_PODS = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        name: {"type": "string", "description": description}
        for name, description in (
            ("namespace", "a shell pattern"),
            ("class", "a shell pattern; an empty text means Pods without a class"),
            ("workload", "namespace/name, a shell pattern"),
        )
    },
}
_PROMISE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "expect"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 200},
        "expect": {
            "type": "object",
            "additionalProperties": False,
            "required": ["noPreemption"],
            "properties": {"noPreemption": _PODS, "by": _PODS},
        },
    },
}
_PATHS = {"oneOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "string"}}]}
_LIMITED = {
    "type": "object",
    "additionalProperties": False,
    "required": ["resource"],
    "properties": {
        "apiGroup": {"type": "string"},
        "resource": {"type": "string"},
        "matchContains": _TEXTS,
        "matchScopes": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["scopeName", "operator"],
                "properties": {
                    "scopeName": {"type": "string"},
                    "operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
                    "values": _TEXTS,
                },
            },
        },
    },
}


_FOREIGN = r"^[a-z][a-z0-9-]*\.[a-z][a-z0-9-]*$"
_PREDICTIONS = {"type": "integer", "minimum": 0, "maximum": 1_000_000}
_BUDGET = {
    "type": "object",
    "additionalProperties": False,
    "required": ["exact", "coarse"],
    "properties": {
        "exact": {**_PREDICTIONS, "description": "number of exact predictions"},
        "coarse": {**_PREDICTIONS, "description": "number of later predictions with ranges"},
    },
}


def schema() -> dict[str, Any]:
    """The JSON Schema of `.forewarn.yaml`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": ".forewarn.yaml",
        "type": ["object", "null"],
        "additionalProperties": False,
        "properties": {
            "rules": {
                "type": "array",
                "items": {"type": "string", "pattern": _FOREIGN},
                "description": "rules of other packages that the linter runs: PACKAGE.RULE",
            },
            "actions": _per_rule(
                lambda rule: [a.value for a in Action if rule.ACTION or a is Action.OFF],
                RULES,
                "action of the webhook for findings of a rule; off also disables the rule in the linter",
            ),
            "severities": {
                **_per_rule(
                    lambda _: [str(s) for s in Severity],
                    [r for r in RULES if r.SEVERITY],
                    "severity of the findings of a rule in the linter",
                ),
                "patternProperties": {_FOREIGN: {"enum": [str(s) for s in Severity]}},
            },
            "autoscalerCutoff": {
                "type": "integer",
                "description": "value of the flag --expendable-pods-priority-cutoff of your cluster",
            },
            "placeholderPods": {**_SELECTOR, "description": "Pods that only reserve capacity, by their labels"},
            "podTemplatePaths": {
                "type": "object",
                "description": "custom resources with a Pod template, such as argoproj.io/Rollout: spec.template",
                "additionalProperties": _PATHS,
            },
            "priorityClassPaths": {
                "type": "object",
                "description": "custom resources that name a class: example.com/Database: spec.priorityClassName",
                "additionalProperties": _PATHS,
            },
            "recreatesPods": {
                "type": "array",
                "items": {"type": "string"},
                "description": "kinds whose controllers recreate a deleted Pod, such as example.com/Database",
            },
            "limitedResources": {
                "type": "array",
                "items": _LIMITED,
                "description": "Pods that need a ResourceQuota that covers them, as in ResourceQuotaConfiguration",
            },
            "allowedClasses": {
                "type": "array",
                "items": _ALLOWED,
                "description": "users and namespaces that may use PriorityClasses",
            },
            "requiredClasses": {
                "type": "array",
                "items": _REQUIRED,
                "description": "Pods that must name a PriorityClass",
            },
            "expectations": {
                "type": "array",
                "description": "Pods that must not be preempted, and by which Pods, as in forewarn test",
                "items": _PROMISE,
                "maxItems": 100,
            },
            "annotate": {"enum": [a.value for a in Annotate]},
            "exemptions": {"type": "array", "items": _EXEMPTION},
            "disclose": {
                "enum": [d.value for d in Disclose],
                "description": "names that the webhook shows to requesters (default: own-namespace)",
            },
            "predictionBudget": {
                "type": "object",
                "description": "predictions that requesters see; a used budget recovers within an hour",
                "additionalProperties": False,
                "properties": {
                    "user": {**_BUDGET, "description": "limits for one user (default: exact 100, coarse 400)"},
                    "namespace": {
                        **_BUDGET,
                        "description": "limits for all users of one namespace (default: exact 200, coarse 800)",
                    },
                },
            },
            "repeatedWarnings": {"enum": [r.value for r in RepeatedWarnings]},
            "discloseTo": {
                "type": "object",
                "description": "users who see all names",
                "additionalProperties": False,
                "properties": {
                    "groups": {**_TEXTS, "description": "names or shell patterns (default: system:masters)"},
                    "subjectAccessReview": {
                        "type": "boolean",
                        "description": "also users who may list Pods in all namespaces (default: false)",
                    },
                },
            },
            "breakGlass": _BREAK_GLASS,
            "preset": {
                "enum": list(HOSTED_CLASSES),
                "description": "type of the cluster, with its built-in PriorityClasses and admission limits",
            },
            "knownClasses": {
                **_TEXTS,
                "description": "PriorityClasses that exist outside the input; names or shell patterns",
            },
            "exclude": {**_TEXTS, "description": "files that the linter skips; shell patterns"},
            "clusters": {
                "type": "object",
                "description": "names of clusters, and the directories that `diff` applies to them; shell patterns",
                "additionalProperties": _TEXTS,
            },
            "suppressions": {
                "type": "array",
                "description": "known findings that forewarn does not report",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["rules", "reason"],
                    "minProperties": 3,
                    "properties": {
                        "rules": {
                            "type": "array",
                            "items": {"anyOf": [{"enum": [rule.ID for rule in RULES]}, {"pattern": _FOREIGN}]},
                            "minItems": 1,
                        },
                        "reason": {"type": "string", "minLength": 1},
                        "until": {
                            "type": "string",
                            "description": "last day on which the entry applies, such as 2027-01-31",
                        },
                        "paths": _PATTERNS,
                        "objects": {**_PATTERNS, "description": "objects such as Deployment shop/web; shell patterns"},
                    },
                },
            },
            "groups": {
                "type": "array",
                "description": "files that the linter checks together",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["name", "paths"],
                    "properties": {"name": {"type": "string"}, "paths": _PATTERNS},
                },
            },
        },
    }


def _per_rule(words: Callable[[Rule], list[str]], rules: Iterable[Rule], description: str) -> dict[str, Any]:
    def values(rule: Rule) -> list[Any]:
        found = words(rule)
        return [*found, False] if "off" in found else found  # YAML 1.1 reads a bare `off` as false

    return {
        "type": "object",
        "description": description,
        "additionalProperties": False,
        "properties": {rule.ID: {"enum": values(rule)} for rule in rules},
    }


_AUDIT_ONLY = """\
# Generated by `make docs`: all rules of the webhook.
apiVersion: v1
kind: ConfigMap
metadata:
  name: forewarn
  namespace: forewarn
data:
  forewarn.yaml: |
    annotate: "off"
    actions:
"""


def audit_only() -> str:
    """The ConfigMap of manifests/components/audit-only."""
    rule_ids = sorted(rule.ID for rule in RULES if rule.ACTION is not None)
    return _AUDIT_ONLY + "".join(f"      {rule}: audit\n" for rule in rule_ids)


def watched(verbs: tuple[str, ...] = ()) -> str:
    """The rules of manifests/base/rbac.yaml for what the webhook watches, a rule for each group and its verbs.

    `verbs`: these for all, as for what is read once.
    """
    granted: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for spec in sorted((*KINDS, *OPTIONAL)):
        granted.setdefault((spec.group, verbs or spec.verbs), []).append(spec.plural)
    rules = []
    for (group, verbs), plurals in sorted(granted.items()):
        names = sorted(plurals)
        listed = f" [{', '.join(names)}]"
        resources = listed if len(listed) <= _WIDTH else "".join(f"\n  - {name}" for name in names)
        rules.append(f"""- apiGroups: [{group or '""'}]\n  resources:{resources}\n  verbs: [{", ".join(verbs)}]\n""")
    return "".join(rules)


def registered() -> str:
    """webhook/doctor/shipped.json: the webhooks of manifests/base, by kind of configuration and name."""
    configurations = yaml.safe_load_all((ROOT / "manifests/base/webhooks.yaml").read_text())
    kinds = {obj["kind"]: {webhook["name"]: webhook for webhook in obj["webhooks"]} for obj in configurations}
    return json.dumps(kinds, indent=1) + "\n"


def dumped() -> str:
    """The command of docs/guides/predict.md that writes a cluster snapshot."""
    names = ",".join(spec.plural for spec in KINDS)
    lines = textwrap.wrap(names.replace(",", ", "), _WIDTH)
    return "\\\n    ".join(line.replace(", ", ",") for line in lines)


def by_the_state() -> str:
    """The rows of docs/internals/failure-modes.md on rules that read the cluster state."""
    webhook_rules = [rule for rule in RULES if rule.ACTION is not None and rule.DEPENDS_ON.stored]
    rows = [
        (
            f"`{rule.ID}`",
            ", ".join(_STORED.get(what, what) for what in rule.DEPENDS_ON.stored),
            _STALE[rule.DEPENDS_ON.is_confirmed],
        )
        for rule in sorted(webhook_rules, key=lambda rule: not rule.DEPENDS_ON.is_confirmed)
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def policy_rows() -> str:
    """The rows of docs/reference/configuration.md on the rules that `forewarn policies` covers."""
    rules_by_text: dict[str, list[str]] = {}
    for rule, text in COVERED.items():
        rules_by_text.setdefault(text, []).append(f"`{rule}`")
    return "".join(f"| {', '.join(rules)} | {text} |\n" for text, rules in rules_by_text.items())


def between(path: Path, before: str, after: str, made: str) -> str:
    """The text of a file with what stands between two texts in it made anew; `after` empty: all that follows."""
    text = path.read_text()
    if before not in text or after not in text.partition(before)[2]:
        raise ValueError(f"{path}: no {before!r} with {after!r} after it")
    head, _, rest = text.partition(before)
    return f"{head}{before}{made}{after}{rest.partition(after)[2] if after else ''}"


def main() -> int:
    """Write the files, or with --check say which are stale; returns the exit status."""
    made = {
        **rule_pages(),
        ROOT / "docs/reference/cli.md": cli_page.page(),
        ROOT / "docs/reference/feature-gates.md": gates_page.page(),
        ROOT / "docs/reference/python.md": python_page.page(),
        ROOT / "policies/linting/config/schema.json": json.dumps(schema(), indent=2) + "\n",
        ROOT / "manifests/components/audit-only/config.yaml": audit_only(),
        RBAC: between(RBAC, "rules:\n", "# whether API servers", watched()),
        JOBS_RBAC: between(JOBS_RBAC, "rules:\n", "---\n", watched(("list",))),
        CONFIGURATION: between(CONFIGURATION, _POLICY_ROWS, "\n## Linter\n", policy_rows()),
        DIRECTIONS: between(DIRECTIONS, _ROWS_BY_STATE, "", by_the_state()),
        ROOT / "webhook/doctor/shipped.json": registered(),
        DUMP: between(DUMP, "kubectl get -A -o json ", " > cluster.json", dumped()),
        ROOT / "docs/reference/metrics.md": webhook_pages.metrics_page(),
        **{SCHEMAS / f"{name}.json": json_schemas.schema_text(name) for name in DOCUMENTS},
        JSON_PAGE: json_schemas.page(),
        **chart.files(schema(), {flag.name: flag.help for flag in FLAGS}, audit_only()),
    }
    stale = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    stale += [path for path in (*RULE_PAGES.glob("*.md"), *SCHEMAS.glob("*.json")) if path not in made]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is stale: run `make docs`", file=sys.stderr)  # noqa: T201
        return bool(stale)
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path in made:
            path.write_text(made[path])
        else:
            path.unlink()  # the page of a rule, or the schema of a document, that no longer exists
    return 0


if __name__ == "__main__":
    sys.exit(main())
