"""Odds for people and programs, on a cluster of more nodes than the scheduler looks at."""

import pytest

from forewarn.policies.application.predict import predict
from forewarn.policies.forecast.placement import place
from forewarn.policies.objects.fields import ApiObject
from forewarn.policies.render.prediction import lines, probabilities_of
from tests.builders import Made, cluster, make_node, make_pod, make_priority_class


def nodes(cheap: int, dear: int) -> list[Made]:
    """Each full with one pod: of priority 0 on some, of priority 10 on the others."""
    made = [make_priority_class(100)]
    for number in range(cheap + dear):
        made.append(make_node(f"n{number:03}"))
        priority = 0 if number < cheap else 10
        made.append(make_pod(f"p{number}").priority(priority).request(cpu="4").on(f"n{number:03}"))
    return made


def arriving() -> ApiObject:
    return make_pod("web").of_class(100).request(cpu="1").obj


def test_each_kind_of_outcome_has_its_odds() -> None:
    found = cluster(*nodes(3, 197))
    prediction = place(found, arriving()).predictions[0]
    # All three good nodes are in the other half of 200: (100·99·98)/(200·199·198) = 12.3 %.
    assert probabilities_of(prediction) == ["88 %: 1 Pod of priority 0", "12 %: 1 Pod of priority 10"]
    assert "  probabilities: 88 %: 1 Pod of priority 0; 12 %: 1 Pod of priority 10" in lines(predict(found, arriving()))


def test_programs_get_the_odds_per_node() -> None:
    answer = place(cluster(*nodes(3, 197)), arriving()).predictions[0].to_dict()
    assert len(answer["odds"]) == 200
    assert sum(answer["odds"].values()) == pytest.approx(1)


def test_up_to_a_hundred_nodes_nothing_is_left_to_chance() -> None:
    found = cluster(*nodes(3, 97))
    prediction = place(found, arriving()).predictions[0]
    assert prediction.nomination_probabilities == {name: pytest.approx(1 / 3) for name in ("n000", "n001", "n002")}
    assert "odds" not in prediction.to_dict()
    assert not [line for line in lines(predict(found, arriving())) if "probabilities" in line]
