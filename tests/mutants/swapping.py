"""Mutants by exchanging the code of a function that is imported already: no process starts anew.

Tests are collected once; each mutant is a fork of that process, in which the function gets the code that its changed
source compiles to, and the tests that run the function are run. What cannot be exchanged (a constant of a module, a
default of an argument, a class body, code that runs at import) is left to `run.passes`.
"""

from __future__ import annotations

import ast
import faulthandler
import gc
import os
import pickle
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import _lru_cache_wrapper
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.mutants.mutations import mutated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import pytest

    from tests.mutants.mutations import Mutant

    Changed = Sequence[tuple[int, Mutant, Path]]

SPARE_SECONDS = 2.0
"""Of processor time, beyond five times what a test takes as all is: a test that takes more than both has noticed."""
MAX_MEMORY = 6 << 30
"""Bytes that a mutant's process may address: endless loops fill lists."""


class Function(NamedTuple):
    """A function of a source file: by these it is found among those that live."""

    path: str
    name: str
    line: int

    @classmethod
    def of(cls, code: CodeType) -> Function:
        """The one that has this code."""
        return cls(code.co_filename, code.co_qualname, code.co_firstlineno)


def exchange(path: Path, mutant: Mutant) -> tuple[Function, CodeType] | None:
    """The outermost function that a mutant changes, and its code then; None where it changes more than functions."""
    before = compile(ast.parse(path.read_text()), str(path), "exec")
    found = _changed(before, compile(mutated(path, mutant), str(path), "exec"))
    return None if found is None else (Function.of(found), found)


def _changed(before: CodeType, after: CodeType) -> CodeType | None:
    """The first function on the way to what differs; None where what differs is in no function."""
    if _own(before) != _own(after):
        return None
    differ = [(b, a) for b, a in zip(_inner(before), _inner(after), strict=True) if b != a]
    if len(differ) != 1:
        return None
    old, new = differ[0]
    if not old.co_flags & 1:  # CO_OPTIMIZED: a class body, or a module, has it not
        return _changed(old, new)
    return new if (old.co_freevars, old.co_name) == (new.co_freevars, new.co_name) else None


def _inner(code: CodeType) -> list[CodeType]:
    return [c for c in code.co_consts if isinstance(c, CodeType)]


def _own(code: CodeType) -> CodeType:
    return code.replace(co_consts=tuple(None if isinstance(c, CodeType) else c for c in code.co_consts))


def living(paths: set[str]) -> dict[Function, list[FunctionType]]:
    """The functions of these files that there are, wrapped in whatever; those of one line and name left out."""
    found: dict[Function, list[FunctionType]] = {}
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename in paths:
            found.setdefault(Function.of(one.__code__), []).append(one)
    return {key: ones for key, ones in found.items() if len({o.__code__ for o in ones}) == 1}


