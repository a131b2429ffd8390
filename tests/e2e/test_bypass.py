"""What a tenant sends to get past a rule that denies, or to take a replica down: neither works on a real API server."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.api import path_of
from tests.e2e.objects import container, deployment, node, pod, priority_class, running
from tests.e2e.webhook import Webhook, resident

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.api import Answer, Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation
    from tests.e2e.staging import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("classes")]

CONFIGURATION = """\
actions: {class-not-allowed: deny, violates-expectation: deny}
allowedClasses:
- {namespaces: [somebody-elses], classes: [high]}
expectations:
- name: nothing preempts the ledger
  expect:
    noPreemption: {namespace: default}
"""
ESCAPED = 1_250_000
"""Characters that the API server writes as six bytes each, in an object that etcd still takes."""
EMPTY_TERMS = 450_000
AT_ONCE = 6
STORED = 5
TOLERATIONS = 501
MAX_MEGABYTES = 600
"""Of one replica, whatever is sent to it; the manifests' limit is 1 GiB."""


@pytest.fixture(scope="module")
def webhook(plane: ControlPlane, installed: Installation, api: Api) -> Iterator[Webhook]:
    """As it is shipped: where a call fails, the API server admits the object."""
    config = plane.home / "bypass.yaml"
    config.write_text(CONFIGURATION)
    made = Webhook(plane, installed, flags=("--drain", "0", "--config", str(config)))
    try:
        made.begin(api)
        yield made
    finally:
        made.end(api)


def padded(obj: Obj, text: str) -> Obj:
    """The object with an environment variable of this value."""
    spec = obj["spec"].get("template", obj)["spec"]
    spec["containers"][0]["env"] = [{"name": "A", "value": text}]
    return obj


def template_of(class_name: str) -> Obj:
    return deployment("padded", class_name, replicas=0)


PADDED: dict[str, Callable[[], Obj]] = {
    "Pod": lambda: padded(pod("padded", priorityClassName="high"), "<" * ESCAPED),
    "Deployment": lambda: padded(template_of("high"), "&" * ESCAPED),
}


@pytest.mark.parametrize("kind", PADDED)
def test_an_object_that_the_api_server_writes_at_six_times_its_size_is_denied(
    kind: str, webhook: Webhook, api: Api
) -> None:
    obj = PADDED[kind]()
    answer = api.ask("POST", path_of(obj, name=""), obj)
    assert (answer.code, "class-not-allowed" in answer.body["message"]) == (403, True), answer.body["message"][:500]


def test_so_is_an_update_of_which_both_objects_count(webhook: Webhook, api: Api) -> None:
    obj = padded(template_of(""), ">" * 700_000)
    api.create(obj)
    try:
        change = {"spec": {"template": {"spec": {"priorityClassName": "high"}}}}
        answer = api.ask("PATCH", path_of(obj), change, "application/merge-patch+json")
        assert (answer.code, "class-not-allowed" in answer.body["message"]) == (403, True), answer.body["message"][:500]
    finally:
        api.delete(obj)


def test_padding_does_not_turn_a_denial_into_a_warning(webhook: Webhook, stage: Stage, api: Api) -> None:
    stage.put({"namespaces": [], "nodes": [node("n", cpu="2")], "pods": [running("ledger", "n", cpu="1500m")]})
    try:
        api.create(priority_class("higher", 500))
        webhook.catch_up(api)
        plain = pod("plain", priorityClassName="higher")
        plain["spec"]["containers"] = [container("1")]
        tolerations = [{"key": f"k{number}", "operator": "Exists"} for number in range(TOLERATIONS)]
        for spec in ({}, {"tolerations": tolerations}):
            obj = {**plain, "spec": {**plain["spec"], **spec}}
            answer = api.ask("POST", path_of(obj, name="", dryRun="All"), obj)
            assert (answer.code, "violates-expectation" in str(answer.body)) == (403, True), (
                answer.warnings,
                answer.body,
            )
    finally:
        stage.clear()
        api.delete(priority_class("higher", 500))


def test_stored_objects_take_little_memory_also_after_a_restart(
    webhook: Webhook, plane: ControlPlane, api: Api
) -> None:
    """15 Deployments with 700,000 empty terms each took 730 MiB."""
    stored = [with_empty_terms(f"stored-{number}") for number in range(STORED)]
    for obj in stored:
        obj["spec"]["template"]["spec"].pop("priorityClassName")  # any class but this one is allowed
        api.create(obj)
    try:
        webhook.catch_up(api, 60)
        (replica,) = webhook.replicas
        before = resident(plane, replica.name, "VmHWM")
        replica.stop()
        replica.start()
        webhook.catch_up(api, 60)
        after = resident(plane, replica.name, "VmHWM")
        print(f"\ne2e: {STORED} stored objects: peak {before >> 20} MiB, {after >> 20} MiB after a restart")
        assert after < MAX_MEGABYTES << 19
    finally:
        for obj in stored:
            api.delete(obj)


def test_a_client_that_goes_away_leaves_no_traceback(webhook: Webhook, plane: ControlPlane) -> None:
    (replica,) = webhook.replicas
    for port in (replica.port, replica.health_port):
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(b"GET /elsewhere HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    assert replica.ready()
    assert "Traceback" not in plane.processes.log(replica.name).read_text()


def with_empty_terms(name: str) -> Obj:
    obj = template_of("high")
    terms: list[dict[str, Any]] = [{}] * EMPTY_TERMS
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    obj["spec"]["template"]["spec"]["affinity"] = affinity
    obj["metadata"]["name"] = name
    return obj


def test_a_flood_of_objects_that_parse_to_many_takes_little_memory(
    webhook: Webhook, plane: ControlPlane, api: Api
) -> None:
    """Nine bodies of `[{},{},…]` took a replica from 268 MiB to 1,510."""
    waits = list[float]()

    def send(number: int) -> Answer:
        obj = with_empty_terms(f"flood-{number}")
        return api.ask("POST", path_of(obj, name="", dryRun="All"), obj)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        sent = [pool.submit(send, number) for number in range(2 * AT_ONCE)]
        while not all(one.done() for one in sent):
            began = time.monotonic()
            assert api.ask("POST", path_of(pod("small"), name="", dryRun="All"), pod("small")).code == 201
            waits.append(time.monotonic() - began)
    assert 403 in {one.result().code for one in sent}, "the API server itself gives some up on a busy machine"
    peak = resident(plane, webhook.replicas[0].name, "VmHWM") / 2**20
    told = f"peak {peak:.0f} MiB, small requests {max(waits):.2f} s"
    print(f"\ne2e: {len(sent)} objects of {EMPTY_TERMS} empty terms: {told}")
    assert peak < MAX_MEGABYTES
    assert max(waits) < 5, "small requests wait for one large one at most; others have the machine too"
