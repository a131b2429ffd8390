"""The chart by the real helm: what it renders, and its life on the API server, with forewarn there and without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.e2e.build import HELM, binaries
from tests.e2e.control_plane import Told
from tests.e2e.installation import CONFIGURATIONS, MANIFESTS, NAMESPACE, rendered
from tests.e2e.load import creating, load
from tests.e2e.objects import priority_class
from tests.e2e.test_upgrade import unknown_class, written
from tests.e2e.truth import wait_until
from tests.e2e.webhook import Webhook, failed_open

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

    Helm = Callable[..., Told]

pytestmark = [pytest.mark.e2e, pytest.mark.whole]

CHART = MANIFESTS / "chart"
RELEASED = sorted((MANIFESTS.parent / "tests/e2e/released").iterdir())
OVERLAYS = sorted(path.name for path in (MANIFESTS / "overlays").iterdir())
UNORDERED = ("env", "volumeMounts", "volumes")
"""Lists whose order means nothing here, and which kustomize orders in its own way."""


@pytest.fixture(scope="module")
def helm(plane: ControlPlane) -> Helm:
    """The real one, with the rights of an administrator."""
    environment = {**os.environ, "HOME": str(plane.home), "KUBECONFIG": str(plane.kubeconfig())}
    environment |= {f"HELM_{what}_HOME": str(plane.home / "helm") for what in ("CACHE", "CONFIG", "DATA")}

    def run(*arguments: str | Path) -> Told:
        command = [str(binaries(HELM) / "helm"), *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        return Told(done.returncode, done.stdout, done.stderr)

    return run


def templated(helm: Helm, *arguments: str | Path) -> list[Obj]:
    told = helm("template", "any", CHART, *arguments)
    assert told.status == 0, told.err
    return [obj for obj in yaml.safe_load_all(told.out) if obj]


def comparable(objects: list[Obj]) -> dict[tuple[str, ...], Any]:
    """By what an object is called, and with no order where it means nothing; no object is there twice."""
    found: dict[tuple[str, ...], Any] = {
        (obj["apiVersion"], obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): _same(obj)
        for obj in objects
    }
    assert len(found) == len(objects)
    return found


def _same(node: Any, key: str = "") -> Any:
    if isinstance(node, dict):
        return {name: _same(value, name) for name, value in node.items()}
    if key == "forewarn.yaml":
        config = yaml.safe_load(node)
        return {name: value for name, value in config.items() if value != {}}
    if key == "expression":
        return " ".join(node.split())  # kustomize adds empty lines where a folded text is indented more
    if key in UNORDERED:
        node = sorted(node, key=lambda item: str(item["name"]))
    return [_same(item) for item in node] if isinstance(node, list) else node


def test_without_values_it_is_the_base(plane: ControlPlane, helm: Helm) -> None:
    assert comparable(templated(helm)) == comparable(rendered(plane, MANIFESTS / "base"))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_with_the_values_of_an_overlay_it_is_that(plane: ControlPlane, helm: Helm, overlay: str) -> None:
    values = CHART / f"ci/{overlay}-values.yaml"
    told = helm("lint", "--strict", CHART, "--values", values)
    assert told.status == 0, told.out
    expected = comparable(rendered(plane, MANIFESTS / "overlays" / overlay))
    assert comparable(templated(helm, "--values", values)) == expected


def test_where_the_release_is_kept_the_namespace_is_there_already(helm: Helm) -> None:
    kinds = {obj["kind"] for obj in templated(helm)}
    assert kinds - {obj["kind"] for obj in templated(helm, "--namespace", NAMESPACE)} == {"Namespace"}


EVERYTHING = {
    "image": {"digest": f"sha256:{'ab' * 32}", "pullPolicy": "Always", "pullSecrets": [{"name": "registry"}]},
    "nodeSelector": {"pool": "control"},
    "tolerations": [{"key": "control", "operator": "Exists"}],
    "config": {"actions": {"unknown-priority-class": "deny"}, "disclose": "own-namespace"},
    "failurePolicy": "Ignore",
    "excludeNamespaces": ["build", "build-2"],
    "schedulerConfig": {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"},
    "settings": {"max-in-flight": 100000, "max-cache-age": 0.5, "kubernetes-version": "1.36"},
    "priorityClassName": "ours",
    "certManager": {"enabled": True, "issuerRef": {"kind": "ClusterIssuer", "name": "internal"}},
    "networkPolicy": {"monitoringNamespace": "observability", "apiServerPorts": [16443]},
    "monitoring": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "runbookURL": "https://runbooks.example/forewarn",
    },
}


@pytest.fixture(scope="module")
def everything(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Obj]:
    """Kind and name -> object, where most values are set."""
    values = tmp_path_factory.mktemp("values") / "values.yaml"
    values.write_text(yaml.safe_dump(EVERYTHING))
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in templated(helm, "--values", values)}


def test_the_log_level_is_that_of_both_deployments(helm: Helm) -> None:
    level = {"name": "FOREWARN_LOG_LEVEL", "value": "warning"}
    objects = templated(helm, "--set", "settings.log-level=warning")
    deployments = [obj["spec"]["template"]["spec"] for obj in objects if obj["kind"] == "Deployment"]
    assert [level in pod["containers"][0]["env"] for pod in deployments] == [True, True]


def test_each_value_arrives(everything: dict[tuple[str, str], Obj]) -> None:
    pod = everything["Deployment", "forewarn"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert (container["image"], container["imagePullPolicy"]) == (f"forewarn@sha256:{'ab' * 32}", "Always")
    assert (pod["imagePullSecrets"], pod["priorityClassName"]) == ([{"name": "registry"}], "ours")
    assert (pod["nodeSelector"], pod["tolerations"]) == (EVERYTHING["nodeSelector"], EVERYTHING["tolerations"])
    assert (
        variables.items()
        >= {
            "FOREWARN_SCHEDULER_CONFIG": "/etc/forewarn/scheduler.yaml",
            "FOREWARN_MAX_IN_FLIGHT": "100000",
            "FOREWARN_MAX_CACHE_AGE": "0.5",
            "FOREWARN_KUBERNETES_VERSION": "1.36",
        }.items()
    )
    files = everything["ConfigMap", "forewarn"]["data"]
    assert {name: yaml.safe_load(text) for name, text in files.items()} == {
        "forewarn.yaml": EVERYTHING["config"],
        "scheduler.yaml": EVERYTHING["schedulerConfig"],
    }
    webhooks = [webhook for kind in CONFIGURATIONS for webhook in everything[kind, "forewarn"]["webhooks"]]
    assert {webhook["failurePolicy"] for webhook in webhooks} == {"Ignore"}
    alerts = [rule for group in everything["PrometheusRule", "forewarn"]["spec"]["groups"] for rule in group["rules"]]
    assert {alert["annotations"]["runbook_url"].partition("#")[0] for alert in alerts} == {
        "https://runbooks.example/forewarn"
    }
    exclusions = [c["expression"] for w in webhooks for c in w["matchConditions"] if c["name"].startswith("not-excl")]
    assert exclusions == ['!has(request.namespace) || !(request.namespace in ["build","build-2"])'] * 2
    policy = everything["NetworkPolicy", "forewarn"]["spec"]
    assert policy["egress"] == [{"ports": [{"port": 16443, "protocol": "TCP"}]}]
    assert "observability" in json.dumps(policy["ingress"])
    assert everything["Certificate", "forewarn-tls"]["spec"]["issuerRef"] == {
        "kind": "ClusterIssuer",
        "name": "internal",
    }
    for kind, name in (
        ("ServiceMonitor", "forewarn"),
        ("PodMonitor", "forewarn-ca-injector"),
        ("PrometheusRule", "forewarn"),
    ):
        assert everything[kind, name]["metadata"]["labels"] == {"release": "prometheus"}
    absent = [("PriorityClass", "forewarn"), ("Issuer", "forewarn-ca"), ("Deployment", "forewarn-ca-injector")]
    assert not {*absent} & everything.keys()


def test_what_is_left_out_by_values_is_accepted_by_the_api_server(
    plane: ControlPlane, installed: Installation, everything: dict[tuple[str, str], Obj]
) -> None:
    items = [everything[kind, "forewarn"] for kind in (*CONFIGURATIONS, "Deployment", "NetworkPolicy", "ConfigMap")]
    told = plane.kubectl(
        "apply", "--dry-run=server", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    )
    assert (told.status, told.err) == (0, "")


@pytest.mark.parametrize(
    "wrong",
    [
        "replica=3",
        "replicas=0",
        "image.digest=latest",
        "auditOnly=maybe",
        "settings.max-in-fligth=3",
        "config.actoins.unknown-priority-class=deny",
        "config.actions.unknown-priority-class=refuse",
        'excludeNamespaces={a"b}',
        "failurePolicy=Open",
    ],
)
def test_a_value_that_means_nothing_is_refused(helm: Helm, wrong: str) -> None:
    told = helm("template", "any", CHART, "--set", wrong)
    assert told.status != 0
    assert "values don't meet the specifications of the schema" in told.err


RENDERER = """\
#!{python}
import sys, yaml
objects = [obj for obj in yaml.safe_load_all(sys.stdin) if obj]
for obj in objects:
    if obj["kind"] == "Service":
        obj["spec"] = {{"type": "ExternalName", "externalName": "localhost"}}
    for webhook in obj.get("webhooks", []):
        webhook["clientConfig"]["service"]["port"] = {port}
