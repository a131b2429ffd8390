"""What several rules say alike."""

from __future__ import annotations

import pytest

from policies.rules.support.names import nearest

KNOWN = ["batch", "system-cluster-critical", "system-node-critical", "web"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("wbe", "web"),
        ("sytem-node-critical", "system-node-critical"),
        ("system-critical", "system-node-critical"),
        ("tenant-user-critical", ""),
        ("other", ""),
    ],
)
def test_the_nearest_name_is_offered_and_a_system_class_only_where_it_is_meant(name: str, meant: str) -> None:
    assert nearest(name, KNOWN) == (f'; did you mean "{meant}"?' if meant else "")
