"""Dry runs as questions about others: how much a tenant learns who asks often, or about Pods that he may not list."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from math import log2
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forewarn.policies.base.disclosure import count_range, priority_range, seconds_range
from forewarn.policies.base.findings import Action
from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.linting.config.model import Budget, Config, DiscloseTo, PredictionBudget, RepeatedWarnings
from forewarn.webhook.admission.access_reviews import AccessReviews
from forewarn.webhook.admission.answer_cache import AnswerCache
from forewarn.webhook.admission.prediction_access import OF_OTHERS, SPENT, UNREADABLE
from forewarn.webhook.admission.prediction_access import PredictionBudget as Buckets
from forewarn.webhook.admission.review import AdmissionCall, Hook
from tests.builders import Made, MadePod, make_budget, make_node, make_pod
from tests.cases import cases
from tests.webhook.admission.test_access_reviews import Rights
from tests.webhook.builders import answer_now, body, cluster, deployment, endpoint, patch_of, priority_class

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

Obj = dict[str, Any]
OWN, OTHER = "shop", "payroll"
HIGH = "high"
FIX = "Fix: ask for permission to list Pods there"
UNLIMITED = PredictionBudget(Budget(1_000_000, 0), Budget(1_000_000, 0))
ONLY_COARSE = PredictionBudget(Budget(0, 1_000_000), Budget(0, 1_000_000))
NOTHING = PredictionBudget(Budget(0, 0), Budget(0, 0))
MAX_CPU = 16_000
"""Millicores of a node: what is free of it takes 14 questions."""
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"


class Tenant:
    """Somebody who may create Pods in one namespace, and reads all that a dry run answers."""

    def __init__(
        self,
        state: ClusterSnapshot,
        budget: PredictionBudget | None = None,
        rights: Rights | None = None,
        config: Config | None = None,
    ) -> None:
        self.now, self.asked, self.user, self.groups = 0.0, 0, "kim", ["developers"]
        config = (config or Config())._replace(repeated_warnings=RepeatedWarnings.FULL)
        config = config if budget is None else config._replace(prediction_budget=budget)
        predict(state, make_pod("first").request(cpu="1").obj)  # what is made once takes no question's time
        reviews = AccessReviews(rights, lambda: self.now) if rights else None
        self.endpoint = endpoint(lambda: state, lambda: config, reviews=reviews, budget=Buckets(lambda: self.now))

    def answer(self, hook: Hook, obj: Obj, **request: Any) -> Obj:
        who = {"userInfo": {"username": self.user, "groups": self.groups}, "dryRun": True}
        given = body(obj, namespace=OWN, **{**who, **request})
        reply = answer_now(self.endpoint, AdmissionCall(hook, given, monotonic()))
        found: Obj = {**json.loads(reply.body)["response"], "written": patch_of(reply.body)}
        return found

    def read(self, made: Made | Obj, **request: Any) -> str:
        """All that he gets to see of one dry run: warnings or the denial, and the annotation."""
        obj = made.obj if isinstance(made, Made) else made
        self.asked += 1
        written = self.answer(Hook.MUTATE, obj, **request)["written"]
        answer = self.answer(Hook.VALIDATE, obj, **request)
        seen = {key: answer.get(key) for key in ("allowed", "status", "warnings")}
        return json.dumps({**seen, "written": written}, sort_keys=True)

    def shown(self, detail: str) -> int:
        """How many predictions, of both webhooks, were shown so."""
        (child,) = [
            sample.value
            for metric in self.endpoint.metrics.predictions_shown.collect()
            for sample in metric.samples
            if sample.labels["detail"] == detail
        ]
        return int(child)


def question(cpu: int, node: str = "", class_name: str = "") -> MadePod:
    """A Pod that asks for so many millicores, of one node."""
    made = make_pod("q", OWN).request(cpu=f"{cpu}m").priority(10_000 if class_name else 0)
    made.spec(preemptionPolicy="PreemptLowerPriority", **({"priorityClassName": class_name} if class_name else {}))
    if node:
        fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
        made.affinity("nodeAffinity", {"matchFields": fields})
    return made


# The free CPU of each node


def of_free_cpu(free: Sequence[int]) -> ClusterSnapshot:
    """Nodes of 16 CPUs, of which others use what is not free."""
    made: list[Made] = []
    for number, left in enumerate(free):
        made.append(make_node(f"node-{number}").has(cpu="16"))
        used = make_pod(f"used-{number}", OTHER).request(cpu=f"{MAX_CPU - left}m").priority(500)
        made.append(used.on(f"node-{number}"))
    return cluster(priority_class(HIGH, 10_000), *(each.obj for each in made))


def bisected(tenant: Tenant, node: str) -> tuple[int, int]:
    """The lowest and highest free CPU that a node may have, by all that is answered."""
    lowest, highest = 0, MAX_CPU
    while lowest < highest:
        middle = (lowest + highest + 1) // 2
        owners = [OWNER] * (tenant.asked % 2)  # an invented controller does not change who pays
        answer = tenant.read(question(middle, node).metadata(ownerReferences=owners))
        if SPENT in answer:
            break
        fits = '"warnings": null' in answer
        lowest, highest = (middle, highest) if fits else (lowest, middle - 1)
    return lowest, highest


def bits(candidates: Sequence[tuple[int, int]]) -> float:
    return sum(log2((MAX_CPU + 1) / (highest - lowest + 1)) for lowest, highest in candidates)


def test_without_a_budget_bisection_tells_the_free_cpu_of_every_node() -> None:
    free = [Random(30).randrange(1, MAX_CPU) for _ in range(3)]
    tenant = Tenant(of_free_cpu(free), UNLIMITED)
    assert [bisected(tenant, f"node-{number}") for number in range(3)] == [(left, left) for left in free]
    assert tenant.asked <= 3 * 15


def test_bisection_tells_the_free_cpu_of_as_many_nodes_as_the_budget_has_questions_for() -> None:
    random = Random(30)
    free = [random.randrange(1, MAX_CPU) for _ in range(50)]
    tenant = Tenant(of_free_cpu(free))
    found = [bisected(tenant, f"node-{number}") for number in range(len(free))]
    known = [(left, left) == candidates for left, candidates in zip(free, found, strict=True)]
    assert (sum(known), found.count((0, MAX_CPU))) == (35, 14)
    assert bits(found) < 501  # a bit a question, and what halves of odd ranges differ by
    assert tenant.shown("exact") + tenant.shown("coarse") == 2 * 500
    tenant.endpoint = replace(tenant.endpoint, answers=AnswerCache(monotonic))  # without the answers of the last second
    answers = {tenant.read(question(cpu, "node-0")) for cpu in (0, 1, free[0], free[0] + 1, 20_000)}
    assert len(answers) == 1  # and from here on nothing


def test_many_accounts_of_a_namespace_learn_no_more_than_its_budget() -> None:
    free = [Random(number).randrange(1, MAX_CPU) for number in range(20)]
    tenant = Tenant(of_free_cpu(free), PredictionBudget(Budget(5, 20), Budget(10, 40)))
    found = []
    for number in range(len(free)):
        tenant.user = f"system:serviceaccount:{OWN}:account-{number}"
        found.append(bisected(tenant, f"node-{number}"))
    assert bits(found) <= 50
    assert tenant.shown("exact") + tenant.shown("coarse") == 2 * 50


def test_an_account_learns_more_from_counts_of_pods_and_as_much_again_from_what_controllers_create() -> None:
    """A workload's prediction says how many of its Pods fit: exactly, and later 0, 1 to 5 or more that do not."""
    random = Random(30)
    free = [random.randrange(MAX_CPU) for _ in range(50)]
    tenant = Tenant(of_free_cpu(free), PredictionBudget(Budget(5, 20), Budget(10, 40)))
    learned = []
    for user, exact, coarse in (("kim", 5, 20), (CONTROLLER, 10, 40)):
        tenant.user = user
        nodes = range(exact + coarse)
        asked = [_fitting(tenant, node, *((110, 146) if node < exact else (10, 1_067))) for node in nodes]
        assert SPENT in tenant.read(question(7, "node-0"))
        assert all(lowest <= left <= highest for left, (lowest, highest) in zip(free, asked, strict=False))
        learned.append(bits(asked))
    hours = [20 * learned[0], 20 * learned[1]]  # with the default budget
    assert hours == [pytest.approx(1_313, abs=5), pytest.approx(2_626, abs=10)]


