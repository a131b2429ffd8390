"""How long `forewarn lint` of one small file takes, against an empty interpreter: at most 10 times.

With `--tricks`, what each of TRICKS saves of this time: it fails for one that saves less than 5 %, which then has no
place in the code. Bytecode is there before anything is measured, as where the package is installed.
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
MIN_GAIN = 0.05
LIGHT = "import forewarn.policies.base.light as light"
TRICKS = {
    "light.NamedTuple": f"import typing; {LIGHT}; light.NamedTuple = typing.NamedTuple",
    "light.later": f"import re; {LIGHT}; light.later = re.compile",
}
"""What the linter does differently than usual for a quick start, and the code that does as usual."""
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


def check_tricks() -> int:
    """Return 1 if a trick saves less than MIN_GAIN."""
    with tempfile.TemporaryDirectory() as directory:
        manifest = Path(directory) / "pod.yaml"
        manifest.write_text(POD)
        gains = {name: _gain(code, manifest) for name, code in TRICKS.items()}
    for name, gain in gains.items():
        print(f"{name:18} saves {gain:4.0%} (at least {MIN_GAIN:.0%})")
    return int(min(gains.values()) < MIN_GAIN)


def _gain(code: str, manifest: Path) -> float:
    """Return the part of the time that a trick saves."""
    run = "import sys; from forewarn.policies.cli.main import main; sys.exit(main())"
    usual, tricky = ([sys.executable, "-c", f"{first}; {run}", "lint", str(manifest)] for first in (code, LIGHT))
    pairs = [(_seconds(usual), _seconds(tricky)) for _ in range(RUNS + 1)][1:]
    return 1 - statistics.median(b / a for a, b in pairs)


def _seconds(command: list[str]) -> float:
    environment = installed()
    started = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(check_tricks() if "--tricks" in sys.argv[1:] else main())
