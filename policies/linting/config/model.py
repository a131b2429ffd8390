"""The validated, immutable configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.disclosure import Disclose
from forewarn.policies.base.findings import Action, Severity
from forewarn.policies.base.light import NamedTuple
from forewarn.policies.kubernetes.objects.fields import ForewarnError, moment_of
from forewarn.policies.kubernetes.objects.namespace import EXEMPT_UNTIL_ANNOTATION, Namespace, not_honoured
from forewarn.policies.kubernetes.options import LimitedResource, Options
from forewarn.policies.kubernetes.selectors import LabelSelector, one_of
from forewarn.policies.linting.rules.support.context import Rule, Target

if TYPE_CHECKING:
    from datetime import datetime

    from forewarn.policies.kubernetes.objects.reviewed_object import User


_NO_OPTIONS: Final = Options()


class ConfigError(ForewarnError, ValueError):
    """The configuration is invalid: `FILE:LINE:COLUMN: problem. Fix: advice`."""


class Annotate(StrEnum):
    """The objects in which forewarn writes the annotation forewarn.dev/preemption-impact."""

    PODS = "pods"
    WORKLOADS = "workloads"
    ALL = "all"
    OFF = "off"


class RepeatedWarnings(StrEnum):
    """Limits on repeated warnings of one rule to one user."""

    SHORT = "short"
    FULL = "full"


class Exemption(NamedTuple):
    """An exemption of requests from the webhook's evaluation.

    Each condition that is set must hold; a condition with a list holds if one entry matches.
    """

    reason: str
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def covers(self, user: User | None, namespace: Namespace | None) -> bool:
        """True if a request of this user in this namespace (None: cluster-scoped) is exempt."""
        (name, groups), selector = (user.name, user.groups) if user else ("", ()), self.namespace_selector
        return (
            (not self.namespaces or (namespace is not None and one_of(self.namespaces, namespace.name)))
            and (selector is None or (namespace is not None and selector.matches(namespace.labels)))
            and (not self.users or one_of(self.users, name))
            and (not self.groups or any(one_of(self.groups, group) for group in groups))
        )


class DiscloseTo(NamedTuple):
    """The users who see all names, regardless of `disclose`. `groups`: shell patterns of group names.

    `subject_access_review`: also users who may list Pods in all namespaces.
    """

    groups: tuple[str, ...] = ("system:masters",)
    subject_access_review: bool = False

    def covers(self, user: User) -> bool:
        return any(one_of(self.groups, group) for group in user.groups)


class Budget(NamedTuple):
    """Maximum number of predictions per hour: first `exact` ones with all numbers, then `coarse` ones with ranges.

    Both recover evenly over the hour.
    """

    exact: int
    coarse: int


class PredictionBudget(NamedTuple):
    """The budgets of one user, and of all users of one namespace together."""

    user: Budget = Budget(100, 400)
    namespace: Budget = Budget(200, 800)


_TO_MASTERS: Final = DiscloseTo()
_BUDGET: Final = PredictionBudget()


class Config(NamedTuple):
    """The complete configuration. Without arguments, it contains the defaults.

    `selected`: the only rules that run; empty: all except those `ON_REQUEST`. `disabled_rules`: rules that do not run.
    `rules`: ids of enabled rules of other packages; `foreign`: these rules, loaded by `foreign_rules.with_rules`.
    """

    actions: Mapping[str, Action] = {}
    severities: Mapping[str, Severity] = {}
    options: Options = _NO_OPTIONS
    annotate: Annotate = Annotate.ALL
    exemptions: tuple[Exemption, ...] = ()
    disclose: Disclose = Disclose.OWN_NAMESPACE
    disclose_to: DiscloseTo = _TO_MASTERS
    prediction_budget: PredictionBudget = _BUDGET
    repeated_warnings: RepeatedWarnings = RepeatedWarnings.SHORT
    selected: frozenset[str] = frozenset()
    disabled_rules: frozenset[str] = frozenset()
    rules: tuple[str, ...] = ()
    foreign: tuple[Rule, ...] = ()

    def action(self, rule: Rule, target: Target) -> Action:
        """Return the webhook's action for a finding: the configured action, or the rule's default, which is never
        deny for a template.

        kube-apiserver does not reject a workload with an invalid template either; it rejects the Pods later.
        """
        configured = self.actions.get(rule.ID)
        if configured is not None:
            return configured
        if rule.ACTION is None:
            return Action.WARN
        return Action.WARN if target in (Target.TEMPLATE, Target.PART) and rule.ACTION is Action.DENY else rule.ACTION

    def limiting(self, more: Iterable[LimitedResource]) -> Config:
        """Return the configuration with more limitedResources, read from kube-apiserver's AdmissionConfiguration."""
        limited = (*self.options.limited_resources, *more)
        return self._replace(options=self.options._replace(limited_resources=limited))

    def runs(self, rule: Rule) -> bool:
        """Report whether a rule runs: it is selected (by default, every rule except `ON_REQUEST` rules) and not
        disabled.
        """
        if rule.ID in self.disabled_rules:
            return False
        wanted = not rule.ON_REQUEST or rule.ID in self.severities or rule.ID in self.actions
        return rule.ID in self.selected if self.selected else wanted

    def linter_severity(self, rule: Rule) -> Severity | None:
        """The linter's severity of a rule's findings; None if the rule does not run or its action is off."""
        off = self.actions.get(rule.ID) is Action.OFF
        return self.severity(rule) if self.runs(rule) and not off else None

    def severity(self, rule: Rule) -> Severity | None:
        """The configured severity of a rule; None if the rule is not for the linter."""
        return None if rule.SEVERITY is None else self.severities.get(rule.ID, rule.SEVERITY)

    def exemption(self, user: User | None, namespace: Namespace | None, now: datetime) -> str | None:
        """Return why a request is exempt: an exemption or forewarn.dev/exempt-until; None if not exempt."""
        for exemption in self.exemptions:
            if exemption.covers(user, namespace):
                return exemption.reason
        text, most = _break_glass(namespace), self.options.break_glass.max_duration
        until = moment_of(text) if text else None
        if until is not None and now < until and not not_honoured(text, now, most):
            return f"{EXEMPT_UNTIL_ANNOTATION} on namespace {namespace.name if namespace else ''}: {until.isoformat()}"
        return None

    def not_honoured(self, namespace: Namespace | None, now: datetime) -> str:
        """Why a namespace's annotation forewarn.dev/exempt-until has no effect; "" if it has an effect or is absent."""
        text = _break_glass(namespace)
        why = not_honoured(text, now, self.options.break_glass.max_duration) if text else ""
        return f"{EXEMPT_UNTIL_ANNOTATION} on namespace {namespace.name if namespace else ''} {why}" if why else ""


def _break_glass(namespace: Namespace | None) -> str:
    return namespace.annotations.get(EXEMPT_UNTIL_ANNOTATION, "") if namespace else ""


NAME: Final = ".forewarn.yaml"


def find_config(start: str) -> str | None:
    """Return the path of `.forewarn.yaml` in this directory or above, up to the repository's root; None if there is
    none.

    A link to a file outside its directory is ignored, so that a repository cannot make forewarn read other files.
    """
    from forewarn.policies.inputs.sources.files import is_inside
    from forewarn.policies.inputs.sources.git import upwards

    for directory in upwards(os.path.abspath(start)):
        candidate = os.path.join(directory, NAME)
        if os.path.isfile(candidate) and (not os.path.islink(candidate) or is_inside(candidate, directory)):
            return candidate
        if os.path.exists(os.path.join(directory, ".git")):
            break
    return None
