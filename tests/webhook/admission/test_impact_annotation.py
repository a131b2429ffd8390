"""Predictions at the webhook: the annotation, the audit annotation, the warning."""

from __future__ import annotations

import json
import re
from functools import partial
from itertools import chain, repeat
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.base.disclosure import Disclose
from forewarn.policies.base.findings import Action
from forewarn.policies.kubernetes.objects.fields import at
from forewarn.policies.kubernetes.objects.patches import PatchOperation, apply_patch
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.linting.config.load import read_config
from forewarn.policies.linting.config.model import Config
from forewarn.policies.prediction.forecast.forecast import Forecast
from forewarn.policies.prediction.forecast.impact import Impact
from forewarn.webhook.admission.decide import decide
from forewarn.webhook.admission.impact_annotation import ANNOTATION, PATH, Impacts, ReinvocationCache, text_of
from forewarn.webhook.admission.impact_annotation import written as written_on
from forewarn.webhook.admission.prediction_access import ReviewContext, Time
from forewarn.webhook.admission.review import AdmissionCall, Hook, parse_review
from tests.webhook import builders
from tests.webhook.builders import NOW, answer_now, cluster, deployment, endpoint, patch_of, pod, review
from tests.webhook.running import running

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.webhook.admission.decision import Decision

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node-1"},
    "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}},
}


def decided(hook: Hook, given: dict[str, Any], **how: Any) -> Decision:
    """The decision where everything may be told by name: test_disclosure.py has the other choices."""
    config = how.pop("config", Config())
    return builders.decided(hook, given, config=config._replace(disclose=Disclose.NAMES), **how)


def _with_cpu(obj: dict[str, Any], cpu: str) -> dict[str, Any]:
    spec = obj["spec"]["template"]["spec"] if "template" in obj["spec"] else obj["spec"]
    spec["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return obj


VICTIM = _with_cpu(pod(priority=0, name="victim", namespace="batch"), "1")
VICTIM["spec"]["nodeName"] = "node-1"
STATE = cluster(NODE, VICTIM)
IMPACT = {
    "cascade": {"notReplaced": 1},
    "newPods": 1,
    "predicted": 1,
    "preemptions": [{"node": "node-1", "pdbViolations": 0, "victims": ["batch/victim"]}],
    "priority": 1000,
}


def _annotation(given: dict[str, Any], **how: Any) -> Any:
    """The annotation that the object has after `/mutate`."""
    patched = apply_patch(
        given["request"]["object"], decided(Hook.MUTATE, given, **{"state": STATE, **how}).response.patch
    )
    return patched["metadata"].get("annotations", {}).get(ANNOTATION)


@pytest.mark.parametrize("obj", [_with_cpu(pod("gold"), "1"), _with_cpu(deployment(), "1")], ids=["pod", "deployment"])
def test_an_object_that_pushes_others_out_says_so_in_its_annotation(obj: dict[str, Any]) -> None:
    assert json.loads(_annotation(review(obj))) == IMPACT


def test_the_annotation_joins_those_that_are_there() -> None:
    obj = _with_cpu(pod("gold", annotations={"a": "b"}), "1")
    patched = apply_patch(obj, decided(Hook.MUTATE, review(obj), state=STATE).response.patch)
    assert patched["metadata"]["annotations"] == {"a": "b", ANNOTATION: text_of(IMPACT)}


@pytest.mark.parametrize(
    ("annotate", "kinds"),
    [("all", {"Pod", "Deployment"}), ("pods", {"Pod"}), ("workloads", {"Deployment"}), ("off", set())],
)
def test_configuration_says_who_is_annotated(annotate: str, kinds: set[str]) -> None:
    config = read_config(f"annotate: {annotate}", "c")
    objects = (_with_cpu(pod("gold"), "1"), _with_cpu(deployment(), "1"))
    assert {obj["kind"] for obj in objects if _annotation(review(obj), config=config)} == kinds


def test_asking_again_changes_nothing() -> None:
    obj = _with_cpu(pod("gold"), "1")
    patched = apply_patch(obj, decided(Hook.MUTATE, review(obj), state=STATE).response.patch)
    assert decided(Hook.MUTATE, review(patched), state=STATE).response.patch == ()


def test_what_harms_nobody_is_not_annotated_and_an_old_annotation_goes() -> None:
    assert _annotation(review(_with_cpu(pod(), "0"))) is None
    stale = _with_cpu(pod("gold", annotations={ANNOTATION: "{}"}), "0")
    assert _annotation(review(stale)) is None


def test_an_update_that_brings_no_pod_changes_nothing() -> None:
    running = _with_cpu(pod("gold", 1000, labels={"app": "web"}), "1")
    running["spec"]["nodeName"] = "node-1"
    obj = _with_cpu(deployment(), "1")
    given = review(obj, "UPDATE", oldObject=obj)
    assert decided(Hook.MUTATE, given, state=cluster(NODE, running)).response.patch == ()


def test_more_replicas_are_new_pods_by_scale_too() -> None:
    old = _with_cpu(deployment(), "1")
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "team"}}
    old["spec"]["replicas"] = 0
    given = review(scale | {"spec": {"replicas": 1}}, "UPDATE", subResource="scale", name="web", namespace="team")
    warned = decided(Hook.VALIDATE, given, state=cluster(NODE, VICTIM, old)).response.warnings
    assert [w for w in warned if "would preempt 1 Pod on node-1" in w]


