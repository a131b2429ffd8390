"""Does anybody warn of what an image has? `make advisories`, by pip-audit; it asks the service of the Python index.

Exit status 0: none but those of advisories.txt, 1: others, 3: the service does not
answer, or not about all of it.
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
ALLOWED: Final = HERE / "advisories.txt"
LOCK: Final = HERE.parent / "requirements-image.txt"
_LINE: Final = re.compile(r"(?P<id>[A-Z]+(-[A-Za-z0-9]+)+) +(?P<until>\d{4}-\d{2}-\d{2}) +(?P<why>\S.*)")


def allowed(text: str, today: datetime.date) -> tuple[list[str], list[str]]:
    """The ids that are let pass today, and those whose day is over. Raises ValueError: a line that is none."""
    held, over = [], []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            match = _LINE.fullmatch(line.strip())
            if match is None:
                raise ValueError(f"not an id, a day and a reason: {line}")
            (held if datetime.date.fromisoformat(match["until"]) >= today else over).append(match["id"])
    return held, over


def main() -> int:
    """Ask; returns the exit status."""
    held, over = allowed(ALLOWED.read_text(), datetime.datetime.now(datetime.UTC).date())
    for name in over:
        print(f"{ALLOWED.name}: the day of {name} is over", file=sys.stderr)  # noqa: T201
    asked = ["--requirement", str(LOCK), "--require-hashes", "--disable-pip", "--progress-spinner=off", "--format=json"]
    command = [sys.executable, "-m", "pip_audit", *asked, *(f"--ignore-vuln={name}" for name in held)]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        status, lines = evaluated(json.loads(done.stdout))
    except ValueError:
        status, lines = 3, [done.stderr.strip()]
    print("\n".join(lines), file=sys.stderr)  # noqa: T201
    return status


def evaluated(report: Any) -> tuple[int, list[str]]:
    """Exit status and lines for pip-audit's report, which calls a file clean whose packages it could not ask about."""
    found = report["dependencies"]
    unknown = [each for each in found if "skip_reason" in each]
    lines = [
        f"{each['name']} {each['version']}: {advisory['id']}, mended in {', '.join(advisory['fix_versions']) or 'none'}"
        for each in found
        for advisory in each.get("vulns", ())
    ]
    if lines:
        return 1, lines
    if unknown or not found:
        why = unknown[0]["skip_reason"] if unknown else "there are none"
        return 3, [f"nothing is known about {len(unknown)} of {len(found)} packages: {why}"]
    return 0, [f"no advisories about {len(found)} packages"]


if __name__ == "__main__":
    sys.exit(main())
