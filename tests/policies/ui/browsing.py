"""`forewarn ui` in its own process, and Chromium that has opened it."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
MAX_SECONDS = 120.0


class Served(NamedTuple):
    """`first`: the address with the token; `base`: without path and query; `pid`: of the server."""

    first: str
    base: str
    pid: int


@contextmanager
def served(cluster: Path | str) -> Iterator[Served]:
    """The pages about a cluster, until the end of the block."""
    command = [sys.executable, "-P", "-m", "forewarn", "ui", "--no-browser", "--cluster", str(cluster)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            readable, _, _ = select.select([process.stdout], [], [], MAX_SECONDS)
            first = process.stdout.readline().split()[-1] if readable else ""
            assert first.startswith("http://127.0.0.1:"), "forewarn ui does not start"
            yield Served(first, first.partition("/?")[0], process.pid)
        finally:
            process.terminate()


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Any, ui: Served, **context: Any) -> Iterator[Any]:
    """A page that has the cookie. An error of a script, or a request to another host, fails the block."""
    faults: list[str] = []

    def dismiss(dialog: Any) -> None:
        faults.append("a dialog")
        dialog.dismiss()

    made = browser.new_context(**context)
    made.set_default_timeout(MAX_SECONDS * 1000)
    page = made.new_page()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", dismiss)
    page.on("request", lambda sent: None if sent.url.startswith((ui.base, "data:")) else faults.append(sent.url))
    page.goto(ui.first)
    page.wait_for_selector("html[data-drawn]")
    yield page
    made.close()
    assert faults == []


def milliseconds_of(page: Any, action: str) -> float:
    """Time from an action (a script) until the browser has painted its effect."""
    painted = "new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now() - from))))"
    found: float = page.evaluate(f"() => {{ const from = performance.now(); {action}; return {painted}; }}")
    return found


def until(page: Any, condition: str) -> float:
    """Milliseconds until a script is true; Playwright's own function for this needs a policy that allows eval."""
    began = time.monotonic()
    while not page.evaluate(condition):
        assert time.monotonic() - began < MAX_SECONDS, condition
        page.wait_for_timeout(5)
    return (time.monotonic() - began) * 1000
