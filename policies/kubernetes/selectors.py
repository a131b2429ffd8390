"""Label selectors as apimachinery evaluates them (`pkg/labels/selector.go`, `LabelSelectorAsSelector`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase, translate
from functools import cached_property, lru_cache
from typing import Any, Final

from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.base.metering import FEW, charge, charging

LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
NODE_OPERATORS: Final = (*LABEL_OPERATORS, "Gt", "Lt")
_INT64: Final = range(-(2**63), 2**63)
_INT64_DIGITS: Final = 19
_INTEGER: Final = later(r"[+-]?[0-9]+", re.ASCII)
_NAME: Final = later(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = later(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_MAX_SUBDOMAIN_LENGTH: Final = 253


def is_subdomain(name: str) -> bool:
    """Report whether a name is a DNS subdomain (upstream `IsDNS1123Subdomain`)."""
    return len(name) <= _MAX_SUBDOMAIN_LENGTH and _SUBDOMAIN.fullmatch(name) is not None


def one_of(patterns: Iterable[str], name: str) -> bool:
    """Report whether a name matches one of the shell patterns, such as `team-*`."""
    return _regex(tuple(patterns)).match(name) is not None


@lru_cache(maxsize=2048)
def _regex(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)) or "(?!)")


class PodPattern(NamedTuple):
    """A set of Pods, by shell patterns of namespace, class ("" for no class) and workload (`namespace/name`).

    None matches anything.
    """

    namespace: str | None = None
    priority_class: str | None = None
    workload: str | None = None

    def matches(self, namespace: str, priority_class: str, workload: str) -> bool:
        """Report whether the set includes a Pod with this namespace, PriorityClass and workload."""
        given = (self.namespace, namespace), (self.priority_class, priority_class), (self.workload, workload)
        return all(pattern is None or fnmatchcase(value, pattern) for pattern, value in given)


class InvalidSelector(ValueError):
    """The selector cannot be parsed; the message names the problem."""


class Requirement(NamedTuple):
    """One condition on a label. A selector's conditions must all hold."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Report whether labels satisfy the requirement; NotIn and DoesNotExist hold for an absent key. Source:
        `Requirement.Matches`.
        """
        if self.operator == "In":
            return labels.get(self.key) in self.values
        if self.operator == "NotIn":
            return labels.get(self.key) not in self.values
        if self.operator in ("Gt", "Lt"):
            return self._compares(labels.get(self.key))
        return (self.key in labels) == (self.operator == "Exists")

    def _compares(self, text: str | None) -> bool:
        """Evaluate Gt and Lt of node selectors. False if one side is not a whole number."""
        have, want = _int64(text), _int64(next(iter(self.values)))
        if have is None or want is None:
            return False
        return have > want if self.operator == "Gt" else have < want


class _Merged:
    """Several requirements on one label key, merged, to match labels that contain the key."""

    __slots__ = ("_absent", "_allowed", "_denied", "_key")

    def __init__(self, first: Requirement) -> None:
        self._key, self._absent = first.key, False
        self._allowed: frozenset[str] | None = None
        self._denied = set[str]()
        self.add(first)

    def add(self, requirement: Requirement) -> None:
        """Merge another requirement."""
        if requirement.operator == "In":
            self._allowed = requirement.values if self._allowed is None else self._allowed & requirement.values
        elif requirement.operator == "NotIn":
            self._denied |= requirement.values
        elif requirement.operator == "DoesNotExist":
            self._absent = True

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Report whether the labels satisfy all merged requirements. The labels must contain the key."""
        value = labels[self._key]
        return not self._absent and value not in self._denied and (self._allowed is None or value in self._allowed)