def test_a_suspended_job_brings_its_pods_when_it_is_let_go() -> None:
    going = _with_cpu(deployment(), "1") | {"apiVersion": "batch/v1", "kind": "Job"}
    waiting = {**going, "spec": {**going["spec"], "suspend": True}}
    assert _annotation(review(waiting)) is None
    assert json.loads(_annotation(review(going, "UPDATE", oldObject=waiting))) == IMPACT


def test_a_pod_that_waited_behind_gates_is_predicted_when_the_last_of_them_goes() -> None:
    free = _with_cpu(pod("gold", 1000), "1")
    gated, twice = (
        {**free, "spec": {**free["spec"], "schedulingGates": [{"name": name} for name in names]}}
        for names in ("a", "ab")
    )
    assert _annotation(review(gated)) is None
    assert _annotation(review(gated, "UPDATE", oldObject=twice)) is None
    let_go = review(free, "UPDATE", oldObject=gated)
    assert json.loads(_annotation(let_go)) == IMPACT
    decision = decided(Hook.VALIDATE, let_go, state=STATE)
    assert [w for w in decision.response.warnings if "would preempt 1 Pod on node-1" in w]
    assert decided(Hook.VALIDATE, review(free, "UPDATE", oldObject=free), state=STATE).response.warnings == ()


def test_the_verdict_carries_the_impact_for_the_audit_log() -> None:
    obj = _with_cpu(deployment(), "1")
    response = decided(Hook.VALIDATE, review(obj), state=STATE).response
    assert json.loads(response.audit["preemption-impact"]) == IMPACT
    (warning,) = response.warnings
    assert warning.startswith("would preempt 1 Pod on node-1: batch/victim (priority 0, not recreated, 30s grace).")


def test_without_time_nothing_is_predicted_and_that_is_said() -> None:
    obj = _with_cpu(deployment(), "1")
    obj["spec"]["replicas"] = 5
    response = decided(Hook.VALIDATE, review(obj), state=STATE, expired=True).response
    said = "time ran out: each of 5 new Pods may preempt other Pods."
    assert response.warnings == (f"{said} Fix: run `forewarn predict` [prediction-incomplete]",)
    told = {"priority": 1000, "newPods": 5, "predicted": 0, "incomplete": True}
    assert json.loads(response.audit["preemption-impact"]) == told
    assert json.loads(_annotation(review(obj), expired=True)) == told


@pytest.mark.parametrize("cpu", ["1", "2"], ids=["preempts", "pending"])
@pytest.mark.parametrize("obj", [pod("gold", 1000), deployment()], ids=["pod", "deployment"])
def test_what_is_predicted_by_late_cluster_state_says_so(obj: dict[str, Any], cpu: str) -> None:
    given, said = review(_with_cpu(obj, cpu)), "no news for 130 s"
    for staleness in ("", said):
        response = decided(Hook.VALIDATE, given, state=STATE, staleness=staleness).response
        (warning,) = response.warnings
        assert (". The cluster state is stale. " in warning) == bool(staleness)
        told = json.loads(response.audit["preemption-impact"])
        assert told.pop("staleCache", False) is bool(staleness)
        assert "staleCache" not in told
        assert response.audit.get("stale-cache", "") == staleness
        assert json.loads(_annotation(given, staleness=staleness)) == {
            **told,
            **({"staleCache": True} if staleness else {}),
        }
    harmless = review(_with_cpu(pod("gold"), "0"))
    assert _annotation(harmless, staleness=said) is None