def _fitting(tenant: Tenant, node: int, replicas: int, cpu: int) -> tuple[int, int]:
    """The lowest and highest free CPU of a node, by how many replicas fit there."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": question(cpu, f"node-{node}").obj["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    (patch,) = json.loads(tenant.read({**deployment(), "spec": spec}))["written"] or [None]
    impact = json.loads(patch["value"]["forewarn.dev/preemption-impact"]) if patch else {}
    pending = count_range(impact["pending"]) if "coarse" in impact else None
    fewest, most = pending or (impact.get("pending", 0),) * 2
    most = replicas if most is None else most
    return (replicas - most) * cpu, min((replicas - fewest + 1) * cpu - 1, MAX_CPU) if fewest else MAX_CPU


# The Pods of others on a node


def of_others(priorities: Sequence[int], protected: int = 0, grace: int = 30) -> ClusterSnapshot:
    """A node of as many CPUs as others have Pods there, a CPU each; a budget protects the first few."""
    made: list[Made] = [make_node("node").has(cpu=str(len(priorities)), memory="64Gi")]
    for number, priority in enumerate(priorities):
        pod = make_pod(f"wages-{number}", OTHER).request(cpu="1").priority(priority).on("node")
        pod.spec(terminationGracePeriodSeconds=grace)
        made.append(pod.labels(app="protected") if number < protected else pod)
    made.append(make_budget("wages", 0, OTHER, app="protected"))
    return cluster(priority_class(HIGH, 10_000), *(each.obj for each in made))


def enumerated(tenant: Tenant, pods: int) -> list[str]:
    """The answers for one CPU more each time: one Pod more has to go, the next one by priority."""
    return [tenant.read(question(1000 * count, "node", HIGH)) for count in range(1, pods + 1)]


def test_without_a_budget_a_question_a_pod_tells_the_priority_of_each() -> None:
    priorities = [100 + 7 * number for number in range(10)]
    answers = enumerated(Tenant(of_others(priorities), UNLIMITED), 10)
    for count, (answer, priority) in enumerate(zip(answers, priorities, strict=True), 1):
        assert f'unnamedPriorities\\":[100,{priority}],\\"unnamedVictims\\":{count},' in answer


SIX_TO_TEN = st.integers(6, 10)


@given(
    st.lists(st.integers(0, 999), min_size=8, max_size=8),
    st.lists(st.integers(0, 999), min_size=8, max_size=8),
    st.integers(31, 60),
)
@settings(max_examples=cases(12), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_beyond_the_exact_budget_pods_differ_by_their_band_alone(
    priorities: list[int], others: list[int], grace: int
) -> None:
    """Any two nodes whose Pods have priorities of one band: every answer about one is that about the other."""
    one, other = (Tenant(of_others(found, 8, g), ONLY_COARSE) for found, g in ((priorities, 60), (others, grace)))
    assert enumerated(one, 8) == enumerated(other, 8)


def test_beyond_the_exact_budget_answers_are_in_ranges() -> None:
    tenant = Tenant(of_others([-5, 3, 3, 1500, 1600, 1700, 1800], 2, 45), ONLY_COARSE)
    answers = enumerated(tenant, 7)
    assert len(set(answers)) == 3
    texts = [json.loads(answer)["warnings"][0] for answer in answers]
    fix = "Fix: lower requests or priority [preempts-running-pods]"
    assert texts[-1] == (f"would preempt more than 5 Pods of other namespaces. {fix}")
    assert texts[0] == (f"would preempt 1 to 5 Pods of other namespaces (priority 0 to 999, not recreated). {fix}")
    (patch,) = json.loads(answers[-1])["written"]
    assert json.loads(patch["value"]["forewarn.dev/preemption-impact"]) == {
        "cascade": {"notReplaced": 6},
        "coarse": True,
        "preemptions": [
            {
                "byChance": True,
                "pdbViolations": 1,
                "unnamedPriorities": [None, 999_999],
                "unnamedVictims": 6,
                "victims": [],
            }
        ],
        "priority": 10_000,
    }


def test_the_audit_annotations_stay_exact_however_often_somebody_asks() -> None:
    exact, spent = (Tenant(of_others([3, 4, 5]), budget) for budget in (UNLIMITED, NOTHING))
    audits = [t.answer(Hook.VALIDATE, question(3000, "node", HIGH).obj)["auditAnnotations"] for t in (exact, spent)]
    key = "preempts-running-pods"
    assert audits[0].items() - {(key, audits[0][key])} == audits[1].items() - {(key, audits[1][key])}
    assert audits[1][key] == f"the prediction was not shown to the requester: {SPENT}; {audits[0][key]}"
    assert ": payroll/wages-2 and" in audits[1][key]


@given(st.lists(st.integers(-2000, 9000), max_size=9), st.integers(0, 9), st.integers(0, 10_000))
@settings(max_examples=cases(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_beyond_the_whole_budget_no_answer_depends_on_others(priorities: list[int], protected: int, cpu: int) -> None:
    """Whatever others run and whatever is asked: the answer about them is the one about an empty node."""
    made = (question(cpu, "node", HIGH), question(cpu), {**deployment(), "spec": _replicated(cpu)})
    for asked in made:
        crowded, empty = (Tenant(of_others(p, protected), NOTHING).read(asked) for p in (priorities or [1], [10**9]))
        assert crowded == empty
        assert f"not predicted: {SPENT}. Fix: try again later [preempts-running-pods]" in crowded
        assert f'{{\\"notPredicted\\":\\"{SPENT}\\"}}' in crowded


def _replicated(cpu: int) -> Obj:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": question(cpu, "", HIGH).obj["spec"]}
    return {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}


# The names of hidden Pods

NAMES = [f"{name}-{number}" for name in ("wages", "ledger", "audit", "tax", "bonus") for number in range(10_000)]
POD_NAME = "statefulset.kubernetes.io/pod-name"


def of_names(names: Sequence[str]) -> ClusterSnapshot:
    made: list[Made] = [make_node("node").has(cpu="16").label("kubernetes.io/hostname", "node")]
    made += [make_pod(name, OTHER).label(POD_NAME, name).on("node") for name in names]
    return cluster(
        *(each.obj for each in made), {**make_pod("x").obj, "kind": "Namespace", "metadata": {"name": OTHER}}
    )


def near(names: Sequence[str], **where: Any) -> Made:
    """A Pod that has to run beside a Pod of one of these names."""
    expressions = [{"key": POD_NAME, "operator": "In", "values": list(names)}]
    term = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": "kubernetes.io/hostname", **where}
    return question(10).affinity("podAffinity", term)


def found_by_groups(tenant: Tenant, names: Sequence[str]) -> list[str]:
    """The names that exist, by halves of groups beside one of which a Pod would fit."""

    def within(group: Sequence[str]) -> list[str]:
        if '"warnings": null' not in tenant.read(near(group, namespaces=[OTHER])):
            return []
        if len(group) == 1:
            return [*group]
        half = len(group) // 2
        return within(group[:half]) + within(group[half:])

    return [name for start in range(0, len(names), 1_000) for name in within(names[start : start + 1_000])]


HIDDEN = ["wages-17", "wages-4711", "ledger-0", "audit-9999", "tax-1234", "bonus-7", "bonus-5000"]


def test_who_may_list_the_pods_finds_them_by_groups_of_names() -> None:
    tenant = Tenant(of_names(HIDDEN), UNLIMITED, Rights("kim"))
    assert found_by_groups(tenant, NAMES) == HIDDEN
    assert tenant.asked < 250


def test_who_may_not_list_the_pods_finds_none_of_50_000_names() -> None:
    for rights in (Rights(), None):
        tenant = Tenant(of_names(HIDDEN), UNLIMITED, rights)
        assert found_by_groups(tenant, NAMES) == []
        assert tenant.read(near(HIDDEN, namespaces=[OTHER])) == tenant.read(near(["nobody"], namespaces=[OTHER]))


TERMS: list[tuple[str, Callable[[Obj], Obj]]] = [
    ("podAffinity", lambda term: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}),
    ("podAntiAffinity", lambda term: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}),
    (
        "podAffinity",
        lambda term: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]},
    ),
    (
        "podAntiAffinity",
        lambda term: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]},
    ),
]
ABOUT_OTHERS: list[Obj] = [
    {"namespaces": [OTHER]},
    {"namespaces": [OWN, OTHER]},
    {"namespaceSelector": {}},
    {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": OTHER}}},
    {"namespaces": [f"space-{number}" for number in range(9)]},
]


@pytest.mark.parametrize(("kind", "terms"), TERMS)
@pytest.mark.parametrize("where", [*ABOUT_OTHERS, {}, {"namespaces": [OWN]}])
@pytest.mark.parametrize("replicated", [False, True])
def test_affinity_to_other_namespaces_is_not_predicted(
    kind: str, terms: Callable[[Obj], Obj], where: Obj, replicated: bool
) -> None:
    term = {"labelSelector": {"matchLabels": {POD_NAME: "wages-1"}}, "topologyKey": "kubernetes.io/hostname", **where}
    spec = question(10).obj["spec"] | {"affinity": {kind: terms(term)}}
    asked = question(10).obj | {"spec": spec}
    if replicated:
        asked = deployment() | {"spec": {**_replicated(1), "template": {"metadata": {}, "spec": spec}}}
    answers = [Tenant(of_names(names), UNLIMITED).read(asked) for names in (HIDDEN, ["wages-1"])]
    hidden = where in ABOUT_OTHERS
    assert (f"not predicted: {UNREADABLE}. {FIX} [preempts-running-pods]" in answers[0]) is hidden
    assert (f'{{\\"notPredicted\\":\\"{OF_OTHERS}\\"}}' in answers[0]) is hidden
    assert not hidden or answers[0] == answers[1]


@pytest.mark.parametrize("action", ["fits-nowhere", "preempts-running-pods"])
def test_a_rule_that_denies_goes_on_denying_and_says_no_more(action: str) -> None:
    config = Config(actions={action: Action.DENY})
    state = of_others([1, 2, 3]) if action == "preempts-running-pods" else of_names(HIDDEN)
    asked = question(3000, "node", HIGH) if action == "preempts-running-pods" else near(["nobody"], namespaces=[OTHER])
    told = json.loads(Tenant(state, NOTHING, config=config).read(asked))
    why = SPENT if action == "preempts-running-pods" else UNREADABLE
    assert not told["allowed"]
    assert told["status"]["message"] == (
        f"denied by this rule because of the prediction; prediction not shown: {why} [{action}]"
    )


# Whose rights are asked about, and when


@pytest.mark.parametrize(
    ("where", "namespaces"),
    [
        ({"namespaces": [OTHER]}, [OTHER]),
        ({"namespaces": ["b", OTHER, "a", OWN]}, ["a", "b", OTHER]),
        ({"namespaceSelector": {}}, [None]),
        ({"namespaces": [OTHER], "namespaceSelector": {"matchLabels": {"a": "b"}}}, [None]),
        ({"namespaces": ["a", "b", "c", "d", "e"]}, [None]),
        ({}, []),
    ],
)
def test_the_right_to_list_pods_is_asked_about_once_and_only_for_other_namespaces(
    where: Obj, namespaces: list[str | None]
) -> None:
    rights = Rights("kim")
    tenant = Tenant(of_names(HIDDEN), UNLIMITED, rights)
    for _ in range(2):
        told = tenant.read(near([HIDDEN[0], "other"], **where))
        assert UNREADABLE not in told
    asked = [review["spec"]["resourceAttributes"].get("namespace") for review in rights.asked]
    assert asked == namespaces


def test_what_a_controller_is_answered_is_never_everything() -> None:
    """The text of a denial becomes an Event of the namespace."""
    config = Config(
        actions={"preempts-running-pods": Action.DENY}, disclose_to=DiscloseTo((), subject_access_review=True)
    )
    tenant = Tenant(of_others([1, 2]), rights=Rights("kim"), config=config)
    assert "payroll/wages-0" in tenant.read(question(1000, "node", HIGH))
    assert "payroll/wages-0" not in tenant.read(question(1000, "node", HIGH).metadata(ownerReferences=[OWNER]))


def test_where_the_api_server_cannot_be_asked_nothing_is_predicted() -> None:
    rights = Rights("kim")
    rights.fault = TimeoutError()
    assert UNREADABLE in Tenant(of_names(HIDDEN), UNLIMITED, rights).read(near(HIDDEN, namespaces=[OTHER]))


def test_the_annotation_says_nothing_of_other_namespaces_whoever_asked() -> None:
    """Everybody in the namespace reads it."""
    for rights, groups in ((Rights("kim"), []), (None, ["system:masters"])):
        tenant = Tenant(of_names(HIDDEN), UNLIMITED, rights)
        tenant.groups = groups
        for name in ("nobody", "somebody"):  # the second time his right is known
            told = tenant.read(near([name], namespaces=[OTHER]))
            assert "stays Pending even with preemption: 0/1 nodes fit" in told
            assert OF_OTHERS in told


def test_who_has_asked_often_for_pods_beside_others_is_asked_about_too() -> None:
    tenant = Tenant(of_names(HIDDEN), SMALL, Rights("kim"))
    _asks(tenant, 2)
    told = [tenant.read(near([f"name-{number}"], namespaces=[OTHER])) for number in range(5)]
    assert not [answer for answer in told if "stays Pending even with preemption: 0/1 nodes fit" not in answer]


def test_a_workload_that_is_scaled_is_not_predicted_either() -> None:
    stored = deployment() | {"metadata": {"name": "web", "namespace": OWN}}
    stored["spec"]["template"]["spec"] = near(["nobody"], namespaces=[OTHER]).obj["spec"]
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}, "spec": {"replicas": 5}}
    state = cluster(make_node("node").has(cpu="16").obj, stored)
    for rights, hidden in ((Rights(), True), (Rights("kim"), False)):
        tenant = Tenant(state, UNLIMITED, rights)
        given = {"operation": "UPDATE", "subResource": "scale", "name": "web", "oldObject": scale}
        told = tenant.answer(Hook.VALIDATE, scale, **given)["warnings"]
        assert (f"not predicted: {UNREADABLE}. {FIX} [preempts-running-pods]" in told) is hidden


# Whose budget it is


def _asks(tenant: Tenant, times: int) -> list[str]:
    return [tenant.read(question(1 + tenant.asked, "node", HIGH)) for _ in range(times)]


SMALL = PredictionBudget(Budget(2, 2), Budget(6, 6))


def _details(answers: list[str]) -> str:
    return "".join("n" if SPENT in told else "c" if '\\"coarse\\":true' in told else "e" for told in answers)


def test_answers_are_exact_then_coarse_then_none_and_recover_over_the_hour() -> None:
    tenant = Tenant(of_others([1, 2]), SMALL)
    assert _details(_asks(tenant, 6)) == "eeccnn"
    tenant.now = 1800.0
    assert _details(_asks(tenant, 3)) == "ecn"
    tenant.now = 9000.0
    assert _details(_asks(tenant, 6)) == "eeccnn"
    assert [tenant.shown(detail) for detail in ("exact", "coarse", "budget", "affinity")] == [10, 10, 10, 0]


def test_two_users_have_a_budget_each_and_their_namespace_one() -> None:
    tenant = Tenant(of_others([1, 2]), SMALL)
    told = []
    for number in range(5):
        tenant.user = f"user-{number}"
        told.append(_details(_asks(tenant, 4)))
    assert told == ["eecc", "eecc", "eecc", "nnnn", "nnnn"]


OPERATOR = "system:serviceaccount:argo:workflow-controller"


@pytest.mark.parametrize(
    ("user", "rights", "details"),
    [
        (CONTROLLER, None, ("eeeeeeccccccn", "eeccn")),
        ("system:kube-controller-manager", None, ("eeeeeeccccccn", "eeccn")),
        (OPERATOR, Rights(OPERATOR), ("eeeeeeeeccccc", "eeccn")),
        (OPERATOR, Rights(), ("eeccnnnnnnnnn", "eeccn")),
        ("kim", Rights(), ("eeccnnnnnnnnn", "nnnnn")),
    ],
)
def test_only_controllers_take_nothing_from_what_people_ask(
    user: str, rights: Rights | None, details: tuple[str, str]
) -> None:
    """Anybody can write an owner reference. A controller is in kube-system, or may list the Pods of all namespaces."""
    tenant = Tenant(of_others([1, 2]), SMALL, rights)
    tenant.user = user
    told = [tenant.read(question(n, "node", HIGH).metadata(ownerReferences=[OWNER])) for n in range(1, 14)]
    tenant.user = "kim"
    assert (_details(told), _details(_asks(tenant, 5))) == details


@pytest.mark.parametrize(
    ("user", "groups", "rights", "details"),
    [
        ("kim", ["system:masters"], None, "eeeeee"),
        ("kim", [], Rights("kim"), "eeeeee"),
        ("kim", [], Rights(), "eeccnn"),
        ("system:serviceaccount:gitops:syncer", [], Rights("system:serviceaccount:gitops:syncer"), 14 * "e" + 3 * "c"),
    ],
)
def test_who_may_list_all_pods_is_exempt(user: str, groups: list[str], rights: Rights | None, details: str) -> None:
    """But for what service accounts leave on objects: those who make them ask read it."""
    tenant = Tenant(of_others([1, 2]), SMALL, rights)
    tenant.user, tenant.groups = user, groups
    assert _details(_asks(tenant, len(details))) == details


def test_within_the_budget_nobody_is_asked_about() -> None:
    rights = Rights()
    _asks(Tenant(of_others([1, 2]), None, rights), 50)
    assert rights.asked == []


def test_what_brings_no_pod_takes_nothing() -> None:
    tenant = Tenant(of_others([1, 2]), SMALL)
    web = deployment() | {"metadata": {"name": "web", "namespace": OWN}}
    web["spec"]["replicas"] = 0
    for number in range(20):
        web["metadata"]["labels"] = {"n": str(number)}
        tenant.read(web)
    assert _details(_asks(tenant, 2)) == "ee"


def test_the_same_answer_again_takes_nothing_and_says_no_more() -> None:
    tenant = Tenant(of_others([1, 2]), SMALL)
    told = {tenant.read(question(1, "node", HIGH)) for _ in range(10)}
    assert len(told) <= 2  # one line of a warning again and again is shortened
    assert tenant.shown("exact") + tenant.shown("coarse") <= 2 * 4


def test_an_account_that_applies_hundreds_of_objects_an_hour_is_always_answered() -> None:
    tenant = Tenant(of_others([1, 2]))
    told = []
    for number in range(450):
        tenant.now = number * 8.0  # 450 an hour
        told.append(tenant.read(question(1 + number, "node", HIGH)))
    assert "n" not in _details(told)


def test_numbers_are_in_their_ranges() -> None:
    counts = [count_range(number) for number in range(100)]
    assert [counts.count(found) for found in dict.fromkeys(counts)] == [1, 5, 94]
    for before, after in pairwise(range(700)):
        ends = [10**9 if (end := seconds_range(seconds).highest) is None else end for seconds in (before, after)]
        assert after <= ends[1] <= max(after + 29, 300) or after > 300
        assert ends[0] <= ends[1]
    assert [priority_range(a, b) for a, b in ((-7, -1), (0, 999), (-1, 1000), (5, 2 * 10**9))] == [
        (None, -1),
        (0, 999),
        (None, 999_999),
        (0, None),
    ]
