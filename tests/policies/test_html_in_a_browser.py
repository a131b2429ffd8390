"""The pages in headless Chromium: drawn at three widths, in time, and with nothing that axe has against them."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.cli.render.html.elements import data, document, element, table, template
from forewarn.policies.cli.render.html.nodes import nodes
from tests.policies.test_html import SHOWN, large, page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
)
MAX_SECONDS = 180
WIDTHS = (500, 820, 1440)
"""Pixels; Chromium's windows are no narrower than 500."""
DARK = "--blink-settings=preferredColorScheme=0"
AUDITED = "docs/examples/audit/cluster.yaml"
GROUPS = "docs/examples/whatif/node-groups.yaml"
NODE_PRESSURE = (
    *("whatif", "pressure", "a-1", "--cluster", "docs/examples/node-pressure/node.yaml"),
    *("--signal", "memory", "--stats", "docs/examples/node-pressure/stats.json"),
    *("--admit", "docs/examples/node-pressure/agent.yaml", "--shutdown", "0=60,100000=30"),
)
PAGES = {
    "whatif": ("whatif", "lose", "zone", "a", "--cluster", SHOWN),
    "class": ("whatif", "class", "batch", "--value", "200000", "--cluster", SHOWN),
    "headroom": ("headroom", "-f", "docs/examples/headroom/cache.yaml", "--cluster", SHOWN),
    "groups": ("headroom", "-f", "docs/examples/headroom/cache.yaml", "--cluster", SHOWN, "--node-templates", GROUPS),
    "risk": ("risk", "--cluster", SHOWN),
    "audit": ("audit", "--cluster", AUDITED, "--exit-zero"),
    "node-pressure": NODE_PRESSURE,
    "sweep": ("whatif", "lose", "--each", "zone", "--cluster", SHOWN, "--node-templates", GROUPS),
    "preempt": ("predict", "-f", "docs/examples/headroom/cache.yaml", "--replicas", "9", "--cluster", SHOWN),
}
LOOK = """
requestAnimationFrame(() => setTimeout(() => {
  const told = {painted: performance.now(), wide: document.documentElement.scrollWidth, window: innerWidth};
  const tell = () => {
    const place = document.createElement("pre");
    place.id = "told";
    place.textContent = JSON.stringify(told);
    document.body.append(place);
    new Image().src = saying + "told";
  };
  if (!window.axe) return tell();
  axe.run(document).then((found) => {
    const of = (rule) => rule.id + ": " + rule.nodes.map((node) => node.target.join(" ")).join(", ");
    told.passed = found.passes.length;
    told.against = found.violations.map(of);
    tell();
  });
}));
"""

HELD = """
var saying = "%s";
new Image().src = saying + "held";
"""
"""An image that does not come keeps the browser from taking the page for loaded, and so from printing it."""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]


def dumped(path: Path, *flags: str) -> str:
    """The document of a page once it is drawn."""
    assert CHROMIUM is not None
    own = f"--user-data-dir={path.parent / 'profile'}"
    done = subprocess.run(
        [CHROMIUM, *QUIET, own, *flags, "--dump-dom", f"file://{path}"],
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        check=True,
    )
    return done.stdout


@cache
def axe() -> str:
    return files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")


class Holding(ThreadingHTTPServer):
    """Answers the image `held` when the page has asked for the image `told`, however long a busy machine takes."""

    daemon_threads = True

    def __init__(self) -> None:
        self.told = Event()
        super().__init__(("127.0.0.1", 0), _Answering)


