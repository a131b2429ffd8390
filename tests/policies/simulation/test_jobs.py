"""Jobs in a simulation: when they make pods again. The times are those of `oracle scenarios`."""

from __future__ import annotations

from typing import Any

import pytest

from policies.commands.simulate import answer_case
from tests.builders import Made, make_node

END = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "j-1", "namespace": "default"}}


def outcome(policy: str, *, scaling_down: bool = True) -> dict[str, Any]:
    """A Job of one pod with a grace of a minute, which somebody deletes after 10.5 s."""
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never", "terminationGracePeriodSeconds": 60}
    template = {"metadata": {"labels": {"app": "j"}}, "spec": pod}
    job = Made("batch/v1", "Job", "j", "default").spec(podReplacementPolicy=policy, template=template)
    arrivals = [{"at": 1, "op": "create", "object": job.obj}, {"at": 10.5, "op": "delete", "object": END}]
    case = {"nodes": [make_node("n1").obj], "arrivals": arrivals, "scalingDown": scaling_down}
    (found,) = answer_case(case)["outcomes"]
    return dict(found)


@pytest.mark.parametrize(
    ("policy", "again"),
    [("TerminatingOrFailed", 20.001), ("Failed", 80.001)],
    ids=["10 s after it was told to end", "10 s after it has ended"],
)
def test_the_back_off_begins_when_the_pod_counts_as_failed(policy: str, again: float) -> None:
    created = [event["t"] for event in outcome(policy)["timeline"] if event["event"] == "created"]
    assert created[1:] == [pytest.approx(again, abs=1e-3)]


def test_in_the_world_of_the_recordings_it_begins_with_the_delete() -> None:
    """So 10 s are over when the pod ends, and its Job is synced a second later."""
    events = outcome("Failed", scaling_down=False)["timeline"]
    gone, again = (next(e["t"] for e in events if e["event"] == what and e["t"] > 11) for what in ("gone", "created"))
    assert again - gone == pytest.approx(1.0, abs=0.01)
