"""Processes of a test run: started with a log each, and stopped at the end, whatever becomes of the run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

# Reads "+pid" and "-pid"; when its input ends, because we are done or were killed, it stops who is left.
GUARDIAN = """
import os, signal, sys, time
alive = set()
for line in sys.stdin:
    (alive.add if line[0] == "+" else alive.discard)(int(line[1:]))
for number, pause in ((signal.SIGTERM, 3), (signal.SIGKILL, 0)):
    for pid in alive:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
    if alive:
        time.sleep(pause)
"""


class Processes:
    """Children with a name and a log file each."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._guardian = subprocess.Popen(
            [sys.executable, "-c", GUARDIAN], stdin=subprocess.PIPE, text=True, start_new_session=True
        )

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        errors: int | None = None,
    ) -> None:
        """Start a process under a name that is free; what it prints is added to its log. `errors`: another stderr."""
        assert name not in self._running, f"{name} is running"
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                [*command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log if errors is None else errors,
                env={**os.environ, **(environment or {})},
            )
        self._running[name] = process
        self._tell(f"+{process.pid}")

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM, patience: float = 20) -> int:
        """Stop a process and wait for it; its exit status."""
        process = self._running.pop(name)
        process.send_signal(how)
        try:
            status = process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        self._tell(f"-{process.pid}")
        return status

    def runs(self, name: str) -> bool:
        """Whether it was started and not stopped since."""
        return name in self._running

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def signal(self, name: str, number: signal.Signals) -> None:
        self._running[name].send_signal(number)

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def assert_alive(self, name: str) -> None:
        status = self._running[name].poll()
        if status is not None:
            raise AssertionError(f"{name} ended with {status}:\n{self.tail(name)}")

    def tail(self, name: str, lines: int = 20) -> str:
        return "\n".join(self.log(name).read_text(errors="replace").splitlines()[-lines:])

    def wait_for(self, name: str, ready: Callable[[], bool], patience: float = 60) -> None:
        """Wait until it is ready; fails with the end of its log."""
        deadline = time.monotonic() + patience
        while not ready():
            self.assert_alive(name)
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} is not ready after {patience} s:\n{self.tail(name)}")
            time.sleep(0.02)

    def stop_all(self) -> None:
        """Stop everything, the last started first."""
        for name in reversed([*self._running]):
            self.stop(name, patience=3)
        assert self._guardian.stdin
        self._guardian.stdin.close()
        self._guardian.wait()

    def _tell(self, line: str) -> None:
        assert self._guardian.stdin
        self._guardian.stdin.write(line + "\n")
        self._guardian.stdin.flush()


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [int(sock.getsockname()[1]) for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()
