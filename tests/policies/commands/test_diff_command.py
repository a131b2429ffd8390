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

from forewarn.policies.application.diff import Diff, DiffRequest, OnCluster
from forewarn.policies.config.model import Config
from forewarn.policies.findings import plural
from forewarn.policies.lint.input import LintRequest
from forewarn.policies.lint.versions import Side, may_differ, read_version
from forewarn.policies.lint.versions import versions as read_versions
from forewarn.policies.manifests.differences import ChangedObject, differences
from forewarn.policies.objects.redaction import redacted as hide
from forewarn.policies.render.diff import markdown
from tests.in_process import forewarn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GAPS = "Incomplete (effects can be missing)"
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
    assert done.stdout.startswith("no change of priorities, requests, replicas, quotas or PDBs\n")


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
    done = forewarn("diff", *versions({"web.yaml": [old]}, {"web.yaml": [new]}), "--cluster", tmp_path / "cluster.yaml")
    assert ": 1 of 2 replicas of shop/web down for 20 min" in done.stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("annotations", "image", "cpu", "first"),
    [
        ({}, "b", "1", "rejected unless it is deleted first (immutable: spec.template.spec.containers[0].image)"),
        ({}, "a", "2", "requests.cpu 1 → 2, rejected unless it is deleted first (immutable: spec.template.spec."),
        ({"kustomize.toolkit.fluxcd.io/force": "enabled"}, "a", "2", "requests.cpu 1 → 2\n"),
    ],
)
def test_the_template_of_a_job_is_immutable(
    annotations: dict[str, str], image: str, cpu: str, first: str, versions: Callable[..., tuple[Path, Path]]
) -> None:
    jobs = [deployment("web", cpu=of_cpu) | {"apiVersion": "batch/v1", "kind": "Job"} for of_cpu in ("1", cpu)]
    for job, of_image in zip(jobs, ("a", image), strict=True):
        job["metadata"]["annotations"] = annotations
        job["spec"]["template"]["spec"]["containers"][0]["image"] = of_image
    sides = versions({"job.yaml": jobs[:1]}, {"job.yaml": jobs[1:]})
    assert forewarn("diff", *sides).stdout.startswith(f"Job shop/web: {first}")


@pytest.mark.parametrize(
    ("annotations", "cpu", "change"),
    [
        ({}, "1", "rejected unless it is deleted first (immutable: spec.serviceName)"),
        ({}, "2", "requests.cpu 1 → 2, rejected unless it is deleted first (immutable: spec.serviceName)"),
        ({"kustomize.toolkit.fluxcd.io/force": "enabled"}, "1", "new Pod template"),
    ],
)
def test_the_service_of_a_stateful_set_is_immutable(
    annotations: dict[str, str], cpu: str, change: str, versions: Callable[..., tuple[Path, Path]]
) -> None:
    sets = [deployment("web", cpu=of_cpu) | {"kind": "StatefulSet"} for of_cpu in ("1", cpu)]
    for each, service in zip(sets, ("a", "b"), strict=True):
        each["metadata"]["annotations"] = annotations
        each["spec"] |= {"serviceName": service, "selector": {"matchLabels": {"app": "web"}}}
    sides = versions({"web.yaml": sets[:1]}, {"web.yaml": sets[1:]})
    answer = forewarn("diff", *sides, "--cluster", "webhook/sample/cluster.yaml")
    assert f".: changed StatefulSet shop/web: {change}\n" in answer.stdout


def test_without_a_change_nothing_is_simulated(versions: Callable[..., tuple[Path, Path]]) -> None:
    sides = versions({"a/web.yaml": [deployment("web")]}, {"b/web.yaml": [deployment("web")]})
    done = forewarn("diff", *sides, "--cluster", "webhook/sample/cluster.yaml")
    assert done.stdout.splitlines()[0].endswith(" quotas or PDBs, nothing simulated"), done.stdout


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
    done = forewarn("diff", *sides, "--clusters", tmp_path / "clusters/*.yaml", "--fail-on", "preemption")
    assert done.returncode == 1
    assert done.stdout.startswith(
        '1 of 2 clusters affected, cluster "full": shop/batch loses 1 of 1 Pod (preempted by shop/web)\n'
    )
    assert "\n  All Pods of shop/web run\n" in done.stdout
    assert done.stdout.count("1 preempted by shop/web") == 1
    text = forewarn("diff", *sides, "--clusters", tmp_path / "clusters/*.yaml", "-o", "markdown").stdout
    by = "shop/web (new Deployment, priorityClassName high, replicas 1, requests cpu 2)"
    assert f"\n- shop/batch (priority 10) loses 1 of 1 Pod: 1 preempted by {by}.\n" in text


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


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_readers_may_see_only_counts_or_their_own_namespaces(
    form: str, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "full.yaml", 4, ("batch", 2, "low"), ("secret", 2, "low"))
    objects = list(yaml.safe_load_all((tmp_path / "full.yaml").read_text()))
    objects[-1]["metadata"]["namespace"] = "vault"
    write(tmp_path / "full.yaml", *objects)
    sides = versions({"web.yaml": []}, {"web.yaml": [deployment("web", 2, "2", priorityClassName="high")]})
    given = ("diff", *sides, "--cluster", tmp_path / "full.yaml", "-o", form)
    names, own, counts = (forewarn(*given, "--disclose", who).stdout for who in ("names", "own-namespace", "counts"))
    lost = ("shop/batch and vault/secret", "2 workloads", "2 workloads")
    assert all(
        f"{who} lose 2 of 2 Pods (preempted by shop/web)" in out
        for who, out in zip(lost, (names, own, counts), strict=True)
    )
    assert [text in names for text in ("vault", "secret", "batch")] == [True] * 3
    assert not any(text in own + counts for text in ("vault", "secret", "batch"))
    rows = [re.search(r"^(  |\| )shop\b", out, re.MULTILINE) for out in (names, own, counts)]
    assert [*map(bool, rows)] == [True, True, False]