@pytest.mark.parametrize(
    ("cpus", "said", "rule"),
    [
        ("1", ". Time ran out after 1 of 5 new Pods. Fix: ", "preempts-running-pods"),
        ("2", "time ran out after 1 of 5 new Pods; no preemption until then", "prediction-incomplete"),
    ],
)
@pytest.mark.parametrize("action", [Action.WARN, Action.DENY])
def test_a_prediction_that_was_cut_short_says_how_far_it_came(cpus: str, said: str, rule: str, action: Action) -> None:
    """Pods that spread over two things at once are predicted one by one. What is not predicted is never denied."""
    obj = _with_cpu(deployment(), "1")
    obj["spec"]["replicas"] = 5
    spread = {"maxSkew": 9, "topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    obj["spec"]["template"]["spec"]["topologySpreadConstraints"] = [spread, {**spread, "topologyKey": "zone"}]
    node = {**NODE, "metadata": {"name": "node-1", "labels": {"host": "node-1", "zone": "a"}}}
    node["status"] = {"allocatable": {"cpu": cpus, "memory": "1Gi", "pods": "10"}}
    asked = chain([False], repeat(True))
    config, state = Config(actions={"preempts-running-pods": action}), cluster(node, VICTIM)
    response = decided(Hook.VALIDATE, review(obj), state=state, config=config, expired=lambda: next(asked)).response
    assert response.allowed is (action is Action.WARN or rule == "prediction-incomplete")
    told = response.warnings[0] if response.allowed else response.message
    assert said in told
    assert told.endswith(f" [{rule}]")
    assert json.loads(response.audit["preemption-impact"])["incomplete"] is True


def test_the_annotation_stays_small_whatever_happens() -> None:
    """An object's annotations hold 256 KiB in all: a long list would have the object refused."""
    nodes = [{**NODE, "metadata": {"name": f"node-{number}"}} for number in range(40)]
    victims = [
        {**_with_cpu(pod(priority=0, name=f"victim-{number}", namespace="batch"), "20m")} for number in range(2000)
    ]
    for number, victim in enumerate(victims):
        victim["spec"] = {**victim["spec"], "nodeName": f"node-{number % 40}"}
    obj = _with_cpu(deployment(), "1")
    obj["spec"]["replicas"] = 30
    told = json.loads(_annotation(review(obj), state=cluster(*nodes, *victims)))
    assert (len(told["preemptions"]), told["morePreemptions"], told["newPods"]) == (10, 20, 30)
    first = told["preemptions"][0]
    assert (len(first["victims"]), first["moreVictims"]) == (10, 40)
    assert (len(first["orAnyOf"]), first["moreNodes"]) == (10, 30)
    assert len(json.dumps(told)) < 10_000


def _replicas(count: int, cpu: str) -> dict[str, Any]:
    obj = _with_cpu(deployment(), cpu)
    obj["spec"]["replicas"] = count
    return obj


@pytest.mark.parametrize(
    ("obj", "seconds", "outcome"),
    [
        (_with_cpu(pod("gold", 1000), "1"), 0, "preempts"),
        (_with_cpu(deployment(), "1"), 0, "preempts"),
        (_with_cpu(pod("gold", 1000), "2"), 0, "pending"),
        (_with_cpu(pod("gold", 1000), "0"), 0, "no-preemption"),
        (_replicas(5, "0"), 100, "incomplete"),  # nothing is found so far, which does not mean that nobody goes
        (_replicas(5, "1"), 100, "incomplete"),
        ({**pod("gold", 1000), "spec": {**pod("gold", 1000)["spec"], "schedulerName": "other"}}, 0, None),
    ],
)
@pytest.mark.parametrize("actions", ["warn", "audit"])
def test_a_prediction_is_counted_once_and_as_what_it_came_to(
    obj: dict[str, Any], seconds: float, outcome: str | None, actions: str
) -> None:
    config = read_config(f"actions: {{preempts-running-pods: {actions}, fits-nowhere: {actions}}}", "c")
    asked = endpoint(lambda: STATE, lambda: config)
    for hook in Hook:
        reply = answer_now(asked, AdmissionCall(hook, json.dumps(review(obj)).encode(), monotonic() - seconds, "10s"))
        assert json.loads(reply.body)["response"]["allowed"]
    told = asked.metrics.exposition("")[0].decode()
    counted = re.findall(r'^forewarn_predictions_total{outcome="(.*)"} ([1-9].*)$', told, re.MULTILINE)
    assert counted == ([(outcome, "1.0")] if outcome else [])
    assert f"forewarn_prediction_duration_seconds_count {len(counted)}.0" in told


def test_what_brings_no_pod_counts_as_no_prediction() -> None:
    asked = endpoint(lambda: STATE)
    obj = deployment()
    answer_now(
        asked, AdmissionCall(Hook.VALIDATE, json.dumps(review(obj, "UPDATE", oldObject=obj)).encode(), monotonic())
    )
    told = asked.metrics.exposition("")[0].decode()
    assert not re.findall(r"^forewarn_predictions_total{.*} [1-9]", told, re.MULTILINE)


class CountingMemory:
    """A memory that is told what is worked out: "1", "2", …"""

    def __init__(self) -> None:
        self.now, self.worked = 0.0, 0
        self._memory = ReinvocationCache(lambda: self.now, seconds=30)

    def about(self, obj: dict[str, Any], text: str | None = None) -> str | None:
        """What is to be written on an object that carries this text."""
        carried = {} if text is None else {ANNOTATION: text}
        obj = {
            **obj,
            "metadata": {**obj["metadata"], "annotations": {**obj["metadata"].get("annotations", {}), **carried}},
        }
        worked = self.worked
        text = self._memory.recall(_subject(obj), self._work_out)
        if text and self.worked > worked:
            self._memory.note(written_on(_subject(obj), text))
        return text

    def _work_out(self) -> str:
        self.worked += 1
        return str(self.worked)


def test_an_object_that_comes_back_with_what_was_written_on_it_keeps_that_for_a_while() -> None:
    asked, obj = CountingMemory(), _with_cpu(pod("gold"), "1")
    assert asked.about(obj) == "1"
    asked.now = 29
    assert asked.about(obj, "1") == "1"
    resolved = {**obj, "spec": {**obj["spec"], "priority": 1000, "preemptionPolicy": "PreemptLowerPriority"}}
    assert asked.about(resolved, "1") == "1"
    asked.now = 31
    assert asked.about(obj, "1") == "2"


def test_an_object_without_our_annotation_is_a_new_one_though_it_looks_like_one_before() -> None:
    asked, obj = CountingMemory(), _with_cpu(pod("gold"), "1")
    obj["metadata"] = {"generateName": "web-", "namespace": "team"}
    assert [asked.about(obj), asked.about(obj), asked.about(obj)] == ["1", "2", "3"]
    assert asked.about(obj, "a text of somebody else") == "4"


GENERATED = {**pod("gold"), "metadata": {"generateName": "web-", "namespace": "team", "labels": {"app": "web"}}}
TEMPLATE = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t", "namespace": "team"}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (GENERATED, {**GENERATED, "metadata": {**GENERATED["metadata"], "labels": {"app": "search"}}}),
        (GENERATED, {**GENERATED, "metadata": {**GENERATED["metadata"], "annotations": {"a": "b"}}}),
        (GENERATED, {**GENERATED, "metadata": {**GENERATED["metadata"], "generateName": "search-"}}),
        (GENERATED, {**GENERATED, "spec": {"containers": [*GENERATED["spec"]["containers"], {"name": "sidecar"}]}}),
        (TEMPLATE | {"template": {"spec": pod()["spec"]}}, TEMPLATE | {"template": {"spec": pod("gold")["spec"]}}),
        (deployment(), {**deployment(), "spec": {**deployment()["spec"], "replicas": 2}}),
    ],
    ids=["labels", "annotations", "name", "a sidecar", "a PodTemplate's template", "replicas"],
)
def test_an_annotation_is_not_kept_on_an_object_that_is_another_one(one: dict[str, Any], other: dict[str, Any]) -> None:
    asked = CountingMemory()
    assert asked.about(one) == "1"
    assert asked.about(other, "1") == "2"
    assert asked.about(one, "1") == "1"


