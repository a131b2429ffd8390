"""Nobody is told by name what he may not read, whatever he sends and whatever is in the cluster."""

from __future__ import annotations

import base64
import json
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forewarn.policies.base.disclosure import Audience, Disclose
from forewarn.policies.base.findings import Action
from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.fields import at
from forewarn.policies.kubernetes.objects.patches import apply_patch
from forewarn.policies.kubernetes.options import AllowedClasses, LimitedResource, Promise, ScopeSelector
from forewarn.policies.kubernetes.selectors import PodPattern
from forewarn.policies.linting.config.model import Config, DiscloseTo
from forewarn.policies.linting.rules import RULES
from forewarn.policies.linting.rules.wording.impact import victims_text
from forewarn.webhook.admission.decide import decide
from forewarn.webhook.admission.decision import VISIBLE, Decision, unredacted
from forewarn.webhook.admission.endpoint import WarningLimiter
from forewarn.webhook.admission.impact_annotation import PATH
from forewarn.webhook.admission.prediction_access import ReviewContext, Time
from forewarn.webhook.admission.review import AdmissionCall, Hook, parse_review
from tests.cases import cases
from tests.webhook.builders import NOW, answer_now, cluster, endpoint, namespace, pod, priority_class, review
from tests.webhook.running import Running, running

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

OWN = "shop"
WORKLOADS = {
    "Deployment": ("apps/v1", "deployments"),
    "ReplicaSet": ("apps/v1", "replicasets"),
    "StatefulSet": ("apps/v1", "statefulsets"),
    "DaemonSet": ("apps/v1", "daemonsets"),
    "Job": ("batch/v1", "jobs"),
    "CronJob": ("batch/v1", "cronjobs"),
    "ReplicationController": ("v1", "replicationcontrollers"),
    "PodTemplate": ("v1", "podtemplates"),
    "Rollout": ("argoproj.io/v1alpha1", "rollouts"),
}
Obj = dict[str, Any]


class World(NamedTuple):
    """A cluster, a configuration and a request; `secrets`: names that must not be in any answer."""

    state: ClusterSnapshot
    config: Config
    review: Obj
    secrets: frozenset[str]


