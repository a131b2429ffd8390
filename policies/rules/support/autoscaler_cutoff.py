"""The priority below which cluster-autoscaler adds no nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.kinds.registry import DEPLOYMENT
from forewarn.policies.objects.fields import at
from forewarn.policies.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.rules.support.context import Context

_FLAG: Final = "--expendable-pods-priority-cutoff"
_DEFAULT: Final = Options().autoscaler_cutoff


def autoscaler_cutoff(context: Context) -> int:
    """Return the configured cutoff; by default the flag of a cluster-autoscaler Deployment in the change set (the
    lowest of several).
    """
    configured = context.options.autoscaler_cutoff
    return configured if configured != _DEFAULT else context.once(_of_apply)


def _of_apply(context: Context) -> int:
    deployments = context.of_kind(DEPLOYMENT)
    return min((value for deployment in deployments for value in _flags(deployment.object)), default=_DEFAULT)


def _flags(deployment: ApiObject) -> Iterator[int]:
    """The values of the cutoff flag in a Deployment's containers: `--flag=-20`, or `--flag` and the next argument."""
    containers = at(deployment, "spec", "template", "spec", "containers")
    for container in containers if isinstance(containers, list) else ():
        for field in ("command", "args"):
            words = at(container, field)
            words = [word for word in words if isinstance(word, str)] if isinstance(words, list) else []
            for word, following in zip(words, (*words[1:], ""), strict=False):
                flag, equals, value = word.partition("=")
                if flag in (_FLAG, _FLAG[1:]):
                    try:
                        yield int(value if equals else following)
                    except ValueError:
                        continue
