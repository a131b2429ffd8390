"""The configuration of Kueue's manager, in a file beside the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.policies.kubernetes.objects.kueue import Configuration, Workload
from forewarn.policies.prediction.kueue.workload import with_adjusted_resources
from forewarn.policies.questions.application.predict import predict
from tests.policies.kueue.worlds import KUEUE, cluster, job, obj


def configuration(version: str = "v1beta2", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"config.kueue.x-k8s.io/{version}", "kind": "Configuration", **fields}


@pytest.mark.parametrize(
    ("made", "is_fair_sharing", "not_modelled"),
    [
        (configuration(), False, None),
        (configuration(fairSharing={}), True, None),
        (configuration("v1beta1", fairSharing={}), False, None),
        (configuration("v1beta1", fairSharing={"enable": True}), True, None),
        (configuration("v1beta1", waitForPodsReady={"enable": False}), False, None),
        (configuration(waitForPodsReady={"timeout": "5m"}), False, "WaitForPodsReady"),
        (configuration(featureGates={"PartialAdmission": False}), False, "Kueue's feature gate PartialAdmission"),
        (configuration(integrations={"frameworks": ["batch/job", "pod"]}), False, None),
        (configuration(integrations={"frameworks": ["pod"]}), False, "integrations without batch/job"),
        (configuration(admissionFairSharing={}), False, "admission fair sharing"),
    ],
)
def test_what_is_read(made: dict[str, Any], is_fair_sharing: bool, not_modelled: str | None) -> None:
    read = Configuration.from_api(made)
    assert (read.is_fair_sharing, read.not_modelled) == (is_fair_sharing, not_modelled)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"excludeResourcePrefixes": ["example.com/"]}, {"cpu": 1500, "memory": 2**30}),
        (
            {"transformations": [{"input": "example.com/mig", "strategy": "Replace", "outputs": {"gpu": "250m"}}]},
            {"cpu": 1500, "memory": 2**30, "gpu": 1},
        ),
        (
            {"transformations": [{"input": "cpu", "outputs": {"credits": "2"}, "multiplyBy": "example.com/mig"}]},
            {"cpu": 4500, "memory": 2**30, "example.com/mig": 3, "credits": 9},
        ),
    ],
)
def test_requests_are_transformed(resources: dict[str, Any], expected: dict[str, int]) -> None:
    requests = {"cpu": "1500m", "memory": "1Gi", "example.com/mig": "3"}
    spec = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    made = obj(KUEUE, "Workload", "w", "ml", spec={"podSets": [{"count": 1, "template": {"spec": spec}}]})
    read = Configuration.from_api(configuration(resources=resources))
    assert with_adjusted_resources(Workload.from_api(made), [], read).pod_sets[0].requests == expected


def test_what_is_not_modelled_is_named_in_the_answer() -> None:
    made = configuration(metadata={"name": "manager"}, waitForPodsReady={})
    result = predict(cluster(made), job("ml", "x", 1, "1"))
    assert "(WaitForPodsReady not modelled)" in result.document.clause
    assert "Kueue 0.19" in result.head.assumes
