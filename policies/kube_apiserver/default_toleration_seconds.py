"""Default tolerations of Pods for the failure of their node (admission plugin DefaultTolerationSeconds, on by default).

Source: plugin/pkg/admission/defaulttolerationseconds/admission.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.objects.fields import InvalidObject, mapping, sequence, text
from forewarn.policies.objects.taints import NO_EXECUTE, Toleration, read_tolerations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.objects.fields import ApiObject

_DEFAULTS: Final = tuple(
    Toleration(f"node.kubernetes.io/{state}", "Exists", "", NO_EXECUTE, 300) for state in ("not-ready", "unreachable")
)


def missing_tolerations(tolerations: Sequence[Toleration]) -> tuple[Toleration, ...]:
    """Return the default tolerations that the plugin adds to these.

    As upstream, compares only key and effect: also a toleration of another value, which does not tolerate the taint,
    replaces the default.
    """
    keys = {toleration.key for toleration in tolerations if toleration.effect in ("", NO_EXECUTE)}
    return () if "" in keys else tuple(default for default in _DEFAULTS if default.key not in keys)


def with_default_tolerations(pod: ApiObject) -> ApiObject:
    """Return a copy of a new Pod with the default tolerations.

    Unchanged: a stored Pod (with uid), which already has them, and a Pod that cannot be decoded, for which other code
    reports the error.
    """
    try:
        missing = () if text(pod, "metadata", "uid") else missing_tolerations(read_tolerations(pod))
    except InvalidObject:
        return pod
    if not missing:
        return pod
    spec = mapping(pod, "spec")
    added = [
        {"key": each.key, "operator": each.operator, "effect": each.effect, "tolerationSeconds": each.seconds}
        for each in missing
    ]
    return {**pod, "spec": {**spec, "tolerations": [*sequence(spec, "tolerations"), *added]}}
