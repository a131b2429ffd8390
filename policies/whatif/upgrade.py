"""An upgrade of nodes: each in turn is drained, away for a while and taken back; how far it gets."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from policies.simulation.drain import drain, left_on
from policies.simulation.latencies import Latencies

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from policies.objects.node import Node
    from policies.simulation.simulation import Simulation

_LOOK: Final = 5.0
"""Seconds between two looks at whether a node is empty."""
_DRAINING: Final = 600.0
"""Seconds that the default horizon leaves for the drain of a node."""


@dataclass(slots=True)
class Step:
    """One node. When its drain started, when it was empty and when it was back, in seconds; None: not in this run."""

    node: str
    started: float | None = None
    emptied: float | None = None
    back: float | None = None


class Upgrade:
    """Nodes in the order of their upgrade, `most` at a time, each away for so many seconds; the steps of one run."""

    def __init__(self, nodes: Iterable[Node], most: int, away: float) -> None:
        self._nodes, self.most, self.away = list(nodes), most, away
        self.steps = [Step(node.name) for node in self._nodes]

    @property
    def _batches(self) -> int:
        return ceil(len(self.steps) / self.most)

    @property
    def least(self) -> float:
        """Seconds that it takes if no drain takes any time."""
        return self._batches * self.away

    @property
    def horizon(self) -> float:
        """Seconds after which a run is stopped by default."""
        return self._batches * (self.away + _DRAINING)

    @property
    def done(self) -> Sequence[Step]:
        """The nodes that are back."""
        return [step for step in self.steps if step.back is not None]

    @property
    def under_way(self) -> Sequence[Step]:
        """The nodes that are being drained or away when the run ends."""
        return [step for step in self.steps if step.started is not None and step.back is None]

    @property
    def not_reached(self) -> Sequence[Step]:
        """The nodes whose drain has not started."""
        return [step for step in self.steps if step.started is None]

    @property
    def complete(self) -> bool:
        """Whether all nodes are back."""
        return len(self.done) == len(self.steps)

    @property
    def seconds(self) -> float:
        """When the last node that is back was back."""
        return max((step.back for step in self.steps if step.back is not None), default=0.0)

    def start(self, simulation: Simulation) -> None:
        """Let it begin at time 0 of a simulation that is about to run."""
        self.steps = [Step(node.name) for node in self._nodes]

        def begin() -> None:
            simulation.clock.spawn(self._run(simulation))

        simulation.clock.at(0.0, begin)

    def _run(self, simulation: Simulation) -> Generator[float | None, None, None]:
        clock, api, latencies = simulation.clock, simulation.api, Latencies()
        left = deque(zip(self._nodes, self.steps, strict=True))
        at_once: dict[str, tuple[Node, Step]] = {}
        while left or at_once:
            for name, (node, step) in list(at_once.items()):
                if step.emptied is None and not left_on(api, name):
                    step.emptied = clock.now
                    simulation.awaited += 1
                elif step.emptied is not None and clock.now >= step.emptied + self.away:
                    step.back = clock.now
                    simulation.awaited -= 1
                    del at_once[name]
                    api.put_node(node)
            while left and len(at_once) < self.most:
                node, step = left.popleft()
                step.started, at_once[node.name] = clock.now, (node, step)
                drain(clock, api, latencies, node.name)
            yield _LOOK

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "complete": self.complete,
            "seconds": round(self.seconds, 4),
            "leastSeconds": round(self.least, 4),
            "order": [_as_dict(step) for step in self.steps],
            "notReached": [step.node for step in self.not_reached],
        }


def _as_dict(step: Step) -> dict[str, Any]:
    times = {"startedAt": step.started, "emptiedAt": step.emptied, "backAt": step.back}
    return {"node": step.node, **{name: None if t is None else round(t, 4) for name, t in times.items()}}
