#!/usr/bin/env python3
"""`make cluster`: a control plane that stays, with three nodes on which nothing runs but forewarn.

`up` builds what is missing, starts it in the background and prints how to reach it; `down` ends it. State and logs are
in .cache/cluster.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.e2e.api import Refused
from tests.e2e.build import CACHE, HELM, binaries, control_plane
from tests.e2e.control_plane import boot
from tests.e2e.kubelet import TICK, Kubelets, healthy
from tests.e2e.network import EGRESS, Network
from tests.e2e.objects import node

HOME = Path(__file__).resolve().parents[2] / ".cache" / "cluster"
NODES = {"node-a": "a", "node-b": "b", "node-c": "b"}
"""Name -> zone. Each has four processors."""
CONTROLLERS = (
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
    "statefulset-controller",
)
PATIENCE = 300.0
"""Seconds for all of it to come up, on a machine that does much else."""


def main(arguments: list[str]) -> int:
    """up, down or run; returns the exit status."""
    home = Path(os.environ.get("CLUSTER_HOME", HOME))
    command = arguments[0] if len(arguments) == 1 else ""
    if command == "up":
        return up(home)
    if command == "down":
        return down(home)
    if command == "run":
        return run(home)
    print("usage: cluster.py up|down|run", file=sys.stderr)
    return 2


def pid_of(home: Path) -> int | None:
    """The process that keeps the cluster; None where there is none."""
    try:
        pid = int((home / "pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    return pid if b"cluster.py" in command else None


def up(home: Path) -> int:
    """Start it in the background, and wait until it is there."""
    programs = [binaries(control_plane()), *_helm(), Path(sys.executable).parent]
    if pid_of(home) is None:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        print("starting etcd, kube-apiserver, kube-scheduler and kube-controller-manager", file=sys.stderr)
        with (home / "log").open("wb") as log:
            started = subprocess.Popen(
                [sys.executable, __file__, "run"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "CLUSTER_HOME": str(home)},
            )
        deadline = time.monotonic() + PATIENCE
        while not (home / "ready").exists():
            if started.poll() is not None or time.monotonic() > deadline:
                started.terminate()
                print((home / "log").read_text(errors="replace")[-4000:], file=sys.stderr)
                return 1
            time.sleep(0.1)
    print("A control plane is running, with three nodes. `make cluster-down` ends it. In each terminal:\n")
    print(f"  export KUBECONFIG={shlex.quote(str(home / 'kubeconfig'))}")
    path = ":".join(shlex.quote(str(directory)) for directory in programs)
    print(f"  export PATH={path}:$PATH   # {'its kubectl, helm' if len(programs) > 2 else 'its kubectl'}, forewarn")
    return 0


def _helm() -> list[Path]:
    """Where helm is, if it was built before or is asked for."""
    there = (CACHE / f"bin-{HELM.digest}" / "helm").exists()
    return [binaries(HELM)] if there or os.environ.get("HELM") else []


def down(home: Path) -> int:
    """End it, and take its state away."""
    pid = pid_of(home)
    if pid is None:
        print("no cluster is running", file=sys.stderr)
        return 0
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 60
    while pid_of(home) is not None:
        if time.monotonic() > deadline:
            print(f"process {pid} does not end", file=sys.stderr)
            return 1
        time.sleep(0.1)
    shutil.rmtree(home, ignore_errors=True)
    return 0


def run(home: Path) -> int:
    """Be the cluster until told to end."""
    (home / "pid").write_text(str(os.getpid()))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    sockets = Path(tempfile.mkdtemp())  # the path of a socket may not be long
    socket, egress = sockets / "egress", home / "egress.yaml"
    egress.write_text(EGRESS.format(socket=socket))
    kubelets: list[Kubelets] = []
    Network(socket, lambda host, port: kubelets[0].port(host, port) if kubelets else None)
    plane = boot(binaries(control_plane()), home, f"--egress-selector-config-file={egress}")
    try:
        plane.start_controllers(*CONTROLLERS)
        with closing(plane.api()) as api:
            version = api.do("GET", "version")["gitVersion"]
            for name, zone in NODES.items():
                made = node(name, "4")
                made["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone
                made["status"] |= healthy(version)
                stored = api.create({"apiVersion": "v1", "kind": "Node", **made})
                stored["spec"].pop("taints", None)
                api.replace(stored)
            kubelets.append(Kubelets(plane, api))
            (home / "kubeconfig").unlink(missing_ok=True)
            shutil.copy(plane.kubeconfig(), home / "kubeconfig")
            (home / "ready").touch()
            while True:
                with suppress(Refused, OSError):
                    kubelets[0].turn()
                time.sleep(TICK)
    finally:
        plane.processes.stop_all()
        shutil.rmtree(sockets, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
