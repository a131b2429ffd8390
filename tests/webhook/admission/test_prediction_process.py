"""Predictions that take long: in processes of their own, that cost no more than their own time and memory."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import socket
import stat
from base64 import b64decode
from concurrent.futures import Future
from contextlib import suppress
from threading import Event, Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.base.forks import limit_memory
from forewarn.webhook.admission.endpoint import Endpoint
from forewarn.webhook.admission.lanes import Cost, Lane
from forewarn.webhook.admission.prediction_access import MORE_MEMORY, PredictionProcess, Predictors, Unanswered, Workers
from tests.webhook.builders import cluster, deployment, endpoint, review
from tests.webhook.running import JSON, Running, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _exists(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.fixture
def predictors() -> Iterator[Predictors]:
    judging = Lane("judge", 10)
    made = Predictors(judging, 1, limit=4)
    yield made
    made.lane.stop()
    judging.stop()


def _asked(
    predictors: Predictors, question: object, run: Callable[[Any], Any], seconds: float = 60, state: object = None
) -> Any:
    future: Future[Any] | None = predictors.lane.submit(
        Cost.POD, lambda: predictors.ask(question, monotonic() + seconds, (state,), run)
    )
    assert future is not None
    return future.result(seconds + 60)


def test_the_answer_is_worked_out_in_another_process_that_stays_for_the_same_state(predictors: Predictors) -> None:
    first, again = (_asked(predictors, n, lambda n: (os.getpid(), n)) for n in (1, 2))
    assert first == (first[0], 1)
    assert again == (first[0], 2)
    assert first[0] != os.getpid()


def test_another_state_is_answered_by_another_process(predictors: Predictors) -> None:
    states = [object(), object()]
    pids = [_asked(predictors, None, lambda _: os.getpid(), state=state) for state in states]
    assert pids[0] != pids[1]
    assert not _exists(pids[0])


def test_a_process_that_nobody_asks_any_more_ends(predictors: Predictors) -> None:
    pid = _asked(predictors, None, lambda _: os.getpid())
    until = monotonic() + 60
    while _exists(pid) and monotonic() < until:
        sleep(0.05)
    assert not _exists(pid)


def test_a_process_that_does_not_answer_in_time_is_killed_and_the_next_question_is_answered(
    predictors: Predictors,
) -> None:
    with pytest.raises(Unanswered, match="timed out"):  # `_asked` itself raises TimeoutError
        _asked(predictors, None, lambda _: sleep(600), seconds=0.2)
    assert _asked(predictors, 3, lambda n: n) == 3


def test_the_parts_of_an_answer_have_one_deadline() -> None:
    def in_parts(_: object) -> None:
        """Write the answer by itself, as a process that has little CPU time."""
        descriptor = next(fd for fd in range(3, 1024) if _is_socket(fd))
        answer = pickle.dumps(b"x" * 64)
        for byte in answer:
            sleep(0.1)
            os.write(descriptor, bytes([byte]))

    process, began = PredictionProcess(in_parts), monotonic()
    with pytest.raises(Unanswered, match="timed out"):
        process.ask(None, began + 0.5)
    assert monotonic() - began < 5
    process.end()


def _is_socket(descriptor: int) -> bool:
    with suppress(OSError):
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    return False


def test_memory_is_bounded(predictors: Predictors) -> None:
    with pytest.raises(Unanswered):
        _asked(predictors, None, lambda _: len(bytearray(2 * MORE_MEMORY)))
    assert _asked(predictors, 3, lambda n: n) == 3


def test_a_process_that_dies_is_told_of(predictors: Predictors) -> None:
    with pytest.raises(Unanswered, match="process exited"):
        _asked(predictors, None, lambda _: os.kill(os.getpid(), signal.SIGKILL))


def test_it_holds_no_connection_of_the_one_that_answers() -> None:
    ours, theirs = socket.socketpair()
    process = PredictionProcess(lambda n: n)
    assert process.ask(1, monotonic() + 5) == 1
    theirs.close()
    ours.settimeout(5)
    assert ours.recv(1) == b""  # nobody else has the other end
    process.end()
    ours.close()


def test_locks_that_another_thread_holds_do_not_stop_it() -> None:
    """Python 3.11 locks cached properties for all objects of a class."""
    from forewarn.policies.linting.rules.support.context import Context

    holding, done = Event(), Event()
    lock = getattr(vars(Context)["classes"], "lock", None)
    if lock is None:
        return

    def hold() -> None:
        with lock:
            holding.set()
            done.wait(60)

    Thread(target=hold, daemon=True).start()
    assert holding.wait(60)
    process = PredictionProcess(lambda _: vars(Context)["classes"].lock.acquire(timeout=1))
    assert process.ask(None, monotonic() + 5)
    done.set()
    process.end()


NODES = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{n}", "labels": {"zone": f"z{n % 3}", "host": f"node-{n}"}},
        "status": {"allocatable": {"cpu": "4", "memory": "4Gi", "pods": "110"}},
    }
    for n in range(400)
]


HOLDERS = [
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"holder-{n}", "namespace": "default", "uid": f"holder-{n}"},
        "spec": {
            "nodeName": "node-0",
            "containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]}],
        },
    }
    for n in range(2)
]
"""Two pods of one node with one port of its host: whoever wants it is predicted plugin by plugin."""


def spread(replicas: int) -> dict[str, Any]:
    obj = deployment()
    obj["spec"]["replicas"] = replicas
    labels = {"matchLabels": {"app": "web"}}
    obj["spec"]["template"]["spec"]["topologySpreadConstraints"] = [
        {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": labels}
        for key in ("zone", "host")
    ]
    container = obj["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "3500m"}}
    container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    return obj


def serving(processes: int) -> tuple[Endpoint, Workers]:
    state, workers = cluster(*NODES, *HOLDERS), Workers(processes)
    made = endpoint(lambda: state, predictors=workers.predictors, give_way=workers.evaluating.give_way)
    return made, workers


def test_a_prediction_that_takes_long_comes_to_the_same_in_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = json.dumps(review(spread(6))).encode()
    answers, asked, ask = [], list[object](), Predictors.ask

    def counted(self: Predictors, question: object, *rest: Any) -> Any:
        asked.append(question)
        return ask(self, question, *rest)

    monkeypatch.setattr(Predictors, "ask", counted)
    for processes in (0, 1):
        made, workers = serving(processes)
        with running(made, workers=workers) as served:
            answers.append(
                [served.post(path, given, **JSON)[2] for path in ("/mutate?timeout=30s", "/validate?timeout=30s")]
            )
        workers.stop()
    assert answers[0] == answers[1]
    assert len(asked) == 2


def _raises(error: Exception) -> Callable[..., Any]:
    def function(*_: object, **__: object) -> Any:
        raise error

    return function


def _serves(*acts: Callable[[socket.socket], object]) -> Callable[[socket.socket, object], None]:
    """The main loop of a process that does this, and no more."""

    def serve(requests: socket.socket, _: object) -> None:
        try:
            for act in acts:
                act(requests)
        finally:
            os._exit(1)

    return serve


def _die(number: signal.Signals) -> Callable[[object], None]:
    return lambda _: os.kill(os.getpid(), number)


def _say(data: bytes) -> Callable[[socket.socket], None]:
    return lambda requests: requests.sendall(data)


def _out_of_memory(requests: socket.socket) -> None:
    limit_memory(0)
    requests.sendall(bytes(1 << 30))


SERVE = "forewarn.webhook.admission.prediction_access._serve"
FAILURES: dict[str, tuple[str, Callable[..., Any]]] = {
    "no more processes": ("os.fork", _raises(BlockingIOError(errno.EAGAIN, "no more processes"))),
    "no memory for a process": ("os.fork", _raises(OSError(errno.ENOMEM, "no memory"))),
    "no file descriptors": ("socket.socketpair", _raises(OSError(errno.EMFILE, "too many open files"))),
    "no file descriptors in the process": ("os.dup2", _raises(OSError(errno.EMFILE, "too many open files"))),
    "killed at once": (SERVE, _serves(_die(signal.SIGKILL))),
    "killed after the question": (SERVE, _serves(lambda requests: requests.recv(1), _die(signal.SIGKILL))),
    "killed within the answer": (SERVE, _serves(_say(pickle.dumps("x" * 999)[:-9]), _die(signal.SIGKILL))),
    "killed before the end of the answer": (SERVE, _serves(_say(b"\x80\x04"), _die(signal.SIGKILL))),
    "no memory in the process": (SERVE, _serves(_out_of_memory)),
    "stopped": (SERVE, _serves(_die(signal.SIGSTOP))),
    "garbage": (SERVE, _serves(_say(b"garbage"))),
}


@pytest.mark.parametrize("name", FAILURES)
def test_where_a_process_fails_the_answer_is_cut_short_and_the_next_is_not(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, workers = serving(1)
    with running(made, workers=workers) as served, monkeypatch.context() as patch:
        patch.setattr(*FAILURES[name])
        responses = [_review(served, 6, "2s")]
        patch.undo()
        responses.append(_review(served, 7, "30s"))
    workers.stop()
    assert [response["allowed"] for response in responses] == [True, True]
    assert [b"incomplete" in b64decode(response.get("patch", "")) for response in responses] == [True, False]


def _review(served: Running, replicas: int, timeout: str) -> dict[str, Any]:
    status, _, body = served.post(f"/mutate?timeout={timeout}", json.dumps(review(spread(replicas))).encode(), **JSON)
    assert status == 200
    response: dict[str, Any] = json.loads(body)["response"]
    return response
