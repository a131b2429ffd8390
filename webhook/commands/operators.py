"""The program of the operators' pages, which `forewarn webhook serve --ui` runs: see `serve`.

The lowest CPU priority and a limit of memory apply to this process and all its questions.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import sys
from contextlib import suppress
from ctypes import CDLL
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.commands.cluster_command import Run
from forewarn.policies.commands.parser import Output
from forewarn.policies.forks import limit_memory
from forewarn.webhook.admission.access_reviews import TIMEOUTS, AccessReviews
from forewarn.webhook.apiserver.client import ApiServer, Timeouts, connect
from forewarn.webhook.apiserver.typed_client import ObjectApi
from forewarn.webhook.commands.state_source import context_of
from forewarn.webhook.commands.ui import answering, shown_of, state_of
from forewarn.webhook.ui.app import create_ui_app
from forewarn.webhook.ui.processes import MORE_MEMORY, Processes, Unanswered
from forewarn.webhook.ui.server import serving
from forewarn.webhook.ui.shown import Cluster
from forewarn.webhook.ui.viewers import Tokens, Viewers

if TYPE_CHECKING:
    from forewarn.webhook.settings import Settings
    from forewarn.webhook.ui.processes import Run as Ask

_ANSWER_SECONDS: Final = 5.0
_FRESH_SECONDS: Final = 1.0
"""The latest decisions are requested at most once in this time."""
_SUBREAPER: Final = 36
_CGROUP: Final = Path("/sys/fs/cgroup")
_VERSION_1: Final = ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")


class _Recent:
    """The latest decisions of the webhook. Safe from any thread."""

    def __init__(self, channel: Connection) -> None:
        self._channel, self._lock = channel, Lock()
        self._latest: Any = None
        self._until = 0.0

    def __call__(self) -> Any:
        """The decisions and the accuracy, as JSON data. Raises Unanswered."""
        with self._lock:
            if self._latest is None or self._until <= monotonic():
                self._channel.send_bytes(b"?")
                if not self._channel.poll(_ANSWER_SECONDS):
                    os._exit(1)  # the webhook starts this process again
                self._latest, self._until = self._channel.recv(), monotonic() + _FRESH_SECONDS
            return self._latest


def main(arguments: list[str]) -> None:
    """Serve the pages until the webhook ends. `arguments`: the descriptor of the pipe, and the path of the socket."""
    _become_unimportant()
    channel = Connection(int(arguments[0]))
    settings: Settings = channel.recv()
    context = context_of(settings.cluster) or ""
    spare = _spare_memory()
    processes = Processes(_unloaded, answering(partial(_load, settings, context, spare // 2)), 1, spare // 4)
    Thread(target=_exit_with, args=(channel.fileno(),), daemon=True).start()
    api = ObjectApi(ApiServer(partial(connect, context)), Timeouts(*TIMEOUTS))
    viewers = Viewers(Tokens(api, monotonic), AccessReviews(api, monotonic), monotonic)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(arguments[1])
        listening.listen()
        app = create_ui_app(Cluster(processes, None), processes, viewers, (_Recent(channel), viewers.readable))
        serving(listening, app).serve_forever()


def _load(settings: Settings, context: str, memory: int) -> tuple[Ask, Any]:
    """Read the cluster, in the process that answers questions."""
    limit_memory(memory)
    run = Run("ui", [f"live:{context}" if context else "live"], Output("text"), sys.stderr)
    state = state_of(run, settings.release, str(settings.config) if settings.config else None, [])
    return state.answer, shown_of(state, "this cluster")._asdict()


def _unloaded(*_: Any) -> Any:
    raise Unanswered("the cluster is not loaded yet. Fix: open the page again")


def _become_unimportant() -> None:
    """Use only CPU time that nothing else needs, be the first to end without memory, and leave no zombies."""
    with suppress(OSError):
        os.nice(19)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    with suppress(OSError, AttributeError):
        CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _spare_memory(cgroup: Path = _CGROUP) -> int:
    """Half of the memory that the container may still use, in bytes: the webhook keeps the other half."""
    spare = 8 * MORE_MEMORY
    for names in (("memory.max", "memory.current"), _VERSION_1):
        with suppress(OSError, ValueError):  # another version of cgroups, or no limit
            most, used = (int((cgroup / name).read_text()) for name in names)
            spare = min(spare, max(most - used, 0))
    return spare // 2


def _exit_with(descriptor: int) -> None:
    """End this process when the webhook ends."""
    poll = select.poll()
    poll.register(descriptor, 0)  # only its end
    poll.poll()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
