"""`forewarn whatif pressure`: who goes first on a node, by the kubelet's rules."""

from __future__ import annotations

import gzip
import html
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.base.findings import one_line
from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.kube_apiserver.quota import matches_scope
from forewarn.policies.kubernetes.kube_apiserver.validation.resources import BEST_EFFORT, BURSTABLE, GUARANTEED
from forewarn.policies.kubernetes.kubelet import (
    Disk,
    KubeletPod,
    NotEnough,
    PodStats,
    admit,
    pods_to_preempt,
    rank,
    read_pod,
    read_pod_stats,
    shutdown_groups,
)
from forewarn.policies.kubernetes.objects.node import Node
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.options import ScopeSelector
from forewarn.policies.kubernetes.quantity import NANO
from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
from forewarn.policies.questions.application.node import size
from forewarn.policies.questions.why.evidence import DECISIVE
from tests.builders import MadePod, make_node, make_pod
from tests.in_process import captured
from tests.kubelet_oracle.compare import disagreements
from tests.policies.test_html import check_alone

NODE = ("a-1", "--cluster", "docs/examples/node-pressure/node.yaml")
STATS = ("--stats", "docs/examples/node-pressure/stats.json")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    return captured(capsys, "whatif", "pressure", *arguments)


def told(capsys: pytest.CaptureFixture[str], *arguments: str, node: tuple[str, ...] = NODE) -> Any:
    status, out, err = run(capsys, *node, *arguments, "-o", "json")
    assert (status, err) == (0, "")
    return json.loads(out)


def pod(name: str, priority: int = 0, qos: str = BURSTABLE, **requests: int) -> KubeletPod:
    """Requests in units."""
    amounts = {key.replace("_", "-"): amount * NANO for key, amount in requests.items()}
    return KubeletPod(name, priority, True, priority >= 2_000_000_000, qos, amounts, ("v",), 30)


def names(pods: list[KubeletPod]) -> list[str]:
    return [each.key for each in pods]


@pytest.mark.parametrize(
    ("signal", "expected"),
    [
        ("memory", ["shop/web-1", "reports/archive-1", "reports/nightly-1"]),
        ("pids", ["reports/nightly-1", "reports/archive-1", "shop/web-1"]),
        ("nodefs", ["reports/nightly-1", "shop/web-1", "reports/archive-1"]),
    ],
)
def test_each_signal_has_its_order(capsys: pytest.CaptureFixture[str], signal: str, expected: list[str]) -> None:
    answer = told(capsys, "--signal", signal, *STATS)
    assert [place["pod"] for place in answer["order"]] == expected
    assert answer["never"] == ["kube-system/dns-a"]


def test_without_statistics_pods_use_what_they_request(capsys: pytest.CaptureFixture[str]) -> None:
    answer = told(capsys, "--signal", "memory")
    assert [(place["pod"], place["reason"]) for place in answer["order"]] == [
        ("reports/archive-1", "requests 1Gi"),
        ("reports/nightly-1", "requests 2Gi"),
        ("shop/web-1", "requests 4Gi"),
    ]
    assert answer["clause"].endswith(", if no Pod uses more than its request")
    (warning,) = answer["warnings"]
    assert warning.startswith(
        "usage of Pods unknown: those above their request come before all others. Fix: pass --stats"
    )
    pids = told(capsys, "--signal", "pids")
    assert pids["warnings"][0].startswith("usage of Pods unknown: so is the order of Pods with equal priority.")


def without_usage(directory: Path) -> tuple[str, str]:
    """Statistics that contain no Pod."""
    (directory / "stats.json").write_text(json.dumps({"node": {"nodeName": "n1"}, "pods": []}))
    return "--stats", str(directory / "stats.json")


def test_a_tie_with_a_static_pod_is_none_with_the_one_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    static = make_pod("b-static").priority(100).on("n1").metadata(annotations={"kubernetes.io/config.source": "file"})
    items = [make_node("n1").obj, static.obj]
    items += [make_pod(name).priority(number).on("n1").obj for name, number in (("a", 50), ("c", 100), ("d", 100))]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    answer = told(
        capsys, "--signal", "memory", *without_usage(tmp_path), node=("n1", "--cluster", str(tmp_path / "cluster.json"))
    )
    assert [(place["pod"], place["tied"]) for place in answer["order"]] == [
        ("default/a", False),
        ("default/c", False),
        ("default/d", True),
    ]
    assert answer["never"] == ["default/b-static"]


