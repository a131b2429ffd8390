"""Evaluates the examples in rules' docstrings: for `forewarn explain`, the documentation, and tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import yaml

from forewarn.policies.cluster.cache import Cache
from forewarn.policies.config import Config, read_config
from forewarn.policies.evaluation.audit import audit, stored_objects
from forewarn.policies.evaluation.evaluator import EvaluationRequest, Phase, evaluate
from forewarn.policies.evaluation.foreign_rules import guarded
from forewarn.policies.evaluation.suppressions import of_annotations, of_comments, suppress
from forewarn.policies.findings import Severity
from forewarn.policies.lint.input import as_update, wanted_kinds
from forewarn.policies.manifests import read
from forewarn.policies.objects.reviewed_object import ChangeSet, Operation, ReviewedObject
from forewarn.policies.rules import RULES
from forewarn.policies.rules.support.context import Target
from forewarn.policies.rules.support.documentation import documentation_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.findings import Finding
    from forewarn.policies.rules.support.context import Rule
    from forewarn.policies.rules.support.documentation import Example

FILE: Final = "example.yaml"
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The time for the evaluation of the examples."""


def findings_of(rule: Rule, heading: str) -> list[Finding]:
    """Return the findings of a rule for its example with this heading (Bad or Good), and errors of other rules.

    As in the linter; in the webhook if the example says so; in `forewarn audit` if the rule is about the whole
    cluster.
    """
    examples = documentation_of(rule).examples
    (example,) = [e for e in examples if e.heading == heading]
    ours = (rule.ID, example.also)
    return [f for f in _all_on(rule, example, examples) if f.rule in ours or f.severity is Severity.ERROR]


def _all_on(rule: Rule, example: Example, examples: Sequence[Example]) -> list[Finding]:
    if Target.CLUSTER in rule.TARGETS:
        snapshot = cluster_of([e for e in examples if e.heading in ("Cluster", example.heading)])
        assert snapshot is not None
        return audit(snapshot, tuple(stored_objects(snapshot)), Config(), now=NOW)
    cluster = cluster_of([e for e in examples if e.heading == "Cluster"])
    reading = read(example.yaml, FILE, wanted_kinds(Config()))
    phase = Phase.VALIDATE if example.mode == "validate" else Phase.LINT
    subjects = [reviewed(subject, example, cluster) for subject in reading.subjects]
    (config,) = [read_config(e.yaml, "f") for e in examples if e.heading == "Options"] or [Config()]
    config = config if rule in RULES else config._replace(foreign=(guarded(rule),))
    found = evaluate(
        EvaluationRequest(ChangeSet(tuple(subjects), reading.diagnostics), cluster, config, phase=phase, now=NOW)
    )
    suppressions = [*of_comments(reading.comments), *of_annotations(subjects)]
    return suppress(found, suppressions, config.linter_severity, NOW.date()).findings


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
