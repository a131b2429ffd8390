"""A cluster of 5,000 nodes, and what it costs to judge a review on it: in CPU time, whatever else the machine does."""

from __future__ import annotations

import gc
import json
import time
import tracemalloc
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.findings import Action
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.options import AllowedClasses, LimitedResource, Options, ScopeSelector
from forewarn.policies.linting.config.model import Config
from forewarn.webhook.admission.decide import decide
from forewarn.webhook.admission.prediction_access import ReviewContext, Time
from forewarn.webhook.admission.review import AdmissionCall, BadReview, Hook, parse_review
from tests.benchmarks.clusters import Size, objects
from tests.hostile.attacks import STORED, priority_class
from tests.webhook.builders import answer_now, endpoint

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

NOW: Final = datetime(2030, 1, 1, tzinfo=UTC)
SECONDS: Final = 0.75
"""The time for a request where the API server gives the least it can, 1 s: a quarter is kept for the way back."""
OVERSHOOT: Final = 0.05
MAX_BYTES: Final = 400_000
"""Of an answer: the annotations of an object hold 256 KiB in all."""
CONFIG: Final = Config(
    actions={"quota-exceeded": Action.DENY},
    options=Options(
        allowed_classes=(AllowedClasses(("gold", "team-*"), namespaces=("team-*",)),),
        limited_resources=(LimitedResource("pods", ("cpu",), (ScopeSelector("PriorityClass", "In", ("gold",)),)),),
    ),
)


class Cost(NamedTuple):
    """CPU seconds, how long an answer was without asking for the time, how often it asked, bytes of the answers."""

    seconds: float
    gap: float
    asked: int
    size: int
    told: Any = None

    @property
    def overshoot(self) -> float:
        """Seconds beyond the time there was."""
        return self.seconds - SECONDS


@cache
def cluster(nodes: int = 5000, pods_per_node: int = 8) -> ClusterSnapshot:
    """Nodes, pods, a hundred classes, quotas, LimitRanges, a stored workload."""
    found = Cache()
    for obj in objects(Size(nodes, pods_per_node)):
        if obj["kind"] == "Node":
            obj["status"]["allocatable"] |= {"cpu": "6", "memory": "24Gi", "example.com/gpu": "4"}
        found.add(obj)
    found.add(priority_class("gold", value=100_000))
    for number in range(100):
        found.add(priority_class(f"class-{number:03}", value=number))
    for number in range(40):
        where = {"namespace": f"team-{number}"}
        found.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{number}"}})
        hard = {"pods": "5000", "requests.cpu": "4000", "limits.memory": "9Ti", "count/pods": "6000"}
        selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["gold", "x"]}]}
        for name, spec in (("all", {}), ("gold", {"scopeSelector": selector})):
            found.add(
                {
                    "apiVersion": "v1",
                    "kind": "ResourceQuota",
                    "metadata": {"name": name, **where},
                    "spec": {"hard": hard, **spec},
                    "status": {"hard": hard, "used": dict.fromkeys(hard, "1")},
                }
            )
        limits = [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}}]
        found.add(
            {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", **where}, "spec": {"limits": limits}}
        )
    found.add(STORED)
    snapshot = found.snapshot()
    snapshot.prepare()
    gc.collect()
    gc.freeze()  # as `serve` does
    gc.set_threshold(100_000)
    return snapshot


def judge(review: Any, seconds: float = SECONDS, hooks: tuple[Hook, ...] = tuple(Hook)) -> Cost:
    """The dearest of the hooks. Raises nothing that the webhook does not answer."""
    snapshot, body = cluster(), json.dumps(review).encode()
    costs = [_cost(body, hook, snapshot, seconds) for hook in hooks]
    return max(costs, key=lambda cost: cost.seconds)._replace(
        gap=max(cost.gap for cost in costs), size=max(cost.size for cost in costs)
    )


def permitted(review: Any, seconds: float) -> float:
    """CPU seconds that an answer may take: the time there is, or that which it takes to read, and a little more."""
    body = json.dumps(review).encode()
    began = time.thread_time()
    with suppress(BadReview, RecursionError):
        parse_review(body)
    return max(seconds, 2 * (time.thread_time() - began)) + OVERSHOOT


def _cost(body: bytes, hook: Hook, snapshot: ClusterSnapshot, seconds: float) -> Cost:
    began = latest = time.thread_time()
    gap, asked = 0.0, 0

    def expired() -> bool:
        nonlocal latest, gap, asked
        now = time.thread_time()
        gap, latest, asked = max(gap, now - latest), now, asked + 1
        return now >= began + seconds

    try:
        request = parse_review(body)
        answer = decide(ReviewContext(request, hook, snapshot, CONFIG, Time(NOW, expired))).response.to_bytes()
    except BadReview as fault:
        answer = str(fault).encode()
    except RecursionError:
        answer = b""
    ended = time.thread_time()
    return Cost(ended - began, max(gap, ended - latest), asked, len(answer), answer)


DENYING: Final = CONFIG._replace(actions={**CONFIG.actions, "class-not-allowed": Action.DENY})
ELSEWHERE: Final = "elsewhere"
"""A namespace in which `gold` is not allowed."""


class Weight(NamedTuple):
    """Bytes of a body on the wire, the most memory that its answer took, and whether it was denied."""

    wire: int
    peak: int
    denied: bool


def weigh(review: Any) -> Weight:
    """What a review takes beside the cluster state: from its bytes to the bytes of the answer of /validate."""
    snapshot, body = cluster(), json.dumps(review, separators=(",", ":")).encode()
    served = endpoint(lambda: snapshot, lambda: DENYING)
    call = AdmissionCall(Hook.VALIDATE, body, time.monotonic(), "1s")
    gc.collect()
    tracemalloc.start()
    try:
        reply = answer_now(served, call)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return Weight(len(body), peak, reply.status == 200 and not json.loads(reply.body)["response"]["allowed"])


def forbidden(review: Any) -> Any | None:
    """The same creation in a namespace that its class is not allowed in; None where there is no pod spec to name it."""
    request = review["request"]
    obj = request["object"]
    if request["operation"] != "CREATE":
        return None
    spec: Any = obj
    for key in PATHS_OF_SPECS.get(obj["kind"], ("",)):
        spec = spec.get(key) if isinstance(spec, dict) else None
    if not isinstance(spec, dict):
        return None
    spec["priorityClassName"] = "gold"
    metadata = obj["metadata"] if isinstance(obj.get("metadata"), dict) else {}
    obj["metadata"] = {**metadata, "namespace": ELSEWHERE}
    return {**review, "request": {**request, "namespace": ELSEWHERE}}


_TEMPLATE: Final = ("spec", "template", "spec")
PATHS_OF_SPECS: Final = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", *_TEMPLATE),
    **dict.fromkeys(
        ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "ReplicationController"), _TEMPLATE
    ),
}
"""Kind -> where its pod spec is."""
