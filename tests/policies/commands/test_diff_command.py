"""`forewarn diff`: what two versions of manifests change, and what the change does to clusters."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from forewarn.policies.base.disclosure import Disclose
from forewarn.policies.cli.render.clusters import comment
from forewarn.policies.inputs.manifests.differences import ChangedObject, differences
from forewarn.policies.kubernetes.objects.redaction import redacted as hide
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.lint.input import LintRequest
from forewarn.policies.questions.application.diff import Diff, DiffRequest, OnCluster
from forewarn.policies.questions.application.diff_answer import answer_of
from forewarn.policies.questions.versions.versions import Side, may_differ, read_version
from forewarn.policies.questions.versions.versions import versions as read_versions
from tests.in_process import forewarn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VALUES = {"low": 10, "high": 1000}
CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in VALUES.items()
]


def deployment(name: str, replicas: int = 1, cpu: str = "1", **pod: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **pod}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def write(path: Path, *objects: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump_all(objects))


def snapshot(path: Path, cpu: int, *pods: tuple[str, int, str]) -> None:
    """A cluster of one node. `pods`: name, cpu and class of each running Pod."""
    allocatable = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}, "status": {"allocatable": allocatable}}
    running = []
    for name, asked, class_ in pods:
        spec = deployment(name, cpu=str(asked), priorityClassName=class_)["spec"]["template"]["spec"]
        spec |= {"nodeName": "node", "priority": VALUES[class_]}
        metadata = {"name": name, "namespace": "shop"}
        running.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    none = {"apiVersion": "v1", "kind": "PodList", "items": []}
    write(path, node, none, *CLASSES, *running)


def asked(*given: str | Path) -> Any:
    """The JSON document of the comparison."""
    done = forewarn("diff", *given, "-o", "json")
    assert done.returncode in (0, 1, 3), done.stderr
    return json.loads(done.stdout)


def counters_of(document: Any) -> dict[str, int]:
    """The counters that are not 0, without the time that workloads are down."""
    return {name: value for name, value in document["counters"].items() if value and name != "downSeconds"}


def rows_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The affected workloads in the only cluster."""
    (cluster,) = found["clusters"]
    return list(cluster["answer"]["rows"])


def causes_of(document: Any) -> list[tuple[int, str]]:
    return [(cause["number"], cause["reason"]) for cause in document["why"]["causes"]]


@pytest.fixture
def versions(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    def made(before: dict[str, list[dict[str, Any]]], after: dict[str, list[dict[str, Any]]]) -> tuple[Path, Path]:
        for name, files in (("one", before), ("two", after)):
            (tmp_path / name).mkdir()
            for path, objects in files.items():
                write(tmp_path / name / path, *objects)
        return tmp_path / "one", tmp_path / "two"

    return made


def test_only_what_matters_for_priority_is_a_difference(versions: Callable[..., tuple[Path, Path]]) -> None:
    web = deployment("web")
    other_image = json.loads(json.dumps(web))
    other_image["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    moved = {"b/web.yaml": [other_image]}
    done = forewarn("diff", *versions({"a/web.yaml": [web]}, moved))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("OK  no change of priorities, requests, replicas, quotas or PDBs\n")


def test_replicas_that_are_down_for_long_are_an_effect(
    tmp_path: Path, versions: Callable[..., tuple[Path, Path]]
) -> None:
    grace = {"terminationGracePeriodSeconds": 600, "priorityClassName": "low"}
    old, new = (deployment("web", 2, cpu, **grace) | {"kind": "StatefulSet"} for cpu in ("1", "2"))
    snapshot(tmp_path / "cluster.yaml", 4, ("web-0", 1, "low"), ("web-1", 1, "low"))
    node, none, *others = yaml.safe_load_all((tmp_path / "cluster.yaml").read_text())
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": True}
    for pod in others[len(CLASSES) :]:
        pod["metadata"] |= {"labels": {"app": "web"}, "ownerReferences": [owner]}
        pod["spec"]["terminationGracePeriodSeconds"] = 600
    write(tmp_path / "cluster.yaml", node, none, old, *others)
    found = asked(*versions({"web.yaml": [old]}, {"web.yaml": [new]}), "--cluster", tmp_path / "cluster.yaml")
    assert (found["status"], counters_of(found)) == ("WARN", {"down": 1})
    assert 1200 <= found["counters"]["downSeconds"] < 1260


@pytest.mark.parametrize(
    ("annotations", "image", "cpu", "change"),
    [
        ({}, "b", "1", "rejected unless it is deleted first (immutable: spec.template.spec.containers[0].image)"),
        ({}, "a", "2", "requests.cpu 1 → 2; rejected unless it is deleted first (immutable: spec.template.spec."),
        ({"kustomize.toolkit.fluxcd.io/force": "enabled"}, "a", "2", "requests.cpu 1 → 2"),
    ],
)
def test_the_template_of_a_job_is_immutable(
    annotations: dict[str, str], image: str, cpu: str, change: str, versions: Callable[..., tuple[Path, Path]]
) -> None:
    jobs = [deployment("web", cpu=of_cpu) | {"apiVersion": "batch/v1", "kind": "Job"} for of_cpu in ("1", cpu)]
    for job, of_image in zip(jobs, ("a", image), strict=True):
        job["metadata"]["annotations"] = annotations
        job["spec"]["template"]["spec"]["containers"][0]["image"] = of_image
    (row,) = asked(*versions({"job.yaml": jobs[:1]}, {"job.yaml": jobs[1:]}))["rows"]
    assert row["change"].startswith(change)
    assert ("rejected" in row["change"]) is (not annotations)


@pytest.mark.parametrize(
    ("annotations", "cpu", "fields"),
    [
        ({}, "1", ["immutable"]),
        ({}, "2", ["requests.cpu", "immutable"]),
        ({"kustomize.toolkit.fluxcd.io/force": "enabled"}, "1", ["template"]),
    ],
)
def test_the_service_of_a_stateful_set_is_immutable(
    annotations: dict[str, str], cpu: str, fields: list[str], versions: Callable[..., tuple[Path, Path]]
) -> None:
    sets = [deployment("web", cpu=of_cpu) | {"kind": "StatefulSet"} for of_cpu in ("1", cpu)]
    for each, service in zip(sets, ("a", "b"), strict=True):
        each["metadata"]["annotations"] = annotations
        each["spec"] |= {"serviceName": service, "selector": {"matchLabels": {"app": "web"}}}
    sides = versions({"web.yaml": sets[:1]}, {"web.yaml": sets[1:]})
    (changed,) = asked(*sides, "--cluster", "webhook/sample/cluster.yaml")["objects"]
    assert [field["name"] for field in changed["fields"]] == fields


def test_without_a_change_nothing_is_simulated(versions: Callable[..., tuple[Path, Path]]) -> None:
    sides = versions({"a/web.yaml": [deployment("web")]}, {"b/web.yaml": [deployment("web")]})
    found = asked(*sides, "--cluster", "webhook/sample/cluster.yaml")
    assert (found["status"], found["clause"]) == ("OK", "nothing is simulated")


def test_each_field_is_named_with_both_values(versions: Callable[..., tuple[Path, Path]]) -> None:
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "shop"}}
    before = {"web.yaml": [deployment("web"), {**CLASSES[0], "value": 5}, {**budget, "spec": {"minAvailable": 1}}]}
    after = {"web.yaml": [deployment("web", 3, "500m", priorityClassName="high"), CLASSES[0]]}
    done = forewarn("diff", *versions(before, after), "-o", "json")
    document = json.loads(done.stdout)
    assert {each["name"]: each["operation"] for each in document["objects"]} == {
        "web": "changed",
        "low": "changed",
        "b": "deleted",
    }
    fields = {
        field["name"]: (field["before"], field["after"]) for each in document["objects"] for field in each["fields"]
    }
    assert fields == {
        "replicas": ("1", "3"),
        "priorityClassName": ("", "high"),
        "requests.cpu": ("1", "500m"),
        "immutable": ("", "value"),
        "value": ("5", "10"),
        "minAvailable": ("1", ""),
    }


def test_the_change_is_simulated_on_each_cluster(versions: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    snapshot(tmp_path / "clusters/full.yaml", 2, ("batch", 2, "low"))
    snapshot(tmp_path / "clusters/empty.yaml", 8)
    sides = versions({"web.yaml": []}, {"web.yaml": [deployment("web", 1, "2", priorityClassName="high")]})
    given = ("diff", *sides, "--clusters", tmp_path / "clusters/*.yaml")
    done = forewarn(*given, "--fail-on", "preempted")
    assert (done.returncode, done.stderr) == (1, "forewarn: fails on preempted (--fail-on)\n")
    assert done.stdout.splitlines()[:6] == [
        "HARM  Deployment shop/web created: worst is full: 1 of 1 new Pod runs, 1 Pod preempted",
        "      clusters 2 | affected 1",
        "",
        "CLUSTER  STATUS  REJECTED  PREEMPTED  LOST  PENDING  BECAUSE",
        "full     HARM           0          1     1        0  no controller recreates them: shop/batch",
        "empty    OK             0          0     0        0  -",
    ]
    assert "PREEMPTS" not in done.stdout
    detailed = forewarn(*given, "-v").stdout
    assert (
        "\nDeployment shop/web  .                 1  created; replicas 1; priorityClassName high; requests cpu 2\n"
        in detailed
    )
    assert "\nempty\nOK  Deployment shop/web created: 1 of 1 new Pod runs\n" in detailed
    text = forewarn(*given, "-o", "markdown").stdout
    assert text.startswith("### 🔴 HARM: Deployment shop/web created: worst is full: 1 of 1 new Pod runs, ")
    assert "| full | HARM | 0 | 1 | 1 | 0 | no controller recreates them: shop/batch |\n" in text
    assert [*re.findall("<details><summary>(.*)</summary>", text)] == ["details of the change", "full"]


def test_new_pods_see_the_claims_of_the_change(versions: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    snapshot(tmp_path / "big.yaml", 8)
    listed = {"apiVersion": "v1", "kind": "PersistentVolumeClaimList", "items": []}
    write(tmp_path / "claims.yaml", listed)
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"}}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    web = deployment("web", volumes=volumes)
    given = ("--cluster", tmp_path / "big.yaml", "--cluster", tmp_path / "claims.yaml", "--fail-on", "pending")
    for beside, status in (([], 1), ([claim | {"spec": {"accessModes": ["ReadWriteOnce"]}}], 0)):
        shutil.rmtree(tmp_path / "one", ignore_errors=True)
        shutil.rmtree(tmp_path / "two", ignore_errors=True)
        done = forewarn("diff", *versions({}, {"web.yaml": [web, *beside]}), *given)
        assert done.returncode == status, done.stdout


def hooked(obj: dict[str, Any], **annotations: str) -> dict[str, Any]:
    names = {"helm": "helm.sh/hook", "weight": "helm.sh/hook-weight", "argo": "argocd.argoproj.io/hook"}
    return obj | {
        "metadata": obj["metadata"] | {"annotations": {names[key]: text for key, text in annotations.items()}}
    }


def application(path: str, namespace: str) -> dict[str, Any]:
    spec = {"source": {"path": path}, "destination": {"namespace": namespace, "name": "in-cluster"}}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "a"}, "spec": spec}


