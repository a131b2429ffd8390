"""What forewarn says of a new Job in a queue is what Kueue's manager then does.

Random queues, flavors and Jobs, each with one more Job at the end: the warning of `kubectl apply` and the answer of
`forewarn predict` about a snapshot before are compared with what Kueue decides, and the Pods with those that then run.
Jobs are created suspended, as Kueue's own webhook does. WORLDS says how many there are, SEED which ones; FAIR=1: with
fair sharing.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
import yaml

from tests.e2e.api import identity
from tests.e2e.build import KUEUE, binaries, source_of
from tests.e2e.control_plane import answers
from tests.e2e.living import forewarn
from tests.e2e.objects import container, node
from tests.e2e.processes import free_ports
from tests.e2e.random_cases import SEED
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.graceful_kubelet import GracefulKubelets
    from tests.e2e.living import Living
    from tests.e2e.staging import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.whole]

WORLDS = int(os.environ.get("WORLDS", "20"))
FAIR = bool(os.environ.get("FAIR"))
GROUP: Final = "kueue.x-k8s.io"
KINDS: Final = ("WorkloadPriorityClass", "LocalQueue", "ClusterQueue", "Cohort", "ResourceFlavor")
"""What a world has, as it is deleted."""
QUIET: Final = 4
"""Seconds without a change after which all is over."""
CLASSES: Final = {"low": 1, "mid": 10, "high": 100}
OWN_ETC: Final = 'mount --bind "$0" /etc && exec "$@"'
"""Runs a command with the directory $0 as /etc, where the manager reads its certificate for metrics."""


class Decision(NamedTuple):
    """What becomes of a Job: the flavors of its quota, Workloads that it preempts, Pods that run."""

    flavors: Mapping[str, str] | None
    preempted: Sequence[str]
    pods: int


@pytest.fixture(scope="module")
def kueue(plane: ControlPlane, api: Api) -> Iterator[Path]:
    """Kueue's kinds and its manager; yields the file of its configuration."""
    crds = source_of(KUEUE, "sigs.k8s.io/kueue") / "config/components/crd/bases"
    created = [api.create(yaml.safe_load(path.read_text())) for path in sorted(crds.glob("*.yaml"))]
    wait_until(lambda: is_served(api), 60, "the API server serves Kueue's kinds")
    home = plane.home / "kueue"
    certificates = home / "etc/kueue/metrics/certs"
    certificates.mkdir(parents=True)
    for suffix in ("crt", "key"):
        shutil.copy(plane.home / "certs" / f"apiserver.{suffix}", certificates / f"tls.{suffix}")
    health, metrics, webhooks = free_ports(3)
    file = home / "manager.json"
    configuration = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": f"127.0.0.1:{metrics}"},
        "webhook": {"port": webhooks, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["batch/job"]},
        **({"fairSharing": {}} if FAIR else {}),
    }
    file.write_text(json.dumps(configuration))
    program = [str(binaries(KUEUE) / "kueue"), "--config", str(file), "--feature-gates=VisibilityOnDemand=false"]
    command = ["unshare", "--mount", "sh", "-c", OWN_ETC, str(home / "etc"), *program]
    plane.processes.start("kueue", command, {"KUBECONFIG": str(plane.kubeconfig())})
    plane.processes.wait_for("kueue", lambda: answers(f"http://127.0.0.1:{health}/readyz"), 120)
    yield file
    plane.processes.stop("kueue")
    for each in created:
        api.delete(each)


def is_served(api: Api) -> bool:
    """Whether clients of the API server find Kueue's kinds."""
    served = api.ask("GET", "apis/kueue.x-k8s.io/v1beta2").body.get("resources", ())
    return {*KINDS, "Workload"} <= {each["kind"] for each in served}


def of_kueue(kind: str, name: str, namespace: str = "default", **fields: Any) -> Obj:
    return {**identity(kind, name, namespace), **fields}


