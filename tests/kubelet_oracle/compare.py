"""Ask the kubelet's own functions (.cache/kubelet-oracle) and policies.kubelet about random nodes: what differs?

What is compared: the order of eviction for every signal and layout of disks, and who is tied; who is critical; whom a
critical pod at the kubelet's door ends; why the kubelet rejects a pod (the filters of kube-scheduler); the groups of a
graceful shutdown.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kubernetes.kubelet import (
    IMAGE_FILESYSTEMS,
    SIGNALS,
    NotEnough,
    admit,
    pods_to_preempt,
    rank,
    read_pod,
    read_stats,
    shutdown_groups,
)
from forewarn.policies.kubernetes.objects.node import Node
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.kubernetes.objects.fields import ApiObject

ORACLE: Final = Path(__file__).parents[2] / ".cache" / "kubelet-oracle"
_CHUNK: Final = 500
_PRIORITIES: Final = (None, 0, 0, -10, 100, 100, 1000, 1999999999, 2000000000, 2000001000)
_MEMORY: Final = ("64Mi", "128Mi", "128Mi", "1Gi", "1", "1500m", "0", "100M")
_CPU: Final = ("1m", "100m", "250m", "1", "0")
_STORAGE: Final = ("1Gi", "100Mi", "100Mi", "0", "2500m")
_SIZES: Final = (0, 1, 2, 2**20, 64 * 2**20, 128 * 2**20, 128 * 2**20, 100_000_000, 2**30, 2**40)
_COUNTS: Final = (0, 1, 2, 10, 10, 5000)
_LACKS: Final = {
    "cpu": (1, 100, 350, 1000),
    "memory": (1, 2**20, 128 * 2**20, 2**30),
    "pods": (1, 2, 5),
    "ephemeral-storage": (1, 2**20, 2**30),
}


_SCALARS: Final = {"example.com/gpu": ("0", "1", "2", "4"), "hugepages-2Mi": ("0", "2Mi", "4Mi", "8Mi")}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10_000, help="nodes (default 10,000)")
    parser.add_argument("--show", type=int, default=5, help="disagreements to print (default 5)")
    parser.add_argument(
        "--record", type=Path, help="keep what was asked and the kubelet's answers, as JSON lines, gzipped"
    )
    options = parser.parse_args(arguments)
    wrong, seen = 0, Counter[str]()
    for first in range(0, options.count, _CHUNK):
        numbers = range(first, min(first + _CHUNK, options.count))
        nodes = [random_node(random.Random(f"{options.seed}/{number}")) for number in numbers]
        answers = list(asked(nodes))
        if options.record and not first:
            lines = (json.dumps({"node": n, "want": w}) + "\n" for n, w in zip(nodes, answers, strict=True))
            options.record.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
        for number, node, want in zip(numbers, nodes, answers, strict=True):
            found = list(disagreements(node, want, seen))
            wrong += bool(found)
            if found and wrong <= options.show:
                print(json.dumps({"seed": options.seed, "number": number, "differs": found, "node": node}))
    counted = ", ".join(f"{count} {name}" for name, count in sorted(seen.items()))
    print(f"seed {options.seed}: {options.count - wrong} nodes agree, {wrong} do not ({counted})")
    return 1 if wrong else 0


def asked(nodes: Sequence[ApiObject]) -> Iterator[Any]:
    """The oracle's answers."""
    text = "\n".join(json.dumps(node) for node in nodes)
    done = subprocess.run([ORACLE], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"kubelet-oracle: {done.stderr[-2000:]}")
    return map(json.loads, done.stdout.splitlines())


