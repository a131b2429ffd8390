"""Writes what is made from the code: rules page, schema, audit-only configuration, what lists the watched kinds.

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
DUMP = ROOT / "docs/preempt.md"
DIRECTIONS = ROOT / "docs/failure-directions.md"
_WIDTH = 110
_ROWS_BY_STATE = "| row | goes by | its denial | why |\n|---|---|---|---|\n"
_LATE = {True: "confirmed", False: "warns while late"}
sys.path.insert(0, str(ROOT))

import chart  # noqa: E402
import cli_page  # noqa: E402

from policies.config import Annotate, RepeatedWarnings  # noqa: E402
from policies.disclosure import Disclose  # noqa: E402
from policies.findings import Action, Severity  # noqa: E402
from policies.kinds import KINDS, OPTIONAL  # noqa: E402
from policies.rules import RULES  # noqa: E402
from policies.rules.support.documentation import documentation_of  # noqa: E402
from webhook.settings import FLAGS  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.rules.support.context import Rule


def rules_page() -> str:
    """docs/rules.md: a table of all rules, then each with its reason and examples."""
    lines = [
        "# Rules",
        "",
        "Made from the rules' docstrings by `make docs`; every example on this page is run by a test.",
        "*Severity* is what `forewarn lint` says. *Action* is what the webhook does; on a pod template deny becomes",
        "warn, because the API server accepts the workload and refuses its pods.",
        "Both can be [configured](configuration.md).",
        "",
        "| rule | about | severity | action |",
        "|---|---|---|---|",
        *(f"| [{r.ID}](#{r.ID}) | {', '.join(r.TARGETS)} | {r.SEVERITY or '-'} | {r.ACTION or '-'} |" for r in RULES),
        "",
    ]
    for rule in RULES:
        lines += _section(rule)
    return "\n".join(lines)


def _section(rule: Rule) -> Iterator[str]:
    documentation = documentation_of(rule)
    yield from (f"## {rule.ID}", "", documentation.what, "", f"Why: {documentation.why}", "")
    for example in documentation.examples:
        mode = {"DELETE": ", deleted", "validate": ", after all mutation"}.get(example.mode, "")
        mode = f", where [{example.also}](#{example.also}) has something to say too" if example.also else mode
        yield from (f"{example.heading}{mode}:", "", "```yaml", example.yaml.rstrip(), "```", "")
    yield from (f"Fix: {documentation.fix}", "")


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
    "namespaces": {**_PATTERNS, "description": "names; shell patterns such as team-* are allowed"},
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
        "reason": {"type": "string", "description": "logged with every request that is let pass"},
        **_CONDITIONS,
    },
}
_BREAK_GLASS = {
    "type": "object",
    "description": "the annotation forewarn.dev/exempt-until",
    "additionalProperties": False,
    "properties": {
        "groups": {**_TEXTS, "description": "who may set it; shell patterns too"},
        "maxDuration": {"type": "string", "pattern": "^[0-9]{1,6}[dhm]$", "description": "how far away its end may be"},
    },
}
_ALLOWED = {
    "type": "object",
    "additionalProperties": False,
    "required": ["classes"],
    "minProperties": 2,
    "properties": {"classes": {**_PATTERNS, "description": "PriorityClasses; shell patterns too"}, **_CONDITIONS},
}
_PODS = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        name: {"type": "string", "description": told}
        for name, told in (
            ("namespace", "a shell pattern"),
            ("class", "a shell pattern; empty: of no class"),
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
            "required": ["nonePushedOut"],
            "properties": {"nonePushedOut": _PODS, "by": _PODS},
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


_PREDICTIONS = {"type": "integer", "minimum": 0, "maximum": 1_000_000}
_BUDGET = {
    "type": "object",
    "additionalProperties": False,
    "required": ["exact", "coarse"],
    "properties": {
        "exact": {**_PREDICTIONS, "description": "predictions shown in full"},
        "coarse": {**_PREDICTIONS, "description": "after these, predictions shown in ranges"},
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
            "actions": _per_rule([a.value for a in Action], [r for r in RULES if r.ACTION], "what the webhook does"),
            "severities": _per_rule(
                [str(s) for s in Severity], [r for r in RULES if r.SEVERITY], "what the linter says"
            ),
            "autoscalerCutoff": {"type": "integer", "description": "--expendable-pods-priority-cutoff of your cluster"},
            "placeholderPods": {**_SELECTOR, "description": "pods that only keep room free, by their labels"},
            "podTemplatePaths": {
                "type": "object",
                "description": "custom resources with a pod template: argoproj.io/Rollout: spec.template",
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
                "description": "kinds whose controllers create a deleted Pod again: example.com/Database",
            },
            "limitedResources": {
                "type": "array",
                "items": _LIMITED,
                "description": "what needs a quota that covers it, as in kube-apiserver's ResourceQuotaConfiguration",
            },
            "allowedClasses": {"type": "array", "items": _ALLOWED, "description": "who may use which classes"},
            "promises": {
                "type": "array",
                "description": "who is never pushed out by whom, as in the expectations of forewarn test",
                "items": _PROMISE,
                "maxItems": 100,
            },
            "annotate": {"enum": [a.value for a in Annotate]},
            "exemptions": {"type": "array", "items": _EXEMPTION},
            "disclose": {
                "enum": [d.value for d in Disclose],
                "description": "what the webhook names to requesters; own-namespace by default",
            },
            "predictionBudget": {
                "type": "object",
                "description": "predictions an hour that requesters are shown, beyond which answers say less",
                "additionalProperties": False,
                "properties": {
                    "user": {**_BUDGET, "description": "of one user; exact: 100, coarse: 400 by default"},
                    "namespace": {
                        **_BUDGET,
                        "description": "of all users in one namespace; exact: 200, coarse: 800 by default",
                    },
                },
            },
            "repeatedWarnings": {"enum": [r.value for r in RepeatedWarnings]},
            "discloseTo": {
                "type": "object",
                "description": "to whom the webhook names everything",
                "additionalProperties": False,
                "properties": {
                    "groups": {**_TEXTS, "description": "shell patterns; system:masters by default"},
                    "subjectAccessReview": {
                        "type": "boolean",
                        "description": "also whoever may list pods in all namespaces; false by default",
                    },
                },
            },
            "breakGlass": _BREAK_GLASS,
            "knownClasses": {**_TEXTS, "description": "classes that exist beside those of the input; shell patterns"},
            "exclude": {**_TEXTS, "description": "files that the linter leaves out; shell patterns"},
            "suppressions": {
                "type": "array",
                "description": "findings that the linter does not tell",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["rules", "reason"],
                    "minProperties": 3,
                    "properties": {
                        "rules": {"type": "array", "items": {"enum": [rule.ID for rule in RULES]}, "minItems": 1},
                        "reason": {"type": "string", "minLength": 1},
                        "until": {"type": "string", "description": "the last day on which it holds: 2027-01-31"},
                        "paths": _PATTERNS,
                        "objects": {**_PATTERNS, "description": "Deployment shop/web; shell patterns"},
                    },
                },
            },
            "groups": {
                "type": "array",
                "description": "files that come together in one apply, for the linter",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["name", "paths"],
                    "properties": {"name": {"type": "string"}, "paths": _PATTERNS},
                },
            },
        },
    }


def _per_rule(words: list[str], rules: list[Rule], description: str) -> dict[str, Any]:
    values: list[Any] = [*words, False] if "off" in words else [*words]  # YAML 1.1 reads a bare `off` as false
    return {
        "type": "object",
        "description": description,
        "additionalProperties": False,
        "properties": {rule.ID: {"enum": values} for rule in rules},
    }


_AUDIT_ONLY = """\
# Made by `make docs`: every rule that would deny or warn.
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
    heard = sorted(rule.ID for rule in RULES if rule.ACTION in (Action.DENY, Action.WARN))
    return _AUDIT_ONLY + "".join(f"      {rule}: audit\n" for rule in heard)


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
    """The command of docs/preempt.md that writes a dump."""
    names = ",".join(spec.plural for spec in KINDS)
    lines = textwrap.wrap(names.replace(",", ", "), _WIDTH)
    return "\\\n    ".join(line.replace(", ", ",") for line in lines)