class Forks:
    """A pytest plugin: once tests are collected, `told` gets (number, verdict) of each mutant; None for "not this way".

    `seconds` (at least) is what each may take, `until` (monotonic clock) when the last one is begun.
    """

    def __init__(self, changed: Changed, seconds: float, until: float, told: Callable[[Any], object]) -> None:
        self._changed, self._seconds, self._until, self._told = changed, seconds, until, told

    def pytest_collection(self) -> None:
        """Examples of hypothesis: always the same, and a failure is not made smaller, as nobody reads it."""
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", derandomize=True, database=None, deadline=None, phases=phases)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running the tests once."""
        paths = {str(path) for _, _, path in self._changed}
        gc.unfreeze()  # what is frozen is not among the objects that gc lists
        functions = living(paths)
        gc.freeze()
        if session.testsfailed or not (took := self._as_all_is(session)):
            self._told(("fails", None))
            return True
        runs = self._who_runs(session, paths)
        for number, mutant, path in self._changed:
            if time.monotonic() > self._until:
                return True
            found = exchange(path, mutant)
            chosen = runs.get(found[0], []) if found else []
            if not found or found[0] not in functions or not chosen:
                self._told((number, None))
                continue
            chosen.sort(key=took.__getitem__)

            def change(found: tuple[Function, CodeType] = found) -> None:
                for function in functions[found[0]]:
                    function.__code__ = found[1]

            limits = {test: SPARE_SECONDS + 5 * took[test] for test in chosen}
            self._told((number, self._passes(session, limits, change)))
        return True

    def _as_all_is(self, session: pytest.Session) -> dict[int, float]:
        """Number of a test -> seconds of processor time; empty where one fails without any mutant."""

        def run() -> dict[int, float] | None:
            took = {}
            for number in range(len(session.items)):
                began = time.process_time()
                _run(session, [number])
                took[number] = time.process_time() - began
            return None if session.testsfailed else took

        return _in_fork(run) or {}

    def _who_runs(self, session: pytest.Session, paths: set[str]) -> dict[Function, list[int]]:
        """Function -> the tests that call it, itself or through others."""

        def run() -> dict[Function, list[int]]:
            seen: dict[int, CodeType] = {}

            def note(frame: Any, event: str, _: object) -> None:
                if event == "call" and id(frame.f_code) not in seen:
                    seen[id(frame.f_code)] = frame.f_code

            cached = [one for one in gc.get_objects() if type(one) is _lru_cache_wrapper]
            found: dict[Function, list[int]] = {}
            for number in range(len(session.items)):
                seen.clear()
                for one in cached:  # what an earlier test has asked would not be asked anew
                    one.cache_clear()
                threading.setprofile(note)
                sys.setprofile(note)
                _run(session, [number])
                sys.setprofile(None)
                threading.setprofile(None)
                for code in seen.values():
                    if code.co_filename in paths:
                        found.setdefault(Function.of(code), []).append(number)
            return found

        found: dict[Function, list[int]] = _in_fork(run)
        return found

    def _passes(self, session: pytest.Session, limits: dict[int, float], change: Callable[[], None]) -> bool:
        child = os.fork()
        if not child:
            code = 2
            try:
                os.setsid()
                resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY,) * 2)
                change()
                _run(session, limits, limits)
                code = bool(session.testsfailed)
            finally:
                os._exit(code)
        return ended_well(child, max(self._seconds, 10 * sum(limits.values())))


def _run(session: pytest.Session, numbers: Iterable[int], limits: dict[int, float] | None = None) -> None:
    """Run these tests up to the first that fails. One that takes longer than its limit ends the process."""
    numbers = list(numbers)
    items = [session.items[n] for n in numbers]
    for number, item, after in zip(numbers, items, [*items[1:], None], strict=True):
        if limits:
            signal.setitimer(signal.ITIMER_PROF, limits[number])
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if session.testsfailed:
            return


def _in_fork(work: Callable[[], Any]) -> Any:
    """What `work` returns in a fork of this process."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            with os.fdopen(write, "wb") as out:
                pickle.dump(work(), out)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        data = answer.read()
    os.waitpid(child, 0)
    return pickle.loads(data) if data else None


def ended_well(child: int, seconds: float) -> bool:
    """Whether a process, first of its group, ends with 0 within so many seconds; all of the group is ended then."""
    until = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        if time.monotonic() > until:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.01)


def verdicts(changed: Changed, tests: Sequence[str], seconds: float, until: float) -> Iterator[tuple[Any, bool | None]]:
    """(number, whether tests pass with it, or None where it cannot be told this way), one by one as they are known.

    ("fails", None) where tests fail without any mutant.
    """
    read, write = os.pipe()
    faulthandler.cancel_dump_traceback_later()  # pytest in the child would wait forever for this timer's thread
    child = os.fork()
    if not child:
        try:
            os.close(read)
            silent()
            import pytest

            with os.fdopen(write, "wb", buffering=0) as out:
                plugin = Forks(changed, seconds, until, lambda said: out.write(pickle.dumps(said)))
                plain = ["-p", "no:cacheprovider", "-n", "0", "--tb=no", "--assert=plain"]
                pytest.main(["-x", "-q", "-m", "not slow and not e2e", *plain, *tests], plugins=[plugin])
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answers:
        while True:
            try:
                yield pickle.load(answers)
            except EOFError:
                break
    os.waitpid(child, 0)


def silent() -> None:
    """Nothing is read or written from here on."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
