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
@pytest.mark.parametrize("count", [1, 15])
def test_every_object_that_will_not_run_is_named_and_nothing_is_said_of_objects_that_do_not_change(
    plane: ControlPlane, count: int
) -> None:
    names = [f"many-{number}" for number in range(count)]

    def applied(image: str) -> tuple[str, list[str]]:
        items = [deployment(name, "missing") for name in names]
        for item in items:
            item["spec"]["template"]["spec"]["containers"][0]["image"] = image
        told = plane.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        return told.out, told.err.splitlines()

    try:
        for image, word in (("one", "created"), ("two", "configured")):
            out, lines = applied(image)
            assert out.count(word) == count
            assert [line.split()[2] for line in lines] == [f"default/{name}:" for name in names]
            assert all("Fix: create it" in line and len(line) <= 170 for line in lines)
        out, lines = applied("two")
        assert (out.count("unchanged"), lines) == (count, [])
        assert plane.kubectl("label", "deployment", *names, "seen=yes").err == ""
    finally:
        plane.kubectl("delete", "deployment", *names, "--ignore-not-found", "--wait=false")
