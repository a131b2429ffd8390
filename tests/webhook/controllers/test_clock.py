"""Clocks that are set: the certificate, its CAs, and the caBundles. Leases and caches use monotonic clocks."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.webhook.controllers.test_certificate_authority import DAY, HOUR, LEAF, MINUTE, SECRET, Installed, trusts

if TYPE_CHECKING:
    from datetime import datetime

CHECKS = 10
"""At one time. A check that writes nothing leaves the next one as it was."""


def installed(age: timedelta) -> Installed:
    """The CA injector and a replica that were installed some time ago."""
    made = Installed()
    made.reconcile()
    made.clock.now += age
    for _ in range(2):
        made.reconcile()
    return made


def written(made: Installed) -> int:
    """The number of writes of the Secrets in many checks at one time."""
    made.api.calls.clear()
    for _ in range(CHECKS):
        made.reconcile()
    return sum(verb == "replace" and path in (SECRET, LEAF) for verb, path in made.api.calls)


def is_trusted(made: Installed, now: datetime) -> bool:
    return trusts(made.api, made.replica.contexts.certificate, now)


@pytest.mark.parametrize("age", [timedelta(0), MINUTE, 3 * HOUR])
@pytest.mark.parametrize("jump", [-HOUR, -90 * MINUTE, HOUR, 90 * MINUTE])
def test_a_clock_that_is_set_by_an_hour_changes_no_certificate(jump: timedelta, age: timedelta) -> None:
    made = installed(age)
    true = made.clock.now
    made.clock.now += jump
    assert written(made) == 0
    assert is_trusted(made, true)
    assert is_trusted(made, made.clock.now)
    assert made.replica.registration.rejection(made.replica.contexts.certificate, made.clock.now) == ""


@pytest.mark.parametrize("age", [timedelta(0), 3 * HOUR, 3 * DAY])
@pytest.mark.parametrize("jump", [-3 * HOUR, -3 * DAY, -400 * DAY, 3 * DAY, 8 * DAY, 400 * DAY])
def test_a_clock_that_is_far_off_and_put_right_leads_to_certificates_that_are_valid_then(
    jump: timedelta, age: timedelta
) -> None:
    made = installed(age)
    for change in (jump, -jump):
        made.clock.now += change
        assert written(made) <= 6
        assert is_trusted(made, made.clock.now)
        assert written(made) == 0
