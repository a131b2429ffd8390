"""What somebody reads who applies much, or the same again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.objects import deployment
from tests.e2e.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Api
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("classes")]


@pytest.fixture(scope="module")
def webhook(plane: ControlPlane, installed: Installation, api: Api) -> Iterator[Webhook]:
    """forewarn without a configuration."""
    made = Webhook(plane, installed, flags=("--drain", "0"))
    try:
        made.begin(api, strict=True)
        yield made
    finally:
        made.end(api)


@pytest.mark.usefixtures("webhook")
def test_thirty_objects_applied_together_are_no_wall_of_text_and_none_at_all_the_second_time(
    plane: ControlPlane,
) -> None:
    names = [f"many-{number}" for number in range(30)]
    items = [deployment(name, "missing") for name in names]
    everything = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    try:
        told = plane.kubectl("apply", "-f", "-", stdin=everything)
        assert told.out.count("created") == 30
        lines = told.err.splitlines()
        full, *short = lines  # kubectl prints the same line once: the three in full are alike
        assert "Fix: create it" in full
        assert len(short) == 7 + 2
        assert all(len(line) <= len("Warning: ") + 100 for line in short)
        again = plane.kubectl("apply", "-f", "-", stdin=everything)
        assert (again.out.count("unchanged"), again.err) == (30, "")
        assert plane.kubectl("label", "deployment", *names, "seen=yes").err == ""
    finally:
        plane.kubectl("delete", "deployment", *names, "--ignore-not-found", "--wait=false")
