"""Random objects of the kinds whose validation forewarn has, many of them with one or two faults.

The shapes have the fields that upstream's validation functions read (pkg/apis/*/validation); of Pods, those that
`policies/kubernetes/kube_apiserver/validation/` lists as validated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.e2e.api import identity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from tests.e2e.api import Obj


class Leaf(NamedTuple):
    """A field with plain values. `bad`: values that kube-apiserver may reject; other fields can make them valid."""

    good: tuple[Any, ...]
    bad: tuple[Any, ...] = ()


class Struct(NamedTuple):
    """An object; a name that ends with `!` is a field that it always has."""

    fields: Mapping[str, Part]
    agree: Callable[[Random, Obj], None] | None = None
    """Makes fields agree that are chosen independently."""


class Many(NamedTuple):
    """A list of up to `most` items."""

    item: Part
    most: int = 2


Part = Leaf | Struct | Many

_BAD_NAMES: Final = ("", "Bad", "a..b", "-a", "a_b", "x" * 254, "a.b", "1", "a" * 63, "a" * 64, "a/b", ".", "%")
_BAD_KEYS: Final = ("", "-a", "a/b/c", "example.com/", "/a", "x" * 64, "Ex.com/a", "a b", "ä")
_BAD_VALUES: Final = ("-", "a" * 64, "a b", "a/b", "ä", "a.")
_NAMES: Final = Leaf(("a", "web", "a.b", "web-1"), _BAD_NAMES)
_LABELS: Final = Leaf(
    ({"app": "web"}, {"app": "web", "tier": ""}, {"app": "web", "example.com/a": "B_c.d"}),
    (
        *({key: "web"} for key in _BAD_KEYS),
        *({"app": value} for value in (*_BAD_VALUES, None, 1, True)),
        {},
        {"app": "other"},
        {"job-name": "other"},
        {"controller-uid": "other"},
        {"batch.kubernetes.io/job-name": "validated"},
    ),
)
_ANNOTATIONS: Final = Leaf(
    ({"a": "b"}, {"example.com/A": ""}, {"controller.kubernetes.io/pod-deletion-cost": "-5"}),
    (
        *({key: ""} for key in _BAD_KEYS),
        {"a": None},
        {"a": 1},
        *(
            {"controller.kubernetes.io/pod-deletion-cost": cost}
            for cost in ("a", "", "+1", "01", "2147483648", "0", "-0")
        ),
        {"kubernetes.io/config.mirror": "a"},
        {"big": "x" * 270_000},
    ),
)
_COUNTS: Final = Leaf((0, 1, 2, 5), (-1, -(2**31), 2**31, "3", 1.5, True))
_LONGS: Final = Leaf((0, 1, 30, 2**40), (-1, 2**63, "3", 1.5))
_FLAGS: Final = Leaf((True, False), ("yes", 1))
_AMOUNTS: Final = Leaf(
    (0, 1, 3, "25%", "100%", "0%"), (-1, "1", "101%", "-5%", "5.5%", "%", "", "00%", "0000000000150%", True, 2**31)
)


def _one_of(*good: str) -> Leaf:
    return Leaf(good, ("", good[0].lower(), "Nonsense", 1))


def _as_operator(random: Random, requirement: Obj) -> None:
    """Give a requirement the values that its operator takes."""
    operator = requirement["operator"]
    if operator in ("Exists", "DoesNotExist"):
        requirement.pop("values", None)
    else:
        requirement["values"] = [random.choice(("1", "5"))]


def _as_toleration(random: Random, toleration: Obj) -> None:
    if "key" not in toleration:
        toleration["operator"] = "Exists"
    if toleration.get("operator") == "Exists":
        toleration.pop("value", None)
    if "tolerationSeconds" in toleration:
        toleration["effect"] = "NoExecute"


def _one_source(random: Random, metric: Obj) -> None:
    """Give a metric the source of its type, with the target that it takes."""
    source = metric["type"][0].lower() + metric["type"][1:]
    for name in {*metric} - {"type", source}:
        del metric[name]
    if source not in metric:
        metric["type"], metric["resource"] = "Resource", {"name": "cpu", "target": {"type": "Utilization"}}
    target = metric[source if source in metric else "resource"]["target"]
    for name in ("averageUtilization", "averageValue", "value"):
        target.pop(name, None)
    name = "averageUtilization" if metric["type"].endswith("Resource") and random.random() < 0.5 else "averageValue"
    target[name] = 50 if name == "averageUtilization" else "5"


def _one_condition(random: Random, rule: Obj) -> None:
    rule.pop("onExitCodes" if "onPodConditions" in rule else "onPodConditions", None)
    if len(rule) == 1:
        rule["onPodConditions"] = [{"type": "DisruptionTarget"}]


def _as_job(random: Random, spec: Obj) -> None:
    """Make the fields of most Jobs agree."""
    if random.random() < 0.2:
        return
    if spec.get("completionMode") != "Indexed":
        for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            spec.pop(name, None)
    else:
        spec["completions"] = 5
    if "maxFailedIndexes" in spec:
        spec["backoffLimitPerIndex"] = 1
    if "podFailurePolicy" in spec:
        spec["template"]["spec"]["restartPolicy"] = "Never"
        spec["podReplacementPolicy"] = "Failed"


def _as_strategy(random: Random, strategy: Obj) -> None:
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        strategy.pop("rollingUpdate", None)
    if (rolling := strategy.get("rollingUpdate")) and random.random() < 0.7:
        rolling["maxUnavailable" if "maxUnavailable" in rolling else "maxSurge"] = random.choice((1, "10%"))
        if "maxSurge" in rolling and "maxUnavailable" in rolling:
            rolling.pop("maxSurge")


def _with_selector(random: Random, term: Obj) -> None:
    """Give the keys of labels a selector, and the minimum of domains its whenUnsatisfiable."""
    if random.random() < 0.9 and term.keys() & {"matchLabelKeys", "mismatchLabelKeys"}:
        term.setdefault("labelSelector", {})
    if "minDomains" in term:
        term["whenUnsatisfiable"] = "DoNotSchedule"


def _one_amount(random: Random, spec: Obj) -> None:
    if "minAvailable" in spec:
        spec.pop("maxUnavailable", None)


_REQUIREMENT: Final = Struct(
    {
        "key!": Leaf(("app", "example.com/a"), _BAD_KEYS),
        "operator!": Leaf(("In", "NotIn", "Exists", "DoesNotExist"), ("", "Gt", "in", "Equals")),
        "values": Leaf((["web"], ["a", "b"], ["web", ""]), ([], [None], ["-"], ["a" * 64], "web", [1])),
    },
    _as_operator,
)
_SELECTOR: Final = Struct({"matchLabels": _LABELS, "matchExpressions": Many(_REQUIREMENT)})
_OWN_SELECTOR: Final = Struct(
    {
        "matchLabels!": Leaf(({"app": "web"},), _LABELS.bad),
        "matchExpressions": Leaf(
            ([{"key": "app", "operator": "Exists"}], [{"key": "app", "operator": "In", "values": ["a", "web"]}]),
            (
                [{"key": "app", "operator": "NotIn", "values": ["web"]}],
                [{"key": "-", "operator": "Exists"}],
                [{}],
                [None],
            ),
        ),
    }
)

_TOLERATION: Final = Struct(
    {
        "key": Leaf(("a", "example.com/a"), _BAD_KEYS),
        "operator": Leaf(("Exists", "Equal", ""), ("exists", "Lt", "Gt", "In")),
        "value": Leaf(("", "a"), (*_BAD_VALUES, "5", "-5", "05", "9223372036854775808")),
        "effect": Leaf(("NoSchedule", "PreferNoSchedule", "NoExecute", ""), ("Nonsense", "noExecute")),
        "tolerationSeconds": _LONGS,
    },
    _as_toleration,
)
_NODE_REQUIREMENT: Final = Struct(
    {
        "key!": Leaf(("pool", "example.com/a"), _BAD_KEYS),
        "operator!": Leaf(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"), ("", "in", "Equals")),
        "values": Leaf((["a"], ["5"], ["a", "b"]), ([], [None], ["-"], ["a" * 64], ["5", "6"])),
    },
    _as_operator,
)
_NODE_FIELD: Final = Struct(
    {
        "key!": Leaf(("metadata.name",), ("metadata.namespace", "", "a")),
        "operator!": Leaf(("In", "NotIn"), ("Exists", "", "Gt")),
        "values!": Leaf((["a"],), ([], ["a", "b"], ["A_"], [""], None)),
    }
)
_NODE_TERM: Final = Struct({"matchExpressions": Many(_NODE_REQUIREMENT), "matchFields": Many(_NODE_FIELD, 1)})
_WEIGHT: Final = Leaf((1, 50, 100), (0, -1, 101, None, "5"))
_POD_TERM: Final = Struct(
    {
        "topologyKey!": Leaf(("kubernetes.io/hostname", "zone"), _BAD_KEYS),
        "labelSelector": _SELECTOR,
        "namespaceSelector": _SELECTOR,
        "namespaces": Leaf((["a"], ["a", "b"], []), (["A"], [""], ["a.b"], [None])),
        "matchLabelKeys": Leaf((["app"], ["x", "y"]), ([""], ["-a"], ["x", "x"], [])),
        "mismatchLabelKeys": Leaf((["tier"], ["z"]), ([""], ["-a"], ["app"], ["x"])),
    },
    _with_selector,
)
_AFFINITY_KINDS: Final = Struct(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": Many(_POD_TERM),
        "preferredDuringSchedulingIgnoredDuringExecution": Many(
            Struct({"weight!": _WEIGHT, "podAffinityTerm!": _POD_TERM})
        ),
    }
)
_AFFINITY: Final = Struct(
    {
        "nodeAffinity": Struct(
            {
                "requiredDuringSchedulingIgnoredDuringExecution": Struct({"nodeSelectorTerms!": Many(_NODE_TERM)}),
                "preferredDuringSchedulingIgnoredDuringExecution": Many(
                    Struct({"weight!": _WEIGHT, "preference!": _NODE_TERM})
                ),
            }
        ),
        "podAffinity": _AFFINITY_KINDS,
        "podAntiAffinity": _AFFINITY_KINDS,
    }
)
_SPREAD: Final = Struct(
    {
        "maxSkew!": Leaf((1, 5), (0, -1, None, "1")),
        "topologyKey!": Leaf(("zone", "region", "pool", "rack", "kubernetes.io/hostname"), ("", None, "a b")),
        "whenUnsatisfiable!": _one_of("DoNotSchedule", "ScheduleAnyway"),
        "labelSelector": _SELECTOR,
        "minDomains": Leaf((1, 3), (0, -1)),
        "nodeAffinityPolicy": _one_of("Honor", "Ignore"),
        "nodeTaintsPolicy": _one_of("Honor", "Ignore"),
        "matchLabelKeys": Leaf((["x"], ["x", "y"]), ([""], ["app"], ["x", "x"], [])),
    },
    _with_selector,
)
_SLEEPS: Final[tuple[Obj, ...]] = (
    {"preStop": {}},
    {"postStart": {"sleep": {"seconds": 31}}},
    {"preStop": {"sleep": {"seconds": -1}}, "postStart": {"sleep": {}}},
    {"preStop": {"sleep": {"seconds": "5"}}},
    {"preStop": {"sleep": {"seconds": 60}, "exec": {"command": ["a"]}}},
    {"preStop": {"grpc": {"port": 1}}},
    {"preStop": {"exec": {}}},
    {"preStop": {"httpGet": {"port": 0}}},
)
_C: Final[Obj] = {"name": "c", "image": "img"}
_EXEC: Final[Obj] = {"exec": {"command": ["a"]}}
_CONTAINERS: Final = Leaf(
    ([_C], [_C, {"name": "d", "image": "img"}], [{**_C, "lifecycle": {"preStop": {"sleep": {"seconds": 30}}}}]),
    (
        *([{**_C, "lifecycle": lifecycle}] for lifecycle in _SLEEPS),
        [{**_C, "readinessProbe": {**_EXEC, "terminationGracePeriodSeconds": 5}}],
        [{**_C, "livenessProbe": {**_EXEC, "terminationGracePeriodSeconds": 0}}],
        [{**_C, "startupProbe": {"sleep": {"seconds": 5}}}],
    ),
)
"""With lifecycle handlers and probes; the rest of containers is always valid."""
_STEP: Final[Obj] = {"name": "i", "image": "img"}
_INIT_CONTAINERS: Final = Leaf(
    ([_STEP], [{**_STEP, "restartPolicy": "Always", "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}]),
    (
        [{**_STEP, "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}],
        [{**_STEP, "lifecycle": {}}],
        [{**_STEP, "readinessProbe": {}, "livenessProbe": {"successThreshold": 2}}],
        [{**_STEP, "restartPolicy": "Always", "livenessProbe": {"successThreshold": 2}}],
        [{**_STEP, "restartPolicy": "Always", "lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}],
    ),
)
_POD_SPEC: Final[dict[str, Part]] = {
    "containers!": _CONTAINERS,
    "initContainers": _INIT_CONTAINERS,
    "restartPolicy": _one_of("Always", "OnFailure", "Never"),
    "tolerations": Many(_TOLERATION),
    "nodeSelector": _LABELS,
    "affinity": _AFFINITY,
    "topologySpreadConstraints": Many(_SPREAD),
    "schedulingGates": Many(Struct({"name!": Leaf((*"abcdef", "example.com/b"), _BAD_KEYS)})),
    "readinessGates": Many(Struct({"conditionType!": Leaf(("a", "example.com/b"), _BAD_KEYS)}), 1),
    "priorityClassName": _NAMES,
    "preemptionPolicy": _one_of("Never", "PreemptLowerPriority"),
    "priority": Leaf((0, 5, -5), (2**31, "5")),
    "terminationGracePeriodSeconds": _LONGS,
    "activeDeadlineSeconds": Leaf((1, 30), (0, -1, 2**31, "5")),
    "nodeName": _NAMES,
    "schedulerName": Leaf(("default-scheduler", "a"), ("", "Bad_", 5)),
    "runtimeClassName": _NAMES,
    "serviceAccountName": _NAMES,
    "hostname": Leaf(("a", "web-1"), _BAD_NAMES),
    "subdomain": Leaf(("a", "1"), _BAD_NAMES),
    "dnsPolicy": _one_of("ClusterFirst", "Default", "ClusterFirstWithHostNet"),
    "hostNetwork": _FLAGS,
    "overhead": Leaf(({"cpu": "1"}, {}), ({"cpu": "-1"}, {"gpu": "1"}, {"Bad_": "1"}, {"memory": "x"})),
}
_TEMPLATE_META: Final = Struct({"labels!": _LABELS, "annotations": _ANNOTATIONS})


def _template(**spec: Part) -> Struct:
    return Struct({"metadata!": _TEMPLATE_META, "spec!": Struct({**_POD_SPEC, **spec})})


_ALWAYS: Final = Leaf(("Always",), ("", "OnFailure", "Never", "always", None))
_RUNNING: Final = _template(restartPolicy=_ALWAYS, activeDeadlineSeconds=Leaf((None,), (5, 0)))
_DEADLINE: Final = Leaf((1, 30, 700), (0, -1, "5", 2**31))
_WORKLOAD: Final[dict[str, Part]] = {
    "selector!": _OWN_SELECTOR,
    "template!": _RUNNING,
    "replicas": _COUNTS,
    "minReadySeconds": Leaf((0, 10), (-1, 600, 700, "5")),
    "revisionHistoryLimit": _COUNTS,
}
_CLAIM_RETENTION: Final = Struct(
    {"whenDeleted": _one_of("Retain", "Delete"), "whenScaled": _one_of("Retain", "Delete")}
)
_EXIT_CODES: Final = Struct(
    {
        "operator!": Leaf(("In", "NotIn"), ("", "Exists")),
        "values!": Leaf(([1], [1, 2], [42, 137]), ([], [0], [2, 1], [1, 1], [*range(1, 300)], [None], ["1"])),
        "containerName": Leaf(("c",), ("", "missing")),
    }
)
_CONDITION: Final = Struct(
    {
        "type!": Leaf(("DisruptionTarget", "example.com/A"), _BAD_KEYS),
        "status": _one_of("True", "False", "Unknown"),
    }
)
_FAILURE_RULE: Final = Struct(
    {
        "action!": Leaf(("FailJob", "Ignore", "Count", "FailIndex"), ("", "Nonsense", "ignore")),
        "onExitCodes": _EXIT_CODES,
        "onPodConditions": Many(_CONDITION),
    },
    _one_condition,
)
_SUCCESS_RULE: Final = Struct(
    {
        "succeededIndexes": Leaf(
            ("0", "0,2", "0-2", "0-1,3"), ("", "a", "2,1", "0-9", "3-1", "1-2-3", "9", "-1", "1,")
        ),
        "succeededCount": Leaf((0, 1, 2), (-1, 9)),
    }
)
_JOB_SPEC: Final[dict[str, Part]] = {
    "template!": Struct(
        {
            "metadata": _TEMPLATE_META,
            "spec!": Struct(
                {**_POD_SPEC, "restartPolicy!": Leaf(("Never", "OnFailure", "Never"), ("", "Always", None, "never"))}
            ),
        }
    ),
    "parallelism": Leaf((0, 1, 5), (-1, 100_001, 10_001, "1")),
    "completions": Leaf((1, 5), (0, -1, 100_001, "1")),
    "completionMode": _one_of("Indexed", "NonIndexed"),
    "backoffLimit": _COUNTS,
    "activeDeadlineSeconds": _LONGS,
    "ttlSecondsAfterFinished": _COUNTS,
    "backoffLimitPerIndex": Leaf((0, 2), (-1,)),
    "maxFailedIndexes": Leaf((0, 2), (-1, 10, 10_001, 100_001)),
    "managedBy": Leaf(
        ("kubernetes.io/job-controller", "acme.io/a"),
        ("", "a", "/a", "a/", "A.io/b", "acme.io/" + "a" * 64, "acme.io/a?b", "acme.io/a/b"),
    ),
    "podFailurePolicy": Struct({"rules!": Many(_FAILURE_RULE)}),
    "successPolicy": Struct({"rules!": Many(_SUCCESS_RULE)}),
    "podReplacementPolicy": _one_of("Failed", "TerminatingOrFailed"),
    "suspend": _FLAGS,
    "manualSelector": Leaf((False, None), (True,)),
    "selector": Leaf(
        (None, None), ({}, {"matchLabels": {"app": "web"}}, {"matchExpressions": [{"key": "-", "operator": "In"}]})
    ),
}
_SCHEDULES: Final = Leaf(
    ("* * * * *", "*/5 0-6,12 1 jan mon-fri", "@hourly", "@every 1h30m", "0 0 ? * 0", "5/15 * * * *", "0 0 1 1 *"),
    (
        *("", " ", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *"),
        *("* * * * 7", "* * * * 6", "5-1 * * * *", "*/0 * * * *", "*/a * * * *", "1-2-3 * * * *", "1/2/3 * * * *"),
        *("@nonsense", "@every", "@every 5", "@every -5m", "@Hourly", "TZ=UTC * * * * *", "CRON_TZ=UTC 0 0 * * *"),
        *(
            "TZ=0",
            "-1 * * * *",
            ", * * * *",
            "1,,2 * * * *",
            "* * * foo *",
            "+1 * * * *",
            "*-5 * * * *",
            "*/70 * * * *",
        ),
        *(
            "*\t*  * * *",
            "a * * * *",
            "@weekly ",
            "@every 1d",
            "@every 1.5h",
            "JAN * * * *",
            "* * * JAN SUN",
            "01 * * * *",
        ),
    ),
)
_ZONES: Final = Leaf(
    ("Etc/UTC", "Europe/Berlin", "UTC", "America/New_York"),
    (
        "",
        "local",
        "Local",
        "Europe/Nowhere",
        "../etc",
        "a/-b",
        "A" * 15,
        "Europe/",
        "europe/berlin",
        "GMT+5",
        "./UTC",
        "Europe//Berlin",
    ),
)
_QUANTITY: Final = Leaf(("1", "500m", 5), ("0", "-1", "", "x", None))
_TARGET: Final = Struct(
    {
        "type!": Leaf(("Utilization", "Value", "AverageValue"), ("", "Nonsense")),
        "averageUtilization": Leaf((50, 100), (0, -1)),
        "averageValue": _QUANTITY,
        "value": _QUANTITY,
    }
)
_METRIC_ID: Final = Struct(
    {
        "name!": Leaf(("requests", "a"), ("", "a/b", "a%", "..", ".")),
        "selector": Leaf(({"matchLabels": {"a": "b"}},), ({"matchLabels": {"-": "b"}},)),
    }
)


def _reference(api_version: Leaf) -> Struct:
    return Struct(
        {
            "apiVersion!": api_version,
            "kind!": Leaf(("Deployment", "StatefulSet"), ("", "a/b", "ReplicationController", "%")),
            "name!": Leaf(("web",), ("", "a/b", "..", "A_b", "%")),
        }
    )


_API_VERSIONS: Final = ("", "v1", "a/b/c", "/v1", "apps/", "nonsense", "apps")
_METRIC: Final = Struct(
    {
        "type!": Leaf(("Resource", "Pods", "Object", "External", "ContainerResource"), ("", "resource", "Nonsense")),
        "resource": Struct({"name!": Leaf(("cpu",), ("", "nonsense")), "target!": _TARGET}),
        "pods": Struct({"metric!": _METRIC_ID, "target!": _TARGET}),
        "object": Struct(
            {
                "metric!": _METRIC_ID,
                "target!": _TARGET,
                "describedObject!": _reference(Leaf(("v1", "apps/v1", ""), _API_VERSIONS)),
            }
        ),
        "external": Struct({"metric!": _METRIC_ID, "target!": _TARGET}),
        "containerResource": Struct(
            {
                "name!": Leaf(("cpu", "memory"), ("", "nonsense", "example.com/a", "Bad_")),
                "container!": Leaf(("c",), ("", "C", "a.b")),
                "target!": _TARGET,
            }
        ),
    },
    _one_source,
)
_SCALING_POLICY: Final = Struct(
    {
        "type!": _one_of("Pods", "Percent"),
        "value!": Leaf((1, 100), (0, -1, None)),
        "periodSeconds!": Leaf((1, 60, 1800), (0, -1, 1801)),
    }
)
_SCALING: Final = Struct(
    {
        "stabilizationWindowSeconds": Leaf((0, 300, 3600), (-1, 3601)),
        "selectPolicy": _one_of("Max", "Min", "Disabled"),
        "policies": Many(_SCALING_POLICY),
        "tolerance": Leaf(("0.1", 0), ("-1", "x")),
    }
)
_SCALE_TARGET: Final = _reference(Leaf(("apps/v1",), _API_VERSIONS))
_REPLICAS: Final[dict[str, Part]] = {
    "minReplicas": Leaf((1, 2), (0, -1, 11, "1")),
    "maxReplicas!": Leaf((3, 10), (0, -1, 1, None, "3")),
    "scaleTargetRef!": _SCALE_TARGET,
}
_RESOURCE_NAMES: Final = (
    "cpu",
    "memory",
    "storage",
    "example.com/gpu",
    "hugepages-2Mi",
    "gpu",
    "Bad_",
    "example.com/",
    "pods",
)
_LIMITS: Final = Leaf(
    tuple({name: amount} for name in ("cpu", "memory") for amount in ("1", "2", "3", "1500m")),
    (
        *({name: "2"} for name in _RESOURCE_NAMES),
        {"cpu": "-1"},
        {"cpu": "0"},
        {"cpu": "1x"},
        {"storage": "1Gi"},
        {"example.com/gpu": "1"},
        {"example.com/gpu": "1.5"},
    ),
)
_LIMIT: Final = Struct(
    {
        "type!": Leaf(("Container", "Pod", "PersistentVolumeClaim"), ("", "container", "example.com/a", "-", "a/b/c")),
        "max": _LIMITS,
        "min": _LIMITS,
        "default": _LIMITS,
        "defaultRequest": _LIMITS,
        "maxLimitRequestRatio": _LIMITS,
    }
)
_SCOPES: Final = (
    "Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity",
    "VolumeAttributesClass", "Nonsense", "",
)  # fmt: skip
_HARD: Final = (
    "pods", "cpu", "requests.cpu", "limits.memory", "requests.storage", "count/pods", "count/deployments.apps", "gpu",
    "requests.example.com/gpu", "limits.example.com/gpu", "example.com/gpu", "services.loadbalancers", "Bad_",
    "storage", "gold.storageclass.storage.k8s.io/requests.storage", "hugepages-2Mi", "requests.hugepages-2Mi",
    "example.com/", "gold.deviceclass.resource.k8s.io/devices",
)  # fmt: skip
_SCOPE: Final = Struct(
    {
        "scopeName!": Leaf(("PriorityClass", "Terminating", "BestEffort"), _SCOPES),
        "operator!": Leaf(("In", "NotIn", "Exists", "DoesNotExist"), ("", "in")),
        "values": Leaf((["a"], ["a", "b"]), ([], [""], ["-"])),
    }
)
_EXPRESSION: Final = Leaf(("true", " true "), ("", " "))
"""Never of another type: a string is CEL, which forewarn does not compile."""
_RULE: Final = Struct(
    {
        "operations!": Leaf(
            (["CREATE"], ["*"], ["CREATE", "UPDATE"]), ([], ["*", "CREATE"], ["create"], [""], ["CREATE", "CREATE"])
        ),
        "apiGroups!": Leaf(([""], ["*"], ["apps"]), ([], ["*", "apps"], ["A_"])),
        "apiVersions!": Leaf((["v1"], ["*"]), ([], ["*", "v1"], [""])),
        "resources!": Leaf(
            (["pods"], ["*"], ["pods/*"], ["*/*"], ["pods", "pods/status"]),
            (
                [],
                [""],
                ["*", "pods"],
                ["pods", "*"],
                ["*/*", "pods"],
                ["pods/*", "pods/status"],
                ["*/scale", "pods/scale"],
                ["*", "pods/status"],
            ),
        ),
        "scope": _one_of("Namespaced", "Cluster", "*"),
    }
)
_WEBHOOK: Final[dict[str, Part]] = {
    "name!": Leaf(("a.example.com", "b.example.com"), ("", "a", "a.b", "A.b.c", "a.example.com", "a_.b.c")),
    "clientConfig!": Leaf(
        (
            {"service": {"name": "a", "namespace": "b"}},
            {"service": {"name": "a", "namespace": "b", "path": "/a/b", "port": 8443}},
            {"url": "https://example.com/a"},
        ),
        (
            {},
            {"url": "https://example.com/a", "service": {"name": "a", "namespace": "b"}},
            {"service": {"name": "", "namespace": "b"}},
            {"service": {"name": "a"}},
            *({"service": {"name": "a", "namespace": "b", "port": port}} for port in (0, -1, 65536)),
            *(
                {"service": {"name": "a", "namespace": "b", "path": path}}
                for path in ("", "/", "//", "a", "/a//b", "/A", "/a/", "/a_b", "/a//", "a/b", "///")
            ),
            *(
                {"url": url}
                for url in (
                    "",
                    "http://example.com",
                    "example.com",
                    "https://",
                    "https://a:b@example.com",
                    "https://example.com/#a",
                    "https://example.com/?a=b",
                    "https://example.com:port",
                    "https://[::1]/a",
                    "https://exa mple.com",
                    "https://example.com/%zz",
                )
            ),
        ),
    ),
    "rules": Many(_RULE),
    "failurePolicy": _one_of("Fail", "Ignore"),
    "matchPolicy": _one_of("Exact", "Equivalent"),
    "sideEffects!": Leaf(("None", "NoneOnDryRun"), ("", "Some", "Unknown", None, "none")),
    "timeoutSeconds": Leaf((1, 10, 30), (0, -1, 31, "5")),
    "namespaceSelector": _SELECTOR,
    "objectSelector": _SELECTOR,
    "admissionReviewVersions!": Leaf(
        (["v1"], ["v1", "v1beta1"]), ([], ["v2"], ["v1", "v1"], ["V1", "v1"], [""], ["v1", ""], None)
    ),
    "matchConditions": Many(Struct({"name!": Leaf(("a", "example.com/b"), _BAD_KEYS), "expression!": _EXPRESSION})),
}
_PDB_AMOUNT: Final = Leaf(
    (0, 1, "50%", "100%", "0%"), (-1, "1", "101%", "5.5%", "", "%", True, "0000000000150%", "-5%")
)


def _meta(name: Leaf) -> Struct:
    return Struct({"name!": name, "labels": _LABELS, "annotations": _ANNOTATIONS})


_DAEMON_LIMITS: Final = {"maxUnavailable": _AMOUNTS, "maxSurge": _AMOUNTS}
_NAMED: Final = Leaf(("validated",), (*_BAD_NAMES, "a" * 53, "a" * 52, "a" * 61))


def _kind(spec: Mapping[str, Part], agree: Callable[[Random, Obj], None] | None = None) -> Struct:
    return Struct({"metadata!": _meta(_NAMED), "spec!": Struct(spec, agree)})


SHAPES: Final[Mapping[str, Struct]] = {
    "PodDisruptionBudget": _kind(
        {
            "minAvailable": _PDB_AMOUNT,
            "maxUnavailable": _PDB_AMOUNT,
            "selector": _SELECTOR,
            "unhealthyPodEvictionPolicy": _one_of("AlwaysAllow", "IfHealthyBudget"),
        },
        _one_amount,
    ),
    "Deployment": _kind(
        {
            **_WORKLOAD,
            "progressDeadlineSeconds": _DEADLINE,
            "paused": _FLAGS,
            "strategy": Struct(
                {"type": _one_of("RollingUpdate", "Recreate"), "rollingUpdate": Struct(_DAEMON_LIMITS)}, _as_strategy
            ),
        }
    ),
    "DaemonSet": _kind(
        {
            **{name: part for name, part in _WORKLOAD.items() if name != "replicas"},
            "updateStrategy": Struct(
                {"type": _one_of("RollingUpdate", "OnDelete"), "rollingUpdate": Struct(_DAEMON_LIMITS)}, _as_strategy
            ),
        }
    ),
    "ReplicaSet": _kind({name: part for name, part in _WORKLOAD.items() if name != "revisionHistoryLimit"}),
    "ReplicationController": _kind(
        {
            "replicas": _COUNTS,
            "minReadySeconds": Leaf((0, 10), (-1, "5")),
            "selector": Leaf(({"app": "web"},), _LABELS.bad),
            "template!": _RUNNING,
        }
    ),
    "StatefulSet": _kind(
        {
            **_WORKLOAD,
            "serviceName": Leaf(("web", ""), ("Web", "a.b", "a" * 64, "1")),
            "podManagementPolicy": _one_of("OrderedReady", "Parallel"),
            "updateStrategy": Struct(
                {
                    "type": _one_of("RollingUpdate", "OnDelete"),
                    "rollingUpdate": Struct({"partition": _COUNTS, "maxUnavailable": _AMOUNTS}),
                },
                _as_strategy,
            ),
            "ordinals": Struct({"start": _COUNTS}),
            "persistentVolumeClaimRetentionPolicy": _CLAIM_RETENTION,
        }
    ),
    "Job": _kind(_JOB_SPEC, _as_job),
    "CronJob": _kind(
        {
            "schedule!": _SCHEDULES,
            "timeZone": _ZONES,
            "jobTemplate!": Struct({"metadata": _TEMPLATE_META, "spec!": Struct(_JOB_SPEC, _as_job)}),
            "concurrencyPolicy": _one_of("Allow", "Forbid", "Replace"),
            "startingDeadlineSeconds": _LONGS,
            "successfulJobsHistoryLimit": _COUNTS,
            "failedJobsHistoryLimit": _COUNTS,
            "suspend": _FLAGS,
        }
    ),
    "Pod": _kind(_POD_SPEC),
    "HorizontalPodAutoscaler": _kind(
        {
            **_REPLICAS,
            "metrics": Many(_METRIC),
            "behavior": Struct({"scaleUp": _SCALING, "scaleDown": _SCALING}),
        }
    ),
    "HorizontalPodAutoscaler v1": _kind({**_REPLICAS, "targetCPUUtilizationPercentage": Leaf((50,), (0, -1, "50"))}),
    "LimitRange": _kind({"limits!": Many(_LIMIT, 3)}),
    "ResourceQuota": _kind(
        {
            "hard": Leaf(
                ({"pods": "5"}, {"requests.cpu": "5", "limits.memory": "5Gi"}, {}),
                (*({name: "5"} for name in _HARD), {"pods": "1.5"}, {"pods": "-1"}, {"cpu": "x"}, {"pods": None}),
            ),
            "scopes": Leaf(
                (["BestEffort"], ["NotTerminating"], []),
                (*([scope] for scope in _SCOPES), ["BestEffort", "NotBestEffort"]),
            ),
            "scopeSelector": Struct({"matchExpressions": Many(_SCOPE)}),
        }
    ),
    "PriorityClass": Struct(
        {
            "metadata!": _meta(Leaf(("validated",), (*_BAD_NAMES, "system-mine", "system-node-critical"))),
            "value!": Leaf((0, 1000, -5, 1_000_000_000), (1_000_000_001, 2_000_001_000, 2**31, "5", None)),
            "globalDefault": _FLAGS,
            "preemptionPolicy": _one_of("Never", "PreemptLowerPriority"),
            "description": Leaf(("a", ""), (5,)),
        }
    ),
    "ValidatingWebhookConfiguration": Struct({"metadata!": _meta(_NAMED), "webhooks": Many(Struct(_WEBHOOK))}),
    "MutatingWebhookConfiguration": Struct(
        {
            "metadata!": _meta(_NAMED),
            "webhooks": Many(Struct({**_WEBHOOK, "reinvocationPolicy": _one_of("Never", "IfNeeded")})),
        }
    ),
}
"""Kind, with its version if it is not the newest -> shape of its objects."""
_CHANCE: Final = 0.25
"""How often an optional field is set."""
_OTHER_TYPES: Final[tuple[Any, ...]] = (None, "x", 5, [], {})


class _Slot(NamedTuple):
    """A place for a fault."""

    holder: Any
    key: Any
    part: Part


def random_object(random: Random, kind: str) -> Obj:
    """An object of one of SHAPES."""
    slots: list[_Slot] = []
    name, _, version = kind.partition(" ")
    made = {**identity(name, "validated"), **_value(random, SHAPES[kind], slots)}
    if version:
        made["apiVersion"] = f"{made['apiVersion'].partition('/')[0]}/{version}"
    for slot in random.sample(slots, random.choice((0, 0, 0, 1, 1, 1, 1, 2, 2, 5))):
        slot.holder[slot.key] = _fault(random, slot.part)
    if identity(name, "validated")["metadata"].get("namespace") and isinstance(made.get("metadata"), dict):
        made["metadata"]["namespace"] = "default"
    return made


def _value(random: Random, part: Part, slots: list[_Slot]) -> Any:
    if isinstance(part, Leaf):
        return random.choice(part.good)
    if isinstance(part, Many):
        many = [None] * random.randint(1, part.most)
        for index in range(len(many)):
            many[index] = _value(random, part.item, slots)
            slots.append(_Slot(many, index, part.item))
        return many
    made: dict[str, Any] = {}
    for name, inner in part.fields.items():
        key = name.removesuffix("!")
        if key != name or random.random() < _CHANCE:
            made[key] = _value(random, inner, slots)
        if inner != _CONTAINERS:
            slots.append(_Slot(made, key, inner))
    if part.agree:
        part.agree(random, made)
    return made


def _fault(random: Random, part: Part) -> Any:
    if isinstance(part, Leaf) and part.bad and (part is _EXPRESSION or random.random() < 0.98):
        return random.choice(part.bad)
    return random.choice(_OTHER_TYPES)
