"""The requests of stored Pods, also during a resize in place, equal those of the reference scheduler."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.objects.pod_resources import Counting, read_pod_resources
from tests.policies.scheduling.reference.resources import Options, pod_requests

AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi"]),
    st.sampled_from(["0", "1", "2", "1500m", "3Gi", "250M"]),
    max_size=3,
)
POD_LEVEL = AMOUNTS.map(lambda amounts: {n: q for n, q in amounts.items() if n in ("cpu", "memory", "hugepages-2Mi")})
REPORTED = st.fixed_dictionaries(
    {}, optional={"resources": st.fixed_dictionaries({}, optional={"requests": AMOUNTS}), "allocatedResources": AMOUNTS}
)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {"overhead": draw(AMOUNTS), "resources": {"requests": draw(POD_LEVEL)}}
    status: dict[str, Any] = draw(REPORTED)
    for kind, statuses in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        amounts = draw(st.lists(AMOUNTS, max_size=3))
        spec[kind] = [{"name": f"{kind}-{n}", "resources": {"requests": each}} for n, each in enumerate(amounts)]
        status[statuses] = [{"name": container["name"], **draw(REPORTED)} for container in spec[kind]]
    for container in spec["initContainers"]:
        container |= {"restartPolicy": "Always"} if draw(st.booleans()) else {}
    if draw(st.booleans()):
        status["conditions"] = [{"type": "PodResizePending", "reason": "Infeasible"}]
    return {"metadata": {"name": "p", "namespace": "team"}, "spec": spec, "status": status}


@given(pods(), st.booleans(), st.booleans(), st.booleans())
def test_requests_equal_those_of_the_reference(pod: dict[str, Any], status: bool, level: bool, skip: bool) -> None:
    total = read_pod_resources(pod).total_requests(
        use_status=status, counting=Counting(pod_level=level), skip_pod_level=skip
    )
    expected = pod_requests(pod, Options(use_status=status, resize_pod_level=level, skip_pod_level=skip))
    assert {name: quantity.nano for name, quantity in total.items()} == {n: q * 10**9 for n, q in expected.items()}


@pytest.mark.parametrize("part", ["resources", "allocatedResources"])
def test_negative_requests_are_invalid_for_the_scheduler(part: str) -> None:
    amounts: dict[str, Any] = {"requests": {"cpu": "-1"}} if part == "resources" else {"cpu": "-1"}
    container = {"name": "app", "resources": {"requests": {"cpu": "-1"}}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    with pytest.raises(InvalidObject, match=r"spec\.containers\[0\]\.resources\.requests\.cpu: -1 is negative"):
        Pod.from_api(pod)
    status = {"containerStatuses": [{"name": "app", "resources": {}, part: amounts}]}
    with pytest.raises(InvalidObject, match=r"status\.containerStatuses\[0\]\..*cpu: -1 is negative"):
        Pod.from_api({**pod, "spec": {"containers": [{"name": "app"}]}, "status": status})
    assert str(read_pod_resources(pod).containers[0].requests["cpu"]) == "-1"
