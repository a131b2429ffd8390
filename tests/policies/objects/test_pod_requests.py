"""A pod's requests are read twice, for the scheduler and for quotas: for pods that no resize changes they agree."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.kube_apiserver.validation import resources as pod_resources
from forewarn.policies.kubernetes.objects import pod as pod_spec

AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "example.com/gpu"]),
    st.sampled_from(["0", "1", "2", "1500m", "3Gi", "250M"]),
    max_size=3,
)


@st.composite
def containers(draw: st.DrawFn, init: bool) -> dict[str, Any]:
    limits, requests = draw(AMOUNTS), draw(AMOUNTS)
    sidecar = {"restartPolicy": "Always"} if init and draw(st.booleans()) else {}
    return {**sidecar, "resources": {"limits": limits, "requests": requests}}


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "containers": draw(st.lists(containers(init=False), min_size=1, max_size=3)),
        "initContainers": draw(st.lists(containers(init=True), max_size=3)),
        "overhead": draw(AMOUNTS),
    }
    for key in ("containers", "initContainers"):
        for number, container in enumerate(spec[key]):
            container["name"] = f"{key}-{number}"
    if draw(st.booleans()):
        amounts = draw(AMOUNTS)
        spec["resources"] = {"requests": {n: q for n, q in amounts.items() if n in ("cpu", "memory")}}
    return {"metadata": {"name": "p", "namespace": "team"}, "spec": spec}


@given(pods())
def test_both_readings_of_a_pod_s_requests_come_to_the_same(pod: dict[str, Any]) -> None:
    for_the_scheduler = pod_spec.pod_requests(pod).total(use_status=True)
    for_quotas = pod_resources.pod_requests(pod_resources.read_pod_resources(pod))
    assert {name: amount for name, amount in for_the_scheduler.items() if amount} == {
        name: quantity.nano for name, quantity in for_quotas.items() if quantity.nano
    }
