"""What people see of forewarn: kubectl's own output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.objects import container, deployment, node, pod, priority_class, running
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane, Told
    from tests.e2e.staging import Stage
    from tests.e2e.webhook import Webhook

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("classes")]


@pytest.fixture
def apply(plane: ControlPlane, webhook: Webhook) -> Iterator[Apply]:
    made = Apply(plane)
    yield made
    made.undo()


class Apply:
    """kubectl apply, undone at the end of the test."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.applied: list[Obj] = []

    def __call__(self, obj: Obj, *flags: str) -> Told:
        if "--dry-run=server" not in flags:
            self.applied.append(obj)
        return self.plane.kubectl("apply", "-f", "-", *flags, stdin=json.dumps(obj))

    def undo(self) -> None:
        for obj in self.applied:
            kind, name = obj["kind"], obj["metadata"]["name"]
            self.plane.kubectl("delete", kind, name, "--ignore-not-found", "--now", "--wait=false")


UNKNOWN = (
    'Warning: PriorityClass "missing" not found; Pods will be rejected until it exists. '
    'Fix: create it, or use "high" or "usual" [unknown-priority-class]\n'
)


def test_a_deployment_of_a_missing_class_is_created_with_a_warning(apply: Apply) -> None:
    assert apply(deployment("shop", "missing")) == (0, "deployment.apps/shop created\n", UNKNOWN)


def test_so_is_its_dry_run_on_the_server(apply: Apply) -> None:
    told = apply(deployment("shop", "missing"), "--dry-run=server")
    assert told == (0, "deployment.apps/shop created (server dry run)\n", UNKNOWN)


def test_scaling_it_warns_likewise(apply: Apply, webhook: Webhook, api: Api) -> None:
    apply(deployment("shop", "missing"))
    webhook.catch_up(api)
    told = apply.plane.kubectl("scale", "deployment/shop", "--replicas=3")
    assert told == (0, "deployment.apps/shop scaled\n", UNKNOWN)


def test_a_harmless_deployment_is_applied_scaled_and_applied_again_in_silence(
    apply: Apply, webhook: Webhook, api: Api
) -> None:
    assert apply(deployment("calm", "high")) == (0, "deployment.apps/calm created\n", "")
    webhook.catch_up(api)
    assert apply.plane.kubectl("scale", "deployment/calm", "--replicas=2").err == ""
    assert apply(deployment("calm", "high"), "--dry-run=server").err == ""
    assert apply(deployment("calm", "high")).err == ""


@pytest.fixture
def full(stage: Stage, webhook: Webhook, api: Api) -> Iterator[None]:
    """One node, most of which a pod of the default class holds."""
    stage.put({"namespaces": [], "nodes": [node("n1", cpu="2")], "pods": [running("report", "n1", cpu="1500m")]})
    webhook.catch_up(api)
    yield
    stage.clear()


PREEMPTS = (
    "Warning: would preempt 1 Pod on n1: default/report (priority 10, not recreated, 3600s grace). "
    "Fix: lower requests or priority [preempts-running-pods]\n"
)
IMPACT_KEY = "validate.forewarn.dev/preemption-impact"
IMPACT = {
    "cascade": {"notReplaced": 1},
    "newPods": 1,
    "predicted": 1,
    "preemptions": [{"node": "n1", "pdbViolations": 0, "victims": ["default/report"]}],
    "priority": 1000,
}


def test_a_deployment_that_would_preempt_is_warned_of(apply: Apply, full: None) -> None:
    web = deployment("web", "high", cpu="1")
    assert apply(web, "--dry-run=server") == (0, "deployment.apps/web created (server dry run)\n", PREEMPTS)
    assert apply(web) == (0, "deployment.apps/web created\n", PREEMPTS)
    wait_until(lambda: apply.plane.audited("deployments", "web", IMPACT_KEY), 5, "the audit log has the request")
    assert {
        json.loads(text)["preemptions"][0]["node"] for text in apply.plane.audited("deployments", "web", IMPACT_KEY)
    } == {"n1"}


def test_a_pod_that_would_preempt_is_warned_of_and_annotated(apply: Apply, api: Api, full: None) -> None:
    told = apply(pod("web", priorityClassName="high", containers=[container("1")]), "--dry-run=server", "-o", "json")
    assert told.err == PREEMPTS
    annotations = json.loads(told.out)["metadata"]["annotations"]
    assert json.loads(annotations["forewarn.dev/preemption-impact"]) == IMPACT


def test_so_is_one_that_is_scaled_until_it_would(apply: Apply, webhook: Webhook, api: Api, full: None) -> None:
    apply(deployment("web", "high", replicas=0, cpu="1"))
    webhook.catch_up(api)
    told = apply.plane.kubectl("scale", "deployment/web", "--replicas=1")
    assert told == (0, "deployment.apps/web scaled\n", PREEMPTS)


def test_one_that_has_room_beside_it_is_not(apply: Apply, api: Api, full: None) -> None:
    assert apply(deployment("web", "high", cpu="400m")) == (0, "deployment.apps/web created\n", "")


def test_a_value_over_the_limit_is_refused_by_the_api_server(apply: Apply) -> None:
    text = (
        'The PriorityClass "huge" is invalid: value: Forbidden: '
        "maximum allowed value of a user defined priority is 1000000000\n"
    )
    assert apply(priority_class("huge", 1_000_000_001)) == (1, "", text)


def test_a_system_name_is_refused_by_the_api_server(apply: Apply) -> None:
    text = (
        'The PriorityClass "system-mine" is invalid: metadata.name: Forbidden: priority class names with '
        "'system-' prefix are reserved for system use only. error: system-mine is not a known system priority class\n"
    )
    assert apply(priority_class("system-mine", 5)) == (1, "", text)


def test_a_second_default_is_refused_by_the_api_server(apply: Apply) -> None:
    told = apply(priority_class("second", 5, globalDefault=True))
    text = (
        'Error from server (Forbidden): error when creating "STDIN": priorityclasses.scheduling.k8s.io "second" is '
        "forbidden: PriorityClass usual is already marked as default. Only one default can exist\n"
    )
    assert told == (1, "", text)


def test_a_changed_value_is_refused_by_the_api_server(apply: Apply) -> None:
    assert apply(priority_class("changing", 5)).status == 0
    text = 'The PriorityClass "changing" is invalid: value: Forbidden: may not be changed in an update.\n'
    assert apply(priority_class("changing", 6)) == (1, "", text)


def test_a_pod_of_a_missing_class_is_refused_by_the_api_server(apply: Apply) -> None:
    told = apply(pod("lost", priorityClassName="missing"))
    text = (
        'Error from server (Forbidden): error when creating "STDIN": pods "lost" is forbidden: '
        "no PriorityClass with name missing was found\n"
    )
    assert told == (1, "", text)


def test_the_first_manifest_of_the_installation_page_gives_a_warning(apply: Apply) -> None:
    told = apply.plane.kubectl("apply", "--dry-run=server", "-f", "docs/examples/hello.yaml")
    assert told.status == 0
    assert told.err.startswith(
        'Warning: PriorityClass "no-such-class" not found; Pods will be rejected until it exists'
    )