def test_the_second_pod_of_a_controller_is_told_that_the_cluster_is_full_by_now() -> None:
    recall = ReinvocationCache(monotonic).recall
    obj = {**_with_cpu(pod("gold"), "1"), "metadata": {"generateName": "web-", "namespace": "team"}}
    request = parse_review(json.dumps(review(obj)).encode())
    filled = _with_cpu(pod(priority=1000, name="web-1"), "1")
    filled["spec"]["nodeName"] = "node-1"

    def written(state: ClusterSnapshot) -> Any:
        decision = decide(ReviewContext(request, Hook.MUTATE, state, Config(), Time(NOW, lambda: False), recall=recall))
        return at(apply_patch(obj, decision.response.patch), *PATH)

    assert written(cluster(NODE)) is None
    assert json.loads(written(cluster(NODE, filled)))["pending"] == 1


def test_what_a_dry_run_was_told_is_not_remembered() -> None:
    asked: list[Any] = []

    def recall(subject: ReviewedObject, work_out: Callable[[], str | None]) -> str | None:
        asked.append(subject)
        return work_out()

    obj = _with_cpu(pod("gold"), "1")
    for dry_run in (True, False):
        request = parse_review(json.dumps(review(obj, dryRun=dry_run)).encode())
        decide(ReviewContext(request, Hook.MUTATE, STATE, Config(), Time(NOW, lambda: False), recall=recall))
    assert len(asked) == 1


