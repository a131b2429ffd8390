"""Claims that name a volume: `checkVolumeSatisfyClaim` of the PersistentVolume controller."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.policies.controllers.persistent_volume import Bind, sync_unbound_claim
from forewarn.policies.objects.storage import PersistentVolume, PersistentVolumeClaim


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
    assert (found == Bind(volume)) == binds
