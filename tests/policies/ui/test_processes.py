"""Processes that answer questions: their limits, and their end when the page disconnects."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.cli.ui.processes import Processes, Unanswered

MAX_SECONDS = 120.0
"""A busy machine needs longer than a page."""


def run(question: dict[str, Any], print_notice: Callable[[str], None]) -> Any:
    """Do what a question says."""
    if question["do"] == "sleep":
        Path(question["file"]).write_text(str(os.getpid()))
        time.sleep(MAX_SECONDS)
    if question["do"] == "fail":
        raise Unanswered("no node matches zone c")
    if question["do"] == "break":
        raise KeyError("a fault of ours")
    if question["do"] == "fill":
        return len(bytearray(1 << 40))
    if question["do"] == "exit":
        os._exit(1)
    if question["do"] == "say":
        time.sleep(0.3)
        print_notice("half")
    return question


@contextmanager
def processes(most: int = 2, load: Callable[[], Any] | None = None) -> Iterator[Processes]:
    made = Processes(run, load or (lambda: (run, None)), most)
    try:
        yield made
    finally:
        made.close()


def answer(made: Processes, seconds: float = MAX_SECONDS, **question: Any) -> Any:
    *_, last = made.ask(question, seconds)
    return last.answer


def is_there(pid: int) -> bool:
    """True until the process has ended, also before it is reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + MAX_SECONDS
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def test_answers_of_any_length_and_several_one_after_the_other() -> None:
    with processes() as made:
        for text in ("", "é\n", "x" * 1_000_000):
            assert answer(made, do="echo", text=text) == {"do": "echo", "text": text}


def test_progress_precedes_the_answer() -> None:
    with processes() as made:
        said = [step.progress for step in made.ask({"do": "say"}, MAX_SECONDS) if step.progress]
        assert said == ["computing the answer", "half"]


@pytest.mark.parametrize(
    ("do", "reason"),
    [
        ("fail", "no node matches zone c"),
        ("break", "internal error, please report it: KeyError"),
        ("fill", "out of memory"),
        ("exit", "stopped"),
    ],
)
def test_a_question_without_an_answer_has_a_reason_and_others_are_answered(do: str, reason: str) -> None:
    with processes() as made:
        with pytest.raises(Unanswered, match=reason):
            answer(made, do=do)
        assert answer(made, do="echo") == {"do": "echo"}


def test_a_question_ends_at_its_time_limit(tmp_path: Path) -> None:
    with processes() as made:
        with pytest.raises(Unanswered, match="the time limit is reached"):
            answer(made, 0.2, do="sleep", file=str(tmp_path / "pid"))
        if (tmp_path / "pid").exists():  # on a busy machine it may not have begun
            wait_until(lambda: not is_there(int((tmp_path / "pid").read_text())))


def test_a_page_that_disconnects_ends_its_question(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with processes(most=1) as made:
        steps = made.ask({"do": "sleep", "file": str(file)}, MAX_SECONDS)
        wait_until(lambda: [next(steps), file.exists() and file.read_text()][1])
        pid = int(file.read_text())
        assert is_there(pid)
        steps.close()
        wait_until(lambda: not is_there(pid))
        assert answer(made, do="echo") == {"do": "echo"}, "its place is free"


def test_more_questions_wait(tmp_path: Path) -> None:
    with processes(most=1) as made:
        first = made.ask({"do": "sleep", "file": str(tmp_path / "pid")}, MAX_SECONDS)
        next(first)
        second = made.ask({"do": "echo"}, MAX_SECONDS)
        assert next(second).progress == "waiting for other questions"
        first.close()
        steps = [*second]
        assert steps[0].progress == "computing the answer"
        assert steps[-1].answer == {"do": "echo"}


def test_short_questions_do_not_wait_for_long_ones(tmp_path: Path) -> None:
    with processes(most=1) as made:
        long = made.ask({"do": "sleep", "file": str(tmp_path / "pid")}, MAX_SECONDS)
        next(long)
        assert answer(made, seconds=30.0, do="echo") == {"do": "echo"}
        long.close()


def test_a_loaded_cluster_answers_later_questions_and_questions_that_run_stay(tmp_path: Path) -> None:
    file = tmp_path / "cluster"

    def load() -> Any:
        if not file.exists():
            raise Unanswered("no such file")
        text = file.read_text()
        return (lambda question, _: [text, question]), {"text": text}

    with processes(load=load) as made:
        with pytest.raises(Unanswered, match="no such file"):
            made.load()
        assert answer(made, do="echo") == {"do": "echo"}
        earlier = made.ask({"do": "say"}, MAX_SECONDS)
        next(earlier)
        for text in ("one", "two"):
            file.write_text(text)
            assert made.load() == {"text": text}
            assert answer(made) == [text, {}]
        assert [step.answer for step in earlier][-1] == {"do": "say"}