def _subject(obj: dict[str, Any]) -> Any:
    return parse_review(json.dumps(review(obj)).encode()).subject


def test_what_a_limit_range_gives_to_a_template_counts_and_a_pod_has_it_already() -> None:
    limits = [{"type": "Container", "defaultRequest": {"cpu": "1"}}]
    metadata = {"name": "defaults", "namespace": deployment()["metadata"]["namespace"]}
    given = {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": limits}}
    assert _annotation(review(deployment())) is None
    state = cluster(NODE, VICTIM, given)
    assert json.loads(_annotation(review(deployment()), state=state)) == IMPACT
    assert _annotation(review(pod("gold")), state=state) is None


def test_a_custom_workload_whose_class_is_not_there_is_warned_of_and_brings_no_pods() -> None:
    """Its pods cannot be made up: nothing is predicted, and nothing breaks."""
    config = read_config("podTemplatePaths: {argoproj.io/Rollout: spec.template}", "c")
    obj = _with_cpu(deployment("nothing"), "1") | {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}
    given = review(obj | {"kind": "Deployment"})
    given["request"] |= {"kind": {"group": "argoproj.io", "version": "v1alpha1", "kind": "Rollout"}, "object": obj}
    (warning,) = decided(Hook.VALIDATE, given, state=STATE, config=config).response.warnings
    assert warning.endswith("[unknown-priority-class]")
    assert decided(Hook.MUTATE, given, state=STATE, config=config).response.patch == ()


def _generated() -> dict[str, Any]:
    """A pod of a controller: its name is made between the two calls."""
    obj = _with_cpu(pod("gold", 1000), "1")
    metadata = {k: v for k, v in obj["metadata"].items() if k != "name"}
    return obj | {"metadata": {**metadata, "generateName": "web-abc-"}, "status": {}}


@pytest.mark.parametrize(
    "obj",
    [
        _with_cpu(deployment(), "1"),
        _with_cpu(pod("gold", 1000), "1"),
        _with_cpu(pod("gold"), "1"),
        _generated(),
    ],
    ids=["workload", "pod", "pod whose priority is resolved anew", "generated name"],
)
def test_validate_takes_what_mutate_has_predicted_while_nothing_changes(
    obj: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the API server asks: patched, with what it adds to a new object, by a request of another uid."""
    predicted: list[Any] = []
    of = Forecast.predict_impact

    def counted(self: Forecast, subject: ReviewedObject, *more: Any) -> Impact | None:
        predicted.append(subject)
        return of(self, subject, *more)

    monkeypatch.setattr(Forecast, "predict_impact", counted)
    states = [STATE]
    with running(endpoint(lambda: states[-1])) as served:

        def admitted() -> Any:
            answer = served.post("/mutate", json.dumps(review(obj, uid="u1")).encode())[2]
            patch = [
                PatchOperation(
                    op["op"], tuple(s.replace("~1", "/") for s in op["path"].split("/")[1:]), op.get("value")
                )
                for op in patch_of(answer)
            ]
            stored = apply_patch(obj, patch)
            made = f"{obj['metadata'].get('generateName', '')}x7k2p"
            name = obj["metadata"].get("name", made)
            added = {"uid": made, "creationTimestamp": "2030-01-01T00:00:00Z", "generation": 1, "name": name}
            stored["metadata"] |= added
            if obj["kind"] == "Pod":
                stored["status"] = {"phase": "Pending", "qosClass": "Burstable"}
                stored["spec"] |= {"priority": 1000, "preemptionPolicy": "PreemptLowerPriority"}
            told = served.post("/validate", json.dumps(review(stored, uid="u2")).encode())[2]
            return json.loads(told)["response"]["warnings"]

        first = admitted()
        assert "would preempt 1 Pod" in first[0]
        assert len(predicted) == 1
        states.append(cluster(NODE, VICTIM))
        assert admitted() == first
        assert len(predicted) == 2


@pytest.mark.parametrize(
    ("other", "shared"),
    [
        ({"metadata": {"name": "web-abc-2", "uid": "other"}}, True),
        ({"metadata": {"labels": {"app": "other"}}}, False),
        ({"metadata": {"namespace": "elsewhere"}}, False),
        ({"status": {"nominatedNodeName": "node-1"}}, False),
        ({"spec": {"volumes": [{"name": "v", "ephemeral": {}}]}, "metadata": {"name": "web-abc-2"}}, False),
    ],
    ids=["another name", "other labels", "another namespace", "a status of its own", "claims of its own"],
)
def test_pods_that_are_alike_share_a_prediction(other: dict[str, Any], shared: bool) -> None:
    one = _generated()
    two = {**one, **{key: {**one[key], **part} for key, part in other.items()}}
    impacts, asked = Impacts(), list[str]()

    def work_out() -> None:
        asked.append("")

    for obj in (one, two):
        impacts.impact_of(parse_review(json.dumps(review(obj, name="")).encode()).subject, STATE, work_out)
    assert len(asked) == 2 - shared


def test_the_last_call_finds_the_impact_of_the_first_and_caches_none() -> None:
    impacts, computed = Impacts(), list[str]()

    def ask(name: str, *, is_last: bool) -> None:
        impacts.impact_of(_named(name), STATE, lambda: computed.append(name), is_last=is_last)

    for name, is_last in (("a", True), ("a", True), ("b", False), ("b", True), ("a", True), ("a", False)):
        ask(name, is_last=is_last)
    assert "".join(computed) == "aabaa"


def test_what_is_remembered_is_bounded_by_its_size() -> None:
    memory = ReinvocationCache(lambda: 0.0)
    subjects = [_named(f"w{number}") for number in range(200)]
    for subject in subjects:
        memory.note(written_on(subject, "x" * 100_000))
        memory.note(written_on(subject, "x" * 100_000))
    retained = [memory.recent(_carrying(subject, "x" * 100_000)) is not None for subject in subjects]
    assert sum(retained) == 83
    assert all(retained[-83:])


def _named(name: str) -> ReviewedObject:
    return ReviewedObject({**deployment("web"), "metadata": {"name": name, "namespace": "shop"}})


def _carrying(subject: ReviewedObject, text: str) -> ReviewedObject:
    metadata = {**subject.object["metadata"], "annotations": {ANNOTATION: text}}
    return subject._replace(object={**subject.object, "metadata": metadata})


def test_few_impacts_of_many_predictions_are_kept() -> None:
    impacts, asked = Impacts(), list[str]()

    def work_out(name: str) -> Impact:
        asked.append(name)
        return Impact((Prediction(STATE.scheduling, Pod.from_api(pod())),) * 2000, 2000, 0)

    names = ["a", "b", "c", "c", "b", "a"]
    for name in names:
        impacts.impact_of(_named(name), STATE, partial(work_out, name))
    assert asked == ["a", "b", "c", "a"]
