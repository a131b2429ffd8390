"""Ports of the host, against a plain reading of upstream's CheckConflict."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.objects.pod import HostPort
from forewarn.policies.kubernetes.scheduling.plugins.one_node import ALL_ADDRESSES, WantedPorts

PORTS = st.builds(
    HostPort,
    st.sampled_from([ALL_ADDRESSES, "10.0.0.1", "10.0.0.2"]),
    st.sampled_from(["TCP", "UDP"]),
    st.integers(1, 3),
)


def _conflict(wanted: HostPort, used: HostPort) -> bool:
    """One is on all addresses, or both are on the same."""
    same = (wanted.protocol, wanted.port) == (used.protocol, used.port)
    return same and (wanted.ip == used.ip or ALL_ADDRESSES in (wanted.ip, used.ip))


@given(st.lists(PORTS, max_size=6), st.frozensets(PORTS, max_size=6))
def test_every_pair_that_conflicts_is_counted(wanted: Iterable[HostPort], used: frozenset[HostPort]) -> None:
    pairs = sum(_conflict(port, other) for port in wanted for other in used)
    assert WantedPorts(wanted).conflicts(used) == pairs