def disagreements(node: ApiObject, want: Any, seen: Counter[str]) -> Iterator[list[Any]]:
    """[which part, upstream's answer, ours], of those that differ; `seen` counts what was compared."""
    pods, stats = [read_pod(pod) for pod in node["pods"]], read_stats(node["stats"])
    for name, order in want["orders"].items():
        images, signal, *inodes = name.split()
        places = rank(pods, stats, signal, inodes=bool(inodes), images=images)
        ours = [place.pod.key for place in places], [place.tied for place in places]
        theirs = order["pods"], order["tied"]
        seen["orders"] += 1
        seen["ties"] += sum(theirs[1])
        if _runs(*ours) != _runs(*theirs):
            yield [name, theirs, ours]
    missing = {(images, signal) for images in IMAGE_FILESYSTEMS for signal in SIGNALS} - {
        tuple(name.split()[:2]) for name in want["orders"]
    }
    if missing:
        yield ["signals that the kubelet does not rank", [], sorted(missing)]
    critical = [pod.key for pod in pods if pod.critical]
    if critical != want["critical"]:
        yield ["critical", want["critical"], critical]
    try:
        lacks = {lack["resource"]: lack["quantity"] for lack in node["lacks"]}
        ended, rejected = [pod.key for pod in pods_to_preempt(read_pod(node["admit"]), pods, lacks)[0]], False
    except NotEnough:
        ended, rejected = [], True
    seen["admissions that end pods"] += bool(ended)
    if (ended, rejected) != (want["admitted"], want["refused"]):
        yield ["admission", [want["admitted"], want["refused"]], [ended, rejected]]
    info = NodeInfo(Node.from_api(node["node"]), map(Pod.from_api, node["pods"]))
    found = admit(read_pod(node["admit"]), Pod.from_api(node["admit"]), info, pods)
    admission = {"reason": "", "message": "", **(found.rejection._asdict() if found.rejection else {})}
    admission["preempted"] = [pod.key for pod in found.preempted]
    seen["rejections"] += bool(admission["reason"])
    if admission != want["admission"]:
        yield ["admission of the node", want["admission"], admission]
    groups = [[pod.key for pod in group.pods] for group in shutdown_groups(map(tuple, node["periods"]), pods)]
    seen["shutdown groups"] += len(groups)
    if groups != want["groups"]:
        yield ["shutdown", want["groups"], groups]


def _runs(pods: Sequence[str], tied: Sequence[bool]) -> list[list[str]]:
    """Those that are tied together, as upstream's sort leaves them in any order."""
    runs: list[list[str]] = []
    for pod, is_tied in zip(pods, tied, strict=True):
        if not is_tied:
            runs.append([])
        runs[-1].append(pod)
    return [sorted(run) for run in runs]


def random_node(draw: random.Random) -> ApiObject:
    """Pods, what they use, a pod at the door with what lacks for it, and the periods of a shutdown."""
    pods = [_pod(draw, f"p{number}") for number in range(draw.randrange(13))]
    used = [_stats(draw, pod) for pod in pods if draw.random() < 0.9]
    draw.shuffle(used)
    lacks = draw.sample(sorted(_LACKS), draw.randrange(1, 4))
    levels = draw.sample([p for p in {*_PRIORITIES} if p is not None], draw.randrange(5))
    admit = _pod(draw, "admit")
    if draw.random() < 0.5:
        admit["metadata"].setdefault("annotations", {})["kubernetes.io/config.source"] = "file"
    periods = [[level, draw.randrange(100)] for level in levels]
    return {
        "pods": pods,
        "stats": {"pods": used},
        "admit": admit,
        "node": _node(draw, pods, admit),
        "lacks": [{"resource": name, "quantity": draw.choice(_LACKS[name])} for name in lacks],
        "periods": periods,
    }


def _node(draw: random.Random, pods: Sequence[ApiObject], admit: ApiObject) -> dict[str, Any]:
    """A node that may lack something for `admit`. Adds to the Pods what the filters read.

    `admit` requests one extended resource at most: upstream names several in any order.
    """
    for pod in pods:
        for container in pod["spec"]["containers"]:
            _filtered(draw, container, 0.2)
    spec = admit["spec"]
    _filtered(draw, spec["containers"][0], 0.4)
    if draw.random() < 0.1:
        spec["nodeName"] = draw.choice(("n", "other"))
    if draw.random() < 0.15:
        spec["nodeSelector"] = {"disk": draw.choice(("ssd", "hdd"))}
    if draw.random() < 0.3:
        spec["tolerations"] = [{"key": "a", "operator": "Exists", "effect": draw.choice(("NoExecute", "NoSchedule"))}]
    taints = [{"key": draw.choice("ab"), "effect": effect} for effect in ("NoExecute", "NoSchedule")]
    allocatable = {
        "cpu": draw.choice(("1", "2", "4")),
        "memory": draw.choice(("512Mi", "2Gi", "8Gi")),
        "ephemeral-storage": draw.choice(("1Gi", "10Gi")),
        "pods": draw.choice(("5", "20")),
        **{name: draw.choice(amounts) for name, amounts in _SCALARS.items() if draw.random() < 0.7},
    }
    return {
        "metadata": {"name": "n", "labels": {"disk": "ssd"}},
        "spec": {"taints": [taint for taint in taints if draw.random() < 0.2]},
        "status": {"allocatable": allocatable},
    }