def kustomization(name: str, path: str, *needs: str, target: str = "") -> dict[str, Any]:
    spec = {"path": path, "dependsOn": [{"name": need} for need in needs], "targetNamespace": target}
    kind = {"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization"}
    return {**kind, "metadata": {"name": name, "namespace": "flux-system"}, "spec": spec}


FIRST, SECOND = deployment("first", cpu="2"), deployment("second", cpu="2")
A_THEN_B = {"x/a.yaml": [FIRST], "x/b.yaml": [SECOND]}


@pytest.mark.parametrize(
    ("files", "pending"),
    [
        (A_THEN_B, ["second"]),
        ({"x/a.yaml": [FIRST], "x/b.yaml": [hooked(SECOND, helm="pre-upgrade")]}, ["first"]),
        ({"x/a.yaml": [hooked(FIRST, helm="post-install,post-upgrade")], "x/b.yaml": [SECOND]}, ["first"]),
        ({"x/a.yaml": [hooked(FIRST, helm="test")], "x/b.yaml": [SECOND]}, []),
        ({"x/a.yaml": [hooked(FIRST, argo="Skip")], "x/b.yaml": [SECOND]}, []),
        ({"x/a.yaml": [hooked(FIRST, argo="PreSync")], "x/b.yaml": [hooked(SECOND, argo="PreSync")]}, ["second"]),
        (
            {
                "apps/a.yaml": [FIRST],
                "infra/b.yaml": [SECOND],
                "flux.yaml": [kustomization("apps", "./apps", "infra"), kustomization("infra", "./infra")],
            },
            ["first"],
        ),
        (
            {
                "apps/a.yaml": [FIRST],
                "infra/b.yaml": [SECOND],
                "flux.yaml": [kustomization("apps", "./apps", "infra"), kustomization("infra", "./infra", "apps")],
            },
            ["second"],
        ),
    ],
)
def test_objects_are_applied_in_the_order_of_their_tool(
    files: dict[str, list[dict[str, Any]]],
    pending: list[str],
    versions: Callable[..., tuple[Path, Path]],
    tmp_path: Path,
) -> None:
    snapshot(tmp_path / "c.yaml", 2)
    done = forewarn("diff", *versions({}, files), "--cluster", tmp_path / "c.yaml", "-o", "json")
    (cluster,) = json.loads(done.stdout)["clusters"]
    told = {each["workload"].rpartition("/")[2] for each in cluster["answer"]["workloads"] if each["pending"]["after"]}
    assert sorted(told) == pending


@pytest.mark.usefixtures("few_runs")
@pytest.mark.parametrize("form", ["text", "markdown"])
def test_readers_may_see_only_counts_or_their_own_namespaces(
    form: str, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "full.yaml", 4, ("batch", 2, "low"), ("secret", 2, "low"))
    objects = list(yaml.safe_load_all((tmp_path / "full.yaml").read_text()))
    objects[-1]["metadata"]["namespace"] = "vault"
    write(tmp_path / "full.yaml", *objects)
    sides = versions({"web.yaml": []}, {"web.yaml": [deployment("web", 2, "2", priorityClassName="high")]})
    shutil.copy(tmp_path / "full.yaml", tmp_path / "other.yaml")
    for clusters in (("--cluster", tmp_path / "full.yaml"), ("--clusters", tmp_path / "*.yaml", "-v")):
        given = ("diff", *sides, *clusters, "-o", form)
        names, own, counts = (forewarn(*given, "--disclose", who).stdout for who in Disclose)
        assert all("2 Pods preempted" in out for out in (names, own, counts))
        assert all(text in names for text in ("vault", "secret", "batch"))
        assert [text in own for text in ("vault", "secret", "shop/batch")] == [False, False, True]
        assert [text in counts for text in ("vault", "secret", "batch", "PriorityClass")] == [False] * 4
        assert "not shown (--disclose)" in counts


