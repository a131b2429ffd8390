"""Label selectors, node selectors and tolerations, as apimachinery and component-helpers have them."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from tests.policies.scheduling.reference.objects import Obj, labels, name, spec


class InvalidSelector(Exception):
    """What upstream's parser would refuse."""


class Requirement(NamedTuple):
    """One labels.Requirement."""

    key: str
    operator: str
    values: tuple[str, ...]

    def matches(self, found: Mapping[str, str]) -> bool:
        value = found.get(self.key)
        if self.operator == "In":
            return value is not None and value in self.values
        if self.operator == "NotIn":
            return value is None or value not in self.values
        if self.operator == "Exists":
            return value is not None
        if self.operator == "DoesNotExist":
            return value is None
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        have, limit = parse_int(value), parse_int(self.values[0])
        if have is None or limit is None:
            return False
        return have > limit if self.operator == "Gt" else have < limit


def parse_int(text: str | None) -> int | None:
    """strconv.ParseInt(text, 10, 64); None where it fails."""
    if text is None or not re.fullmatch("[+-]?[0-9]+", text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class Selector(NamedTuple):
    """A labels.Selector; requirements None is labels.Nothing(), () is labels.Everything()."""

    requirements: tuple[Requirement, ...] | None

    @property
    def empty(self) -> bool:
        """Selector.Empty: true for Everything, false for Nothing."""
        return self.requirements == ()

    def matches(self, found: Mapping[str, str] | None) -> bool:
        if self.requirements is None:
            return False
        return all(r.matches(found or {}) for r in self.requirements)


NOTHING = Selector(None)


def requirement(key: str, operator: str, values: list[str] | None) -> Requirement:
    """labels.NewRequirement, as far as operators and their values go."""
    given = tuple(values or ())
    if operator not in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"):
        raise InvalidSelector(operator)
    if operator in ("In", "NotIn") and not given:
        raise InvalidSelector("for 'in', 'notin' operators, values set can't be empty")
    if operator in ("Exists", "DoesNotExist") and given:
        raise InvalidSelector("values set must be empty for exists and does not exist")
    if operator in ("Gt", "Lt") and (len(given) != 1 or parse_int(given[0]) is None):
        raise InvalidSelector("for 'Gt', 'Lt' operators, exactly one integer is required")
    return Requirement(key, operator, given)


def from_set(wanted: Mapping[str, str] | None) -> Selector:
    """labels.SelectorFromSet."""
    return Selector(tuple(Requirement(key, "In", (value,)) for key, value in (wanted or {}).items()))


def label_selector(given: Obj | None) -> Selector:
    """metav1.LabelSelectorAsSelector: nil selects nothing, {} everything."""
    if given is None:
        return NOTHING
    found = [Requirement(key, "In", (value,)) for key, value in (given.get("matchLabels") or {}).items()]
    for expression in given.get("matchExpressions") or []:
        if expression["operator"] in ("Gt", "Lt"):
            raise InvalidSelector(expression["operator"])
        found.append(requirement(expression["key"], expression["operator"], expression.get("values")))
    return Selector(tuple(found))


def _field_matches(given: Obj, fields: Mapping[str, str]) -> bool:
    """One matchFields entry as a fields.Selector: an absent field reads as the empty string."""
    values = given.get("values") or []
    if given["operator"] not in ("In", "NotIn") or len(values) != 1:
        raise InvalidSelector("must have one element")
    equal = fields.get(given["key"], "") == values[0]
    return equal if given["operator"] == "In" else not equal


def term_matches(term: Obj, node: Obj) -> bool:
    """One NodeSelectorTerm; an empty one selects nothing. InvalidSelector where it does not parse."""
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    wanted = [requirement(e["key"], e["operator"], e.get("values")) for e in expressions]
    one_node = {"metadata.name": name(node)} if name(node) else {}
    # All fields are parsed before any is compared: one that does not parse spoils the term.
    by_field = [_field_matches(f, one_node) for f in fields]
    if not all(r.matches(labels(node)) for r in wanted):
        return False
    return not one_node or all(by_field)


def node_selector_matches(terms: list[Obj] | None, node: Obj) -> bool:
    """LazyErrorNodeSelector.Match: terms are ORed, terms that do not parse do not match."""
    for term in terms or []:
        try:
            if term_matches(term, node):
                return True
        except InvalidSelector:
            continue
    return False


def required_node_affinity_matches(pod: Obj, node: Obj) -> bool:
    """GetRequiredNodeAffinity(pod).Match(node): spec.nodeSelector and the required node affinity."""
    wanted = spec(pod).get("nodeSelector") or {}
    if not from_set(wanted).matches(labels(node)):
        return False
    node_affinity = (spec(pod).get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or node_selector_matches(required.get("nodeSelectorTerms"), node)


def tolerates(toleration: Obj, taint: Obj) -> bool:
    """Toleration.ToleratesTaint with the comparison operators (alpha) off."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect", ""):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key", ""):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return bool(toleration.get("value", "") == taint.get("value", ""))
    return bool(operator == "Exists")


def tolerated(tolerations: list[Obj] | None, taint: Obj) -> bool:
    return any(tolerates(t, taint) for t in tolerations or [])


def has_untolerated_taint(node: Obj, pod: Obj) -> bool:
    """FindMatchingUntoleratedTaint with DoNotScheduleTaintsFilterFunc."""
    for taint in spec(node).get("taints") or []:
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not tolerated(spec(pod).get("tolerations"), taint):
            return True
    return False
