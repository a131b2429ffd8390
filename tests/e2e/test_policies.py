"""`forewarn policies` on a real kube-apiserver: its answers are those of forewarn's rules."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import closing
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS
from tests.e2e.api import identity, path_of
from tests.e2e.build import MINOR, POLICIES_ARE_STABLE
from tests.e2e.truth import wait_until
from tests.policies.admission_requests import (
    CLASSES,
    CONFIG_TEXT,
    NAMESPACES,
    class_object,
    cluster,
    namespace_object,
    random_request,
    reported,
    workload,
)
from tests.policies.recorded import load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.api import Answer, Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.policies.admission_requests import Request

pytestmark = pytest.mark.e2e

SEED = int(os.environ.get("SEED", "1"))
REQUESTS = int(os.environ.get("REQUESTS", "300"))
RULE = re.compile(r"\[([a-z-]+)\]$")
DEVELOPERS = {
    **identity("ClusterRoleBinding", "policy-developers"),
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "developers"}],
}
RECORDED = [
    case for case in load("recorded.jsonl.gz") if case["object"]["kind"] == "PriorityClass" and case["code"] != 400
]


@pytest.fixture(scope="module")
def requests() -> list[Request]:
    random = Random(SEED)
    return [random_request(random, number) for number in range(REQUESTS)]


@pytest.fixture(scope="module")
def apis(plane: ControlPlane, api: Api) -> Iterator[dict[str, Api]]:
    """A client of each user; developers may do everything."""
    api.create(DEVELOPERS)
    with closing(plane.api("developer")) as developer:
        wait_until(lambda: developer.ask("GET", "api/v1/secrets").code == 200, 30, "developers have the role")
        yield {"admin": api, "developer": developer}
    api.delete(DEVELOPERS)


@pytest.fixture(scope="module")
def stored(api: Api, requests: list[Request]) -> Iterator[None]:
    """The classes, namespaces, and objects that requests update, from before the policies."""
    for obj in (*map(class_object, CLASSES), *map(namespace_object, NAMESPACES)):
        api.create(obj)
    old = [request.old for request in requests if request.old and not request.is_namespace]
    for obj in old:
        api.create(obj)
    yield
    for obj in (*old, *map(class_object, CLASSES)):
        api.delete(obj)


@pytest.fixture(scope="module")
def policies(plane: ControlPlane, api: Api, stored: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The policies of the configuration, in force."""
    text = written(tmp_path_factory.mktemp("policies") / "policies.yaml")
    told = plane.kubectl("apply", "-f", "-", stdin=text)
    assert (told.status, told.err) == (0, "")
    for kind in ("/Pod", *POD_TEMPLATE_PATHS):
        probe = workload(kind, "early", "policy-lab", "other", is_pinned=True)
        wait_until(partial(is_denied, api, probe), 30, f"the policies for {kind} are in force")
    default = workload("/Pod", "early", "policy-shop-b", "")
    if POLICIES_ARE_STABLE:
        wait_until(
            lambda: asked(api, default).body["spec"].get("priority") == CLASSES["policy-gold"], 30, "so is the default"
        )
    yield text
    assert plane.kubectl("delete", "-f", "-", stdin=text).status == 0


def is_denied(api: Api, probe: Obj) -> bool:
    """Whether the validations that deny, and those that warn, are in force for a workload."""
    answer = asked(api, probe)
    return bool(RULE.search(answer.body.get("message", "")) and (answer.warnings or probe["kind"] == "Pod"))


def written(config: Path) -> str:
    config.write_text(CONFIG_TEXT)
    command = [sys.executable, "-m", "forewarn", "policies", "-c", str(config), "--kubernetes-version", MINOR]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def asked(api: Api, obj: Obj, old: Obj | None = None) -> Answer:
    """The answer to a dry run."""
    path = path_of(obj, dryRun="All") if old else path_of(obj, name="", dryRun="All")
    return api.ask("PUT" if old else "POST", path, obj)


def test_the_api_server_answers_as_the_rules(policies: str, apis: dict[str, Api], requests: list[Request]) -> None:
    snapshot, told, wrong = cluster(defaults=POLICIES_ARE_STABLE), Counter[str](), []
    for request in requests:
        expected = reported(request, snapshot)
        answer = asked(apis[request.user], request.obj, request.old)
        rule = RULE.search(answer.body.get("message", ""))
        denied = rule[1] if rule else ""
        warned = {match[1] for match in map(RULE.search, answer.warnings) if match}
        told[denied or f"{answer.code}"] += 1
        told.update(warned)
        accepted = not expected.get("deny") and answer.code in (200, 201)
        if not (accepted or denied in expected.get("deny", ())) or warned != expected.get("warn", set()):
            wrong.append(f"{request}\n   {expected}: {answer.code} {answer.body.get('message')} {answer.warnings}")
    print(f"\ne2e: {len(requests)} requests, seed {SEED}: {dict(told)}")
    assert not wrong, "\n".join([f"{len(wrong)} differ", *wrong[:20]])
    rules = {"class-not-allowed", "class-required", "pinned-priority", "system-class-outside-kube-system"}
    assert rules <= told.keys()


@pytest.mark.skipif(not POLICIES_ARE_STABLE, reason="no MutatingAdmissionPolicies in v1")
@pytest.mark.parametrize(
    ("namespace", "named", "expected"),
    [("policy-shop-b", "", "policy-gold"), ("policy-shop-b", "other", "other"), ("policy-shop", "", None)],
)
def test_a_pod_without_a_class_gets_that_of_its_namespace(
    policies: str, api: Api, namespace: str, named: str, expected: str | None
) -> None:
    spec = asked(api, workload("/Pod", "defaulted", namespace, named)).body["spec"]
    assert spec.get("priorityClassName") == expected
    assert spec["priority"] == (CLASSES[expected] if expected else 0)


def test_recorded_answers_about_classes_stay_the_same(policies: str, api: Api) -> None:
    groups = defaultdict(list)
    for case in RECORDED:
        groups[json.dumps(case["cluster"]["priorityClasses"])].append(case)
    for text, cases in groups.items():
        classes = [{**obj, "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"} for obj in json.loads(text)]
        for obj in classes:
            wait_until(partial(is_created, api, obj), 10, f"the policy knows that no class is the default ({obj})")
        try:
            for case in cases:
                wait_until(partial(is_answered, api, case), 10, case["id"])
        finally:
            for obj in classes:
                api.delete(obj)
    assert len(RECORDED) > 20


def is_created(api: Api, obj: Obj) -> bool:
    """Create an object, unless a policy denies it: policies see a deletion a moment after it."""
    return api.ask("POST", path_of(obj, name=""), obj).code == 201


def is_answered(api: Api, case: Obj) -> bool:
    return bool(asked(api, case["object"], case.get("oldObject")).code == case["code"])
