"""Starts the process of the operators' pages for `forewarn webhook serve --ui`, and gives it the latest decisions.

The pages have their own process, cluster state and connection to the API server, so they do not delay admission.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Final

from forewarn.webhook.logs import log_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.webhook.settings import Settings

_PROGRAM: Final = "forewarn.webhook.commands.operators"
_RESTART_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 5.0


class OperatorsPages:
    """Starts the process, and again if it ends. `recent`: the latest decisions and the accuracy, as JSON data."""

    def __init__(self, settings: Settings, recent: Callable[[], Any]) -> None:
        self._settings, self._recent = settings, recent
        self._directory = Path(tempfile.mkdtemp(prefix="forewarn-ui-"))  # no other user may open it
        self._stopped, self._lock = Event(), Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = Thread(target=self._run, name="pages", daemon=True)
        self._thread.start()

    def path(self) -> Path:
        """The Unix socket on which the process listens."""
        return self._directory / "socket"

    def stop(self) -> None:
        """End the process."""
        self._stopped.set()
        with self._lock:
            if self._process is not None:
                self._process.kill()
        self._thread.join(_STOP_SECONDS)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._serve()
            except OSError as error:
                log_event("the process of the pages cannot start", {"reason": str(error)}, logging.WARNING)
            self._stopped.wait(_RESTART_SECONDS)

    def _serve(self) -> None:
        """Start the process, and answer its requests until it ends."""
        ours, theirs = Pipe()
        with ours:
            with theirs, self._lock:
                if self._stopped.is_set():
                    return
                self.path().unlink(missing_ok=True)
                command = [sys.executable, "-P", "-m", _PROGRAM, str(theirs.fileno()), str(self.path())]
                self._process = subprocess.Popen(
                    command,
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            with suppress(OSError, EOFError):
                ours.send(self._settings)
                while True:
                    ours.recv_bytes(1)
                    ours.send(self._recent())
            self._process.kill()
            status = self._process.wait()
        if not self._stopped.is_set():
            log_event("the process of the pages exited", {"status": status}, logging.WARNING)