def by_the_state() -> str:
    """The rows of docs/failure-directions.md on rules that go by the cluster state."""
    heard = [rule for rule in RULES if rule.ACTION is not None and rule.DEPENDS_ON.stored]
    rows = [
        (rule.ID, ", ".join(rule.DEPENDS_ON.stored), _LATE[rule.DEPENDS_ON.is_confirmed], rule.DEPENDS_ON.why)
        for rule in sorted(heard, key=lambda rule: not rule.DEPENDS_ON.is_confirmed)
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def between(path: Path, before: str, after: str, made: str) -> str:
    """The text of a file with what stands between two texts in it made anew; `after` empty: all that follows."""
    head, _, rest = path.read_text().partition(before)
    return f"{head}{before}{made}{after}{rest.partition(after)[2] if after else ''}"


def main() -> int:
    """Write the files, or with --check say which are stale; returns the exit status."""
    made = {
        ROOT / "docs/rules.md": rules_page(),
        ROOT / "docs/reference/cli.md": cli_page.page(),
        ROOT / "policies/config/schema.json": json.dumps(schema(), indent=2) + "\n",
        ROOT / "manifests/components/audit-only/config.yaml": audit_only(),
        RBAC: between(RBAC, "rules:\n", "# whether API servers", watched()),
        JOBS_RBAC: between(JOBS_RBAC, "rules:\n", "---\n", watched(("list",))),
        DIRECTIONS: between(
            DIRECTIONS, "| row | goes by | its denial | why |\n|---|---|---|---|\n", "", by_the_state()
        ),
        ROOT / "webhook/doctor/shipped.json": registered(),
        DUMP: between(DUMP, "kubectl get -A -o json ", " > dump.json", dumped()),
        **chart.files(schema(), {flag.name: flag.help for flag in FLAGS}, audit_only()),
    }
    stale = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is stale: run `make docs`", file=sys.stderr)  # noqa: T201
        return bool(stale)
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
