"""A prediction that is cut short is marked as incomplete, and no later request is answered with it."""

from __future__ import annotations

import json
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.linting.config.model import Config
from forewarn.webhook.admission.answer_cache import AnswerCache
from forewarn.webhook.admission.endpoint import Endpoint
from forewarn.webhook.admission.lanes import Cost
from forewarn.webhook.admission.prediction_access import PredictionProcess, Unanswered
from forewarn.webhook.admission.review import AdmissionCall, Hook
from tests.builders import Made, make_node
from tests.policies.test_rollouts import changed, deployment, rolling
from tests.webhook.builders import answer_now, cluster, endpoint, review

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Forking:
    """A process for each question, as it would be forked in the middle of the requests; None: there is none."""

    def __init__(self, *, answers: bool) -> None:
        self.answers, self.asked = answers, 0

    def ask(self, question: object, until: float, _state: object, run: Callable[[Any], Any]) -> Any:
        self.asked += 1
        if not self.answers:
            raise Unanswered("timed out")
        process = PredictionProcess(run)
        try:
            return process.ask(question, until)
        finally:
            process.end()


def world() -> tuple[list[Made], dict[str, Any]]:
    """A full cluster, and a Deployment of it that grows and gets a higher priority. The Pods that it lacks come first,
    of the old template, and the first of them stays Pending."""
    nodes = [f"n{number}" for number in range(4)]
    made = [*deployment("web", nodes, "1", 0, strategy=rolling(1, 0)), *map(make_node, nodes)]
    made += deployment("low", nodes * 3, "1", 0)
    change = changed(made, priority=200)
    change["spec"]["replicas"] = 12
    return made, change


def asked(made: Sequence[Made], change: dict[str, Any], predictors: Any) -> tuple[Endpoint, Callable[[], Any]]:
    """An endpoint that keeps no answer for long, and what it says of the change for programs."""
    config = Config()
    state, seconds = cluster(*(one.obj for one in made)), count(step=10)
    served = endpoint(
        lambda: state, lambda: config, predictors=predictors, answers=AnswerCache(lambda: float(next(seconds)))
    )
    body = json.dumps(review(change, "UPDATE", oldObject=made[0].obj)).encode()

    def impact() -> Any:
        reply = answer_now(served, AdmissionCall(Hook.VALIDATE, body, monotonic(), "30s"))
        audit = json.loads(reply.body)["response"]["auditAnnotations"]
        return json.loads(next(value for key, value in audit.items() if key.endswith("preemption-impact")))

    return served, impact


def runs_out(monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    """The time of the thread that judges is up after so many looks."""
    seconds = count(step=0.004 / looks)
    monkeypatch.setattr("forewarn.webhook.admission.lanes.thread_time", lambda: float(next(seconds)))


@pytest.mark.parametrize("answers", [True, False])
def test_the_same_review_has_the_same_answer_or_one_that_is_marked(
    answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "forewarn.webhook.admission.endpoint._MAX_SECONDS", dict.fromkeys(Cost, 30.0)
    )  # the machine may be busy
    made, change = world()
    complete = asked(made, change, None)[1]()
    assert complete["preemptions"]
    monkeypatch.setattr("forewarn.policies.base.metering.CHECK_INTERVAL", 50)
    predictors = Forking(answers=answers)
    _, impact = asked(made, change, predictors)
    for looks in (2, 3, 5, 8, 12, 20, 40, 60, 80, 100, 150, 200):
        runs_out(monkeypatch, looks)
        found = impact()
        assert found == complete or ("incomplete" in json.dumps(found) and not answers), looks
    assert predictors.asked == 12


def test_no_later_request_gets_what_was_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither from the impacts, nor from the answers that are kept for a moment."""
    made, change = world()
    complete = asked(made, change, None)[1]()
    monkeypatch.setattr("forewarn.policies.base.metering.CHECK_INTERVAL", 50)
    served, impact = asked(made, change, Forking(answers=False))
    for looks in (2, 20, 80):
        runs_out(monkeypatch, looks)
        assert impact() != complete
    runs_out(monkeypatch, 10**9)
    object.__setattr__(served, "answers", AnswerCache(lambda: 0.0))
    assert impact() == complete


@pytest.mark.parametrize(("timeout", "extra_seconds"), [("10s", 0.3), ("3s", 0.0)])
def test_a_process_whose_time_is_up_may_still_answer_if_the_api_server_waits(
    timeout: str, extra_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, change = world()
    times = list[float]()

    class Late(Forking):
        def ask(self, question: Any, until: float, _state: object, run: Callable[[Any], Any]) -> Any:
            times.append(until - question.at)
            raise Unanswered("timed out")

    served, _ = asked(made, change, Late(answers=False))
    runs_out(monkeypatch, 2)
    body = json.dumps(review(change, "UPDATE", oldObject=made[0].obj)).encode()
    answer_now(served, AdmissionCall(Hook.VALIDATE, body, monotonic(), timeout))
    assert times == [pytest.approx(extra_seconds)]
