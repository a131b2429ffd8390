"""The form of answers: at most 28 lines of 110 columns, a status first, and the same counters in every format."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.base.documents import json_of
from forewarn.policies.base.documents.answer import (
    AnswerDocument,
    AnswerStatus,
    Cause,
    Counter,
    Effects,
    Fix,
    Table,
    Why,
    counters_of,
)
from forewarn.policies.cli.render import plain
from forewarn.policies.cli.render.answer import MAX_LINES, WIDTH, counter_text, markdown, number, table_lines, text
from forewarn.policies.cli.render.html.answer import header
from forewarn.policies.kubernetes.cluster.cache import AnswerHead, Origin

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = st.text("abc-/. ", min_size=1, max_size=300)
HEAD = AnswerHead(Origin("a/b.json", "2026-06-09T23:59:18Z"), "1.36", "default-scheduler", ("Kubernetes 1.36",))
ZONE = AnswerDocument(
    AnswerStatus.HARM,
    "zone a lost (134 of 400 nodes)",
    "347 Pods preempted, 273 stay Pending",
    Effects(preempted=347, pending=273, lost=1592, down=23, down_seconds=421, jobs_failed=34, placeholders=39),
    [Counter("preempted", 347), Counter("pending", 273, after=25), Counter("lost", 1592, 7610)],
    why=Why("lost", 9537, "9,537 REPLICAS ARE LOST", [Cause(1592 - n, "k", f"reason {n}") for n in range(6)]),
    tables=[
        Table(("CLASS", "VALUE", "LOST"), [("gold", 1000, 2), ("", 0, 0)], ("total", "", 2)),
        Table(("POD", "NODE"), [("a", "n1")], detail=2),
    ],
    fix=[Fix("quota a/b: pods 900 → 1,700", "432 rejected")],
    more=["-v workloads"],
)


def lines(document: AnswerDocument, head: AnswerHead = HEAD, level: int = 0) -> list[str]:
    return [*text(document, head, level=level)]


def test_an_answer_as_text() -> None:
    assert lines(ZONE) == [
        "HARM  zone a lost (134 of 400 nodes): 347 Pods preempted, 273 stay Pending",
        "      preempted 347 | Pending 273 → 25 | lost 1,592 of 7,610",
        "",
        "WHY 9,537 REPLICAS ARE LOST",
        "    1,592  reason 0",
        "    1,591  reason 1",
        "    1,590  reason 2",
        "    4,764  other reasons, -v: 1,589 reason 3, 1,588 reason 4 and 1 more",
        "",
        "CLASS  VALUE  LOST",
        "gold   1,000     2",
        "-          0     -",
        "total            2",
        "",
        "FIX",
        "  1  quota a/b: pods 900 → 1,700  → 432 rejected",
        "INPUT  b.json 2026-06-09 23:59Z, Kubernetes 1.36 (assumed)",
        "MORE   -v workloads",
    ]


def test_fixes_and_causes_give_way_to_the_first_table() -> None:
    """The table of classes of a lost zone shows who is harmed, and its rows add up to the total."""
    rows = [(name, 1000, 1) for name in "abcdef"]
    classes = Table(("CLASS", "VALUE", "LOST"), rows, ("total", "", 6))
    fixes = [Fix(f"{'long ' * 20}{n}", "Jobs failed 34 → 2") for n in range(3)]
    shown = lines(replace(ZONE, tables=[classes], fix=fixes, warnings=[*["w " * 60] * 2, "w"]))
    assert len(shown) <= MAX_LINES
    assert [line.split()[0] for line in shown if line.endswith("1,000     1")] == [*"abcdef"]
    assert (
        shown[shown.index("WHY 9,537 REPLICAS ARE LOST") + 3]
        == "    6,354  other reasons, -v: 1,590 reason 2, 1,589 reason 3 and 2 more"
    )
    assert "FIX (2 more: -v)" in shown
    many = lines(replace(ZONE, tables=[classes], fix=fixes, warnings=["w " * 120] * 6))
    assert (len(many), "; 4 more warnings: -v" in "".join(many)) == (MAX_LINES, True)
    assert [line.split()[0] for line in many if line.endswith("1,000     1")] == [*"abcdef"]


def test_the_first_table_leaves_room_for_the_first_rows_of_the_next() -> None:
    """An answer about an incident shows who was preempted, and what is Pending."""
    many = Table(("PREEMPTED", "NODE"), [(f"shop/p-{place}", "n1") for place in range(9)])
    few = Table(("CLASS", "PENDING"), [(name, 1) for name in "abc"], ("total", 3))
    shown = lines(replace(ZONE, tables=[many, few], why=None, warnings=["w " * 150], fix=[*ZONE.fix] * 3))
    assert len(shown) == MAX_LINES
    assert "and 2 more: -v" in shown
    assert {"a            1", "total        3"} <= {*shown}


def test_causes_of_a_quarter_of_the_counter_have_a_row() -> None:
    """What harms most is not among other reasons, however long the answer is."""
    causes = [Cause(number, "k", f"reason {number}") for number in (40, 30, 25, 3, 2)]
    why = Why("lost", 100, "100 REPLICAS ARE LOST", causes)
    shown = lines(replace(ZONE, why=why, warnings=[f"{'w ' * 150}{n}" for n in range(3)]))
    start = shown.index("WHY 100 REPLICAS ARE LOST") + 1
    assert [line.split()[0] for line in shown[start : start + 4]] == ["40", "30", "25", "5"]


def test_a_row_says_how_many_changed_fields_it_lacks() -> None:
    """The first field alone would look like the whole change."""
    fields = [f"requests.{name * 9} 1 → 2" for name in "abcde"]
    table = Table(("CHANGED OBJECT", "CHANGE"), [("Deployment shop/web", "; ".join(fields))])
    document = AnswerDocument(AnswerStatus.WARN, "1 object changed", "", tables=[table])
    assert [*text(document, None)][-1].endswith(f"  {'; '.join(fields[:3])}; 2 more: -v")
    assert "more: -v" not in "".join(text(document, None, level=1))


def test_a_reason_without_room_loses_its_details_and_is_not_cut() -> None:
    reason = "no node is in its volume's zone (eu-west-1a); preemptionPolicy is Never"
    row = ("monitoring/prometheus", "platform", 1_000_000, "2 → 1", 1, 1, 1, reason)
    heads = ("WORKLOAD", "CLASS", "VALUE", "RUNNING", "LOST", "PENDING", "PREEMPTED", "REASON")
    *_, shown = text(AnswerDocument(AnswerStatus.HARM, "zone lost", "", tables=[Table(heads, [row])]), None)
    assert shown.endswith("  no node is in its volume's zone")
    assert len(shown) <= WIDTH


def test_one_more_row_is_shown_in_place_of_its_number() -> None:
    rows = [(name, 1) for name in "abcde"]
    table = Table(("CLASS", "LOST"), rows, ("total", 5))
    assert [*table_lines(table, plain, 4)] == [*table_lines(table, plain)]
    assert "and 2 more: -v" in [*table_lines(table, plain, 3)]


def test_more_detail_lists_all_reasons_and_tables() -> None:
    assert "POD  NODE" not in lines(ZONE, level=1)
    assert {"    1,587  reason 5", "POD  NODE"} <= {*lines(ZONE, level=2)}


def tables() -> st.SearchStrategy[Table]:
    row = st.tuples(NAMES, st.integers(0, 10**9), NAMES, st.integers(0, 10**6), NAMES)
    return st.builds(
        lambda rows, total, title: Table(
            ("WORKLOAD", "VALUE", "RUNNING", "LOST", "REASON"),
            rows,
            ("total", "", "", 1, "") if total else (),
            0,
            title,
        ),
        st.lists(row, min_size=1, max_size=40),
        st.booleans(),
        st.sampled_from(["", "NEW PODS"]),
    )


def documents() -> st.SearchStrategy[AnswerDocument]:
    effects = st.builds(Effects, *[st.integers(0, 10**6)] * len(Effects._fields))
    why = st.builds(
        lambda numbers: Why("lost", sum(numbers), "REPLICAS", [Cause(n, "k", "no capacity") for n in numbers]),
        st.lists(st.integers(1, 10**5), min_size=1, max_size=9),
    )
    names = st.text("abc-/.", min_size=1, max_size=80)
    return st.builds(
        lambda status, question, effects, why, tables, warnings, fixes: AnswerDocument(
            status,
            f"{question} lost",
            "2 Pods preempted",
            effects,
            counters_of(effects),
            None,
            warnings,
            why,
            tables,
            fixes,
        ),
        st.sampled_from(AnswerStatus),
        names,
        effects,
        st.none() | why,
        st.lists(tables(), max_size=3),
        st.lists(st.just("the input has no LimitRanges"), max_size=9),
        st.lists(st.builds(Fix, st.text("abc ", min_size=1, max_size=60), st.just("2 preempted")), max_size=5),
    )


@given(documents())
def test_an_answer_has_few_short_lines(document: AnswerDocument) -> None:
    shown = lines(document)
    assert len(shown) <= MAX_LINES
    assert max(map(len, shown)) <= WIDTH
    assert shown[0].startswith(f"{document.status}  ")


@given(documents(), st.text("abc/", max_size=200))
def test_only_the_input_depends_on_the_path(document: AnswerDocument, path: str) -> None:
    other = AnswerHead(Origin(f"/{path}/c.json", "2026-06-09T23:59:18Z"), "1.36", "default-scheduler")
    one, two = ([line for line in lines(document, head) if not line.startswith("INPUT")] for head in (HEAD, other))
    assert one == two


@given(documents())
def test_every_format_has_the_same_counters(document: AnswerDocument) -> None:
    data: Any = json_of(document)
    assert [*data["counters"].values()] == [*document.effects]
    shown = [counter_text(counter) for counter in document.shown]
    words = " ".join(" ".join(lines(document)).split())
    assert all(each in words for each in shown)
    plain = re.sub(r"\\\\(.)", r"\\1", markdown(document, HEAD))
    assert all(each in plain for each in shown)
    page = _text_of(header(document))
    assert all(number(counter.value) in page for counter in document.shown)


def _text_of(element: Any) -> str:
    return unescape(" ".join(element.itertext()))


@pytest.mark.parametrize(
    ("effects", "shown"),
    [
        (Effects(), ["victims", "preempted", "pending", "lost"]),
        (Effects(down=1, down_seconds=90), ["victims", "preempted", "pending", "lost", "down"]),
        (Effects(rejected=2, new_nodes=3), ["victims", "preempted", "pending", "lost", "rejected", "new_nodes"]),
    ],
)
def test_zeros_of_the_first_four_counters_are_shown(effects: Effects, shown: Sequence[str]) -> None:
    assert [counter.name for counter in counters_of(effects)] == shown


def test_a_reason_is_wrapped_and_not_cut() -> None:
    reason = "insufficient cpu even after preempting all Pods of lower priority"
    table = Table(["workload", "lost", "reason"], [["w" * 44, 1, f"{reason}; a second clause"]])
    texts = [*table_lines(table, plain, 4)][1:]
    assert " ".join(line[44:].strip() for line in texts).endswith(reason)
    assert len(texts) == 2
    assert max(map(len, texts)) <= WIDTH
