"""One set of rules, three doors: linter, `review` and the running webhook say the same of the same object.

And whatever kube-apiserver itself would accept is denied by nobody but the rules that are meant to go further.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from forewarn.policies.base.findings import Action
from forewarn.policies.inputs.manifests.reading import read
from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.kubernetes.kinds.registry import LINTED, POD, POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.fields import group_kind
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, ReviewedObject
from forewarn.policies.linting.config.load import read_config
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, Phase, evaluate
from forewarn.policies.linting.lint.input import as_update
from forewarn.policies.linting.rules import RULES
from forewarn.webhook.commands.review import answers
from tests.cases import cases
from tests.recorded.dry_run import dry_run
from tests.webhook.builders import endpoint
from tests.webhook.running import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from forewarn.policies.base.findings import Finding

BEYOND_THE_API_SERVER = {
    "final-priority-mismatch",
    "limited-class-without-quota",
    "class-not-allowed",
    "violates-expectation",  # where the configuration says deny
}
AT_BOTH_DOORS = {rule.ID for rule in RULES if rule.ACTION is not None and rule.SEVERITY is not None}
WANTED = frozenset((*LINTED, *POD_TEMPLATE_PATHS))
NOW = datetime(2026, 1, 1, tzinfo=UTC)

DEFAULT = Config()

Verdicts = set[tuple[str, str]]

NAMES = ["gold", "batch", "normal", "system-node-critical", "system-foo", "Bad_Name"]
VALUES = [0, 10, 1000, -11, 1_000_000_000, 1_000_000_001, 2_000_001_000, 2**31, "10", 1.5, None, True]
POLICIES = ["PreemptLowerPriority", "Never", "never", "", None, 5]
NAMESPACES = ["team", "kube-system"]


HARD: list[dict[str, Any]] = [
    {"pods": "1"},
    {"pods": "9", "cpu": "1"},
    {"requests.memory": "1Gi"},
    {"services": "1"},
    {"count/services": 1},
]
OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist", "Bogus"]
LIMITED = read_config(
    """\
limitedResources:
- resource: pods
  matchContains: [example.com/gpu]
  matchScopes: [{scopeName: PriorityClass, operator: In, values: [gold, system-node-critical]}]
allowedClasses:
- classes: [batch]
  namespaces: [kube-*]
- classes: [gold]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team}}
""",
    "config",
)


def _without_none(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


PROMISING = read_config(
    """\
actions: {violates-expectation: deny}
expectations:
- name: the team stays
  expect: {noPreemption: {namespace: team}, by: {class: system-*}}
- name: nobody goes
  expect: {noPreemption: {}}
