"""A scheduler's configuration as data: its profiles, with plugins at extension points, weights and arguments.

`policies.scheduling.configuration` creates these values. Source: kubernetes `pkg/scheduler/apis/config/types.go`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULT_SCHEDULER: Final = "default-scheduler"
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """One profile. `points`: extension point, in upstream's spelling (`preFilter`) -> names of its plugins, in order;
    points without plugins may be left out.

    `weights`: of the plugins with a score. `args`: plugin -> its arguments, defaulted. `plugins`: plugin -> its class.
    `percentage_of_nodes_to_score`: None, the scheduler's.
    """

    scheduler_name: str
    points: Mapping[str, tuple[str, ...]]
    weights: Mapping[str, int] = field(default_factory=dict)
    args: Mapping[str, Any] = field(default_factory=dict)
    plugins: Mapping[str, Any] = field(default_factory=dict)
    percentage_of_nodes_to_score: int | None = None

    def at(self, point: str) -> tuple[str, ...]:
        """The plugins of an extension point, in the order in which they run."""
        return self.points.get(point, ())

    @property
    def plugin_names(self) -> tuple[str, ...]:
        """Every plugin that is at some point, once."""
        return tuple(dict.fromkeys(name for names in self.points.values() for name in names))


@dataclass(frozen=True, slots=True)
class Extender:
    """A program that the scheduler asks over HTTP. An empty verb: it is not asked that.

    `managed_resources`: only pods that request one of them are its concern (none named: all pods are);
    `ignored_resources`: those that the scheduler itself does not look at. Source: upstream `Extender`.
    """

    url_prefix: str = ""
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    ignorable: bool = False
    managed_resources: frozenset[str] = frozenset()
    ignored_resources: frozenset[str] = frozenset()

    def is_interested(self, requested: Iterable[str]) -> bool:
        """Report whether the extender manages a Pod with these requests. Source: upstream `IsInterested`."""
        return not self.managed_resources or not self.managed_resources.isdisjoint(requested)


@dataclass(frozen=True, slots=True, eq=False)
class SchedulerConfiguration:
    """A scheduler: its profiles by name, its extenders, its limits. `source`: the file or preset that it is from.

    `percentage_of_nodes_to_score` 0: by the number of nodes. Back-off in seconds.
    """

    profiles: Mapping[str, Profile]
    extenders: tuple[Extender, ...] = ()
    percentage_of_nodes_to_score: int = 0
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    source: str = ""

    def profile(self, scheduler_name: str) -> Profile | None:
        """The profile of a pod with this `spec.schedulerName`; None: it is not ours."""
        return self.profiles.get(scheduler_name or DEFAULT_SCHEDULER)

    def percentage(self, profile: Profile) -> int:
        """percentageOfNodesToScore as it holds for a profile."""
        own = profile.percentage_of_nodes_to_score
        return self.percentage_of_nodes_to_score if own is None else own
