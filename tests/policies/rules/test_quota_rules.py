"""What the rules about quotas say: of pods in order, of what is there already, of limits and permissions."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.policies.base.findings import Finding
from forewarn.policies.inputs.manifests.reading import read
from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.kubernetes.kinds.registry import LINTED, POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, Operation, ReviewedObject, User
from forewarn.policies.linting.config.load import read_config
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, Phase, count_open, evaluate
from forewarn.policies.linting.lint.input import as_update
from forewarn.policies.linting.rules.support import quota_use
from tests.builders import Made, make_node
from tests.cases import cases
from tests.policies.test_rollouts import changed, rolling
from tests.policies.test_rollouts import deployment as rolled
from tests.recorded.dry_run import dry_run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WANTED = frozenset((*LINTED, *POD_TEMPLATE_PATHS))
CONTINUES = "The rollout continues with maxUnavailable"
GOLD = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 1000}
LIMITED = """\
limitedResources:
- resource: pods
  matchScopes: [{scopeName: PriorityClass, operator: In, values: [gold, system-node-critical]}]
"""


def quota(name: str, hard: dict[str, Any], used: dict[str, Any] | None = None, *classes: str) -> dict[str, Any]:
    """In namespace team; with a status if `used` is given; by classes if there are any."""
    by_class = {"scopeName": "PriorityClass", "operator": "In", "values": list(classes)}
    spec: dict[str, Any] = {"hard": hard, **({"scopeSelector": {"matchExpressions": [by_class]}} if classes else {})}
    status = {} if used is None else {"status": {"hard": hard, "used": used}}
    metadata = {"name": name, "namespace": "team"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec, **status}


def pod(name: str = "p", class_name: str = "", namespace: str = "team", **requests: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}
    if class_name:
        spec["priorityClassName"] = class_name  # type: ignore[assignment]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def deployment(replicas: int, class_name: str = "", surge: Any = 0, **requests: str) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team"},
        "spec": {
            "replicas": replicas,
            "strategy": {"rollingUpdate": {"maxSurge": surge}},
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod("", class_name, **requests)["spec"]},
        },
    }


def state(*objects: dict[str, Any]) -> ClusterSnapshot:
    cache = Cache()
    for obj in objects:
        cache.add(obj)
    return cache.snapshot()


def lint(*objects: Any, cluster: ClusterSnapshot | None = None, config: Config | None = None) -> list[Finding]:
    reading = read(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), "f.json", WANTED)
    subjects = tuple(as_update(subject, cluster) for subject in reading.subjects)
    change_set = ChangeSet(subjects, reading.diagnostics)
    return evaluate(EvaluationRequest(change_set, cluster, config or Config(), phase=Phase.LINT, now=NOW))


def messages(*objects: Any, cluster: ClusterSnapshot | None = None, config: Config | None = None) -> list[str]:
    return [finding.message for finding in lint(*objects, cluster=cluster, config=config)]


def test_the_replica_that_will_not_fit_is_named() -> None:
    cluster = state(GOLD, quota("gold-quota", {"pods": "10"}, {"pods": "4"}, "gold"))
    (finding,) = lint(deployment(10, "gold"), cluster=cluster)
    told = "Deployment team/web: ResourceQuota gold-quota (pods: 10, used: 4) admits 6 of 10 replicas"
    assert f"{finding.object}: {finding.message}" == told
    assert (finding.rule, finding.path, finding.remediation) == (
        "quota-exceeded",
        "spec.replicas",
        "set replicas ≤ 6, or raise the quota",
    )
    assert finding.detail == {"quota": "gold-quota", "resources": ["pods"], "pod": 7, "replicas": 10, "surge": 0}


def test_other_resources_are_told_with_what_a_pod_asks_for() -> None:
    cluster = state(quota("compute", {"requests.cpu": "4"}, {"requests.cpu": "1500m"}))
    assert messages(deployment(4, cpu="1"), cluster=cluster) == [
        "ResourceQuota compute (requests.cpu: 4, used: 1500m) admits 2 of 4 replicas, each requests 1"
    ]
    assert messages(pod(cpu="3"), cluster=cluster) == [
        "ResourceQuota compute (requests.cpu: 4, used: 1500m) rejects the Pod, it requests 3"
    ]


def test_a_rollout_that_will_not_fit_is_told_as_one() -> None:
    cluster = state(quota("few", {"pods": "5"}, {"pods": "0"}))
    assert lint(deployment(4, surge=1), cluster=cluster) == []
    (finding,) = lint(deployment(4, surge=2), cluster=cluster)
    assert finding.message == "ResourceQuota few (pods: 5, used: 0) admits 1 of 2 surge Pods in a rollout. " + CONTINUES
    assert finding.remediation == "set maxSurge ≤ 1, or raise the quota"


def test_of_an_update_only_what_comes_new_counts() -> None:
    labelled = [pod(f"web-{n}") for n in range(4)]
    for one in labelled:
        one["metadata"]["labels"] = {"app": "web"}
    cluster = state(quota("few", {"pods": "6"}, {"pods": "5"}), deployment(4), *labelled)
    assert lint(deployment(4, surge=1), cluster=cluster) == []
    assert lint(deployment(5), cluster=cluster) == []
    assert messages(deployment(6), cluster=cluster) == [
        "ResourceQuota few (pods: 6, used: 5) admits 5 of 6 replicas. 4 of its Pods already exist"
    ]


@pytest.mark.parametrize(
    ("status", "admitted"),
    [
        ({"active": 1, "succeeded": 2}, True),
        ({"active": 1}, False),
        ({"succeeded": 3, "conditions": [{"type": "Complete", "status": "True"}]}, True),
        ({"active": 0, "failed": 2, "conditions": [{"type": "Failed", "status": "True"}]}, True),
    ],
)
def test_of_a_stored_job_only_pods_that_it_still_needs_count(status: dict[str, Any], admitted: bool) -> None:
    spec = {"completions": 3, "parallelism": 3, "template": {"spec": {**pod()["spec"], "restartPolicy": "Never"}}}
    metadata = {"name": "report", "namespace": "team"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    cluster = state(quota("few", {"pods": "2"}, {"pods": "1"}), {**job, "status": status})
    assert ("quota-exceeded" not in {finding.rule for finding in lint(job, cluster=cluster)}) == admitted


@pytest.mark.parametrize(("status", "admitted"), [("True", False), ("False", True)])
def test_the_next_run_of_a_hook_that_has_finished_counts(status: str, admitted: bool) -> None:
    spec = {"completions": 3, "parallelism": 3, "template": {"spec": {**pod()["spec"], "restartPolicy": "Never"}}}
    metadata = {"name": "report", "namespace": "team", "annotations": {"argocd.argoproj.io/hook": "PreSync"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    stored = {**job, "status": {"active": 1, "succeeded": 2, "conditions": [{"type": "Complete", "status": status}]}}
    cluster = state(quota("few", {"pods": "2"}, {"pods": "1"}), stored)
    assert ("quota-exceeded" not in {finding.rule for finding in lint(job, cluster=cluster)}) == admitted


def test_without_a_change_of_the_template_no_rollout_comes() -> None:
    cluster = state(quota("few", {"pods": "4"}, {"pods": "4"}), deployment(4, surge=1))
    assert lint(deployment(4, surge=1), cluster=cluster) == []
    (told,) = messages(deployment(4, surge=1, cpu="1"), cluster=cluster)
    assert told == (
        "ResourceQuota few (pods: 4, used: 4) admits 0 of 1 surge Pods in a rollout. "
        f"{CONTINUES}. 4 of its Pods already exist"
    )


def test_surge_pods_that_fit_beside_smaller_old_ones_count() -> None:
    """The quota admits no 4 new Pods, but the surge Pod beside the old ones."""
    made = [*rolled("web", ["n"] * 3, "1", 0, strategy=rolling(1, 0)), make_node("n").has(cpu="99")]
    hard = {"requests.cpu": "7"}
    made.append(
        Made("v1", "ResourceQuota", "q", "default").spec(hard=hard).status(hard=hard, used={"requests.cpu": "4"})
    )
    change = changed(made, containers=pod(cpu="2")["spec"]["containers"])
    told = "ResourceQuota q (requests.cpu: 7, used: 4) stops the rollout after 2 of 3 new Pods"
    assert told in messages(change, cluster=state(*(one.obj for one in made)))


def test_pods_of_another_class_are_new_to_its_quota() -> None:
    objects = [GOLD, quota("gold-quota", {"pods": "3"}, {"pods": "0"}, "gold"), deployment(4)]
    assert "admits 3 of 4 replicas" in messages(deployment(4, "gold"), cluster=state(*objects))[0]


def test_earlier_objects_of_the_apply_use_the_quota_up() -> None:
    cluster = state(quota("few", {"pods": "3"}, {"pods": "1"}))
    assert messages(pod("a"), pod("b"), pod("c"), cluster=cluster) == [
        "ResourceQuota few (pods: 3, used: 3) rejects the Pod. Earlier objects of the input use 2"
    ]


def test_what_is_refused_uses_nothing_up() -> None:
    cluster = state(quota("compute", {"cpu": "2"}, {"cpu": "0"}))
    assert [f.object.name for f in lint(pod("a", cpu="3"), pod("b", cpu="2"), cluster=cluster)] == ["a"]


def test_what_another_object_of_the_apply_makes_is_counted_there() -> None:
    cluster = state(quota("few", {"pods": "2"}, {"pods": "0"}))
    made = pod("web-1")
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1", "controller": True}
    ]
    assert lint(deployment(2), made, cluster=cluster) == []


def test_files_have_no_order_so_all_objects_of_the_input_exceed_a_quota_together() -> None:
    said = "ResourceQuota few (pods: 1) is too small: all Pods of the input use 2"
    assert messages(quota("few", {"pods": "1"}), pod("a"), pod("b")) == [said, said]


def test_a_stored_quota_limits_pods_as_in_kube_apiserver_before_its_controller_has_counted() -> None:
    new, limited = quota("few", {"pods": "1"}), quota("few", {"pods": "1"}, {})
    assert messages(pod("a"), pod("b"), cluster=state(new)) == []
    (finding,) = lint(pod("a"), cluster=state(limited))
    assert finding.message == "the Pod will be rejected: status unknown for quota: few, resources: pods"
    assert finding.remediation == "retry when its status has the used amounts"


def test_a_quota_of_the_apply_takes_the_place_of_the_stored_one_and_keeps_its_use() -> None:
    cluster = state(quota("few", {"pods": "9"}, {"pods": "2"}))
    assert messages(quota("few", {"pods": "2"}), pod(), cluster=cluster) == [
        "ResourceQuota few (pods: 2, used: 2) rejects the Pod"
    ]


def test_a_scope_that_cannot_be_read_refuses_every_pod() -> None:
    broken = quota("broken", {"pods": "9"}, {"pods": "0"}, "x" * 64)
    (message,) = [f.message for f in lint(pod(), cluster=state(broken)) if f.rule == "quota-exceeded"]
    assert message.startswith("the Pod will be rejected: error matching scopes of quota broken, err: ")


def test_requirements_come_before_what_is_exceeded() -> None:
    cluster = state(quota("few", {"pods": "0", "cpu": "1"}, {"pods": "0", "cpu": "0"}))
    (finding,) = lint(pod(), cluster=cluster)
    assert (finding.rule, finding.message) == (
        "quota-requirement-missing",
        "ResourceQuota few will reject the Pod: container c must specify cpu",
    )
    assert finding.remediation == "set cpu, or add a LimitRange with defaults"


def test_missing_requests_are_reported_at_the_init_container_that_lacks_them() -> None:
    workload = deployment(3)
    spec = workload["spec"]["template"]["spec"]
    spec["initContainers"] = [{"name": "fetch", "image": "fetch"}, {"name": "migrate", "image": "migrate"}]
    for container in (spec["containers"][0], spec["initContainers"][0]):
        container["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}}
    cluster = state(quota("few", {"requests.cpu": "8", "memory": "9Gi"}, {"requests.cpu": "0", "memory": "0"}))
    (finding,) = lint(workload, cluster=cluster)
    assert finding.message == "ResourceQuota few will reject Pods: container migrate must specify memory, requests.cpu"
    assert finding.path == "spec.template.spec.initContainers[1]"
    assert finding.remediation == "set memory and requests.cpu, or add a LimitRange with defaults"


def test_pods_of_a_missing_class_are_refused_for_that_alone() -> None:
    cluster = state(quota("few", {"pods": "0"}, {"pods": "0"}))
    assert {finding.rule for finding in lint(pod(class_name="ghost"), cluster=cluster)} == {"unknown-priority-class"}


def test_a_class_that_could_not_be_looked_up_is_matched_by_its_name() -> None:
    rules = {f.rule for f in lint(quota("none", {"pods": "0"}, None, "gold"), pod(class_name="gold"))}
    assert rules == {"priority-class-not-checked", "quota-exceeded"}


def test_limited_resources_want_a_quota_of_the_same_scope() -> None:
    config = read_config(LIMITED, "f")
    (finding,) = lint(pod(class_name="gold"), cluster=state(GOLD), config=config)
    assert finding.rule == "limited-class-without-quota"
    assert finding.message == 'the Pod will be rejected: no ResourceQuota in team covers class "gold"'
    assert finding.detail["rejection"] == (
        "insufficient quota to match these scopes: [{PriorityClass In [gold system-node-critical]}]"
    )
    assert lint(pod(class_name="gold"), GOLD, config=config) == []  # no cluster and no quota: nothing is known
    covering = quota("q", {"pods": "5"}, {"pods": "0"}, "gold")
    assert lint(pod(class_name="gold"), cluster=state(GOLD, covering), config=config) == []


def test_missing_requirements_do_not_hide_a_missing_quota() -> None:
    compute = quota("compute", {"cpu": "1"}, {"cpu": "0"})
    found = lint(pod(class_name="gold"), cluster=state(GOLD, compute), config=read_config(LIMITED, "f"))
    assert {f.rule for f in found} == {"quota-requirement-missing", "limited-class-without-quota"}


@pytest.mark.parametrize("replicas", [0, 1, 7])
def test_limited_resources_and_the_api_server_agree(replicas: int) -> None:
    config = read_config(LIMITED, "f")
    for scope in (
        {"operator": "NotIn", "values": ["nobody"]},
        {"operator": "Exists"},
        {"operator": "In", "values": ["x"]},
    ):
        stored = quota("q", {"services": "1"}, {})
        stored["spec"]["scopeSelector"] = {"matchExpressions": [{"scopeName": "PriorityClass", **scope}]}
        cluster = state(GOLD, stored)
        rejected = not dry_run(ReviewedObject(pod(class_name="gold")), cluster, config.options).allowed
        for obj in (pod(class_name="gold"), deployment(replicas, "gold")):
            told = {f.rule for f in lint(obj, cluster=cluster, config=config)}
            assert ("limited-class-without-quota" in told) is rejected


@pytest.mark.parametrize(
    ("hard", "scopes", "told"),
    [
        (
            {"pods": "1"},
            [("NotIn", "batch")],
            'allows class "gold" under limitedResources without naming it (NotIn [batch])',
        ),
        (
            {"count/services": "1"},
            [("In", "gold")],
            'allows class "gold" under limitedResources but limits nothing that Pods use',
        ),
        (
            {"pods": "1"},
            [("In", "gold"), ("DoesNotExist", "")],
            'allows class "gold" under limitedResources but limits only some of its Pods, or none (PriorityClass)',
        ),
        ({"pods": "1"}, [("In", "gold")], None),
        ({"pods": "1"}, [("Exists", "")], 'allows class "gold" under limitedResources without naming it (Exists)'),
        ({"pods": "1"}, [("NotIn", "gold system-node-critical")], None),
        ({"pods": "1"}, [("DoesNotExist", "")], None),
        ({"pods": "1"}, [], None),
    ],
)
def test_a_quota_that_covers_more_than_it_names_is_a_loophole(
    hard: dict[str, str], scopes: list[tuple[str, str]], told: str | None
) -> None:
    new = quota("q", hard)
    new["spec"]["scopeSelector"] = {
        "matchExpressions": [{"scopeName": "PriorityClass", "operator": o, "values": v.split()} for o, v in scopes]
    }
    found = lint(GOLD, new, config=read_config(LIMITED, "f"))
    assert [f.message for f in found if f.rule == "limited-resources-loophole"] == ([told] if told else [])


def test_another_scope_beside_it_makes_a_loophole() -> None:
    new = quota("q", {"pods": "1"}, None, "gold")
    new["spec"]["scopes"] = ["Terminating"]
    found = lint(new, config=read_config(LIMITED, "f"))
    assert [f.message for f in found if f.rule == "limited-resources-loophole"] == [
        'allows class "gold" under limitedResources but limits only some of its Pods, or none (Terminating)'
    ]


GKE_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"cloud.google.com/gke-nodepool": "p"}},
}


def blocked(obj: dict[str, Any], cluster: ClusterSnapshot | None, config: Config | None = None) -> bool:
    return "system-class-blocked-by-quota" in {f.rule for f in lint(obj, cluster=cluster, config=config)}


def test_a_system_class_is_blocked_where_a_cluster_limits_it_and_no_quota_covers_it() -> None:
    critical = pod(class_name="system-node-critical")
    assert blocked(critical, state(GKE_NODE))
    assert not blocked(critical, state())
    assert not blocked(critical, None)
    assert blocked(critical, None, read_config(LIMITED, "f"))
    assert not blocked(pod(class_name="system-node-critical", namespace="kube-system"), state(GKE_NODE))
    covering = quota("q", {"pods": "5"}, {"pods": "0"}, "system-node-critical")
    assert not blocked(critical, state(GKE_NODE, covering))
    # Where limitedResources are known to refuse it, limited-class-without-quota says so.
    assert not blocked(critical, state(GKE_NODE), read_config(LIMITED, "f"))


@pytest.mark.parametrize(
    ("scopes", "told"),
    [
        (
            [("In", "gold"), ("In", "silver")],
            "no Pod matches all of its scopes: PriorityClass In [gold] and PriorityClass",
        ),
        (
            [("Exists", ""), ("DoesNotExist", "")],
            "no Pod matches all of its scopes: PriorityClass Exists and PriorityClass",
        ),
        ([("NotIn", "gold"), ("Exists", "")], ""),
        ([("NotIn", "gold silver"), ("DoesNotExist", "")], ""),
    ],
)
def test_scopes_that_exclude_each_other_match_nothing(scopes: list[tuple[str, str]], told: str) -> None:
    new = quota("q", {"pods": "1"})
    new["spec"]["scopeSelector"] = {
        "matchExpressions": [{"scopeName": "PriorityClass", "operator": o, "values": v.split()} for o, v in scopes]
    }
    found = [f.message for f in lint(new) if f.rule == "quota-matches-nothing"]
    assert [message[: len(told)] for message in found] == ([told] if told else [])


ALLOWED = read_config(
    """\
