"""Random requests: what the API server of the minor answers to a dry run is what `forewarn dry-run` says.

SEED says which requests there are, REQUESTS how many. RECORD=FILE keeps requests and answers for
`tests/policies/kube_apiserver/test_recorded_minors.py`.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.releases.release import known_minor
from tests.e2e.api import identity, path_of
from tests.e2e.build import MINOR
from tests.e2e.objects import pod
from tests.e2e.quotas import set_used
from tests.e2e.random_requests import CLASSES, NAMESPACES, UNLIMITED, random_quotas, random_request
from tests.e2e.truth import wait_until
from tests.policies.recorded_minors import Recorded, differences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Answer, Api, Obj
    from tests.e2e.quotas import Limiting
    from tests.e2e.random_requests import Request

pytestmark = pytest.mark.e2e

SEED = int(os.environ.get("SEED", "1"))
REQUESTS = int(os.environ.get("REQUESTS", "600"))
RECORD = os.environ.get("RECORD", "")
KINDS: Final = ("PriorityClass", "ResourceQuota", "Pod")
LAST: Final = "asked-last"
_NOISE: Final = ("managedFields", "resourceVersion")


@pytest.fixture(scope="module")
def stored(limiting: Limiting) -> Iterator[dict[str, list[Obj]]]:
    """What there is to be updated, by kind, once the API server goes by all of it."""
    api = limiting.api
    random = Random(SEED)
    before = {kind: {each["metadata"]["name"] for each in api.list(kind)} for kind in KINDS}
    for namespace in (*NAMESPACES, LAST):
        api.create(identity("Namespace", namespace))
    for each in CLASSES:
        api.create(each)
    wait_until(lambda: _ask(api, _pod("none", UNLIMITED[0], "usual")).code == 201, 20, "the classes are known")
    for number, each in enumerate(CLASSES[2:]):
        api.create(_pod(f"there-{number}", UNLIMITED[0], each["metadata"]["name"]))
    last = {**identity("ResourceQuota", "last", LAST), "spec": {"hard": {"pods": "1"}}}
    for each in (*random_quotas(random), last):
        made = api.create(each)
        if "status" in each:
            api.replace({**made, "status": each["status"]}, "status")
    set_used(api, "last", LAST, 1)
    wait_until(lambda: "exceeded quota" in _text(_ask(api, _pod("one", LAST))), 20, "the quotas are known")
    try:
        yield {kind: [_plain(e) for e in api.list(kind) if e["metadata"]["name"] not in before[kind]] for kind in KINDS}
    finally:
        for kind in reversed(KINDS):
            for each in api.list(kind):
                if each["metadata"]["name"] not in before[kind]:
                    api.delete(each, gracePeriodSeconds="0")


def test_a_dry_run_says_what_the_api_server_says(limiting: Limiting, stored: dict[str, list[Obj]]) -> None:
    random = Random(SEED + 1)
    cluster = [each for kind in KINDS for each in stored[kind]]
    cache = Cache()
    for each in cluster:
        cache.add(each)
    snapshot, minor = cache.snapshot(), known_minor(MINOR)
    told, wrong, kept = Counter[int](), [], [json.dumps({"cluster": cluster})]
    for number in range(REQUESTS):
        asked = random_request(random, number, stored)
        answer = _send(limiting.api, asked)
        told[answer.code] += 1
        one = Recorded(f"{MINOR}-{number:03}", asked.operation, asked.obj, asked.old, answer.code, _text(answer), None)
        if answer.code == 201 and asked.obj["kind"] == "Pod":
            spec = answer.body["spec"]
            one = one._replace(
                resolved=[spec.get(key) for key in ("priorityClassName", "priority", "preemptionPolicy")]
            )
        kept.append(json.dumps(one._asdict(), separators=(",", ":")))
        wrong += [f"{one.id}: {text}\n   {json.dumps(asked.obj)[:1500]}" for text in differences(one, snapshot, minor)]
    if RECORD:
        with gzip.GzipFile(RECORD, "wb", mtime=0) as out:
            out.write("".join(f"{line}\n" for line in kept).encode())
    print(f"\ne2e: {REQUESTS} requests, seed {SEED}: {dict(told)}")
    assert not wrong, "\n".join([f"{len(wrong)} differ", *wrong])
    assert min(told[code] for code in (200, 201, 400, 403, 422)) >= REQUESTS // 100, told


def _pod(name: str, namespace: str, class_: str = "") -> Obj:
    made = pod(name, **({"priorityClassName": class_} if class_ else {}))
    made["metadata"]["namespace"] = namespace
    return made


def _send(api: Api, request: Request) -> Answer:
    """Creations as kubectl sends them; a replacement says nothing of unknown fields."""
    if request.operation == "UPDATE":
        assert request.old
        return api.ask("PUT", path_of(request.old, dryRun="All"), request.obj)
    return _ask(api, request.obj)


def _ask(api: Api, obj: Obj) -> Answer:
    return api.ask("POST", path_of(obj, name="", dryRun="All", fieldValidation="Strict"), obj)


def _text(answer: Answer) -> str:
    return str(answer.body.get("message", "")) if answer.code >= 300 else ""


def _plain(obj: Obj) -> Obj:
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key not in _NOISE}}