def cluster_queue(flavors: Sequence[str], cohort: str, rng: random.Random) -> Obj:
    """The spec of a ClusterQueue with random quotas. `cohort`: "" for none."""
    quotas = []
    for flavor in flavors:
        resource = {"name": "cpu", "nominalQuota": str(rng.choice((2, 4, 6, 8)))}
        if cohort and rng.random() < 0.3:
            resource["borrowingLimit"] = str(rng.choice((0, 2, 4)))
        if cohort and rng.random() < 0.2:
            resource["lendingLimit"] = str(rng.choice((0, 1, 2)))
        quotas.append({"name": flavor, "resources": [resource]})
    reclaim = rng.choice(("Never", "Any", "LowerPriority"))
    preemption: Obj = {
        "withinClusterQueue": rng.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
        "reclaimWithinCohort": reclaim,
    }
    if reclaim != "Never" and rng.random() < 0.3 and not FAIR:
        preemption["borrowWithinCohort"] = {"policy": "LowerPriority", "maxPriorityThreshold": rng.choice((1, 10))}
    searches = ("MayStopSearch", "TryNextFlavor")
    return {
        "namespaceSelector": {},
        "queueingStrategy": rng.choice(("BestEffortFIFO", "BestEffortFIFO", "StrictFIFO")),
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quotas}],
        "preemption": preemption,
        "flavorFungibility": {"whenCanBorrow": rng.choice(searches), "whenCanPreempt": rng.choice(searches)},
        **({"cohortName": cohort} if cohort else {}),
    }


def put(stage: Stage, namespace: str, rng: random.Random) -> int:
    """Create the queues of a world. Returns how many there are."""
    api = stage.api
    flavors = [f"{namespace}-{number}" for number in range(rng.randint(1, 3))]
    for flavor in flavors:
        made = node(flavor, cpu="32")
        made["metadata"]["labels"]["pool"] = flavor
        stage.node(made)
        api.create(of_kueue("ResourceFlavor", flavor, spec={"nodeLabels": {"pool": flavor}}))
    for name, value in CLASSES.items():
        api.create(of_kueue("WorkloadPriorityClass", f"{namespace}-{name}", value=value))
    count, has_levels = rng.randint(1, 3), rng.random() < 0.3
    if has_levels:
        api.create(of_kueue("Cohort", f"{namespace}-child", spec={"parentName": f"{namespace}-root"}))
        api.create(of_kueue("Cohort", f"{namespace}-root", spec={}))
    for number in range(count):
        cohort = f"{namespace}-{'child' if has_levels and number else 'root'}" if count > 1 else ""
        name = f"{namespace}-{number}"
        api.create(of_kueue("ClusterQueue", name, spec=cluster_queue(flavors, cohort, rng)))
        api.create(of_kueue("LocalQueue", str(number), namespace, spec={"clusterQueue": name}))
    return count


def job(name: str, namespace: str, queues: int, classes: Sequence[str], rng: random.Random) -> Obj:
    pods = rng.randint(1, 4)
    labels = {
        f"{GROUP}/queue-name": str(rng.randrange(queues)),
        f"{GROUP}/priority-class": f"{namespace}-{rng.choice(classes)}",
    }
    containers = [container(rng.choice(("500m", "1", "2")))]
    template = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": containers}
    made = identity("Job", name, namespace)
    made["metadata"]["labels"] = labels
    return {
        **made,
        "spec": {"suspend": True, "parallelism": pods, "completions": pods, "template": {"spec": template}},
    }


def settled(api: Api, namespace: str, kubelets: GracefulKubelets) -> None:
    """Wait until neither Workloads nor Pods have changed for a while."""
    seen, since = "", 0.0

    def is_quiet() -> bool:
        nonlocal seen, since
        now = json.dumps([each["metadata"]["resourceVersion"] for each in api.list("Workload", namespace)])
        if now != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - max(since, kubelets.changed) > QUIET

    wait_until(is_quiet, 180, "nothing changes")


def workloads_of(api: Api, namespace: str) -> dict[str, Obj]:
    """The Workloads by the names of their Jobs."""
    return {each["metadata"]["ownerReferences"][0]["name"]: each for each in api.list("Workload", namespace)}


def happened(api: Api, namespace: str) -> Decision:
    workloads = workloads_of(api, namespace)
    new = workloads["new"]
    admission = new["status"].get("admission")
    preempted = [
        each["metadata"]["name"]
        for each in workloads.values()
        for condition in each["status"].get("conditions", ())
        if condition["type"] == "Preempted" and new["metadata"]["uid"] in condition["message"]
    ]
    pods = [each for each in api.list("Pod", namespace) if each["metadata"]["labels"]["job-name"] == "new"]
    running = sum(each["status"]["phase"] == "Running" for each in pods)
    return Decision(admission and admission["podSetAssignments"][0]["flavors"], sorted(preempted), running)


