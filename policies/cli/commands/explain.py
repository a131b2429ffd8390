"""`forewarn explain RULE`: print a rule's documentation, which is also in docs/reference/rules."""

from __future__ import annotations

from datetime import UTC, datetime
from textwrap import indent, wrap
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml

from forewarn.policies.base.documents import info, to_dict
from forewarn.policies.base.findings import Finding, Severity, capital, cut, nearest_word, quote
from forewarn.policies.cli.commands.cluster_command import add_output_option
from forewarn.policies.cli.commands.parser import Parser
from forewarn.policies.cli.terminal import complain
from forewarn.policies.inputs.manifests.reading import read
from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, Operation, ReviewedObject
from forewarn.policies.linting.config.load import read_config
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, Phase, audit, audit_request, evaluate
from forewarn.policies.linting.evaluation.foreign_rules import Guarded
from forewarn.policies.linting.evaluation.suppressions import annotation_suppressions, comment_suppressions, suppress
from forewarn.policies.linting.lint.fixes import FIXED
from forewarn.policies.linting.lint.input import as_update, wanted_kinds
from forewarn.policies.linting.lint.templates import engine_of, merge_by_directory
from forewarn.policies.linting.rules import RULES
from forewarn.policies.linting.rules.support.context import Rule, Target, linter_severity
from forewarn.policies.linting.rules.support.documentation import Example, documentation_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import ModuleType


_WIDTH: Final = 100


class Block(NamedTuple):
    """A part of a rule's page. `kind`: heading, prose, or the language of a code block (yaml, text)."""

    kind: str
    text: str


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, or 2 for an unknown rule."""
    parser = Parser(
        prog="forewarn explain",
        description="Show what a rule checks, the reason for the rule, and how to fix a finding.",
        examples=("explain unknown-priority-class", "explain quota-exceeded -o json"),
    )
    parser.add_argument("rule", nargs="?", metavar="RULE", help="id of a rule (default: list the built-in rules)")
    add_output_option(parser.add_argument)
    options = parser.parse_args(arguments)
    if options.rule is None:
        options.output.print(lambda: [_as_dict(rule) for rule in RULES], table_of(RULES))
        return 0
    name = options.rule
    rules = {rule.ID: rule for rule in RULES}
    if "." in name:
        from forewarn.policies.linting.evaluation.foreign_rules import rules_of_packages, why_broken

        (rule,) = rules_of_packages([name])
        if why := why_broken(rule):
            return complain("explain", f"{cut(name, 80)}: {why}", 2)
        rules[name] = rule
    if name not in rules:
        near = nearest_word(name, rules)
        hint = f'; did you mean "{near}"?' if near else ". Fix: see `forewarn lint --list-rules`"
        return complain("explain", f"no rule {quote(cut(name, 80))}{hint}", 2)
    options.output.print(lambda: _as_dict(rules[name]), as_text(rules[name]))
    return 0


def table_of(rules: Sequence[Rule]) -> Iterator[str]:
    """The rules with severity, action and summary, as lines with a header."""
    yield f"{'RULE':34} {'SEVERITY':8} {'ACTION':6} SUMMARY"
    for rule in rules:
        summary = (rule.__doc__ or "").strip().partition("\n")[0]
        yield f"{rule.ID:34} {linter_severity(rule) or '-'!s:8} {rule.ACTION or '-'!s:6} {summary}".rstrip()


def _as_dict(rule: Rule) -> dict[str, Any]:
    doc = documentation_of(rule)
    examples = [info.Example(example.heading, example.yaml) for example in doc.examples]
    about = rule.ID, rule.TARGETS, str(linter_severity(rule) or ""), str(rule.ACTION or "")
    return to_dict(info.Rule(*about, doc.what, doc.why, doc.details, doc.fix, examples))


def as_text(rule: Rule) -> Iterator[str]:
    """A rule's page for a terminal, as lines."""
    page = page_of(rule)
    yield from wrap(f"{rule.ID}: {next(page).text}", _WIDTH, break_long_words=False, break_on_hyphens=False)
    for block in (*page, *_configured(rule), *_suppressed(rule)):
        yield ""
        if block.kind == "heading":
            yield f"{block.text}:"
        elif block.kind == "prose":
            yield from wrap(block.text, _WIDTH, break_long_words=False, break_on_hyphens=False)
        else:
            yield from indent(block.text.rstrip(), "    ").split("\n")


