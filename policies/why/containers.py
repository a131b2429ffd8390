"""The causes in a Pod's container statuses: OOMKilled, errors, failed probes, containers that do not start."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import cut
from forewarn.policies.why.events import LONG
from forewarn.policies.why.trouble import Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.why.evidence import Evidence
    from forewarn.policies.why.records import Container, PodRecord, WaitingContainer

_BY_SIGNAL: Final = (128 + 9, 128 + 15)
_PROBE: Final = re.compile(r"Container (\S{1,253}) failed ((?:liveness|startup) probe)")


def of_containers(evidence: Evidence, pod: PodRecord, *, explained: bool) -> Iterator[Trouble]:
    """Yield the causes in container statuses. `explained`: the Pod's end has a cause, which explains other errors."""
    for container in pod.terminated:
        if container.reason == "OOMKilled":
            yield _oom(container)
        elif not explained and container.exit_code:
            yield _failed(evidence, pod, container)
    if not explained:
        yield from map(_waiting, pod.waiting)


def _oom(container: Container) -> Trouble:
    where = (
        f"at its memory limit of {container.limit}"
        if container.limit
        else "without a memory limit: its node ran out of memory"
    )
    more = f"; {container.restarts} restarts" if container.restarts > 1 else ""
    fix = "raise the memory limit, or use less memory" if container.limit else "set a memory request and limit"
    return Trouble("oom-killed", f"container {container.name} was OOMKilled {where}{more}", fix, container.when)


def _waiting(container: WaitingContainer) -> Trouble:
    text = f"container {container.name} does not start: {container.reason}: {cut(container.message, LONG)}"
    return Trouble("container-waiting", text.rstrip(": "))


def _failed(evidence: Evidence, pod: PodRecord, container: Container) -> Trouble:
    why = f" ({container.reason})" if container.reason not in ("", "Error") else ""
    more = f"; {container.restarts} restarts" if container.restarts > 1 else ""
    probe, in_this_run = _failed_probe(evidence, pod, container)
    if probe:
        text = (
            f"was killed because its {probe} failed (exit code {container.exit_code})"
            if in_this_run
            else f"exited with {container.exit_code}, after its {probe} failed in an earlier run"
        )
        fix = f"see the Event Unhealthy; check the {probe}"
        return Trouble("container-failed", f"container {container.name} {text}{more}", fix, container.when)
    text = f"container {container.name} exited with {container.exit_code}{why}{more}"
    return Trouble("container-failed", text, f"see `kubectl logs -c {container.name} --previous`", container.when)


def _failed_probe(evidence: Evidence, pod: PodRecord, container: Container) -> tuple[str, bool]:
    """The probe because of which the kubelet killed the container, and whether it was in this run; ("", False) if none.

    The kubelet reports only 25 Events about a Pod, and then one in five minutes. Source: kuberuntime_manager.go;
    client-go, tools/record, events_cache.go.
    """
    earlier = ""
    for event in evidence.events.of_pod(pod.name, pod.uid):
        found = _PROBE.match(event.message) if event.reason == "Killing" else None
        if found is None or found[1] != container.name:
            continue
        by_signal = container.exit_code in _BY_SIGNAL
        # The Event of repeated kills has only the time of the last one, which may be of the current run.
        if event.when >= container.started and (event.when <= container.when or by_signal):
            return found[2], True
        earlier = found[2] if by_signal else earlier
    return earlier, False