@pytest.mark.parametrize(("who", "name"), [("names", "vault/batch"), ("own-namespace", "1 workload")])
def test_the_only_workload_with_lost_pods_is_named_if_readers_may_see_it(
    who: str, name: str, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "full.yaml", 2, ("batch", 2, "low"))
    objects = list(yaml.safe_load_all((tmp_path / "full.yaml").read_text()))
    objects[-1]["metadata"]["namespace"] = "vault"
    write(tmp_path / "full.yaml", *objects)
    sides = versions({"web.yaml": []}, {"web.yaml": [deployment("web", 1, "2", priorityClassName="high")]})
    done = forewarn("diff", *sides, "--cluster", tmp_path / "full.yaml", "--disclose", who)
    assert done.stdout.startswith(f'cluster "full": {name} loses 1 of 1 Pod (preempted by shop/web)\n'), done.stdout


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
    given = ("diff", *sides, "--cluster", tmp_path / "c.yaml")
    lost = "shop/web loses 2 of 4 Pods (preempted by shop/new)"
    why = "insufficient cpu, node selector or node affinity does not match; no Pod of lower priority"
    first = f'cluster "c": {lost}, 1 new Pod Pending ({why}), 2 more Pods preempted and replaced'
    assert forewarn(*given).stdout.splitlines()[0] == first
    (namespace,) = json.loads(forewarn(*given, "-o", "json").stdout)["clusters"][0]["namespaces"]
    assert [namespace[key] for key in ("preempted", "lost", "pending", "replaced")] == [4, 2, 1, 2]
    text = forewarn(*given, "-o", "markdown").stdout
    assert "- shop/web (priority 10) loses 2 of 4 Pods: 4 preempted by shop/new (new Deployment, " in text
    assert "; 2 replacements run, 2 are Pending and fit on none of 2 nodes (" in text
    assert "\n- shop/new: 1 of 2 Pods is Pending and fits on none of 2 nodes (" in text


