"""Forks only in tests that are marked `forks`; fewer random runs, or no fixes, in tests that use these fixtures."""

from __future__ import annotations

import pytest

from forewarn.policies.base import process_pool
from forewarn.policies.questions.application import whatif
from forewarn.policies.questions.whatif import arrivals


@pytest.fixture(autouse=True)
def no_forks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute answers in this process, as where forks are impossible: forking a process with all tests takes 40 ms."""
    if request.node.get_closest_marker("forks") is None:
        for module in (process_pool, arrivals):
            monkeypatch.setattr(module, "forked", lambda work: None)


@pytest.fixture
def few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a simulation 4 times, not 24, if chance decides: for tests of what all numbers of runs have in common."""
    monkeypatch.setattr(whatif, "RUNS", 4)


@pytest.fixture
def no_fixes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer without FIX, for which all simulations of an answer are repeated with each edit."""
    monkeypatch.setattr(whatif, "tested_fixes", lambda *_: [])
    monkeypatch.setattr(whatif, "with_fixes", lambda document, *_: document)