""",
    "config",
)


@st.composite
def _classes(draw: st.DrawFn, stored: bool = False) -> dict[str, Any]:
    """A PriorityClass; `stored`: one that the API server would have let in."""
    fields = _without_none(
        value=draw(st.sampled_from(VALUES[:5] if stored else VALUES)),
        globalDefault=draw(st.sampled_from([None, True, False] if stored else [None, True, False, "yes"])),
        preemptionPolicy=draw(st.sampled_from(["PreemptLowerPriority", "Never"] if stored else POLICIES)),
    )
    name = draw(st.sampled_from(NAMES[:3] if stored else NAMES))
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, **fields}


@st.composite
def _specs(draw: st.DrawFn) -> dict[str, Any]:
    requests = draw(st.sampled_from([None, {"cpu": "600m"}, {"memory": "1Gi", "cpu": "1"}, {"example.com/gpu": "1"}]))
    return {
        "containers": [{"name": "c", "image": "i", "resources": _without_none(requests=requests)}],
        **_without_none(
            priorityClassName=draw(st.sampled_from([None, "", "gold", "batch", "ghost", "system-node-critical"])),
            priority=draw(st.sampled_from([None, None, 0, 10, 1000, 2_000_001_000])),
            preemptionPolicy=draw(st.sampled_from([None, None, "PreemptLowerPriority", "Never"])),
        ),
    }


@st.composite
def _pods(draw: st.DrawFn) -> dict[str, Any]:
    """A pod; without a class not of priority 0: after the Priority plugin that is what it gives without a default."""
    metadata = {"name": draw(st.sampled_from(["p", "q"])), "namespace": draw(st.sampled_from(NAMESPACES))}
    spec = draw(_specs().filter(lambda spec: spec.get("priorityClassName") or spec.get("priority") != 0))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@st.composite
def _workloads(draw: st.DrawFn) -> dict[str, Any]:
    kind, path = draw(st.sampled_from(sorted(POD_TEMPLATE_PATHS.items())))
    group, _, name = kind.rpartition("/")
    value: dict[str, Any] = {"metadata": {"labels": {"app": "w"}}, "spec": draw(_specs())}
    for step in reversed(path):
        value = {step: value}
    if kind.startswith("apps/"):
        value["spec"]["selector"] = {"matchLabels": {"app": "w"}}  # without it, the linter takes it for a patch
    if (kind.startswith("apps/") and name != "DaemonSet") or name == "ReplicationController":
        value["spec"] |= _without_none(replicas=draw(st.sampled_from([None, 0, 2, 10])))
    metadata = {"name": "w", "namespace": draw(st.sampled_from(NAMESPACES))}
    version = f"{group}/v1" if group else "v1"
    return {"apiVersion": version, "kind": name, "metadata": metadata, **value}


@st.composite
def _namespaces(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(["gold", "ghost"]))
    metadata = {"name": "new", "annotations": {"forewarn.dev/default-priority-class": name}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


@st.composite
def _quotas(draw: st.DrawFn, stored: bool = False) -> dict[str, Any]:
    """A quota; `stored`: one that the API server would have let in, mostly with a status."""
    names = ["few", "compute"]
    metadata = {"name": draw(st.sampled_from(names)), "namespace": draw(st.sampled_from(NAMESPACES))}
    hard = draw(st.sampled_from(HARD[:3] if stored else HARD))
    operator = draw(st.sampled_from(OPERATORS[:2] if stored else OPERATORS))
    scope = {"scopeName": "PriorityClass", "operator": operator, "values": draw(st.sampled_from([["gold"], ["ghost"]]))}
    scoped = draw(st.booleans()) and "requests.memory" not in hard
    spec = {"hard": hard, **({"scopeSelector": {"matchExpressions": [scope]}} if scoped else {})}
    status = {"hard": hard, "used": dict.fromkeys(hard, "0")} if stored and draw(st.booleans()) else None
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": spec,
        **_without_none(status=status),
    }


@st.composite
def _clusters(draw: st.DrawFn) -> list[dict[str, Any]]:
    classes = draw(st.lists(_classes(stored=True), max_size=3, unique_by=lambda c: c["metadata"]["name"]))
    stored = [
        pod | {"spec": pod["spec"] | {"priority": 10}, "status": {}} for pod in draw(st.lists(_pods(), max_size=2))
    ]
    quotas = draw(st.lists(_quotas(stored=True), max_size=3))
    full = [FULL_NODE, ON_IT] if draw(st.booleans()) else []
    return [*classes, *stored, *quotas, *full, *draw(st.lists(_workloads(), max_size=1))]


def _snapshot(objects: list[dict[str, Any]]) -> ClusterSnapshot:
    cache = Cache()
    for obj in objects:
        cache.add(obj)
    return cache.snapshot()


def _linted(
    obj: dict[str, Any], cluster: ClusterSnapshot, config: Config = DEFAULT
) -> tuple[ReviewedObject, list[Finding]]:
    """The subject as the linter reads it, and what it says of it."""
    reading = read(json.dumps(obj), "object.json", WANTED, namespace="default")
    (subject,) = (as_update(subject, cluster) for subject in reading.subjects)
    findings = evaluate(
        EvaluationRequest(ChangeSet((subject,), reading.diagnostics), cluster, config, phase=Phase.LINT, now=NOW)
    )
    return subject, [finding for finding in findings if finding.rule in AT_BOTH_DOORS]


def _verdicts(findings: Iterable[Finding]) -> Verdicts:
    return {(finding.rule, finding.action.value) for finding in findings if finding.rule in AT_BOTH_DOORS}


def _at_the_webhook(
    subject: ReviewedObject, linted: list[Finding], cluster: ClusterSnapshot, config: Config
) -> Verdicts:
    """What the linter says, but for warnings that the stored object would get in the same words.

    Those are not repeated at the webhook; a pod that is changed gets all of them again.
    """
    if subject.old is None or (group_kind(subject.object) == POD and subject.object != subject.old):
        return _verdicts(linted)
    stored = ChangeSet((subject._replace(object=subject.old),))
    before = evaluate(EvaluationRequest(stored, cluster, config, phase=Phase.LINT, now=NOW))
    spared = {(f.rule, f.path, f.message) for f in before} & {
        (f.rule, f.path, f.message) for f in linted if f.action is Action.WARN
    }
    return _verdicts(
        finding._replace(action=Action.AUDIT) if (finding.rule, finding.path, finding.message) in spared else finding
        for finding in linted
    )


def _review(subject: ReviewedObject, obj: dict[str, Any]) -> bytes:
    group, _, version = obj["apiVersion"].rpartition("/")
    request = {
        "uid": "u",
        "kind": {"group": group, "version": version, "kind": obj["kind"]},
        "resource": {"group": group, "version": version, "resource": obj["kind"].lower() + "s"},
        "name": obj["metadata"]["name"],
        "namespace": obj["metadata"].get("namespace", ""),
        "operation": subject.operation.value,
        "userInfo": {"username": "kim"},
        "object": obj,
        "oldObject": subject.old,
        "dryRun": True,  # what is admitted counts for the next request of the user
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


class _Decisions(logging.Handler):
    """What the running webhook logs of its decisions."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.__dict__.get("fields", {}))


