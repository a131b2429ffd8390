"""What `kubectl apply` of a manifest makes of a stored workload."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.policies.objects.workload import applied_to


def workload(container: dict[str, Any] | None = None, pod: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", **container}] if container else []
    return {"spec": {**spec, "template": {"spec": {"containers": containers, **(pod or {})}}}}


def named(**values: Any) -> list[dict[str, Any]]:
    return [{"name": name, **value} for name, value in values.items()]


IMAGE = {"image": "i"}


@pytest.mark.parametrize(
    ("stored", "before", "given", "result"),
    [
        pytest.param({"replicas": 4}, {}, {}, {"replicas": 4}, id="a field of the cluster alone stays"),
        pytest.param({"replicas": 4}, {"replicas": 2}, {}, {}, id="a removed field is removed"),
        pytest.param({"replicas": 4}, {"replicas": 2}, {"replicas": None}, {}, id="null removes a field"),
        pytest.param({"cpu": "1000m"}, {}, {"cpu": 1}, {"cpu": "1000m"}, id="another notation is no change"),
        pytest.param({"a": [{"p": 1, "q": 2}]}, {}, {"a": [{"p": 1}]}, {"a": [{"p": 1, "q": 2}]}, id="defaults"),
        pytest.param({"a": [1, 2]}, {"a": [1]}, {"a": [3]}, {"a": [3]}, id="a list without names is replaced"),
        pytest.param(
            {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}},
            {},
            {"strategy": {"type": "Recreate"}},
            {"strategy": {"type": "Recreate"}},
            id="a strategy keeps only the keys of the manifest",
        ),
        pytest.param(
            {"volumes": named(v={"configMap": {"name": "x", "defaultMode": 420}}, w={"emptyDir": {}})},
            {"volumes": named(w={"emptyDir": {}})},
            {"volumes": named(v={"configMap": {"name": "y"}})},
            {"volumes": named(v={"configMap": {"name": "y", "defaultMode": 420}})},
            id="volumes by name",
        ),
        pytest.param(
            {"volumes": named(v={"configMap": {"name": "x"}})},
            {},
            {"volumes": named(v={"secret": {"secretName": "x"}})},
            {"volumes": named(v={"secret": {"secretName": "x"}})},
            id="another source of a volume",
        ),
        pytest.param(
            {"env": named(a={"value": "1"}, injected={"value": "2"})},
            {"env": named(a={"value": "1"})},
            {"env": named(b={"value": "3"})},
            {"env": named(injected={"value": "2"}, b={"value": "3"})},
            id="environment variables by name",
        ),
        pytest.param(
            {"env": [*named(a={"value": "1"}), {}]},
            {},
            {"env": []},
            {"env": []},
            id="an element without name",
        ),
    ],
)
def test_an_apply_merges_the_stored_object(
    stored: dict[str, Any], before: dict[str, Any], given: dict[str, Any], result: dict[str, Any]
) -> None:
    assert applied_to(workload(IMAGE, **stored), workload(IMAGE, **given), workload(IMAGE, **before)) == workload(
        IMAGE, **result
    )


@pytest.mark.parametrize(
    ("stored", "before", "given", "result"),
    [
        ({"ports": []}, IMAGE, IMAGE, {"ports": []}),
        ({"ports": []}, IMAGE, {"image": "j"}, {"ports": [], "image": "j"}),
        ({"image": "j"}, IMAGE, IMAGE, IMAGE),
        ({"image": "j"}, {**IMAGE, "command": ["x"]}, {**IMAGE, "command": ["x"]}, {**IMAGE, "command": ["x"]}),
    ],
)
def test_what_a_redacted_snapshot_lacks_changes_only_with_the_manifests(
    stored: dict[str, Any], before: dict[str, Any], given: dict[str, Any], result: dict[str, Any]
) -> None:
    assert applied_to(workload(stored), workload(given), workload(before)) == workload(result)


def test_containers_of_the_cluster_alone_stay_unless_the_previous_manifest_is_unknown() -> None:
    given, stored = ({"initContainers": named(**dict.fromkeys(names, IMAGE))} for names in (["a"], ["injected", "a"]))
    for before, pod in ((workload(IMAGE), stored), ({}, given)):
        assert applied_to(workload(IMAGE, stored), workload(IMAGE, given), before) == workload(IMAGE, pod)
