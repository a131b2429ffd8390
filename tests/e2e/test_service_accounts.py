"""What the two service accounts may do on a real API server, asked with their tokens: no more than they need."""

from __future__ import annotations

import copy
import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.api import identity, path_of
from tests.e2e.installation import CONFIGURATIONS, NAMESPACE
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = pytest.mark.e2e

BUNDLE = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
POLICY = "ValidatingAdmissionPolicy 'forewarn-ca-injector'"


@pytest.fixture(scope="module", autouse=True)
def registered(installed: Installation, api: Api, injector: Api) -> Iterator[None]:
    """The configurations, and the policy in force: an API server takes a moment to have read it."""
    installed.register(api, 1, failure_policy="Ignore")
    wait_until(lambda: "denied" in rejected(injector, CONFIGURATIONS[0], relabel), 20, "the policy is in force")
    yield
    installed.unregister(api)


@pytest.fixture(scope="module")
def serving(plane: ControlPlane) -> Iterator[Api]:
    """The serving pods' account."""
    with closing(plane.api("forewarn")) as made:
        yield made


@pytest.fixture(scope="module")
def injector(plane: ControlPlane) -> Iterator[Api]:
    """The CA injector's account."""
    with closing(plane.api("ca-injector")) as made:
        yield made


def rejected(api: Api, kind: str, change: Callable[[Obj], object]) -> str:
    """What an update with this change comes to, by dry run: the refusal, empty where there is none."""
    found = api.get(kind, "forewarn")
    changed = copy.deepcopy(found)
    change(changed)
    answer = api.ask("PUT", path_of(found, dryRun="All"), changed)
    return "" if answer.code == 200 else str(answer.body["message"])


def relabel(obj: Obj) -> None:
    obj["metadata"].setdefault("labels", {})["a"] = "b"


def hook(obj: Obj) -> Any:
    return obj["webhooks"][0]


EVERYTHING_ELSE: dict[str, Callable[[Obj], object]] = {
    "url": lambda obj: hook(obj).update(clientConfig={"url": "https://evil.example/"}),
    "service": lambda obj: hook(obj)["clientConfig"]["service"].update(name="evil"),
    "service namespace": lambda obj: hook(obj)["clientConfig"]["service"].update(namespace="evil"),
    "path": lambda obj: hook(obj)["clientConfig"]["service"].update(path="/evil"),
    "port": lambda obj: hook(obj)["clientConfig"]["service"].update(port=6666),
    "rules": lambda obj: hook(obj)["rules"][0].update(resources=["secrets"], apiGroups=[""]),
    "another rule": lambda obj: hook(obj)["rules"].append({**hook(obj)["rules"][0], "resources": ["secrets"]}),
    "failurePolicy": lambda obj: hook(obj).update(failurePolicy="Fail"),
    "namespaceSelector": lambda obj: hook(obj).update(namespaceSelector={"matchLabels": {"a": "b"}}),
    "objectSelector": lambda obj: hook(obj).update(objectSelector={"matchLabels": {"a": "b"}}),
    "matchConditions": lambda obj: hook(obj).pop("matchConditions"),
    "timeoutSeconds": lambda obj: hook(obj).update(timeoutSeconds=30),
    "sideEffects": lambda obj: hook(obj).update(sideEffects="NoneOnDryRun"),
    "a webhook more": lambda obj: obj["webhooks"].append({**hook(obj), "name": "evil.forewarn.dev"}),
    "no webhooks": lambda obj: obj.update(webhooks=[]),
    "another name": lambda obj: hook(obj).update(name="evil.forewarn.dev"),
    "labels": relabel,
    "annotations": lambda obj: obj["metadata"].setdefault("annotations", {}).update(a="b"),
    "finalizers": lambda obj: obj["metadata"].update(finalizers=["example.com/forever"]),
}


