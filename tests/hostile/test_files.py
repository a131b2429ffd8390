"""Files that a tenant or a pull request writes: generated attacks of each kind, and what must hold for every one.

`make test` tries few of them, `make hostile` many.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from forewarn.policies.kubernetes.objects.redaction import redacted
from tests.cases import cases
from tests.in_process import forewarn

if TYPE_CHECKING:
    from collections.abc import Callable

Obj = dict[str, Any]
Directory = pytest.TempPathFactory
MAX_SECONDS_PER_MB = 10.0
MAX_SECONDS = 20.0
"""CPU time of a simulation of two nodes."""
LARGE = st.sampled_from([2**31 - 1, 2**31 - 2, 2_000_000, 2**63 - 1, 10**18, 0, -1])
NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True)


def tries(count: int) -> Callable[[Any], Any]:
    """Settings of a property test with this number of cases, times RANDOM_CASES."""
    return settings(
        max_examples=cases(count),
        deadline=None,
        print_blob=True,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


def workload(kind: str = "Deployment", name: str = "web", spec: Obj | None = None, **pod: Any) -> Obj:
    """A workload whose Pods request a quarter of a node."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container], **pod}}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"a": "b"}}}
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {**selector, "template": template, **(spec or {})},
    }


REJECTED = workload(priorityClassName="system-cluster-critical", priority=7)
"""kube-apiserver rejects its Pods."""


# A pull request: what kubectl deploys is linted, whatever else the tree has

PLACES = st.sampled_from(
    ["", "deploy", "a:", ".svn", ".base", "testdata", "tests/e2e", "__tests__", "examples", "node_modules/x"]
)
FILES = st.builds(
    str.__add__,
    st.one_of(
        NAMES, st.sampled_from(["web-assert", "00-assert", "chainsaw-test", "kuttl-test", "values", ".web", "we\nb"])
    ),
    st.sampled_from([".yaml", ".yml", ".json", ".txt", "", ".yaml.tpl", ".md"]),
)
BEGINNINGS = st.sampled_from(["", "---\n", "--- ", "--- !!map\n", "# comment\n---\n", "\n\n", "---\n---\n", "\ufeff"])
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
CHAINSAW = {
    "apiVersion": "chainsaw.kyverno.io/v1alpha1",
    "kind": "Test",
    "metadata": {"name": "t"},
}
GLOBS = st.sampled_from(["../../{}", "../**/*", "/{}", "../../*/*.yaml", "../../**/{}", "*"])


@st.composite
def decoys(draw: st.DrawFn) -> dict[str, str]:
    """Files beside the manifest that may take it out of the linter: path -> text."""
    found = {}
    place = draw(st.sampled_from(["", "docs/x/", "deploy/", "testdata/"]))
    kind = draw(st.sampled_from(["chainsaw", "kuttl", "ignore", "helmignore", "none"]))
    event(f"decoy {kind}")
    glob = draw(GLOBS).format(draw(st.sampled_from(["deploy/*.yaml", "*.yaml", "**", "web.yaml"])))
    if kind == "chainsaw":
        step = {draw(st.sampled_from(["assert", "apply", "error", "create"])): {"file": glob}}
        found[f"{place}chainsaw-test.yaml"] = json.dumps(CHAINSAW | {"spec": {"steps": [{"try": [step]}]}})
    elif kind == "kuttl":
        suite = {"apiVersion": "kuttl.dev/v1beta1", "kind": "TestSuite", "testDirs": [draw(GLOBS).format(".")]}
        found[f"{place}kuttl-test.yaml"] = json.dumps(suite)
    elif kind == "helmignore":
        found |= {f"{place}Chart.yaml": "apiVersion: v2\nname: x\nversion: 1.0.0\n", f"{place}.helmignore": "*\n"}
    elif kind == "ignore":
        found[f"{place}.gitignore"] = "*\n!.gitignore\n"
    return found


