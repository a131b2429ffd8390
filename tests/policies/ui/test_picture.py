"""The picture of the pages in README: it shows what the pages show. `UPDATE=1` writes it again; see `make browser`."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from tests.policies.ui.browsing import CHROMIUM, chromium, opened, served

pytest.importorskip("playwright", reason="`make browser` installs Playwright")
pytestmark = pytest.mark.browser

PICTURE = Path("docs/guides/ui.png")
SIZE = {"width": 1180, "height": 700}
MAX_BYTES = 150_000
TEXTS = ("HARM", "2 Pods preempted, 4 stay Pending", "no capacity: 4 of class batch", "reports/nightly")
TOLERANCE = 12.0
"""Mean difference of brightness, of 255: fonts and the time differ between machines."""
_GREYS = """async (source) => {
  const image = new Image();
  image.src = source;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [24, 16];
  const drawing = canvas.getContext("2d");
  drawing.imageSmoothingQuality = "high";
  drawing.drawImage(image, 0, 0, 24, 16);
  const data = [...drawing.getImageData(0, 0, 24, 16).data];
  const greys = Array.from({ length: 24 * 16 }, (_, at) => (data[4 * at] + data[4 * at + 1] + data[4 * at + 2]) / 3);
  return [image.naturalWidth, image.naturalHeight, greys];
}"""


def greys(page: Any, png: bytes) -> tuple[int, int, list[float]]:
    """Width, height and the brightness of parts."""
    found: tuple[int, int, list[float]] = page.evaluate(
        _GREYS, f"data:image/png;base64,{base64.b64encode(png).decode()}"
    )
    return found


def test_the_picture_of_readme_is_that_of_the_pages() -> None:
    assert CHROMIUM, "no Chromium found; install it, or set CHROMIUM"
    with (
        chromium() as browser,
        served("docs/examples/whatif/cluster.yaml") as ui,
        opened(browser, ui, viewport=SIZE) as page,
    ):
        page.goto(f"{ui.base}/whatif?change=lose-zone&name=a")
        page.wait_for_selector("main > header")
        page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
        for text in TEXTS:
            place = page.get_by_text(text).first.bounding_box()
            assert place is not None
            assert place["y"] < SIZE["height"], text
        made = page.screenshot()
        if os.environ.get("UPDATE"):
            PICTURE.write_bytes(made)
        stored = PICTURE.read_bytes()
        width, height, expected = greys(page, made)
        found = greys(page, stored)
        assert [*found[:2]] == [width, height] == [SIZE["width"], SIZE["height"]]
        difference = sum(abs(a - b) for a, b in zip(found[2], expected, strict=True)) / len(expected)
        assert difference < TOLERANCE, "run again with UPDATE=1"
    assert len(stored) < MAX_BYTES
    assert f"]({PICTURE})" in Path("README.md").read_text()