def test_each_pod_is_in_one_number(versions: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    """Four Pods are preempted: two run again on the other node, and two are lost; a new one is Pending."""
    snapshot(tmp_path / "c.yaml", 4)
    objects = [*yaml.safe_load_all((tmp_path / "c.yaml").read_text())]
    other = json.loads(json.dumps(objects[0]).replace('"node"', '"other"').replace('"4"', '"2"'))
    labels = {"kubernetes.io/hostname": "node"}
    objects[0]["metadata"]["labels"] = labels
    write(tmp_path / "c.yaml", *objects, other, *stored("Deployment", 4, redacted=False, priorityClassName="low"))
    new = deployment("new", 2, "4", priorityClassName="high", nodeSelector=labels)
    sides = versions({"web.yaml": []}, {"web.yaml": [new]})
    found = asked(*sides, "--cluster", tmp_path / "c.yaml")
    assert found["clause"] == "1 of 2 new Pods run, 4 Pods preempted"
    assert counters_of(found) == {"victims": 4, "preempted": 4, "pending": 3, "lost": 2}
    assert causes_of(found) == [(3, "no capacity: 2 of class low, 1 of class high")]
    rows = {row["workload"]: (row["lost"], row["pending"], row["preempted"]) for row in rows_of(found)}
    assert rows == {"shop/web": (2, 2, 4), "shop/new": (0, 1, 0)}
    (namespace,) = found["clusters"][0]["namespaces"]
    assert [namespace[key] for key in ("preempted", "lost", "pending")] == [4, 2, 3]


@pytest.mark.parametrize("is_known", [True, False])
def test_pods_whose_new_volumes_are_not_simulated_are_not_reported_as_pending(
    is_known: bool, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 8)
    objects = [*yaml.safe_load_all((tmp_path / "c.yaml").read_text())]
    lists = [{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClassList", "items": []}]
    lists += [{"apiVersion": "v1", "kind": f"PersistentVolume{kind}List", "items": []} for kind in ("", "Claim")]
    write(tmp_path / "c.yaml", *objects, *lists)
    fast = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "p"}
    claim: dict[str, Any] = {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}
    claim["resources"] = {"requests": {"storage": "1Gi"}}
    web = deployment("web", 3) | {"kind": "StatefulSet"}
    web["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    sides = versions({}, {"web.yaml": [web, *([fast] if is_known else [])]})
    found = asked(*sides, "--cluster", tmp_path / "c.yaml")
    status, pending = ("WARN", 0) if is_known else ("PENDING", 1)
    assert (found["status"], found["counters"]["pending"]) == (status, pending)
    told = [text for text in found["warnings"] if text.startswith("3 new Pods of shop/web not predicted: ")]
    assert (len(told), "nothing is simulated" in found["clause"]) == (int(is_known), is_known)
    assert [*found["clusters"][0]["answer"]["pending"]["byWorkload"].values()] == ([] if is_known else [1])


def test_the_directory_of_simulated_objects_is_named(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 2, ("batch", 2, "low"))
    web = deployment("web", 1, "2", priorityClassName="high")
    new = json.loads(json.dumps(web).replace('"image": "i"', '"image": "new"'))
    sides = versions({"test/web.yaml": [web]}, {"test/web.yaml": [new], "live/web.yaml": [web]})
    given = (*sides, "--cluster", tmp_path / "c.yaml")
    told = "2 directories have versions of these workloads: live is simulated, and not test. Fix: map directories "
    assert asked(*given)["warnings"][0].startswith(told)
    (tmp_path / "config.yaml").write_text("exclude: [test/*]\n")
    assert asked(*given, "-c", tmp_path / "config.yaml")["warnings"] == []


def test_excluded_directories_are_not_compared(versions: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    places = ("tests/a.yaml", "a/testdata/a.yaml", "a/e2e/b/a.yaml", "e2e/a.yaml", "two/a.yaml")
    after = {path: [deployment("web", 2)] for path in places}
    release = {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "r"}}
    release["spec"] = {"values": {"replicas": 2}}
    sides = versions({}, {**after, "tests/release.yaml": [release]})
    (tmp_path / "config.yaml").write_text('exclude: ["./tests/*", "*/testdata/*", e2e]\n')
    done = forewarn("diff", *sides, "-c", tmp_path / "config.yaml", "-o", "json")
    document = json.loads(done.stdout)
    assert [each["directory"] for each in document["objects"]] == ["two"]
    assert "notCompared" not in document


def test_all_details_have_all_names(versions: Callable[..., tuple[Path, Path]]) -> None:
    done = forewarn("diff", *versions({}, {}), "-o", "json", "--disclose", "counts")
    assert (done.returncode, "--disclose goes with -o text and markdown" in done.stderr) == (2, True)


def test_an_application_set_says_to_which_clusters_a_directory_goes(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    for name in ("prod-eu", "prod-us", "staging"):
        snapshot(tmp_path / f"clusters/{name}.yaml", 8)
    elements = [{"cluster": "prod-eu", "size": 3}, {"cluster": "prod-us"}, "nonsense"]
    spec = {"source": {"path": "apps/{{ .cluster }}"}, "destination": {"name": "{{cluster}}"}}
    application_set = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": "apps"},
        "spec": {"generators": [{"list": {"elements": elements}}, {"clusters": {}}], "template": {"spec": spec}},
    }
    after = {"set.yaml": [application_set], "apps/prod-us/web.yaml": [FIRST]}
    done = forewarn("diff", *versions({}, after), "--clusters", tmp_path / "clusters/*.yaml", "-o", "json")
    clusters = json.loads(done.stdout)["clusters"]
    assert [each["cluster"] for each in clusters if "answer" in each] == ["prod-us"]


@pytest.mark.parametrize(
    ("tool", "namespaces"),
    [
        ({}, ["given", "shop"]),
        (kustomization("x", "./apps"), ["given", "shop"]),
        (kustomization("x", "./apps", target="team"), ["team", "team"]),
        (application("apps", "team"), ["team", "shop"]),
        (application("elsewhere", "team"), ["given", "shop"]),
    ],
)
def test_objects_are_in_the_namespace_of_their_tool(
    tool: dict[str, Any], namespaces: list[str], versions: Callable[..., tuple[Path, Path]]
) -> None:
    without = deployment("without")
    del without["metadata"]["namespace"]
    files = {"apps/web/web.yaml": [without, deployment("with")], "tool.yaml": [tool]}
    done = forewarn("diff", *versions({}, files), "-o", "json", "-n", "given")
    told = {each["name"]: each["namespace"] for each in json.loads(done.stdout)["objects"]}
    assert [told["without"], told["with"]] == namespaces


def test_namespaces_and_their_owners_are_named(versions: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    snapshot(tmp_path / "full.yaml", 2, ("batch", 2, "low"))
    owned = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "web<b>"}}}
    write(tmp_path / "one.yaml", owned)
    sides = versions({"web.yaml": []}, {"web.yaml": [deployment("web", 1, "2", priorityClassName="high")]})
    given = (*sides, "--cluster", tmp_path / "full.yaml", "--cluster", tmp_path / "one.yaml")
    by_label = forewarn("diff", *given, "--owner-label", "team").stdout
    assert "NAMESPACE  OWNER   LOST  PREEMPTED\nshop       web<b>     1          1\n" in by_label
    assert "NAMESPACE" not in forewarn("diff", *given).stdout
    (row,) = asked(*given)["clusters"][0]["namespaces"]
    assert {key: value for key, value in row.items() if value} == {"namespace": "shop", "lost": 1, "preempted": 1}
    markdown = forewarn("diff", *given, "--owner-label", "team", "-o", "markdown").stdout
    assert "| shop | web\\<b\\> | - | 1 | 1 |" in markdown
    (sides[1] / "CODEOWNERS").write_text("* @all\n*.yaml @web\n")
    assert "\nshop       @web      1          1\n" in forewarn("diff", *given).stdout
    assert "\nshop       web<b>     1          1\n" in forewarn("diff", *given, "--owner-label", "team").stdout


@pytest.mark.parametrize(("age", "why"), [("2h", ""), ("30m", "the snapshot is 1 h "), ("5m", "--max-age is 5 min")])
def test_an_old_state_gives_no_answer(
    age: str, why: str, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "full.yaml", 2)
    hour_ago = f"{datetime.now(UTC) - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    write(tmp_path / "new.yaml", {**CLASSES[0], "metadata": {"name": "new", "creationTimestamp": hour_ago}})
    sides = versions({"web.yaml": []}, {"web.yaml": [deployment("web")]})
    given = (*sides, "--cluster", tmp_path / "full.yaml", "--cluster", tmp_path / "new.yaml", "--max-age", age)
    done = forewarn("diff", *given)
    assert done.returncode == (3 if why else 0)
    assert why in done.stdout


def test_a_state_of_unknown_age_is_too_old(versions: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    snapshot(tmp_path / "full.yaml", 2)
    sides = versions({"web.yaml": []}, {"web.yaml": [deployment("web")]})
    done = forewarn("diff", *sides, "--cluster", tmp_path / "full.yaml", "--max-age", "24h")
    assert done.returncode == 3
    first = "NO ANSWER  Deployment shop/web created: the snapshot is of unknown age; --max-age is 24 h"
    assert done.stdout.splitlines()[:2] == [first, "WARN  Fix: write a new snapshot"]


def test_a_directory_concerns_the_cluster_of_its_name(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    for name in ("prod", "dev"):
        snapshot(tmp_path / f"clusters/{name}.yaml", 2, ("batch", 2, "low"))
    web = deployment("web", 1, "2", priorityClassName="high")
    sides = versions({"prod/web.yaml": []}, {"prod/web.yaml": [web]})
    document = json.loads(forewarn("diff", *sides, "--clusters", tmp_path / "clusters/*.yaml", "-o", "json").stdout)
    assert [each["cluster"] for each in document["clusters"] if "answer" in each] == ["prod"]


def test_the_configuration_says_which_clusters_a_directory_concerns(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    for name in ("prod", "dev", "test"):
        snapshot(tmp_path / f"clusters/{name}.yaml", 8)
    (tmp_path / "config.yaml").write_text("clusters: {prod: [prod, base/*], test: ['base/*']}\n")
    given = ("--clusters", tmp_path / "clusters/*.yaml", "-o", "json", "-c", tmp_path / "config.yaml")
    sides = versions({}, {"base/x/web.yaml": [deployment("web")]})
    clusters = json.loads(forewarn("diff", *sides, *given).stdout)["clusters"]
    assert {each["cluster"] for each in clusters if "answer" in each} == {"prod", "test"}


@pytest.mark.parametrize(
    "deployed",
    [
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": "web"},
            "spec": {"source": {"path": "apps/web"}, "destination": {"name": "prod"}},
        },
        {
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
            "kind": "Kustomization",
            "metadata": {"name": "web"},
            "spec": {"path": "./apps/web"},
        },
    ],
    ids=["argo-cd", "flux"],
)
def test_a_gitops_tool_says_which_cluster_a_directory_concerns(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path, deployed: dict[str, Any]
) -> None:
    for name in ("prod", "dev"):
        snapshot(tmp_path / f"snapshots/{name}.yaml", 2, ("batch", 2, "low"))
    web = deployment("web", 1, "2", priorityClassName="high")
    tools = {"clusters/prod/web.yaml": [deployed]}
    sides = versions({**tools, "apps/web/web.yaml": []}, {**tools, "apps/web/web.yaml": [web]})
    document = json.loads(forewarn("diff", *sides, "--clusters", tmp_path / "snapshots/*.yaml", "-o", "json").stdout)
    assert [each["cluster"] for each in document["clusters"] if "answer" in each] == ["prod"]


@pytest.mark.parametrize("replicas", [1, 2])
def test_an_object_that_two_directories_define_differently_has_no_answer(
    replicas: int, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 2)
    overlays = {"blue/web.yaml": [deployment("web")], "green/web.yaml": [deployment("web", replicas)]}
    done = forewarn("diff", *versions({}, overlays), "--cluster", tmp_path / "c.yaml")
    differs = replicas != 1
    assert done.returncode == (3 if differs else 0)
    assert ("Deployment shop/web changes in several directories (blue, green)" in done.stdout) is differs


def test_deleted_objects_stay_unless_the_tool_prunes(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    web = deployment("web", 2)
    snapshot(tmp_path / "c.yaml", 2)
    write(tmp_path / "d.yaml", web)
    sides = versions({"web.yaml": [web]}, {"web.yaml": []})
    clusters = ("--cluster", tmp_path / "c.yaml", "--cluster", tmp_path / "d.yaml", "-o", "json")
    answers = [
        json.loads(forewarn("diff", *sides, *clusters, *more).stdout)["clusters"][0]["answer"]
        for more in ((), ("--prune",))
    ]
    assert [sum(each["running"]["after"] for each in answer["workloads"]) for answer in answers] == [2, 0]


def test_changed_objects_that_are_not_compared_are_named(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    def scaler(most: int) -> dict[str, Any]:
        metadata = {"name": "web", "namespace": "shop"}
        spec = {"maxReplicas": most}
        return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}

    def release(version: str) -> dict[str, Any]:
        spec = {"chart": {"spec": {"chart": "loki", "version": version}}}
        metadata = {"name": "loki"}
        return {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": metadata, "spec": spec}

    def others(text: str) -> list[dict[str, Any]]:
        definition = {"spec": {"versions": [{"schema": {"properties": {"replicas": {"description": text}}}}]}}
        kinds = (
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition", definition),
            ("v1", "ConfigMap", {"data": {"a": text}}),
        )
        return [
            {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **more} for version, kind, more in kinds
        ]

    def values(image: str, cpu: str) -> list[dict[str, Any]]:
        return [{"web": {"image": image, "resources": {"requests": {"cpu": cpu}}}}]

    before = {"a.yaml": [scaler(1), *others("one")], "b.yaml": [release("1")], "c.yaml": [release("1")]}
    after = {"a.yaml": [scaler(2), *others("two")], "b.yaml": [release("2")], "c.yaml": [release("1")]}
    before |= {"prod/values.yaml": values("one", "1"), "values-dev.yaml": values("one", "1")}
    after |= {"prod/values.yaml": values("one", "2"), "values-dev.yaml": values("two", "1")}
    sides = versions(before, after)
    (tmp_path / "two/d.yaml").write_text("apiVersion: v1\nkind: Pod\na: [\n")
    found = asked(*sides)
    assert (found["status"], found["question"].split()[:2]) == ("WARN", ["no", "change"])
    unread, unread_kinds = found["warnings"]
    assert unread.startswith("not compared: ")
    assert ": d.yaml:" in unread
    kinds = "HorizontalPodAutoscaler (1), HelmRelease (1), values of a chart (1)"
    assert unread_kinds == f"3 changed objects not compared: {kinds}"
    assert [(row["file"], row["notCompared"]) for row in found["rows"]] == [
        *(("a.yaml", "HorizontalPodAutoscaler shop/web"), ("b.yaml", "HelmRelease loki")),
        ("prod/values.yaml", "values of a chart"),
    ]
    text = forewarn("diff", *sides, "-o", "markdown").stdout
    assert "\n| HelmRelease loki | b.yaml |\n" in text


def test_only_directories_that_depend_on_a_changed_file_may_differ(tmp_path: Path) -> None:
    """Whether `base` is rendered alone depends on `gone`, which only one version has; `overlay` stays as it is."""
    for side in ("one", "two"):
        write(tmp_path / side / "base/web.yaml", deployment("web"))
        write(tmp_path / side / "overlay/kustomization.yaml", {"resources": ["../base"]})
        write(tmp_path / side / "other/kustomization.yaml", {"resources": ["../patched"]})
        write(tmp_path / side / "patched/web.yaml", deployment("web", 1 if side == "one" else 2))
    write(tmp_path / "one/gone/kustomization.yaml", {"resources": ["../base"]})
    with read_versions(str(tmp_path / "one"), str(tmp_path / "two")) as both:
        assert sorted(both.changed) == ["gone/kustomization.yaml", "patched/web.yaml"]
        names = ("base", "overlay", "other", "patched", "gone")
        assert [name for name in names if may_differ(both)(name)] == ["other", "patched", "gone"]


@pytest.mark.parametrize(("differing", "operation"), [(("old", "new"), "changed"), (("new",), "created")])
def test_an_object_moves_only_from_a_directory_that_may_differ(
    differing: tuple[str, ...], operation: str, tmp_path: Path
) -> None:
    """A directory that both versions have can lack objects in one of them, if only the other one is rendered."""
    web = deployment("web")
    write(tmp_path / "one/old/web.yaml", web)
    write(tmp_path / "two/new/web.yaml", json.loads(json.dumps(web).replace('"image": "i"', '"image": "other"')))
    sides = (Side(name, str(tmp_path / name)) for name in ("one", "two"))
    before, after = (read_version(side, LintRequest((), Config()), None, ())[0] for side in sides)
    (found,) = differences(before, after, differing.__contains__)
    assert (found.changed.directory, found.changed.operation) == ("new", operation)


def test_a_partial_clone_without_an_object_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "whole/web.yaml", deployment("web"))
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-C", str(tmp_path / "whole"))
    for words in (["init", "-q"], ["config", "uploadpack.allowFilter", "true"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True, timeout=60)
    part = str(tmp_path / "part")
    subprocess.run(
        ["git", "clone", "-qn", "--filter=blob:none", f"file://{tmp_path}/whole", part], check=True, timeout=60
    )
    subprocess.run(["git", "-C", part, "config", "--remove-section", "remote.origin"], check=True, timeout=60)
    monkeypatch.chdir(part)
    done = forewarn("diff", "HEAD", "HEAD")
    assert done.returncode == 3
    assert "web.yaml is not in this partial clone. Fix: fetch all objects" in done.stderr


@pytest.mark.parametrize(
    ("kind", "fields", "is_told"),
    [
        ("rbac.authorization.k8s.io/v1 ClusterRole", {"rules": [{"resources": ["pods"]}]}, False),
        ("networking.istio.io/v1 VirtualService", {"spec": {"destination": {"host": "a"}}}, False),
        ("argoproj.io/v1alpha1 Application", {"spec": {"destination": {"name": "a"}}}, True),
        ("helm.toolkit.fluxcd.io/v2 HelmRelease", {"spec": {"chart": {"spec": {"version": "2"}}}}, True),
        ("example.org/v1 Database", {"spec": {"replicas": 3}}, True),
    ],
)
def test_changed_objects_of_other_kinds_are_named_if_they_can_be_about_pods(
    kind: str, fields: dict[str, Any], is_told: bool, versions: Callable[..., tuple[Path, Path]]
) -> None:
    version, _, name = kind.partition(" ")
    metadata = {"name": "x", "labels": {"chart": "x-1", "replicas": "3"}}
    sides = versions({}, {"x.yaml": [{"apiVersion": version, "kind": name, "metadata": metadata, **fields}]})
    assert asked(*sides).get("notCompared", []) == ([f"x.yaml: {name} x"] if is_told else [])


@pytest.mark.parametrize(("was", "to"), [('"image": "i"', '"image": "new"'), ('"cpu": "1"', '"cpu": "2"')])
def test_changed_workloads_that_the_cluster_lacks_are_not_simulated(
    was: str, to: str, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 2, ("batch", 2, "low"))
    old = deployment("old")
    web = deployment("web", 1, "2", priorityClassName="high")
    image = json.loads(json.dumps(old).replace(was, to))
    sides = versions({"a.yaml": [old]}, {"a.yaml": [image, web]})
    found = asked(*sides, "--cluster", tmp_path / "c.yaml")
    assert (found["status"], found["counters"]["preempted"]) == ("HARM", 1)
    lacks = "1 changed workload not simulated, because the cluster state lacks Deployment shop/old. Fix: take a new"
    assert found["warnings"][0].startswith(lacks)
    write(sides[1] / "a.yaml", image)
    write(sides[1] / "a.yaml", image, deployment("bad", priorityClassName="none"))
    rejected = asked(*sides, "--cluster", tmp_path / "c.yaml")
    assert (rejected["status"], rejected["warnings"][0].startswith(lacks)) == ("REJECTED", True)
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "shop"}}
    budget |= {"spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "old"}}}}
    for others in ([], [budget]):
        write(sides[1] / "a.yaml", image, *others)
        done = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml", "-o", "json", "--fail-on", "preempted")
        alone = json.loads(done.stdout)
        assert (done.returncode, alone["status"], "counters" in alone) == (3, "NO ANSWER", False)
        assert alone["clause"] == "1 changed workload not simulated"
        assert "answer" not in alone["clusters"][0]


def test_fail_on_does_not_pass_if_a_changed_workload_is_simulated_in_no_cluster(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "a.yaml", 8)
    old, web, config = deployment("old"), deployment("web"), ("--fail-on", "preempted")
    sides = versions({"x.yaml": [old]}, {"x.yaml": [{**old, "spec": {**old["spec"], "replicas": 3}}, web]})
    partly = forewarn("diff", *sides, "--cluster", tmp_path / "a.yaml", *config)
    assert partly.returncode == 3
    assert ": 1 changed workload not simulated; 1 of 1 new Pod runs\n" in partly.stdout
    assert partly.stderr == "forewarn diff: Deployment shop/old not simulated\n"
    text = (tmp_path / "a.yaml").read_text()
    (tmp_path / "b.yaml").write_text(f"{text}---\n{json.dumps(old)}\n")
    both = forewarn("diff", *sides, "--clusters", tmp_path / "*.yaml", *config)
    assert (both.returncode, both.stderr) == (0, "")


@pytest.mark.parametrize(("new", "is_rejected"), [([], True), ([CLASSES[0] | {"metadata": {"name": "hihg"}}], False)])
def test_a_missing_class_of_a_workload_that_the_cluster_lacks_is_reported(
    new: list[dict[str, Any]], is_rejected: bool, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 2)
    wrong = deployment("old", priorityClassName="hihg")
    sides = versions({"a.yaml": [deployment("old")]}, {"a.yaml": [wrong, *new]})
    done = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml")
    status = 1 if is_rejected else 3  # nothing else is simulated
    assert (done.returncode, "Pods of Deployment shop/old (" in done.stdout) == (status, is_rejected)
    assert done.stdout.startswith("REJECTED  ") is is_rejected


def test_the_network_is_for_those_who_allow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The permission reaches the request; nothing is rendered."""
    requests: list[DiffRequest] = []

    def recorded(request: DiffRequest, clusters: object) -> Diff:
        requests.append(request)
        return Diff("one", "two", [], [], [])

    monkeypatch.setattr("forewarn.policies.cli.commands.diff.diff", recorded)
    for option in ([], ["--render-network"]):
        assert forewarn("diff", *option).returncode == 0
    assert [request.rendering and request.rendering.network for request in requests] == [False, True]


def test_only_what_differs_and_concerns_somebody_is_told(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 8)
    tolerations = [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "shop"}}
    budget |= {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "none"}}}}
    before = {"web.yaml": [deployment("web", tolerations=tolerations), deployment("old")]}
    one, two = versions(before, {"web.yaml": [deployment("web", tolerations=tolerations[:1]), budget]})
    for side in (one, two):
        (side / "link.yaml").symlink_to("nowhere")
        (side / "broken.yaml").write_text("apiVersion: v1\nkind: Pod\na: [\n")
    (two / "new.yaml").write_text("apiVersion: v1\nkind: Pod\na: [\n")
    found = asked(one, two, "--cluster", tmp_path / "c.yaml")
    assert (found["status"], "counters" in found) == ("NO ANSWER", False)  # the PDB protects no Pod
    starts = (
        f"not compared: {two}: new.yaml:",
        "deletion not simulated: Deployment shop/old. Fix: pass --prune ",
        "1 changed workload not simulated, because the cluster state lacks Deployment shop/web",
    )
    assert [text.startswith(start) for text, start in zip(found["warnings"], starts, strict=True)] == [True] * 3
    text = forewarn("diff", one, two, "--cluster", tmp_path / "c.yaml", "-v").stdout
    assert "  tolerations[] key b, operator Exists → removed\n" in text
    assert "--prune" not in forewarn("diff", one, two, "--cluster", tmp_path / "c.yaml", "--prune").stdout


def test_a_kustomization_that_cannot_be_rendered_is_named_although_it_is_the_same(
    versions: Callable[..., tuple[Path, Path]],
) -> None:
    one, two = versions({"base/web.yaml": [deployment("web")]}, {"base/web.yaml": [deployment("web", 2)]})
    for side in (one, two):
        (side / "base/kustomization.yaml").write_text("resources: [web.yaml, https://example.com/x.yaml]\n")
    cause = "base/kustomization.yaml:1: cannot render: https://example.com/x.yaml: network access is off"
    fix = "Fix: pass --render-network, or exclude the directory"
    assert f"not compared: {cause}. {fix}" in asked(one, two)["warnings"]
    for side in (one, two):
        shutil.copytree(side / "base", side / "other")
    assert f"not compared: {cause}. {fix}; also in other" in asked(one, two)["warnings"]


def test_revisions_of_git_are_compared(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=nobody", "-c", "user.email=", "-c", "init.defaultBranch=main")
        subprocess.run(("git", *identity, *arguments), cwd=tmp_path, check=True, capture_output=True, timeout=60)

    git("init", "-q")
    write(tmp_path / "web.yaml", deployment("web"))
    git("add", ".")
    git("commit", "-q", "-m", "one")
    write(tmp_path / "web.yaml", deployment("web", 5))
    done = forewarn("diff", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "replicas 1 → 5\n" in done.stdout
    git("commit", "-q", "-a", "-m", "two")
    assert "replicas 5 → 1" in forewarn("diff", "HEAD", "HEAD~1", cwd=tmp_path).stdout
    wrong = forewarn("diff", "nowhere", cwd=tmp_path)
    assert wrong.returncode == 3
    assert wrong.stderr.startswith('forewarn diff: git: no revision "nowhere". Fix: pass a branch')


def test_sarif_has_only_new_findings(versions: Callable[..., tuple[Path, Path]]) -> None:
    old, new = (deployment(name, priorityClassName="nonsense") for name in ("old", "new"))
    sides = versions(
        {"old.yaml": [old, CLASSES[0]]}, {"old.yaml": [old, {**CLASSES[0], "value": 5}], "new.yaml": [new]}
    )
    done = forewarn("diff", *sides, "-o", "sarif")
    assert (done.returncode, done.stderr) == (0, "")
    results = json.loads(done.stdout)["runs"][0]["results"]
    places = {
        (r["ruleId"], r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])
        for r in results
        if r["level"] in ("error", "warning")
    }
    assert places == {("immutable-field-changed", "old.yaml"), ("unknown-priority-class", "new.yaml")}


def test_replicas_that_the_change_removes_are_not_lost(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    def state(count: int) -> dict[str, Any]:
        return deployment("web", count) | {"apiVersion": "apps/v1"}

    snapshot(tmp_path / "c.yaml", 8)
    objects = list(yaml.safe_load_all((tmp_path / "c.yaml").read_text()))
    pods = [
        {"apiVersion": "v1", "kind": "Pod"}
        | {"metadata": {"name": f"web-{n}", "namespace": "shop", "labels": {"app": "web"}}}
        | {"spec": state(1)["spec"]["template"]["spec"] | {"nodeName": "node", "priority": 0}}
        for n in range(3)
    ]
    write(tmp_path / "c.yaml", *objects, state(3), *pods)
    one, two = versions({"web.yaml": [state(3)]}, {"web.yaml": [state(1)]})
    given = (one, two, "--cluster", tmp_path / "c.yaml")
    assert "preempted 0 | Pending 0 | lost 0 | Pods removed 2\n" in forewarn("diff", *given).stdout
    found = asked(*given)
    assert (found["status"], counters_of(found)) == ("OK", {})
    assert found["clusters"][0]["answer"]["running"] == {"before": 3, "after": 1}
    gone = json.loads(
        forewarn("whatif", "apply", "-f", tmp_path / "two", "--cluster", tmp_path / "c.yaml", "-o", "json").stdout
    )
    assert (gone["counters"]["lost"], gone["scaledDown"]) == (0, 2)
    shutil.copy(tmp_path / "c.yaml", tmp_path / "d.yaml")
    write(tmp_path / "two/web.yaml", state(0))
    write(tmp_path / "none/web.yaml")
    for head in ("two", "none"):
        done = forewarn("diff", one, tmp_path / head, "--clusters", tmp_path / "[cd].yaml", "--prune", "-v")
        assert done.stdout.startswith("OK  "), done.stdout
        assert ": all alike: 3 Pods removed\n" in done.stdout
        assert done.stdout.count(" | Pods removed 3\n") == 2


def test_a_changed_class_affects_the_new_pods_of_workloads_that_stay(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    default = {**CLASSES[1], "metadata": {"name": "default"}, "value": 20, "globalDefault": True}
    named = deployment("named", 0, priorityClassName="low")
    snapshot(tmp_path / "full.yaml", 4, ("named-1", 1, "low"))
    write(tmp_path / "one.yaml", named, deployment("bare", 0))
    sides = versions({"c.yaml": CLASSES}, {"c.yaml": [CLASSES[1], default]})
    given = (*sides, "--cluster", tmp_path / "full.yaml", "--cluster", tmp_path / "one.yaml")
    kept = asked(*given)
    assert (kept["status"], kept["clause"]) == ("WARN", "new Pods of 1 workload change priority")
    assert kept["warnings"][-1] == (
        "if the GitOps tool prunes PriorityClass low, new Pods of 1 workload are rejected. "
        "Fix: keep it until no workload names it"
    )
    (cluster,) = kept["clusters"]
    assert [row["newPriority"] for row in cluster["namespaces"]] == [1]
    assert [(item["priorityClass"], item["names"]) for item in cluster["pruned"]] == [("low", ["shop/named"])]
    assert cluster["passed"] == [{"priorityClass": "low", "outranked": 1, "outranking": 0}]
    assert "shop/named" not in forewarn("diff", *given, "--disclose", "counts").stdout
    pruned = asked(*given, "--prune")
    clause = "new Pods of 1 workload rejected, new Pods of 1 workload change priority"
    assert (pruned["status"], pruned["clause"]) == ("HARM", clause)
    (cluster,) = pruned["clusters"]
    new_pods = {row["workload"]: row["newPods"]["after"] for row in cluster["answer"]["newPods"]}
    default = {"priorityClassName": "default", "priority": 20, "preemptionPolicy": "PreemptLowerPriority"}
    assert new_pods == {"shop/bare": default, "shop/named": None}


def test_changed_requests_are_seen_first(versions: Callable[..., tuple[Path, Path]]) -> None:
    before, after = (deployment("web", *each, priorityClassName="high") for each in ((1, "1"), (2, "2")))
    (row,) = asked(*versions({"web.yaml": [before]}, {"web.yaml": [after]}))["rows"]
    assert row["change"] == "requests.cpu 1 → 2; replicas 1 → 2"


def test_what_all_clusters_reject_is_in_each_row(versions: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    for name in ("one", "two"):
        snapshot(tmp_path / f"{name}.yaml", 2, (name, 2, "low"))
    wrong = deployment("wrong", priorityClassName="hihg")
    sides = versions({"web.yaml": []}, {"web.yaml": [wrong, deployment("web", 1, "2", priorityClassName="high")]})
    found = asked(*sides, "--clusters", tmp_path / "*.yaml")
    assert (found["status"], found["clause"]) == ("REJECTED", "all alike: 1 object rejected, 1 of 1 new Pod runs")
    why = 'no PriorityClass with name hihg was found; did you mean "high"?: Pods of Deployment shop/wrong'
    rows = [(row["status"], row["rejected"], row["preempted"], row["because"]) for row in found["rows"]]
    assert rows == [("REJECTED", 1, 1, why)] * 2
    assert counters_of(found) == {"victims": 2, "preempted": 2, "lost": 2, "rejected": 2}


def test_replicas_that_something_else_has_added_are_scaled_down(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 8)
    objects = yaml.safe_load_all((tmp_path / "c.yaml").read_text())
    others = {"as-written": 5, "more-before": 4}
    write(tmp_path / "c.yaml", *objects, deployment("web", 5), *(deployment(*each) for each in others.items()))
    before = [deployment("web", 1), deployment("as-written", 5), deployment("more-before", 6)]
    after = {"web.yaml": [deployment("web", 2), deployment("as-written", 3), deployment("more-before", 3)]}
    found = asked(*versions({"web.yaml": before}, after), "--cluster", tmp_path / "c.yaml")
    assert found["status"] == "WARN"
    more = "because the cluster has more than the manifests"
    assert found["warnings"][0].startswith(f"drift: the apply scales down 3 replicas, {more}. Fix: raise ")
    reset = {"workload": "shop/web", "field": "replicas", "before": "5", "after": "2", "cause": "drift"}
    assert found["clusters"][0]["resets"] == [reset]


def test_replicas_that_the_change_removes_are_its_own_effect(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    before, after = deployment("web", 4), deployment("web", 4)
    snapshot(tmp_path / "c.yaml", 8)
    write(tmp_path / "c.yaml", *yaml.safe_load_all((tmp_path / "c.yaml").read_text()), before)
    del after["spec"]["replicas"]
    found = asked(*versions({"web.yaml": [before]}, {"web.yaml": [after]}), "--cluster", tmp_path / "c.yaml")
    (told,) = (text for text in found["warnings"] if "scales down" in text)
    assert told.startswith("the apply scales down 3 replicas, because spec.replicas is removed. Fix: ")


@pytest.mark.parametrize("spec", [{"minAvailable": "100%"}, {"maxUnavailable": 0}])
def test_a_pdb_that_blocks_every_drain_is_named(
    spec: dict[str, Any], versions: Callable[..., tuple[Path, Path]]
) -> None:
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "shop"}}
    sides = versions({"b.yaml": [{**budget, "spec": {"minAvailable": 1}}]}, {"b.yaml": [{**budget, "spec": spec}]})
    found = asked(*sides)
    told = ["PDB shop/b allows no eviction and blocks drains. Fix: maxUnavailable: 1"]
    assert (found["status"], found["warnings"]) == ("WARN", told)


def test_the_rollout_of_a_workload_with_rejected_pods_is_not_simulated(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 4)
    with (tmp_path / "c.yaml").open("a") as state:
        yaml.safe_dump_all([deployment("web", 1)], state, explicit_start=True)
    wrong = deployment("web", 1, "1", priorityClassName="hihg")
    sides = versions({"web.yaml": [deployment("web", 1)]}, {"web.yaml": [wrong, deployment("new", 1, "8")]})
    found = asked(*sides, "--cluster", tmp_path / "c.yaml")
    assert (found["status"], counters_of(found)) == ("REJECTED", {"rejected": 1, "pending": 1})
    assert any(text.startswith("workloads with rejected Pods are not ") for text in found["warnings"])


def audiences(name: str, *given: str | Path) -> set[str]:
    """The values of --disclose with which an output, text or Markdown, contains the name."""
    shown = product(("names", "own-namespace", "counts"), ("text", "markdown"))
    return {who for who, form in shown if name in forewarn(*given, "--disclose", who, "-o", form).stdout}


def test_pods_over_a_quota_are_rejected(versions: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    snapshot(tmp_path / "c.yaml", 64)
    objects = [*yaml.safe_load_all((tmp_path / "c.yaml").read_text())]
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "shop"}}
    short = {**quota, "spec": {"hard": {"pods": "3"}}, "status": {"hard": {"pods": "3"}, "used": {"pods": "0"}}}
    write(tmp_path / "c.yaml", *objects, short, deployment("web", 2))
    sides = versions({"web.yaml": [deployment("web", 2)]}, {"web.yaml": [deployment("web", 9)]})
    given = ("--cluster", tmp_path / "c.yaml")
    done = forewarn("diff", *sides, *given, "--fail-on", "rejected")
    assert (done.returncode, "3 of 9 new Pods run, 6 Pods rejected" in done.stdout.splitlines()[0]) == (1, True)
    cause = {"number": 6, "kind": "quota", "reason": "by quota shop/q"}
    for side, rejected, causes in zip(sides, (0, 6), (None, [cause]), strict=True):
        done = forewarn("whatif", "apply", "-f", side, *given, "--fail-on", "rejected", "-o", "json")
        found = json.loads(done.stdout)
        told = (done.returncode, found["counters"]["rejected"], found.get("why", {}).get("causes"))
        assert told == (int(rejected > 0), rejected, causes)
    assert audiences("shop/q", "diff", *sides, *given) == {"names"}


@pytest.mark.parametrize("names", ["abc", "bca", "cab"])
def test_clusters_with_the_same_effects_are_in_the_order_of_their_names(
    names: str, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    for name, pods in (("a", 2), ("b", 3), ("c", 3)):
        snapshot(tmp_path / f"{name}.yaml", 8, *((f"p{number}", 1, "low") for number in range(pods)))
    web = deployment("web", 1, "6", priorityClassName="high")
    clusters = [part for name in names for part in ("--clusters", tmp_path / f"{name}.yaml")]
    rows = asked(*versions({}, {"web.yaml": [web]}), *clusters)["rows"]
    assert [(row["cluster"], row["lost"]) for row in rows] == [("b", 1), ("c", 1), ("a", 0)]


def test_the_cluster_that_loses_the_highest_priority_is_first(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "a.yaml", 2, ("one", 1, "low"), ("two", 1, "low"))
    snapshot(tmp_path / "b.yaml", 2, ("web-0", 2, "high"))
    top = {**CLASSES[0], "metadata": {"name": "top"}, "value": 2000}
    web = deployment("web", 1, "2", priorityClassName="top")
    found = asked(*versions({}, {"web.yaml": [top, web]}), "--clusters", tmp_path / "[ab].yaml")
    assert [(row["cluster"], row["lost"]) for row in found["rows"]] == [("b", 1), ("a", 2)]
    each = [cluster["answer"]["counters"] for cluster in found["clusters"]]
    assert found["counters"] == {name: sum(counters[name] for counters in each) for name in found["counters"]}
    cells = [row["rejected"] + row["preempted"] + row["lost"] + row["pending"] for row in found["rows"]]
    names = ("rejected", "preempted", "lost", "pending")
    assert sum(cells) == sum(found["counters"][name] for name in names)


def test_a_workload_that_is_not_as_in_the_first_version_is_named(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 2, ("batch", 2, "low"))
    objects = yaml.safe_load_all((tmp_path / "c.yaml").read_text())
    write(tmp_path / "c.yaml", *objects, deployment("web", 1, "2"), deployment("same", 0))
    before = [deployment("web", 1), deployment("same", 0)]
    after = [deployment("web", 2, priorityClassName="high"), deployment("same", 0, priorityClassName="high")]
    sides = versions({"web.yaml": before}, {"web.yaml": after})
    found = asked(*sides, "--cluster", tmp_path / "c.yaml")
    assert "drift: the apply also resets 1 field of workloads in the cluster" in found["warnings"]
    reset = {"workload": "shop/web", "field": "requests.cpu", "before": "2", "after": "1", "cause": "drift"}
    assert found["clusters"][0]["resets"] == [reset]


def test_live_values_are_for_those_who_may_see_names(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 64)
    names = [f"web-{n}" for n in range(6)]
    objects = yaml.safe_load_all((tmp_path / "c.yaml").read_text())
    write(tmp_path / "c.yaml", *objects, *(deployment(name, 1, "3") for name in names))
    sides = versions(
        {"web.yaml": [deployment(name, 1) for name in names]},
        {"web.yaml": [deployment(name, 2) for name in names]},
    )
    given = ("diff", *sides, "--cluster", tmp_path / "c.yaml")
    for disclose, count in (("names", 6), ("own-namespace", 0), ("counts", 0)):
        text = forewarn(*given, "--disclose", disclose, "-v").stdout
        assert len(re.findall("requests.cpu +3 +1 +drift\n", text)) == count


@pytest.mark.parametrize("name", ["one", "new"])
def test_a_workload_with_an_invalid_policy_is_rejected(
    name: str, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 2, ("one", 2, "low"))
    sides = versions({"web.yaml": [deployment(name)]}, {"web.yaml": [deployment(name, preemptionPolicy="Sometimes")]})
    ((_, why),) = causes_of(asked(*sides, "--cluster", tmp_path / "c.yaml"))
    assert why.startswith(f"Deployment shop/{name} (the string value of PreemptionPolicy (Sometimes) ")


@pytest.mark.parametrize(("disclose", "is_named"), [("names", True), ("own-namespace", False), ("counts", False)])
def test_reasons_of_rejections_are_for_those_who_may_see_names(
    disclose: str, is_named: bool, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 4)
    after = [{**each, "value": value} for each, value in zip(CLASSES, (11, 1001), strict=True)]
    sides = versions({"c.yaml": CLASSES}, {"c.yaml": after})
    done = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml", "--disclose", disclose)
    assert done.stdout.startswith("REJECTED  2 objects changed (value): 2 objects rejected\n          rejected 2\n")
    assert ("    1  PriorityClass low (value: immutable, stays 10)\n" in done.stdout) is is_named


def test_a_change_whose_objects_are_all_rejected_has_an_answer(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    for name in ("one", "two"):
        snapshot(tmp_path / f"{name}.yaml", 4)
    sides = versions({"web.yaml": []}, {"web.yaml": [deployment("web", priorityClassName="hihg")]})
    done = forewarn("diff", *sides, "--clusters", tmp_path / "*.yaml", "--fail-on", "rejected")
    assert (done.returncode, done.stderr) == (1, "forewarn: fails on rejected (--fail-on)\n")
    first, _, _, _, *rows = done.stdout.splitlines()[:6]
    assert first == "REJECTED  Deployment shop/web created: all alike: 1 object rejected"
    assert [row.split()[:3] for row in rows] == [[name, "REJECTED", "1"] for name in ("one", "two")]


def test_pending_pods_of_others_are_not_hidden_by_lost_replicas(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 4, ("one", 2, "low"), ("two", 2, "low"))
    new = [deployment("high", 1, "3", priorityClassName="high"), deployment("large", 2, "64")]
    sides = versions({"a.yaml": []}, {"a.yaml": new})
    found = asked(*sides, "--cluster", tmp_path / "c.yaml")
    assert counters_of(found) == {"victims": 2, "preempted": 2, "lost": 2, "pending": 2}
    (large,) = (row for row in rows_of(found) if row["workload"] == "shop/large")
    assert (large["pending"], large["reason"]) == (2, "1 node: too small even when empty: insufficient cpu")
    long = (tmp_path / "c.yaml").rename(tmp_path / f"{'c' * 130}.yaml")
    first, second = forewarn("diff", *sides, "--cluster", long).stdout.splitlines()[:2]
    assert first == f"HARM  {found['question']}: {found['clause']}"
    assert second == "      preempted 2 | Pending 2 | lost 2 of 2"


def test_a_comment_on_very_many_clusters_is_one_that_github_accepts() -> None:
    clusters = [OnCluster(f"cluster-{number}", [], [], reason=f"{number} " + "&" * 3000) for number in range(100)]
    changed = ChangedObject(".", "Deployment", "shop", "web", "changed", [])
    answer = answer_of(Diff("a", "b", [changed], clusters, ["x" * 3000] * 100))
    text = comment(answer.document, answer.head, answer.clusters)
    assert len(text.encode()) < 65_536
    assert re.search(r"and \d+ more parts; use -o json for all", text)


def stored(kind: str, replicas: int, *, redacted: bool, **pod: Any) -> list[dict[str, Any]]:
    """A workload as the API server stores it, its ReplicaSet, and its Pods on the node."""
    workload = deployment("web", replicas, **pod) | {"kind": kind}
    workload["metadata"]["uid"] = "web"
    template = workload["spec"]["template"]
    template["spec"] |= {"dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30}
    objects, owner = [workload], {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "web"}
    labels = {"app": "web", "controller-revision-hash": "web-1"}
    if kind == "Deployment":
        labels = {"app": "web", "pod-template-hash": "abc"}
        own = {"ownerReferences": [{**owner, "controller": True}], "labels": labels, "uid": "abc", "namespace": "shop"}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}}
        objects.append({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {**own, "name": "web-abc"}})
        objects[-1]["spec"] = {**spec, "template": {**template, "metadata": {"labels": labels}}}
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-abc", "uid": "abc"}
    for number in range(replicas):
        controlled = {"labels": labels, "ownerReferences": [{**owner, "controller": True}]}
        metadata = {"name": f"web-{number}", "namespace": "shop", **controlled}
        spec = {**template["spec"], "nodeName": "node", "priority": VALUES[pod["priorityClassName"]]}
        objects.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return [hide(json.loads(json.dumps(obj))) if redacted else obj for obj in objects]


@pytest.mark.parametrize("redacted", [False, True])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
@pytest.mark.parametrize(
    ("before", "after", "replaced", "running"),
    [
        ({"replicas": 2}, {"replicas": 3}, False, 3),
        ({}, {"schedulerName": "default-scheduler"}, True, 2),
        ({"replicas": 2}, {}, False, 1),
        ({"replicas": 2}, {"replicas": 2, "image": "new"}, True, 2),
    ],
)
def test_a_change_keeps_what_only_the_cluster_has(
    before: dict[str, Any],
    after: dict[str, Any],
    replaced: bool,
    running: int,
    kind: str,
    redacted: bool,
    versions: Callable[..., tuple[Path, Path]],
    tmp_path: Path,
) -> None:
    def manifest(replicas: int | None = None, image: str = "i", **pod: Any) -> dict[str, Any]:
        obj = deployment("web", priorityClassName="low", **pod) | {"kind": kind}
        obj["spec"]["template"]["spec"]["containers"][0]["image"] = image
        obj["spec"] = {key: value for key, value in obj["spec"].items() if key != "replicas"}
        obj["spec"] |= {} if replicas is None else {"replicas": replicas}
        return obj

    snapshot(tmp_path / "c.yaml", 8)
    objects = yaml.safe_load_all((tmp_path / "c.yaml").read_text())
    write(tmp_path / "c.yaml", *objects, *stored(kind, 2, redacted=redacted, priorityClassName="low"))
    sides = versions({"web.yaml": [manifest(**before)]}, {"web.yaml": [manifest(**after)]})
    done = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml", "-o", "json")
    (cluster,) = json.loads(done.stdout)["clusters"]
    assert cluster["answer"]["running"]["after"] == running
    assert (cluster["answer"]["steadyAt"] > 25) is (replaced or running == 1)  # the time of a termination
    resets = [(item["after"], item["cause"]) for item in cluster.get("resets", ())]
    assert resets == ([("1", "unset")] if running == 1 else [])


def test_pods_that_a_new_image_replaces_may_preempt(versions: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    """The rollout starts a further Pod before it deletes an old one."""
    web = deployment("web", 1, "2", priorityClassName="high")
    new = json.loads(json.dumps(web))
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "new"
    snapshot(tmp_path / "c.yaml", 4, ("batch", 2, "low"))
    objects = yaml.safe_load_all((tmp_path / "c.yaml").read_text())
    write(tmp_path / "c.yaml", *objects, *stored("Deployment", 1, redacted=False, cpu="2", priorityClassName="high"))
    sides = versions({"web.yaml": [web]}, {"web.yaml": [new]})
    given = (*sides, "--cluster", tmp_path / "c.yaml", "--fail-on", "change")
    found = asked(*given)
    assert (found["status"], counters_of(found)) == ("HARM", {"victims": 1, "preempted": 1, "lost": 1})
    assert [field["name"] for field in found["objects"][0]["fields"]] == ["template"]
    (sides[0] / "web.yaml").write_text(yaml.safe_dump({**web, "spec": {**web["spec"], "replicas": 3}}))
    done = forewarn("diff", *given)
    assert (done.returncode, "  replicas 3 → 1; new Pod template\n" in done.stdout) == (1, True)
    (sides[0] / "web.yaml").write_text(yaml.safe_dump(web))
    assert asked(*sides)["objects"] == []
    snapshot(tmp_path / "c.yaml", 4, ("batch", 4, "low"))
    assert asked(*given)["clause"].startswith("1 changed workload not simulated")


@pytest.mark.parametrize("place", ["manifests", "cluster"])
def test_replicas_that_an_autoscaler_sets_do_not_last(
    place: str, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    metadata = {"name": "by-load", "namespace": "shop"}
    scaler = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata} | {
        "spec": {"scaleTargetRef": target, "maxReplicas": 5}
    }
    snapshot(tmp_path / "c.yaml", 64)
    objects = [*yaml.safe_load_all((tmp_path / "c.yaml").read_text()), deployment("web", 6), deployment("other", 6)]
    write(tmp_path / "c.yaml", *objects, *([scaler] if place == "cluster" else []))
    beside = [scaler] if place == "manifests" else []
    others = [deployment("other", 2), *beside]
    names = ("within", "beyond")
    scalers = [json.loads(json.dumps(scaler).replace("web", name).replace("by-load", name)) for name in names]
    new = [deployment("within", 4), deployment("beyond", 6), *scalers]
    sides = versions({"w.yaml": [deployment("web", 2), *others]}, {"w.yaml": [deployment("web", 3), *others, *new]})
    found = asked(*sides, "--cluster", tmp_path / "c.yaml")
    assert found["status"] == "WARN"
    risk = "outage risk: the apply scales down 3 replicas until their HorizontalPodAutoscalers act. Fix: set the scale"
    assert any(text.startswith(risk) for text in found["warnings"])
    (cluster,) = found["clusters"]
    assert ("no HorizontalPodAutoscalers" in cluster["answer"]["head"]["assumes"]) is (place == "manifests")
    text = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml", "-v").stdout
    then = r"autoscaler +{} \(HorizontalPodAutoscaler {}: 1 to 5\)"
    assert re.search(r"shop/web +replicas +6 +3 +" + then.format(3, "by-load"), text)
    assert re.search(r"shop/beyond +replicas +- +6 +" + then.format(5, "beyond"), text)
    write(sides[1] / "w.yaml", deployment("web", 2), *others, *new)
    found = asked(*sides, "--cluster", tmp_path / "c.yaml")
    then = "HorizontalPodAutoscalers then scale 1 workload: the counters are those before that. Fix: "
    assert any(text.startswith(then) for text in found["warnings"])


def test_each_changed_workload_has_the_number_of_its_victims(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 7, ("one", 4, "low"), ("two", 3, "low"))
    new = [deployment("big", 1, "4", priorityClassName="high"), deployment("small", 1, "3", priorityClassName="high")]
    given = (*versions({"a.yaml": []}, {"a.yaml": new}), "--cluster", tmp_path / "c.yaml")
    text = forewarn("diff", *given).stdout
    assert re.search(r"CHANGED OBJECT +DIRECTORY +PREEMPTS +CHANGE\nDeployment shop/big +\. +1 +created; ", text)
    assert re.search(r"Deployment shop/small +\. +1 +created; ", text)


def test_placeholder_pods_are_counted_apart_from_others_of_their_namespace(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 4, ("pause", 2, "low"), ("batch", 2, "low"))
    objects = [*yaml.safe_load_all((tmp_path / "c.yaml").read_text())]
    objects[-2]["spec"] |= {"priority": -10}
    objects[-2]["spec"]["containers"][0]["image"] = "registry.k8s.io/pause:3.10"
    write(tmp_path / "c.yaml", *objects)
    sides = versions({"a.yaml": []}, {"a.yaml": [deployment("web", 1, "3", priorityClassName="high")]})
    found = asked(*sides, "--cluster", tmp_path / "c.yaml")
    (namespace,) = found["clusters"][0]["namespaces"]
    assert (namespace["preempted"], namespace["placeholders"]) == (1, 1)
    assert (found["counters"]["preempted"], found["counters"]["placeholders"]) == (1, 1)
    write(sides[1] / "a.yaml", deployment("web", 1, "2", priorityClassName="high"))
    found = asked(*sides, "--cluster", tmp_path / "c.yaml")
    assert (found["status"], counters_of(found)) == ("WARN", {"placeholders": 1})
    snapshot(tmp_path / "d.yaml", 4, ("batch", 4, "low"))
    rows = asked(*sides, "--clusters", tmp_path / "[cd].yaml")["rows"]
    assert [(row["cluster"], row["status"]) for row in rows] == [("d", "HARM"), ("c", "WARN")]


def test_an_object_that_directories_change_alike_is_counted_and_listed_once(
    versions: Callable[..., tuple[Path, Path]],
) -> None:
    objects = {path: [deployment("web", 2)] for path in ("a/web.yaml", "b/web.yaml")}
    sides = versions({}, objects)
    done = forewarn("diff", *sides)
    assert done.stdout.splitlines()[:4] == [
        "WARN  Deployment shop/web created: not simulated, because no cluster is given",
        "",
        "CHANGED OBJECT       DIRECTORY  CHANGE",
        "Deployment shop/web  a, b       created; replicas 2; requests cpu 1",
    ]


@pytest.mark.parametrize(
    ("kind", "metadata", "is_alike"),
    [
        ("Deployment", {"labels": {"team": "a"}}, True),
        ("Deployment", {"annotations": {"note": "a"}}, True),
        ("Deployment", {"annotations": {"argocd.argoproj.io/sync-wave": "1"}}, False),
        ("Pod", {"labels": {"app": "web"}}, False),
        ("Pod", {"finalizers": ["a/b"]}, True),
    ],
)
def test_metadata_that_matters_makes_new_objects_different(
    kind: str,
    metadata: dict[str, Any],
    is_alike: bool,
    versions: Callable[..., tuple[Path, Path]],
    tmp_path: Path,
) -> None:
    web = deployment("web")
    if kind == "Pod":
        web = {**web, "apiVersion": "v1", "kind": "Pod", "spec": web["spec"]["template"]["spec"]}
    other = {**web, "metadata": {**web["metadata"], **metadata}}
    snapshot(tmp_path / "c.yaml", 8)
    sides = versions({}, {"a/web.yaml": [web], "b/web.yaml": [other]})
    done = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml")
    assert ("changes in several directories" not in done.stdout) is is_alike


def test_what_a_simulation_lacks_is_reported(versions: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    """One CronJob starts its next Job within a day, and the other within a year. The time of the state is midnight."""
    snapshot(tmp_path / "c.yaml", 2, ("batch", 2, "low"))
    job = {"template": {"spec": deployment("p")["spec"]["template"]["spec"] | {"restartPolicy": "Never"}}}

    def cron(name: str, schedule: str) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "shop", "creationTimestamp": "2026-01-02T03:00:00Z"}
        spec = {"schedule": schedule, "jobTemplate": {"spec": job}}
        return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec}

    web = deployment("web", 1, "2", priorityClassName="high")
    for schedules in (["0 15 * * *", "0 0 1 1 *"], ["0 0 1 1 *"]):
        crons = [cron(f"c{number}", schedule) for number, schedule in enumerate(schedules)]
        shutil.rmtree(tmp_path / "one", ignore_errors=True)
        shutil.rmtree(tmp_path / "two", ignore_errors=True)
        found = asked(*versions({}, {"web.yaml": [web, *crons]}), "--cluster", tmp_path / "c.yaml")
        told = [text for text in found["warnings"] if text.startswith("not simulated: CronJob shop/c")]
        assert (len(told), all(": next Job after " in text for text in told)) == (len(crons), True)
        assert sum("Fix: --until 15h" in text for text in told) == len(crons) - 1


@pytest.mark.parametrize(("cpu", "preempted"), [("2", 1), ("4", 2)])
def test_pods_that_are_deleted_because_their_job_fails_are_explained(
    cpu: str, preempted: int, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    """A Job without retries loses its other Pod when one is preempted, but not if both are preempted."""
    snapshot(tmp_path / "c.yaml", 4)
    objects = [*yaml.safe_load_all((tmp_path / "c.yaml").read_text())]
    template = {"spec": deployment("p", cpu="2", priorityClassName="low")["spec"]["template"]["spec"]}
    template["spec"]["restartPolicy"] = "Never"
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "etl", "namespace": "shop", "uid": "j"}}
    job["spec"] = {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": template}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "etl", "uid": "j", "controller": True}
    pods = [
        {"apiVersion": "v1", "kind": "Pod"}
        | {"metadata": {"name": f"etl-{n}", "namespace": "shop", "ownerReferences": [owner]}}
        | {"spec": {**template["spec"], "nodeName": "node", "priority": 10}, "status": {"phase": "Running"}}
        for n in range(2)
    ]
    write(tmp_path / "c.yaml", *objects, job, *pods)
    sides = versions({}, {"web.yaml": [deployment("web", 1, cpu, priorityClassName="high")]})
    found = asked(*sides, "--cluster", tmp_path / "c.yaml")
    assert counters_of(found) == {"victims": preempted, "preempted": preempted, "lost": 2, "jobsFailed": 1}
    assert causes_of(found) == [(2, "1 Job fails: more of their Pods are deleted than backoffLimit allows")]


def test_a_pdb_is_short_because_of_drift(versions: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    """The cluster has 3 replicas, and a PDB that needs them; the manifests have 1."""
    snapshot(tmp_path / "c.yaml", 8)
    objects = [*yaml.safe_load_all((tmp_path / "c.yaml").read_text())]
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "shop"}}
    budget["spec"] = {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}
    write(tmp_path / "c.yaml", *objects, budget, *stored("Deployment", 3, redacted=False, priorityClassName="low"))
    both = [deployment("web", 1, cpu, priorityClassName="low") for cpu in ("1", "500m")]
    found = asked(*versions({"web.yaml": both[:1]}, {"web.yaml": both[1:]}), "--cluster", tmp_path / "c.yaml")
    assert (found["status"], counters_of(found)) == ("WARN", {"pdbsShort": 1})
    assert found["warnings"][0].startswith("drift: the apply scales down 2 replicas, because the cluster ")


@pytest.mark.parametrize(("cpu", "is_drift"), [("2", True), ("1", False)])
def test_a_blocked_rollout_counts_all_its_pending_pods_and_names_drift(
    cpu: str, is_drift: bool, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 4)
    objects = [*yaml.safe_load_all((tmp_path / "c.yaml").read_text())]
    write(tmp_path / "c.yaml", *objects, *stored("Deployment", 4, redacted=False, cpu="1", priorityClassName="low"))
    both = (deployment("web", *each, priorityClassName="low") for each in ((3, cpu), (4, "2")))
    found = asked(*versions(*({"web.yaml": [each]} for each in both)), "--cluster", tmp_path / "c.yaml")
    assert (found["status"], counters_of(found)) == ("BLOCKED", {"pending": 2, "lost": 1, "blocked": 1})
    assert any(text.startswith("drift: ") for text in found["warnings"]) is is_drift


def test_a_claim_that_the_snapshot_lacks_is_a_gap(versions: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    snapshot(tmp_path / "c.yaml", 8)
    objects = [*yaml.safe_load_all((tmp_path / "c.yaml").read_text())]
    write(
        tmp_path / "c.yaml",
        *objects,
        *stored("Deployment", 1, redacted=False, volumes=volumes, priorityClassName="low"),
    )
    sides = versions(
        *({"web.yaml": [deployment("web", 1, cpu, volumes=volumes, priorityClassName="low")]} for cpu in ("1", "2"))
    )
    warnings = asked(*sides, "--cluster", tmp_path / "c.yaml")["warnings"]
    assert any(text.startswith("not modelled: 1 PersistentVolumeClaim (shop/data): ") for text in warnings), warnings


@pytest.mark.parametrize(
    ("config", "counters"),
    [
        ("{}", {"victims": 1, "preempted": 1, "lost": 1}),
        ("recreatesPods: [example.com/Reserve]", {"victims": 1, "preempted": 1, "lost": 1, "pending": 1}),
        ("placeholderPods: {matchExpressions: [{key: app, operator: DoesNotExist}]}", {"placeholders": 1}),
    ],
)
def test_the_configuration_names_placeholder_pods_and_controllers(
    config: str, counters: dict[str, int], tmp_path: Path
) -> None:
    snapshot(tmp_path / "cluster.yaml", 4, ("reserve", 3, "low"))
    objects = list(yaml.safe_load_all((tmp_path / "cluster.yaml").read_text()))
    owner = {"apiVersion": "example.com/v1", "kind": "Reserve", "name": "reserve", "uid": "u", "controller": True}
    for obj in objects:
        if obj["kind"] == "Pod":
            obj["metadata"]["ownerReferences"] = [owner]
    write(tmp_path / "cluster.yaml", *objects)
    (tmp_path / "old").mkdir()
    write(tmp_path / "new/web.yaml", deployment("web", cpu="3", priorityClassName="high"))
    (tmp_path / "config.yaml").write_text(config)
    given = ("--cluster", tmp_path / "cluster.yaml", "--config", tmp_path / "config.yaml")
    assert counters_of(asked(tmp_path / "old", tmp_path / "new", *given)) == counters


def test_objects_without_a_prediction_are_neither_rejected_nor_running(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 64)
    spec = {"priorityClassName": "none", "schedulingPolicy": {"gang": {"minCount": 1}}}
    metadata = {"name": "train", "namespace": "shop"}
    group = {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    of_group = deployment("member", schedulingGroup={"podGroupName": "train"})
    unreadable = deployment("unreadable")
    unreadable["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1x"}}
    new = [group, of_group, unreadable, deployment("other", schedulerName="other"), deployment("web")]
    sides = versions({"a.yaml": [deployment("old")]}, {"a.yaml": [deployment("old"), *new]})
    found = asked(*sides, "--cluster", tmp_path / "c.yaml")
    assert (found["status"], found["counters"]["rejected"]) == ("REJECTED", 1)
    assert causes_of(found) == [(1, "PodGroup shop/train (no PriorityClass with name none was found)")]
    told = "1 changed object not predicted: Deployment shop/member: kube-apiserver rejects PodGroup train"
    assert found["warnings"][1].startswith(told)


def test_a_blocked_rollout_is_first(versions: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    low, high = (deployment("web", 1, "1", priorityClassName=name) for name in ("low", "high"))
    snapshot(tmp_path / "c.yaml", 4, ("web-1", 1, "low"))
    node, none, *others = yaml.safe_load_all((tmp_path / "c.yaml").read_text())
    others[-1]["metadata"]["labels"] = low["spec"]["template"]["metadata"]["labels"]
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "shop"}}
    quota |= {"spec": {"hard": {"pods": "1"}}, "status": {"hard": {"pods": "1"}, "used": {"pods": "1"}}}
    write(tmp_path / "c.yaml", node, none, quota, low, *others)
    sides = versions({"web.yaml": [low]}, {"web.yaml": [high]})
    given = ("diff", *sides, "--cluster", tmp_path / "c.yaml")
    assert audiences("shop/q", *given) == {"names"}
    first = forewarn(*given).stdout.splitlines()[0]
    assert first.startswith("BLOCKED  Deployment shop/web changed (priorityClassName): 1 rollout does not finish")


@pytest.mark.parametrize("is_list", [True, False])
def test_a_cluster_snapshot_in_the_repository_is_not_compared(
    is_list: bool, versions: Callable[..., tuple[Path, Path]]
) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}}
    pod |= {"spec": deployment("p")["spec"]["template"]["spec"] | {"nodeName": "n1"}, "status": {"phase": "Running"}}
    scaler = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}}
    before, after = (
        [pod, deployment("web", replicas), scaler | {"spec": {"maxReplicas": replicas}}] for replicas in (1, 9)
    )
    lists = ({"apiVersion": "v1", "kind": "List", "items": objects} for objects in (before, after))
    old, new = ([each] for each in lists) if is_list else (before, after)
    found = asked(*versions({"snapshots/a.json": old}, {"snapshots/a.json": new, "web.yaml": [deployment("x")]}))
    assert [each["name"] for each in found["objects"]] == ["x"]
    assert found["warnings"] == ["not compared: snapshots/a.json: a cluster snapshot"]