@tries(120)
@given(PLACES, FILES, BEGINNINGS, ENDS, st.booleans(), decoys())
def test_no_tree_hides_what_a_kustomization_deploys(
    tmp_path_factory: Directory, place: str, file: str, beginning: str, end: str, block: bool, beside: dict[str, str]
) -> None:
    tree = tmp_path_factory.mktemp("tree")
    block = block or beginning != "--- "  # a block does not begin on this line
    text = yaml.safe_dump(REJECTED, width=1000) if block and beginning != "--- " else json.dumps(REJECTED)
    path = f"{place}/{file}".lstrip("/")
    files = {
        **beside,
        path: (beginning + text + "\n").replace("\n", end),
        "kustomization.yaml": json.dumps({"resources": [path.replace("a:/", "a://")]}),
    }
    for name, content in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content.encode())
    for command in (("init", "-q"), ("add", "-A", "-f")):  # a file that is tracked is not ignored
        subprocess.run(["git", "-C", tree, *command], check=True, timeout=60)
    done = forewarn("lint", "-o", "json", ".", cwd=tree)
    found = {
        (each["object"]["name"], each["severity"]) for each in json.loads(done.stdout)["findings"] if each.get("object")
    }
    assert done.returncode == 1, (path, files, done.stdout, done.stderr)
    assert ("web", "error") in found


# A pull request: git runs no program of the tree

KEYS = (
    "core.fsmonitor",
    "core.sshCommand",
    "core.editor",
    "core.hooksPath",
    "gpg.program",
    "diff.external",
    "core.pager",
)
DRIVERS = tuple(
    f"{section}.x.{key}" for section, key in (("filter", "clean"), ("filter", "smudge"), ("filter", "process"))
)
DIFFS = ("diff.x.command", "diff.x.textconv", "credential.helper", "uploadpack.packObjectsHook")


@tries(12)
@given(
    st.sets(st.sampled_from([*KEYS, *DRIVERS, *DIFFS]), min_size=1),
    st.sampled_from(["deploy", "deploy/.git", ".git"]),
    st.sampled_from([("diff",), ("diff", "HEAD~1"), ("lint", "--base", "HEAD~1", ".")]),
)
def test_git_runs_no_program_of_a_tree(
    tmp_path_factory: Directory, keys: set[str], place: str, command: tuple[str, ...]
) -> None:
    root = tmp_path_factory.mktemp("git")
    mark, script = root / "mark", root / "script"
    script.write_text(f"#!/bin/sh\necho $0 $* >>{mark}\nexit 1\n")
    script.chmod(0o700)
    tree, environment = root / "tree", {"PATH": _PATH, "HOME": str(root), "GITHUB_TOKEN": "hunter2"}
    first_in_path = {"PATH": f"{tree}/deploy/bin:{_PATH}"}

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=test", "-c", "user.email=")
        subprocess.run(
            ["git", *who, *arguments], cwd=tree, env=environment, check=True, capture_output=True, timeout=60
        )

    (tree / "deploy" / "bin").mkdir(parents=True)
    for program in ("git", "kustomize", "kubectl", "helm", "unshare"):
        (tree / "deploy" / "bin" / program).symlink_to(script)
    (tree / "deploy" / "kustomization.yaml").write_text("resources: [class.yaml]\n")
    git("init", "-q", "-b", "main")
    (tree / ".gitattributes").write_text("* filter=x diff=x\n")
    for value in (1, 2):
        (tree / "deploy" / "class.yaml").write_text(
            f"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: gold}}\nvalue: {value}\n"
        )
        git("add", ".")
        git("commit", "-q", "-m", "change")
    where = {"core.bare": "false"} if place != ".git" else {}
    if place != ".git":  # an embedded repository with two commits
        shutil.copytree(tree / ".git", tree / place, dirs_exist_ok=True)
    if place == "deploy":
        where["core.worktree"] = "."
    with (tree / place / "config").open("a") as config:
        for name, program in {**where, **dict.fromkeys(sorted(keys), str(script))}.items():
            section, *middle, key = name.split(".")
            inner = "".join(f' "{each}"' for each in middle)
            config.write(f"[{section}{inner}]\n\t{key} = {program}\n")
    mark.unlink(missing_ok=True)
    done = forewarn(*command, cwd=tree / "deploy", environment=environment | first_in_path)
    assert not mark.exists(), (keys, place, command, mark.read_text())
    assert done.returncode in (0, 1, 2, 3)
    assert "Traceback" not in done.stderr
    if "core.fsmonitor" in keys:  # the attack is real
        subprocess.run(
            ["git", "status"], cwd=tree / "deploy", env=environment, check=False, capture_output=True, timeout=60
        )
        assert mark.exists()


_PATH = str(Path(shutil.which("git") or "/usr/bin/git").parent) + ":/usr/bin:/bin"


# A tenant: numbers of objects in a cluster cost no simulation its answer

