"""Only `/mutate` writes forewarn.dev/preemption-impact: what anybody else writes there does not stay. Over HTTP."""

from __future__ import annotations

import json
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.policies.kubernetes.objects.patches import PatchOperation, apply_patch, set_value
from forewarn.policies.linting.config.load import read_config
from forewarn.webhook.admission.impact_annotation import ANNOTATION, PATH, ReinvocationCache
from tests.cases import cases
from tests.webhook.builders import body, cluster, deployment, endpoint, patch_of, pod
from tests.webhook.running import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.webhook.running import Running

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node-1"},
    "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}},
}
STATE = cluster(NODE)
VERSIONS = count()
FORGED, STORED = '{"preemptions":[]}', '{"newPods":1,"pending":1,"predicted":1,"priority":1000}'


def asking(kind: str, cpu: str, replicas: int = 1) -> dict[str, Any]:
    obj = pod("gold", 1000) if kind == "Pod" else deployment()
    spec = obj["spec"]["template"]["spec"] if kind != "Pod" else obj["spec"]
    spec["containers"] = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    if kind != "Pod":
        obj["spec"]["replicas"] = replicas
    return obj


def carrying(obj: dict[str, Any], text: str | None) -> dict[str, Any]:
    return obj if text is None else apply_patch(obj, [set_value(obj, PATH, text)])


@pytest.fixture(scope="module")
def serving() -> Iterator[Running]:
    with running(endpoint(lambda: STATE, memory=ReinvocationCache(monotonic))) as server:
        yield server


def stored(server: Running, obj: dict[str, Any], old: dict[str, Any] | None = None, **request: Any) -> dict[str, Any]:
    """The object as the API server would store it: without maps that are empty."""
    operation = "UPDATE" if old else "CREATE"
    status, _, answer = server.post("/mutate", body(obj, operation, **{"oldObject": old, **request}))
    assert status == 200
    patched = apply_patch(obj, [_operation(op) for op in patch_of(answer)])
    return {**patched, "metadata": {key: value for key, value in patched["metadata"].items() if value != {}}}


def _operation(told: dict[str, Any]) -> PatchOperation:
    path = tuple(step.replace("~1", "/").replace("~0", "~") for step in told["path"].split("/")[1:])
    return PatchOperation(told["op"], path, told.get("value"))


def impact(obj: dict[str, Any]) -> Any:
    return (obj["metadata"].get("annotations") or {}).get(ANNOTATION)


@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_a_new_object_has_no_impact_but_the_one_that_was_worked_out(serving: Running, kind: str) -> None:
    assert impact(stored(serving, carrying(asking(kind, "0"), FORGED))) is None
    assert json.loads(impact(stored(serving, carrying(asking(kind, "9"), FORGED))))["pending"] == 1
    nothing_comes = carrying(asking("Deployment", "9", replicas=0), FORGED)
    assert impact(stored(serving, nothing_comes)) is None


@pytest.mark.parametrize("given", [FORGED, None, "", STORED], ids=["forged", "taken away", "emptied", "kept"])
@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_where_nothing_new_comes_the_stored_impact_stays(serving: Running, kind: str, given: str | None) -> None:
    obj = asking(kind, "9", replicas=0)
    assert impact(stored(serving, carrying(obj, given), carrying(obj, STORED))) == STORED
    assert impact(stored(serving, carrying(obj, FORGED), obj)) is None


def test_what_new_pods_come_to_is_written_over_what_was_forged(serving: Running) -> None:
    old, new = asking("Deployment", "9", replicas=0), asking("Deployment", "9", replicas=1)
    assert json.loads(impact(stored(serving, carrying(new, FORGED), carrying(old, STORED))))["pending"] == 1
    assert impact(stored(serving, carrying(asking("Deployment", "0"), FORGED), carrying(old, STORED))) is None


def test_without_cluster_state_nothing_is_worked_out_and_nothing_forged_stays() -> None:
    with running(endpoint(lambda: None)) as server:
        obj = asking("Deployment", "9")
        assert impact(stored(server, carrying(obj, FORGED))) is None
        assert impact(stored(server, carrying(obj, FORGED), carrying(obj, STORED))) == STORED


@pytest.mark.parametrize("annotate", ["off", "pods"])
def test_where_the_kind_is_not_annotated_an_impact_can_be_taken_away_but_not_written(annotate: str) -> None:
    config = read_config(f"annotate: {annotate}", "c")
    with running(endpoint(lambda: STATE, lambda: config)) as server:
        obj = asking("Deployment", "9", replicas=1)
        assert impact(stored(server, carrying(obj, FORGED))) is None
        assert impact(stored(server, carrying(obj, FORGED), carrying(obj, STORED))) == STORED
        assert impact(stored(server, carrying(obj, STORED), carrying(obj, STORED))) == STORED
        assert impact(stored(server, obj, carrying(obj, STORED))) is None


def test_a_subresource_is_not_patched(serving: Running) -> None:
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "team"}}
    scale = carrying({**scale, "spec": {"replicas": 1}}, FORGED)
    assert stored(serving, scale, scale, subResource="scale") == scale


@given(
    cpus=st.lists(st.sampled_from(["0", "9"]), min_size=1, max_size=4),
    forged=st.lists(st.sampled_from([None, "", FORGED, "no JSON"]), min_size=4, max_size=4),
    replicas=st.lists(st.integers(0, 2), min_size=4, max_size=4),
)
@settings(max_examples=cases(30), deadline=None)
def test_whatever_is_applied_in_a_row_nothing_but_our_text_is_stored_and_an_apply_repeated_changes_nothing(
    serving: Running, cpus: list[str], forged: list[str | None], replicas: list[int]
) -> None:
    """As server-side apply has it: what the manifest does not name stays as it is stored."""
    before: dict[str, Any] | None = None
    for cpu, text, number in zip(cpus, forged, replicas, strict=False):
        manifest = asking("Deployment", cpu, number)
        applied = carrying(manifest, impact(before) if before and text is None else text)
        after = stored(serving, applied, before)
        assert impact(after) not in ("", FORGED, "no JSON")
        assert impact(stored(serving, after, before)) == impact(after)  # called once more in the same admission
        before = {**after, "metadata": {**after["metadata"], "resourceVersion": str(next(VERSIONS))}}
        again = carrying(manifest, impact(after) if text is None else text)
        assert impact(stored(serving, again, before)) == impact(after)


def test_a_stored_impact_that_is_no_unicode_is_no_internal_error(serving: Running) -> None:
    obj = asking("Deployment", "9", replicas=0)
    assert impact(stored(serving, carrying(obj, FORGED), carrying(obj, "\ud800"))) == "\ud800"
