"""A slow, literal reading of kube-scheduler 1.36.3 over API objects as dicts: what tests hold the scheduling core to.

It shares no code with the packages under test, and is written for likeness with upstream, never for speed.
"""

from tests.policies.scheduling.reference.answer import answer
from tests.policies.scheduling.reference.framework import CannotAnswer

__all__ = ["CannotAnswer", "answer"]
