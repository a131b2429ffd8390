"""Scripts of bash, in which no path needs quotes of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def bash(script: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """What a script prints, and its exit status. In the script, `"$0"` is this Python, and `"$1"` the first word."""
    command = ["bash", "-c", script, sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