def page_of(rule: Rule) -> Iterator[Block]:
    """The parts of a rule's documentation."""
    documentation = documentation_of(rule)
    yield Block("prose", documentation.what)
    texts = {**_CHECKED, **rule.OBJECTS}  # uses the same order for every rule
    checked = ", ".join(dict.fromkeys(text for target, text in texts.items() if target in rule.TARGETS))
    where = "Audit" if Target.CLUSTER in rule.TARGETS else "Linter"
    severity = f"{where} severity: {linter_severity(rule) or 'none'}."
    fix = f" `lint --fix` {FIXED[rule.ID]}." if rule.ID in FIXED else ""
    yield Block("prose", f"Checked objects: {checked}. {severity} Webhook action: {rule.ACTION or 'none'}.{fix}")
    for heading in ("Why", "Details", "Fix"):
        if text := getattr(documentation, heading.lower()):
            yield Block("heading", heading)
            first = text.split(maxsplit=1)[0]
            is_name = first in _LOWERCASE or "-" in first  # keeps names of programs, such as kubectl, in lower case
            yield Block("prose", text if is_name else capital(text))
    yield Block("heading", "Example")
    for example in documentation.examples:
        ends = f", which {example.also} also reports:" if example.also else _MODES.get(example.mode, ":")
        introduced = _INTRODUCED.get((example.heading, example.mode), f"{example.heading} example{ends}")
        yield Block("prose", introduced)
        yield Block("yaml", example.yaml)
        if example.heading == "Bad":
            yield Block("text", "\n".join(_reported(rule)))


_LOWERCASE: Final = ("kubectl", "forewarn", "limitedResources")


_CHECKED: Final = {
    Target.FILE: "files",
    Target.CLUSTER: "the whole cluster",
    Target.PRIORITY_CLASS: "PriorityClasses",
    Target.DELETED_PRIORITY_CLASS: "deletions of PriorityClasses",
    Target.POD: "Pods",
    Target.UPDATED_POD: "updates of Pods",
    Target.STATIC_POD: "static Pods",
    Target.TEMPLATE: "Pod templates",
    Target.PART: "custom resources",
    Target.UNRENDERED: "templates and values of charts",
    Target.NAMESPACE: "Namespaces",
    Target.RESOURCE_QUOTA: "ResourceQuotas",
    Target.POD_GROUP: "PodGroups and Workloads",
    Target.OTHER: "other objects that forewarn reads",
}


_MODES: Final = {
    "DELETE": ": you delete this object:",
    "validate": " (the object after all mutating webhooks have run):",
}
_INTRODUCED: Final = {
    ("Options", ""): "The example uses this configuration:",
    ("Cluster", ""): "The cluster contains these objects:",
    ("Cluster", "Bad"): "The cluster contains these objects:",
    ("Cluster", "Good"): "After the fix, the cluster contains these objects:",
}
"""Heading and mode of examples that are not objects of the input -> the line above the example."""


def _reported(rule: Rule) -> Iterator[str]:
    """The lines that the linter prints for the rule's bad example."""

    for finding in findings_of(rule, "Bad"):
        if finding.rule == rule.ID:
            about = f"{finding.object}: " if str(finding.object) else ""
            yield f"{finding.severity}: {about}{finding.message}"
            yield f"  = Fix: {finding.remediation}"


