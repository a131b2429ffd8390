"""Nothing that a file can hold takes more than about linear time: eight times as much takes no 24 times as long."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.inputs.manifests.documents import Document
from forewarn.policies.inputs.manifests.reading import read
from forewarn.policies.inputs.manifests.yaml.nodes import check
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, Phase, evaluate
from tests.work import growth

if TYPE_CHECKING:
    from collections.abc import Callable

WANTED = frozenset((*POD_TEMPLATE_PATHS, "/Pod", "/Namespace", "/ResourceQuota", "scheduling.k8s.io/PriorityClass"))
UNWANTED = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: |\n"
TEXTS: dict[str, Callable[[int], str]] = {
    "blanks before no colon": lambda n: f"{UNWANTED}   {{{' ' * n}x ull:\n",
    "tabs before no colon": lambda n: f"{UNWANTED}   {{{chr(9) * n}x ~:\n",
    "many anchors": lambda n: f"{UNWANTED}   {'- &- ' * (n // 5)}\n ?[",
    "many questions": lambda n: f"{UNWANTED}   {'? ' * (n // 2)}[ \n",
    "many brackets": lambda n: f"{UNWANTED}   {'[' * 3999}{' ?' * (n // 2)}\n",
    "many stars": lambda n: UNWANTED + "   &a  *\n" * (n // 8),
    "many stars in a long line": lambda n: UNWANTED.replace("|", "b") + f"   {'x *y ' * (n // 5)}",
    "many brackets in quotes": lambda n: UNWANTED.replace("|", "'") + f"   {'x: [ ' * (n // 5)}\n   ?'\n",
    "many merges": lambda n: "apiVersion: v1\nkind: Pod\nb: &b {a: 1}\nmetadata:\n" + "  <<: *b\n" * (n // 9),
    "many empty documents": lambda n: "---\n" * (n // 4),
    "much text behind separators": lambda n: "---x\n" * (n // 5),
    "many comments for us": lambda n: "# forewarn: ignore[a] b\n" * (n // 24) + "apiVersion: v1\nkind: Pod\n",
    "many comments above values": lambda n: "a: 1\n" + "  # forewarn: ignore[a] b\n" * (n // 26) + "b: 2\n",
    "blanks in a comment for us": lambda n: f"a: 1 # forewarn: ignore[a] b{' ' * n}c\n",
    "many words in single quotes": lambda n: UNWANTED.replace("|", "") + "   b: 'x !y *z ? \\/ {{ << a'\n" * (n // 30),
    "many lines above a brace": lambda n: (
        f"{UNWANTED}{chr(10).join('   a' for _ in range(n // 5))}\n   {{{{ a }}}}: b\n"
    ),
    "many braces below each other": lambda n: UNWANTED + "    a: }:\n" * (n // 10) + "  }:\n" * (n // 10),
    "many tildes": lambda n: UNWANTED + "   ~ \n" * (n // 5),
    "many nulls in brackets": lambda n: f"{UNWANTED.replace('|', '')}  [{'null, ' * (n // 6)}]\n",
    "many separators": lambda n: "a: b\n---\n" * (n // 9),
}


def _class(number: int, more: str) -> str:
    head = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\n"
    return f"{head}metadata: {{name: c{number}}}\nvalue: {number}\n{more}"


def _pod(number: int, spec: str = "") -> str:
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p{number}, namespace: a}}\nspec: {{{spec}}}\n"


def _quota(number: int) -> str:
    head = f"apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: q{number}, namespace: a}}\n"
    return f"{head}spec: {{hard: {{pods: 100000, requests.cpu: 1000}}}}\n"


APPLIES: dict[str, Callable[[int], list[str]]] = {
    "default classes": lambda n: [_class(i, "globalDefault: true\n") for i in range(n)],
    "classes that wait": lambda n: [_class(i, "preemptionPolicy: Never\n" * (i % 2)) for i in range(n)],
    "misspelt classes": lambda n: [
        *(_class(i, "") for i in range(n // 2)),
        *(_pod(i, f"priorityClassName: d{i}") for i in range(n // 2)),
    ],
    "pods without a class": lambda n: [
        *(_class(i, "globalDefault: true\n") for i in range(n // 2)),
        *(_pod(i) for i in range(n // 2)),
    ],
    "quotas and pods": lambda n: [
        *(_quota(i) for i in range(n // 2)),
        *(_pod(i, "containers: [{name: c, resources: {requests: {cpu: 1m}}}]") for i in range(n // 2)),
    ],
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_reading_grows_as_the_text_does(text: Callable[[int], str]) -> None:
    def reading(n: int) -> Callable[[], object]:
        made = text(n)
        return lambda: read(made, "a.yaml", WANTED)

    assert growth(reading, 10_000, 80_000, enough=24, floor=0.01) < 24


@pytest.mark.parametrize("texts", APPLIES.values(), ids=APPLIES)
def test_judging_grows_as_the_input_does(texts: Callable[[int], list[str]]) -> None:
    def judge(n: int) -> Callable[[], object]:
        apply = ChangeSet(read("---\n".join(texts(n)), "a.yaml", WANTED).subjects)
        return lambda: evaluate(
            EvaluationRequest(apply, None, Config(), phase=Phase.LINT, now=datetime(2026, 1, 1, tzinfo=UTC))
        )

    assert growth(judge, 150, 1200, enough=24, floor=0.02) < 24


def test_more_quotas_of_one_namespace_than_are_gone_through_are_told() -> None:
    text = "---\n".join([*(_quota(i) for i in range(201)), _pod(1)])
    apply = ChangeSet(read(text, "a.yaml", WANTED).subjects)
    found = evaluate(EvaluationRequest(apply, None, Config(), phase=Phase.LINT, now=datetime(2026, 1, 1, tzinfo=UTC)))
    told = {f.message for f in found if f.rule == "quota-exceeded"}
    assert told == {"not evaluated: the namespace has 201 ResourceQuotas; forewarn evaluates at most 200"}


@pytest.mark.parametrize("text", ["a: 1\nb:\n  &c : d\n", "a:\n- &c : d\n", "a: {&c : d}\n", "a:\n  &c: d\n"])
def test_an_empty_key_with_an_anchor_is_no_ordinary_one(text: str) -> None:
    """The grammar takes it, and kubectl does not."""
    check(Document(text.encode(), "a.yaml"))
    (fault,) = read(f"apiVersion: v1\nkind: Pod\n{text}", "a.yaml", WANTED).diagnostics
    assert "an empty key cannot be a key" in fault.message


@pytest.mark.parametrize(
    "text",
    [
        "a: {~}\n",
        "a: [null: b]\n",
        "a: [~: b]\n",
        "a: [b, null: c]\n",
        "a: {b: 1, null}\n",
        "a: {NULL, b}\n",
        "a:\n  &b null: c\n",
        "a:\n  &b ~: c\n",
        "a: {&b }\n",
        "a: 1\rnull: 2\n",
    ],
)
def test_a_null_is_no_key_wherever_it_stands(text: str) -> None:
    (fault,) = read(f"apiVersion: v1\nkind: Pod\n{text}", "a.yaml", WANTED).diagnostics
    assert "cannot be a key" in fault.message