def _filtered(draw: random.Random, container: dict[str, Any], share: float) -> None:
    if draw.random() < share:
        name = draw.choice([*_SCALARS, "example.com/unknown"])
        resources = container.setdefault("resources", {})
        amount = draw.choice(_SCALARS.get(name, ("1",)))
        resources["requests"] = {**resources.get("requests", {}), name: amount}
        resources["limits"] = {**resources.get("limits", {}), name: amount}
    if draw.random() < share / 2:
        port = draw.choice((80, 81))
        container["ports"] = [{"containerPort": port, "hostPort": port, "hostIP": draw.choice(("", "10.0.0.1"))}]


def _pod(draw: random.Random, name: str) -> ApiObject:
    spec: dict[str, Any] = {
        "containers": [_container(draw, f"c{number}") for number in range(draw.choice((1, 1, 2, 3)))],
        "volumes": [_volume(draw, f"v{number}") for number in range(draw.randrange(4))],
    }
    priority = draw.choice(_PRIORITIES)
    if priority is not None:
        spec["priority"] = priority
    if draw.random() < 0.3:
        spec["initContainers"] = [_container(draw, f"i{number}") for number in range(draw.randrange(1, 3))]
        if draw.random() < 0.5:
            spec["initContainers"][0]["restartPolicy"] = "Always"
    if draw.random() < 0.15:
        spec["overhead"] = _amounts(draw, 0.7)
    if draw.random() < 0.1:
        spec["resources"] = _resources(draw, ("cpu", "memory"))
    pod: dict[str, Any] = {"metadata": {"name": name, "namespace": draw.choice(("a", "b"))}, "spec": spec}
    source = draw.choice((None, None, None, None, "api", "file", "http"))
    if source:
        pod["metadata"]["annotations"] = {"kubernetes.io/config.source": source}
    if draw.random() < 0.05:
        pod["metadata"].setdefault("annotations", {})["kubernetes.io/config.mirror"] = "x"
    if draw.random() < 0.1:
        pod["status"] = {"qosClass": draw.choice(("BestEffort", "Burstable", "Guaranteed"))}
    return pod


def _container(draw: random.Random, name: str) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "image": "i"}
    if draw.random() < 0.75:
        made["resources"] = _resources(draw, ("cpu", "memory", "ephemeral-storage"))
    return made


def _resources(draw: random.Random, names: tuple[str, ...]) -> dict[str, Any]:
    requests = {name: amount for name, amount in _amounts(draw, 0.7).items() if name in names}
    limits = requests if draw.random() < 0.4 else {n: a for n, a in _amounts(draw, 0.5).items() if n in names}
    return {"requests": requests, "limits": dict(limits)}


def _amounts(draw: random.Random, share: float) -> dict[str, str]:
    known = {"cpu": _CPU, "memory": _MEMORY, "ephemeral-storage": _STORAGE}
    return {name: draw.choice(amounts) for name, amounts in known.items() if draw.random() < share}


def _volume(draw: random.Random, name: str) -> dict[str, Any]:
    kinds: tuple[dict[str, Any], ...] = (
        {"emptyDir": {}},
        {"emptyDir": {"medium": "Memory"}},
        {"emptyDir": {"medium": "HugePages"}},
        {"hostPath": {"path": "/x"}},
        {"configMap": {"name": "x"}},
        {"gitRepo": {"repository": "x"}},
        {"secret": {"secretName": "x"}},
        {"projected": {"sources": []}},
        {"persistentVolumeClaim": {"claimName": "x"}},
    )
    return {"name": name, **draw.choice(kinds)}


def _stats(draw: random.Random, pod: ApiObject) -> dict[str, Any]:
    metadata = pod["metadata"]
    found: dict[str, Any] = {"podRef": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": "u"}}
    if draw.random() < 0.95:
        found["memory"] = {"workingSetBytes": draw.choice(_SIZES)} if draw.random() < 0.95 else {}
    if draw.random() < 0.9:
        found["process_stats"] = {"process_count": draw.choice(_COUNTS)} if draw.random() < 0.95 else {}
    found["containers"] = [
        {"name": container["name"], **_of_container(draw)} for container in pod["spec"]["containers"]
    ]
    names = [volume["name"] for volume in pod["spec"]["volumes"] if draw.random() < 0.9]
    if names and draw.random() < 0.1:
        names.append(names[0])
    found["volume"] = [{"name": name, **_disk(draw)} for name in names]
    return found


def _of_container(draw: random.Random) -> dict[str, Any]:
    return {part: _disk(draw) for part in ("rootfs", "logs") if draw.random() < 0.9}


def _disk(draw: random.Random) -> dict[str, int]:
    used = {"usedBytes": draw.choice(_SIZES), "inodesUsed": draw.choice(_COUNTS)}
    return {name: amount for name, amount in used.items() if draw.random() < 0.95}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
