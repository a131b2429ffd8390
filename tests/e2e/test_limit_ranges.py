"""What LimitRanges make of pods: random ones by dry runs of the API server, and by forewarn.

SEED says which LimitRanges and pods there are. What LimitRanges refuse is left out of the comparison.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from itertools import permutations
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from forewarn.policies.kubernetes.cluster.admission import with_limit_range_defaults
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.objects.pod_resources import read_pod_resources
from forewarn.policies.kubernetes.objects.resource_quota import LimitRange
from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
from forewarn.policies.kubernetes.quantity import parse_quantity
from forewarn.policies.kubernetes.releases.release import known_minor
from forewarn.policies.kubernetes.releases.semantics import Semantics
from tests.e2e.api import Refused, identity, path_of
from tests.e2e.build import MINOR
from tests.e2e.objects import pod
from tests.e2e.quotas import set_used
from tests.e2e.truth import wait_until
from tests.recorded.dry_run import dry_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from tests.e2e.api import Answer, Api, Obj

pytestmark = pytest.mark.e2e

SEED = int(os.environ.get("SEED", "1"))
PODS = 300
SEMANTICS: Final = Semantics(known_minor(MINOR))
NAMESPACES: Final = tuple(f"ranges-{number}" for number in range(20))
ENFORCED: Final = NAMESPACES[:5]
"""Namespaces where a quota wants requests and limits of cpu."""
HARD: Final = {"requests.cpu": "1k", "limits.cpu": "1k"}
AMOUNTS: Final = {
    "cpu": ("1u", "100m", "0.25", "1", "1500m", "2"),
    "memory": ("64Mi", "100M", "1Gi", "1.5Gi", "2e9"),
    "ephemeral-storage": ("1Gi", "2Gi", "3G"),
    "example.com/gpu": ("1",),
}


def random_amounts(random: Random, chance: float) -> Obj:
    return {name: random.choice(amounts) for name, amounts in AMOUNTS.items() if random.random() < chance}


def random_range(random: Random, name: str, namespace: str) -> Obj:
    """Of containers: each resource with some of its fields, in the order that the API server wants."""
    item: Obj = {"type": "Container"}
    for resource, amounts in AMOUNTS.items():
        fields = [f for f in ("min", "defaultRequest", "default", "max") if random.random() < 0.4]
        chosen = sorted(random.choices(amounts, k=len(fields)), key=parse_quantity)
        if resource == "example.com/gpu":
            fields = [f for f in fields if f != "defaultRequest"]
        for field, amount in zip(fields, chosen, strict=False):
            item.setdefault(field, {})[resource] = amount
    of_pods = {"type": "Pod", "max": {"cpu": "500"}}
    items = [item, of_pods] if random.random() < 0.3 else [item]
    return {**identity("LimitRange", name, namespace), "spec": {"limits": items}}


def random_pod(random: Random, name: str) -> Obj:
    made = pod(name)
    made["metadata"]["namespace"] = random.choice(NAMESPACES)
    kinds = {"containers": random.randint(1, 2), "initContainers": random.choice((0, 0, 1, 2))}
    for kind, count in kinds.items():
        made["spec"][kind] = [random_container(random, f"{kind.lower()}-{n}", kind) for n in range(count)]
    if random.random() < 0.3:
        amounts = {"cpu": "50", "memory": "500Gi"}
        some = {name: amounts[name] for name in amounts if random.random() < 0.7}
        made["spec"]["resources"] = {random.choice(("requests", "limits")): some}
    return made


def random_container(random: Random, name: str, kind: str) -> Obj:
    made: Obj = {"name": name, "image": "img"}
    requests, limits = random_amounts(random, 0.2), random_amounts(random, 0.2)
    requests.pop("example.com/gpu", None)
    if random.random() < 0.7:
        given = {"requests": requests, "limits": limits}
        made["resources"] = {key: value for key, value in given.items() if random.random() < 0.7}
    if kind == "initContainers" and random.random() < 0.3:
        made["restartPolicy"] = "Always"
    return made


@pytest.fixture(scope="module")
def ranges(api: Api) -> Iterator[dict[str, list[Obj]]]:
    """One or two LimitRanges for each namespace, quotas for some, and the API server knows of them."""
    random = Random(SEED)
    made: dict[str, list[Obj]] = {}
    for number, namespace in enumerate(NAMESPACES):
        api.create(identity("Namespace", namespace))
        names = ["a", "b"][: 1 + number % 2]
        made[namespace] = [created(random, api, name, namespace) for name in names]
        if namespace in ENFORCED:
            api.create({**identity("ResourceQuota", "compute", namespace), "spec": {"hard": HARD}})
            set_used(api, "compute", namespace, 0)
    yield made
    for namespace, there in made.items():
        for each in there:
            api.delete(each)
        if namespace in ENFORCED:
            api.delete(identity("ResourceQuota", "compute", namespace))


def created(random: Random, api: Api, name: str, namespace: str) -> Obj:
    """A LimitRange that the API server takes, as it is stored."""
    while True:
        asked = random_range(random, name, namespace)
        try:
            stored = api.create(asked)
        except Refused:
            continue
        assert LimitRange.from_api(asked) == LimitRange.from_api(stored), json.dumps(asked)
        return asked


def of_containers(obj: ApiObject) -> Any:
    """The amounts of each container, in thousandths as they are stored."""
    return {
        (kind, container["name"], key): {name: parse_quantity(q).round_up_to_milli() for name, q in amounts.items()}
        for kind in ("containers", "initContainers")
        for container in obj["spec"].get(kind, ())
        for key, amounts in (container.get("resources") or {}).items()
        if amounts
    }


def is_ours(asked: Obj, stored: Obj, ranges: list[Obj]) -> bool:
    """Whether what is stored is what we make of a pod, by one order of the LimitRanges."""
    views = [LimitRange.from_api(each) for each in ranges]
    made = [with_limit_range_defaults(asked, order, SEMANTICS) for order in permutations(views)]
    return any(
        of_containers(each) == of_containers(stored) and read_pod_resources(each) == read_pod_resources(stored)
        for each in made
    )


def test_containers_get_the_same_resources(api: Api, ranges: dict[str, list[Obj]]) -> None:
    random, told, wrong = Random(SEED + 1), Counter[str](), []
    for namespace in NAMESPACES:
        caught_up(api, namespace, ranges[namespace])
    state = state_of(api)
    for number in range(PODS):
        asked = random_pod(random, f"pod-{number}")
        there = ranges[asked["metadata"]["namespace"]]
        answer = api.ask("POST", path_of(asked, name="", dryRun="All"), asked)
        ours = dry_run(ReviewedObject(asked), state)
        what = kind_of(answer)
        told[f"{what} by {len(there)}"] += 1
        told["changed"] += what == "accepted" and of_containers(asked) != of_containers(answer.body)
        same = what != "accepted" or is_ours(asked, answer.body, there)
        # Which of two LimitRanges comes first is the API server's secret, and may decide whether the pod is valid.
        if len(there) == 1 and what != "out of range":
            same = same and sentences(ours.message) == sentences(message(answer))
        if not same:
            case = {"pod": asked, "ranges": there, "theirs": message(answer) or answer.body["spec"]}
            wrong.append(json.dumps({**case, "ours": ours.message}))
    print(f"\ne2e: {PODS} pods, seed {SEED}: {dict(told)}")
    assert not wrong, "\n".join([f"{len(wrong)} faults", *wrong[:5]])
    assert min(told["accepted by 1"], told["accepted by 2"], told["changed"]) >= 10, told
    assert told["refused by 1"] >= 3, told


def state_of(api: Api) -> ClusterSnapshot:
    cache = Cache()
    for kind in ("LimitRange", "ResourceQuota"):
        for stored in api.list(kind):
            cache.add(stored)
    return cache.snapshot()


def kind_of(answer: Answer) -> str:
    if answer.code == 201:
        return "accepted"
    return "out of range" if " usage per " in message(answer) else "refused"


def message(answer: Answer) -> str:
    return str(answer.body.get("message", ""))


def sentences(text: str) -> list[str]:
    """The API server names faults in no order."""
    return sorted(re.split(r", |: \[|\]$", text))


def caught_up(api: Api, namespace: str, ranges: list[Obj]) -> None:
    """Wait until the API server's own watch has brought it all LimitRanges of a namespace."""
    probe = pod("probe")
    probe["metadata"]["namespace"] = namespace

    def known() -> bool:
        answer = api.ask("POST", path_of(probe, name="", dryRun="All"), probe)
        return answer.code != 201 or is_ours(probe, answer.body, ranges)

    wait_until(known, 20, f"the LimitRanges of {namespace} are known")