@pytest.mark.parametrize(
    ("is_known", "first"),
    [
        (
            True,
            (
                f'cluster "c": nothing simulated, so no statement on this change (incomplete)\n{GAPS.lower()}:\n'
                "  3 new Pods not predicted (shop/web): "
            ),
        ),
        (False, 'cluster "c": 1 new Pod Pending'),
    ],
)
def test_pods_whose_new_volumes_are_not_simulated_are_not_reported_as_pending(
    is_known: bool, first: str, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
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
    done = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml")
    assert done.stdout.startswith(first)
    comment = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml", "-o", "markdown").stdout
    assert ("; the StatefulSet creates 2 more Pods only when this one is ready.\n" in comment) == (not is_known)
    assert ("would try to" in comment, "1 Pod is Pending" in comment) == (not is_known, not is_known)


def test_the_directory_of_simulated_objects_is_named(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 2, ("batch", 2, "low"))
    web = deployment("web", 1, "2", priorityClassName="high")
    new = json.loads(json.dumps(web).replace('"image": "i"', '"image": "new"'))
    sides = versions({"test/web.yaml": [web]}, {"test/web.yaml": [new], "live/web.yaml": [web]})
    given = ("diff", *sides, "--cluster", tmp_path / "c.yaml", "-o", "markdown")
    told = (
        "- 2 directories have versions of these workloads: live is simulated, and not test. If the cluster gets these, "
        "the numbers do not hold. Fix: "
    )
    comment = forewarn(*given).stdout
    assert told in comment
    assert comment.startswith('### If cluster "c" gets live: ')
    assert f"\n**{GAPS}**\n" in comment
    assert "All Pods of" not in comment
    (tmp_path / "config.yaml").write_text("exclude: [test/*]\n")
    assert told not in forewarn(*given, "-c", tmp_path / "config.yaml").stdout


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
    owned_by = "  shop       web<b>          1\n"
    by_label = forewarn("diff", *given, "--owner-label", "team").stdout
    assert f"  NAMESPACE  OWNER   PODS LOST\n{owned_by}" in by_label
    assert "shop/batch (priority 10; owner web<b>) loses 1 of 1 Pod: " in by_label
    assert "NAMESPACE" not in forewarn("diff", *given).stdout
    (row,) = json.loads(forewarn("diff", *given, "-o", "json").stdout)["clusters"][0]["namespaces"]
    assert row == {"namespace": "shop", "owner": "", "preempted": 1, "pending": 0, "lost": 1} | {
        "rejected": 0,
        "scaledDown": 0,
        "newPriority": 0,
        "placeholders": 0,
        "replaced": 0,
        "pruned": 0,
        "removed": 0,
    }
    markdown = forewarn("diff", *given, "--owner-label", "team", "-o", "markdown").stdout
    assert "| shop | web\\<b\\> | 1 |" in markdown
    (sides[1] / "CODEOWNERS").write_text("* @all\n*.yaml @web\n")
    assert "  shop       @web           1\n" in forewarn("diff", *given).stdout
    assert owned_by in forewarn("diff", *given, "--owner-label", "team").stdout


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
    assert '"full": the snapshot is of unknown age; --max-age is 24 h. Fix: write a new snapshot\n' in done.stdout


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
    lines = forewarn("diff", *sides).stdout.splitlines()
    assert lines[0] == "no change of priorities, requests, replicas, quotas or PDBs (incomplete)"
    assert lines[1] == f"{GAPS.lower()}:"
    assert lines[2].startswith("  not compared: ")
    assert ": d.yaml:" in lines[2]
    kinds = "HorizontalPodAutoscaler (1), HelmRelease (1), values of a chart (1)"
    assert lines[3] == f"  3 changed objects not compared: {kinds}"
    assert [line.removeprefix("not compared: ") for line in lines[5:]] == [
        *("a.yaml: HorizontalPodAutoscaler shop/web", "b.yaml: HelmRelease loki"),
        "prod/values.yaml: values of a chart",
    ]
    text = forewarn("diff", *sides, "-o", "markdown").stdout
    assert "\n- b.yaml: HelmRelease loki\n" in text


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
    before, after = (read_version(side, LintRequest((), Config()), ())[0] for side in sides)
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
    assert (f"not compared: x.yaml: {name} x" in forewarn("diff", *sides).stdout) == is_told


@pytest.mark.parametrize(("was", "to"), [('"image": "i"', '"image": "new"'), ('"cpu": "1"', '"cpu": "2"')])
def test_changed_workloads_that_the_cluster_lacks_are_not_simulated(
    was: str, to: str, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 2, ("batch", 2, "low"))
    old = deployment("old")
    web = deployment("web", 1, "2", priorityClassName="high")
    image = json.loads(json.dumps(old).replace(was, to))
    sides = versions({"a.yaml": [old]}, {"a.yaml": [image, web]})
    text = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml", "-o", "markdown").stdout
    told = "1 changed workload not simulated, because the snapshot does not have Deployment shop/old. Fix: take a new"
    assert text.startswith('### Cluster "c": shop/batch loses 1 of 1 Pod (preempted by shop/web) (incomplete)\n')
    assert f"\n**{GAPS}**\n\n- {told} snapshot, " in text


@pytest.mark.parametrize(("new", "is_rejected"), [([], True), ([CLASSES[0] | {"metadata": {"name": "hihg"}}], False)])
def test_a_missing_class_of_a_workload_that_the_cluster_lacks_is_reported(
    new: list[dict[str, Any]], is_rejected: bool, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 2)
    wrong = deployment("old", priorityClassName="hihg")
    sides = versions({"a.yaml": [deployment("old")]}, {"a.yaml": [wrong, *new]})
    done = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml", "--fail-on", "rejected")
    assert (done.returncode, "Pods rejected: Deployment shop/old: " in done.stdout) == (int(is_rejected), is_rejected)


def test_the_network_is_for_those_who_allow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The permission reaches the request; nothing is rendered."""
    requests: list[DiffRequest] = []

    def recorded(request: DiffRequest, clusters: object) -> Diff:
        requests.append(request)
        return Diff("one", "two", [], [], [])

    monkeypatch.setattr("forewarn.policies.commands.diff.diff", recorded)
    for option in ([], ["--render-network"]):
        assert forewarn("diff", *option).returncode == 0
    assert [request.rendering and request.rendering.network for request in requests] == [False, True]


def test_of_many_objects_that_are_not_compared_the_first_are_named(versions: Callable[..., tuple[Path, Path]]) -> None:
    kind = {"apiVersion": "example.org/v1", "kind": "Database", "spec": {"replicas": 3}}
    databases = [kind | {"metadata": {"name": f"d{number:02}"}} for number in range(22)]
    sides = versions({}, {"x.yaml": databases})
    lines = forewarn("diff", *sides).stdout.splitlines()
    assert len(lines) == 4 + 22
    assert lines[2] == "  22 changed objects not compared: Database (22)"
    assert lines[4] == "not compared: x.yaml: Database d00"
    text = forewarn("diff", *sides, "-o", "markdown").stdout
    assert "\n- and 2 more objects; use -o json for all\n" in text


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
    done = forewarn("diff", one, two, "--cluster", tmp_path / "c.yaml")
    lines = done.stdout.splitlines()
    kept = "deletion of Deployment shop/old not simulated without --prune"  # and the PDB protects no Pod
    assert lines[0] == f'cluster "c": no effect of what is simulated; {kept} (incomplete)'
    assert any(
        line.startswith("Removed from the manifests, deletion not simulated: Deployment shop/old. ") for line in lines
    )
    assert lines[2].startswith(f"  not compared: {two}: new.yaml:")
    assert lines[3].startswith(
        "  1 changed workload not simulated, because the snapshot does not have Deployment shop/web"
    )
    assert lines[4].endswith("; 1 object deleted, 1 object changed, 1 object created")
    assert ".: changed Deployment shop/web: tolerations[] key b, operator Exists → removed" in lines
    assert "--prune" not in forewarn("diff", one, two, "--cluster", tmp_path / "c.yaml", "--prune").stdout


def test_a_kustomization_that_cannot_be_rendered_is_named_although_it_is_the_same(
    versions: Callable[..., tuple[Path, Path]],
) -> None:
    one, two = versions({"base/web.yaml": [deployment("web")]}, {"base/web.yaml": [deployment("web", 2)]})
    for side in (one, two):
        (side / "base/kustomization.yaml").write_text("resources: [web.yaml, https://example.com/x.yaml]\n")
    done = forewarn("diff", one, two)
    cause = "base/kustomization.yaml:1: cannot render: https://example.com/x.yaml: network access is off"
    fix = "Fix: pass --render-network, or exclude the directory"
    assert f"  not compared: {cause}. {fix}\n" in done.stdout
    for side in (one, two):
        shutil.copytree(side / "base", side / "other")
    assert forewarn("diff", one, two).stdout.startswith(
        f"Deployment shop/web: replicas 1 → 2 (incomplete)\n{GAPS.lower()}:\n"
    )
    comment = forewarn("diff", one, two, "-o", "markdown").stdout.replace("\\", "").replace("`", "")
    assert f"- Not compared: {cause} (and 1 more directory). {fix}.\n" in comment
    assert f"\n- {cause} (and 1 more directory). {fix}; also in other\n" in comment


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
    assert "Deployment shop/web: replicas 1 → 5" in done.stdout
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
    done = forewarn(
        "diff", *versions({"web.yaml": [state(3)]}, {"web.yaml": [state(1)]}), "--cluster", tmp_path / "c.yaml"
    )
    assert done.stdout.startswith('cluster "c": 2 Pods of shop/web removed\n'), done.stdout
    given = ("--cluster", tmp_path / "c.yaml", "-o", "json")
    (cluster,) = json.loads(forewarn("diff", tmp_path / "one", tmp_path / "two", *given).stdout)["clusters"]
    assert cluster["answer"]["running"] == {"before": 3, "after": 1}
    gone = json.loads(
        forewarn("whatif", "apply", "-f", tmp_path / "two", "--cluster", tmp_path / "c.yaml", "-o", "json").stdout
    )
    assert (gone["fewer"], gone["scaledDown"]) == (0, 2)
    shutil.copy(tmp_path / "c.yaml", tmp_path / "d.yaml")
    write(tmp_path / "two/web.yaml", state(0))
    write(tmp_path / "none/web.yaml")
    of_two = ("--clusters", tmp_path / "[cd].yaml")
    for head in ("two", "none"):
        done = forewarn("diff", tmp_path / "one", tmp_path / head, *of_two, "--prune")
        assert done.stdout.startswith("both clusters: 3 Pods of shop/web removed\n"), done.stdout
        assert "\n  c        unknown              3\n" in done.stdout
        assert "All Pods of" not in done.stdout
        assert "\n  Pods of deleted or scaled-down workloads removed: shop/web (3 of 3)\n" in done.stdout


def test_a_changed_class_affects_the_new_pods_of_workloads_that_stay(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    default = {**CLASSES[1], "metadata": {"name": "default"}, "value": 20, "globalDefault": True}
    named = deployment("named", 0, priorityClassName="low")
    snapshot(tmp_path / "full.yaml", 4, ("named-1", 1, "low"))
    write(tmp_path / "one.yaml", named, deployment("bare", 0))
    sides = versions({"c.yaml": CLASSES}, {"c.yaml": [CLASSES[1], default]})
    given = (*sides, "--cluster", tmp_path / "full.yaml", "--cluster", tmp_path / "one.yaml")
    kept = forewarn("diff", *given).stdout
    assert kept.startswith(
        'cluster "full": new Pods of 1 workload get priority 20 instead of 0, '
        "pruning PriorityClass low would reject new Pods of 1 workload\n"
    ), kept
    text = "If the GitOps tool prunes PriorityClass low, new Pods of 1 workload are rejected: shop/named. Fix: "
    assert f"\n  {text}" in kept
    (cluster,) = json.loads(forewarn("diff", *given, "-o", "json").stdout)["clusters"]
    assert [(row["newPriority"], row["pruned"]) for row in cluster["namespaces"]] == [(1, 1)]
    assert "shop/named" not in forewarn("diff", *given, "--disclose", "counts").stdout
    pruned = forewarn("diff", *given, "--prune").stdout
    first = 'cluster "full": new Pods of 1 workload rejected, new Pods of 1 workload get priority 20 instead of 0\n'
    assert pruned.startswith(first), pruned
    effects = [
        "- New Pods of shop/named with PriorityClass low rejected.",
        (
            "- New Pods of shop/bare get priority 20 instead of 0, and now outrank 1 running Pod of other workloads "
            "(of PriorityClass low)."
        ),
        "- Fix: keep low until no workload has it.",
    ]
    assert "ignored" not in pruned
    lines = forewarn("diff", *given, "--prune", "-o", "markdown").stdout.splitlines()
    assert lines[2:7] == [
        "- PriorityClass default created (value 20, globalDefault true) and PriorityClass low deleted (value 10).",
        "",
        *effects,
    ]
    (cluster,) = json.loads(forewarn("diff", *given, "--prune", "-o", "json").stdout)["clusters"]
    new_pods = {row["workload"]: row["newPods"]["after"] for row in cluster["answer"]["newPods"]}
    preempts = {"preemptionPolicy": "PreemptLowerPriority"}
    assert new_pods == {"shop/bare": {"priority": 20, **preempts}, "shop/named": None}


def test_what_all_clusters_reject_is_written_once(versions: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    for name in ("one", "two"):
        snapshot(tmp_path / f"{name}.yaml", 2, (name, 2, "low"))
    wrong = deployment("wrong", priorityClassName="hihg")
    sides = versions({"web.yaml": []}, {"web.yaml": [wrong, deployment("web", 1, "2", priorityClassName="high")]})
    lines = forewarn("diff", *sides, "--clusters", tmp_path / "*.yaml", "-o", "markdown").stdout.splitlines()
    rejected = (
        'Pods of Deployment shop/wrong rejected (no PriorityClass with name hihg was found; did you mean "high"?)'
    )
    worst = f"{rejected}, shop/one loses 1 of 1 Pod (preempted by shop/web)"
    assert lines[0] == f"### Both clusters affected, one most (equal: two): {worst}"
    new = "shop/web (new Deployment, priorityClassName high, replicas 1, requests cpu 2)"
    fault = "spec.template.spec.priorityClassName: no PriorityClass with name hihg was found"
    told = f'Pods rejected: Deployment shop/wrong: {fault}; did you mean "high"?'
    assert f"- **one, two** (the same in each): {told}" in lines
    for name in ("one", "two"):
        assert f"- shop/{name} (priority 10) loses 1 of 1 Pod: 1 preempted by {new}." in lines
    assert lines.count("- All Pods of shop/web run.") == 2


def test_replicas_that_something_else_has_added_are_scaled_down(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 8)
    objects = yaml.safe_load_all((tmp_path / "c.yaml").read_text())
    others = {"as-written": 5, "more-before": 4}
    write(tmp_path / "c.yaml", *objects, deployment("web", 5), *(deployment(*each) for each in others.items()))
    before = [deployment("web", 1), deployment("as-written", 5), deployment("more-before", 6)]
    after = {"web.yaml": [deployment("web", 2), deployment("as-written", 3), deployment("more-before", 3)]}
    done = forewarn("diff", *versions({"web.yaml": before}, after), "--cluster", tmp_path / "c.yaml")
    first = 'cluster "c": 3 running replicas scaled down because of drift\n'
    assert done.stdout.startswith(first), done.stdout
    down = "Scaled down, because the cluster has more replicas than the manifests: shop/web from 5 to 2. Fix: "
    assert f"\n    {down}" in done.stdout


def test_replicas_that_the_change_removes_are_its_own_effect(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    before, after = deployment("web", 4), deployment("web", 4)
    snapshot(tmp_path / "c.yaml", 8)
    write(tmp_path / "c.yaml", *yaml.safe_load_all((tmp_path / "c.yaml").read_text()), before)
    del after["spec"]["replicas"]
    done = forewarn("diff", *versions({"web.yaml": [before]}, {"web.yaml": [after]}), "--cluster", tmp_path / "c.yaml")
    assert "\n  Without spec.replicas, an apply scales down shop/web from 4 to 1. Fix: " in done.stdout
    assert "rift" not in done.stdout


@pytest.mark.parametrize("spec", [{"minAvailable": "100%"}, {"maxUnavailable": 0}])
def test_a_pdb_that_blocks_every_drain_is_in_the_first_line(
    spec: dict[str, Any], versions: Callable[..., tuple[Path, Path]]
) -> None:
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "shop"}}
    sides = versions({"b.yaml": [{**budget, "spec": {"minAvailable": 1}}]}, {"b.yaml": [{**budget, "spec": spec}]})
    assert forewarn("diff", *sides).stdout.partition("\n")[0].endswith("; 1 changed PDB never allows an eviction")


def test_the_rollout_of_a_workload_with_rejected_pods_is_not_simulated(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    for name in ("one", "two"):
        snapshot(tmp_path / f"{name}.yaml", 4)
        with (tmp_path / f"{name}.yaml").open("a") as state:
            yaml.safe_dump_all([deployment("web", 1)], state, explicit_start=True)
    wrong = deployment("web", 1, "1", priorityClassName="hihg")
    sides = versions({"web.yaml": [deployment("web", 1)]}, {"web.yaml": [wrong, deployment("new", 1, "8")]})
    text = forewarn("diff", *sides, "--clusters", tmp_path / "*.yaml", "-o", "markdown").stdout
    assert text.count("Rollouts of workloads with rejected Pods are not simulated") == 1


def audiences(name: str, *given: str | Path) -> set[str]:
    """The values of --disclose with which an output, text or Markdown, contains the name."""
    shown = product(("names", "own-namespace", "counts"), ("text", "markdown"))
    return {who for who, form in shown if name in forewarn(*given, "--disclose", who, "-o", form).stdout}


def test_pods_over_a_quota_are_in_the_first_line(versions: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    snapshot(tmp_path / "c.yaml", 64)
    objects = [*yaml.safe_load_all((tmp_path / "c.yaml").read_text())]
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "shop"}}
    short = {**quota, "spec": {"hard": {"pods": "3"}}, "status": {"hard": {"pods": "3"}, "used": {"pods": "0"}}}
    write(tmp_path / "c.yaml", *objects, short, deployment("web", 2))
    sides = versions({"web.yaml": [deployment("web", 2)]}, {"web.yaml": [deployment("web", 9)]})
    given = ("--cluster", tmp_path / "c.yaml")
    done = forewarn("diff", *sides, *given, "--fail-on", "quota")
    by = "6 Pods of shop/web rejected by quota shop/q (3 of 9 new Pods run)"
    assert (done.returncode, by in done.stdout.splitlines()[0]) == (1, True)
    cause = {"number": 6, "kind": "quota", "reason": "quota shop/q rejects them"}
    for side, rejected, causes in zip(sides, (0, 6), (None, [cause]), strict=True):
        done = forewarn("whatif", "apply", "-f", side, *given, "--fail-on", "rejected", "-o", "json")
        found = json.loads(done.stdout)
        told = (done.returncode, found["counters"]["rejected"], found.get("why", {}).get("causes"))
        assert told == (int(rejected > 0), rejected, causes)
    assert audiences("shop/q", "diff", *sides, *given) == {"names", "own-namespace"}


@pytest.mark.parametrize("names", ["abc", "bca", "cab"])
def test_the_cluster_with_the_most_pods_that_cannot_be_recreated_is_first(
    names: str, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    for name, pods in (("a", 2), ("b", 3), ("c", 3)):
        snapshot(tmp_path / f"{name}.yaml", 8, *((f"p{number}", 1, "low") for number in range(pods)))
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "shop"}}
    sides = versions({}, {"quota.yaml": [quota | {"spec": {"hard": {"pods": "1"}}}]})
    clusters = [part for name in names for part in ("--clusters", tmp_path / f"{name}.yaml")]
    lines = forewarn("diff", *sides, *clusters).stdout.splitlines()
    rejected = "new Pods of 3 workloads rejected by ResourceQuotas (2 running Pods cannot be recreated)"
    assert lines[0] == f"all 3 clusters affected, b most (equal: c): {rejected}"
    assert "  CLUSTER  SNAPSHOT  NOT RECREATABLE" in lines
    assert "  a        unknown                 1" in lines


def test_the_cluster_that_loses_the_highest_priority_is_first(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "a.yaml", 2, ("one", 1, "low"), ("two", 1, "low"))
    snapshot(tmp_path / "b.yaml", 2, ("web-0", 2, "high"))
    top = {**CLASSES[0], "metadata": {"name": "top"}, "value": 2000}
    web = deployment("web", 1, "2", priorityClassName="top")
    clusters = ("--clusters", tmp_path / "[ab].yaml")
    line = forewarn("diff", *versions({}, {"web.yaml": [top, web]}), *clusters).stdout.partition("\n")[0]
    assert line.startswith("both clusters affected, b most: shop/web-0 loses 1 of 1 Pod"), line


def test_a_workload_that_is_not_as_in_the_first_version_is_named(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 2, ("batch", 2, "low"))
    objects = yaml.safe_load_all((tmp_path / "c.yaml").read_text())
    write(tmp_path / "c.yaml", *objects, deployment("web", 1, "2"), deployment("same", 0))
    before = [deployment("web", 1), deployment("same", 0)]
    after = [deployment("web", 2, priorityClassName="high"), deployment("same", 0, priorityClassName="high")]
    sides = versions({"web.yaml": before}, {"web.yaml": after})
    reported = [
        "Drift: changed in the cluster, not by this change; an apply resets it (now → after the apply):",
        "The apply also resets: shop/web (requests.cpu 2 → 1)",
    ]
    given = (*sides, "--cluster", tmp_path / "c.yaml")
    assert [
        line.strip() for line in forewarn("diff", *given).stdout.splitlines() if re.search("Drift|also resets", line)
    ] == reported
    (cluster,) = json.loads(forewarn("diff", *given, "-o", "json").stdout)["clusters"]
    fields = [{"name": "requests.cpu", "before": "2", "after": "1"}]
    assert cluster["differing"] == [{"workload": "shop/web", "fields": fields}]


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
        text = forewarn(*given, "--disclose", disclose).stdout
        assert text.count("(requests.cpu 3 → 1)") == count


@pytest.mark.parametrize("name", ["one", "new"])
def test_a_workload_with_an_invalid_policy_is_rejected(
    name: str, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 2, ("one", 2, "low"))
    sides = versions({"web.yaml": [deployment(name)]}, {"web.yaml": [deployment(name, preemptionPolicy="Sometimes")]})
    answer = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml")
    assert f": Deployment shop/{name} rejected (the string value of PreemptionPolicy (Sometimes) " in answer.stdout


@pytest.mark.parametrize(
    ("disclose", "changed", "first"),
    [
        ("names", (("low", 11),), "PriorityClass low rejected (value: immutable, stays 10)"),
        ("counts", (("low", 11),), "1 changed object rejected"),
        ("names", (("low", 11), ("high", 1001)), "2 changed objects rejected"),
    ],
)
def test_the_only_rejected_object_is_named_with_the_reason(
    disclose: str,
    changed: tuple[tuple[str, int], ...],
    first: str,
    versions: Callable[..., tuple[Path, Path]],
    tmp_path: Path,
) -> None:
    snapshot(tmp_path / "c.yaml", 4)
    after = [{**each, "value": value} for each, value in zip(CLASSES, (VALUES | dict(changed)).values(), strict=True)]
    sides = versions({"c.yaml": CLASSES}, {"c.yaml": after})
    done = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml", "--disclose", disclose)
    assert done.stdout.startswith(f'cluster "c": {first}\n'), done.stdout


def test_a_change_whose_objects_are_all_rejected_has_an_answer(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    for name in ("one", "two"):
        snapshot(tmp_path / f"{name}.yaml", 4)
    sides = versions({"web.yaml": []}, {"web.yaml": [deployment("web", priorityClassName="hihg")]})
    done = forewarn("diff", *sides, "--clusters", tmp_path / "*.yaml", "--fail-on", "rejected", "-o", "markdown")
    assert (done.returncode, done.stderr) == (1, "forewarn: fails on rejected (--fail-on)\n")
    lines = done.stdout.splitlines()
    why = 'no PriorityClass with name hihg was found; did you mean "high"?'
    assert lines[0] == f"### Both clusters: Pods of Deployment shop/web rejected ({why})"
    rejected = "- **one, two** (the same in each): Pods rejected: Deployment shop/web: "
    assert any(line.startswith(rejected) for line in lines)


def test_pending_pods_of_others_are_not_hidden_by_lost_replicas(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 4, ("one", 2, "low"), ("two", 2, "low"))
    new = [deployment("high", 1, "3", priorityClassName="high"), deployment("large", 2, "64")]
    sides = versions({"a.yaml": []}, {"a.yaml": new})
    done = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml")
    lost = "shop/one and shop/two lose 2 of 2 Pods (preempted by shop/high)"
    why = "too small even when empty: insufficient cpu"
    assert done.stdout.startswith(f'cluster "c": {lost}, 2 new Pods Pending ({why})\n'), done.stdout
    assert "would try to scale up for both Pending Pods; too large for every node: 2\n" in done.stdout
    long = (tmp_path / "c.yaml").rename(tmp_path / f"{'c' * 130}.yaml")
    done = forewarn("diff", *sides, "--cluster", long)
    assert done.stdout.splitlines()[0] == f'cluster "{long.stem}": {lost}, 2 new Pods Pending ({why})'


def test_a_comment_on_very_many_clusters_is_one_that_github_accepts() -> None:
    clusters = [OnCluster(f"cluster-{number}", [], [], reason=f"{number} " + "x" * 300) for number in range(1000)]
    changed = ChangedObject(".", "Deployment", "shop", "web", "changed", [])
    text = markdown(Diff("a", "b", [changed], clusters, []))
    assert len(text.encode()) < 65_536
    assert re.search(r"and \d+ more lines; use -o json for all", text)


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
    assert (cluster["answer"]["settledAt"] > 25) is (replaced or running == 1)  # the time of a termination
    assert [item["after"] for item in cluster.get("scaledDown", ())] == ([1] if running == 1 else [])


def test_pods_that_a_new_image_replaces_may_preempt(versions: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    """The rollout starts a further Pod before it deletes an old one."""
    web = deployment("web", 1, "2", priorityClassName="high")
    new = json.loads(json.dumps(web))
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "new"
    snapshot(tmp_path / "c.yaml", 4, ("batch", 2, "low"))
    objects = yaml.safe_load_all((tmp_path / "c.yaml").read_text())
    write(tmp_path / "c.yaml", *objects, *stored("Deployment", 1, redacted=False, cpu="2", priorityClassName="high"))
    sides = versions({"web.yaml": [web]}, {"web.yaml": [new]})
    given = ("--cluster", tmp_path / "c.yaml", "--fail-on", "change")
    done = forewarn("diff", *sides, *given)
    assert done.stdout.startswith('cluster "c": shop/batch loses 1 of 1 Pod (preempted by shop/web)\n'), done.stdout
    assert ".: changed Deployment shop/web: new Pod template\n" in done.stdout
    assert done.returncode == 0, done.stderr
    comment = forewarn("diff", *sides, *given, "-o", "markdown").stdout
    assert "loses 1 of 1 Pod: 1 preempted by shop/web (rollout: new Pod template).\n" in comment
    assert "before they delete old ones (maxSurge), so they need more resources for a time: shop/web.\n" in comment
    (sides[0] / "web.yaml").write_text(yaml.safe_dump({**web, "spec": {**web["spec"], "replicas": 3}}))
    assert (
        ".: changed Deployment shop/web: replicas 3 → 1, new Pod template\n" in forewarn("diff", *sides, *given).stdout
    )
    (sides[0] / "web.yaml").write_text(yaml.safe_dump(web))
    assert forewarn("diff", *sides).stdout.startswith("no change of priorities, requests, replicas, quotas or PDBs\n")
    snapshot(tmp_path / "c.yaml", 4, ("batch", 4, "low"))
    assert (
        forewarn("diff", *sides, *given)
        .stdout.splitlines()[0]
        .endswith("nothing simulated, so no statement on this change (incomplete)")
    )


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
    done = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml")
    lines = [line.strip() for line in done.stdout.splitlines()]
    told = [line.partition(". Fix: set the scale in ")[0] for line in lines if "HorizontalPodAutoscalers " in line]
    reduced = "the apply scales down workloads until their HorizontalPodAutoscalers act: shop/web (6 now → 3 applied → "
    before = "HorizontalPodAutoscalers then change replicas; the other numbers are those before that: "
    assert told[1:3] == [
        f"Outage risk: {reduced}between 1 and 5, by load)",
        f"{before}shop/beyond (6 applied → 5 by maxReplicas)",
    ]
    assert ("; no HorizontalPodAutoscalers" in done.stdout) is (place == "manifests")  # the cluster's
    assert "HorizontalPodAutoscalers then scale 2 workloads" in lines[0]
    assert "3 replicas scaled down until HorizontalPodAutoscalers act" in lines[0]
    write(sides[1] / "w.yaml", deployment("web", 2), *others, *new)
    first = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml").stdout.splitlines()[0]
    assert "HorizontalPodAutoscalers then scale shop/beyond from 6 to 5 replicas" in first


def test_each_changed_workload_is_named_with_its_victims(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 7, ("one", 4, "low"), ("two", 3, "low"))
    new = [deployment("big", 1, "4", priorityClassName="high"), deployment("small", 1, "3", priorityClassName="high")]
    given = (*versions({"a.yaml": []}, {"a.yaml": new}), "--cluster", tmp_path / "c.yaml", "-o", "markdown")
    lines = forewarn("diff", *given).stdout.splitlines()
    for name, cpu, victim in (("big", 4, "one"), ("small", 3, "two")):
        new_one = f"shop/{name} (new Deployment, priorityClassName high, replicas 1, requests cpu {cpu})"
        assert f"- shop/{victim} (priority 10) loses 1 of 1 Pod: 1 preempted by {new_one}." in lines


def test_a_reason_of_pending_pods_has_the_number_of_all_nodes(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    sides = versions({"a.yaml": []}, {"a.yaml": [deployment("web", 1, "3")]})
    for sizes in ((2, 2), (2, 2, 2), (2,)):
        nodes = [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"}}
            | {"spec": {"unschedulable": number == 2}}
            | {"status": {"allocatable": {"cpu": str(size), "memory": "64Gi", "pods": "110"}}}
            for number, size in enumerate(sizes)
        ]
        write(tmp_path / "c.yaml", {"apiVersion": "v1", "kind": "PodList", "items": []}, *nodes)
        text = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml", "-o", "markdown").stdout
        assert f": 1 Pod is Pending and fits on none of {plural(len(sizes), 'node')} (" in text, text
        assert "), so preemption does not help. Fix: lower the requests, or add " in text


def test_placeholder_pods_are_counted_apart_from_others_of_their_namespace(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 4, ("pause", 2, "low"), ("batch", 2, "low"))
    objects = [*yaml.safe_load_all((tmp_path / "c.yaml").read_text())]
    objects[-2]["spec"] |= {"priority": -10}
    objects[-2]["spec"]["containers"][0]["image"] = "registry.k8s.io/pause:3.10"
    write(tmp_path / "c.yaml", *objects)
    sides = versions({"a.yaml": []}, {"a.yaml": [deployment("web", 1, "3", priorityClassName="high")]})
    done = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml", "-o", "json")
    (namespace,) = json.loads(done.stdout)["clusters"][0]["namespaces"]
    assert (namespace["preempted"], namespace["placeholders"]) == (1, 1)
    write(sides[1] / "a.yaml", deployment("web", 1, "2", priorityClassName="high"))
    text = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml", "-o", "markdown").stdout
    assert text.startswith('### Cluster "c": only placeholder Pods preempted by shop/web\n')
    assert "- Placeholder Pods, which only reserve capacity: shop/pause (1 → 0 running, preempted by shop/web (" in text
    snapshot(tmp_path / "d.yaml", 4, ("batch", 4, "low"))
    given = ("--clusters", tmp_path / "[cd].yaml", "-o", "markdown")
    lost = "shop/batch loses 1 of 1 Pod (preempted by shop/web)"
    assert forewarn("diff", *sides, *given).stdout.startswith(f'### Cluster "d": {lost}\n')


def test_workloads_of_other_clusters_are_not_reported_to_run(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    for name in ("one", "two"):
        snapshot(tmp_path / f"{name}.yaml", 4, ("batch", 4, "low"))
    pod_spec = deployment("p", 1, "4", priorityClassName="high")["spec"]["template"]["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}, "spec": pod_spec}
    new = {"one/web.yaml": [deployment("web", 1, "4", priorityClassName="high")], "two/pod.yaml": [pod]}
    config = tmp_path / "config.yaml"
    config.write_text("clusters: {one: [one], two: [two]}\n")
    given = ("--clusters", tmp_path / "[ot][nw][eo].yaml", "-c", config, "-o", "markdown")
    text = forewarn("diff", *versions({}, new), *given).stdout
    items = {item.partition("\n")[0]: item for item in text.split("\n#### ")[1:]}
    assert ["All Pods of shop/web run" in items.get(name, "") for name in ("one", "two")] == [True, False]


def test_an_object_that_directories_change_alike_is_counted_and_listed_once(
    versions: Callable[..., tuple[Path, Path]],
) -> None:
    objects = {path: [deployment("web", 2)] for path in ("a/web.yaml", "b/web.yaml")}
    sides = versions({}, objects)
    lines = forewarn("diff", *sides).stdout.splitlines()
    assert lines == [
        "1 object created: Deployment shop/web",
        f"compared: {sides[0]} → {sides[1]}",
        "a: created Deployment shop/web: replicas 2, requests cpu 1 (also in b)",
    ]
    text = forewarn("diff", *sides, "-o", "markdown").stdout.replace("\\", "")
    changed = f"Changed objects ({sides[0]} → {sides[1]}):"
    listed = "- a: created Deployment shop/web: replicas 2, requests cpu 1 (also in b)"
    assert text.split("\n") == ["### 1 object created: Deployment shop/web", "", changed, "", listed]


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


def test_what_a_simulation_lacks_is_first_and_explained(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    """One CronJob starts its next Job within a day, and the other within a year. The time of the state is midnight."""
    snapshot(tmp_path / "c.yaml", 2, ("batch", 2, "low"))
    job = {"template": {"spec": deployment("p")["spec"]["template"]["spec"] | {"restartPolicy": "Never"}}}

    def cron(name: str, schedule: str) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "shop", "creationTimestamp": "2026-01-02T03:00:00Z"}
        spec = {"schedule": schedule, "jobTemplate": {"spec": job}}
        return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec}

    web = deployment("web", 1, "2", priorityClassName="high")
    given = ("--cluster", tmp_path / "c.yaml", "-o", "markdown")
    for schedules, fixes in (
        (["0 15 * * *", "0 0 1 1 *"], ["run forewarn diff with --until 15h."]),
        (["0 0 1 1 *"], [""]),
    ):
        crons = [cron(f"c{number}", schedule) for number, schedule in enumerate(schedules)]
        shutil.rmtree(tmp_path / "one", ignore_errors=True)
        shutil.rmtree(tmp_path / "two", ignore_errors=True)
        lines = forewarn("diff", *versions({}, {"web.yaml": [web, *crons]}), *given).stdout.splitlines()
        unread = f"{len(crons)} object{'s' if crons[1:] else ''} not simulated"
        assert lines[0] == '### Cluster "c": shop/batch loses 1 of 1 Pod (preempted by shop/web) (incomplete)'
        assert f"**{GAPS}**" in lines
        (told,) = (line for line in lines if line.startswith(f"- {unread}: CronJob shop/c0: next Job after "))
        assert told.count(": next Job after ") == len(crons)
        assert [told.partition(". Fix: ")[2]] == fixes


@pytest.mark.parametrize(("cpu", "preempted", "others"), [("2", "1 ", ", so its other Pod is deleted"), ("4", "", "")])
def test_pods_that_are_deleted_because_their_job_fails_are_explained(
    cpu: str, preempted: str, others: str, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
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
    text = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml", "-o", "markdown").stdout
    why = f"1 Job fails; {preempted}preempted by shop/web"
    assert text.startswith(f'### Cluster "c": shop/etl loses 2 of 2 Pods ({why})\n'), text
    assert f"; the Job fails (BackoffLimitExceeded, more Pods failed than backoffLimit 0){others}. Fix: wait" in text


@pytest.mark.parametrize(("strategy", "is_told"), [("RollingUpdate", True), ("Recreate", False)])
def test_only_a_rollout_that_starts_new_pods_first_is_said_to_do_so(
    strategy: str, is_told: bool, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    def web(cpu: str) -> dict[str, Any]:
        obj = deployment("web", 1, cpu, priorityClassName="high")
        obj["spec"]["strategy"] = {"type": strategy}
        return obj

    snapshot(tmp_path / "c.yaml", 5, ("large", 2, "low"), ("small", 1, "low"))
    objects = [*yaml.safe_load_all((tmp_path / "c.yaml").read_text())]
    live = stored("Deployment", 1, redacted=False, cpu="2", priorityClassName="high")
    live[0]["spec"]["strategy"] = {"type": strategy}
    write(tmp_path / "c.yaml", *objects, *live)
    for cpu in ("1900m", "3"):
        shutil.rmtree(tmp_path / "one", ignore_errors=True)
        shutil.rmtree(tmp_path / "two", ignore_errors=True)
        sides = versions({"web.yaml": [web("2")]}, {"web.yaml": [web(cpu)]})
        text = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml", "-o", "markdown").stdout
        assert f"shop/web (rollout: requests.cpu 2 → {cpu})" in text or not (is_told or cpu == "3")
        assert ("- Requests do not grow, but the rollouts start new Pods before they " in text) is (
            is_told and cpu == "1900m"
        )


def test_effects_of_drift_have_their_own_heading(versions: Callable[..., tuple[Path, Path]], tmp_path: Path) -> None:
    """The cluster has 3 replicas, and a PDB that needs them; the manifests have 1."""
    snapshot(tmp_path / "c.yaml", 8)
    objects = [*yaml.safe_load_all((tmp_path / "c.yaml").read_text())]
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "shop"}}
    budget["spec"] = {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}
    write(tmp_path / "c.yaml", *objects, budget, *stored("Deployment", 3, redacted=False, priorityClassName="low"))
    both = [deployment("web", 1, cpu, priorityClassName="low") for cpu in ("1", "500m")]
    sides = versions({"web.yaml": both[:1]}, {"web.yaml": both[1:]})
    text = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml", "-o", "markdown").stdout.replace("\\", "")
    effect, _, drift = text.partition("\n**Drift: ")
    assert "\n- PDB" not in effect
    assert (
        "- Scaled down, because the cluster has more replicas than the manifests: shop/web from 3 to 1. Fix: " in drift
    )
    assert "- PDBs of these workloads: shop/b (requires 3 healthy Pods, has 1 at the end)." in drift


def test_fields_that_drift_changes_have_the_value_of_the_cluster(
    versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 4, ("batch", 3, "low"))
    objects = [*yaml.safe_load_all((tmp_path / "c.yaml").read_text())]
    write(tmp_path / "c.yaml", *objects, *stored("Deployment", 1, redacted=False, cpu="1", priorityClassName="high"))
    sides = versions(*({"web.yaml": [deployment("web", n, "2", priorityClassName="high")]} for n in (1, 2)))
    text = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml", "-o", "markdown").stdout
    assert "\n**Effect of this change and of the drift below**\n" in text
    assert "preempted by shop/web (rollout: replicas 1 → 2, reset of drift)" in text


@pytest.mark.parametrize(("cpu", "why"), [("2", " because of drift"), ("1", "")])
def test_a_blocked_rollout_counts_all_its_pending_pods_and_names_drift(
    cpu: str, why: str, versions: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    snapshot(tmp_path / "c.yaml", 4)
    objects = [*yaml.safe_load_all((tmp_path / "c.yaml").read_text())]
    write(tmp_path / "c.yaml", *objects, *stored("Deployment", 4, redacted=False, cpu="1", priorityClassName="low"))
    both = (deployment("web", *each, priorityClassName="low") for each in ((3, cpu), (4, "2")))
    sides = versions(*({"web.yaml": [each]} for each in both))
    done = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml").stdout.splitlines()
    assert done[0] == (
        f'cluster "c": rollout of shop/web blocked{why}, shop/web loses 1 of 4 Pods, '
        "2 new Pods Pending (insufficient cpu; no Pod of lower priority)"
    )
    assert any(line.startswith("  ") and "loses 1 of 4 Pods: 2 Pods are Pending" in line for line in done)


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
    done = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml")
    assert done.stdout.splitlines()[2].startswith("  1 PersistentVolumeClaim not modelled (shop/data): "), done.stdout
    assert "All Pods of" not in done.stdout


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("{}", "shop/reserve loses 1 of 1 Pod"),
        ("recreatesPods: [example.com/Reserve]", "its replacement is Pending"),
        (
            "placeholderPods: {matchExpressions: [{key: app, operator: DoesNotExist}]}",
            ": only placeholder Pods preempted by shop/web\n",
        ),
    ],
)
def test_the_configuration_names_placeholder_pods_and_controllers(config: str, expected: str, tmp_path: Path) -> None:
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
    assert expected in forewarn("diff", tmp_path / "old", tmp_path / "new", *given).stdout


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
    text = forewarn("diff", *sides, "--cluster", tmp_path / "c.yaml").stdout
    assert text.splitlines()[0] == (
        'cluster "c": PodGroup shop/train rejected (no PriorityClass with name none was found) (incomplete)'
    )
    assert "  1 changed object not predicted: Deployment shop/member: kube-apiserver rejects PodGroup train" in text
    assert "  As far as simulated, all Pods of shop/web run\n" in text


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
    assert audiences("shop/q", *given) == {"names", "own-namespace"}
    line = forewarn(*given).stdout.partition("\n")[0]
    first = 'cluster "c": rollout of shop/web blocked by quota shop/q, new Pods of shop/web get priority '
    assert line.startswith(first), line