def predicted(answer: Obj) -> Decision:
    (told,) = answer["kueue"]
    assert told["outcome"] != "not-predicted", told
    preempted = sorted(each["workload"].partition("/")[2] for each in told.get("preempted", ()))
    outcomes = answer["outcomes"]
    return Decision(told.get("flavors"), preempted, outcomes.get("fits", 0) + outcomes.get("preempts", 0))


def warned(decision: Decision, pods: int, warnings: str) -> str | None:
    """Return how a warning contradicts a decision; None if it does not. `pods`: those of the preempted Workloads."""
    counts = re.search(r"Kueue would preempt (\d+) Workloads? \((\d+) Pods?\)", warnings)
    expected = (len(decision.preempted), pods) if decision.preempted else None
    if (counts and tuple(map(int, counts.groups()))) != expected:
        return f"{expected} preempted, warned of {counts and counts[0]}"
    waits = decision.flavors is None and not decision.preempted
    agrees = ("Kueue starts it later" in warnings) == waits
    return None if agrees else f"waits: {waits}, warned: {warnings or 'nothing'}"


def difference(number: int, living: Living, kueue: Path, home: Path) -> str | None:
    """Return how what is said about the last Job of a world differs from what happens; None if it does not."""
    plane, webhook, api, stage, kubelets = living
    rng, namespace = random.Random(f"{SEED}/{number}"), f"world-{number}"
    api.create(identity("Namespace", namespace))
    queues = put(stage, namespace, rng)
    time.sleep(1)
    for index in range(rng.randint(6, 10)):
        api.create(job(f"old-{index}", namespace, queues, ("low", "low", "mid", "high"), rng))
        time.sleep(1.05)  # Kueue orders Workloads of a second by their random UIDs
    settled(api, namespace, kubelets)
    new, snapshot, file = job("new", namespace, queues, ("mid", "high"), rng), home / "snapshot.json", home / "job.json"
    file.write_text(json.dumps(new))
    forewarn(plane, "snapshot", "-o", str(snapshot))
    clusters = ("--cluster", str(snapshot), "--cluster", str(kueue))
    expected = predicted(json.loads(forewarn(plane, "predict", "-f", str(file), *clusters, "-o", "json")))
    before = {
        each["metadata"]["name"]: sum(pod_set["count"] for pod_set in each["status"]["admission"]["podSetAssignments"])
        for each in workloads_of(api, namespace).values()
        if each["status"].get("admission")
    }
    webhook.catch_up(api, 60)
    done = plane.kubectl("apply", "-f", str(file))
    assert done.status == 0, done.err
    wait_until(lambda: "new" in workloads_of(api, namespace), 60, "Kueue creates a Workload")
    settled(api, namespace, kubelets)
    seen = happened(api, namespace)
    print(f"\ne2e: world {number}: {seen}; {done.err.strip() or 'no warning'}", flush=True)
    if seen != expected:
        return f"world {number}: predicted {expected}, was {seen}"
    # the webhook does not know the configuration of the manager
    return None if FAIR else warned(seen, sum(before[name] for name in seen.preempted), done.err)


def remove(api: Api, namespace: str) -> None:
    api.delete_all("Job", namespace)
    wait_until(lambda: not api.list("Pod", namespace), 60, "Pods are gone")
    wait_until(lambda: not api.list("Workload", namespace), 60, "Workloads are gone")
    for kind in KINDS:
        for each in api.list(kind):
            api.delete(each)
    api.delete_all("Node")
    wait_until(lambda: not any(api.list(kind) for kind in KINDS), 60, "queues are gone")


def test_random_worlds(kueue: Path, living: Living, tmp_path: Path) -> None:
    differences = []
    for number in range(WORLDS):
        if (found := difference(number, living, kueue, tmp_path)) is not None:
            differences.append(found)
        remove(living.api, f"world-{number}")
    assert not differences, "\n".join(differences)
