"""A validated, immutable configuration."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.disclosure import Disclose
from forewarn.policies.findings import Action, Severity
from forewarn.policies.objects.namespace import EXEMPT_UNTIL_ANNOTATION, exempt_until, not_honoured
from forewarn.policies.options import Options
from forewarn.policies.rules.support.context import Target
from forewarn.policies.selectors import one_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from forewarn.policies.objects.namespace import Namespace
    from forewarn.policies.objects.reviewed_object import User
    from forewarn.policies.options import LimitedResource
    from forewarn.policies.rules.support.context import Rule
    from forewarn.policies.selectors import LabelSelector


_NO_OPTIONS: Final = Options()


class ConfigError(ValueError):
    """The file cannot be used: `FILE:LINE:COLUMN: what is wrong; what would be right`."""


class Annotate(StrEnum):
    """Which objects get the annotation forewarn.dev/preemption-impact."""

    PODS = "pods"
    WORKLOADS = "workloads"
    ALL = "all"
    OFF = "off"


class RepeatedWarnings(StrEnum):
    """Limits on repeated warnings of one rule to one user."""

    SHORT = "short"
    FULL = "full"


class Exemption(NamedTuple):
    """Requests that the webhook lets pass: everything that is given must hold, of a list one entry."""

    reason: str
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def covers(self, user: User | None, namespace: Namespace | None) -> bool:
        """Report whether a request of this user in this namespace (None: cluster-scoped) is exempt."""
        name, groups = (user.name, user.groups) if user else ("", ())
        return (
            (not self.namespaces or (namespace is not None and one_of(self.namespaces, namespace.name)))
            and (self.namespace_selector is None or _selects(self.namespace_selector, namespace))
            and (not self.users or one_of(self.users, name))
            and (not self.groups or any(one_of(self.groups, group) for group in groups))
        )


class DiscloseTo(NamedTuple):
    """The users who see everything, whatever `disclose` says: `groups` are shell patterns.

    `by_access_review`: also users whom the API server allows to list Pods in all namespaces.
    """

    groups: tuple[str, ...] = ("system:masters",)
    by_access_review: bool = False

    def covers(self, user: User) -> bool:
        """Report whether the user is in one of the groups."""
        return any(one_of(self.groups, group) for group in user.groups)


class Budget(NamedTuple):
    """Predictions in an hour: so many `exact`, then so many `coarse` ones. Both recover evenly over the hour."""

    exact: int
    coarse: int


class PredictionBudget(NamedTuple):
    """The numbers of predictions that one user, and all users of one namespace, may see in an hour."""

    user: Budget = Budget(100, 400)
    namespace: Budget = Budget(200, 800)


_TO_MASTERS: Final = DiscloseTo()
_BUDGET: Final = PredictionBudget()


class Config(NamedTuple):
    """The configuration in force; without arguments, the defaults.

    `selected` and `unheard`: the rules that the linter was asked for; all and none where they are empty. `rules`: the
    ids of rules of other packages that it runs; `foreign`: these rules, loaded by `foreign_rules.with_rules`.
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
    unheard: frozenset[str] = frozenset()
    rules: tuple[str, ...] = ()
    foreign: tuple[Rule, ...] = ()

    def action(self, rule: Rule, target: Target) -> Action:
        """Return the webhook's action for a finding: as configured, or the rule's default; never deny for a template.

        The API server does not reject an invalid template either: later, its Pods are not created.
        """
        configured = self.actions.get(rule.ID)
        if configured is not None:
            return configured
        if rule.ACTION is None:
            return Action.WARN
        return Action.WARN if target in (Target.TEMPLATE, Target.PART) and rule.ACTION is Action.DENY else rule.ACTION

    def limiting(self, more: Iterable[LimitedResource]) -> Config:
        """This configuration, with more limitedResources: those of kube-apiserver's own file."""
        limited = (*self.options.limited_resources, *more)
        return self._replace(options=self.options._replace(limited_resources=limited))

    def hears(self, rule: Rule) -> bool:
        """Report whether the linter should run a rule: all rules, or the selected rules, without the ignored rules."""
        return rule.ID not in self.unheard and (not self.selected or rule.ID in self.selected)

    def told(self, rule: Rule) -> Severity | None:
        """Return the linter's severity for a finding of this rule; None: no finding."""
        off = self.actions.get(rule.ID) is Action.OFF
        return self.severity(rule) if self.hears(rule) and not off else None

    def severity(self, rule: Rule) -> Severity | None:
        """Return the configured severity; None: the linter does not run the rule."""
        return None if rule.SEVERITY is None else self.severities.get(rule.ID, rule.SEVERITY)

    def exemption(self, user: User | None, namespace: Namespace | None, now: datetime) -> str | None:
        """Return the reason why a request is exempt, None if it is not: an exemption or a namespace's break-glass
        annotation.
        """
        for exemption in self.exemptions:
            if exemption.covers(user, namespace):
                return exemption.reason
        text = _break_glass(namespace)
        until = exempt_until(text)
        if until is not None and now < until and not self._not_honoured(text, now):
            return f"{EXEMPT_UNTIL_ANNOTATION} on namespace {namespace.name if namespace else ''}: {until.isoformat()}"
        return None

    def not_honoured(self, namespace: Namespace | None, now: datetime) -> str:
        """Why a namespace's break-glass annotation exempts nothing; empty where it does, or there is none."""
        text = _break_glass(namespace)
        why = self._not_honoured(text, now) if text else ""
        return f"{EXEMPT_UNTIL_ANNOTATION} on namespace {namespace.name if namespace else ''} {why}" if why else ""

    def _not_honoured(self, text: str, now: datetime) -> str:
        return not_honoured(text, now, self.options.break_glass.max_duration)


def _break_glass(namespace: Namespace | None) -> str:
    return namespace.annotations.get(EXEMPT_UNTIL_ANNOTATION, "") if namespace else ""


def _selects(selector: LabelSelector, namespace: Namespace | None) -> bool:
    return namespace is not None and selector.matches(namespace.labels)
