"""Objects that cost much: what has been found, each as a review. The search adds to them by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Obj = dict[str, Any]

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
RESOURCES: Final[Mapping[str, tuple[str, str]]] = {
    "Pod": ("", "pods"),
    "Namespace": ("", "namespaces"),
    "ResourceQuota": ("", "resourcequotas"),
    "LimitRange": ("", "limitranges"),
    "ReplicationController": ("", "replicationcontrollers"),
    "PriorityClass": ("scheduling.k8s.io", "priorityclasses"),
    "Deployment": ("apps", "deployments"),
    "StatefulSet": ("apps", "statefulsets"),
    "DaemonSet": ("apps", "daemonsets"),
    "ReplicaSet": ("apps", "replicasets"),
    "Job": ("batch", "jobs"),
    "CronJob": ("batch", "cronjobs"),
    "Scale": ("apps", "deployments"),
}
"""Kind -> the group and plural of its resource."""
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
HUGE: Final = 2_000_000_000


def review(obj: Obj | None, operation: str = "CREATE", old: Obj | None = None, subresource: str = "") -> Obj:
    """An AdmissionReview."""
    about = obj or old or {}
    group, plural = RESOURCES[about["kind"]]
    version = about["apiVersion"].rpartition("/")[2]
    kind = {"group": about["apiVersion"].rpartition("/")[0], "version": version, "kind": about["kind"]}
    metadata = about.get("metadata") or {}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": kind,
        "resource": {"group": group, "version": version, "resource": plural},
        "subResource": subresource,
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "operation": operation,
        "userInfo": {"username": "kim", "groups": ["developers"]},
        "object": obj,
        "oldObject": old,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def pod(**spec: Any) -> Obj:
    """A pod that fits nowhere without preemption."""
    requests = {"cpu": "6", "memory": "24Gi"}
    containers = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
    labels = {"app": "app-1", "a": "b"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team-1", "labels": labels},
        "spec": {"priorityClassName": "gold", "containers": containers, **spec},
    }


def workload(kind: str = "Deployment", template: Obj | None = None, **spec: Any) -> Obj:
    """A workload of such pods, by default."""
    made = template or pod()
    inner = {"metadata": made["metadata"], "spec": made["spec"]}
    group = {"Job": "batch/v1", "CronJob": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1")
    selector: Obj = {"app": "app-1"} if kind == "ReplicationController" else {"matchLabels": {"app": "app-1"}}
    whole = {"selector": selector, "template": inner, **spec}
    if kind == "CronJob":
        whole = {"jobTemplate": {"spec": whole}}
    metadata = {"name": "w", "namespace": "team-1"}
    return {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": whole}


def small(**spec: Any) -> Obj:
    """A pod that fits on many nodes."""
    made = pod(**spec)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1m", "memory": "1Mi"}}
    return made


def affinity(terms: list[Obj], kind: str = "podAffinity", how: str = REQUIRED) -> Obj:
    """`spec.affinity`."""
    return {kind: {how: terms}}


def term(number: int, key: str = HOSTNAME, **more: Any) -> Obj:
    """A pod affinity term that matches pods of all kinds there are."""
    selector = {"matchExpressions": [{"key": f"k{number}", "operator": "DoesNotExist"}]}
    return {"topologyKey": key, "labelSelector": selector, "namespaceSelector": {}, **more}


def weighted(terms: list[Obj]) -> list[Obj]:
    """The same as preferences."""
    return [{"weight": 5, "podAffinityTerm": each} for each in terms]


def spread(count: int, when: str = "DoNotSchedule", **more: Any) -> list[Obj]:
    """`spec.topologySpreadConstraints`."""
    selector = {"matchExpressions": [{"key": "nobody", "operator": "DoesNotExist"}]}
    about = {"maxSkew": 1, "whenUnsatisfiable": when, "labelSelector": selector, **more}
    return [{**about, "topologyKey": HOSTNAME if number % 2 else ZONE} for number in range(count)]


def node_terms(count: int, values: int = 1) -> Obj:
    """Node affinity that matches no node."""
    names = [f"v{number}" for number in range(values)]
    terms = [
        {"matchExpressions": [{"key": f"k{number}", "operator": "In", "values": names}]} for number in range(count)
    ]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


def resources(count: int, amount: str = "1") -> Obj:
    """Extended resources."""
    return {f"example.com/r{number}": amount for number in range(count)}


def asking(requests: Obj, **spec: Any) -> Obj:
    """A pod with these requests."""
    made = pod(**spec)
    made["spec"]["containers"][0]["resources"] = {"requests": requests, "limits": requests}
    return made


def quota(hard: Obj | None = None, **spec: Any) -> Obj:
    """A ResourceQuota."""
    metadata = {"name": "q", "namespace": "team-1"}
    whole = {"hard": hard or {"pods": "5"}, **spec}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": whole}


def scoped(values: list[str], operator: str = "In") -> Obj:
    """The scopeSelector of a quota by class."""
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    return {"scopeSelector": {"matchExpressions": [expression]}}


def _unfit_selectors() -> Obj:
    """Each resource that a scope does not go with is a fault, whose text shows all expressions."""
    expressions = [
        {"scopeName": scope, "operator": "In", "values": [f"{number}-{'v' * 300}" for number in range(32)]}
        for scope in ("BestEffort", "PriorityClass", "Terminating")
        for _ in range(16)
    ]
    hard = {f"count/things-{number}.example.com": "1" for number in range(48)}
    return quota(hard, scopeSelector={"matchExpressions": expressions})


def priority_class(name: str = "silver", **fields: Any) -> Obj:
    """A PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 1000,
        **fields,
    }


