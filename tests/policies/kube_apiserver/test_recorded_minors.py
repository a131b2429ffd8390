"""What the kube-apiservers of all minors answered to random requests, `dry-run --kubernetes-version` says too."""

from __future__ import annotations

import pytest

from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.releases.minors import KNOWN_MINORS
from forewarn.policies.kubernetes.releases.release import known_minor
from tests.policies.recorded import CASES
from tests.policies.recorded_minors import differences, load

MINORS = sorted(path.name.removeprefix("requests-").partition(".jsonl")[0] for path in CASES.glob("requests-*.gz"))


@pytest.mark.parametrize("minor", MINORS)
def test_a_dry_run_says_what_the_api_server_of_that_minor_said(minor: str) -> None:
    cluster, recorded = load(minor)
    cache = Cache()
    for obj in cluster:
        cache.add(obj)
    snapshot = cache.snapshot()
    wrong = [f"{each.id}: {text}" for each in recorded for text in differences(each, snapshot, known_minor(minor))]
    assert not wrong, "\n".join(wrong)
    assert len(recorded) >= 300
    assert {each.code for each in recorded} >= {200, 201, 400, 403, 422, 500}


def test_there_are_recordings_of_every_minor() -> None:
    assert {f"1.{minor}" for minor in KNOWN_MINORS} == {*MINORS}