def _configured(rule: Rule) -> Iterator[Block]:
    """The blocks that show how to configure a rule's severity and action, in a terminal only."""
    lines = []
    if linter_severity(rule) is not None:
        other = Severity.WARNING if rule.SEVERITY is Severity.NOTE else Severity.NOTE
        lines += [f"severities: {{{rule.ID}: {other}}}  # error, warning, note"]
    if rule.ACTION is not None:
        lines += [f'actions: {{{rule.ID}: "off"}}  # deny, warn, audit, "off"']
    yield Block("heading", "Configure")
    yield Block("yaml", "\n".join(lines))


def _suppressed(rule: Rule) -> Iterator[Block]:
    """The blocks that show how to suppress a finding. The documentation shows them once, on the page of all rules."""
    if linter_severity(rule) is None:
        return
    if Target.CLUSTER in rule.TARGETS:
        yield Block("prose", "To suppress a finding, name the object and the reason in the configuration:")
        yield Block("yaml", f'suppressions:\n- rules: [{rule.ID}]\n  objects: ["KIND NAME"]\n  reason: REASON')
        return
    yield Block("prose", "To suppress a finding, write this comment on the line above:")
    yield Block("yaml", f"# forewarn: ignore[{rule.ID}] REASON until=2027-01-31")
    if rule.TARGETS != (Target.FILE,):
        yield Block("prose", "Or add this annotation:")
        annotation = f"forewarn.dev/ignore: {rule.ID} REASON until=2027-01-31"
        yield Block("yaml", f"metadata:\n  annotations:\n    {annotation}")


FILE: Final = "manifests.yaml"
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The time for the evaluation of the examples."""


def findings_of(rule: Rule | ModuleType, heading: str) -> list[Finding]:
    """Return the findings of a rule for its example with this heading (Bad or Good), and errors of other rules."""
    module: Any = rule
    examples = documentation_of(module).examples
    (example,) = [e for e in examples if e.heading == heading]
    ours = (module.ID, example.also)
    return [f for f in _all_on(module, example, examples) if f.rule in ours or f.severity is Severity.ERROR]


def _all_on(rule: Rule, example: Example, examples: Sequence[Example]) -> list[Finding]:
    if Target.CLUSTER in rule.TARGETS:
        snapshot = cluster_of([e for e in examples if e.heading in ("Cluster", example.heading)])
        assert snapshot is not None
        return audit(audit_request(snapshot, Config(), NOW))
    cluster = cluster_of([e for e in examples if e.is_cluster_of(example.heading)])
    reading = read(example.yaml, FILE, wanted_kinds(Config()))
    phase = Phase.VALIDATE if example.mode == "validate" else Phase.LINT
    subjects = [reviewed(subject, example, cluster) for subject in reading.subjects]
    (config,) = [read_config(e.yaml, "f") for e in examples if e.heading == "Options"] or [Config()]
    config = config if rule in RULES else config._replace(foreign=(Guarded(rule),))
    diagnostics = tuple(merge_by_directory(reading.diagnostics, {FILE: engine_of(example.yaml.encode())}))
    change = ChangeSet(tuple(subjects), diagnostics)
    findings = evaluate(EvaluationRequest(change, cluster, config, phase=phase, now=NOW))
    suppressions = [*comment_suppressions(reading.comments), *annotation_suppressions(subjects)]
    return suppress(findings, suppressions, config.linter_severity, NOW.date())[0]


def reviewed(subject: ReviewedObject, example: Example, cluster: ClusterSnapshot | None) -> ReviewedObject:
    """Return an object of an example as reviewed object: deleted, created, or an update of the object in the
    cluster.
    """
    if example.mode == "DELETE":
        return ReviewedObject({}, Operation.DELETE, old=subject.object)
    return subject if example.mode == "validate" else as_update(subject, cluster)


def cluster_of(examples: Iterable[Example]) -> ClusterSnapshot | None:
    """The cluster with the objects of these examples; None without examples."""
    cache, texts = Cache(), [example.yaml for example in examples]
    for text in texts:
        for obj in yaml.safe_load_all(text):
            cache.add(obj)
    return cache.snapshot() if texts else None
