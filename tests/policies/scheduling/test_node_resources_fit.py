"""NodeResourcesFit: what a pod requests, and what a node has left."""

from typing import Any

import pytest

from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.objects.resources import Resource, is_scalar_resource_name
from tests.builders import MadePod, ask, make_node, make_pod, reasons


def container(name: str, cpu: str, *, sidecar: bool = False) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "resources": {"requests": {"cpu": cpu}}}
    return {**made, "restartPolicy": "Always"} if sidecar else made


def limited(name: str, limits: dict[str, str]) -> MadePod:
    pod = make_pod(name)
    pod.container["resources"]["limits"] = limits
    return pod


@pytest.mark.parametrize(
    ("pod", "milli_cpu"),
    [
        (make_pod("sum").request(cpu="100m"), 100),
        (make_pod("init is larger").request(cpu="1").spec(initContainers=[container("i", "3")]), 3000),
        (make_pod("init is smaller").request(cpu="1").spec(initContainers=[container("i", "500m")]), 1000),
        (make_pod("sidecar adds").request(cpu="1").spec(initContainers=[container("s", "1", sidecar=True)]), 2000),
        (
            make_pod("init after sidecar")
            .request(cpu="1")
            .spec(initContainers=[container("s", "1", sidecar=True), container("i", "2")]),
            3000,
        ),
        (
            make_pod("init before sidecar")
            .request(cpu="1")
            .spec(initContainers=[container("i", "2"), container("s", "1", sidecar=True)]),
            2000,
        ),
        (make_pod("overhead").request(cpu="1").spec(overhead={"cpu": "250m"}), 1250),
        (make_pod("pod level").request(cpu="1").spec(resources={"requests": {"cpu": "3"}}), 3000),
        (make_pod("pod level of another").request(cpu="1").spec(resources={"requests": {"memory": "1Gi"}}), 1000),
        (limited("limits stand in", {"cpu": "2"}), 2000),
        (limited("limits do not replace", {"cpu": "2"}).request(cpu="1"), 1000),
        (make_pod("pod limits").spec(resources={"limits": {"cpu": "3"}}), 3000),
        (make_pod("containers first").request(cpu="1").spec(resources={"limits": {"cpu": "3"}}), 1000),
        (make_pod("each rounded as stored").request(cpu="100u").spec(overhead={"cpu": "100u"}), 2),
    ],
    ids=lambda value: value.obj["metadata"]["name"] if isinstance(value, MadePod) else "",
)
def test_requests_add_up_as_the_kubelet_needs_them(pod: MadePod, milli_cpu: int) -> None:
    assert Pod.from_api(pod.obj).spec.request.milli_cpu == milli_cpu


RESIZED = {"name": "c", "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "3"}}
INFEASIBLE = {"type": "PodResizePending", "reason": "Infeasible"}


@pytest.mark.parametrize(
    ("status", "milli_cpu"),
    [
        ({}, 4000),
        ({"containerStatuses": [RESIZED]}, 4000),
        ({"containerStatuses": [RESIZED], "conditions": [INFEASIBLE]}, 3000),
        ({"containerStatuses": [RESIZED], "conditions": [{**INFEASIBLE, "reason": "Deferred"}, INFEASIBLE]}, 4000),
        ({"containerStatuses": [{**RESIZED, "name": "other"}], "conditions": [INFEASIBLE]}, 4000),
    ],
)
def test_a_resize_in_place_counts_the_most_of_what_may_be_used(status: dict[str, Any], milli_cpu: int) -> None:
    pod = make_pod("p").request(cpu="4").on("n1").status(**status)
    view = Pod.from_api(pod.obj)
    assert view.occupies.resource.milli_cpu == milli_cpu
    assert view.spec.request.milli_cpu == 4000, "an incoming pod's status plays no part"


@pytest.mark.parametrize(
    ("name", "scalar"),
    [
        ("example.com/gpu", True),
        ("hugepages-2Mi", True),
        ("attachable-volumes-aws-ebs", True),
        ("batch.kubernetes.io/slots", True),
        ("gpu", False),
        ("requests.example.com/gpu", False),
        ("storage", False),
    ],
)
def test_only_some_names_are_resources_to_the_scheduler(name: str, scalar: bool) -> None:
    assert is_scalar_resource_name(name) is scalar


NODE = make_node("n1").has(cpu="4", memory="8Gi", pods="3").has_of("example.com/gpu", "2")
LOAD = make_pod("load").request(cpu="3", memory="6Gi").request_of("example.com/gpu", "1").on("n1")


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (make_pod("p").request(cpu="1"), None),
        (make_pod("p").request(cpu="1001m"), "Insufficient cpu"),
        (make_pod("p").request(cpu="5"), "!Insufficient cpu"),
        (make_pod("p").request(memory="3Gi", cpu="2"), "Insufficient cpu, Insufficient memory"),
        (make_pod("p").request(memory="9Gi", cpu="2"), "!Insufficient cpu, Insufficient memory"),
        (make_pod("p").request_of("example.com/gpu", "2"), "Insufficient example.com/gpu"),
        (make_pod("p").request_of("example.com/fpga", "1"), "!Insufficient example.com/fpga"),
        (make_pod("p").request_of("example.com/fpga", "0"), None),
        (make_pod("p").request_of("fpga", "1"), None),
        (make_pod("p").request(ephemeral_storage="11Gi"), "!Insufficient ephemeral-storage"),
    ],
)
def test_all_that_is_lacking_is_named(pod: MadePod, reason: str | None) -> None:
    assert reasons(ask(pod, NODE, LOAD)).get("n1") == reason


def test_a_request_of_zero_fits_on_an_overcommitted_node() -> None:
    load = make_pod("more").request(cpu="9").on("n1")
    assert ask(make_pod("p").request(cpu="0", memory="1Mi"), NODE, LOAD, load).fits


def test_the_number_of_pods_is_always_worth_a_preemption() -> None:
    assert reasons(ask(make_pod("p"), make_node("n1").has(pods="0"))) == {"n1": "Too many pods"}


def test_views_of_equal_specs_are_one_object() -> None:
    first, second = (Pod.from_api(make_pod(name).request(cpu="1").labels(app="web").obj) for name in "ab")
    assert first.spec is second.spec
    assert first.labels is second.labels
    assert first.occupies.resource == Resource(milli_cpu=1000)
