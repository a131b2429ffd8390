"""What `/mutate` patches, and what comes of it in the API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.kube_apiserver.priority import admit_pod
from forewarn.policies.kubernetes.objects.patches import apply_patch
from forewarn.policies.linting.config.load import read_config
from forewarn.webhook.admission.decision import Verdict
from forewarn.webhook.admission.review import Hook
from tests.webhook.builders import cluster, decided, deployment, namespace, pod, priority_class, review

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

DEFAULT = priority_class("usual", 10, globalDefault=True)


def mutated(obj: dict[str, Any], *more: dict[str, Any], **request: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The operations of the patch, and the pod with them applied."""
    decision = decided(Hook.MUTATE, review(obj, **request), state=cluster(*more))
    assert decision.response.allowed
    patch = decision.response.patch
    return [operation.to_json() for operation in patch], apply_patch(obj, patch)


def test_a_class_is_assigned_by_the_one_patch_that_works() -> None:
    operations, _ = mutated(pod(priority=0), namespace="batch")
    assert operations == [
        {"op": "add", "path": "/spec/priorityClassName", "value": "batch-low"},
        {"op": "remove", "path": "/spec/priority"},
        {"op": "remove", "path": "/spec/preemptionPolicy"},
    ]


def test_the_plugin_accepts_the_patched_pod_and_asking_again_changes_nothing() -> None:
    state = cluster()
    _, patched = mutated(pod(priority=0), namespace="batch")
    resolved = admit_pod(patched["spec"], state.priority_classes)
    patched["spec"] |= {"priority": resolved.priority, "preemptionPolicy": resolved.preemption_policy}
    assert (resolved.priority, resolved.preemption_policy) == (-5, "Never")
    assert mutated(patched, namespace="batch")[0] == []
    again = decided(Hook.MUTATE, review(patched, namespace="batch"))
    assert again.response.audit == {}
    assert decided(Hook.VALIDATE, review(patched, namespace="batch")).verdict is Verdict.ALLOWED


def test_the_global_default_gives_way_because_it_looks_like_asking_for_nothing() -> None:
    operations, patched = mutated(pod("usual", 10), DEFAULT, namespace="batch")
    assert operations[0] == {"op": "replace", "path": "/spec/priorityClassName", "value": "batch-low"}
    assert "priority" not in patched["spec"]


def test_a_class_that_the_pod_asks_for_stays() -> None:
    assert mutated(pod("gold", 1000), DEFAULT, namespace="batch")[0] == []


def test_the_audit_log_says_which_class_was_assigned() -> None:
    decision = decided(Hook.MUTATE, review(pod(priority=0), namespace="batch"))
    assert decision.response.audit == {"assigned-priority-class": "batch-low, the default of namespace batch"}


@given(
    default=st.sampled_from(["", "batch-low", "gold", "usual", "missing"]),
    in_namespace=st.sampled_from(["elsewhere", "kube-system"]),
    class_name=st.sampled_from([None, "batch-low", "gold", "usual"]),
    globally=st.booleans(),
)
def test_rules_and_predictions_know_the_priority_that_comes_of_it(
    default: str, in_namespace: str, class_name: str | None, globally: bool
) -> None:
    state = cluster(namespace(in_namespace, default_priority_class=default), {**DEFAULT, "globalDefault": globally})
    written = pod(class_name, namespace=in_namespace)
    stored = plugin(plugin(written, state), state, mutating=True)
    assert predict(state, written).pod.priority == stored["spec"]["priority"]


def plugin(obj: dict[str, Any], state: ClusterSnapshot, *, mutating: bool = False) -> dict[str, Any]:
    """The pod after the Priority plugin, which comes once before the webhook, and once more after it."""
    if mutating:
        given = review(obj, namespace=obj["metadata"]["namespace"])
        obj = apply_patch(obj, decided(Hook.MUTATE, given, state=state).response.patch)
    resolved = admit_pod(obj["spec"], state.priority_classes)
    filled = {"priorityClassName": resolved.priority_class_name, "priority": resolved.priority}
    return {**obj, "spec": {**obj["spec"], **filled, "preemptionPolicy": resolved.preemption_policy}}


@pytest.mark.parametrize(
    ("action", "warned", "audited", "found"),
    [
        ("off", 0, set(), 0),
        ("audit", 0, {"unknown-default-class"}, 1),
        ("warn", 1, {"unknown-default-class"}, 1),
        ("deny", 1, {"unknown-default-class"}, 1),
    ],
)
def test_a_default_class_that_is_missing_is_told_as_configured_and_never_denies(
    action: str, warned: int, audited: set[str], found: int
) -> None:
    """The fault is the namespace's, not the pod's."""
    config = read_config(f"actions: {{unknown-default-class: '{action}'}}", "c")
    decision = decided(Hook.MUTATE, review(pod(priority=0), namespace="odd"), config=config)
    assert decision.response.allowed
    assert len(decision.response.warnings) == warned
    assert set(decision.response.audit) == audited
    assert [finding.rule for finding in decision.findings] == ["unknown-default-class"] * found


def test_kube_system_is_left_alone() -> None:
    system = namespace("kube-system", default_priority_class="batch-low")
    assert mutated(pod(priority=0), system, namespace="kube-system")[0] == []


def test_where_the_plugin_has_not_run_everything_is_filled_in() -> None:
    assert mutated(pod("gold"))[1]["spec"] == {
        **pod("gold")["spec"],
        "priority": 1000,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    assert mutated(pod(), DEFAULT)[1]["spec"]["priorityClassName"] == "usual"
    assert mutated(pod())[1]["spec"] == {**pod()["spec"], "priority": 0, "preemptionPolicy": "PreemptLowerPriority"}
    filled = mutated(pod(), namespace="batch")[1]["spec"]
    assert (filled["priorityClassName"], filled["priority"], filled["preemptionPolicy"]) == ("batch-low", -5, "Never")


def test_filling_in_keeps_what_is_there() -> None:
    given = pod("gold")
    given["spec"]["preemptionPolicy"] = "Never"
    assert mutated(given)[1]["spec"]["preemptionPolicy"] == "Never"
    assert mutated(pod("gold", 7))[0] == []


def test_an_unknown_class_is_left_to_validation() -> None:
    assert mutated(pod("nothing"))[0] == []


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
def test_only_new_pods_are_patched(operation: str) -> None:
    assert mutated(pod(priority=0), namespace="batch", operation=operation)[0] == []


def test_workloads_are_never_patched() -> None:
    assert mutated(deployment(""), namespace="batch")[0] == []


def test_a_pod_without_a_spec_gets_one() -> None:
    bare = {key: value for key, value in pod().items() if key != "spec"}
    operations, _ = mutated(bare, namespace="batch")
    values = {"priorityClassName": "batch-low", "priority": -5, "preemptionPolicy": "Never"}
    assert operations == [{"op": "add", "path": "/spec", "value": values}]


@pytest.mark.parametrize(
    ("given", "verdict"), [(0, Verdict.ALLOWED), (7, Verdict.DENIED), (None, Verdict.DENIED)], ids=str
)
def test_an_api_server_that_has_not_heard_of_a_new_default_is_no_mismatch(given: int | None, verdict: Verdict) -> None:
    """Its own plugin gave the pod no class and 0, as it would have a moment ago."""
    assert decided(Hook.VALIDATE, review(pod(None, given)), state=cluster(DEFAULT)).verdict is verdict
