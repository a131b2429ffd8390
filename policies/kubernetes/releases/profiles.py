"""A kube-scheduler configuration as data: profiles with plugins at extension points, weights and arguments.

`scheduling.configuration` creates these values. Source: kubernetes `pkg/scheduler/apis/config/types.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from forewarn.policies.base.light import NamedTuple

DEFAULT_SCHEDULER: Final = "default-scheduler"
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_NONE: Final[Mapping[str, Any]] = {}


class Profile(NamedTuple):
    """One scheduler profile.

    `points`: extension point, in upstream's spelling (`preFilter`) -> names of its plugins in order; points without
    plugins may be missing. `weights`: plugin with a score -> weight. `args`: plugin -> arguments with defaults.
    `plugins`: plugin -> its class. `percentage_of_nodes_to_score` None: that of the scheduler.
    """

    scheduler_name: str
    points: Mapping[str, tuple[str, ...]]
    weights: Mapping[str, int] = _NONE
    args: Mapping[str, Any] = _NONE
    plugins: Mapping[str, Any] = _NONE
    percentage_of_nodes_to_score: int | None = None

    def __eq__(self, other: object) -> bool:
        """Report whether this is the same profile."""
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    def at(self, point: str) -> tuple[str, ...]:
        """Return the plugins of an extension point, in the order in which they run."""
        return self.points.get(point, ())

    @property
    def plugin_names(self) -> tuple[str, ...]:
        """The names of all plugins of all extension points, without duplicates."""
        return tuple(dict.fromkeys(name for names in self.points.values() for name in names))


class Extender(NamedTuple):
    """An HTTP extender of kube-scheduler. An empty verb means that kube-scheduler does not call this endpoint.

    `managed_resources`: the extender handles only Pods that request one of these; empty: all Pods.
    `ignored_resources`: resources that kube-scheduler itself ignores. Source: upstream `Extender`.
    """

    url_prefix: str = ""
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    ignorable: bool = False
    managed_resources: frozenset[str] = frozenset()
    ignored_resources: frozenset[str] = frozenset()


class SchedulerConfiguration(NamedTuple):
    """A scheduler's configuration: profiles by `schedulerName`, extenders and limits.

    `source`: the file or preset. `percentage_of_nodes_to_score` 0: depends on the number of nodes. Back-off in seconds.
    """

    profiles: Mapping[str, Profile]
    extenders: tuple[Extender, ...] = ()
    percentage_of_nodes_to_score: int = 0
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    source: str = ""

    def __eq__(self, other: object) -> bool:
        """Report whether this is the same configuration."""
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    def profile(self, scheduler_name: str) -> Profile | None:
        """Return the profile for Pods with this `spec.schedulerName`; None if another scheduler schedules them."""
        return self.profiles.get(scheduler_name or DEFAULT_SCHEDULER)

    def extenders_for(self, requested: Iterable[str]) -> list[Extender]:
        """Return the extenders that manage a Pod with these requests. Source: upstream `IsInterested`."""
        return [e for e in self.extenders if not e.managed_resources or not e.managed_resources.isdisjoint(requested)]

    def percentage(self, profile: Profile) -> int:
        """Return the percentageOfNodesToScore of a profile: its own, or else the scheduler's."""
        own = profile.percentage_of_nodes_to_score
        return self.percentage_of_nodes_to_score if own is None else own