@pytest.mark.parametrize("kind", CONFIGURATIONS)
@pytest.mark.parametrize("what", EVERYTHING_ELSE)
def test_the_ca_injector_may_change_nothing_of_the_configurations_but_the_bundle(
    injector: Api, api: Api, kind: str, what: str
) -> None:
    change = EVERYTHING_ELSE[what]
    if what == "sideEffects" and kind == CONFIGURATIONS[1]:
        change = lambda obj: hook(obj).update(sideEffects="None")  # noqa: E731
    assert rejected(api, kind, change) == "", "an administrator may"
    assert POLICY in rejected(injector, kind, change)


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_the_ca_injector_may_write_the_bundle(injector: Api, kind: str) -> None:
    def bundle(obj: Obj) -> None:
        for webhook in obj["webhooks"]:
            webhook["clientConfig"]["caBundle"] = BUNDLE

    assert rejected(injector, kind, bundle) == ""


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_the_ca_injector_may_write_the_path_where_there_is_none_and_a_token_at_its_end_and_nothing_else(
    injector: Api, api: Api, kind: str
) -> None:
    def path(text: str) -> str:
        return rejected(injector, kind, lambda obj: hook(obj)["clientConfig"]["service"].update(path=text))

    token = "0123456789abcdef" * 4
    own, other = ("mutate", "validate") if kind == CONFIGURATIONS[0] else ("validate", "mutate")
    wrong = (f"/{other}/{token}", f"/{other}", f"/{own}/x", f"/{own}/{token}/x", f"/{own}/{token}0", f"/{token}", "/")
    shipped = api.get(kind, "forewarn")
    assert "path" not in hook(shipped)["clientConfig"]["service"]
    for there in ("", f"/{own}", f"/{own}/{'ab' * 32}"):
        if there:
            found = api.get(kind, "forewarn")
            hook(found)["clientConfig"]["service"]["path"] = there
            api.replace(found)
        assert path(f"/{own}/{token}") == "", there
        assert bool(path(f"/{own}")) is (there.count("/") == 2), "a token is not taken away"
        for text in wrong:
            assert POLICY in path(text), (there, text)
    found = api.get(kind, "forewarn")
    del hook(found)["clientConfig"]["service"]["path"]
    api.replace(found)


def owned(uid: str, **owner: object) -> Callable[[Obj], object]:
    given = {"apiVersion": "v1", "kind": "Namespace", "name": "forewarn", "uid": uid, **owner}
    return lambda obj: obj["metadata"].update(ownerReferences=[given])


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_the_ca_injector_may_make_the_namespace_the_owner_and_nothing_else(injector: Api, api: Api, kind: str) -> None:
    uid = api.get("Namespace", "forewarn", "")["metadata"]["uid"]
    assert rejected(injector, kind, owned(uid)) == ""
    assert f"{POLICY[:-1]}-owner'" in rejected(injector, kind, owned("gone")), "the garbage collector would delete it"
    for other in (
        {"name": "kube-system"},
        {"kind": "Node"},
        {"controller": True},
        {"blockOwnerDeletion": True},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"},
    ):
        assert POLICY in rejected(injector, kind, owned(uid, **other)), other


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_the_serving_account_may_read_the_configurations_and_not_change_them(serving: Api, kind: str) -> None:
    assert "cannot update resource" in rejected(serving, kind, lambda _: None)


def may(plane: ControlPlane, user: str) -> set[tuple[str, str, str, str]]:
    """Everything that an account may do but read, in forewarn's namespace, as `kubectl auth can-i --list` has it."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": NAMESPACE},
    }
    told = plane.kubectl("create", "--raw", SELF, "-f", "-", stdin=json.dumps(review), user=user)
    assert told.status == 0, told.err
    rules = json.loads(told.out)["status"]["resourceRules"]
    return {
        (verb, group, resource, name)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames") or [""]
    }


SELF = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
SELF_KNOWLEDGE = {"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}
"""What everybody may ask (system:basic-user)."""


def changing(rights: set[tuple[str, str, str, str]]) -> set[tuple[str, str, str]]:
    """The rights that are more than reading, without those that everybody has."""
    return {
        (verb, resource, name)
        for verb, _, resource, name in rights
        if verb not in {"get", "list", "watch"} and resource not in SELF_KNOWLEDGE
    }


def test_the_serving_account_writes_one_lease_and_reads_one_secret(plane: ControlPlane, serving: Api) -> None:
    rights = may(plane, "forewarn")
    asking = ("create", "subjectaccessreviews", "")  # stores nothing
    lease = ("leases", "forewarn-global-default")
    assert changing(rights) == {("create", *lease), ("update", *lease), asking}
    assert {right for right in rights if right[2] == "secrets"} == {("get", "", "secrets", "forewarn-serving-cert")}
    for path in ("api/v1/secrets", f"api/v1/namespaces/{NAMESPACE}/secrets", path_of(CA)):
        assert serving.ask("GET", path).code == 403


CA = identity("Secret", "forewarn-ca", NAMESPACE)


def test_the_ca_injector_writes_by_name_and_creates_one_lease_at_most(plane: ControlPlane, injector: Api) -> None:
    rights = may(plane, "ca-injector")
    assert changing(rights) == {
        ("update", "secrets", "forewarn-ca"),
        ("update", "secrets", "forewarn-serving-cert"),
        ("create", "leases", "forewarn-ca-injector"),
        ("update", "leases", "forewarn-ca-injector"),
        ("update", "mutatingwebhookconfigurations", "forewarn"),
        ("update", "validatingwebhookconfigurations", "forewarn"),
    }
    assert injector.ask("GET", "api/v1/secrets").code == 403
    assert injector.ask("GET", "api/v1/pods").code == 403
    for kind in CONFIGURATIONS:
        assert injector.ask("DELETE", path_of(identity(kind, "forewarn"))).code == 403
        assert (
            injector.ask("PATCH", path_of(identity(kind, "forewarn")), {}, "application/merge-patch+json").code == 403
        )
