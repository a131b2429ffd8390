"""What holds for every test: the source of hypothesis' examples, the limit of a run, garbage collection, bytecode."""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from tests.json_outputs import FAULTS, check_outputs

if TYPE_CHECKING:
    from collections.abc import Iterator

# Tests start many processes, and each would compile all sources again, as each run would all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
check_outputs()  # before a command imports what prints

# In CI, hypothesis uses fixed examples, so that a result depends only on the commit. Elsewhere the examples are random,
# and a failure prints how to repeat it. Examples have no deadline, because other processes may use the machine.
_EXAMPLES = cases(50)
settings.register_profile("ci", derandomize=True, print_blob=True, deadline=None, max_examples=_EXAMPLES)
settings.register_profile("random", print_blob=True, deadline=None, max_examples=_EXAMPLES)
settings.load_profile("ci" if os.environ.get("CI") else "random")


@given(st.none())
def _use_hypothesis(_: None) -> None:
    """Make its generator before objects are frozen: hypothesis looks in the garbage collector for what refers to it."""


_freeze = gc.freeze
gc.disable()  # the tests that pytest collects are millions of objects, and none of them is garbage


@pytest.fixture(autouse=True)
def _json_fits_its_schema() -> Iterator[None]:
    """Every JSON document that a command prints in a test fits its schema."""
    FAULTS.clear()
    yield
    assert FAULTS == []


@pytest.fixture(autouse=True, scope="module")
def _earlier_objects_are_frozen() -> None:
    """A command that forks collects garbage before: exclude the modules and caches that earlier tests left."""
    gc.collect()
    _freeze()


def pytest_configure(config: pytest.Config) -> None:
    """End the run after TEST_LIMIT seconds. setup.cfg limits each test (`faulthandler_timeout`)."""
    limit = float(os.environ.get("TEST_LIMIT", "0"))
    if limit and not hasattr(config, "workerinput"):
        timer = threading.Timer(limit, _end, (limit, os.dup(2)))  # pytest captures 2 while tests run
        timer.daemon = True
        timer.start()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are CPUs: a fifth of the time, a worker waits for processes of tests."""
    return len(os.sched_getaffinity(0)) + 1


def _end(limit: float, stderr: int) -> None:
    os.write(stderr, f"\nthe tests are still running after {limit:g} s (TEST_LIMIT)\n".encode())
    faulthandler.dump_traceback(stderr)
    os._exit(124)  # workers end with this process


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exclude the collected tests from garbage collection, which commands and tests run in this process."""
    _use_hypothesis()
    gc.collect()
    _freeze()
    gc.freeze = gc.unfreeze = lambda: None  # a command that calls gc.unfreeze must not undo this
    gc.set_threshold(200_000, 50)  # as in commands
    gc.enable()