# Of upstream's own tables (pkg/kubelet/eviction/helpers_test.go), in short: what comes before what.


def test_memory_over_its_request_comes_before_priority_before_how_much() -> None:
    pods = [
        pod("below-high", 100, memory=400),
        pod("exceeds-high", 100, memory=100),
        pod("below-low", 1, memory=400),
        pod("exceeds-low-much", 1, memory=100),
        pod("exceeds-low-little", 1, memory=200),
        pod("unknown", 100, memory=900),
    ]
    stats = {each.key: PodStats(memory=300) for each in pods if each.key != "unknown"}
    assert [place.pod.key for place in rank(pods, stats, "memory")] == [
        "unknown",
        "exceeds-low-much",
        "exceeds-low-little",
        "exceeds-high",
        "below-low",
        "below-high",
    ]


def test_equal_to_its_request_is_not_over_it() -> None:
    (place,) = rank([pod("p", memory=300)], {"p": PodStats(memory=300)}, "memory")
    assert place.usage is not None
    assert place.usage.exceeds is False


def test_what_counts_of_a_disk_depends_on_where_images_are() -> None:
    used = PodStats(root=Disk(100, 1), logs=Disk(20, 2), volumes={"v": Disk(3, 4), "other": Disk(1000, 1000)})
    counted = {
        (images, signal): rank([pod("p")], {"p": used}, signal, images=images)[0].usage
        for images in ("shared", "own", "split")
        for signal in ("nodefs", "imagefs", "containerfs")
    }
    assert {key: usage.used for key, usage in counted.items() if usage} == {
        ("shared", "nodefs"): 123,
        ("shared", "imagefs"): 123,
        ("shared", "containerfs"): 123,
        ("own", "nodefs"): 23,
        ("own", "imagefs"): 100,
        ("own", "containerfs"): 100,
        ("split", "nodefs"): 123,
        ("split", "imagefs"): 0,
        ("split", "containerfs"): 123,
    }


def test_inodes_exceed_a_request_of_none_but_the_request_for_bytes_is_taken_off() -> None:
    pods = [pod("many", ephemeral_storage=1000), pod("few"), pod("none")]
    stats = {"many": PodStats(root=Disk(0, 90)), "few": PodStats(root=Disk(0, 10)), "none": PodStats()}
    places = rank(pods, stats, "nodefs", inodes=True)
    assert [(place.pod.key, place.usage and place.usage.exceeds) for place in places] == [
        ("few", True),
        ("many", True),
        ("none", False),
    ]


def test_pids_go_by_priority_first() -> None:
    pods = [pod("high-many", 10), pod("low-few", 1), pod("low-many", 1), pod("low-unknown", 1)]
    stats = {"high-many": PodStats(processes=90), "low-few": PodStats(processes=1), "low-many": PodStats(processes=50)}
    order = [place.pod.key for place in rank(pods, stats, "pids")]
    assert order == ["low-unknown", "low-many", "low-few", "high-many"]


