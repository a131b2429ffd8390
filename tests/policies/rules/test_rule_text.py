"""What several rules say alike."""

from __future__ import annotations

import pytest

from policies.rules.support.names import nearest

KNOWN = ["batch", "web"]


@pytest.mark.parametrize(("name", "meant"), [("wbe", "web"), ("other", "")])
def test_the_nearest_name_is_offered(name: str, meant: str) -> None:
    assert nearest(name, KNOWN) == (f'; did you mean "{meant}"?' if meant else "")