def scale(replicas: int) -> Obj:
    """A request for `deployments/scale`: of a Deployment that is there."""
    obj = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "stored", "namespace": "team-1"},
        "spec": {"replicas": replicas},
    }
    return review(obj, "UPDATE", {**obj, "spec": {"replicas": 1}}, "scale")


def changed(obj: Obj, **old: Any) -> Obj:
    """An UPDATE of a workload whose spec had these values."""
    return review(obj, "UPDATE", {**obj, "spec": {**obj["spec"], **old}})


STORED: Final = {**workload(replicas=1, template=small()), "metadata": {"name": "stored", "namespace": "team-1"}}
"""A Deployment of the cluster that attacks meet."""

_PORTS = range(1, 102)
_MANY_EXPRESSIONS = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(10_000)]

ATTACKS: Final[Mapping[str, Callable[[], Obj]]] = {
    # counts
    "Deployment of 2,000,000,000": lambda: review(workload(replicas=HUGE)),
    "Deployment of 2,000,000,000 small pods": lambda: review(workload(template=small(), replicas=HUGE)),
    "Deployment of 500,000 pods that ask for nothing": lambda: review(
        workload(template=pod(containers=[{"name": "c", "image": "i"}]), replicas=500_000)
    ),
    "Deployment scaled to 2,000,000,000": lambda: scale(HUGE),
    "Deployment changed to 2,000,000,000": lambda: changed(workload(replicas=HUGE), replicas=1),
    "StatefulSet of 2,000,000,000": lambda: review(workload("StatefulSet", replicas=HUGE)),
    "StatefulSet of 2,000,000,000 with claims": lambda: review(
        workload(
            "StatefulSet", replicas=HUGE, volumeClaimTemplates=[{"metadata": {"name": f"v{n}"}} for n in range(99)]
        )
    ),
    "StatefulSet that starts at the last number": lambda: review(
        workload("StatefulSet", replicas=HUGE, ordinals={"start": 2**31 - 1})
    ),
    "ReplicaSet of 2,000,000,000 with ephemeral volumes": lambda: review(
        workload("ReplicaSet", pod(volumes=[{"name": f"v{n}", "ephemeral": {}} for n in range(99)]), replicas=HUGE)
    ),
    "ReplicationController of 2,000,000,000": lambda: review(workload("ReplicationController", replicas=HUGE)),
    "Job of 2,000,000,000": lambda: review(workload("Job", parallelism=HUGE, completions=HUGE)),
    "CronJob of 2,000,000,000": lambda: review(workload("CronJob", parallelism=HUGE)),
    "maxSurge of 2,000,000,000": lambda: changed(
        workload(replicas=HUGE, strategy={"rollingUpdate": {"maxSurge": HUGE}}), template={}
    ),
    "maxSurge of a thousand digits": lambda: review(
        workload(replicas=HUGE, strategy={"rollingUpdate": {"maxSurge": "9" * 5000 + "%"}})
    ),
    "DaemonSet on every node": lambda: review(workload("DaemonSet")),
    "DaemonSet that asks for nothing of 60 resources": lambda: review(
        workload("DaemonSet", asking({**resources(60, "0"), "cpu": "6", "memory": "24Gi"}))
    ),
    "DaemonSet with status": lambda: review(
        {**workload("DaemonSet"), "status": {"currentNumberScheduled": HUGE}},
        "UPDATE",
        {**workload("DaemonSet"), "status": {"currentNumberScheduled": HUGE}, "spec": {}},
    ),
    # one pod
    "100 pod affinity terms": lambda: review(pod(affinity=affinity([term(n) for n in range(100)]))),
    "10,000 pod affinity terms": lambda: review(pod(affinity=affinity([term(n) for n in range(10_000)]))),
    "100 pod affinity terms that nobody matches": lambda: review(
        pod(affinity=affinity([{**term(n), "labelSelector": {"matchLabels": {"a": "x"}}} for n in range(100)]))
    ),
    "10,000 node affinity terms": lambda: review(pod(affinity=node_terms(10_000))),
    "10,000 node affinity terms of a DaemonSet": lambda: review(
        workload("DaemonSet", pod(affinity=node_terms(10_000)))
    ),
    "one node affinity term of 10,000 expressions": lambda: review(
        pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": _MANY_EXPRESSIONS}]}}})
    ),
    "10,000 preferred node terms": lambda: review(
        small(
            affinity={
                "nodeAffinity": {
                    PREFERRED: [
                        {"weight": 1, "preference": {"matchExpressions": [_MANY_EXPRESSIONS[n]]}} for n in range(10_000)
                    ]
                }
            }
        )
    ),
    "node affinity with 100,000 values": lambda: review(pod(affinity=node_terms(1, 100_000))),
    "node affinity with a number of 5,000 digits": lambda: review(
        pod(
            affinity={
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["9" * 5000]}]}
                        ]
                    }
                }
            }
        )
    ),
    "100 ports of every node": lambda: review(
        workload(
            template=pod(
                containers=[{"name": "c", "image": "i", "ports": [{"containerPort": n, "hostPort": n} for n in _PORTS]}]
            ),
            replicas=HUGE,
        )
    ),
    "1,000 anti-affinity terms": lambda: review(
        pod(affinity=affinity([term(n) for n in range(1000)], "podAntiAffinity"))
    ),
    "1,000 anti-affinity terms on 1,000 topologies": lambda: review(
        pod(affinity=affinity([term(n, f"topology-{n}") for n in range(1000)], "podAntiAffinity"))
    ),
    "20 anti-affinity terms and one of affinity": lambda: review(
        pod(
            affinity={
                **affinity([term(n) for n in range(20)], "podAntiAffinity"),
                **affinity([{**term(0), "labelSelector": {}}]),
            }
        )
    ),
    "1,000 preferred affinity terms": lambda: review(
        workload(template=small(affinity=affinity(weighted([term(n) for n in range(1000)]), how=PREFERRED)), replicas=2)
    ),
    "anti-affinity of 10,000 expressions": lambda: review(
        pod(
            affinity=affinity(
                [{**term(0), "labelSelector": {"matchExpressions": _MANY_EXPRESSIONS}}], "podAntiAffinity"
            )
        )
    ),
    "1,000 namespace selectors": lambda: review(
        pod(
            affinity=affinity(
                [
                    term(n, namespaceSelector={"matchExpressions": [{"key": f"k{n}", "operator": "DoesNotExist"}]})
                    for n in range(1000)
                ]
            )
        )
    ),
    "200 spread constraints": lambda: review(pod(topologySpreadConstraints=spread(200))),
    "200 spread constraints of 2 pods": lambda: review(
        workload(template=small(topologySpreadConstraints=spread(200)), replicas=2)
    ),
    "200 spread constraints that score": lambda: review(
        workload(template=small(topologySpreadConstraints=spread(200, "ScheduleAnyway")), replicas=10)
    ),
    "200 spread constraints and affinity": lambda: review(
        pod(topologySpreadConstraints=spread(200), affinity=affinity([{**term(0), "labelSelector": {}}]))
    ),
    "10,000 spread constraints": lambda: review(pod(topologySpreadConstraints=spread(10_000))),
    "20,000 extended resources": lambda: review(asking(resources(20_000))),
    "20,000 extended resources and affinity": lambda: review(
        asking(resources(20_000), affinity=affinity([{**term(0), "labelSelector": {}}]))
    ),
    "100 extended resources and affinity": lambda: review(
        asking(resources(100), affinity=affinity([{**term(0), "labelSelector": {}}]))
    ),
    "1,000 containers of 30 resources each": lambda: review(
        pod(
            containers=[
                {
                    "name": f"c{n}",
                    "image": "i",
                    "resources": {"requests": {f"example.com/r{n}-{k}": "1" for k in range(30)}},
                }
                for n in range(1000)
            ]
        )
    ),
    "1,000 init containers of 30 resources each": lambda: review(
        pod(
            initContainers=[
                {
                    "name": f"c{n}",
                    "image": "i",
                    "restartPolicy": "Always",
                    "resources": {"requests": {f"example.com/r{n}-{k}": "1" for k in range(30)}},
                }
                for n in range(1000)
            ]
        )
    ),
    "20,000 containers": lambda: review(pod(containers=[{"name": f"c{n}", "image": "i"} for n in range(20_000)])),
    "30,000 tolerations": lambda: review(
        pod(tolerations=[{"key": f"k{n}", "operator": "Exists"} for n in range(30_000)])
    ),
    "30,000 host ports": lambda: review(
        pod(
            containers=[
                {
                    "name": "c",
                    "image": "i",
                    "ports": [{"containerPort": n + 1, "hostPort": n + 1} for n in range(30_000)],
                }
            ]
        )
    ),
    "10,000 disks": lambda: review(
        pod(volumes=[{"name": f"v{n}", "gcePersistentDisk": {"pdName": f"d{n}"}} for n in range(10_000)])
    ),
    "10,000 claims": lambda: review(
        pod(volumes=[{"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"d{n}"}} for n in range(10_000)])
    ),
    "20,000 labels": lambda: review(
        {**pod(), "metadata": {**pod()["metadata"], "labels": {f"k{n}": "v" for n in range(20_000)}}}
    ),
    "10,000 requirements in the selector": lambda: review(
        workload(selector={"matchExpressions": _MANY_EXPRESSIONS}, replicas=3)
    ),
    "node selector of 20,000 labels": lambda: review(pod(nodeSelector={f"k{n}": "v" for n in range(20_000)})),
    # as much as is gone through
    "32 pod affinity terms": lambda: review(pod(affinity=affinity([term(n) for n in range(32)]))),
    "32 pod affinity terms that match the last label": lambda: review(
        pod(affinity=affinity([{**term(n), "labelSelector": {"matchLabels": {"app": "x"}}} for n in range(32)]))
    ),
    "32 anti-affinity terms": lambda: review(pod(affinity=affinity([term(n) for n in range(32)], "podAntiAffinity"))),
    "32 anti-affinity terms on 32 topologies": lambda: review(
        pod(affinity=affinity([term(n, f"topology-{n}") for n in range(32)], "podAntiAffinity"))
    ),
    "31 anti-affinity terms and one of affinity": lambda: review(
        pod(
            affinity={
                **affinity([term(n, ZONE if n % 2 else HOSTNAME) for n in range(31)], "podAntiAffinity"),
                **affinity([{**term(0), "labelSelector": {}}]),
            }
        )
    ),
    "32 namespace selectors of 60 conditions": lambda: review(
        pod(
            affinity=affinity(
                [term(n, namespaceSelector={"matchExpressions": _MANY_EXPRESSIONS[:60]}) for n in range(32)]
            )
        )
    ),
    "anti-affinity of 1,900 conditions": lambda: review(
        pod(
            affinity=affinity(
                [{**term(0), "labelSelector": {"matchExpressions": _MANY_EXPRESSIONS[:1900]}}], "podAntiAffinity"
            )
        )
    ),
    "affinity of 1,900 conditions": lambda: review(
        pod(affinity=affinity([{**term(0), "labelSelector": {"matchExpressions": _MANY_EXPRESSIONS[:1900]}}]))
    ),
    "32 preferred terms for 5 pods": lambda: review(
        workload(template=small(affinity=affinity(weighted([term(n) for n in range(32)]), how=PREFERRED)), replicas=5)
    ),
    "500 node affinity terms": lambda: review(pod(affinity=node_terms(500))),
    "500 node affinity terms of a DaemonSet": lambda: review(workload("DaemonSet", pod(affinity=node_terms(500)))),
    "500 preferred node terms for 5 pods": lambda: review(
        workload(
            template=small(
                affinity={
                    "nodeAffinity": {
                        PREFERRED: [
                            {"weight": 1, "preference": {"matchExpressions": [_MANY_EXPRESSIONS[n]]}}
                            for n in range(500)
                        ]
                    }
                },
                topologySpreadConstraints=spread(1),
            ),
            replicas=5,
        )
    ),
    "16 spread constraints": lambda: review(pod(topologySpreadConstraints=spread(16))),
    "16 spread constraints of 2,000 pods": lambda: review(
        workload(template=small(topologySpreadConstraints=spread(16)), replicas=2000)
    ),
    "16 spread constraints that score, of 10 pods": lambda: review(
        workload(template=small(topologySpreadConstraints=spread(16, "ScheduleAnyway")), replicas=10)
    ),
    "spread over zone and host, of 2,000,000,000 pods": lambda: review(
        workload(template=small(topologySpreadConstraints=spread(2)), replicas=HUGE)
    ),
    "16 spread constraints and affinity": lambda: review(
        pod(topologySpreadConstraints=spread(16), affinity=affinity([{**term(0), "labelSelector": {}}]))
    ),
    "64 resources and affinity": lambda: review(
        asking(resources(62), affinity=affinity([{**term(0), "labelSelector": {}}]))
    ),
    "64 resources of a DaemonSet": lambda: review(workload("DaemonSet", asking(resources(64)))),
    "500 tolerations": lambda: review(pod(tolerations=[{"key": f"k{n}", "operator": "Exists"} for n in range(480)])),
    "500 host ports": lambda: review(
        pod(
            containers=[
                {"name": "c", "image": "i", "ports": [{"containerPort": n, "hostPort": n} for n in range(1, 501)]}
            ]
        )
    ),
    "500 disks": lambda: review(
        pod(volumes=[{"name": f"v{n}", "gcePersistentDisk": {"pdName": f"d{n}"}} for n in range(500)])
    ),
    "2,000 amounts": lambda: review(
        pod(
            containers=[
                {"name": f"c{n}", "image": "i", "resources": {"requests": resources(4, "1")}} for n in range(500)
            ]
        )
    ),
    "2,000 classes in a quota's scope": lambda: review(quota(**scoped([f"class-{n}x" for n in range(2000)]))),
    "100 expressions of 20 classes": lambda: review(
        quota(
            scopeSelector={
                "matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "NotIn", "values": [f"c{n}-{k}" for k in range(20)]}
                    for n in range(100)
                ]
            }
        )
    ),
    "a quota of 49 long selectors that its resources do not go with": lambda: review(_unfit_selectors()),
    "500 resources in a quota": lambda: review(quota({f"requests.example.com/r{n}": "1" for n in range(500)})),
    # numbers
    "a quantity of a million zeros": lambda: review(asking({"cpu": "0" * 1_000_000 + "!"})),
    "a quantity of a million digits": lambda: review(asking({"cpu": "9" * 1_000_000})),
    "a huge exponent": lambda: review(asking({"cpu": "1e999999999"})),
    "quantities of 999 digits": lambda: review(asking(resources(2500, "9" * 990))),
    # names
    "a class of a million letters": lambda: review(pod(priorityClassName="g" * 1_000_000)),
    "a namespace's default class of a million letters": lambda: review(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": "team-1",
                "annotations": {"forewarn.dev/default-priority-class": "golf" * 250_000},
            },
        }
    ),
    # quotas
    "100,000 classes in a quota's scope": lambda: review(quota(**scoped([f"class-{n}" for n in range(100_000)]))),
    "100,000 classes that are no labels": lambda: review(quota(**scoped([f"class_{n}!" for n in range(100_000)]))),
    "30,000 expressions in a quota's scope": lambda: review(
        quota(
            scopeSelector={
                "matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "In", "values": [f"c{n}"]} for n in range(30_000)
                ]
            }
        )
    ),
    "30,000 scopes of 1,000 resources": lambda: review(
        quota({f"count/r{n}": "1" for n in range(1000)}, scopes=["BestEffort", "Terminating"] * 15_000)
    ),
    "3,000 scopes in expressions, of 3,000 resources": lambda: review(
        quota(
            {f"requests.example.com/r{n}": "1" for n in range(3000)},
            scopeSelector={
                "matchExpressions": [{"scopeName": "BestEffort", "operator": "Exists"} for _ in range(3000)]
            },
        )
    ),
    "50,000 resources in a quota": lambda: review(quota({f"requests.example.com/r{n}": "1" for n in range(50_000)})),
    "50,000 wrong resources in a quota": lambda: review(quota({f"r {n}": "-1" for n in range(50_000)})),
    # others
    "a LimitRange of 20,000 entries": lambda: review(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "l", "namespace": "team-1"},
            "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}} for _ in range(20_000)]},
        }
    ),
    "a PriorityClass with a megabyte of description": lambda: review(priority_class(description="x" * 1_000_000)),
    "a PriorityClass with a name of a megabyte": lambda: review(priority_class("x" * 1_000_000)),
    "a megabyte of nested lists": lambda: review({**pod(), "status": [[] for _ in range(400_000)]}),
}
