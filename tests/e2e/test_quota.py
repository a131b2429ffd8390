"""Limited classes: the API server's own flag, and forewarn in its place.

SEED says which quotas and pods there are. There is no controller-manager: the test writes the status of quotas.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.e2e.api import Answer, identity, path_of
from tests.e2e.objects import pod, priority_class
from tests.e2e.quotas import BARE, CLASSES, LIMITED, NAMESPACES, quota, random_pod, random_quotas, set_used
from tests.e2e.truth import wait_until
from tests.e2e.webhook import QUICK, Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation
    from tests.e2e.quotas import Limiting

pytestmark = pytest.mark.e2e

SEED = int(os.environ.get("SEED", "1"))
PODS = 200
SCOPE = "{PriorityClass In [cluster-services gold]}"
WARNED = {"exceeded quota": "quota-exceeded", "must specify": "quota-requirement-missing"}
"""The API server's words -> the rule that warns of them."""
DENIED = 'admission webhook "validate.forewarn.dev" denied the request: '


@pytest.fixture(scope="module")
def quotas(api: Api) -> Iterator[list[Obj]]:
    """Classes, namespaces, and quotas with their status; the last write is that of `limits-last`, which is full."""
    for name, value in CLASSES.items():
        api.create(priority_class(name, value))
    last = quota("gold-quota", "limits-last", "gold")
    for namespace in (*NAMESPACES, "limits-last"):
        api.create(identity("Namespace", namespace))
    api.create(last)
    set_used(api, "gold-quota", "limits-last", 0)
    made = random_quotas(Random(SEED))
    for each in made:
        stored = api.create(each)
        if "status" in each:
            api.replace({**stored, "status": each["status"]}, "status")
    set_used(api, "gold-quota", "limits-last", 1)
    yield made
    for each in (*made, last):
        api.delete(each)
    for name in CLASSES:
        api.delete(identity("PriorityClass", name))


@pytest.fixture(scope="module")
def forewarned(
    plane: ControlPlane, installed: Installation, api: Api, limiting: Limiting, quotas: list[Obj]
) -> Iterator[Webhook]:
    """forewarn with the same limits, once everybody knows of the last quota."""
    config = plane.home / "limited.yaml"
    config.write_text(f"{LIMITED}repeatedWarnings: full\n")
    made = Webhook(plane, installed, flags=(*QUICK, "--config", str(config)))
    try:
        made.begin(api, strict=True)
        made.catch_up(api)
        last = in_namespace("limits-last", "gold")
        wait_until(lambda: "exceeded quota" in message(dry_run(limiting.api, last)), 20, "the flag's server is up")
        wait_until(lambda: "(pods: 1, used: 1)" in str(dry_run(api, last).warnings), 20, "forewarn is up to date")
        wait_until(lambda: "exceeded quota" in message(dry_run(api, last)), 20, "the API server is up to date")
        yield made
    finally:
        made.end(api)


def in_namespace(namespace: str, class_: str) -> Obj:
    made = pod("probe", **({"priorityClassName": class_} if class_ else {}))
    made["metadata"]["namespace"] = namespace
    return made


def dry_run(api: Api, obj: Obj) -> Answer:
    return api.ask("POST", path_of(obj, name="", dryRun="All"), obj)


def message(answer: Answer) -> str:
    return str(answer.body.get("message", ""))


def kind_of(answer: Answer) -> str:
    """Why the API server alone refuses, by its own words; "allowed" where it does not."""
    if answer.code == 201:
        return "allowed"
    known = ("insufficient quota to match", "insufficient quota to consume", *WARNED)
    return next((words for words in known if words in message(answer)), message(answer))


def test_the_flag_and_forewarn_let_the_same_pods_in(
    limiting: Limiting, forewarned: Webhook, api: Api, quotas: list[Obj]
) -> None:
    random = Random(SEED + 1)
    told = compare([random_pod(random, f"pod-{number}") for number in range(PODS)], limiting, api, quotas)
    print(f"\ne2e: {PODS} pods, seed {SEED}: {dict(told)}")
    assert min(told["allowed"], told["insufficient quota to match"], told["exceeded quota"]) >= 3, told


