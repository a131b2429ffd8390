"""Rules of other packages, for the linter: loaded by name, with their errors caught.

A distribution provides rules by the entry-point group `forewarn.rules`; the configuration enables rules (`rules`). If
a rule cannot be loaded, raises an exception or yields an invalid value, a finding with the rule's id reports the
error; all other rules run. The webhook loads none, because Python code cannot be interrupted at the deadline of a
request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Problem, Severity, cut
from forewarn.policies.base.metering import CutShort
from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.policies.linting.rules.support.context import NOTHING_STORED, Context, DependsOn, Rule, Target
from forewarn.policies.linting.rules.support.documentation import documentation_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
    from forewarn.policies.linting.config.model import Config

GROUP: Final = "forewarn.rules"
_ID: Final = re.compile(r"[a-z][a-z0-9-]*\.[a-z][a-z0-9-]*")
_MAX_LENGTH: Final = 200
"""The maximum number of characters of an exception's message."""


def with_rules(config: Config, file: str | None) -> Config:
    return config._replace(foreign=rules_of_packages(config.rules, file or "")) if config.rules else config


def rules_of_packages(names: Sequence[str], file: str = "") -> tuple[Rule, ...]:
    """Return the rules with these ids; for a rule that cannot be loaded, a rule that reports the error.

    `file`: the configuration that enables them.
    """
    from importlib.metadata import entry_points

    rules: dict[str, dict[str, EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        rules.setdefault(entry.name, {})[entry.value] = entry
    return tuple(_loaded(name, rules.get(name, {}), file) for name in dict.fromkeys(names))


def why_broken(rule: Rule) -> str:
    """The reason why a rule cannot be loaded; "" for a loaded rule."""
    return rule.why if isinstance(rule, _Broken) else ""


def _loaded(name: str, entry_points: Mapping[str, EntryPoint], file: str) -> Rule:
    """Load a rule; if that fails, return a rule that reports the error.

    `entry_points`: the entry points with this name, by value.
    """
    if not entry_points:
        fix = f"install its package, or remove it from `rules`{f' in {file}' if file else ''}"
        return _Broken(name, "no installed package has this rule", fix)
    if len(entry_points) > 1:
        return _Broken(name, f"{len(entry_points)} packages have a rule of this id", "uninstall all but one of them")
    (entry,) = entry_points.values()
    try:
        rule = entry.load()
        if not _ID.fullmatch(name) or name != rule.ID:
            raise ValueError(f"ID and entry point must be the same PACKAGE.RULE in lower case, not {rule.ID!r}")
        if not rule.TARGETS or not all(isinstance(target, Target) for target in rule.TARGETS):
            raise ValueError("TARGETS must be a tuple of Target")
        if not isinstance(rule.SEVERITY, Severity):
            raise ValueError("SEVERITY must be a Severity")
        if not callable(rule.check):
            raise ValueError("check must be a function")
        documentation_of(rule)
        return Guarded(rule)
    except (Exception, SystemExit) as error:
        return _Broken(name, f"cannot be loaded: {_error_text(error)}", f"report it to the authors of {entry.value}")


class Guarded(Rule):
    """A wrapper of a rule that yields only valid problems, and reports the rule's exceptions as a problem."""

    def __init__(self, rule: Any) -> None:
        self.__doc__ = rule.__doc__
        self.ID, self.TARGETS, self.SEVERITY = rule.ID, tuple(rule.TARGETS), rule.SEVERITY
        depends_on = getattr(rule, "DEPENDS_ON", None)
        self.DEPENDS_ON = depends_on if isinstance(depends_on, DependsOn) else NOTHING_STORED
        self._check = rule.check

    def check(self, subject: ReviewedObject, context: Context) -> Iterator[Problem]:
        """Yield the problems of one subject. If the rule raises an exception, yield a warning about the exception.

        The rule gets copies: other rules see the object, and other files that contain the same text.
        """
        try:
            of_object, old, part = deepcopy((subject.object, subject.old, subject.part))
            for problem in self._check(subject._replace(object=of_object, old=old, part=part), context):
                yield _sound(problem)
        except (CutShort, InvalidObject):
            raise
        except (Exception, SystemExit) as error:
            message = f"not evaluated: the rule failed: {_error_text(error)}"
            yield Problem(message, remediation="report it to the authors of the rule", severity=Severity.WARNING)


class _Broken(Rule):
    """A replacement for a rule that could not be loaded: reports the reason once."""

    TARGETS = (Target.FILE,)
    SEVERITY = Severity.WARNING

    def __init__(self, name: str, why: str, fix: str) -> None:
        self.ID, self.why, self._problem = name, why, Problem(f"not evaluated: {why}", remediation=fix)

    def check(self, subject: ReviewedObject, context: Context) -> Iterator[Problem]:  # noqa: ARG002  (the protocol)
        yield self._problem


def _sound(problem: Any) -> Problem:
    """Return the problem if all its values have the right types, with normalized blanks. Raises TypeError."""
    if not isinstance(problem, Problem):
        raise TypeError(f"check must yield Problem, not {type(problem).__name__}")
    message, fix = problem.message, problem.remediation
    path: Any = problem.path
    severity: Any = problem.severity
    if not isinstance(message, str) or not isinstance(fix, str):
        raise TypeError("message and remediation must be strings")
    if not isinstance(path, tuple) or not all(isinstance(step, str | int) for step in path):
        raise TypeError("path must be a tuple of keys and indexes")
    if severity is not None and not isinstance(severity, Severity):
        raise TypeError("severity must be a Severity or None")
    detail = json.loads(json.dumps(dict(problem.detail)))
    return Problem(" ".join(message.split()), path, " ".join(fix.split()), detail=detail, severity=severity)


def _error_text(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {cut(text, _MAX_LENGTH)}" if text else type(error).__name__
