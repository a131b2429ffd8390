"""Two API servers on one etcd, as in production: each has its own watches, classes in memory, and webhook client.

The requests of these tests go to both, or to the second one, while forewarn follows the first. ROUNDS as in
test_global_default.py.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import wait
from contextlib import closing, contextmanager
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import TYPE_CHECKING

import pytest

from tests.e2e.api import Answer, identity, path_of
from tests.e2e.load import load
from tests.e2e.objects import deployment, pod, priority_class
from tests.e2e.processes import free_ports
from tests.e2e.racing import AT_ONCE, TTL, clear, create, creates, defaults, legal_one, race
from tests.e2e.truth import wait_until
from tests.e2e.webhook import QUICK, Webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import AbstractContextManager

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = pytest.mark.e2e

ROUNDS = int(os.environ.get("ROUNDS", "10"))
FIRST, SECOND, SECOND_LOG = "kube-apiserver", "kube-apiserver-second", "second-audit.log"
MAX_AGE = 4
BOUND = 20
"""Seconds within which it has to know again what there is."""
STALE_CACHE_KEY = "validate.forewarn.dev/stale-cache"


@pytest.fixture(scope="module")
def second(plane: ControlPlane) -> Iterator[Api]:
    """A client of the second API server."""
    (port,) = free_ports(1)
    plane.start_api_server(SECOND, port, f"--audit-log-path={plane.home / SECOND_LOG}")
    with closing(plane.api(port=port)) as made:
        yield made
    plane.processes.stop(SECOND, SIGKILL)
    plane.restart_scheduler()


@pytest.fixture(scope="module")
def replicas(plane: ControlPlane, installed: Installation, api: Api, second: Api) -> Iterator[Webhook]:
    """Two replicas that both API servers ask; their failures are failures of the request."""
    made = Webhook(plane, installed, 2, (*QUICK, "--max-cache-age", str(MAX_AGE)))
    try:
        made.begin(api)
        made.wait_until_asked(second)
        yield made
    finally:
        made.end(api)


@pytest.fixture(autouse=True)
def no_classes(api: Api) -> Iterator[None]:
    clear(api)
    yield
    clear(api)


@contextmanager
def is_blocked(plane: ControlPlane) -> Iterator[None]:
    """The first API server hangs: connections come about, and nothing is said on them."""
    plane.processes.signal(FIRST, SIGSTOP)
    try:
        yield
    finally:
        plane.processes.signal(FIRST, SIGCONT)


@contextmanager
def is_dead(plane: ControlPlane) -> Iterator[None]:
    """The first API server is killed, and started again at the end."""
    plane.processes.stop(FIRST, SIGKILL)
    try:
        yield
    finally:
        plane.start_api_server()


def dry_run(api: Api, obj: Obj) -> Answer:
    return api.ask("POST", path_of(obj, name="", dryRun="All"), obj)


def of_class(class_: str, name: str = "probe", namespace: str = "default") -> Obj:
    return {**pod(name, priorityClassName=class_), "metadata": {"name": name, "namespace": namespace}}


def resolves(api: Api, class_: str, value: int) -> None:
    """Wait until this API server itself takes the class for this value. Of kube-system forewarn is not asked."""
    probe = of_class(class_, namespace="kube-system")
    wait_until(lambda: dry_run(api, probe).body.get("spec", {}).get("priority") == value, 20, f"{class_} is {value}")


def said(answer: Answer) -> list[str]:
    """Refusal and warnings."""
    rejection = [] if answer.code == 201 else [str(answer.body.get("message"))]
    return [*rejection, *answer.warnings]


def certain(answer: Answer) -> list[str]:
    """What is said without the reserve that nobody could be asked."""
    return [text for text in said(answer) if "not confirm" not in text.lower()]


def test_without_forewarn_there_are_several_defaults(api: Api, second: Api, pool: ThreadPoolExecutor) -> None:
    counts = [*creates([api, second], pool)]
    print(f"\ne2e: defaults after {AT_ONCE} creates at once by two API servers, without forewarn: {counts}")
    assert max(counts) > 1


def test_with_forewarn_there_is_one(replicas: Webhook, api: Api, second: Api, pool: ThreadPoolExecutor) -> None:
    """Replicas reach both API servers by one address here: a question may be answered by another than the last."""
    replicas.follow(api.port, second.port)
    told = race([api, second], pool, ROUNDS)
    print(f"\ne2e: {ROUNDS} rounds of {AT_ONCE} by two API servers: {told}")
    assert told.waited < TTL
    assert told.counts["forewarn"] > 0


def test_what_the_other_one_stored_is_known_at_once(
    plane: ControlPlane, replicas: Webhook, api: Api, second: Api, pool: ThreadPoolExecutor
) -> None:
    """The watches of the first one are late for certain: it stands still, and goes on once it is asked."""
    replicas.follow(api.port)
    sure = 0
    for turn in range(5):
        new, changed = f"new-{turn}", f"changed-{turn}"
        second.create(priority_class(changed, 1))
        replicas.catch_up(second)
        with is_blocked(plane):
            second.create(priority_class(new, 7))
            second.delete(identity("PriorityClass", changed))
            second.create(priority_class(changed, 2))
            resolves(second, new, 7)
            resolves(second, changed, 2)
            questions = deployment("probe", new), of_class(new), of_class(changed)
            asked = [pool.submit(dry_run, second, question) for question in questions]
            wait(asked, timeout=0.3)
        answers = [each.result() for each in asked]
        assert [certain(answer) for answer in answers] == [[], [], []]
        sure += all(said(answer) == [] for answer in answers)
    print(f"\ne2e: {sure} of 5 times all was known at once, else in doubt")
    assert sure


@pytest.mark.parametrize("outage", [is_dead, is_blocked])
def test_the_first_one_is_away(
    plane: ControlPlane,
    replicas: Webhook,
    api: Api,
    second: Api,
    pool: ThreadPoolExecutor,
    outage: Callable[[ControlPlane], AbstractContextManager[None]],
) -> None:
    """Requests by the second one are answered, by what is known; what is not known is in doubt, and says so."""
    replicas.follow(api.port)
    second.create(priority_class("before", 5))
    replicas.catch_up(second, BOUND)
    api.close()
    with load(lambda _: "".join(said(dry_run(second, of_class("before")))), per_second=20, threads=2) as made:
        with outage(plane):
            second.create(priority_class("meanwhile", 7))
            resolves(second, "meanwhile", 7)
            default = pool.submit(create, second, "default")
            questions = deployment("probe", "meanwhile"), of_class("meanwhile"), deployment("probe", "missing")
            answers = [*pool.map(lambda question: dry_run(second, question), questions)]
            assert [(answer.code, len(said(answer)), certain(answer)) for answer in answers] == [(201, 1, [])] * 3
            assert "failed calling webhook" in str(said(default.result())), "who could say that there is no other?"
            assert defaults(second) == []
            wait_until(lambda: is_stale(plane, second), BOUND, "the audit log says how old the state is")
            wait_until(lambda: is_idle(replicas), BOUND, "nobody is left who would reserve a place for nothing")
        started = time.monotonic()
        replicas.catch_up(second, BOUND)
        wait_until(lambda: not said(dry_run(second, deployment("probe", "meanwhile"))), BOUND, "no doubt is left")
        known = time.monotonic() - started
        waited = legal_one([api, second], "legal")
    print(f"\ne2e: {outage.__name__}: {made.done} requests; known after {known:.1f} s, a default after {waited:.1f} s")
    assert made.faults == []
    assert waited < TTL
    assert defaults(api) == ["legal"]


def is_idle(replicas: Webhook) -> bool:
    return not any(replica.metric("forewarn_requests_in_flight") for replica in replicas.replicas)


def is_stale(plane: ControlPlane, api: Api) -> bool:
    name = f"late-{time.monotonic_ns()}"
    dry_run(api, pod(name))
    return bool(plane.audited("pods", name, STALE_CACHE_KEY, SECOND_LOG))


def test_the_other_one_takes_over(plane: ControlPlane, replicas: Webhook, api: Api, second: Api) -> None:
    """Where forewarn reaches both by one address, as in a cluster, it does not wait for the first to come back."""
    replicas.follow(api.port, second.port)
    replicas.catch_up(second, BOUND)
    made = [deployment("meanwhile"), priority_class("meanwhile", 7), pod("meanwhile")]
    api.close()
    with is_dead(plane):
        started = time.monotonic()
        for obj in made:
            second.create(obj)
        replicas.catch_up(second, BOUND)
        known = time.monotonic() - started
        waited = legal_one([second], "legal")
    for obj in made:
        second.delete(obj, gracePeriodSeconds="0")
    print(f"\ne2e: one of two is dead: news are known after {known:.1f} s, a default after {waited:.1f} s")
    assert waited < TTL