def test_a_request_of_the_pod_itself_stands_for_those_of_its_containers() -> None:
    container = {"name": "c", "resources": {"requests": {"memory": "3Gi", "ephemeral-storage": "1Gi"}}}
    spec: dict[str, Any] = {"containers": [container], "overhead": {"memory": "1Gi", "cpu": "1"}}
    one = read_pod({"metadata": {"name": "p"}, "spec": spec})
    assert (one.request("memory"), one.request("cpu")) == (4 * 2**30, 0)
    own = read_pod({"metadata": {"name": "p"}, "spec": {**spec, "resources": {"requests": {"memory": "5Gi"}}}})
    assert (own.request("memory"), own.request("ephemeral-storage")) == (6 * 2**30, 0)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, BEST_EFFORT),
        ({"requests": {"cpu": "0"}}, BEST_EFFORT),
        ({"requests": {"ephemeral-storage": "1Gi"}}, BEST_EFFORT),
        ({"requests": {"cpu": "1"}}, BURSTABLE),
        ({"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "2"}}, BURSTABLE),
        ({"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}, GUARANTEED),
    ],
)
def test_quality_of_service(resources: dict[str, Any], expected: str) -> None:
    obj = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": resources}]}}
    assert read_pod(obj).qos == expected


# Recorded from the kubelet's own functions (buildSignalToRankFunc, getPodsToPreempt of Kubernetes 1.36.3)


def _recorded() -> list[Any]:
    text = gzip.decompress(Path("tests/policies/cases/kubelet.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def test_the_kubelet_itself_comes_to_the_same() -> None:
    """Pods that it does not tell from each other may come in any order."""
    wrong = []
    for case in _recorded():
        pods = [read_pod(obj) for obj in case["pods"]]
        if "admit" in case:
            lacks = {each["resource"]: each["amount"] for each in case["lacks"]}
            try:
                found: Any = names(pods_to_preempt(read_pod(case["admit"]), pods, lacks)[0])
            except NotEnough:
                found = None
            same = found == case["answer"].get("victims")
        else:
            signal, inodes, images = case["ours"]
            stats = {key: read_pod_stats(value) for key, value in case["stats"].items()}
            places = rank(pods, stats, signal, inodes=bool(inodes), images=images)
            group = 0
            groups: dict[str, int] = {}
            for place in places:
                group += not place.tied
                groups[place.pod.key] = group
            same = [groups[key] for key in case["answer"]["order"]] == sorted(groups.values())
        if not same:
            wrong.append(case["id"])
    assert wrong == []


# At the door


def test_guaranteed_pods_are_ended_last_and_the_fewest_of_them() -> None:
    critical = pod("critical", 2_000_000_000)
    pods = [
        pod("best", qos=BEST_EFFORT),
        pod("burst", memory=100),
        pod("guaranteed-small", qos=GUARANTEED, memory=100),
        pod("guaranteed-large", qos=GUARANTEED, memory=300),
    ]
    assert names(pods_to_preempt(critical, pods, {"memory": 100})[0]) == ["burst"]
    assert names(pods_to_preempt(critical, pods, {"memory": 200})[0]) == ["burst", "guaranteed-small"]
    assert names(pods_to_preempt(critical, pods, {"memory": 350})[0]) == ["burst", "guaranteed-large"]
    assert names(pods_to_preempt(critical, pods, {"pods": 1})[0]) == ["best"]
    with pytest.raises(NotEnough):
        pods_to_preempt(critical, pods, {"memory": 501})


def test_pods_that_may_be_preempted_instead() -> None:
    small, twin, large = (pod(name, memory=memory) for name, memory in (("a", 100), ("b", 100), ("c", 300)))
    critical = pod("critical", 2_000_000_000)
    for missing, chosen, equal in ((100, "b", "a"), (200, "c", ""), (400, "cb", "a"), (500, "cba", "")):
        found = pods_to_preempt(critical, [small, twin, large], {"memory": missing})
        assert [*map(names, found)] == [[*chosen], [*equal]]
    assert pods_to_preempt(critical, [small, pod("d", qos=BEST_EFFORT)], {"pods": 1})[1] == []


def test_critical_pods_are_ended_for_higher_ones_alone() -> None:
    other = pod("other", 2_000_000_000, memory=100)
    assert names(pods_to_preempt(pod("node", 2_000_001_000), [other], {"memory": 1})[0]) == ["other"]
    with pytest.raises(NotEnough):
        pods_to_preempt(pod("same", 2_000_000_000), [other], {"memory": 1})


@given(
    requests=st.lists(
        st.tuples(st.sampled_from([BEST_EFFORT, BURSTABLE, GUARANTEED]), st.integers(0, 50), st.integers(0, 50)),
        max_size=8,
    ),
    memory=st.integers(1, 120),
    storage=st.integers(0, 120),
)
def test_what_is_ended_is_enough_and_nobody_too_many(
    requests: list[tuple[str, int, int]], memory: int, storage: int
) -> None:
    pods = [
        pod(f"p{n}", qos=qos, memory=one if qos != BEST_EFFORT else 0, ephemeral_storage=other)
        for n, (qos, one, other) in enumerate(requests)
    ]
    lacks = {"memory": memory, "ephemeral-storage": storage} if storage else {"memory": memory}
    try:
        ended, _ = pods_to_preempt(pod("critical", 2_000_000_000), pods, lacks)
    except NotEnough:
        assert any(sum(each.request(name) for each in pods) < amount for name, amount in lacks.items())
        return
    assert all(sum(each.request(name) for each in ended) >= amount for name, amount in lacks.items())
    assert len(set(names(ended))) == len(ended)


def test_a_node_with_room_and_a_pod_that_is_not_critical(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = Path("docs/examples/node-pressure/agent.yaml").read_text()
    (tmp_path / "small.yaml").write_text(text.replace('cpu: "1", memory: 1Gi', "cpu: 100m, memory: 64Mi"))
    (tmp_path / "plain.yaml").write_text(text.replace("priorityClassName: system-node-critical", "hostNetwork: false"))
    small = told(capsys, "--admit", str(tmp_path / "small.yaml"))["admission"]
    admitted = {"insufficient": {}, "rejected": False, "reason": "", "message": "", "preempted": []}
    assert small == {"pod": "kube-system/agent", **admitted}
    plain = told(capsys, "--admit", str(tmp_path / "plain.yaml"))["admission"]
    assert (plain["rejected"], plain["preempted"]) == (True, [])
    found = told(capsys, "--admit", str(tmp_path / "plain.yaml"))
    assert (found["status"], found["clause"]) == ("REJECTED", "the kubelet rejects it: not critical")
    assert found["warnings"] == ["insufficient capacity, missing 0.6 cpu, 128Mi memory"]
    message = "OutOfcpu: Node didn't have enough resource: cpu, requested: 1000, used: 3600, capacity: 4000"
    assert [cause["reason"] for cause in found["why"]["causes"]] == [message]


def critical(**requests: str) -> MadePod:
    made = make_pod("agent", "kube-system").spec(priorityClassName="system-node-critical").request(**requests)
    del made.obj["spec"]["priority"]
    return made


PORTS = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
AFFINITY = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
TAINT = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
CLAIMED = "deviceclass.resource.kubernetes.io/gpu"
CLAIMS = {"requestMappings": [{"containerName": "c", "requestName": "r", "resourceName": CLAIMED}]}
OS = "kubernetes.io/os"
OTHER_LABEL = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
OTHER_OS = "Failed to admit pod as the OS field doesn't match node OS"
STRICT = {"supplementalGroupsPolicy": "Strict"}
NOT_STRICT = "SupplementalGroupsPolicy=Strict is not supported in this node"
NOT_ENOUGH = (
    "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to "
    "preempt: no set of running pods found to reclaim resources: [(res: hugepages-1Gi, q: 1073741824), ]"
)


@pytest.mark.parametrize(
    ("admitted", "preempted", "insufficient", "reason", "message"),
    [
        (critical(cpu="3"), ["default/web"], {"cpu": 1000}, "", ""),
        (critical(**{"hugepages-2Mi": "4Mi"}), ["default/huge"], {"hugepages-2Mi": 2**21}, "", ""),
        (critical(**{"example.com/gpu": "2"}), ["default/gpu"], {"example.com/gpu": 1}, "", ""),
        (critical(**{"example.com/of-the-cluster": "2"}), [], {}, "", ""),
        (critical(**{CLAIMED: "1"}).status(extendedResourceClaimStatus=CLAIMS), [], {}, "", ""),
        (
            make_pod("agent", "kube-system").request(**{"example.com/gpu": "2"}),
            [],
            {"example.com/gpu": 1},
            "OutOfexample.com/gpu",
            "Node didn't have enough resource: example.com/gpu, requested: 2, used: 1, capacity: 2",
        ),
        (
            critical(**{"hugepages-1Gi": "1Gi"}),
            [],
            {"hugepages-1Gi": 2**30},
            "UnexpectedAdmissionError",
            NOT_ENOUGH,
        ),
        (critical().port(9100), [], {}, "NodePorts", PORTS),
        (critical(cpu="3").port(9100), [], {"cpu": 1000}, "NodePorts", PORTS),
        (critical().spec(nodeSelector={"disk": "ssd"}), [], {}, "NodeAffinity", AFFINITY),
        (critical().spec(tolerations=[]), [], {}, "TaintToleration", TAINT),
        (critical().metadata(annotations={"kubernetes.io/config.source": "file"}).spec(tolerations=[]), [], {}, "", ""),
        (critical(cpu="3").spec(os={"name": "windows"}), [], {}, "PodOSNotSupported", OTHER_OS),
        (critical(cpu="3").label(OS, "windows"), [], {}, "PodOSSelectorNodeLabelDoesNotMatch", OTHER_LABEL),
        (critical(cpu="3").spec(securityContext=STRICT), [], {}, "SupplementalGroupsPolicyNotSupported", NOT_STRICT),
        (critical(cpu="3").spec(os={"name": "linux"}).label(OS, "linux"), ["default/web"], {"cpu": 1000}, "", ""),
    ],
)
def test_the_kubelet_applies_the_filters_of_the_scheduler(
    admitted: MadePod,
    preempted: list[str],
    insufficient: dict[str, int],
    reason: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Source: `pkg/kubelet/lifecycle/predicate.go`, `HandleAdmissionFailure`: other failures than those of resources
    reject a critical Pod, and no Pod is preempted.
    """
    node = make_node("n1").has(**{"cpu": "4", "pods": "10", "hugepages-2Mi": "4Mi", "example.com/gpu": "2"})
    node = node.taint("leaving", effect="NoExecute").taint("cordoned")
    pods = [
        make_pod("web").request(cpu="2").port(9100),
        make_pod("huge").request(**{"hugepages-2Mi": "2Mi"}),
        make_pod("gpu").request(**{"example.com/gpu": "1"}),
    ]
    items = [node.obj, *(made.on("n1").obj for made in pods)]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    spec = admitted.obj["spec"]
    spec.setdefault("tolerations", [{"operator": "Exists", "effect": "NoExecute"}])
    (tmp_path / "pod.json").write_text(json.dumps(admitted.obj))
    found = told(
        capsys, "--admit", str(tmp_path / "pod.json"), node=("n1", "--cluster", str(tmp_path / "cluster.json"))
    )
    assert found["admission"] == {
        "pod": "kube-system/agent",
        "insufficient": insufficient,
        "rejected": bool(reason),
        "reason": reason,
        "message": message,
        "preempted": preempted,
    }
    assert not reason or reason in DECISIVE or reason == "OutOfexample.com/gpu"


@pytest.mark.parametrize(
    ("admitted", "status", "reason"),
    [
        (make_pod("a").spec(os={"name": "windows"}), {"nodeInfo": {"operatingSystem": "windows"}}, ""),
        (make_pod("a").label(OS, "windows"), {"nodeInfo": {"operatingSystem": "windows"}}, ""),
        (make_pod("a"), {"nodeInfo": {"operatingSystem": "windows"}}, ""),
        (make_pod("a").spec(securityContext=STRICT), {"features": {"supplementalGroupsPolicy": True}}, ""),
        (make_pod("a").spec(os={"name": "linux"}), {"nodeInfo": {"operatingSystem": "windows"}}, "PodOSNotSupported"),
    ],
)
def test_the_status_of_the_node_has_its_system_and_features(
    admitted: MadePod, status: dict[str, Any], reason: str
) -> None:
    """The label of the node does not matter: the kubelet replaces another value."""
    node = Node.from_api(make_node("n1").label(OS, "linux").status(**status).obj)
    rejection = admit(read_pod(admitted.obj), Pod.from_api(admitted.obj), NodeInfo(node), []).rejection
    assert (rejection.reason if rejection else "") == reason


def test_the_status_of_a_rejected_pod_is_in_every_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A Pod does not conflict with its own port on the node."""
    items = [make_node("n1").obj, make_pod("web").port(9100).on("n1").obj]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    (tmp_path / "pod.json").write_text(json.dumps(critical().port(9100).obj))
    (tmp_path / "same.json").write_text(json.dumps(make_pod("web").port(9100).obj))
    asked = ("n1", "--cluster", str(tmp_path / "cluster.json"), "--admit")
    for form in ("text", "markdown", "html"):
        status, out, err = run(capsys, *asked, str(tmp_path / "pod.json"), "-o", form)
        assert (status, err) == (0, "")
        out = " ".join(html.unescape(out).replace("\\", "").split())
        assert "the kubelet rejects it" in out
        assert f"NodePorts: {PORTS}" in out
    admitted = "OK  Pod default/web on node n1: admitted, the kubelet preempts no Pod\n"
    assert run(capsys, *asked, str(tmp_path / "same.json"))[1].startswith(admitted)


# At shutdown


@given(
    st.lists(st.tuples(st.integers(-10, 10), st.integers(0, 99)), min_size=1, unique_by=lambda p: p[0]), st.integers()
)
def test_a_group_is_the_highest_that_is_not_above_the_pod(periods: list[tuple[int, int]], number: int) -> None:
    priority = number % 30 - 15
    groups = shutdown_groups(periods, [pod("p", priority)])
    (found,) = [group.priority for group in groups if group.pods]
    assert found == max((p for p, _ in periods if p <= priority), default=min(p for p, _ in periods))
    assert [group.priority for group in groups] == sorted(p for p, _ in periods)


# As a comment and as a page

ALL = (
    "--signal",
    "memory",
    *STATS,
    "--admit",
    "docs/examples/node-pressure/agent.yaml",
    "--shutdown",
    "0=60,100000=30",
)
FIRST = (
    "the kubelet evicts shop/web-1 first; if the pressure lasts, reports/archive-1 and reports/nightly-1 (tied): "
    "memory pressure on node a-1"
)
TIED = "uses 1.5Gi, within its request of 2Gi (tied with 2)"
HOSTILE = (
    "|",
    "`x`",
    "<b>",
    "</script><script>alert(1)</script>",
    "a\n\n# b",
    "\x1b[2J\x00",
    "\u202edaer",
    "[x](y)",
    "@all",
)


def test_an_answer_has_a_table_of_each_that_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, *ALL)
    assert found["status"] == "HARM"
    assert found["question"] == "memory pressure and Pod kube-system/agent and graceful shutdown on node a-1"
    assert found["clause"] == "the kubelet evicts shop/web-1 first"
    assert found["warnings"][:2] == [
        "Pod kube-system/agent: the kubelet preempts reports/archive-1 and ignores PDBs",
        "graceful shutdown: at most 1 min 30 s for 4 Pods, lowest priority first",
    ]
    status, out, err = run(capsys, *NODE, *ALL, "-o", "markdown")
    assert (status, err) == (0, "")
    rows = [line for line in out.replace("\\", "").splitlines() if line.startswith("| ")]
    assert rows == [
        "| Order | Pod | Value | Reason |",
        "| 1 | shop/web-1 | 100,000 | uses 6Gi, 2Gi above its request |",
        "| 2 | reports/archive-1 | 100 | uses 512Mi, within its request of 1Gi |",
        f"| 3 | reports/nightly-1 | 100 | {TIED} |",
        "| Never evicted, because critical or static |",
        "| kube-system/dns-a |",
        "| Pod preempted by the kubelet | Value | Qos class |",
        "| reports/archive-1 | 100 | Burstable |",
        "| Minimum priority | Seconds | Pods | Names |",
        "| - | 60 | 2 | reports/archive-1, reports/nightly-1 |",
        "| 100,000 | 30 | 2 | kube-system/dns-a, shop/web-1 |",
        "| Pod | Value | Group | Seconds | Grace period |",
        *rows[-4:],
    ]


def test_a_page_has_what_the_other_forms_have(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, *NODE, *ALL, "-o", "html")
    texts = [text for _, text in check_alone(out).texts]
    assert TIED in texts
    assert texts.count("kube-system/dns-a") == 2, "among those that are never evicted, and in its group"


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_what_files_say_stays_text(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = f"n{HOSTILE[3]}|\n# x\x1b"
    items = [make_node(node).has(cpu="1").obj]
    for name in HOSTILE:
        items.append(make_pod(f"p{name}", name).request(cpu="1").on(node).obj)
        items.append(make_pod(f"critical{name}", name).priority(2_000_000_000).on(node).obj)
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    stats = [{"podRef": {"namespace": name, "name": f"p{name}"}, "memory": {"workingSetBytes": 5}} for name in HOSTILE]
    (tmp_path / "stats.json").write_text(json.dumps({"pods": [*stats, {"process_stats": HOSTILE[3]}]}))
    admitted = make_pod(f"q{HOSTILE[3]}|", HOSTILE[4]).spec(priorityClassName="system-node-critical").request(cpu="1")
    del admitted.obj["spec"]["priority"]
    (tmp_path / "pod.json").write_text(json.dumps(admitted.obj))
    asked = ("--signal", "memory", "--stats", str(tmp_path / "stats.json"), "--shutdown", "0=1")
    cluster = ("--cluster", str(tmp_path / "cluster.json"), "--admit", str(tmp_path / "pod.json"))
    status, out, err = run(capsys, node, *asked, *cluster, "-o", form)
    assert (status, err) == (0, "")
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", out)
    if form == "html":
        texts = [text for tag, text in check_alone(out).texts if tag in ("th", "td", "li", "h1")]
        assert {one_line(f"{name}/p{name}") for name in HOSTILE} <= set(texts)
        return
    out = re.sub(r"(?<!\\)`[^`\n]+`", "", out)
    assert not re.search(r"(?<!\\)[`<>@\[\]]", out), "each has a backslash before it, or is in a code span"
    lines = out.splitlines()
    assert sum(line.startswith("#") for line in lines) == 1
    assert {len(re.findall(r"(?<!\\)\|", line)) - 1 for line in lines if line.startswith("| ")} <= {1, 2, 3, 4, 5}


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_as_many_rows_are_told_as_a_comment_or_a_page_takes(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [make_node("n1").obj, *(make_pod(f"p{n}-{'x' * 900}").on("n1").obj for n in range(600))]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    asked = ("n1", "--cluster", str(tmp_path / "cluster.json"), "--signal", "memory", "--shutdown", "0=1")
    _, out, _ = run(capsys, *asked, *without_usage(tmp_path), "-o", form)
    assert ("and 550 more rows" if form == "markdown" else "The first 500 of 600 rows.") in out
    assert "x" * 400 not in out


def test_as_many_pods_are_told_at_the_door_as_one_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = make_node("n1").has(cpu="210", pods="500")
    items = [node.obj, *(make_pod(f"p{n}").request(cpu="1").on("n1").obj for n in range(210))]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    critical = make_pod("agent", "kube-system").spec(priorityClassName="system-node-critical").request(cpu="210")
    del critical.obj["spec"]["priority"]
    (tmp_path / "pod.json").write_text(json.dumps(critical.obj))
    cluster = ("--cluster", str(tmp_path / "cluster.json"), "--admit", str(tmp_path / "pod.json"))
    _, out, _ = run(capsys, "n1", *cluster)
    assert out.count("\ndefault/p") == 10
    assert "and 200 more: -v\n" in out


# What cannot be asked


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("a-1", "--signal", "memory"), 3, "no kubeconfig found"),
        (NODE, 2, "no event given. Fix: choose --signal"),
        ((*NODE, "--signal", "memory", "--inodes"), 2, "--inodes goes with"),
        ((*NODE, "--shutdown", "a=b"), 2, "must be PRIORITY=SECONDS"),
        (("b-1", *NODE[1:], "--signal", "memory"), 2, 'node "b-1" not found'),
        (
            (*NODE, "--signal", "memory", "--stats", "docs/examples/node-pressure/node.yaml"),
            3,
            "node.yaml:1:1: invalid JSON",
        ),
        (
            (*NODE, "--signal", "memory", "--stats", "policies/linting/config/schema.json"),
            3,
            "schema.json: not a kubelet /stats/summary",
        ),
        ((*NODE, "--admit", "docs/examples/headroom/cache.yaml"), 3, "no Pod found"),
        ((*NODE, "--admit", "docs/examples/custom-controllers/cluster.yaml"), 3, "Pods. Fix: give one Pod"),
    ],
)
def test_what_cannot_be_asked_is_said(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, said: str
) -> None:
    found, _, err = run(capsys, *arguments)
    assert (found, "Traceback" in err) == (status, False)
    assert said in err


def test_statistics_of_another_node_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing would be known of any pod, and priority alone would decide."""
    summary = tmp_path / "summary.json"
    summary.write_text(json.dumps({"node": {"nodeName": "b-1"}, "pods": []}))
    status, out, err = run(capsys, *NODE, "--signal", "memory", "--stats", str(summary))
    assert (status, out) == (3, "")
    problem = 'the /stats/summary of node "b-1", not of "a-1". Fix: pass --stats with the output of'
    assert err.startswith(f"forewarn whatif pressure: {summary}: {problem}")


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda c: (
            st.lists(c)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "memory",
                        "workingSetBytes",
                        "containers",
                        "rootfs",
                        "usedBytes",
                        "volume",
                        "name",
                        "process_stats",
                    ]
                ),
                c,
            )
        ),
    )
)
def test_statistics_may_hold_anything(value: Any) -> None:
    if isinstance(value, dict):
        found = read_pod_stats(value)
        assert found.memory >= 0
        assert found.disk(("root", "logs", "volumes"), ("", "a")).size >= 0


# What the kubelet itself says


def test_recorded_answers_of_the_kubelets_own_functions() -> None:
    """`make kubelet-oracle SEED=7 COUNT=60 RECORD=tests/policies/cases/kubelet-nodes.jsonl.gz`."""
    seen = Counter[str]()
    with gzip.open("tests/policies/cases/kubelet-nodes.jsonl.gz", "rt") as recorded:
        for number, line in enumerate(recorded):
            case = json.loads(line)
            assert list(disagreements(case["node"], case["want"], seen)) == [], number
    assert seen["orders"] == 60 * 24
    assert min(seen.values()) > 10, seen


def test_a_request_of_a_part_of_a_byte_counts_exactly() -> None:
    used = {"a/exceeds": PodStats(memory=2), "a/within": PodStats(memory=1)}
    pods = [
        read_pod({"metadata": {"namespace": "a", "name": name}, "spec": {"containers": [container]}})
        for name in ("within", "exceeds")
        for container in [{"name": "c", "resources": {"requests": {"memory": "1500m"}}}]
    ]
    places = rank(pods, used, "memory")
    assert [(place.pod.key, place.usage and place.usage.exceeds) for place in places] == [
        ("a/exceeds", True),
        ("a/within", False),
    ]
    assert places[0].usage is not None
    assert places[0].usage.requested == 2


@pytest.mark.parametrize(
    ("spec", "qos"),
    [
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}, GUARANTEED),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}, BURSTABLE),
        ({"containers": [{"name": "c"}], "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}, GUARANTEED),
    ],
)
def test_limits_are_requests_where_none_is_as_the_api_server_has_it(spec: dict[str, Any], qos: str) -> None:
    assert read_pod({"metadata": {"name": "p"}, "spec": spec}).qos == qos


def test_pod_level_requests_default_to_those_of_containers_with_a_limit_of_huge_pages() -> None:
    """Source: `defaultHugePagePodLimits` before `defaultPodRequests`. ResourceQuotas apply the same QoS class."""
    resources = {"requests": {"cpu": "1"}, "limits": {"hugepages-2Mi": "2Mi"}}
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": resources}]}
    spec["resources"] = {"requests": {"memory": "0"}}
    found = {"metadata": {"name": "p"}, "spec": spec}
    assert read_pod(found).qos == BURSTABLE
    assert (read_pod(found).request("cpu"), read_pod(found).request("hugepages-2Mi")) == (1, 2 * 2**20)
    assert matches_scope(ScopeSelector("NotBestEffort", "Exists"), found)
    del resources["limits"]
    assert read_pod(found).qos == BEST_EFFORT
    assert matches_scope(ScopeSelector("BestEffort", "Exists"), found)


def test_a_pod_that_names_its_node_is_left_to_the_kubelet_of_that_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pod.json").write_text(json.dumps(make_pod("agent").on("b-1").obj))
    main(["whatif", "apply", "-f", str(tmp_path / "pod.json"), "--cluster", "docs/examples/whatif/cluster.yaml"])
    assert "Fix: pass it to forewarn whatif pressure b-1 --admit INPUT" in " ".join(capsys.readouterr().out.split())


def test_a_size_below_the_next_unit_has_no_exponent() -> None:
    assert [size(1000 << 20), size(3 << 29), size(1023)] == ["1000Mi", "1.5Gi", "1023"]