class _Many(tuple[Requirement, ...]):
    """Many requirements, indexed by label key, so that matching an object does not check all of them."""

    @cached_property
    def _merge_by_key(self) -> dict[str, Requirement | _Merged]:
        by_key: dict[str, Requirement | _Merged] = {}
        for requirement in charging(self, 1):
            there = by_key.setdefault(requirement.key, requirement)
            if isinstance(there, _Merged):
                there.add(requirement)
            elif there is not requirement:
                by_key[requirement.key] = merged = _Merged(there)
                merged.add(requirement)
        return by_key

    @cached_property
    def _needed(self) -> frozenset[str]:
        """The keys of labels that an object must have."""
        return frozenset(requirement.key for requirement in self if requirement.operator in ("In", "Exists"))

    def match(self, labels: Mapping[str, str]) -> bool:
        """Report whether these labels satisfy all requirements."""
        by_key, needed = self._merge_by_key, self._needed
        if len(needed) > len(labels):
            return False
        fewer, more = (labels, by_key) if len(labels) < len(by_key) else (by_key, labels)
        charge((len(fewer) + len(needed)) // 4)
        return needed <= labels.keys() and all(by_key[key].matches(labels) for key in fewer if key in more)


def _requirements(parsed: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Return the requirements as a tuple, indexed by key if there are many."""
    requirements = tuple(parsed)
    return requirements if len(requirements) <= FEW else _Many(requirements)


class LabelSelector(NamedTuple):
    """A parsed selector. Without requirements it matches everything; a nil selector (None) matches nothing."""

    requirements: tuple[Requirement, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.requirements

    @property
    def labels(self) -> list[tuple[str, str]]:
        """The labels, as (key, value), of all objects that the selector matches, by its first requirements."""
        equal = (each for each in self.requirements[:FEW] if each.operator == "In" and len(each.values) == 1)
        return [(requirement.key, next(iter(requirement.values))) for requirement in equal]

    @property
    def label(self) -> tuple[str, str] | None:
        """The first of `labels`, or None."""
        return next(iter(self.labels), None)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Report whether these labels satisfy every requirement."""
        if isinstance(self.requirements, _Many):
            return self.requirements.match(labels)
        # a loop: a generator for `all` would take longer than most selectors
        for requirement in charging(self.requirements):  # noqa: SIM110
            if not requirement.matches(labels):
                return False
        return True


def parse_label_selector(selector: Mapping[str, Any] | None) -> LabelSelector | None:
    """Read a `metav1.LabelSelector`; None stays None. Raises InvalidSelector.

    Source: apimachinery `LabelSelectorAsSelector` and `labels.NewRequirement`.
    """
    if selector is None:
        return None
    if not isinstance(selector, Mapping):
        raise InvalidSelector("a selector must be an object")
    labels = _mapping(selector, "matchLabels")
    charge(2 * len(labels))
    requirements = [Requirement(_key(k), "In", frozenset([_value(v)])) for k, v in labels.items()]
    expressions = selector.get("matchExpressions") or ()
    if not isinstance(expressions, list | tuple):
        raise InvalidSelector("matchExpressions must be a list")
    requirements += [parse_requirement(expression) for expression in charging(expressions, 2)]
    return LabelSelector(_requirements(sorted(requirements, key=lambda r: r.key)))


def selector_or_error(selector: Mapping[str, Any] | None) -> tuple[LabelSelector | None, str]:
    """Return a `metav1.LabelSelector`, None for an invalid one, and why it is invalid, or ""."""
    try:
        return parse_label_selector(selector), ""
    except InvalidSelector as error:
        return None, str(error)


def with_label_keys(
    selector: LabelSelector | None, operator: str, keys: Iterable[str], labels: Mapping[str, str]
) -> LabelSelector | None:
    """Return the selector with a requirement for each of `keys`: the value in `labels` (`In`), or any other value
    (`NotIn`).

    Keys that are not in `labels` are ignored; a nil selector stays nil. Source: pkg/registry/core/pod/strategy.go,
    `applyLabelKeysToLabelSelector`.
    """
    own = tuple(Requirement(key, operator, frozenset([labels[key]])) for key in keys if key in labels)
    return LabelSelector(_requirements(own + selector.requirements)) if own and selector is not None else selector


def parse_requirement(expression: Any, operators: tuple[str, ...] = LABEL_OPERATORS) -> Requirement:
    """Parse one entry of `matchExpressions`. Raises InvalidSelector. Source: apimachinery `labels.NewRequirement`."""
    if not isinstance(expression, Mapping):
        raise InvalidSelector("matchExpressions must hold objects")
    key, operator, values = expression.get("key", ""), expression.get("operator", ""), expression.get("values") or ()
    if operator not in operators:
        raise InvalidSelector(f'"{operator}" is not a valid label selector operator')
    if not isinstance(values, list | tuple):
        raise InvalidSelector("values must be a list")
    if operator in ("In", "NotIn") and not values:
        raise InvalidSelector(f"values: for operator {operator} there must be at least one value")
    if operator in ("Exists", "DoesNotExist") and values:
        raise InvalidSelector(f"values: for operator {operator} there must be none")
    if operator in ("Gt", "Lt") and (len(values) != 1 or _int64(values[0]) is None):
        raise InvalidSelector(f"values: for operator {operator} there must be exactly one integer")
    return Requirement(_key(key), operator, frozenset(map(_value, charging(values, 0.5))))


def _int64(text: object) -> int | None:
    """Return a whole number as Go's ParseInt reads it; None for other text."""
    if not isinstance(text, str) or _INTEGER.fullmatch(text) is None:
        return None
    if len(text.lstrip("+-").lstrip("0")) > _INT64_DIGITS:
        return None  # int() rejects more than 4,300 digits
    number = int(text)
    return number if number in _INT64 else None


def _mapping(selector: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = selector.get(name) or {}
    if not isinstance(value, Mapping):
        raise InvalidSelector(f"{name} must be an object")
    return value


def _key(key: Any) -> str:
    prefix, slash, name = key.rpartition("/") if isinstance(key, str) else ("", "", "")
    if (slash and not is_subdomain(prefix)) or _NAME.fullmatch(name) is None:
        raise InvalidSelector(f'"{key}" is not a valid label key')
    return str(key)


def _value(value: Any) -> str:
    if not isinstance(value, str) or (value and _NAME.fullmatch(value) is None):
        raise InvalidSelector(f'"{value}" is not a valid label value')
    return value