allowedClasses:
- {classes: [gold], namespaces: ["shop-*"]}
- {classes: ["g*"], namespaceSelector: {matchLabels: {tier: production}}}
- {classes: [silver], namespaces: [team], groups: [sre], users: ["ann"]}
""",
    "f",
)


def namespace(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def allowed(*objects: dict[str, Any], cluster: ClusterSnapshot | None = None) -> bool:
    found = {f.rule for f in lint(*objects, cluster=cluster, config=ALLOWED)}
    return "class-not-allowed" not in found


def unjudged(*objects: dict[str, Any], cluster: ClusterSnapshot | None = None) -> int:
    return count_open(ChangeSet(tuple(ReviewedObject(obj) for obj in objects)), ALLOWED, cluster, NOW)


def test_a_class_may_be_used_where_an_entry_that_names_it_holds() -> None:
    assert allowed(pod(class_name="gold", namespace="shop-rome"))
    assert allowed(pod(class_name="free"))
    assert allowed(pod())
    assert allowed(namespace("team", tier="production"), pod(class_name="gold"))
    assert not allowed(namespace("team", tier="test"), pod(class_name="gold"))
    assert not allowed(pod(class_name="gold"), cluster=state(GOLD))
    assert allowed(pod(class_name="gold"), cluster=state(GOLD, namespace("team", tier="production")))


def test_the_default_class_counts_where_none_is_named() -> None:
    default = {**GOLD, "globalDefault": True}
    assert not allowed(pod(), cluster=state(default))


def test_what_depends_on_users_or_unknown_labels_is_counted_and_not_judged() -> None:
    assert allowed(pod(class_name="gold"))
    assert allowed(pod(class_name="silver"))
    assert unjudged(pod(class_name="gold"), pod(class_name="silver"), pod()) == 2
    assert not allowed(pod(class_name="silver", namespace="other"))
    assert unjudged(pod(class_name="silver", namespace="other")) == 0


SRE = User("ann", ("sre",))
CONTROLLER = User("system:serviceaccount:kube-system:replicaset-controller")


@pytest.mark.parametrize(
    ("user", "operation", "old", "denied"),
    [
        (SRE, Operation.CREATE, None, False),
        (User("bob", ("sre",)), Operation.CREATE, None, True),
        (User("ann"), Operation.CREATE, None, True),
        (CONTROLLER, Operation.CREATE, None, False),
        (User("bob"), Operation.UPDATE, "silver", False),
        (User("bob"), Operation.UPDATE, "", True),
    ],
)
def test_users_are_asked_when_a_workload_takes_its_class(
    user: User, operation: Operation, old: str | None, denied: bool
) -> None:
    subject = ReviewedObject(
        deployment(1, "silver"), operation, None if old is None else deployment(1, old), "team", user=user
    )
    cluster = state({**GOLD, "metadata": {"name": "silver"}})
    found = evaluate(EvaluationRequest(ChangeSet((subject,)), cluster, ALLOWED, phase=Phase.VALIDATE, now=NOW))
    told = [finding.message for finding in found if finding.rule == "class-not-allowed"]
    assert told == ([f'class "silver" is not allowed in namespace team for user {user.name}'] if denied else [])


JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, False, -3, 0, 2, 2**40, "", "x", "50%", "1Gi", [], {}, [None], ["x"], [{}], {"x": []}, {"pods": "1"}]
)


def replication_controller() -> dict[str, Any]:
    template = deployment(1, "gold")["spec"]["template"]
    spec = {"replicas": 3, "selector": {"app": "web"}, "template": template}
    return {**deployment(1), "apiVersion": "v1", "kind": "ReplicationController", "spec": spec}


def cron_job() -> dict[str, Any]:
    run = {"parallelism": 2, "template": deployment(1, "gold")["spec"]["template"]}
    spec = {"concurrencyPolicy": "Forbid", "suspend": False, "jobTemplate": {"spec": run}}
    return {**deployment(1), "apiVersion": "batch/v1", "kind": "CronJob", "spec": spec}


def daemon_set() -> dict[str, Any]:
    spec = {key: value for key, value in deployment(1, "gold")["spec"].items() if key in ("selector", "template")}
    spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}
    return {**deployment(1), "kind": "DaemonSet", "spec": spec}


WHOLE: list[dict[str, Any]] = [
    deployment(3, "gold", "25%", cpu="1"),
    replication_controller(),
    cron_job(),
    daemon_set(),
    quota("q", {"pods": "3"}, {"pods": "1"}, "gold"),
    pod(class_name="gold", cpu="1"),
    namespace("team", tier="x"),
]
STORED: list[dict[str, Any]] = [GOLD, GKE_NODE, *WHOLE[:5], pod("another")]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [found for key, entry in entries for found in _paths(entry, (*path, key))]


@st.composite
def _damaged(draw: st.DrawFn) -> dict[str, Any]:
    obj: Any = json.loads(json.dumps(draw(st.sampled_from(WHOLE))))
    path = draw(st.sampled_from([p for p in _paths(obj) if p[0] not in ("apiVersion", "kind")]))
    target = obj
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = draw(JUNK)
    return cast("dict[str, Any]", obj)


@settings(max_examples=cases(150), deadline=None)
@given(damaged=st.lists(_damaged(), min_size=1, max_size=3), with_cluster=st.booleans())
def test_damaged_objects_are_judged_by_what_can_be_read(damaged: list[dict[str, Any]], with_cluster: bool) -> None:
    config = ALLOWED.limiting(read_config(LIMITED, "f").options.limited_resources)
    cluster = state(*STORED) if with_cluster else None
    for phase in Phase:
        change_set = ChangeSet(tuple(ReviewedObject(obj, namespace="team") for obj in damaged))
        for finding in evaluate(EvaluationRequest(change_set, cluster, config, phase=phase, now=NOW)):
            assert "\n" not in finding.message
    count_open(change_set, config, cluster, NOW)


def test_a_quota_is_read_once_for_all_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    read_quotas: list[ReviewedObject] = []
    before = quota_use.read_quota

    def counted(subject: ReviewedObject) -> ResourceQuota:
        read_quotas.append(subject)
        return before(subject)

    monkeypatch.setattr(quota_use, "read_quota", counted)
    for spec, found in (
        ({"hard": {"pods": "5"}}, 0),
        ({"hard": 5}, 0),
        (quota("q", {"pods": "5"}, None, "no")["spec"], 1),
    ):
        obj = {**quota("q", {}), "spec": spec}
        subject = ReviewedObject(obj, operation=Operation.UPDATE, old=quota("q", {"pods": "4"}))
        told = evaluate(
            EvaluationRequest(
                ChangeSet((subject,)), Cache().snapshot(), read_config(LIMITED, "f"), phase=Phase.VALIDATE, now=NOW
            )
        )
        assert len([finding for finding in told if finding.rule == "quota-matches-nothing"]) == found
        assert len(read_quotas) == 1
        read_quotas.clear()
