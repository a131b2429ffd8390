"""Claims of generic ephemeral volumes. Source: pkg/controller/volume/ephemeral/controller.go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.controllers.templates import claim_of_template
from forewarn.policies.objects.fields import items, mapping, text
from forewarn.policies.objects.pod import Owner

if TYPE_CHECKING:
    from forewarn.policies.controllers.view import PodState, View
    from forewarn.policies.objects.storage import PersistentVolumeClaim


def missing_claims(view: View, state: PodState) -> list[PersistentVolumeClaim]:
    """Return the claims to create for the ephemeral volumes of a Pod. The Pod owns these claims. Raises InvalidObject.

    An existing claim with the same name is not replaced; the Pod stays Pending if the claim belongs to another Pod.
    """
    pod = state.pod
    if state.terminating or state.template is None:
        return []
    ephemeral = {volume.name: volume.claim_of(pod.name) for volume in pod.spec.volumes if volume.ephemeral}
    templates = {
        text(volume, "name"): mapping(volume, "ephemeral", "volumeClaimTemplate")
        for volume in (items(state.template, "spec", "volumes") if ephemeral else ())
    }
    owner = Owner("Pod", pod.name, pod.uid, "v1")
    return [
        claim_of_template(view, pod.namespace, claim, templates[name], owner)
        for name, claim in ephemeral.items()
        if claim and name in templates and view.claim(pod.namespace, claim) is None
    ]
