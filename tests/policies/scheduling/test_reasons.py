"""kube-scheduler's reasons: upstream's texts, each in one place, and explained and fixed by the constant itself."""

import importlib
import json
import pkgutil
import re
from pathlib import Path

import pytest

from forewarn.policies.kubernetes.scheduling import plugins, preemption, reasons
from forewarn.policies.kubernetes.scheduling.framework import Status
from forewarn.policies.kubernetes.scheduling.plugins import node_resources_fit, one_node
from forewarn.policies.kubernetes.scheduling.plugins.node_resources_fit import reason_of
from forewarn.policies.kubernetes.scheduling.reasons import (
    NOT_HELPFUL,
    FitError,
    Reason,
    as_reason,
    join_phrases,
    joined,
    not_found,
)
from forewarn.policies.linting.rules.support.predictions import fix_of

ROOT = Path(__file__).resolve().parents[3]
RECORDED = json.loads((Path(__file__).parent / "cases" / "reasons.json").read_text())
"""File of kube-scheduler 1.36.3 -> the reasons in it."""


def constants() -> dict[str, str]:
    """Return the reasons that are constants: text -> file."""
    modules = [
        importlib.import_module(f"{plugins.__name__}.{info.name}") for info in pkgutil.iter_modules(plugins.__path__)
    ]
    return {
        str(reason): str(Path(str(module.__file__)).resolve())
        for module in (*modules, preemption, reasons)
        for value in vars(module).values()
        for reason in (value.reasons if isinstance(value, Status) else (value,))
        if isinstance(reason, Reason)
    }


def test_texts_are_those_of_upstream() -> None:
    upstream = {text for texts in RECORDED.values() for text in texts}
    assert {*constants(), reason_of("cpu"), reason_of("pods")} <= upstream


def test_no_code_compares_the_texts() -> None:
    homes = constants() | {"Insufficient ": str(Path(node_resources_fit.__file__).resolve())}
    copies = [
        f"{path.relative_to(ROOT)}: {text}"
        for package in ("policies", "webhook")
        for path in (ROOT / package).resolve().rglob("*.py")
        if path.parent.name != "objects"  # knows no plugins
        for text in re.findall(r'(?<!")"(?!")([^"\n]{12,})"', path.read_text())
        for reason, home in homes.items()
        if " " in text and home != str(path)
        if reason in text or reason.startswith(text) or (len(text) > 20 and text in reason)
    ]
    assert not copies, "use the constant of the plugin (`Reason`)"


@pytest.mark.parametrize(
    ("reasons", "fix"),
    [
        (
            [reason_of("cpu"), not_found("persistentvolumeclaim", "data")],
            "lower requests or create what is missing first",
        ),
        ([reason_of("cpu"), reason_of("memory")], "lower requests"),
        ([Reason("a reason that says: Insufficient cpu, not found")], ""),
    ],
)
def test_a_reason_knows_its_fix(reasons: list[Reason], fix: str) -> None:
    assert fix_of([(reason, 1) for reason in reasons]) == fix
    assert fix_of([(joined(reasons), 1)]) == fix


NO_POD = reasons.NO_VICTIMS_IN_SHORT
NO_VICTIMS = preemption.NO_VICTIMS.reasons[0]
UNKNOWN = "preemption does not help: no node fits the Pod even without Pods of lower priority"
NOT_EVEN_EMPTY = "preemption does not help: too small even when empty"
CORDONED = one_node.UNSCHEDULABLE_REASON.reasons[0]
SELECTOR, TAINT = (as_reason(each.reasons[0]) for each in (one_node.SELECTOR_REASON, one_node.TAINT_REASON))
NEVER = preemption.NEVER.short


@pytest.mark.parametrize(
    ("counts", "why", "short"),
    [
        ({reason_of("cpu"): 2}, preemption.NEVER, "2 nodes: insufficient cpu; preemptionPolicy is Never"),
        (
            {reason_of("cpu"): 1, reason_of("pods"): 2},
            FitError("raw", {NOT_HELPFUL: 2}),
            f"2 nodes: maximum number of Pods reached; 1 node: insufficient cpu; {NOT_EVEN_EMPTY}",
        ),
        (
            {reason_of("cpu"): 2},
            FitError("raw", {NOT_HELPFUL: 1, NO_VICTIMS: 1}),
            f"2 nodes: insufficient cpu; {NO_POD}",
        ),
        (
            {reason_of("cpu"): 2},
            FitError("raw", {NO_VICTIMS: 2}),
            f"2 nodes: insufficient cpu; {NO_POD}",
        ),
        (
            {reason_of("cpu"): 2, CORDONED: 1, reason_of("pods"): 1},
            FitError("raw", {NO_VICTIMS: 3, NOT_HELPFUL: 1}),
            f"2 nodes: insufficient cpu; 1 node: maximum number of Pods reached; 1 node: cordoned; {NO_POD}",
        ),
        (
            {reason_of("cpu"): 2, CORDONED: 1},
            FitError("raw", {NOT_HELPFUL: 3}),
            "2 nodes: too small even when empty: insufficient cpu; 1 node: cordoned",
        ),
        ({CORDONED: 2}, FitError("raw", {NOT_HELPFUL: 2}), "2 nodes: cordoned"),
        (
            {SELECTOR: 286, TAINT: 99, reason_of("nvidia.com/gpu"): 15},
            preemption.NEVER,
            f"15 nodes: insufficient nvidia.com/gpu; 286 nodes: {SELECTOR.short}; 99 nodes: {TAINT.short}; {NEVER}",
        ),
        ({reason_of("cpu"): 200}, FitError("raw"), f"200 nodes: insufficient cpu; {UNKNOWN}"),
        (
            {reason_of("cpu"): 2},
            FitError("raw", {reason_of("cpu"): 2}),
            "2 nodes: insufficient cpu even after preempting all Pods of lower priority",
        ),
        (
            {not_found("persistentvolumeclaim", "data"): 0},
            FitError("raw", {NOT_HELPFUL: 2}),
            'PersistentVolumeClaim "data" not found',
        ),
    ],
)
def test_a_message_of_kube_scheduler_is_told_in_short(counts: dict[str, int], why: str, short: str) -> None:
    message = FitError("0/3 nodes are available: …", counts, why)
    assert (message, message.short) == ("0/3 nodes are available: …", short)


@pytest.mark.parametrize(
    ("phrases", "text"),
    [
        (["a"], "a"),
        (["a", "b", "c"], "a; b; c"),
        (["a", "b", "c", "d"], "a and 3 more reasons"),
        (["a", "b" * 117], f"a; {'b' * 117}"),
        (["a", "b" * 118], "a and 1 more reason"),
        (["a" * 300], f"{'a' * 199}…"),
    ],
)
def test_a_line_has_a_few_short_reasons_or_the_first(phrases: list[str], text: str) -> None:
    assert join_phrases(phrases) == text
