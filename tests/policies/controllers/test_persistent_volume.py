"""Claims that name a volume: `checkVolumeSatisfyClaim` of the PersistentVolume controller."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.policies.kubernetes.controllers.persistent_volume import sync_unbound_claim
from forewarn.policies.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim

RWO, RWX = ["ReadWriteOnce"], ["ReadWriteOnce", "ReadWriteMany"]


@pytest.mark.parametrize(
    ("volumes", "found"),
    [
        ([("free", RWO, False), ("reserved", RWX, True)], "free"),
        ([("free", RWX, False), ("reserved", RWX, True)], "reserved"),
        ([("reserved", ["ReadOnlyMany"], True)], ""),
        ([("b", RWO, False), ("a", RWO, False), ("c", RWX, False)], "a"),
    ],
)
def test_the_fewest_access_modes_come_before_a_reservation(
    volumes: list[tuple[str, list[str], bool]], found: str
) -> None:
    """Upstream `findByClaim` searches the volumes with the fewest access modes first."""
    claim = PersistentVolumeClaim.from_api(
        {"metadata": {"namespace": "default", "name": "c"}, "spec": {"storageClassName": "a", "accessModes": RWO}}
    )
    reserved = {"claimRef": {"namespace": "default", "name": "c"}}
    made = [
        PersistentVolume.from_api(
            {
                "metadata": {"name": name},
                "spec": {"storageClassName": "a", "accessModes": modes, **(reserved if is_reserved else {})},
                "status": {"phase": "Available"},
            }
        )
        for name, modes, is_reserved in volumes
    ]
    result = sync_unbound_claim(claim, None, lambda _: None, made)
    assert (result.name if isinstance(result, PersistentVolume) else "") == found


@pytest.mark.parametrize(
    ("of_volume", "binds"),
    [
        ({}, True),
        ({"storageClassName": "b"}, False),
        ({"accessModes": ["ReadOnlyMany"]}, False),
        ({"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}, True),
        ({"capacity": {"storage": "1Gi"}}, False),
        ({"accessModes": ["ReadOnlyMany"], "claimRef": {"namespace": "default", "name": "c"}}, True),
    ],
)
def test_a_claim_binds_only_to_a_named_volume_that_satisfies_it(of_volume: dict[str, Any], binds: bool) -> None:
    """Upstream does not check a volume that is already reserved for the claim."""
    common = {"storageClassName": "a", "accessModes": ["ReadWriteOnce"]}
    claim = PersistentVolumeClaim.from_api(
        {
            "metadata": {"namespace": "default", "name": "c"},
            "spec": {**common, "volumeName": "v", "resources": {"requests": {"storage": "2Gi"}}},
        }
    )
    volume = PersistentVolume.from_api(
        {
            "metadata": {"name": "v"},
            "spec": {**common, "capacity": {"storage": "2Gi"}, **of_volume},
            "status": {"phase": "Available"},
        }
    )
    found = sync_unbound_claim(claim, None, {"v": volume}.get, [volume])
    assert (found == volume) == binds
