"""The operators' pages in Chromium, through the webhook's health port; `make browser` runs them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

from tests.webhook.scripted_api import scripted_api
from tests.webhook.ui.browsing import CHROMIUM, MAX_SECONDS, chromium
from tests.webhook.ui.test_operators import Webhook, webhook

pytest.importorskip("playwright", reason="`make browser` installs Playwright")
pytestmark = pytest.mark.browser

WIDTHS = (390, 820, 1440)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    with scripted_api() as api, webhook(api, tmp_path_factory.mktemp("operators")) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    assert CHROMIUM, "no Chromium found; install it, or set CHROMIUM"
    with chromium() as found:
        yield found


@pytest.mark.parametrize("path", ["/", "/warnings", "/whatif"])
def test_a_token_opens_the_page_and_axe_finds_nothing(browser: Any, running: Webhook, path: str) -> None:
    axe = files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    for width, scheme in (*((width, "light") for width in WIDTHS), (WIDTHS[1], "dark")):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
        context.set_default_timeout(MAX_SECONDS * 1000)
        page = context.new_page()
        page.goto(f"http://localhost:{running.port}{path}")
        for _ in ("the form of the token", "the page"):
            page.evaluate(axe)
            found = page.evaluate("axe.run(document)")
            assert [(rule["id"], [node["target"] for node in rule["nodes"]]) for rule in found["violations"]] == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if page.locator("input[name=token]").count():
                page.fill("input[name=token]", "for-ada")
                page.keyboard.press("Enter")
                page.wait_for_selector("nav")
                page.wait_for_load_state("load")
        assert page.url == f"http://localhost:{running.port}{path}"
        assert page.locator("nav a").all_inner_texts()[-1] == "Accuracy and warnings"
        context.close()


def test_a_question_runs_through_the_health_port(browser: Any, running: Webhook) -> None:
    headers = {"Authorization": "Bearer for-ada"}
    context = browser.new_context(extra_http_headers=headers)
    context.set_default_timeout(MAX_SECONDS * 1000)
    page = context.new_page()
    page.goto(f"http://localhost:{running.port}/whatif")
    page.click("text=Lose zone a")
    page.wait_for_selector("main > header")
    assert page.inner_text("main .lead").startswith("zone a lost")
    page.click("#reload")
    page.wait_for_selector("#progress, main > header")
    context.close()