def _named(kind: str, version: str, name: str, space: str = "", **fields: Any) -> Obj:
    metadata = {"name": name, "uid": name, **({"namespace": space} if space else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def _pod_spec(cpu: str, class_name: str | None, **more: Any) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"containers": [container], **({"priorityClassName": class_name} if class_name else {}), **more}


class Tokens:
    """Names that nobody guesses, none of them a part of another."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, kind: str) -> str:
        self.made.append(f"{kind}-x{len(self.made):03}q7k")
        return self.made[-1]


@st.composite
def worlds(draw: Callable[..., Any]) -> World:
    """Any cluster with others in it, and any object of any kind that is judged."""
    token, hidden = Tokens(), draw(st.sampled_from([Disclose.OWN_NAMESPACE, Disclose.COUNTS]))
    classes = {token("class"): draw(st.integers(-20, 5)) * 100 for _ in range(draw(st.integers(1, 5)))}
    names = sorted(classes)
    default = draw(st.sampled_from([None, *names]))
    objects = [
        priority_class(
            name,
            value,
            globalDefault=name == default,
            preemptionPolicy=draw(st.sampled_from(["Never", "PreemptLowerPriority"])),
        )
        for name, value in classes.items()
    ]
    spaces = [OWN, *(token("space") for _ in range(draw(st.integers(1, 2))))]
    some_class = st.sampled_from([None, *names])
    for space in spaces:
        given_default = draw(some_class) if space != OWN else None
        objects.append(namespace(space, **({"default_priority_class": given_default} if given_default else {})))
    nodes = [token("node") for _ in range(draw(st.integers(0, 3)))]
    for name in nodes:
        taints = [{"key": token("taint"), "value": token("value"), "effect": "NoSchedule"}] * draw(st.integers(0, 1))
        labels = {"kubernetes.io/hostname": name, token("label"): token("value")}
        allocatable = {"cpu": str(draw(st.integers(1, 3))), "memory": "4Gi", "pods": "20"}
        node = _named("Node", "v1", name, spec={"taints": taints}, status={"allocatable": allocatable})
        node["metadata"]["labels"] = labels
        objects.append(node)
    carried: set[str] = set()
    for _ in range(draw(st.integers(0, 6)) if nodes else 0):
        space, name, on = draw(st.sampled_from(spaces)), draw(some_class), draw(st.sampled_from(nodes))
        spec = _pod_spec(draw(st.sampled_from(["500m", "1"])), name, nodeName=on)
        # a number of its own, or the class's as it was then
        spec["priority"] = draw(st.sampled_from([classes.get(name or "", 0), draw(st.integers(-3000, 0))]))
        made = _named("Pod", "v1", token("pod"), space, spec=spec, status={"phase": "Running"})
        made["metadata"]["labels"] = {"app": draw(st.sampled_from(["a", "b"]))}
        objects.append(made)
        carried |= {name} if name and space == OWN else set()
    for space in spaces[1:]:
        selector = {"matchLabels": {"app": "a"}}
        budget = {"spec": {"selector": selector}, "status": {"disruptionsAllowed": 0}}
        objects.append(_named("PodDisruptionBudget", "policy/v1", token("budget"), space, **budget))
        objects.append(_named("ResourceQuota", "v1", token("quota"), space, spec={"hard": {"pods": "1"}}))
        limits = [{"type": "Container", "defaultRequest": {"cpu": "1"}}]
        objects.append(_named("LimitRange", "v1", token("limits"), space, spec={"limits": limits}))
        objects.append(_named("Service", "v1", token("service"), space, spec={"selector": {"app": "web"}}))
        claim = {"accessModes": ["ReadWriteOnce"], "volumeName": token("volume"), "storageClassName": token("storage")}
        objects.append(_named("PersistentVolumeClaim", "v1", token("claim"), space, spec=claim))
        template = {"metadata": {"labels": {"app": "b"}}, "spec": _pod_spec("1", draw(some_class))}
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": "b"}}, "template": template}
        objects.append(_named("Deployment", "apps/v1", token("workload"), space, spec=spec))
    if draw(st.booleans()):
        hard = draw(st.sampled_from([{"pods": "1"}, {"pods": "1", "requests.memory": "1Gi"}]))
        status = {"hard": hard, "used": dict.fromkeys(hard, "0") | {"pods": "1"}}
        objects.append(_named("ResourceQuota", "v1", "own-quota", OWN, spec={"hard": hard}, status=status))
    scope = ScopeSelector(
        "PriorityClass", draw(st.sampled_from(["In", "NotIn"])), tuple(draw(st.permutations(names))[:3])
    )
    limited_resources = (LimitedResource("pods", match_scopes=(scope,)),) if draw(st.booleans()) else ()
    allowed = (AllowedClasses(tuple(names[:2]), namespaces=(spaces[1],)),) if draw(st.booleans()) else ()
    config = Config(disclose=hidden, actions=draw(st.sampled_from([{}, _all(Action.WARN), _all(Action.DENY)])))
    spared = draw(st.sampled_from([PodPattern(), PodPattern(spaces[1]), PodPattern(None, names[0])]))
    promises = (Promise(f"{spaces[1]} before {names[0]}", 1, spared, PodPattern()),)
    paths = {**POD_TEMPLATE_PATHS, "argoproj.io/Rollout": ("spec", "template")}
    options = config.options._replace(
        limited_resources=limited_resources, allowed_classes=allowed, pod_template_paths=paths
    )
    options = options._replace(promises=promises if draw(st.booleans()) else ())
    config = config._replace(options=options)
    asked = draw(requests(names))
    secrets = {made for made in token.made if made not in json.dumps(asked)} - {default}
    if hidden is Disclose.OWN_NAMESPACE:
        own = {obj["metadata"]["name"] for obj in objects if obj["metadata"].get("namespace") == OWN}
        secrets -= carried | own
    return World(cluster(*objects), config, asked, frozenset(secrets))


def _all(action: Action) -> dict[str, Action]:
    return {rule.ID: action for rule in RULES if rule.ACTION is not None}


@st.composite
def requests(draw: Callable[..., Any], names: list[str]) -> Obj:
    """Any request that is judged, of somebody in the namespace; it names classes, or nearly."""
    near = [f"{name[:-1]}y" for name in names] + [name[:-4] for name in names]
    class_name = draw(st.sampled_from([None, "no-such-class", "cl", "system-node-critical", *names, *near]))
    kind = draw(st.sampled_from(["Pod", "PriorityClass", "ResourceQuota", "Namespace", "Scale", *WORKLOADS]))
    operation = draw(
        st.sampled_from(["CREATE", "UPDATE", "DELETE"] if kind == "PriorityClass" else ["CREATE", "UPDATE"])
    )
    obj = _object(draw, kind, class_name)
    old = _object(draw, kind, draw(st.sampled_from([class_name, *names]))) if operation != "CREATE" else None
    version, resource = WORKLOADS.get(kind, (obj["apiVersion"], f"{kind.lower()}s"))
    group = version.rpartition("/")[0]
    given = {
        "uid": "u",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "resource": {"group": group, "version": "v1", "resource": resource},
        "name": obj["metadata"]["name"],
        "namespace": OWN if kind != "PriorityClass" else "",
        "operation": operation,
        "userInfo": {"username": "kim", "groups": ["developers"]},
        "object": None if operation == "DELETE" else obj,
        "oldObject": old,
    }
    if kind == "Scale":
        given |= {"subResource": "scale", "resource": {"group": "apps", "version": "v1", "resource": "deployments"}}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": given}


def _object(draw: Callable[..., Any], kind: str, class_name: str | None) -> Obj:
    cpu, replicas = draw(st.sampled_from(["0", "500m", "1", "2"])), draw(st.integers(0, 3))
    if kind == "PriorityClass":
        value, policy = (
            draw(st.integers(-3000, 3000)),
            draw(st.sampled_from(["Never", "PreemptLowerPriority", "never"])),
        )
        is_default = draw(st.booleans())
        return priority_class(class_name or "new", value, globalDefault=is_default, preemptionPolicy=policy)
    if kind == "ResourceQuota":
        operator = draw(st.sampled_from(["In", "NotIn", "Exists"]))
        values = [class_name] if class_name and operator != "Exists" else []
        scopes = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": values}]}
        hard = draw(st.sampled_from([{"pods": "1"}, {"services": "1"}]))
        return _named(kind, "v1", "mine", OWN, spec={"hard": hard, "scopeSelector": scopes})
    if kind == "Namespace":
        return namespace(OWN, **({"default_priority_class": class_name} if class_name else {}))
    if kind == "Scale":
        return _named(kind, "autoscaling/v1", "web", OWN, spec={"replicas": replicas})
    spec = _pod_spec(cpu, class_name)
    if kind == "Pod":
        number = draw(st.sampled_from([None, 0, 5000]))
        policy = {"priority": number, "preemptionPolicy": "PreemptLowerPriority"} if number is not None else {}
        return _named(kind, "v1", "web", OWN, spec={**spec, **policy})
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    if draw(st.booleans()):
        spec["priority"] = draw(st.integers(0, 5000))
    made = _named(kind, WORKLOADS[kind][0], "web", OWN)
    made["spec"] = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    if kind == "CronJob":
        made["spec"] = {"jobTemplate": {"spec": {"template": template}}}
    return {**made, "spec": {}, "template": template} if kind == "PodTemplate" else made


def _decided(world: World, hook: Hook) -> Decision:
    request = parse_review(json.dumps(world.review).encode())
    return decide(ReviewContext(request, hook, world.state, world.config, Time(NOW, lambda: False)))


def shown(decision: Decision) -> str:
    """All of an answer that whoever asked gets to see, and what is written on the object."""
    response = json.loads(decision.response.to_bytes())["response"]
    response.pop("auditAnnotations", None)
    patch = base64.b64decode(response.pop("patch", "")).decode()
    texts = [finding.as_shown.text for finding in decision.findings if finding.action in VISIBLE]
    spoken = [(text.message, text.fix, *text.shorter) for text in texts]
    return json.dumps(response, ensure_ascii=False) + patch + json.dumps(spoken, ensure_ascii=False)


HIDDEN = [Disclose.OWN_NAMESPACE, Disclose.COUNTS]


@given(worlds())
@settings(
    max_examples=cases(200), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_no_answer_names_what_the_requester_may_not_read(world: World) -> None:
    request = parse_review(json.dumps(world.review).encode())
    for hook in Hook:
        decision = _decided(world, hook)
        patience = WarningLimiter(lambda: 0.0)
        in_full_and_in_short = (patience.with_limited_warnings(request, decision, world.config) for _ in range(4))
        for text in (shown(decision), *map(shown, in_full_and_in_short)):
            assert [secret for secret in world.secrets if secret in text] == []


NODE = _named("Node", "v1", "node-7", status={"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "20"}})


def _running(name: str, space: str, priority: int) -> Obj:
    spec = _pod_spec("1", None, nodeName="node-7", priority=priority)
    return _named("Pod", "v1", name, space, spec=spec, status={"phase": "Running"})


STATE = cluster(NODE, _running("nightly", "payroll", 100), _running("report", OWN, 200))
STARVING = _named(
    "Pod", "v1", "web", OWN, spec=_pod_spec("2", "gold", priority=1000, preemptionPolicy="PreemptLowerPriority")
)


def _answer(obj: Obj, disclose: Disclose, state: ClusterSnapshot = STATE, **more: Any) -> Decision:
    config = more.pop("config", Config())._replace(disclose=disclose)
    given = more.pop("given", None) or review(obj, **more)
    return _decided(World(state, config, given, frozenset()), Hook.VALIDATE)


FULL = (
    "would preempt 2 Pods on node-7: shop/report, payroll/nightly (priority 100 to 200, not recreated, up to 30s grace)"
)


@pytest.mark.parametrize(
    ("disclose", "victims"),
    [
        (Disclose.NAMES, " on node-7: shop/report, payroll/nightly"),
        (Disclose.OWN_NAMESPACE, ": shop/report, 1 Pod of another namespace"),
        (Disclose.COUNTS, ""),
    ],
)
def test_victims_of_other_namespaces_are_counted_and_nodes_are_not_named(disclose: Disclose, victims: str) -> None:
    answer = _answer(STARVING, disclose)
    (finding,) = answer.findings
    (warning,) = answer.response.warnings
    facts = "(priority 100 to 200, not recreated, up to 30s grace)"
    fix = "Fix: lower requests or priority [preempts-running-pods]"
    assert finding.as_shown.message == f"would preempt 2 Pods{victims} {facts}"
    assert warning.startswith("would preempt 2 Pods")
    assert warning.endswith(fix)


@pytest.mark.parametrize("disclose", HIDDEN)
def test_the_audit_log_has_what_is_withheld(disclose: Disclose) -> None:
    audit = _answer(STARVING, disclose).response.audit
    assert "on node-7: shop/report, payroll/nightly (priority 100 to 200" in audit["preempts-running-pods"]
    assert json.loads(audit["preemption-impact"])["preemptions"] == [
        {"node": "node-7", "pdbViolations": 0, "victims": ["shop/report", "payroll/nightly"]}
    ]


@pytest.mark.parametrize(
    ("disclose", "told"),
    [
        (Disclose.NAMES, {"node": "node-7", "victims": ["shop/report", "payroll/nightly"]}),
        (Disclose.OWN_NAMESPACE, {"victims": ["shop/report"], "unnamedVictims": 1, "unnamedPriorities": [100, 100]}),
        (Disclose.COUNTS, {"victims": [], "unnamedVictims": 2, "unnamedPriorities": [100, 200]}),
    ],
)
@pytest.mark.parametrize("groups", [["developers"], ["system:masters"]])
def test_the_annotation_is_written_for_who_reads_the_object_whoever_asked(
    disclose: Disclose, told: Obj, groups: list[str]
) -> None:
    given = review(STARVING, userInfo={"username": "kim", "groups": groups})
    decision = _decided(World(STATE, Config(disclose=disclose), given, frozenset()), Hook.MUTATE)
    written = at(apply_patch(STARVING, decision.response.patch), *PATH)
    assert json.loads(written)["preemptions"] == [{**told, "pdbViolations": 0}]


@pytest.mark.parametrize("disclose", HIDDEN)
@pytest.mark.parametrize(
    ("to", "groups", "all_is_told"),
    [
        (DiscloseTo(), ["system:masters"], True),
        (DiscloseTo(), ["system:mast", "developers"], False),
        (DiscloseTo(("sre-*",)), ["sre-berlin"], True),
        (DiscloseTo(("sre-*",)), ["system:masters"], False),
        (DiscloseTo(()), ["system:masters"], False),
    ],
)
def test_who_is_in_a_configured_group_is_told_everything(
    disclose: Disclose, to: DiscloseTo, groups: list[str], all_is_told: bool
) -> None:
    who = {"username": "kim", "groups": groups}
    answer = _answer(STARVING, disclose, config=Config(disclose_to=to), userInfo=who)
    (finding,) = answer.findings
    assert (finding.as_shown.message == FULL) is all_is_told
    assert ("on node-7" in answer.response.warnings[0]) is all_is_told


def test_rights_are_asked_about_only_where_it_matters() -> None:
    config = Config(disclose_to=DiscloseTo((), subject_access_review=True))
    assert _answer(STARVING, Disclose.COUNTS, config=config).withholds
    assert not _answer(pod("gold", 1000, namespace=OWN), Disclose.COUNTS, config=config).withholds
    assert not _answer(STARVING, Disclose.COUNTS).withholds
    assert not _answer(STARVING, Disclose.NAMES, config=config).withholds
    masters = {"username": "kim", "groups": ["system:masters"]}
    config = Config(disclose_to=DiscloseTo(subject_access_review=True))
    assert not _answer(STARVING, Disclose.COUNTS, config=config, userInfo=masters).withholds


@pytest.mark.parametrize("action", [Action.WARN, Action.DENY])
def test_a_decision_in_full_is_the_one_for_who_may_see_everything(action: Action) -> None:
    config = Config(actions=_all(action), disclose_to=DiscloseTo((), subject_access_review=True))
    withheld, full = (_answer(STARVING, d, config=config) for d in (Disclose.COUNTS, Disclose.NAMES))
    told = unredacted(parse_review(json.dumps(review(STARVING)).encode()), withheld)
    assert shown(told) == shown(full)
    assert told.response.audit == withheld.response.audit
    assert not told.withholds


CLASSES = cluster(
    priority_class("payroll-gold", 500),
    priority_class("web-gold", 400),
    priority_class("standard", 1, globalDefault=True),
    _running("report", OWN, 200) | {"spec": _pod_spec("1", "web-gold", nodeName="node-7", priority=400)},
)
MISSPELT = _named("Deployment", "apps/v1", "web", OWN, spec={"template": {"spec": _pod_spec("1", "payroll-glod")}})


@pytest.mark.parametrize(
    ("disclose", "name", "told"),
    [
        (
            Disclose.NAMES,
            "payroll-glod",
            'Did you mean "payroll-gold"? Fix: create it, or use "payroll-gold"',
        ),
        (
            Disclose.OWN_NAMESPACE,
            "payroll-glod",
            'Pods will be rejected until it exists Fix: create it, or use "standard" or "web-gold"',
        ),
        (
            Disclose.OWN_NAMESPACE,
            "web-glod",
            'Did you mean "web-gold"? Fix: create it, or use "web-gold"',
        ),
        (Disclose.COUNTS, "web-glod", 'Pods will be rejected until it exists Fix: create it, or use "standard"'),
        (Disclose.COUNTS, "standrad", 'Did you mean "standard"? Fix: create it, or use "standard"'),
    ],
)
def test_a_misspelt_class_brings_out_those_that_may_be_used_alone(disclose: Disclose, name: str, told: str) -> None:
    obj = {**MISSPELT, "spec": {"template": {"spec": _pod_spec("1", name)}}}
    (finding,) = _answer(obj, disclose, CLASSES).findings
    assert told in f"{finding.as_shown.message} Fix: {finding.as_shown.remediation}"


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        (AllowedClasses(("payroll-*",), namespaces=("shop*",)), True),
        (AllowedClasses(("payroll-*",), namespaces=("payroll",)), False),
        (AllowedClasses(("payroll-*",), users=("kim",)), True),
        (AllowedClasses(("payroll-*",), groups=("sre",)), False),
        (AllowedClasses(("payroll-*",), namespaces=("shop",), groups=("sre",)), False),
    ],
)
def test_a_class_that_allowed_classes_gives_him_may_be_named(entry: AllowedClasses, named: bool) -> None:
    config = Config(options=Config().options._replace(allowed_classes=(entry,)))
    answer = _answer(MISSPELT, Disclose.OWN_NAMESPACE, CLASSES, config=config)
    assert ('Did you mean "payroll-gold"' in answer.findings[0].as_shown.message) is named


def _deleted(name: str) -> Obj:
    return review(None, "DELETE", oldObject=priority_class(name, 1))


WORKLOAD = _named("Deployment", "apps/v1", "ledger", "payroll", spec={"template": {"spec": _pod_spec("1", "gold")}})
DRIFTED = _running("nightly", "payroll", 7) | {"spec": _pod_spec("1", "gold", nodeName="node-7", priority=7)}
LIMITED = (LimitedResource("pods", match_scopes=(ScopeSelector("PriorityClass", "In", ("gold", "platinum")),)),)


@pytest.mark.parametrize(
    ("given", "state", "full", "told"),
    [
        (
            _deleted("gold"),
            cluster(WORKLOAD),
            "Deployment payroll/ledger still uses this class",
            "1 object still uses this class",
        ),
        (
            review(priority_class("gold", 1000, description="new")),
            cluster(DRIFTED),
            "1 Pod (payroll/nightly) of this class has priority 7",
            "1 Pod of this class has priority 7",
        ),
        (
            review(priority_class("never", 5000, preemptionPolicy="Never")),
            cluster(),
            'lower class "gold" (1000)',
            "1 lower class does",
        ),
        (
            review(namespace(OWN, default_priority_class="gald")),
            cluster(),
            'Did you mean "gold"?',
            "Pods here get the cluster's default",
        ),
        (
            review(
                _named(
                    "ResourceQuota",
                    "v1",
                    "q",
                    OWN,
                    spec={
                        "hard": {"services": "1"},
                        "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]},
                    },
                )
            ),
            cluster(),
            'allows class "gold" under limitedResources',
            "allows a limited class under limitedResources",
        ),
        (
            review(
                _named(
                    "ResourceQuota",
                    "v1",
                    "q",
                    OWN,
                    spec={
                        "hard": {"pods": "1"},
                        "scopeSelector": {
                            "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["gald"]}]
                        },
                    },
                )
            ),
            cluster(),
            'this scope matches no Pod. Did you mean "gold"?',
            'PriorityClass "gald" not found; this scope matches no Pod',
        ),
    ],
    ids=["class-still-in-use", "drift", "never", "default class", "loophole", "quota"],
)
@pytest.mark.parametrize("action", [Action.WARN, Action.DENY])
def test_rules_about_others_say_how_many_there_are(
    given: Obj, state: ClusterSnapshot, full: str, told: str, action: Action
) -> None:
    options = Config().options._replace(limited_resources=LIMITED)
    config = Config(actions=_all(action), options=options)

    def text(disclose: Disclose) -> str:
        return shown(_answer({}, disclose, state, given=given, config=config)).replace('\\"', '"')

    assert full in text(Disclose.NAMES)
    for disclose in HIDDEN:
        assert told in text(disclose)
        assert full not in text(disclose)


def _asked(server: Running, user: str, *groups: str) -> tuple[str, Obj]:
    """What a user reads over HTTP when he sends the starving pod, and the audit annotations."""
    given = review(STARVING, userInfo={"username": user, "groups": [*groups]})
    status, _, answer = server.post("/validate", json.dumps(given).encode())
    assert status == 200
    response = json.loads(answer)["response"]
    audit = response.pop("auditAnnotations")
    return json.dumps(response), audit


def test_an_answer_that_is_given_again_is_given_to_the_same_user_alone() -> None:
    """Over HTTP, with one state: an administrator's answer a moment ago is not a tenant's, nor the other way round."""
    predicted = endpoint(lambda: STATE)
    answer_now(
        predicted, AdmissionCall(Hook.VALIDATE, json.dumps(review(STARVING)).encode(), monotonic())
    )  # loads what predicts
    with running(endpoint(lambda: STATE)) as server:
        for user, groups, told in (
            ("root", ["system:masters"], True),
            ("kim", [], False),
            ("kim", ["system:masters"], True),
            ("root", [], False),
            ("root", ["system:masters"], True),
        ):
            text, audit = _asked(server, user, *groups)
            assert ("and 1 more" in text) is told
            assert ("node-7" in text) is told
            assert "payroll/nightly" in audit["preemption-impact"]


def test_the_log_has_what_is_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    monkeypatch.setattr("forewarn.webhook.admission.endpoint.log_event", lambda *line: said.append(line))
    monkeypatch.setattr("forewarn.webhook.admission.endpoint.LOGGER.isEnabledFor", lambda _: True)
    asked = endpoint(lambda: CLASSES)
    answer_now(asked, AdmissionCall(Hook.VALIDATE, json.dumps(review(MISSPELT)).encode(), monotonic()))
    ((_, fields),) = said
    assert fields["withheld"] == {
        "unknown-priority-class": 'PriorityClass "payroll-glod" not found; Pods will be rejected until it exists. '
        'Did you mean "payroll-gold"?'
    }


def test_pods_of_the_own_workload_are_named_without_their_node() -> None:
    """A rollout that preempts Pods of its own workload: the words of rollout-preempts-itself."""
    own = _running("web-1", OWN, 0)
    for disclose, said in (
        (Disclose.NAMES, "would preempt 1 Pod on node-7: shop/web-1 (priority 0)"),
        (Disclose.OWN_NAMESPACE, "would preempt 1 Pod: shop/web-1 (priority 0)"),
        (Disclose.COUNTS, "would preempt 1 Pod (priority 0)"),
    ):
        audience = Audience(disclose, OWN)
        prediction = predict(cluster(NODE, own), {**STARVING, "spec": {**STARVING["spec"], "priority": 1000}})
        assert victims_text("would preempt", (prediction,), prediction.victims, audience).message == said