print(yaml.safe_dump_all(objects))
"""
"""What tests.e2e.installation does to the manifests."""


def renderer_for(webhook: Webhook, directory: Path) -> Path:
    path = directory / "renderer"
    path.write_text(RENDERER.format(python=sys.executable, port=webhook.proxy.port))
    path.chmod(0o700)
    return path


class Release:
    """The chart on the API server, as people put it there."""

    def __init__(self, helm: Helm, renderer: Path, api: Api) -> None:
        self._helm, self._renderer, self._api = helm, renderer, api

    def do(self, command: str, *arguments: str | Path) -> None:
        """install, upgrade, rollback or uninstall."""
        told = self._helm(command, "forewarn", *arguments, "--namespace", NAMESPACE)
        assert told.status == 0, told.err
        if command != "uninstall":
            found = json.loads(self._helm("status", "forewarn", "--namespace", NAMESPACE, "-o", "json").out)
            assert found["info"]["status"] == "deployed"

    def install(self, chart: Path = CHART) -> None:
        self.do("install", chart, "--create-namespace", "--post-renderer", self._renderer)

    def upgrade(self, *flags: str | Path, **values: object) -> None:
        set_values = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
        self.do("upgrade", CHART, "--post-renderer", self._renderer, *flags, *set_values)

    def rollback(self, revision: int) -> None:
        self.do("rollback", str(revision))

    def deployment(self) -> Obj:
        spec: Obj = self._api.get("Deployment", "forewarn", NAMESPACE)["spec"]
        return spec


@pytest.fixture
def webhook(plane: ControlPlane, installed: Installation, api: Api, tmp_path: Path) -> Iterator[Webhook]:
    """One replica that nobody has registered; manifests/base is away but for its namespace."""
    made = Webhook(plane, installed)
    installed.take_away(plane)
    yield made
    made.close()
    installed.apply(plane)


def test_it_is_installed_upgraded_rolled_back_and_taken_away(
    plane: ControlPlane, helm: Helm, webhook: Webhook, api: Api, tmp_path: Path
) -> None:
    """None of it waits for forewarn: not at first, when nobody answers yet, nor when nobody answers any more."""
    release = Release(helm, renderer_for(webhook, tmp_path), api)
    took = {}

    def timed(name: str, call: Callable[[], None]) -> None:
        began = time.monotonic()
        call()
        took[name] = time.monotonic() - began

    timed("install", release.install)
    webhook.start()
    webhook.wait_until_asked(api)
    wait_until(lambda: unknown_class(plane), 20, "pods are judged")
    before = written(api)
    assert all(before.values())

    timed("upgrade", lambda: release.upgrade(replicas=3, config={"repeatedWarnings": "full"}))
    assert release.deployment()["replicas"] == 3
    assert "repeatedWarnings" in api.get("ConfigMap", "forewarn", NAMESPACE)["data"]["forewarn.yaml"]
    assert written(api) == before, "what forewarn has written stays"
    timed("rollback", lambda: release.rollback(1))
    assert release.deployment()["replicas"] == 2
    assert written(api) == before
    wait_until(lambda: unknown_class(plane), 20, "pods are still judged")

    webhook.close()
    rejected = api.ask("POST", "apis/scheduling.k8s.io/v1/priorityclasses?dryRun=All", priority_class("locked", 1))
    assert rejected.code == 500, "no replica answers, and PriorityClasses fail closed"
    release.upgrade(replicas=4)
    release.rollback(1)
    assert release.deployment()["replicas"] == 2
    made = [obj for obj in yaml.safe_load_all(helm("get", "manifest", "forewarn", "-n", NAMESPACE).out) if obj]
    timed("uninstall", lambda: release.do("uninstall"))
    left = plane.kubectl("get", "--ignore-not-found", "-o", "name", "-f", "-", stdin=yaml.safe_dump_all(made))
    assert (left.status, left.out) == (0, ""), left.err
    api.create(priority_class("free", 1), dryRun="All")
    print(f"\ne2e: helm: {', '.join(f'{name} {seconds:.1f} s' for name, seconds in took.items())}")


STATE = {
    "forewarn-ca": {"tls.crt", "tls.key"},
    "forewarn-serving-cert": {"ca.crt", "tls.crt", "tls.key", "token-key"},
}
"""The keys of the Secrets that 0.1.0 writes."""


@pytest.fixture
def replicas(plane: ControlPlane, installed: Installation, tmp_path: Path) -> Iterator[Webhook]:
    """Two replicas with the configuration of the cluster; manifests/base is away but for its namespace."""
    made = Webhook(plane, installed, 2, ("--drain", "1", "--config", str(tmp_path / "forewarn.yaml")))
    installed.take_away(plane)
    yield made
    made.close()
    installed.apply(plane)


@pytest.mark.parametrize("chart", RELEASED, ids=lambda path: path.name)
def test_from_a_release_to_this_version_and_back(
    plane: ControlPlane, helm: Helm, replicas: Webhook, api: Api, tmp_path: Path, chart: Path
) -> None:
    """No request is dropped or admitted unchecked, and what users and forewarn wrote stays."""
    release = Release(helm, renderer_for(replicas, tmp_path), api)
    config = yaml.safe_load((chart / "values.yaml").read_text())["config"]

    def restarted() -> None:
        (tmp_path / "forewarn.yaml").write_text(api.get("ConfigMap", "forewarn", NAMESPACE)["data"]["forewarn.yaml"])
        for replica in replicas.replicas:
            replicas.take_out(replica)
            assert replica.stop() == 0
            replica.start()
            replicas.put_back(replica)

    def state() -> dict[str, object]:
        data = api.get("ConfigMap", "forewarn", NAMESPACE)["data"]["forewarn.yaml"]
        assert yaml.safe_load(data) == config
        return written(api)

    release.install(chart)
    (tmp_path / "forewarn.yaml").write_text(api.get("ConfigMap", "forewarn", NAMESPACE)["data"]["forewarn.yaml"])
    replicas.start()
    replicas.wait_until_asked(api)
    wait_until(lambda: unknown_class(plane), 20, "workloads are denied, as configured")
    before, unchecked = state(), failed_open(api)
    assert {name: set(before[name]) for name in STATE} == STATE  # type: ignore[call-overload]
    with load(asking(api), per_second=20, threads=4) as made:
        for change in (partial(release.upgrade, "--values", chart / "values.yaml"), partial(release.rollback, 1)):
            change()
            restarted()
            assert state() == before
            assert unknown_class(plane)
    print(f"\ne2e: {made.done} requests from {chart.name} to this version and back, p99 {made.quantile(0.99):.2f} s")
    assert made.faults == []
    assert failed_open(api) == unchecked
    release.do("uninstall")


def asking(api: Api) -> Callable[[int], str]:
    """Work that fails open (a Pod), or closed (a PriorityClass), in turns; both by dry run."""
    pods = creating(api)

    def work(turn: int) -> str:
        if turn % 2:
            return pods(turn)
        path = "apis/scheduling.k8s.io/v1/priorityclasses?dryRun=All"
        answer = api.ask("POST", path, priority_class(f"load-{turn}", turn))
        return "" if answer.code == 201 else f"{answer.code} {answer.body.get('message')}"

    return work