def test_so_they_do_where_a_limited_class_is_the_default(
    limiting: Limiting, forewarned: Webhook, api: Api, quotas: list[Obj]
) -> None:
    """Pods that name no class are limited then."""
    random, unnamed = Random(SEED + 2), in_namespace(BARE[0], "")
    api.patch(identity("PriorityClass", "gold"), {"globalDefault": True})
    for server in (limiting.api, api):
        wait_until(lambda: dry_run(server, unnamed).code != 201, 10, "the API server knows of the default")  # noqa: B023
    pods = [random_pod(random, f"pod-{number}") for number in range(PODS // 4)]
    for each in pods:
        each["spec"].pop("priorityClassName", None)
    told = compare(pods, limiting, api, quotas)
    print(f"\ne2e: {len(pods)} pods of the default class: {dict(told)}")
    assert min(told["allowed"], told["insufficient quota to match"]) >= 3, told


def compare(pods: list[Obj], limiting: Limiting, api: Api, quotas: list[Obj]) -> Counter[str]:
    """Ask both by server dry runs; fails with the cases in which they differ. Returns how often what was said."""
    told, wrong = Counter[str](), []
    for asked in pods:
        flag, ours = dry_run(limiting.api, asked), dry_run(api, asked)
        told[kind_of(flag)] += 1
        found = faults(flag, ours, has_status=is_stated(asked, quotas))
        wrong += [f"{fault}: {case(asked, quotas, flag, ours)}" for fault in found]
    assert not wrong, "\n".join([f"{len(wrong)} faults", *wrong])
    return told


def faults(flag: Answer, ours: Answer, *, has_status: bool) -> Iterator[str]:
    """Where forewarn and the API server without the flag do not come to what the flag comes to."""
    kind, denied = kind_of(flag), DENIED in message(ours)
    if (kind == "allowed") != (ours.code == 201):
        yield "another verdict"
    by_the_rule = denied and ours.code == 403 and "limited-class-without-quota" in message(ours)
    if kind.startswith("insufficient") and not by_the_rule:
        yield "forewarn does not reject it by the rule for it"
    if kind == "insufficient quota to match" and SCOPE not in message(flag):
        yield "the scope is not named"
    if kind in ("allowed", "exceeded quota") and denied:
        yield "forewarn refuses it for something else"
    # A denial stands alone. The API server takes a quota without a status for one that limits nothing yet.
    for words, rule in WARNED.items() if has_status and not denied else ():
        said = any(rule in warning for warning in ours.warnings)
        if said != (kind == words):
            yield f"{rule} is {'said' if said else 'not said'}"


def is_stated(asked: Obj, quotas: list[Obj]) -> bool:
    """Whether all quotas of a pod's namespace have a status."""
    return all("status" in q for q in quotas if q["metadata"]["namespace"] == asked["metadata"]["namespace"])


def case(asked: Obj, quotas: list[Obj], flag: Answer, ours: Answer) -> str:
    """Everything that one needs to see it again."""
    there = [q for q in quotas if q["metadata"]["namespace"] == asked["metadata"]["namespace"]]
    answers = [(answer.code, message(answer) if answer.code != 201 else "", answer.warnings) for answer in (flag, ours)]
    return json.dumps({"pod": asked, "quotas": there, "flag": answers[0], "forewarn": answers[1]})


def test_kubectl_shows_both_refusals(plane: ControlPlane, limiting: Limiting, forewarned: Webhook) -> None:
    uncovered = json.dumps(in_namespace(BARE[0], "gold"))
    assert plane.kubectl("apply", "-f", "-", stdin=uncovered, port=limiting.port) == (1, "", FLAG_SAYS)
    assert plane.kubectl("apply", "-f", "-", stdin=uncovered) == (1, "", FOREWARN_SAYS)


WHY = f"insufficient quota to match these scopes: [{SCOPE}]"
FLAG_SAYS = f'Error from server: error when creating "STDIN": {WHY}\n'
FOREWARN_SAYS = (
    f'Error from server (Forbidden): error when creating "STDIN": {DENIED}'
    f'the Pod will be rejected: no ResourceQuota in {BARE[0]} covers class "gold". '
    "Fix: add one with scope PriorityClass In [gold] [limited-class-without-quota]\n"
)
