"""Texts that several rules share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.base.disclosure import Audience, Disclose, Shown
from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.linting.rules.support.names import nearest
from forewarn.policies.linting.rules.support.rule_text import MAX_CHARACTERS, api_text, naming
from forewarn.policies.linting.rules.wording.impact import victims_text
from tests.builders import cluster, make_node, make_pod

KNOWN = ["batch", "web"]


@pytest.mark.parametrize(("name", "meant"), [("wbe", "web"), ("other", "")])
def test_the_nearest_name_is_offered(name: str, meant: str) -> None:
    assert nearest(name, KNOWN) == (f'; did you mean "{meant}"?' if meant else "")


@pytest.mark.parametrize(
    ("name", "meant"), [("prod-1", ""), ("prod1", "prod-12"), ("tier1", "tier-1"), ("prod-x", "prod-12")]
)
def test_names_that_differ_only_in_a_number_are_different_names(name: str, meant: str) -> None:
    assert nearest(name, ["prod-12", "tier-1"]) == (f'; did you mean "{meant}"?' if meant else "")


def test_many_names_that_differ_in_a_number_do_not_hide_the_near_one() -> None:
    known = [*(f"prod-{number}" for number in range(100, 250)), "prodd-300"]
    assert nearest("prod-300", known) == '; did you mean "prodd-300"?'


@pytest.mark.parametrize("count", [30, 0x200])
def test_of_names_that_are_equally_similar_the_one_with_the_longest_common_prefix_is_offered(count: int) -> None:
    known = [f"kube-proxy-{number:05x}" for number in range(0x1A8, 0x1A8 + count)] + ["kube-proxy-0021b"]
    assert nearest("kube-proxy-001bx", known) == '; did you mean "kube-proxy-001b0"?'


NAMES = st.lists(st.text("abc", min_size=1, max_size=60), min_size=1, max_size=5)


@given(NAMES, st.integers(0, 9), st.text("x", max_size=70))
def test_names_are_left_out_until_the_message_is_short_enough(names: list[str], more: int, around: str) -> None:
    count = len(names) + more
    text = naming(f"{around}: ", names, count, " (after)")
    assert text.startswith(f"{around}: {names[0][:10]}")
    assert text.endswith(" (after)")
    assert len(text) <= max(MAX_CHARACTERS, len(f"{around}:  and 99 more (after)") + 24)
    assert (" more" in text) is (count > 1 and text.count(", ") + 1 < count)


@pytest.mark.parametrize("node", ["node-1", "ip-10-0-123-45.eu-central-1.compute.internal"])
@pytest.mark.parametrize("pod", ["report", "settlement-worker-7d4f5b6c8-x2x9k"])
@pytest.mark.parametrize("pods", [1, 7])
@pytest.mark.parametrize("disclose", Disclose)
@pytest.mark.parametrize("coarse", [False, True])
def test_a_message_with_victims_keeps_within_its_characters(
    node: str, pod: str, pods: int, disclose: Disclose, coarse: bool
) -> None:
    made = [make_pod(f"{pod}-{n}", "payments").request(cpu="1").on(node) for n in range(pods)]
    state = cluster(make_node(node).has(cpu=str(pods)), *made)
    prediction = predict(state, make_pod("web").priority(1).request(cpu=str(pods)).obj)
    facts = ("2 violate a PDB", "replacements preempt 3 more Pods", "up to 30s grace")
    for namespace in ("payments", "team"):
        audience = Audience(disclose, namespace, shown=Shown(coarse=coarse))
        text = victims_text("would preempt", (prediction,), prediction.victims, audience, facts)
        assert len(text.problem) <= MAX_CHARACTERS
        assert all(fact in "".join(text.more or (text.problem,)) for fact in facts)
        assert ("payments/" in text.problem) is (audience.may_name("payments"))
        assert all(len(version) < len(text.problem) for version in text.shorter)
        assert all(version.split(" Pod")[0] == text.problem.split(" Pod")[0] for version in text.shorter)
        with_violations = [version for version in text.shorter if facts[0] in version]
        assert list(text.shorter[: len(with_violations)]) == with_violations
        assert text.more or with_violations[-1].endswith(" (2 violate a PDB)")


@pytest.mark.parametrize("length", [10, 200, 2_000])
def test_a_text_of_kube_apiserver_keeps_its_reason(length: int) -> None:
    text = f'Invalid value: "{"x" * length}": must be no more than 63 bytes'
    shown = api_text(text)
    assert shown.startswith('Invalid value: "xxx')
    assert shown.endswith('x": must be no more than 63 bytes')
    assert (shown == text) == (length < 2_000)
    assert len(shown) < 310
