"""How the limit on open files is divided."""

from __future__ import annotations

import json
import resource
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.kubernetes.kinds.registry import KINDS, OPTIONAL
from forewarn.webhook.http.asgi import MAX_CONNECTIONS
from forewarn.webhook.http.server import MAX_HEALTH_CONNECTIONS, TooFewDescriptors, divide, raise_limit, reserve
from forewarn.webhook.settings import parse_settings
from tests.webhook.running import ENVIRONMENT, PYTHON

if TYPE_CHECKING:
    from forewarn.webhook.settings import Settings

USED = 130


@pytest.fixture
def settings() -> Settings:
    return parse_settings([], {})


@pytest.mark.parametrize(
    ("limit", "tls", "health", "is_low"),
    [
        (170, 32, 8, True),
        (256, 101, 25, True),
        (1_024, 766, 128, True),
        (1_281, 1_023, 128, True),
        (1_282, 1_024, 128, False),
        (20_000, 1_024, 128, False),
        (1 << 30, 1_024, 128, False),
        (resource.RLIM_INFINITY, 1_024, 128, False),
    ],
)
def test_connections_get_what_the_rest_leaves(limit: int, tls: int, health: int, is_low: bool) -> None:
    shares = divide(limit, USED)
    assert (shares.tls, shares.health, shares.is_low) == (tls, health, is_low)
    assert limit < 0 or shares.tls + shares.health + USED <= limit
    assert (shares.tls == MAX_CONNECTIONS and shares.health == MAX_HEALTH_CONNECTIONS) is not is_low


def test_a_limit_that_is_too_low_is_an_error() -> None:
    with pytest.raises(TooFewDescriptors, match=r"^the limit on open files is 169, .* needs 170\. Fix: raise"):
        divide(169, USED)


def test_the_reserve_is_for_all_that_opens_files(settings: Settings) -> None:
    least = reserve(settings, ())
    assert least > len({*KINDS, *OPTIONAL})
    assert reserve(settings, {"example.com/Kind", "apps/Deployment"}) == least + 1
    more = replace(settings, prediction_processes=settings.prediction_processes + 64)
    assert reserve(more, ()) == least + 128


def test_the_soft_limit_becomes_the_hard_one() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, limits[1]))
        assert raise_limit() == limits[1]
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == limits[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_without_enough_the_webhook_says_so_and_exits() -> None:
    ended = subprocess.run(
        [PYTHON, "-m", "forewarn", "webhook", "serve", "--cluster", "webhook/sample/cluster.yaml"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)),
    )
    assert (ended.returncode, ended.stdout) == (3, "")
    line = json.loads(ended.stderr)
    assert line["message"].startswith("cannot start: the limit on open files is 100, and forewarn needs 1")
    assert line["level"] == "error"
