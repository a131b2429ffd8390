"""What the audit log is told of objects that take the global default while there are two."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.webhook.admission.review import Hook
from tests.webhook.builders import cluster, decided, deployment, namespace, pod, priority_class, review

TWO = (priority_class("high", 20, globalDefault=True), priority_class("low", 10, globalDefault=True))
SAID = "high, low are all marked as the global default; low, with the lowest value, takes effect"


def told(obj: dict[str, Any], *more: dict[str, Any], operation: str = "CREATE", hook: Hook = Hook.VALIDATE) -> str:
    """The audit annotation; empty where there is none."""
    given = review(obj, operation, oldObject=obj if operation == "UPDATE" else None)
    decision = decided(hook, given, state=cluster(*(more or TWO)))
    assert decision.response.warnings == ()
    return decision.response.audit.get("multiple-global-defaults", "")


def without_class(**metadata: Any) -> dict[str, Any]:
    """A Deployment whose template names no class."""
    obj = deployment("")
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


@pytest.mark.parametrize(
    "obj",
    [pod(), pod("low", 10), without_class(), deployment("") | {"kind": "Job", "apiVersion": "batch/v1"}],
    ids=["a pod", "a pod that the API server gave the default", "a Deployment", "a Job"],
)
def test_what_takes_the_global_default_while_there_are_two_is_in_the_audit_log(obj: dict[str, Any]) -> None:
    assert told(obj) == SAID
    assert told(obj, TWO[1]) == ""
    assert told(obj, hook=Hook.MUTATE) == ""


def test_new_pods_of_an_updated_workload_take_it_too() -> None:
    assert told(without_class(), operation="UPDATE") == SAID
    assert told(pod("low", 10), operation="UPDATE") == ""


@pytest.mark.parametrize(
    "obj",
    [pod("gold", 1000), pod("high", 20), deployment("gold"), deployment("low"), namespace("team"), TWO[1]],
    ids=["a pod", "by the other", "a Deployment", "which names the default", "a Namespace", "a class"],
)
def test_what_names_its_class_is_not(obj: dict[str, Any]) -> None:
    state = {"operation": "UPDATE"} if obj["kind"] == "PriorityClass" else {}
    assert told(obj, **state) == ""  # type: ignore[arg-type]


def test_the_default_of_a_namespace_is_another_one() -> None:
    assert told(without_class(namespace="batch")) == ""
    assert told(without_class(namespace="odd")) == SAID  # there is no such class
