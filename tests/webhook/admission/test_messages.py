"""Warnings keep within what the API server hands on, whatever rules say."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.base.findings import (
    NO_DETAIL,
    NO_LOCATION,
    NO_OBJECT,
    Action,
    Finding,
    ObjectRef,
    Severity,
    Text,
    one_line,
)
from forewarn.webhook.admission.decision import (
    BEST,
    MAX_WARNING,
    MAX_WARNINGS,
    audit_of,
    denial_of,
    truncated_text,
    warnings_of,
)

RULES = st.sampled_from(["unknown-priority-class", "priority-drift", "x" * 80, "odd/rule id"])
FINDINGS = st.builds(
    Finding,
    location=st.just(NO_LOCATION),
    severity=st.sampled_from(Severity),
    rule=RULES,
    object=st.just(NO_OBJECT),
    text=st.builds(
        Text, st.text(min_size=1), st.text(), st.tuples(st.text()), st.tuples(st.text(min_size=1)), st.tuples(st.text())
    ),
    action=st.sampled_from(Action),
    path=st.sampled_from(["", "spec.priority"]),
    detail=st.just(NO_DETAIL),
    for_requester=st.none(),
    not_evaluated=st.just(False),
)


def finding(message: str, rule: str = "a-rule", severity: Severity = Severity.ERROR, remediation: str = "") -> Finding:
    problem, *more = message.split(". ")
    return Finding(NO_LOCATION, severity, rule, NO_OBJECT, Text(problem, remediation, tuple(more)))


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
        assert not any(unseen(c) for c in warning)


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


def test_a_warning_is_message_fix_and_rule() -> None:
    given_ = finding('no PriorityClass "gold" was found', "unknown-priority-class", remediation="create it")
    assert warnings_of([given_]) == ('no PriorityClass "gold" was found. Fix: create it [unknown-priority-class]',)
    assert warnings_of([finding("plain")]) == ("plain [a-rule]",)


def test_a_long_problem_is_cut_and_further_sentences_are_left_out() -> None:
    [warning] = warnings_of([finding("x" * 200 + ". Then more")])
    assert warning == f"{'x' * (BEST - 1)}… [a-rule]"


def test_a_shorter_version_of_the_problem_is_preferred_to_a_part_of_it() -> None:
    told = finding("x " * 60 + "end", remediation="do it")
    told = told._replace(text=told.text._replace(shorter=("x " * 60, "x " * 40 + "end", "x end")))
    assert warnings_of([told]) == (f"{'x ' * 40}end. Fix: do it [a-rule]",)


def test_a_caveat_stays_however_long_the_rest_is() -> None:
    told = finding("x " * 50 + "end. More", remediation="do it").with_texts(
        lambda text: text.with_caveat("The cluster state is stale")
    )
    (warning,) = warnings_of([told])
    assert warning.endswith("x… The cluster state is stale. Fix: do it [a-rule]")
    assert len(warning) <= BEST + len(" [a-rule]")
    assert told.message == f"{'x ' * 50}end. The cluster state is stale. More"


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


def unseen(char: str) -> bool:
    """Whether a character is drawn as nothing, or turns the direction of what is around it."""
    return (
        unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
        or char in "\u034f\u115f\u1160\u3164\uffa0\ufe0f"
    )


UNSEEN = [
    *"\u00ad\u034f\u061c\u115f\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068",
    *"\u2069\u3164\ufe00\ufe0f\ufeff\ufff9\uffa0",
    *("\U000e0001", "\U000e0041", "\U000e007f", "\U000e0100", "\U0001d173", "\U000f0000"),
]


@pytest.mark.parametrize("char", UNSEEN, ids=lambda char: f"U+{ord(char):04X}")
def test_what_nobody_sees_is_made_visible_wherever_it_is_told(char: str) -> None:
    escape = f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"
    told = finding(f'no class "go{char}ld"', remediation=f"write g{char}old")
    (warning,) = warnings_of([told])
    assert warning == f'no class "go{escape}ld". Fix: write g{escape}old [a-rule]'
    assert audit_of([told]) == {"a-rule": f'no class "go{escape}ld"'}
    message, (cause,) = denial_of([told])
    assert message == f'no class "go{escape}ld". Fix: write g{escape}old [a-rule]'
    assert cause.message == f'no class "go{escape}ld"'
    assert one_line(f"{char}a{char}") == f"{escape}a{escape}"


@given(st.text())
def test_one_line_shows_every_character_and_leaves_the_others(text: str) -> None:
    line = one_line(text)
    assert not any(unseen(char) for char in line)
    assert one_line(line) == line


def test_what_people_write_is_left_as_it_is() -> None:
    for text in ("größe", "宅配", "Ελλάδα", "naïve, “quoted” …", "עברית", "🚢"):
        assert one_line(text) == text


def test_sentences_behind_the_first_one_are_left_out_before_the_fix() -> None:
    first = "would preempt 9 Pods on node-a or 2 other nodes: payroll-and-accounting/report-of-the-month-1 and 8 more"
    facts = "Priority 100 to 500, 2 violate a PDB, replacements preempt 3 more Pods, 2 not recreated, up to 30s grace"
    fix = "lower requests or priority"
    (warning,) = warnings_of([finding(f"{first}. {facts}", "preempts-running-pods", remediation=fix)])
    assert warning == f"{first.partition(': ')[0]}… Fix: {fix} [preempts-running-pods]"
    short, facts = "would preempt 1 Pod: batch/report", "Priority 100 to 500, up to 30s grace"
    (warning,) = warnings_of([finding(f"{short}. {facts}. {facts}", "preempts-running-pods", remediation=fix)])
    assert warning == f"{short}. {facts}. Fix: {fix} [preempts-running-pods]"


@pytest.mark.parametrize("length", [10, 60, 90, 253, 600])
def test_a_name_of_any_length_leaves_the_fix_whole(length: int) -> None:
    (warning,) = warnings_of([finding(f"would preempt 1 Pod: {'n' * length} (priority 100)", remediation="do " * 30)])
    assert len(warning) <= MAX_WARNING
    assert warning.startswith("would preempt 1 Pod")
    assert warning.endswith("do [a-rule]")


def test_a_fix_of_any_length_leaves_half_of_the_space_to_the_message() -> None:
    (warning,) = warnings_of([finding("what is wrong", remediation="do " * 200)])
    assert warning.startswith("what is wrong. Fix: do do")
    assert warning.endswith("… [a-rule]")
    assert len(warning) <= MAX_WARNING


def test_who_asked_reads_what_is_for_him_and_the_audit_log_has_all() -> None:
    told = finding("a pod of payroll", remediation="move payroll")._replace(for_requester=Text("a pod", "move it"))
    assert warnings_of([told]) == ("a pod. Fix: move it [a-rule]",)
    message, causes = denial_of([told])
    assert message == "a pod. Fix: move it [a-rule]"
    assert [cause.message for cause in causes] == ["a pod"]
    assert audit_of([told]) == {"a-rule": "a pod of payroll"}


def test_line_breaks_become_spaces() -> None:
    assert warnings_of([finding("a\nb\tc\x1b[31m\u2028d")]) == ("a b c [31m d [a-rule]",)


def test_a_sentence_that_does_not_fit_is_left_out_and_the_fix_stays() -> None:
    first = "1 of 9 new Pods stay Pending and may not preempt: 0/9 nodes fit (insufficient cpu)"
    second = "Assumes no PersistentVolumeClaims; no PersistentVolumes; no StorageClasses; no CSINodes; no CSIDrivers"
    told = finding(f"{first}. {second}", "fits-nowhere", remediation="lower requests")
    assert warnings_of([told]) == (f"{first}. Fix: lower requests [fits-nowhere]",)


WORDS = st.text("abcdefgh-/", min_size=1, max_size=12)
CLAUSES = st.builds(" ".join, st.lists(WORDS, min_size=1, max_size=6))
SENTENCES = st.builds(lambda parts, sign: sign.join(parts), st.lists(CLAUSES, min_size=1, max_size=6),
                      st.sampled_from(["; ", ", ", ": "]))  # fmt: skip


@given(st.lists(SENTENCES, min_size=1, max_size=5), SENTENCES.filter(lambda text: len(text) <= 180))
def test_what_is_left_of_a_warning_are_whole_words_and_the_whole_fix(sentences: list[str], remedy: str) -> None:
    message = ". ".join(sentences)
    (warning,) = warnings_of([finding(message, remediation=remedy)])
    told, fix, rest = warning.removesuffix(" [a-rule]").rpartition(" Fix: ")
    assert (fix, rest) == (" Fix: ", remedy)
    for part in told.split("… "):
        retained = part.removesuffix("…").removesuffix(".")
        assert retained in message
        after = {message[at + len(retained) :][:1] for at in range(len(message)) if message.startswith(retained, at)}
        assert after & {"", " ", ";", ",", ":", "."}, (retained, message)


@given(st.text(" ;,:ab(", max_size=60), st.integers(-5, 60))
def test_a_text_that_ends_early_is_a_beginning_of_it(text: str, most: int) -> None:
    short = truncated_text(text, most)
    assert short == text or len(short) <= max(most, 1)
    assert text.startswith(short.removesuffix("…"))


ALLOWED = Text(
    'class "critical-payments" is not allowed in namespace checkout for user system:serviceaccount:ci:deployer',
    "use another class, or ask for an entry in allowedClasses",
    (),
    ('class "critical-payments" is not allowed in namespace checkout', 'class "critical-payments" is not allowed here'),
)
VICTIMS = Text(
    "would preempt 3 Pods: checkout/cart-7d9f, checkout/pay-55c2, data/etl-9",
    "lower requests or priority",
    ("Assumes no StorageClasses",),
    ("would preempt 3 Pods",),
)


@pytest.mark.parametrize(
    ("text", "name", "warning"),
    [
        (VICTIMS, "web", f"Deployment shop/web: {VICTIMS.problem}"),
        (VICTIMS, "storefront-web-eu", f"Deployment shop/storefront-web-eu: {VICTIMS.problem}"),
        (VICTIMS, "storefront-web-northern-region-7", f"Deployment shop/s…thern-region-7: {VICTIMS.problem}"),
        (
            ALLOWED,
            "web",
            f"Deployment shop/web: {ALLOWED.shorter[0]}. Fix: use another class…",
        ),
    ],
)
def test_a_named_warning_omits_the_fix_before_the_name_and_the_name_before_the_problem(
    text: Text, name: str, warning: str
) -> None:
    about = Finding(NO_LOCATION, Severity.ERROR, "a-rule", ObjectRef("apps/v1", "Deployment", "shop", name), text)
    (line,) = warnings_of([about], lambda _: True)
    assert line == f"{warning} [a-rule]"
    assert len(line) <= BEST + len(" [a-rule]")