@pytest.fixture(name="webhook", scope="module")
def _webhook() -> Iterator[Callable[[bytes, ClusterSnapshot, Config], Verdicts]]:
    """Asks a webhook that runs over TLS, with the cluster of this moment, for its verdict on a final object."""
    current: list[ClusterSnapshot | None] = [None]
    configs = [DEFAULT]
    decisions, logger = _Decisions(), logging.getLogger("forewarn")
    logger.addHandler(decisions)
    level = logger.level
    logger.setLevel(logging.INFO)
    with running(endpoint(lambda: current[0], lambda: configs[0])) as server, server.connect() as connection:

        def ask(body: bytes, cluster: ClusterSnapshot, config: Config) -> Verdicts:
            current[0], configs[0] = cluster, config
            decisions.told.clear()
            connection.request("POST", "/validate", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            response.read()
            return set(decisions.told[-1]["rules"].items())

        yield ask
    logger.removeHandler(decisions)
    logger.setLevel(level)


GOLD: dict[str, Any] = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "gold"},
    "value": 0,
}
OF_ANOTHER_NUMBER: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "team"},
    "spec": {"containers": [{"name": "c", "image": "i"}], "priorityClassName": "gold", "priority": 10},
    "status": {},
}
PINNED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}], "priority": 7},
}
OBJECTS = st.one_of(_classes(), _pods(), _workloads(), _namespaces(), _quotas())
CONFIGS = st.sampled_from([DEFAULT, LIMITED, PROMISING])
FULL_NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "1", "memory": "8Gi", "pods": "10"}},
}
ON_IT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "victim", "namespace": "team"},
    "spec": {
        "nodeName": "n",
        "priority": 0,
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
    },
    "status": {"phase": "Running"},
}
PUSHING: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "w", "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": {"app": "w"}},
        "template": {
            "metadata": {"labels": {"app": "w"}},
            "spec": {
                "priorityClassName": "system-node-critical",
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
            },
        },
    },
}


@settings(max_examples=cases(125), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(obj=OBJECTS, cluster=_clusters(), config=CONFIGS)
@example(
    obj={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"priorityClassName": "ghost"}},
    cluster=[],
    config=DEFAULT,
)
@example(obj=GOLD, cluster=[GOLD, OF_ANOTHER_NUMBER], config=DEFAULT)
@example(obj=GOLD | {"value": 10}, cluster=[GOLD, OF_ANOTHER_NUMBER], config=DEFAULT)
@example(obj=GOLD, cluster=[OF_ANOTHER_NUMBER], config=DEFAULT)
@example(obj=PUSHING, cluster=[FULL_NODE, ON_IT], config=PROMISING)
@example(obj=PUSHING, cluster=[FULL_NODE, ON_IT, PUSHING], config=PROMISING)
@example(obj=PINNED, cluster=[PINNED], config=DEFAULT)
@example(obj=PINNED | {"metadata": {"name": "p", "labels": {"a": "b"}}}, cluster=[PINNED], config=DEFAULT)
def test_linter_review_and_running_webhook_say_the_same(
    obj: dict[str, Any],
    cluster: list[dict[str, Any]],
    config: Config,
    webhook: Callable[[bytes, ClusterSnapshot, Config], Verdicts],
) -> None:
    snapshot = _snapshot(cluster)
    subject, linted = _linted(obj, snapshot, config)
    body = _review(subject, obj)
    decided = answers(body, None, snapshot, config)[-1]
    expected = _at_the_webhook(subject, linted, snapshot, config)
    reviewed = _verdicts(decided.findings)
    served = {(rule, action) for rule, action in webhook(body, snapshot, config) if rule in AT_BOTH_DOORS}
    event(f"{obj['kind']} {'update' if subject.old else 'create'}: {len(expected)} rules")
    assert reviewed == expected
    assert served == expected