class _Answering(BaseHTTPRequestHandler):
    server: Holding

    def do_GET(self) -> None:
        if self.path == "/told":
            self.server.told.set()
        else:
            self.server.told.wait(MAX_SECONDS)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: a test says what went wrong."""


@contextmanager
def holding() -> Iterator[str]:
    """The address of such a server, while it is there."""
    with Holding() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.told.set()
            server.shutdown()


def looked_at(text: str, where: Path, *flags: str, with_axe: bool = True) -> dict[str, Any]:
    """What the browser tells of a page; its own policy would let no script in that asks."""
    body, _, end = re.sub(r"<meta[^>]*Content-Security-Policy[^>]*>", "", text).rpartition("</body>")
    with holding() as address:
        scripts = f"<script>{HELD % address}</script>" + (f"<script>{axe()}</script>" if with_axe else "")
        (where / "page.html").write_text(f"{body}{scripts}<script>{LOOK}</script></body>{end}")
        found = re.search(r'<pre id="told">(.*?)</pre>', dumped(where / "page.html", *flags), re.DOTALL)
    assert found, "the browser tells nothing"
    told: dict[str, Any] = json.loads(html.unescape(found[1]))
    return told


def with_script(text: str, script: str) -> str:
    """The page once a script has done what people do."""
    allowed = re.sub("script-src '[^']*'", "script-src 'unsafe-inline'", text)
    return allowed.replace("</body>", f"<script>{script}</script></body>")


def test_a_browser_draws_it_by_its_own_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page.html").write_text(page(capsys, "lose", "zone", "a", "--cluster", SHOWN))
    shown = dumped(tmp_path / "page.html", "--virtual-time-budget=2000")
    assert "data-drawn=" in shown
    assert len(re.findall('role="option"', shown)) == 4
    assert 'aria-label="b-1: 100 % of cpu requested"' in shown, "after the loss"
    assert "removed</span>" in shown


def test_the_table_of_a_sweep_is_sorted_by_its_heads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first click on a column sorts upwards: by numbers as numbers."""
    text = page(capsys, "lose", "--each", "node", "--cluster", "webhook/sample/cluster.yaml")
    path = tmp_path / "page.html"
    path.write_text(text)
    heads = re.findall('<button type="button">([^<]*)</button>', dumped(path, "--virtual-time-budget=2000"))
    assert heads[:5] == ["node", "preempted", "pending", "lost", "down"]
    path.write_text(with_script(text, "document.querySelectorAll('thead button')[3].click();"))
    assert re.findall('<th scope="row">([^<]*)</th>', text)[0] == "node-b"
    clicked = dumped(path, "--virtual-time-budget=2000")
    assert re.findall('<th scope="row">([^<]*)</th>', clicked)[2] == "node-b"


def test_the_rows_of_a_table_are_searched(tmp_path: Path) -> None:
    tables = [table("nodes", ("node",), [[f"{name}-{number}"] for number in range(7)], 7) for name in "ab"]
    folded = [element("details", template("search.html"), shown, open=True) for shown in tables]
    text = document("nodes", [element("main", element("section", *folded))], ("tables.js", "rows.js"))
    typed = "const field = document.querySelector('input[type=search]'); field.value = ' A-3 ';"
    path = tmp_path / "page.html"
    path.write_text(with_script(text, f"{typed} field.dispatchEvent(new Event('input'));"))
    searched = dumped(path, "--virtual-time-budget=2000")
    assert "1 of 7 rows" in searched
    assert searched.count('<tr hidden="">') == 6
    assert re.search('<div class="tools of-rows" *>', searched), "the script shows the field"


@pytest.mark.parametrize("name", PAGES)
def test_axe_has_nothing_against_it_at_three_widths_in_light_and_dark(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*PAGES[name], "-o", "html"]) == 0
    text = capsys.readouterr().out
    for width, *more in (*((width,) for width in WIDTHS), (WIDTHS[1], DARK)):
        flags = (f"--window-size={width},1000", *more)
        told = looked_at(text, tmp_path, *map(str, flags))
        assert told["against"] == [], (width, more)
        assert told["passed"] > 20
        assert told["wide"] <= told["window"] == width, "only what is in a box of its own scrolls to the side"


def test_what_axe_is_there_for_it_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = page(capsys, "lose", "zone", "a", "--cluster", SHOWN)
    broken = text.replace('aria-label="play"', "").replace("▶", "").replace('lang="en"', "")
    told = looked_at(broken, tmp_path)
    assert {finding.partition(":")[0] for finding in told["against"]} >= {"button-name", "html-has-lang"}


def test_five_thousand_nodes_are_drawn_in_time(tmp_path: Path) -> None:
    """Within a second on an idle machine, as docs/guides/what-if.md says; here others have the processor, too."""
    drawn = large(5000, 150_000)
    text = document("large", [element("main", element("h1", "large"), nodes(drawn)), data("nodes-data", drawn)])
    assert len(text.encode()) < 2_000_000
    painted = [looked_at(text, tmp_path, "--window-size=1440,1000", with_axe=False)["painted"] for _ in range(3)]
    assert min(painted) < 3000
