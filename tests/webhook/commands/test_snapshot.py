"""`forewarn snapshot`, and `--cluster live` of every command that takes cluster state."""

from __future__ import annotations

import gzip
import json
import stat
from configparser import ConfigParser
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.commands.impersonation import AS
from forewarn.policies.cli.main import main
from forewarn.policies.inputs.sources.cluster import load_cluster
from forewarn.policies.inputs.sources.files import SourceError
from forewarn.policies.kubernetes.kinds.registry import KINDS, OPTIONAL, listed_as_empty
from forewarn.policies.kubernetes.objects.redaction import redacted
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.discovery import GroupCache
from forewarn.policies.prediction.simulation.scenario import DumpCache
from tests.builders import make_node, make_pod
from tests.webhook.builders import OBJECTS, body, deployment, pod, priority_class
from tests.webhook.scripted_api import BY_NAME, ScriptedApi, kubeconfig, scripted_api

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

ROOT = Path(__file__).parents[3]
SECRET = "do-not-tell"
PRIVATE: dict[str, Any] = {
    "name": "c",
    "image": f"registry/{SECRET}",
    "command": [SECRET],
    "args": [SECRET],
    "env": [{"name": "A", "value": SECRET}],
    "envFrom": [{"secretRef": {"name": SECRET}}],
    "livenessProbe": {"exec": {"command": [SECRET]}},
    "readinessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": SECRET}]}},
    "startupProbe": {"exec": {"command": [SECRET]}},
    "lifecycle": {"preStop": {"exec": {"command": [SECRET]}}},
    "resources": {"requests": {"cpu": "1"}},
}
NOTES = {"annotations": {"a.example/x": SECRET, "forewarn.dev/x": "kept"}, "managedFields": [{"manager": SECRET}]}


def private_pod(name: str = "private") -> dict[str, Any]:
    obj = make_pod(name, "team").labels(env="prod").on("n1").obj
    obj["metadata"] |= NOTES
    obj["spec"] |= {
        "containers": [PRIVATE],
        "initContainers": [PRIVATE | {"name": "i"}],
        "ephemeralContainers": [PRIVATE],
    }
    obj["spec"]["volumes"] = [{"name": "v", "image": {"reference": SECRET}}, {"name": "w", "emptyDir": {}}]
    statuses = [{"name": "c", "image": SECRET, "imageID": SECRET, "state": {"terminated": {"message": SECRET}}}]
    obj["status"] |= {"phase": "Running", "message": SECRET, "containerStatuses": statuses}
    return obj


