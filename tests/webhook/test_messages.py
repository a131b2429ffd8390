"""Warnings keep within what the API server hands on, whatever rules say."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from policies.findings import NO_OBJECT, NOWHERE, Action, Finding, Severity
from webhook.messages import MAX_FIRST_SENTENCE, MAX_WARNING, MAX_WARNINGS, audit_of, denial_of, warnings_of

RULES = st.sampled_from(["unknown-priority-class", "priority-drift", "x" * 80, "odd/rule id"])
FINDINGS = st.builds(
    Finding,
    location=st.just(NOWHERE),
    severity=st.sampled_from(Severity),
    rule=RULES,
    object=st.just(NO_OBJECT),
    message=st.text(min_size=1),
    remediation=st.text(),
    action=st.sampled_from(Action),
    path=st.sampled_from(["", "spec.priority"]),
)


def finding(message: str, rule: str = "a-rule", severity: Severity = Severity.ERROR, remediation: str = "") -> Finding:
    return Finding(NOWHERE, severity, rule, NO_OBJECT, message, remediation)


@given(st.lists(FINDINGS, max_size=8))
def test_every_warning_reaches_the_user_whole(findings: list[Finding]) -> None:
    warnings = warnings_of(findings)
    assert len(warnings) <= MAX_WARNINGS
    assert bool(warnings) == bool(findings)
    assert len(set(warnings)) == len(warnings)
    for warning in warnings:
        assert 0 < len(warning) <= MAX_WARNING
        # the API server's own test (apimachinery util/net NewWarningHeader): no control character, valid UTF-8
        assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in warning)
        warning.encode()


@given(st.lists(FINDINGS, max_size=8))
def test_audit_annotations_have_valid_keys_and_one_line(findings: list[Finding]) -> None:
    for key, value in audit_of(findings).items():
        assert 0 < len(key) <= 63
        assert "/" not in key
        assert value.isprintable() or not value.isascii()
        assert "\n" not in value


@given(st.lists(FINDINGS, min_size=1, max_size=4))
def test_a_denial_names_every_rule(findings: list[Finding]) -> None:
    message, causes = denial_of(findings)
    for found in findings:
        assert re.search(rf"[\[ ]{re.escape(found.rule)}[\],]", message)
    assert {cause.reason for cause in causes} == {found.rule for found in findings}


def test_a_warning_is_message_remedy_and_rule() -> None:
    given_ = finding('no PriorityClass "gold" was found', "unknown-priority-class", remediation="create it")
    assert warnings_of([given_]) == ('no PriorityClass "gold" was found. Fix: create it [unknown-priority-class]',)
    assert warnings_of([finding("plain")]) == ("plain [a-rule]",)


def test_a_long_first_sentence_is_cut_and_a_second_one_stays() -> None:
    [warning] = warnings_of([finding("x" * 200 + ". Then more.")])
    first, rest = warning.split("… ")
    assert len(first) + 1 == MAX_FIRST_SENTENCE
    assert rest == "Then more. [a-rule]"


def test_the_worst_come_first_and_the_last_one_counts_the_rest() -> None:
    findings = [finding(f"note {n}", severity=Severity.NOTE) for n in range(3)]
    findings += [finding("an error"), finding("a warning", severity=Severity.WARNING)]
    assert warnings_of(findings) == (
        "an error [a-rule]",
        "a warning [a-rule]",
        "note 0 [a-rule] (and 2 more warnings)",
    )


def test_what_is_said_twice_is_said_once() -> None:
    assert len(warnings_of([finding("same"), finding("same")])) == 1


def test_line_breaks_become_spaces() -> None:
    assert warnings_of([finding("a\nb\tc\x1b[31m\u2028d")]) == ("a b c [31m d [a-rule]",)