NUMBERS = {
    "Deployment": ("replicas", "minReadySeconds", "progressDeadlineSeconds", "revisionHistoryLimit"),
    "StatefulSet": ("replicas", "minReadySeconds"),
    "ReplicaSet": ("replicas", "minReadySeconds"),
    "DaemonSet": ("minReadySeconds", "revisionHistoryLimit"),
    "Job": ("completions", "parallelism", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"),
}


@st.composite
def tenants(draw: st.DrawFn) -> list[Obj]:
    """Workloads, PDBs, quotas and autoscalers of tenants with very large numbers."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from([*NUMBERS]))
        spec = {field: draw(LARGE) for field in NUMBERS[kind] if draw(st.booleans())}
        pod = {"terminationGracePeriodSeconds": draw(LARGE)} if draw(st.booleans()) else {}
        found.append(workload(kind, f"{kind.lower()}-{number}", spec, **pod))
    if draw(st.booleans()):
        budget = {"selector": {"matchLabels": {"a": "b"}}, "minAvailable": draw(LARGE)}
        meta = {"name": "b", "namespace": "shop"}
        found.append({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": budget})
    return found


def cluster_of(objects: list[Obj]) -> Obj:
    """Two nodes with a Pod, and these objects."""
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "50"}}
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": status,
        }
        for name in ("n1", "n2")
    ]
    running = {"nodeName": "n1", "priority": 0, "containers": workload()["spec"]["template"]["spec"]["containers"]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "other"},
        "spec": running,
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
    }
    return {"apiVersion": "v1", "kind": "List", "items": [*nodes, pod, *objects]}


@tries(6)
@given(tenants(), st.sampled_from(["drain n1", "lose node n1", "upgrade"]))
def test_numbers_of_a_tenant_are_bounded_in_simulations(
    tmp_path_factory: Directory, objects: list[Obj], question: str
) -> None:
    cluster = tmp_path_factory.mktemp("cluster") / "cluster.json"
    cluster.write_text(json.dumps(cluster_of(objects)))
    start = time.process_time()
    done = forewarn("whatif", *question.split(), "--cluster", cluster)
    assert time.process_time() - start < MAX_SECONDS, objects
    assert done.returncode in (0, 3), (objects, done.stderr)
    assert "Traceback" not in done.stderr
    assert len(done.stdout) < 10_000


# A tenant: names stay text in Markdown and messages of SARIF

FRAGMENTS = st.sampled_from(
    [
        *("www.", "evil.example", "http://", "mailto:", "xmpp:", "@", "#12", "GH-7", "[x](", ")", "<a href=", ">", "`"),
        *(
            "|",
            "\\",
            "\n",
            "\r",
            "*",
            "_",
            "~~",
            "::error::",
            "\u202e",
            "deadbeef1",
            "/",
            "a",
            "-",
            "\x1b[31m",
            "![",
            "&lt;",
        ),
    ]
)
PLAIN = {"text", "text_special", "code_inline", "strong_open", "strong_close", "softbreak"}
HOSTILE_NAMES = st.lists(FRAGMENTS, min_size=1, max_size=9).map("".join)
LINKS = re.compile(r"\bwww\.\w|\w://\w|\w@\w|(?<!\w)@\w|#\d|\bgh-\d", re.IGNORECASE)
"""What GitHub links by itself, also after an escape."""


@tries(40)
@given(HOSTILE_NAMES, HOSTILE_NAMES)
def test_names_become_no_links(tmp_path_factory: Directory, name: str, class_name: str) -> None:
    tree = tmp_path_factory.mktemp("names")
    for side in ("a", "b"):
        (tree / side).mkdir()
    objects = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1000},
        workload(name=class_name, priorityClassName=class_name),
    ]
    (tree / "b" / "x.yaml").write_text(yaml.safe_dump_all(objects))
    (tree / "a" / "x.yaml").write_text("")
    for command in (("diff", "a", "b", "-o", "markdown"), ("lint", "-o", "markdown", "b")):
        printed = forewarn(*command, cwd=tree).stdout
        tokens = MarkdownIt("commonmark").enable("table").parse(printed)
        inline = [child for token in tokens for child in token.children or ()]
        assert {child.type for child in inline} <= PLAIN, (command, printed)
        text = " ".join(child.content for child in inline if child.type != "code_inline")
        assert not LINKS.search(text), (command, printed)
        assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", printed), (command, printed)
    for result in json.loads(forewarn("lint", "-o", "sarif", "b", cwd=tree).stdout)["runs"][0]["results"]:
        assert not re.search(r"(?<!\\)\[[^]]*\]\(", result["message"]["text"].replace("\\]", "")), result


# Everyone: a redacted snapshot keeps only fields that forewarn reads

KINDS = (
    "v1 Pod",
    "apps/v1 Deployment",
    "batch/v1 CronJob",
    "storage.k8s.io/v1 StorageClass",
    "v1 PersistentVolume",
    "resource.k8s.io/v1 ResourceClaimTemplate",
    "machine.openshift.io/v1beta1 MachineSet",
    "v1 Node",
    "v1 Event",
)
WORDS = (
    "spec",
    "template",
    "metadata",
    "annotations",
    "status",
    "conditions",
    "message",
    "volumes",
    "csi",
    "config",
    "parameters",
    "volumeAttributes",
    "containers",
    "env",
    "value",
    "providerSpec",
    "userData",
    "jobTemplate",
    "x",
)
SECRET = "hunter2"
TREES = st.recursive(
    st.just(SECRET),
    lambda inner: st.one_of(st.dictionaries(st.sampled_from(WORDS), inner, max_size=4), st.lists(inner, max_size=3)),
    max_leaves=12,
)  # fmt: skip


@tries(400)
@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(WORDS), TREES, min_size=1, max_size=4))
def test_redaction_keeps_no_text_of_unknown_fields(kind: str, content: Obj) -> None:
    version, _, name = kind.partition(" ")
    metadata = {"name": "x", "annotations": {"note": SECRET}}
    kept = redacted({**content, "apiVersion": version, "kind": name, "metadata": metadata})
    assert SECRET not in json.dumps(kept), kept


# Everyone: the linter takes linear time

LENGTH = 200_000


def similar(count: int, width: int) -> list[Obj]:
    """PriorityClasses with similar names, and workloads with names that are close to each."""
    names = [f"{'c' * width}-{number:06}" for number in range(count)]
    meta = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    classes = [{**meta, "metadata": {"name": f"{name}x"}, "value": number} for number, name in enumerate(names)]
    return [*classes, *(workload(name=f"w-{number}", priorityClassName=name) for number, name in enumerate(names))]


def budgets(count: int, width: int) -> list[Obj]:
    """PodDisruptionBudgets that select the same Pods."""
    selector = {"matchLabels": {"a": "b", "c" * min(width, 63): "d"}}
    meta = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    return [
        {
            **meta,
            "metadata": {"name": f"b-{number}", "namespace": "shop"},
            "spec": {"selector": selector, "minAvailable": 1},
        }
        for number in range(count)
    ]


def ranges(count: int, width: int) -> list[Obj]:
    """LimitRanges of one namespace, and its workloads."""
    limits = [{"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "1"}}] * max(width // 20, 1)
    meta = {"apiVersion": "v1", "kind": "LimitRange"}
    limit_ranges = [
        {**meta, "metadata": {"name": f"l-{number}", "namespace": "shop"}, "spec": {"limits": limits}}
        for number in range(count)
    ]
    return [*limit_ranges, *(workload(name=f"w-{number}") for number in range(count))]


def unknown(count: int, width: int) -> list[Obj]:
    """A workload with unknown fields."""
    return [workload(spec={f"{'f' * width}{number}": number for number in range(count)})]


def tolerations(count: int, width: int) -> list[Obj]:
    """A workload with many tolerations, containers and affinity terms."""
    terms = [
        {"matchExpressions": [{"key": "k" * width, "operator": "In", "values": [f"{number}"]}]}
        for number in range(count)
    ]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    keys = [{"key": f"{'k' * width}{number}", "operator": "Exists"} for number in range(count)]
    return [workload(affinity=affinity, tolerations=keys)]


@tries(12)
@given(st.sampled_from([similar, budgets, ranges, unknown, tolerations]), st.integers(1, 100))
def test_the_linter_takes_linear_time(
    tmp_path_factory: Directory, made: Callable[[int, int], list[Obj]], width: int
) -> None:
    one = len(json.dumps(made(10, width))) / 10
    text = "\n---\n".join(map(json.dumps, made(max(int(LENGTH / one), 1), width)))
    file = tmp_path_factory.mktemp("large") / "x.yaml"
    file.write_text(text)
    start = time.process_time()
    done = forewarn("lint", "-q", file)
    seconds = time.process_time() - start
    assert seconds < MAX_SECONDS_PER_MB * max(len(text) / 1e6, 0.2) + 1, (made.__name__, width, seconds)
    assert "Traceback" not in done.stderr
