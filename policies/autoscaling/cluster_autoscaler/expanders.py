"""Choose the node group to scale up. Source: expander/{waste,leastnodes,mostpods,priority,random}, factory/chain.go."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.autoscaling.autoscaler import NotPredicted
from forewarn.policies.objects.resources import CPU, MEMORY
from forewarn.policies.quantity import NANO

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from forewarn.policies.autoscaling.cluster_autoscaler.estimator import Estimate

DEFAULT: Final = "least-waste"
RANDOM: Final = "random"


class Option(NamedTuple):
    """What one node group offers: `nodes` new nodes for `pods` Pods.

    `waste`: the idle share of the new nodes' cpu plus that of their memory.
    """

    group: str
    nodes: int
    pods: int
    waste: float


def option_of(estimate: Estimate) -> Option:
    """Return the option of an estimate."""
    capacity, nodes = estimate.group.capacity, estimate.nodes
    requests = [pod.occupies.resource for pod, _ in estimate.placed]
    cpu, memory = -(-capacity.get(CPU, 0) * 1000 // NANO), -(-capacity.get(MEMORY, 0) // NANO)
    waste = _idle(cpu * nodes, sum(each.milli_cpu for each in requests))
    waste += _idle(memory * nodes, sum(each.memory for each in requests))
    return Option(estimate.group.name, nodes, len(estimate.placed), waste)


def _idle(available: int, requested: int) -> float:
    if available:
        return (available - requested) / available
    return -inf if requested else nan


def _least_waste(options: Sequence[Option]) -> list[Option]:
    best: list[Option] = []
    least = 0.0
    for option in options:
        if best and option.waste == least:
            best.append(option)
        if not best or option.waste < least:
            least, best = option.waste, [option]
    return best


def _least_nodes(options: Sequence[Option]) -> list[Option]:
    least = min(option.nodes for option in options)
    return [option for option in options if option.nodes == least]


def _most_pods(options: Sequence[Option]) -> list[Option]:
    most = max(option.pods for option in options)
    return [option for option in options if option.pods == most]


FILTERS: Final[Mapping[str, Callable[[Sequence[Option]], list[Option]]]] = {
    DEFAULT: _least_waste,
    "least-nodes": _least_nodes,
    "most-pods": _most_pods,
    RANDOM: list,
}


def best_options(options: Sequence[Option], expanders: Sequence[str]) -> Sequence[Option]:
    """Return the options from which upstream chooses randomly. `expanders`: of --expander. Raises NotPredicted."""
    for name in expanders:
        if name not in FILTERS:
            raise NotPredicted(f'expander "{name}" is not modelled')
        options = FILTERS[name](options)
    return options