def private_workloads() -> Iterator[dict[str, Any]]:
    template = {"metadata": NOTES, "spec": private_pod()["spec"]}
    metadata = {"name": "x", "namespace": "team", **NOTES}
    claims = [{"metadata": {"name": "d", **NOTES}, "spec": {}}]
    for api_version, kind, spec in (
        ("apps/v1", "Deployment", {"template": template}),
        ("apps/v1", "StatefulSet", {"template": template, "volumeClaimTemplates": claims}),
        ("batch/v1", "CronJob", {"jobTemplate": {"metadata": NOTES, "spec": {"template": template}}}),
        ("v1", "ReplicationController", {"template": template}),
    ):
        yield {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
    yield {"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template}


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    """A server with one node that holds one pod, and the entry points of setup.cfg as if installed."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    installed = tmp_path / "site" / "forewarn_test-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: forewarn-test\nVersion: 0\n")
    sources = setup["options.entry_points"]["forewarn.sources"]
    (installed / "entry_points.txt").write_text(f"[forewarn.sources]{sources}\n")
    monkeypatch.syspath_prepend(str(installed.parent))
    with scripted_api() as scripted:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config", scripted.url)))
        full = make_pod("low", "team").priority(0).request(cpu="3").on("n1").status(phase="Running")
        for obj in (*OBJECTS, make_node("n1").obj, full.obj, deployment(), private_pod(), *private_workloads()):
            scripted.put(json.loads(json.dumps(obj)))
        yield scripted


def objects_of(text: str) -> list[dict[str, Any]]:
    """The objects of a file, but for lists without any, and the time."""
    return [obj for obj in json.loads(text)["items"] if not listed_as_empty(obj) and obj["kind"] != "Version"]


def contents(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """All that a snapshot holds, to be compared."""
    objects = snapshot.objects
    held = {
        name: dict(getattr(objects, name))
        for name in objects.__slots__
        if name not in ("semantics", "devices_known", "unlisted", "omitted", "counted_quotas", "counted_pdbs")
    }
    for name in ("priority_classes", "namespaces", "resource_quotas", "pods", "workloads"):
        held[name] = dict(getattr(snapshot, name))
    return held


def test_a_snapshot_records_the_time_of_the_read(api: ScriptedApi, tmp_path: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    assert main(["snapshot", "-o", str(tmp_path / "x.json")]) == 0
    after = datetime.now(UTC)
    for source in (str(tmp_path / "x.json"), "live"):
        origin = load_cluster(source).snapshot().origin
        assert origin.is_read
        assert datetime.fromisoformat(origin.time) >= before
        assert source == "live" or datetime.fromisoformat(origin.time) <= after
    assert load_cluster("live").snapshot().origin.cluster.startswith("context ")


def test_the_cluster_is_named_with_the_impersonated_user(api: ScriptedApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user may see only a part of the cluster."""
    name = load_cluster("live").snapshot().origin.cluster
    monkeypatch.setenv(AS, "zoë")
    assert load_cluster("live").snapshot().origin.cluster == f"{name} as zoë"


@pytest.mark.parametrize("name", ["cluster.json.gz", "cluster.json"])
def test_a_file_reads_back_as_the_cluster_that_it_was_made_of(
    name: str, api: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    assert main(["snapshot", "-o", str(path)]) == 0
    told = capsys.readouterr().err
    assert told.startswith(f"{path}: {sum(map(len, api.objects.values()))} objects (")
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    assert contents(load_cluster(str(path)).snapshot()) == contents(load_cluster("live").snapshot())
    assert load_cluster(str(path)).skipped == {}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SECRET in _text(path)
    assert not any("managedFields" in obj["metadata"] for obj in objects_of(_text(path)))


EVENTS = "/api/v1/namespaces/team/events"


def victims_event(**fields: Any) -> dict[str, Any]:
    """As lists hold it: without kind and apiVersion."""
    related = {"kind": "Pod", "namespace": "team", "name": "high", "uid": "1-2"}
    about = {"kind": "Pod", "namespace": "team", "name": "low"}
    said = {"reason": "Preempted", "message": "Preempted by pod\x1b[2J 1-2 on node n1", "related": related}
    return {"metadata": {"name": "low.1"}, "involvedObject": about, **said, **fields}


def test_why_asks_a_running_cluster_for_the_events_of_one_pod(
    api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.objects["pods"].pop(("team", "low"))
    api.routes["GET", EVENTS] = lambda handler: handler.answer(200, {"items": [victims_event(), 5]})
    assert main(["why", "team/low", "-v", "--cluster", "live"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("WARN  team/low: gone: preempted\n")
    assert " preempted by team/high, which no longer exists\n" in out
    assert "Preempted by pod [2J 1-2 on node n1\n" in out
    (query,) = [query for verb, path, query, _ in api.requests if (verb, path) == ("get", EVENTS)]
    about = "involvedObject.namespace=team,involvedObject.name=low"
    assert query == {"fieldSelector": about, "limit": "500"}


def test_why_without_a_name_asks_a_running_cluster_for_preemptions(
    api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    path = "/api/v1/events"
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    api.routes["GET", path] = lambda handler: handler.answer(200, {"items": [victims_event(lastTimestamp=now), 5]})
    assert main(["why", "--cluster", "live", "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [(pod["pod"], pod["time"]) for pod in answer["preempted"]] == [("team/low", now)]
    since = f"the oldest Event is of {now}: earlier preemptions are unknown. Fix: --audit-log FILE"
    assert answer["missing"] == [since]
    (query,) = [query for verb, asked, query, _ in api.requests if (verb, asked) == ("get", path)]
    assert query == {"fieldSelector": "reason=Preempted", "limit": "500"}
    api.routes["GET", path] = api.reject(403, "no")
    assert main(["why", "--cluster", "live"]) == 0
    assert "WARN  Events not read: live: cannot list events: no (403)\n" in capsys.readouterr().out


def test_why_asks_for_the_events_of_owners_and_node_of_a_pod_that_ended(
    api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    low = api.objects["pods"].pop(("team", "low"))
    ended = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. "}
    metadata = {**low["metadata"], "name": "web-5f-x"}
    api.objects["pods"]["team", "web-5f-x"] = {**low, "metadata": metadata, "status": ended}
    api.routes["GET", EVENTS] = lambda handler: handler.answer(200, {"items": []})
    nodes = {"items": [{"involvedObject": {"kind": "Node", "name": "n1"}, "reason": "Rebooted", "message": "m"}]}
    api.routes["GET", "/api/v1/namespaces/default/events"] = lambda handler: handler.answer(200, nodes)
    assert main(["why", "team/web-5f-x", "--cluster", "live"]) == 0
    assert "evicted by the kubelet on n1, which was low on memory" in " ".join(capsys.readouterr().out.split())
    asked = [query["fieldSelector"].rpartition("=")[2] for _, path, query, _ in api.requests if path == EVENTS]
    assert asked == ["web-5f-x", "web-5f", "web"]
    (of_node,) = [query for _, path, query, _ in api.requests if path == "/api/v1/namespaces/default/events"]
    assert of_node["fieldSelector"] == "involvedObject.kind=Node,involvedObject.name=n1"


def test_why_reads_the_events_of_a_namespace_page_by_page_for_a_workload(
    api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    def page(handler: Any) -> None:
        first = "continue" not in handler.path
        about = {"kind": "Pod", "namespace": "team", "name": f"web-{int(first)}"}
        event = {"involvedObject": about, "reason": "Evicted", "message": "The node was low on resource: memory. "}
        handler.answer(200, {"items": [event], "metadata": {"continue": "x"} if first else {}})

    api.routes["GET", EVENTS] = page
    assert main(["why", "sts/web", "-n", "team", "--cluster", "live"]) == 0
    out = capsys.readouterr().out
    assert "running 0 | gone 2\n" in out
    api.routes["GET", EVENTS] = lambda handler: handler.answer(200, {"items": [], "metadata": {"continue": "x"}})
    assert main(["why", "deploy/web", "-n", "team", "--cluster", "live", "-o", "json"]) in (0, 2)
    assert len([1 for _, path, _, _ in api.requests if path == EVENTS]) == 2 + 20


def test_why_answers_without_the_right_to_read_events_and_says_so(
    api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.routes["GET", EVENTS] = api.reject(403, 'events is forbidden: User "x" cannot list resource "events"')
    said = 'live: cannot list events: events is forbidden: User "x" cannot list resource "events" (403)'
    assert main(["why", "team/low", "--cluster", "live"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("OK  team/low (0): running on n1\nWARN  Events not read: ")
    assert said in " ".join(out.split())
    assert err == ""
    assert main(["why", "team/low", "--cluster", "live", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == [f"Events not read: {said}"]
    assert main(["why", "team/none", "--cluster", "live"]) == 3
    assert f"Events not read: {said}" in capsys.readouterr().err


@pytest.mark.parametrize("answer", [{"items": "x"}, {"items": None}, {"items": [None, {"metadata": 5}]}, {}])
def test_an_odd_list_of_events_is_none(
    answer: dict[str, Any], api: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.routes["GET", EVENTS] = lambda handler: handler.answer(200, answer)
    assert main(["why", "team/low", "--cluster", "live"]) == 0
    assert capsys.readouterr().out.startswith("OK  team/low (0): running on n1\nINPUT  ")


def test_a_name_that_no_pod_has_is_not_put_into_a_request(api: ScriptedApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "team/x,y=z", "--cluster", "live"]) == 2
    assert "Pod not found" in capsys.readouterr().err
    assert not [path for verb, path, *_ in api.requests if verb == "get" and "events" in path]


def test_a_dump_is_asked_for_nothing_more(api: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", "-o", str(tmp_path / "x.json")]) == 0
    assert main(["why", "team/low", "--cluster", str(tmp_path / "x.json")]) == 0
    assert "Events not read" not in capsys.readouterr().out
    assert not [path for verb, path, *_ in api.requests if verb == "get" and "events" in path]


def _text(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def test_an_empty_cluster_is_an_empty_list(
    api: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.objects.clear()
    assert main(["snapshot", "-o", str(tmp_path / "x.json")]) == 0
    text = (tmp_path / "x.json").read_text()
    assert objects_of(text) == []
    kinds = {obj["kind"] for obj in json.loads(text)["items"]}
    assert kinds == {"Version", *(f"{spec.kind}List" for spec in (*KINDS, *OPTIONAL))}
    assert "0 objects (empty cluster)" in capsys.readouterr().err


def test_a_snapshot_contains_node_pools(api: ScriptedApi, tmp_path: Path) -> None:
    """Otherwise nodes of Karpenter arrive in simulations of the live cluster, but not in those of its snapshot."""
    pool = {"metadata": {"name": "general", **NOTES}, "spec": {"weight": 1}}
    page = {"kind": "NodePoolList", "metadata": {}, "items": [pool]}
    api.routes["GET", "/apis/karpenter.sh/v1/nodepools"] = lambda handler: handler.answer(200, page)
    path, cache = tmp_path / "cluster.json", GroupCache()
    assert main(["snapshot", "-o", str(path), "--redact"]) == 0
    load_cluster(str(path), into=cache)
    (found,) = cache.discovery.node_pools
    assert (found["metadata"]["name"], found["spec"]) == ("general", {"weight": 1})
    assert SECRET not in path.read_text()


@pytest.mark.parametrize(("status", "is_found"), [(200, True), (403, False), (404, False)])
def test_a_snapshot_contains_the_limits_of_autoscalers(
    status: int, is_found: bool, api: ScriptedApi, tmp_path: Path
) -> None:
    limits = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3}
    scaler = {"metadata": {"name": "web", "namespace": "shop", **NOTES}, "spec": {**limits, "metrics": [SECRET]}}
    page = {"kind": "HorizontalPodAutoscalerList", "metadata": {}, "items": [{**scaler, "status": {"x": SECRET}}]}
    path, cache = tmp_path / "cluster.json", DumpCache()
    route = "GET", "/apis/autoscaling/v2/horizontalpodautoscalers"
    api.routes[route] = lambda handler: handler.answer(status, page if status == 200 else {})
    assert main(["snapshot", "-o", str(path), "--redact"]) == 0
    load_cluster(str(path), into=cache)
    assert [obj["spec"] for obj in cache.autoscalers.values()] == ([limits] if is_found else [])
    assert SECRET not in path.read_text()


def test_redacted_nothing_private_is_left_and_predictions_are_the_same(api: ScriptedApi, tmp_path: Path) -> None:
    path = tmp_path / "cluster.json.gz"
    assert main(["snapshot", "-o", str(path), "--redact"]) == 0
    text = _text(path)
    assert SECRET not in text
    assert '"forewarn.dev/x":"kept"' in text
    before, after = load_cluster("live").snapshot(), load_cluster(str(path)).snapshot()
    assert before.pods.keys() == after.pods.keys()
    for key, known in before.pods.items():
        kept = after.pods[key]
        assert (kept.labels, kept.occupies, kept.priority, kept.owner) == (
            known.labels,
            known.occupies,
            known.priority,
            known.owner,
        )
    assert after.namespace("batch") == before.namespace("batch")
    assert after.workloads.keys() == before.workloads.keys()


def test_redaction_keeps_the_restarts_of_containers() -> None:
    statuses = [{"name": "c", "image": "i", "restartCount": 3}]
    pod = {"apiVersion": "v1", "kind": "Pod", "status": {"containerStatuses": statuses}}
    assert redacted(pod)["status"]["containerStatuses"] == [{"name": "c", "restartCount": 3}]


def test_redaction_keeps_the_sizes_of_node_groups() -> None:
    size = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
    notes = {size: "1", f"a.{size}": "1", "cluster.x-k8s.io/x": "1"}
    group = {"kind": "MachineDeployment", "metadata": {"name": "m", "annotations": notes}}
    assert redacted(group)["metadata"]["annotations"] == {size: "1"}


def test_redaction_keeps_only_a_digest_of_names_that_may_have_a_token() -> None:
    def volume(handle: str) -> dict[str, Any]:
        spec = {"csi": {"driver": "d", "volumeHandle": handle}, "rbd": {"monitors": [handle]}}
        return redacted({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": spec})

    first, same, other = volume("//u:pw@host"), volume("//u:pw@host"), volume("//u:pw@other")
    assert "pw" not in str(first)
    assert first == same != other


@pytest.mark.parametrize(
    "name",
    [
        "deployment.kubernetes.io/desired-replicas",
        "deployment.kubernetes.io/revision",
        "kubernetes.io/config.mirror",
        "kubernetes.io/config.source",
        "pv.kubernetes.io/bind-completed",
        "resource.kubernetes.io/extended-resource-claim",
        "storageclass.kubernetes.io/is-default-class",
        "volume.kubernetes.io/selected-node",
    ],
)
def test_redaction_keeps_annotations_that_kubernetes_reads(name: str) -> None:
    obj = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"annotations": {name: "1", "x": "y"}}}
    assert redacted(obj)["metadata"]["annotations"] == {name: "1"}


@pytest.mark.parametrize(
    "obj",
    [
        {"apiVersion": "v1", "kind": "Pod"},
        {"apiVersion": "v1", "kind": "Pod", "metadata": None, "spec": None, "status": None},
        {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": None, "volumes": None}, "status": {"images": 5}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": "text"}},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"volumeClaimTemplates": 5}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"annotations": None}},
    ],
)
def test_redaction_takes_any_shape(obj: dict[str, Any]) -> None:
    assert redacted(obj)["kind"]


def test_a_failure_leaves_an_older_file_as_it_was(
    api: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cluster.json.gz"
    path.write_text("older")
    before = sorted(tmp_path.iterdir())
    api.script("list", "pods", api.reject(403, 'pods is forbidden: User "x" cannot list resource "pods"'))
    assert main(["snapshot", "-o", str(path)]) == 3
    assert path.read_text() == "older"
    assert sorted(tmp_path.iterdir()) == before
    message = 'pods is forbidden: User "x" cannot list resource "pods" (403)'
    message += ". Fix: allow this user to list them in all namespaces"
    assert capsys.readouterr().err == f"forewarn snapshot: live: cannot list pods: {message}\n"


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["-o", "{tmp}/no/x.json"], 3, "{tmp}/no/x.json: no such file or directory. Fix: create"),
        (["-o", "{tmp}/x.json", "--context", "nope"], 2, 'context "nope" not found'),
        (["-o", "{tmp}/x.json", "--context", "there"], 3, "live:there: http://127.0.0.1:1 does not answer"),
    ],
)
def test_what_cannot_be_written_or_read_is_said(
    arguments: list[str], status: int, says: str, api: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["snapshot", *(a.replace("{tmp}", str(tmp_path)) for a in arguments)]) == status
    assert says.replace("{tmp}", str(tmp_path)) in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()


def test_once_leaves_a_file_that_is_there(api: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.json"
    assert main(["snapshot", "--once", "-o", str(file)]) == 0
    written = file.read_bytes()
    asked = len(api.requests)
    assert main(["snapshot", "--once", "-o", str(file)]) == 0
    assert file.read_bytes() == written
    assert len(api.requests) == asked
    assert capsys.readouterr().err.endswith(f"{file}: already exists, not changed\n")


def test_of_an_indexed_job_the_first_pod_writes_and_the_others_wait(
    api: ScriptedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, waited = tmp_path / "cluster.json", []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            monkeypatch.setenv("JOB_COMPLETION_INDEX", "0")
            assert main(["snapshot", "--once", "-o", str(file)]) == 0

    monkeypatch.setattr("forewarn.webhook.commands.snapshot.time.sleep", wait)
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "2")
    assert main(["snapshot", "--once", "-o", str(file)]) == 0
    assert (len(waited), file.exists()) == (3, True)
    file.unlink()
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    monkeypatch.setattr("forewarn.webhook.commands.snapshot._WAIT", -1.0)
    assert main(["snapshot", "--once", "-o", str(file)]) == 3
    assert "Pod 0 of the Job must write it" in capsys.readouterr().err
    assert main(["snapshot", "--once", "-o", "-"]) == 2


def test_an_output_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["snapshot"])
    assert exit_.value.code == 2
    assert "-o/--output" in capsys.readouterr().err


def test_standard_output_may_be_piped_on(api: ScriptedApi, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["snapshot", "-o", "-"]) == 0
    items = objects_of(capfdbinary.readouterr().out.decode())
    assert len(items) == sum(map(len, api.objects.values()))


@pytest.mark.parametrize("plural", ["priorityclasses", "pods"])
def test_a_failure_prints_nothing_that_reads_as_a_cluster(
    api: ScriptedApi, capfdbinary: pytest.CaptureFixture[bytes], plural: str
) -> None:
    """Nothing at all, also where a later kind than the first fails."""
    api.script("list", plural, api.reject(403, f"{plural} is forbidden"))
    assert main(["snapshot", "-o", "-"]) == 3
    said = capfdbinary.readouterr()
    assert f"cannot list {plural}".encode() in said.err
    assert said.out == b""


# --cluster live


def test_a_list_that_expires_while_it_is_read_goes_on(api: ScriptedApi) -> None:
    expired = {"kind": "Status", "code": 410, "message": "old", "metadata": {"continue": "1"}}
    first = api.page(BY_NAME["pods"], {"limit": "1"})
    api.script("list", "pods", lambda handler: handler.answer(200, first), lambda handler: handler.answer(410, expired))
    assert len(load_cluster("live").snapshot().pods) == 2


def test_an_object_that_the_cache_refuses_fails_a_command_by_name(api: ScriptedApi) -> None:
    api.put({**pod(name="bad"), "spec": "text"})
    with pytest.raises(SourceError, match=r"^live: .*team/bad.*must be an object"):
        load_cluster("live")


def test_a_context_may_be_named(api: ScriptedApi) -> None:
    assert len(load_cluster("live:here").snapshot().pods) == 2
    with pytest.raises(SourceError, match=r"^live:there: "):
        load_cluster("live:there")


def test_a_file_of_that_name_comes_first(api: ScriptedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "live").write_text(json.dumps(priority_class("of-the-file", 5)))
    assert "of-the-file" in load_cluster("live").snapshot().priority_classes


def test_later_sources_replace_what_live_has(api: ScriptedApi, tmp_path: Path) -> None:
    (tmp_path / "more.json").write_text(json.dumps(priority_class("gold", 7)))
    assert load_cluster("live", str(tmp_path / "more.json")).snapshot().priority_classes["gold"].value == 7
    assert load_cluster(str(tmp_path / "more.json"), "live").snapshot().priority_classes["gold"].value == 1000


def test_every_command_takes_live(api: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unknown, wanting = tmp_path / "unknown.json", tmp_path / "wanting.json"
    unknown.write_text(json.dumps(pod("nothing")))
    wanting.write_text(json.dumps(make_pod("want", "team").of_class("gold").request(cpu="2").obj))
    review = tmp_path / "review.json"
    review.write_bytes(body(pod("nothing")))
    assert main(["lint", "--cluster", "live", str(unknown)]) == 1
    assert 'PriorityClass "nothing" not found' in capsys.readouterr().out
    assert main(["webhook", "review", "--cluster", "live:here", "-f", str(review)]) == 1
    assert "not found; the Pod will be rejected" in capsys.readouterr().out
    assert main(["predict", "--cluster", "live", "-f", str(wanting), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["question"] == "Pod team/want"


@pytest.mark.parametrize("command", [["lint"], ["predict", "-f"], ["webhook", "review", "-f"]])
def test_a_server_that_does_not_answer_is_exit_3(
    command: list[str], api: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(pod()))
    assert main([*command, str(file), "--cluster", "live:there"]) == 3
    error = capsys.readouterr().err
    assert "live:there: http://127.0.0.1:1 does not answer: " in error
    assert "Traceback" not in error


def test_a_snapshot_tells_empty_lists_from_lists_that_may_not_be_read(api: ScriptedApi, tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    api.script("list", "devicetaintrules", api.reject(403))
    assert main(["snapshot", "-o", str(path)]) == 0
    cluster = load_cluster(str(path)).snapshot()
    assert cluster.objects.unlisted == {"resource.k8s.io/DeviceTaintRule"}
    live = load_cluster("live").snapshot()
    assert "policy/PodDisruptionBudget" not in live.objects.unlisted