@settings(max_examples=cases(200), deadline=None)
@given(obj=OBJECTS, cluster=_clusters(), config=CONFIGS)
def test_what_the_api_server_accepts_is_denied_by_marked_rules_alone(
    obj: dict[str, Any], cluster: list[dict[str, Any]], config: Config
) -> None:
    snapshot = _snapshot(cluster)
    subject, _ = _linted(obj, snapshot)
    accepted = dry_run(subject, snapshot).allowed
    decided = answers(_review(subject, obj), None, snapshot, config)[-1]
    denying = {finding.rule for finding in decided.findings if finding.action is Action.DENY}
    event(f"{obj['kind']}: {'accepted' if accepted else 'refused'}, {'denied' if denying else 'allowed'}")
    if accepted:
        assert denying <= BEYOND_THE_API_SERVER


@settings(max_examples=cases(150), deadline=None)
@given(obj=_quotas())
def test_a_quota_is_denied_where_the_api_server_refuses_it_and_only_there(obj: dict[str, Any]) -> None:
    snapshot = _snapshot([])
    subject, _ = _linted(obj, snapshot)
    answer = dry_run(subject, snapshot)
    decided = answers(_review(subject, obj), None, snapshot, DEFAULT)[-1]
    found = (finding for finding in decided.findings if finding.rule == "quota-scope-invalid")
    told = {str(finding.detail["rejection"]) for finding in found}
    event("accepted" if answer.allowed else "refused")
    assert decided.response.allowed is answer.allowed
    assert all(message in answer.message for message in told)


@st.composite
def _valid_pods(draw: st.DrawFn) -> dict[str, Any]:
    """A pod that only a quota may refuse."""
    amounts = draw(st.sampled_from([{}, {"cpu": "600m"}, {"memory": "1Gi", "cpu": "1"}, {"example.com/gpu": "1"}]))
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    named = _without_none(priorityClassName=draw(st.sampled_from([None, "gold", "normal", "system-node-critical"])))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team"},
        "spec": {"containers": [container], "restartPolicy": "Always", **named},
    }


@settings(max_examples=cases(150), deadline=None)
@given(pod=_valid_pods(), quotas=st.lists(_quotas(stored=True), max_size=3), used=st.sampled_from(["0", "1"]))
def test_what_quotas_and_limits_refuse_is_what_the_api_server_refuses_with_its_flag(
    pod: dict[str, Any], quotas: list[dict[str, Any]], used: str
) -> None:
    charged = [
        q | {"status": {"hard": q["spec"]["hard"], "used": dict.fromkeys(q["spec"]["hard"], used)}} for q in quotas
    ]
    header = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    classes = [{**header, "metadata": {"name": name}, "value": 10} for name in ("gold", "normal")]
    snapshot = _snapshot([*classes, *charged])
    subject = ReviewedObject(pod, namespace="team")
    answer = dry_run(subject, snapshot, LIMITED.options)
    event(answer.message[:40] or "accepted")
    found = evaluate(EvaluationRequest(ChangeSet((subject,)), snapshot, LIMITED, phase=Phase.VALIDATE, now=NOW))
    rules = {finding.rule for finding in found}

    def told(rule: str) -> bool:
        said = (str(each.detail.get("rejection", each.message)) for each in found if each.rule == rule)
        return any(text in answer.message for text in said)

    if "insufficient quota" in answer.message:
        assert told("limited-class-without-quota")
    elif "must specify" in answer.message:
        assert told("quota-requirement-missing")
    elif "exceeded quota" in answer.message:
        assert "quota-exceeded" in rules
        assert "limited-class-without-quota" not in rules
    else:
        assert answer.allowed
        assert not {"quota-exceeded", "quota-requirement-missing", "limited-class-without-quota"} & rules
