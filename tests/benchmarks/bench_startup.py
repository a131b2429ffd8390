"""How long `forewarn lint` of one small file takes, against an empty interpreter: at most 10 times.

Bytecode is there before anything is measured, as where the package is installed.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.benchmarks.bench_lint import installed

RUNS = 15
LIMIT = 10.0
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {priorityClassName: gold}\n"


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        manifest = Path(directory) / "pod.yaml"
        manifest.write_text(POD)
        empty = [sys.executable, "-c", "pass"]
        lint = [sys.executable, "-m", "forewarn", "lint", str(manifest)]
        pairs = [(_seconds(empty), _seconds(lint)) for _ in range(RUNS + 1)][1:]
    ratio = statistics.median(b / a for a, b in pairs)
    print(f"python -c pass   {statistics.median(a for a, _ in pairs) * 1000:6.1f} ms")
    print(
        f"forewarn lint    {statistics.median(b for _, b in pairs) * 1000:6.1f} ms   {ratio:.1f} times (of {LIMIT:.0f})"
    )
    return int(ratio > LIMIT)


def _seconds(command: list[str]) -> float:
    environment = installed()
    started = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
