"""`forewarn webhook doctor`: an installation as it should be, then each thing of it gone wrong."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import time
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from forewarn.policies import VERSION
from forewarn.policies.kubernetes.kinds.registry import KINDS
from forewarn.webhook.commands.doctor import Now, examine, main
from forewarn.webhook.doctor.installation import MUTATING, VALIDATING
from forewarn.webhook.doctor.report import Client, Seen, packaged
from forewarn.webhook.x509 import Authority, self_signed
from tests.webhook.scripted_api import client, kubeconfig, scripted_api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.webhook.scripted_api import Handler, ScriptedApi

Obj = dict[str, Any]
NOW = datetime.now(UTC)
SOON = NOW + timedelta(hours=1)
"""However long the tests take."""
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
VALIDATE, MUTATE = f"{REGISTRATION}/validatingwebhookconfigurations", f"{REGISTRATION}/mutatingwebhookconfigurations"
OURS = "/api/v1/namespaces/forewarn"
DEPLOYMENT = "/apis/apps/v1/namespaces/forewarn/deployments/forewarn"
INJECTOR_DEPLOYMENT = f"{DEPLOYMENT}-ca-injector"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/forewarn/leases/forewarn-ca-injector"
DEFAULT_LEASE = LEASE.replace("ca-injector", "global-default")
POLICIES = "/apis/networking.k8s.io/v1/namespaces/forewarn/networkpolicies"
SERVICE = f"{OURS}/services/forewarn"
MAIN = "validate.forewarn.dev"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/forewarn/endpointslices"
SECRET = f"{OURS}/secrets/forewarn-serving-cert"
CONFIG = f"{OURS}/configmaps/forewarn"
CLASSES, NAMESPACES, QUOTAS = (
    next(spec.path for spec in KINDS if spec.plural == plural)
    for plural in ("priorityclasses", "namespaces", "resourcequotas")
)
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
LABELS = {"app.kubernetes.io/name": "forewarn"}
TRIED = "/apis/apps/v1/namespaces/default/deployments"
POD = f"{OURS}/pods/forewarn-0:8080/proxy"
WARNED = (
    'Deployment default/forewarn-doctor-x7k2p: PriorityClass \\"none\\" not found; '
    "Pods will be rejected until it exists [unknown-priority-class]"
)
TOKEN = "0123456789abcdef" * 4


@cache
def served() -> tuple[Authority, Obj]:
    """A CA, and the Secret with a certificate by it."""
    authority = Authority.make(NOW)
    return authority, secret(authority.sign(NOW).chain)


def secret(chain: bytes) -> Obj:
    return {"data": {"tls.crt": base64.b64encode(chain).decode()}}


class World:
    """What an API server answers: GET and POST, path -> object, text or (status, message)."""

    def __init__(self) -> None:
        bundle = base64.b64encode(served()[0].certificate).decode()
        configurations = {}
        for kind in (VALIDATING, MUTATING):
            webhooks = [deepcopy({**webhook}) for webhook in packaged("shipped.json")[kind].values()]
            for webhook in webhooks:
                webhook["clientConfig"]["caBundle"] = bundle
                path = "/mutate" if kind == MUTATING else "/validate"  # which the CA injector writes
                webhook["clientConfig"]["service"]["path"] = f"{path}/{TOKEN}"
                webhook["clientConfig"]["service"]["port"] = 443  # the API server's default
            configurations[kind] = {"metadata": {"name": "forewarn"}, "webhooks": webhooks}
        pods = [{"metadata": {"name": "forewarn-0"}, "status": {"phase": "Running"}}]
        template = {
            "serviceAccountName": "forewarn",
            "priorityClassName": "forewarn",
            "containers": [
                {"ports": [{"name": "webhook", "containerPort": 8443}, {"name": "health", "containerPort": 8080}]}
            ],
        }
        ports = [
            {"name": "webhook", "port": 443, "targetPort": "webhook"},
            {"name": "health", "port": 8080, "targetPort": "health"},
        ]
        self.get: dict[str, Any] = {
            "/version": {"gitVersion": "v1.36.3"},
            VALIDATE: items(configurations[VALIDATING]),
            MUTATE: items(configurations[MUTATING]),
            DEPLOYMENT: {
                "spec": {
                    "replicas": 2,
                    "selector": {"matchLabels": {**LABELS}},
                    "template": {
                        "metadata": {"labels": {**LABELS, "app.kubernetes.io/part-of": "forewarn"}},
                        "spec": template,
                    },
                },
                "status": {"readyReplicas": 2},
            },
            f"{OURS}/services/forewarn": {"spec": {"ports": ports, "selector": {**LABELS}}},
            SLICES: items({"endpoints": [{"conditions": {"ready": True}}, {"conditions": {"ready": True}}]}),
            f"{OURS}/pods": items(*pods),
            LEASE: {"spec": {"holderIdentity": "ca-0", "renewTime": SOON.isoformat()}},
            DEFAULT_LEASE: {"metadata": {"name": "forewarn-global-default"}},
            POLICIES: items(network_policy(ports=[{"port": "webhook", "protocol": "TCP"}])),
            SECRET: served()[1],
            CONFIG: {"data": {"forewarn.yaml": "actions: {}\n"}},
            CLASSES: items(priority_class("forewarn", 1_000_000), priority_class("web", 1000, globalDefault=True)),
            NAMESPACES: items({"metadata": {"name": "default"}}),
            QUOTAS: items(),
            "/apis/apps/v1/deployments": items(),
            "/api/v1/namespaces/default": {"metadata": {"name": "default"}},
            f"{POD}/readyz": b"ok\n",
            f"{POD}/metrics": metrics(),
        }
        self.post: dict[str, Any] = {
            CLASSES: {},
            TRIED: {},
            WHO: {"status": {"userInfo": {"username": "anna", "groups": ["sre"]}}},
            REVIEWS: (403, 'User "u" cannot create resource'),  # else each report asks some fifty
        }
        self.warnings: tuple[str, ...] = (WARNED,)
        self.ahead: dict[str, int] = {}
        """Path -> seconds by which the clock is ahead."""

    def webhook(self, name: str) -> Obj:
        """A registered webhook."""
        registered = (webhook for path in (VALIDATE, MUTATE) for webhook in self.get[path]["items"][0]["webhooks"])
        found: Obj = next(webhook for webhook in registered if webhook["name"] == name)
        return found

    def refuse_everything(self) -> None:
        """What a user sees who has no rights at all."""
        self.get = dict.fromkeys(self.get, (403, "forbidden: cannot list"))
        of_one = (f"{VALIDATE}/forewarn", f"{MUTATE}/forewarn", f"{OURS}/services/http:forewarn:health/proxy/readyz")
        self.get |= dict.fromkeys(of_one, (403, "forbidden: cannot get"))
        self.post = dict.fromkeys(self.post, (403, 'User "u" cannot create resource'))


def items(*objects: Obj) -> Obj:
    return {"items": [*objects], "metadata": {}}


def network_policy(**rule: Any) -> Obj:
    spec = {"podSelector": {"matchLabels": {**LABELS}}, "policyTypes": ["Ingress", "Egress"], "ingress": [rule]}
    spec["egress"] = [{"ports": [{"port": 443}, {"port": 6443}]}]
    return {"metadata": {"name": "forewarn"}, "spec": spec}


def egress(*rules: Obj) -> Obj:
    """A NetworkPolicy with these rules for egress."""
    policy = network_policy()
    return {**policy, "spec": {**policy["spec"], "egress": [*rules]}}


def priority_class(name: str, value: int, **fields: Any) -> Obj:
    return {"metadata": {"name": name}, "value": value, **fields}


def metrics(**other: str) -> bytes:
    values = {
        f'forewarn_build_info{{kubernetes="1.36.3",python="3.12",version="{VERSION}"}}': "1.0",
        'forewarn_admission_requests_total{kind="Pod",operation="CREATE",phase="validate",verdict="allowed"}': "7.0",
        'forewarn_predictions_total{outcome="preempts"}': "2.0",
        'forewarn_predictions_total{outcome="skipped"}': "0.0",
        'forewarn_prediction_results_total{result="matched"}': "2.0",
        'forewarn_prediction_results_total{result="wrong"}': "0.0",
        "forewarn_cache_age_seconds": "1.5",
        'forewarn_file_rejected{file="config"}': "0.0",
        "forewarn_certificate_expiry_timestamp_seconds": f"{(NOW + timedelta(days=7)).timestamp()}",
    }
    return "".join(f"{name} {value}\n" for name, value in {**values, **other}.items()).encode()


class Report(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[Obj]:
        found: list[Obj] = json.loads(self.out)["checks"]
        return found

    def of(self, check: str) -> list[tuple[str, str]]:
        return [(line["status"], line["message"]) for line in self.lines if line["check"] == check]


@contextmanager
def playing(world: World) -> Iterator[ScriptedApi]:
    with scripted_api() as api:
        for path, answer in world.get.items():
            api.routes["GET", path] = play(answer, (), world.ahead.get(path, 0))
        for path, answer in world.post.items():
            api.routes["POST", path] = play(answer, world.warnings if path == TRIED else ())
        proxied = f"{OURS}/services/http:forewarn:health/proxy"
        for path in (f"{proxied}/readyz", f"{proxied}/metrics", f"{VALIDATE}/forewarn", f"{MUTATE}/forewarn"):
            api.routes.setdefault(("GET", path), api.reject(404, "not found"))
        yield api


def play(answer: Any, warnings: tuple[str, ...], ahead: int = 0) -> Callable[[Handler], None]:
    def played(handler: Handler) -> None:
        handler.date_time_string = lambda _=None: formatdate(round(time.time()) + ahead, usegmt=True)  # type: ignore[assignment]
        status, body = (200, answer) if not isinstance(answer, tuple) else answer
        if isinstance(body, str):
            body = {"kind": "Status", "code": status, "message": body}
        header = ", ".join(f'299 - "{text}"' for text in warnings)
        handler.answer(status, body, Warning=header.encode().decode("latin-1"))

    return played


@pytest.fixture
def examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Report]:
    def examine(world: World, *flags: str) -> Report:
        with playing(world) as api:
            monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config", api.url)))
            status = main(list(flags or ("-o", "json")))
        for path, body in api.posted:
            assert path in (REVIEWS, WHO) or "generateName" in body["metadata"], path
        asked = [query for verb, path, query, _ in api.requests if verb == "post" and path not in (REVIEWS, WHO)]
        assert all(query == {"dryRun": "All"} for query in asked), asked
        told = capsys.readouterr()
        return Report(status, told.out, told.err)

    return examine


def test_an_installation_as_it_should_be(examined: Callable[..., Report]) -> None:
    world = World()
    world.post[REVIEWS] = {"status": {"allowed": True}}
    report = examined(world)
    assert [line for line in report.lines if line["status"] != "ok"] == []
    assert report.status == 0
    assert {line["area"] for line in report.lines} == {
        "registration",
        "trust",
        "responses",
        "predictions",
        "configuration",
    }
    assert report.of("dry run of a Deployment") == [("ok", "forewarn warns: " + WARNED.replace("\\", ""))]
    assert examined(world, "-o", "text").out.startswith(f"no problems: {len(report.lines)} checks\n")


def test_whoever_may_see_nothing_is_told_so(examined: Callable[..., Report]) -> None:
    world = World()
    world.refuse_everything()
    report = examined(world)
    assert {line["status"] for line in report.lines} == {"unknown"}
    assert [line for line in report.lines if not re.search("no permission|does not report", line["message"])] == []
    assert report.status == 0


def change(*path: Any, to: Any) -> Callable[[World], None]:
    """Another answer at a path, or another value in it."""

    def changed(world: World) -> None:
        if len(path) == 1:
            world.get[path[0]] = to
            return
        at = world.get[path[0]]
        for step in path[1:-1]:
            at = at[step]
        at[path[-1]] = to

    return changed


RULES: Final = packaged("shipped.json")[VALIDATING]["validate.forewarn.dev"]["rules"]


def of_webhook(name: str, field: str, value: Any) -> Callable[[World], None]:
    return lambda world: world.webhook(name).update({field: value})


def test_a_shortened_name_in_a_warning_is_shown_as_kubectl_shows_it(examined: Callable[..., Report]) -> None:
    world = World()
    world.warnings = ("Deployment shop…x7k2p [unknown-priority-class]",)
    assert examined(world).of("dry run of a Deployment") == [("ok", f"forewarn warns: {world.warnings[0]}")]


def called(name: str, **fields: Any) -> Callable[[World], None]:
    return lambda world: world.webhook(name)["clientConfig"].update(deepcopy(fields))  # repairs change the world


def posted(path: str, answer: Any) -> Callable[[World], None]:
    return lambda world: world.post.update({path: answer})


def silent(world: World) -> None:
    world.warnings = ()


def quiet(configuration: str) -> Callable[[World], None]:
    """No warning comes, with this configuration."""

    def made(world: World) -> None:
        silent(world)
        world.get[CONFIG] = {"data": {"forewarn.yaml": f"{configuration}\n"}}

    return made


def excluded_namespace(world: World) -> None:
    silent(world)
    world.webhook(MAIN)["namespaceSelector"] = {"matchLabels": {"a": "b"}}
    world.get["/api/v1/namespaces/default"] = {"metadata": {"name": "default", "labels": {"a": "c"}}}


def some_namespaces(world: World) -> None:
    """The selector selects another namespace."""
    excluded_namespace(world)
    world.get[NAMESPACES]["items"].append({"metadata": {"name": "shop", "labels": {"a": "b"}}})


def excluded_object(world: World) -> None:
    silent(world)
    world.webhook(MAIN)["objectSelector"] = {"matchLabels": {"a": "b"}}


def hidden_namespace(world: World) -> None:
    excluded_namespace(world)
    world.get["/api/v1/namespaces/default"] = (403, "forbidden: cannot get")


def unreadable(world: World) -> None:
    silent(world)
    world.get[CONFIG] = (403, "forbidden: cannot get")


def registered_service(**fields: Any) -> Callable[[World], None]:
    """The main webhook calls another Service or port."""
    return lambda world: world.webhook(MAIN)["clientConfig"]["service"].update(fields)


def without_pods(world: World) -> None:
    world.webhook("validate.forewarn.dev")["rules"].pop(0)


def scaled_to_0(world: World) -> None:
    world.get[INJECTOR_DEPLOYMENT] = {"spec": {"replicas": 0}}


def without_injector(world: World) -> None:
    scaled_to_0(world)
    called("mutate.forewarn.dev", caBundle="")(world)


def hanging(world: World) -> None:
    """Its process is stopped: neither the API server nor the kubelet gets an answer."""
    world.get[f"{POD}/readyz"] = (504, "timeout")
    world.get[f"{OURS}/pods"]["items"][0]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]


def front(world: World) -> None:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    webhook = {"name": "inject.example.com", "rules": [rule], "failurePolicy": "Fail"}
    world.get[MUTATE]["items"].append({"metadata": {"name": "injector"}, "webhooks": [webhook]})


def another_configuration(world: World) -> None:
    """Whose webhooks differ, and are not taken for those of forewarn."""
    copied = deepcopy(world.get[VALIDATE]["items"][0])
    for webhook in copied["webhooks"]:
        webhook |= {"rules": [], "clientConfig": {"service": {"namespace": "elsewhere", "name": "forewarn"}}}
    world.get[VALIDATE]["items"].append({**copied, "metadata": {"name": "forewarn-old"}})


def other_names(world: World) -> None:
    webhook = {**deepcopy(world.webhook("mutate.forewarn.dev")), "name": "mutate.example.com"}
    world.get[MUTATE]["items"].insert(0, {"metadata": {"name": "my-webhooks"}, "webhooks": [webhook]})


def narrowed(world: World) -> None:
    condition = {"name": "only-mine", "expression": "request.name == 'mine'"}
    world.webhook("mutate.forewarn.dev")["matchConditions"].append(condition)


def exempt(world: World) -> None:
    until = (NOW + timedelta(hours=1)).isoformat()
    annotations = {"forewarn.dev/exempt-until": until}
    world.get[NAMESPACES]["items"].append({"metadata": {"name": "shop", "annotations": annotations}})


def another_version(world: World) -> None:
    world.get[f"{OURS}/pods"]["items"].append({"metadata": {"name": "forewarn-1"}, "status": {"phase": "Running"}})
    path = POD.replace("forewarn-0", "forewarn-1")
    world.get |= {f"{path}/readyz": b"ok", f"{path}/metrics": metrics().replace(VERSION.encode(), b"0.0.9")}


def metric(**values: str) -> Callable[[World], None]:
    return change(f"{POD}/metrics", to=metrics(**values))


def failing(message: str) -> str:
    return f'Internal error occurred: failed calling webhook "classes.validate.forewarn.dev": {message}'


URL = f"https://forewarn.forewarn.svc:443/validate/{TOKEN}?timeout=5s"


def selecting(field: str, path: str, obj: Obj) -> Callable[[World], None]:
    """A selector, and one object more of those to which it applies."""

    def made(world: World) -> None:
        world.webhook(MAIN)[field] = {"matchLabels": {"a": "b"}}
        world.get[path]["items"].append(obj)

    return made


def ahead(path: str, seconds: int) -> Callable[[World], None]:
    return lambda world: world.ahead.update({path: seconds})


def waiting(state: Obj, **status: Any) -> Callable[[World], None]:
    """The container of the replica does not run."""

    def made(world: World) -> None:
        world.get[f"{OURS}/pods"]["items"][0]["status"]["containerStatuses"] = [{"state": {"waiting": state}, **status}]

    return made


def crashed(state: Obj, log: bytes) -> Callable[[World], None]:
    def made(world: World) -> None:
        waiting(state["waiting"], restartCount=4, lastState={"terminated": {"exitCode": 2, "reason": "Error"}})(world)
        world.get[f"{OURS}/pods/forewarn-0/log"] = log

    return made


ANNOTATED = {
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "creationTimestamp": "2026-01-12T04:00:00Z",
        "annotations": {"forewarn.dev/preemption-impact": '{"preemptions":[{"victims":["a"],"unnamedVictims":2}]}'},
    }
}
COARSE = {
    "metadata": {
        **ANNOTATED["metadata"],
        "annotations": {"forewarn.dev/preemption-impact": '{"coarse":true,"preemptions":[{"unnamedVictims":6}]}'},
    }
}
NOT_PREDICTED = {
    "metadata": {
        **ANNOTATED["metadata"],
        "annotations": {"forewarn.dev/preemption-impact": '{"notPredicted":"too many predictions"}'},
    }
}
EXPIRED = NOW - timedelta(days=400)
OVER = {"metadata": {"name": "q", "namespace": "shop"}, "spec": {"hard": {"pods": "1"}, "scopes": ["None"]}}
UNKNOWN_DEFAULT = {"metadata": {"name": "shop", "annotations": {"forewarn.dev/default-priority-class": "wbe"}}}

WRONG: list[tuple[str, Callable[[World], None], str, str, str]] = [
    ("not registered", change(VALIDATE, to=items()), VALIDATING, "problem", "API servers do not call forewarn"),
    ("audit only", change(MUTATE, to=items()), MUTATING, "warning", "no annotations"),
    ("a webhook less", lambda w: w.get[VALIDATE]["items"][0]["webhooks"].pop(0), VALIDATING, "problem", "is missing"),
    ("a rule less", without_pods, VALIDATING, "problem", "is not called for CREATE of pods, UPDATE of pods"),
    ("exact", of_webhook("mutate.forewarn.dev", "matchPolicy", "Exact"), MUTATING, "problem", "matchPolicy is Exact"),
    (
        "fails open",
        of_webhook("classes.validate.forewarn.dev", "failurePolicy", "Ignore"),
        VALIDATING,
        "warning",
        "there can be two global defaults",
    ),
    (
        "fails closed",
        of_webhook("validate.forewarn.dev", "failurePolicy", "Fail"),
        VALIDATING,
        "warning",
        "requests are rejected while forewarn does not respond",
    ),
    ("time", of_webhook("validate.forewarn.dev", "timeoutSeconds", 30), VALIDATING, "warning", "timeoutSeconds is 30"),
    (
        "namespaces",
        of_webhook("validate.forewarn.dev", "namespaceSelector", {"matchLabels": {"a": "b"}}),
        VALIDATING,
        "problem",
        'has the namespaceSelector {"matchLabels": {"a": "b"}}, which selects none of 1 namespaces',
    ),
    (
        "some namespaces",
        selecting("namespaceSelector", NAMESPACES, {"metadata": {"name": "shop", "labels": {"a": "b"}}}),
        VALIDATING,
        "warning",
        'has the namespaceSelector {"matchLabels": {"a": "b"}}, which selects 1 of 2 namespaces',
    ),
    (
        "no objects",
        selecting("objectSelector", "/apis/apps/v1/deployments", ANNOTATED),
        VALIDATING,
        "problem",
        'has the objectSelector {"matchLabels": {"a": "b"}}, which selects none of 1 Deployments',
    ),
    (
        "review versions",
        of_webhook("validate.forewarn.dev", "admissionReviewVersions", ["v1beta1"]),
        VALIDATING,
        "problem",
        "admissionReviewVersions is v1beta1, and forewarn answers only v1",
    ),
    (
        "one webhook's Service",
        called("validate.forewarn.dev", service={"namespace": "forewarn", "name": "forwarn"}),
        VALIDATING,
        "problem",
        "validate.forewarn.dev is called at the Service forewarn/forwarn, the others at forewarn/forewarn",
    ),
    (
        "the scope of a rule",
        of_webhook("validate.forewarn.dev", "rules", [rule | {"scope": "Cluster"} for rule in RULES]),
        VALIDATING,
        "problem",
        "validate.forewarn.dev is not called for CREATE of pods",
    ),
    ("this clock", ahead("/version", 400), "clocks", "warning", "the clock of this machine is "),
    (
        "a replica's clock",
        ahead(f"{POD}/metrics", -90),
        "clocks",
        "warning",
        "the clock of forewarn-0 is ",
    ),
    (
        "no ingress",
        change(POLICIES, to=items(network_policy(**{"from": [{"namespaceSelector": {}}]}))),
        "NetworkPolicy",
        "warning",
        "forewarn select the Pods and admit no API server on port 8443, if the network plugin enforces them",
    ),
    (
        "another port",
        change(POLICIES, to=items(network_policy(ports=[{"port": 443, "endPort": 8000}]))),
        "NetworkPolicy",
        "warning",
        "admit no API server on port 8443",
    ),
    (
        "addresses",
        change(
            POLICIES,
            to=items(
                network_policy(
                    ports=[{"port": 8000, "endPort": 9000}], **{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}
                )
            ),
        ),
        "NetworkPolicy",
        "ok",
        "forewarn: API servers reach port 8443",
    ),
    (
        "no default lease",
        change(DEFAULT_LEASE, to=(404, "no")),
        "Lease",
        "problem",
        "forewarn-global-default not found",
    ),
    (
        "crash",
        crashed({"waiting": {"reason": "CrashLoopBackOff"}}, b'{"level":"error","message":"cannot start: c.yaml:3"}\n'),
        "Pods",
        "problem",
        "forewarn-0: CrashLoopBackOff, exit code 2, 4 restarts: cannot start: c.yaml:3",
    ),
    (
        "no image",
        waiting({"reason": "ImagePullBackOff", "message": "Back-off pulling image"}),
        "Pods",
        "problem",
        "forewarn-0: ImagePullBackOff: Back-off pulling image",
    ),
    (
        "a stopped injector",
        change(LEASE, to={"spec": {"leaseTransitions": 1}}),
        "CA injector",
        "problem",
        "it has stopped and released its Lease: no certificate is issued or renewed",
    ),
    ("one condition more", narrowed, MUTATING, "warning", 'an additional matchCondition "only-mine"'),
    (
        "conditions gone",
        of_webhook("exemptions.validate.forewarn.dev", "matchConditions", []),
        VALIDATING,
        "warning",
        'has no matchCondition "sets-an-exemption"',
    ),
    (
        "another condition",
        lambda w: w.webhook("validate.forewarn.dev")["matchConditions"][0].update(expression="true"),
        VALIDATING,
        "warning",
        'the matchCondition "not-kube-system" differs: true',
    ),
    (
        "path",
        lambda w: w.webhook("validate.forewarn.dev")["clientConfig"]["service"].update(path="/mutate"),
        VALIDATING,
        "problem",
        "is called at the path /mutate instead of /validate",
    ),
    (
        "url",
        of_webhook("mutate.forewarn.dev", "clientConfig", {"url": "https://else.example/mutate"}),
        MUTATING,
        "warning",
        "is called at https://else.example/mutate",
    ),
    (
        "another configuration with the same webhooks",
        another_configuration,
        VALIDATING,
        "warning",
        "forewarn-old is another configuration that calls forewarn (classes.validate.forewarn.dev, exemptions.validate",
    ),
    (
        "another configuration that calls the Service",
        other_names,
        MUTATING,
        "warning",
        "my-webhooks is another configuration that calls forewarn (mutate.example.com); the CA injector does",
    ),
    ("another in front", front, "other webhooks", "ok", "injector (inject.example.com) can also change Pods"),
    ("no bundle", called("mutate.forewarn.dev", caBundle=""), "caBundle", "problem", "trust no certificate"),
    (
        "two bundles",
        called("mutate.forewarn.dev", caBundle="AAAA"),
        "caBundle",
        "warning",
        "mutate.forewarn.dev: differs",
    ),
    (
        "a wrong bundle",
        called("mutate.forewarn.dev", caBundle=base64.b64encode(Authority.make(NOW).certificate).decode()),
        "certificate",
        "problem",
        "not signed by a CA of caBundle: API servers do not trust it for mutate.forewarn.dev",
    ),
    (
        "no bundle but text",
        called("mutate.forewarn.dev", caBundle="AAAA"),
        "certificate",
        "problem",
        "caBundle has no PEM certificates",
    ),
    ("no injector Pods", scaled_to_0, "CA injector", "problem", "the Deployment is scaled to 0"),
    (
        "a replica hangs",
        hanging,
        "/readyz",
        "problem",
        "forewarn-0 answers neither this command nor the kubelet's probes",
    ),
    (
        "a replica that only the kubelet reaches",
        change(f"{POD}/readyz", to=(504, "timeout")),
        "/readyz",
        "unknown",
        "/readyz of forewarn-0: timeout",
    ),
    (
        "egress",
        change(POLICIES, to=items(egress({"ports": [{"port": 443}, {"port": 6443}]}))),
        "NetworkPolicy",
        "ok",
        "forewarn reaches any address on 443, 6443",
    ),
    (
        "restricted egress",
        change(POLICIES, to=items(egress({"ports": [{"port": 443}], "to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]}))),
        "NetworkPolicy",
        "ok",
        "forewarn reaches only the addresses in its rules",
    ),
    (
        "injector is away",
        change(LEASE, "spec", "renewTime", to=EXPIRED.isoformat()),
        "CA injector",
        "problem",
        "has not renewed its Lease",
    ),
    ("no injector", change(LEASE, to={"spec": {}}), "CA injector", "problem", "none has run yet"),
    (
        "no lease",
        change(LEASE, to=(404, "not found")),
        "CA injector",
        "problem",
        "Lease forewarn-ca-injector not found",
    ),
    (
        "no secret",
        change(SECRET, to=(404, "not found")),
        "certificate",
        "problem",
        "Secret forewarn-serving-cert not found",
    ),
    ("empty secret", change(SECRET, to={}), "certificate", "problem", "no replica has a certificate"),
    ("no certificate", change(SECRET, to=secret(b"x")), "certificate", "problem", "no PEM certificate"),
    ("another CA", change(SECRET, to=secret(self_signed(NOW).chain)), "certificate", "problem", "not signed by a CA"),
    ("ended", change(SECRET, to=secret(self_signed(EXPIRED).chain)), "certificate", "problem", "expired at"),
    (
        "another name",
        change(SECRET, to=secret(self_signed(NOW, ("localhost",)).chain)),
        "certificate",
        "problem",
        "valid for localhost, not for forewarn.forewarn.svc",
    ),
    ("none ready", change(DEPLOYMENT, "status", to={}), "replicas", "problem", "none of 2 is ready"),
    ("one ready", change(DEPLOYMENT, "status", "readyReplicas", to=1), "replicas", "warning", "1 of 2 are ready"),
    ("scaled down", change(DEPLOYMENT, "spec", "replicas", to=0), "replicas", "problem", "scaled to 0"),
    (
        "a quota in the way",
        change(
            DEPLOYMENT,
            "status",
            to={"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]},
        ),
        "replicas",
        "problem",
        "none of 2 is ready: exceeded quota",
    ),
    (
        "no deployment",
        change(DEPLOYMENT, to=(404, "not found")),
        "replicas",
        "warning",
        "Deployment forewarn not found",
    ),
    (
        "no service",
        change(f"{OURS}/services/forewarn", to=(404, "no")),
        "Service",
        "problem",
        "Service forewarn not found",
    ),
    (
        "no ports",
        change(f"{SERVICE}", "spec", "ports", to=[]),
        "Service",
        "problem",
        "none of its ports leads to container port 8443",
    ),
    (
        "a port that is not there",
        registered_service(port=444),
        "Service",
        "problem",
        "calls port 444, which the Service",
    ),
    (
        "the health port",
        registered_service(port=8080),
        "Service",
        "problem",
        "does not lead to the port of the webhook",
    ),
    (
        "another Service",
        registered_service(name="fw"),
        "Service",
        "problem",
        "calls the Service forewarn/fw instead of",
    ),
    ("another namespace", registered_service(namespace="x"), "Service", "problem", "the Service x/forewarn instead of"),
    ("a label more", change(SERVICE, "spec", "selector", "a", to="b"), "Service", "problem", "selects no Pod of the"),
    (
        "no selector",
        change(SERVICE, "spec", "selector", to={}),
        "Service",
        "problem",
        "selects no Pod of the Deployment",
    ),
    (
        "too wide a selector",
        change(SERVICE, "spec", "selector", to={"app.kubernetes.io/part-of": "forewarn"}),
        "Service",
        "warning",
        'that of the Deployment is {"app.kubernetes.io/name": "forewarn"}',
    ),
    ("no endpoints", change(SLICES, to=items()), "Service", "problem", "no endpoints"),
    (
        "no endpoint is ready",
        change(SLICES, to=items({"endpoints": [{"conditions": {"ready": False}}]})),
        "Service",
        "problem",
        "0 of 1 endpoints ready",
    ),
    (
        "x509",
        posted(CLASSES, (500, failing(f"Post {URL}: tls: failed to verify certificate: x509: unknown authority"))),
        "dry run of a PriorityClass",
        "problem",
        "API servers do not trust the certificate",
    ),
    (
        "refused connection",
        posted(CLASSES, (500, failing(f"Post {URL}: dial tcp 10.0.0.9:443: connect: connection refused"))),
        "dry run of a PriorityClass",
        "problem",
        "nothing listens behind the Service",
    ),
    (
        "too slow",
        posted(CLASSES, (500, failing(f"Post {URL}: context deadline exceeded"))),
        "dry run of a PriorityClass",
        "problem",
        "no response in time",
    ),
    (
        "its own refusal",
        posted(CLASSES, (403, 'admission webhook "classes.validate.forewarn.dev" denied the request: no')),
        "dry run of a PriorityClass",
        "ok",
        "forewarn responds, and denies it",
    ),
    (
        "another's refusal",
        posted(TRIED, (403, 'admission webhook "policy.example.com" denied the request: no')),
        "dry run of a Deployment",
        "unknown",
        "the webhook policy.example.com rejects it before forewarn",
    ),
    (
        "quota",
        posted(TRIED, (403, "exceeded quota")),
        "dry run of a Deployment",
        "unknown",
        "rejected by something else",
    ),
    ("no warning", silent, "dry run of a Deployment", "problem", "nothing exempts it"),
    (
        "rule is off",
        quiet('actions: {unknown-priority-class: "off"}'),
        "dry run of a Deployment",
        "warning",
        'to "off"',
    ),
    (
        "audit only",
        quiet("actions: {unknown-priority-class: audit}"),
        "dry run of a Deployment",
        "warning",
        'to "audit"',
    ),
    (
        "an exempt user",
        quiet("exemptions: [{reason: on call, groups: [sre]}]"),
        "dry run of a Deployment",
        "warning",
        "exempt (on call)",
    ),
    (
        "another exemption",
        quiet("exemptions: [{reason: on call, groups: [dba]}]"),
        "dry run of a Deployment",
        "problem",
        "nothing exempts it",
    ),
    (
        "a namespace that cannot be read",
        hidden_namespace,
        "dry run of a Deployment",
        "unknown",
        "its namespace may be exempt: ",
    ),
    ("a namespace left out", excluded_namespace, "dry run of a Deployment", "warning", "excludes the namespace"),
    (
        "unreadable configuration",
        unreadable,
        "dry run of a Deployment",
        "unknown",
        "forewarn's configuration was not read",
    ),
    (
        "not ready",
        change(f"{POD}/readyz", to=(503, b"no list of nodes yet\n")),
        "/readyz",
        "problem",
        "no list of nodes",
    ),
    (
        "not reached",
        change(f"{POD}/readyz", to=(503, "error trying to reach service: dial tcp: i/o timeout")),
        "/readyz",
        "unknown",
        "error trying to reach service",
    ),
    ("versions", another_version, "version", "warning", "replicas run different versions: 0.0.9"),
    (
        "skipped",
        metric(**{'forewarn_predictions_total{outcome="skipped"}': "3"}),
        "predictions",
        "warning",
        "3 skipped because the queue was full",
    ),
    (
        "wrong",
        metric(**{'forewarn_prediction_results_total{result="wrong"}': "1.0"}),
        "predictions",
        "warning",
        "Pods as predicted: 2 of 3 (66%); explained: 0; wrong: 1",
    ),
    ("old", metric(forewarn_cache_age_seconds="300"), "cluster state", "warning", "no message from the API server"),
    (
        "refused file",
        metric(**{'forewarn_file_rejected{file="config"}': "1.0"}),
        "files",
        "problem",
        "rejects the changed config and uses the previous content",
    ),
    (
        "last prediction",
        change("/apis/apps/v1/deployments", to=items(ANNOTATED)),
        "last prediction",
        "ok",
        "Deployment shop/web, created 2026-01-12T04:00:00Z: would preempt 3 Pods",
    ),
    (
        "last prediction in ranges",
        change("/apis/apps/v1/deployments", to=items(COARSE)),
        "last prediction",
        "ok",
        "would preempt at least 6 Pods",
    ),
    (
        "last prediction not shown",
        change("/apis/apps/v1/deployments", to=items(NOT_PREDICTED)),
        "last prediction",
        "ok",
        "2026-01-12T04:00:00Z: not predicted: too many predictions",
    ),
    ("old cluster", change("/version", to={"gitVersion": "v1.29.1"}), "Kubernetes", "problem", "matchConditions"),
    ("new cluster", change("/version", to={"gitVersion": "v1.99.0"}), "Kubernetes", "warning", "not predicted"),
    (
        "configuration",
        change(CONFIG, "data", to={"forewarn.yaml": "actoins: {}"}),
        "configuration",
        "problem",
        "is invalid: forewarn.yaml:1",
    ),
    (
        "switched off",
        change(CONFIG, "data", to={"forewarn.yaml": 'actions: {fits-nowhere: "off", priority-mismatch: audit}'}),
        "configuration",
        "ok",
        "off: fits-nowhere; audit only: 1 rule",
    ),
    (
        "rights",
        posted(REVIEWS, {"status": {"allowed": False}}),
        "permissions",
        "problem",
        ": get priorityclasses",
    ),
    (
        "two defaults",
        change(
            CLASSES,
            to=items(
                priority_class("forewarn", 1),
                priority_class("a", 1, globalDefault=True),
                priority_class("b", 2, globalDefault=True),
            ),
        ),
        "PriorityClass",
        "problem",
        "[global-default-not-unique]",
    ),
    (
        "reserved name",
        change(CLASSES, to=items(priority_class("forewarn", 1), priority_class("system-mine", 1))),
        "PriorityClass",
        "problem",
        "[reserved-system-name]",
    ),
    (
        "its own class is gone",
        change(CLASSES, to=items()),
        "priorityclasses",
        "problem",
        "PriorityClass forewarn of forewarn's Pods not found",
    ),
    ("a quota's scope", change(QUOTAS, to=items(OVER)), "ResourceQuota", "problem", "[quota-scope-invalid]"),
    (
        "a namespace's class",
        change(NAMESPACES, to=items(UNKNOWN_DEFAULT)),
        "Namespace",
        "problem",
        "[unknown-default-class]",
    ),
    ("an exemption", exempt, "exemptions", "warning", "forewarn.dev/exempt-until on namespace shop"),
]


@pytest.mark.parametrize(
    ("break_it", "check", "status", "told"), [case[1:] for case in WRONG], ids=[c[0] for c in WRONG]
)
def test_each_thing_that_goes_wrong_is_told_with_a_fix(
    examined: Callable[..., Report], break_it: Callable[[World], None], check: str, status: str, told: str
) -> None:
    world = World()
    break_it(world)
    report = examined(world)
    found = [line for line in report.lines if line["check"] == check and line["status"] == status]
    assert any(told in line["message"] for line in found), report.out
    assert TOKEN not in report.out
    for line in report.lines:
        assert line["fix"] or line["status"] in ("ok", "unknown"), line
    assert report.status == any(line["status"] == "problem" for line in report.lines)


REPAIRED = (
    *("exact", "fails open", "fails closed", "time", "namespaces", "one condition more", "path", "no ports"),
    *("some namespaces", "no objects", "review versions", "one webhook's Service"),
    *("a port that is not there", "the health port", "another Service", "another namespace", "a label more"),
    *("no selector", "too wide a selector"),
)
"""The cases of WRONG whose fix is a command."""


@pytest.mark.parametrize("case", REPAIRED)
def test_the_printed_command_repairs(examined: Callable[..., Report], case: str) -> None:
    """Each `kubectl patch` of the report is done to the world, and then nothing is wrong with it."""
    world = World()
    next(wrong[1] for wrong in WRONG if wrong[0] == case)(world)
    commands = [line["fix"] for line in examined(world).lines if "kubectl patch" in line["fix"]]
    assert commands
    for command in commands:
        _, _, kind, name, *options = shlex.split(command[command.index("kubectl") :])
        assert name == "forewarn"
        patched(world.get[SERVICE] if kind == "service" else config_of(world, kind), json.loads(options[-1]))
    report = examined(world)
    assert (report.status, [line for line in report.lines if line["status"] not in ("ok", "unknown")]) == (0, [])


@pytest.mark.parametrize(
    ("break_it", "check", "fix"),
    [
        (change(SECRET, to=(404, "no")), "certificate", "create secret generic forewarn-serving-cert;"),
        (change(f"{POD}/readyz", to=(503, "error trying to reach service: connection refused")), "/readyz", "the log"),
        (change(f"{POD}/readyz", to=(503, "error trying to reach service: timeout")), "/readyz", "network policy"),
        (change(LEASE, to={"spec": {"leaseTransitions": 1}}), "CA injector", "start it if there is none"),
        (
            called("mutate.forewarn.dev", caBundle=""),
            "caBundle",
            "wait a minute; then kubectl -n forewarn logs deployment",
        ),
        (without_injector, "CA injector", "kubectl -n forewarn scale deployment/forewarn-ca-injector --replicas=1"),
        (
            without_injector,
            "caBundle",
            "start the CA injector: kubectl -n forewarn scale deployment/forewarn-ca-injector",
        ),
        (another_configuration, VALIDATING, "kubectl delete validatingwebhookconfiguration forewarn-old"),
        (excluded_namespace, "dry run of a Deployment", f"see the check {VALIDATING}"),
        (some_namespaces, "dry run of a Deployment", "pass another namespace with --namespace"),
        (excluded_object, "dry run of a Deployment", f"see the check {VALIDATING}"),
        (hanging, "/readyz", "the kubelet restarts it within a minute"),
        (
            posted(CLASSES, (500, failing("context deadline exceeded"))),
            "dry run of a PriorityClass",
            "see the check /readyz",
        ),
    ],
)
def test_the_fix_is_about_the_cause(
    examined: Callable[..., Report], break_it: Callable[[World], None], check: str, fix: str
) -> None:
    world = World()
    break_it(world)
    assert any(fix in line["fix"] for line in examined(world).lines if line["check"] == check)


@pytest.mark.parametrize(("status", "fix"), [(404, "pass another namespace with --namespace"), (0, "")])
def test_another_namespace_helps_only_if_the_api_server_answers(
    examined: Callable[..., Report], monkeypatch: pytest.MonkeyPatch, status: int, fix: str
) -> None:
    created = Client.create

    def unanswered(self: Client, path: str, *arguments: Any, **more: Any) -> Seen:
        return Seen({}, "no answer", status) if path == TRIED else created(self, path, *arguments, **more)

    monkeypatch.setattr(Client, "create", unanswered)
    (line,) = [line for line in examined(World()).lines if line["check"] == "dry run of a Deployment"]
    assert (line["status"], line["fix"]) == ("unknown", fix)


def config_of(world: World, kind: str) -> Obj:
    path = {VALIDATING.lower(): VALIDATE, MUTATING.lower(): MUTATE}[kind]
    found: Obj = world.get[path]["items"][0]
    return found


def patched(obj: Any, changes: list[Obj]) -> None:
    """JSON Patch (RFC 6902), as far as it is printed."""
    for change in changes:
        at = obj
        *steps, last = change["path"].strip("/").split("/")
        for step in steps:
            at = at[int(step) if isinstance(at, list) else step]
        key = int(last) if isinstance(at, list) else last
        if change["op"] == "test":
            assert at[key] == change["value"]
        elif change["op"] == "remove":
            del at[key]
        else:
            assert change["op"] == "add" or key in at
            at[key] = change["value"]


def test_of_version_skew_both_are_told(examined: Callable[..., Report]) -> None:
    world = World()
    world.get[f"{POD}/metrics"] = metrics().replace(VERSION.encode(), b"9.9.9")
    assert examined(world).of("version") == [
        ("warning", f"the webhook is 9.9.9, this command is {VERSION}; their results may differ")
    ]


def test_a_mounted_certificate_is_looked_for_where_it_is_mounted(examined: Callable[..., Report]) -> None:
    world = World()
    spec = world.get[DEPLOYMENT]["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "tls", "secret": {"secretName": "forewarn-tls"}}]
    spec["containers"][0] |= {
        "env": [{"name": "FOREWARN_TLS_CERT", "value": "/etc/forewarn-tls/tls.crt"}],
        "volumeMounts": [{"name": "tls", "mountPath": "/etc/forewarn-tls"}],
    }
    world.get[f"{OURS}/secrets/forewarn-tls"] = world.get.pop(SECRET)
    world.get[LEASE] = (404, "no")
    report = examined(world)
    assert [status for status, _ in report.of("certificate")] == ["ok"]
    assert report.of("CA injector") == []


def test_names_of_the_cluster_are_printed_safely(examined: Callable[..., Report]) -> None:
    world = World()
    name = "\x1b[2J\u202eevil\n::error::x"
    world.get[CLASSES]["items"].append(priority_class(name, 1, globalDefault=True))
    world.get["/apis/apps/v1/deployments"] = items({**ANNOTATED, "metadata": {**ANNOTATED["metadata"], "name": name}})
    world.get[f"{POD}/readyz"] = (503, b"\x1b]0;title\x07\n")
    report = examined(world, "--color", "always")
    assert report.status == 1
    assert "\x1b[2J" not in report.out
    assert "\x1b]" not in report.out
    assert "\u202e" not in report.out
    assert not any(line.startswith("::") for line in report.out.splitlines())


def test_a_great_many_faults_make_a_short_report(examined: Callable[..., Report]) -> None:
    world = World()
    world.get[CLASSES] = items(*(priority_class(f"system-{i:03}", i) for i in range(300)))
    report = examined(world)
    reserved = [line for line in report.lines if "[reserved-system-name]" in line["message"]]
    assert len(reserved) == 10
    assert "(and 290 more checks like this)" in reserved[-1]["message"]


def test_lists_are_read_so_far_and_no_further(examined: Callable[..., Report]) -> None:
    world = World()
    page = {"items": [priority_class("forewarn", 1)], "metadata": {"continue": "more"}}
    world.get[CLASSES] = page
    (line,) = examined(world).of("objects")
    assert line[0] == "ok"
    assert "not all were read" in line[1]


def test_without_time_the_rest_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 0.0, 0.5])
    with playing(World()) as api:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config", api.url)))
        lines = examine(Client(client(), 1.0, lambda: next(ticks, 2.0)), {"gitVersion": "v1.36.3"}, "default", Now(NOW))
    assert [line.status for line in lines if line.area == "registration"] == ["ok", "ok"]
    assert [line.status for line in lines if line.area == "trust"] == ["unknown", "unknown"]
    assert all(line.message.startswith("no time left") for line in lines if line.area == "trust")


def test_malformed_answers_are_no_traceback(examined: Callable[..., Report]) -> None:
    """Each answer in turn is something else than it should be."""
    for path in World().get:
        for answer in ({"items": [7, {}], "spec": 7, "data": [], "metadata": 7, "webhooks": {}}, b"no JSON"):
            world = World()
            world.get[path] = answer
            assert examined(world).status in ((0, 1, 3) if path == "/version" else (0, 1)), path


def test_the_table_has_a_line_for_each_check_and_its_fix_below(examined: Callable[..., Report]) -> None:
    world = World()
    silent(world)
    report = examined(world, "-o", "text")
    lines = report.out.splitlines()
    at = next(index for index, line in enumerate(lines) if "no warning about" in line)
    assert lines[at].split()[:2] == ["responses", "problem"]
    assert lines[at + 1].split()[0] == "Fix:"
    assert report.status == 1
    assert lines[0].startswith("1 problem, 1 not checked: ")
    assert [line.split()[1] for line in lines[1:] if line[:1].strip()] == sorted(
        (line.split()[1] for line in lines[1:] if line[:1].strip()), key=("problem", "warning", "unknown", "ok").index
    )


def test_an_api_server_that_is_not_there_is_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config", "http://127.0.0.1:1")))
    assert main([]) == 3
    error = capsys.readouterr().err
    assert "does not answer" in error
    assert error.endswith("Fix: check kubectl cluster-info, or pass --context NAME or --kubeconfig FILE\n")


def as_on_the_page() -> World:
    """A replica short, a second default class, and nobody who may read Secrets or make access reviews."""
    world = World()
    world.get[DEPLOYMENT]["status"]["readyReplicas"] = 1
    world.get[SLICES]["items"][0]["endpoints"].pop()
    world.get[SECRET] = (403, "secrets is forbidden")
    classes = (priority_class("forewarn", 1_000_000), *(priority_class(n, 1, globalDefault=True) for n in "ab"))
    world.get[CLASSES] = items(*classes)
    return world


def test_the_page_shows_what_the_command_prints(examined: Callable[..., Report]) -> None:
    """`UPDATE=1` writes the real output into the page."""
    page = Path("docs/guides/troubleshoot.md")
    (shown,) = re.findall(r"```console\n\$ kubectl forewarn webhook doctor\n(.*?)```", page.read_text(), re.DOTALL)
    report = examined(as_on_the_page(), "-o", "text")
    if os.environ.get("UPDATE"):
        page.write_text(page.read_text().replace(f"doctor\n{shown}```", f"doctor\n{report.out}{report.err}```"))
    assert shown == report.out + report.err


@pytest.mark.parametrize("flags", [["--cluster", "dump.json"], ["--timeout", "0"], ["--timeout", "x"], ["-o", "yaml"]])
def test_wrong_usage(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(flags)
    assert ended.value.code == 2
    assert capsys.readouterr().err
