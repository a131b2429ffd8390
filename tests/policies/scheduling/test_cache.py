"""Objects in, objects out, and the next snapshot: the same as if it had been built anew."""

import subprocess
import sys
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.policies.base.metering import holding, metered
from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.objects.storage import SELECTED_NODE
from tests.builders import Made, make_budget, make_claim, make_node, make_pod
from tests.policies.scheduling.consistency import check

NAMES = ("n1", "n2", "n3")


def pod_of(index: int, node: str, cpu: int) -> Made:
    pod = make_pod(f"p{index}").request(cpu=f"{cpu}").labels(app="web").priority(index)
    if cpu > 2:
        pod.request_of("example.com/gpu", "1").port(80)
    return pod.on(node) if node else pod.nominated("n1").volume(persistentVolumeClaim={"claimName": "data"})


def claim_of(selected: str, bound: bool) -> Made:
    """A claim of every nominated pod: unbound, and selected for n1, it means that they are on n1 to the scheduler."""
    claim = make_claim("data", "pv" if bound else "")
    return claim.metadata(annotations={**claim.obj["metadata"].get("annotations", {}), SELECTED_NODE: selected})


def node_of(name: str, cpu: int) -> Made:
    return make_node(name).has(cpu=str(cpu)).has_of("example.com/gpu", "2") if cpu % 2 else make_node(name)


STEPS = st.lists(
    st.one_of(
        st.builds(pod_of, st.integers(0, 8), st.sampled_from((*NAMES, "n9", "")), st.integers(1, 3)),
        st.builds(node_of, st.sampled_from(NAMES), st.integers(2, 9)),
        st.builds(make_budget, st.sampled_from("bc"), st.integers(0, 2), app=st.just("web")),
        st.builds(claim_of, st.sampled_from(NAMES), st.booleans()),
    ).flatmap(lambda made: st.tuples(st.sampled_from(("add", "remove", "look")), st.just(made))),
    max_size=40,
)


@settings(deadline=None)
@given(STEPS)
def test_a_snapshot_is_what_a_new_cache_would_give(steps: list[tuple[str, Made]]) -> None:
    cache, present = Cache(), dict[Any, Made]()
    for step, made in steps:
        key = made.obj["kind"], made.obj["metadata"]["name"]
        if step == "look":
            check(cache.snapshot().scheduling)
        elif step == "add":
            cache.add(made.obj)
            present[key] = made
        else:
            cache.remove(made.obj)
            present.pop(key, None)
    snapshot = cache.snapshot()
    check(snapshot.scheduling)
    fresh = Cache()
    for made in present.values():
        fresh.add(made.obj)
    pod = make_pod("new").priority(5).request(cpu="3")
    answers = [predict(s, pod.obj).to_dict() for s in (snapshot, fresh.snapshot())]
    assert answers[0] == answers[1]


def test_a_snapshot_does_not_change_with_its_cache() -> None:
    cache = Cache()
    cache.add(make_node("n1").obj)
    before = cache.snapshot()
    cache.add(make_pod("old").request(cpu="4").on("n1").obj)
    pod = make_pod("new").request(cpu="1").obj
    assert predict(cache.snapshot(), pod).outcome == "pending"
    assert predict(before, pod).outcome == "fits"


def test_nothing_changed_means_the_same_snapshot() -> None:
    cache = Cache()
    cache.add(make_node("n1").obj)
    first = cache.snapshot().scheduling
    assert cache.snapshot().scheduling is first


def test_one_changed_node_is_rebuilt_and_no_other() -> None:
    cache = Cache()
    for name in NAMES:
        cache.add(make_node(name).obj)
    before = cache.snapshot().scheduling
    cache.add(make_pod("p").request(cpu="1").on("n2").obj)
    after = cache.snapshot().scheduling
    assert [a is b for a, b in zip(after.node_infos, before.node_infos, strict=True)] == [True, False, True]


def test_snapshots_that_nobody_asks_for_leave_the_next_one_right() -> None:
    cache = Cache()
    cache.add(make_node("n1").obj)
    check(cache.snapshot().scheduling)
    for index in range(5):
        cache.add(make_pod(f"p{index}").request(cpu="100m").on("n1").obj)
        cache.snapshot()
    assert len(cache.snapshot().scheduling.node_infos[0].pods) == 5


def test_finished_pods_hold_nothing() -> None:
    cache = Cache()
    cache.add(make_node("n1").obj)
    cache.add(make_pod("done").request(cpu="4").on("n1").status(phase="Succeeded").obj)
    assert predict(cache.snapshot(), make_pod("new").request(cpu="4").obj).fits


def test_numpy_is_not_needed_before_a_prediction() -> None:
    code = "import sys; from forewarn import policies; policies.Cache().snapshot(); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=500).returncode == 0


def test_a_pod_whose_volumes_are_being_bound_is_on_its_node_until_the_claim_says_otherwise() -> None:
    cache = Cache()
    binding = make_pod("binding").request(cpu="3").priority(1).nominated("n1")
    binding.volume(persistentVolumeClaim={"claimName": "data"})
    for made in (make_node("n1").has(cpu="4"), binding, claim_of("n1", bound=False)):
        cache.add(made.obj)
    pod = make_pod("new").request(cpu="2").priority(5).obj
    snapshot = cache.snapshot()
    assert predict(snapshot, pod).outcome == "preempts"
    assert snapshot.node_of(snapshot.pods["default", "binding"]) == "n1"
    cache.add(claim_of("n1", bound=True).obj)
    assert predict(cache.snapshot(), pod).outcome == "fits"
    cache.add(claim_of("n1", bound=False).obj)
    cache.remove(binding.obj)
    assert predict(cache.snapshot(), pod).outcome == "fits"


def test_the_largest_request_is_known_as_long_as_it_is_there() -> None:
    cache = Cache()
    cache.add(make_node("n").has(cpu="1").obj)
    cache.add(make_pod("small").request(cpu="1").on("n").obj)
    large = make_pod("large").request(memory="1Ei").on("n").obj
    assert cache.snapshot().scheduling.columns.largest < 2**60
    cache.add(large)
    assert cache.snapshot().scheduling.columns.largest == 2**60
    cache.remove(large)
    assert cache.snapshot().scheduling.columns.largest < 2**60


def test_nothing_else_is_evaluated_while_the_snapshot_is_built() -> None:
    """Another request could wait for the lock of this very thread."""
    cache, held = Cache(), list[bool]()
    for labels in ({}, {"pool": "spot"}):
        for number in range(500):
            cache.add(make_node(f"n{number}").labels(**labels).obj)
        snapshot = cache.snapshot()
        if not labels:
            snapshot.prepare()

    def expired() -> bool:
        held.append(holding())
        return False

    with metered(expired):
        assert len(snapshot.scheduling.node_infos) == 500
    assert held
    assert all(held)
