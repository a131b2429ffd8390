"""How long until a running cluster is known, and what following it costs: `python -m tests.benchmarks.bench_informer`.

Takes the kubeconfig's current cluster as it is. Whoever wants events while it follows makes them.
"""

from __future__ import annotations

import argparse
import gc
import resource
import time
from pathlib import Path

from forewarn.webhook.apiserver.client import ApiServer, connect
from forewarn.webhook.informer.informer import Informer


def resident() -> float:
    """MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--follow", type=float, default=30, help="seconds after the first state")
    options = parser.parse_args()
    gc.set_threshold(100_000)  # as `forewarn webhook serve` does
    before, started, cpu = resident(), time.monotonic(), time.process_time()
    informer = Informer(ApiServer(connect)).start()
    if not informer.wait(600):
        raise SystemExit(f"not in after 600 s: {informer.fault(0)}")
    state = informer.cluster()
    pods = len(state.pods) if state else 0
    took, cpu = time.monotonic() - started, time.process_time() - cpu
    print(f"{pods} pods in after {took:.1f} s, {cpu:.1f} s of CPU, {before:.0f} -> {resident():.0f} MB resident")
    cpu = time.process_time()
    time.sleep(options.follow)
    share = (time.process_time() - cpu) / options.follow
    print(f"followed for {options.follow:g} s: {share:.1%} of a core, {resident():.0f} MB resident")
    informer.stop()


if __name__ == "__main__":
    main()
