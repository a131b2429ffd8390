"""The pages in Chromium: by keyboard, at three widths, light and dark, with hostile names; `make browser` runs them."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.cli.ui.questions import QUESTIONS
from tests.benchmarks.clusters import Size, objects
from tests.policies.ui.browsing import CHROMIUM, Served, chromium, opened, served, until
from tests.policies.ui.test_processes import wait_until

pytest.importorskip("playwright", reason="`make browser` installs Playwright")
pytestmark = pytest.mark.browser

CLUSTER = "docs/examples/whatif/cluster.yaml"
MANIFEST = Path("docs/examples/headroom/cache.yaml").read_text()
LOST = "/whatif?change=lose-zone&name=a"
WIDTHS = (390, 820, 1440)
PAGES = (
    "/",
    "/whatif?change=why&name=shop/deployment/web",
    "/predict",
    "/predict#manifest",
    "/whatif",
    LOST,
    "/whatif?change=lose-zone&name=c",
    "/risk",
    "/audit",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    assert CHROMIUM, "no Chromium found; install it, or set CHROMIUM"
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def ui() -> Iterator[Served]:
    with served(CLUSTER) as found:
        yield found


@pytest.fixture
def page(browser: Any, ui: Served) -> Iterator[Any]:
    with opened(browser, ui) as found:
        yield found


def show(page: Any, ui: Served, path: str) -> None:
    """Open a page, and wait for its answer."""
    page.goto(ui.base + path.partition("#")[0])
    if path.endswith("#manifest"):
        predict(page, MANIFEST)
    elif path.startswith(("/whatif?", "/risk", "/audit")):
        page.wait_for_selector("main > header, #failed:not([hidden])")


def predict(page: Any, text: str) -> None:
    before = int(page.evaluate("document.documentElement.dataset.predicted ?? 0"))
    page.fill("#manifest", text)
    until(page, f"document.documentElement.dataset.predicted > {before}")


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing_at_three_widths_in_light_and_dark(browser: Any, ui: Served, path: str) -> None:
    axe = files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    for width, scheme in (*((width, "light") for width in WIDTHS), (WIDTHS[1], "dark")):
        look = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, "bypass_csp": True}
        with opened(browser, ui, **look) as page:
            show(page, ui, path)
            page.evaluate(axe)
            found = page.evaluate("axe.run(document)")
            against = [(rule["id"], [node["target"] for node in rule["nodes"]]) for rule in found["violations"]]
            assert against == [], (width, scheme)
            assert len(found["passes"]) > 15
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_narrow_page_has_equal_columns_and_no_loose_heads_and_a_risk_no_inner_scrolling(
    browser: Any, ui: Served
) -> None:
    with opened(browser, ui, viewport={"width": 390, "height": 900}) as page:
        widths = page.locator(".cell").evaluate_all("all => all.map((each) => each.offsetWidth)")
        assert (len(widths), len({*widths})) == (4, 1)
        chips = page.locator(".chips a").evaluate_all("all => all.map((each) => each.getBoundingClientRect().right)")
        assert len(chips) > 8
        assert max(chips) <= 390, "wrapped"
        assert not page.is_visible("thead")
        show(page, ui, "/risk")
        assert page.locator(".scroll").first.evaluate("box => box.scrollHeight === box.clientHeight")
    with opened(browser, ui) as page:
        assert page.is_visible("thead")


def test_a_zone_loss_by_keyboard_alone(page: Any, ui: Served) -> None:
    show(page, ui, "/whatif")
    tab_to(page, "Lose zone b")
    page.keyboard.press("Enter")
    page.wait_for_selector("main > header")
    assert "zone b lost" in page.inner_text("main h1")
    tab_to(page, "play")
    for moment in ("after", "before", "after"):
        until(page, f"document.getElementById('moment-told').value === '{moment}'")
        if moment == "after":
            page.keyboard.press("Enter")


def test_nodes_are_selected_and_drained_by_keyboard_alone(page: Any, ui: Served) -> None:
    show(page, ui, "/whatif")
    tab_to(page, "a-1: ")
    page.keyboard.press("Space")
    assert page.input_value("#name") == "a-1"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector("main > header")
    assert "drain of 2 of 4 nodes" in page.inner_text("main h1")


def tab_to(page: Any, name: str) -> None:
    """Press Tab until an element with this text or label has the focus."""
    script = "(document.activeElement.ariaLabel || document.activeElement.textContent).trim()"
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(script).startswith(name):
            return
    raise AssertionError(f"no Tab reaches {name}")


def test_a_prediction_follows_each_change_and_its_link_restores_it(page: Any, ui: Served) -> None:
    show(page, ui, "/predict#manifest")
    assert page.inner_text("#answer .lead") == "2 of 2 new Pods run"
    text = MANIFEST
    for before, after in (("replicas: 2", "replicas: 9"), ("cpu: 500m", 'cpu: "1"')):
        text = text.replace(before, after)
        predict(page, text)
    shown = page.inner_text("#answer")
    assert page.inner_text("#answer .lead") == "8 of 9 new Pods run, 4 of them by preemption"
    assert tiles(page)["victims"] == "4"
    assert "4 nodes: insufficient cpu" in shown
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_selector("html[data-predicted]")
    assert other.inner_text("#answer") == shown
    assert other.input_value("#manifest") == text


def tiles(page: Any) -> dict[str, str]:
    """The counters of the prediction."""
    return dict(zip(*(page.locator(f"#answer .tile {tag}").all_inner_texts() for tag in ("dt", "dd")), strict=True))


def test_a_new_class_shows_its_victims(page: Any, ui: Served) -> None:
    show(page, ui, "/predict")
    page.click("#example")
    page.wait_for_selector(".tile.bad:has-text('victims')")
    assert "nightly" in page.inner_text("#answer")
    assert page.locator("#picture .victims").count() > 0


def test_a_manifest_with_an_error_has_the_reason_and_no_old_prediction(page: Any, ui: Served) -> None:
    show(page, ui, "/predict#manifest")
    page.fill("#manifest", "a: [")
    page.wait_for_selector("#fault:not([hidden])")
    assert "did not find expected node content" in page.inner_text("#fault")
    assert page.inner_text("#answer") == ""


COPIED = {
    "/": "forewarn classes",
    "/predict#manifest": "forewarn predict -f -",
    LOST: "forewarn whatif lose zone a",
    "/risk?namespace=shop": "forewarn risk -n shop",
    "/audit": "forewarn audit",
}


@pytest.mark.parametrize("path", COPIED)
def test_the_buttons_copy_link_command_and_json(browser: Any, ui: Served, path: str) -> None:
    with opened(browser, ui, permissions=["clipboard-read", "clipboard-write"]) as page:
        show(page, ui, path)
        copied = {}
        for name in ("link", "command", "json"):
            page.evaluate("document.getElementById('copied').textContent = ''")
            page.click(f"#copy-{name}")
            until(page, "document.getElementById('copied').textContent.endsWith('copied')")
            copied[name] = page.evaluate("navigator.clipboard.readText()")
        assert copied["link"].startswith(ui.base + path.partition("#")[0])
        assert copied["command"].startswith(f"{COPIED[path]} --cluster {CLUSTER}")
        document = json.loads(copied["json"])
        if path == LOST:
            assert document["running"] == {"before": 8, "after": 4}
        shown = page.inner_text("main")
        page.goto("about:blank")
        page.goto(copied["link"])
        page.wait_for_selector("html[data-predicted]" if "predict" in path else "html[data-drawn], main > header")
        assert page.inner_text("main") == shown, "the link restores the page"


def test_a_prediction_by_keyboard_alone(page: Any, ui: Served) -> None:
    show(page, ui, "/predict")
    tab_to(page, "Use an example")
    page.keyboard.press("Enter")
    page.wait_for_selector("html[data-predicted]")
    page.wait_for_selector(".tile.bad:has-text('victims')")


def test_a_cluster_that_changed_is_read_again(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    text = Path(CLUSTER).read_text()
    file.write_text(text)
    with served(file) as ui, opened(browser, ui) as page:
        file.write_text(text.replace("b-2", "b-3"))
        page.click("#reload")
        page.wait_for_selector(".cell[data-name=b-3]")
        assert page.locator(".cell[data-name=b-2]").count() == 0
        file.unlink()
        page.click("#reload")
        until(page, "document.getElementById('copied').textContent.includes('not reloaded')")
        show(page, ui, LOST)
        assert "zone a lost" in page.inner_text("main h1"), "the earlier cluster stays"


def test_a_closed_tab_ends_its_question(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(
        json.dumps({"kind": "List", "apiVersion": "v1", "items": list(objects(Size(400)))})
    )
    with served(tmp_path / "cluster.json") as ui, opened(browser, ui) as page:
        before = descendants(ui.pid)
        tab = page.context.new_page()
        tab.goto(f"{ui.base}/risk")
        wait_until(lambda: descendants(ui.pid) - before)
        tab.close()
        wait_until(lambda: not descendants(ui.pid) - before)


def descendants(pid: int) -> set[int]:
    """The processes below this one."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(stat.parent.name)] = int(parent)
    found, size = {pid}, 0
    while size < len(found):
        size = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found


def test_two_tabs_ask_different_questions(page: Any, ui: Served) -> None:
    other = page.context.new_page()
    other.goto(ui.base + "/whatif?change=drain&name=b-1")
    page.goto(ui.base + "/whatif?change=drain&name=b-2")
    for tab, node in ((other, "b-1"), (page, "b-2")):
        tab.wait_for_selector("main > header")
        assert f"drain of node {node}" in tab.inner_text("main h1")


def test_the_nodes_are_searched_and_filtered_by_class(page: Any) -> None:
    page.fill("#search", "a-1")
    assert page.inner_text("#found") == "1 of 4 nodes"
    assert page.locator(".cell.off").count() == 3
    page.fill("#search", "")
    label = page.locator(".cell").first.get_attribute("aria-label")
    page.select_option("#band", label="batch · 100")
    percents = [
        int(found[1])
        for text in (label, page.locator(".cell").first.get_attribute("aria-label"))
        if (found := re.search(r": (\d+) %", text))
    ]
    assert percents[0] > percents[1] > 0


def test_a_link_restores_search_filter_and_moment(page: Any, ui: Served) -> None:
    show(page, ui, LOST)
    page.wait_for_load_state("load")
    page.fill("#search", "b-")
    page.select_option("#band", label="batch · 100")
    page.check("#tools input[type=radio] >> nth=1")
    page.evaluate("document.getElementById('moment').value = 0")
    page.dispatch_event("#moment", "input")
    other = page.context.new_page()
    other.goto(page.url)
    until(other, "document.getElementById('search').value === 'b-'")
    assert other.inner_text("#found") == page.inner_text("#found") == "2 of 4 nodes"
    script = "[band.value, moment.value, document.getElementById('moment-told').value]"
    assert other.evaluate(script) == page.evaluate(script)
    assert other.evaluate(script)[1:] == ["0", "before"]
    assert other.is_checked("#tools input[type=radio] >> nth=1")
    labels = [tab.locator(".cell").evaluate_all("all => all.map((each) => each.ariaLabel)") for tab in (page, other)]
    assert labels[0] == labels[1]


def test_a_lost_connection_suggests_a_reload_before_a_restart(page: Any, ui: Served) -> None:
    page.route("**/events/**", lambda route: route.abort())
    page.route("**/api/predict", lambda route: route.abort())
    page.goto(f"{ui.base}/whatif?change=lose-zone&name=c")
    page.wait_for_selector("#failed:not([hidden])")
    failed = page.inner_text("#failed")
    page.goto(f"{ui.base}/predict")
    page.click("#example")
    until(page, "document.body.innerText.includes('does not answer')")
    assert failed in page.inner_text("body")
    assert failed.index("reload this page") < failed.index("start it again")


def test_a_question_without_an_answer_has_the_focus_on_the_wrong_input(page: Any, ui: Served) -> None:
    show(page, ui, "/whatif?change=scale&name=deployment/web&number=3&namespace=shpo")
    assert page.inner_text("#failed").startswith("Deployment shpo/web not found")
    assert page.evaluate("document.activeElement.name") == "namespace"
    show(page, ui, "/whatif?change=upgrade&name=pool%3Dx&number=7")
    assert page.evaluate("document.activeElement.name") == "name"


HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"


def test_hostile_names_are_text(browser: Any, tmp_path: Path) -> None:
    text = Path(CLUSTER).read_text().replace("a-1", json.dumps(HOSTILE)).replace("shop", json.dumps("\u202e" + HOSTILE))
    (tmp_path / "cluster.yaml").write_text(text)
    with served(tmp_path / "cluster.yaml") as ui, opened(browser, ui) as page:
        for path in ("/", "/whatif", "/whatif?change=lose-zone&name=b", "/risk", "/audit", "/predict#manifest"):
            show(page, ui, path)
            assert page.locator("main img, main script:not([type='application/json'])").count() == 0
        show(page, ui, "/")
        assert HOSTILE in page.locator(".cell").all_inner_texts()


def test_six_questions_of_an_owner_take_at_most_twelve_clicks(browser: Any, tmp_path: Path) -> None:
    large = '{resources: {requests: {cpu: "99"}}, name: c, image: i}'
    (tmp_path / "cluster.yaml").write_text(
        f"""{Path(CLUSTER).read_text()}---
{{apiVersion: v1, kind: Pod, metadata: {{name: large, namespace: shop}}, spec: {{containers: [{large}]}}}}
"""
    )
    clicks = 0
    with served(tmp_path / "cluster.yaml") as ui, opened(browser, ui) as page:

        def ask(expected: str, *steps: str) -> None:
            """Ask where the last question ended. Texts (`=`) and Enter are no clicks, each other step is one."""
            nonlocal clicks
            for step in steps:
                if step.startswith("="):
                    page.wait_for_selector("input:focus, textarea:focus")
                    page.keyboard.insert_text(step[1:])
                else:
                    clicks += 1
                    page.click(step)
            if steps[-1].startswith("=") and "Predict" not in steps[0]:
                page.keyboard.press("Enter")
            page.wait_for_selector(f"main:has-text({json.dumps(expected)})")

        ask("4 of 8", "text=Lose zone a")
        ask("all nodes upgraded in 11 min", "text=Upgrade all nodes")
        ask("drain of node a-1", "text=Drain nodes >> nth=-1", "=a-1")
        ask("2 of 2 new Pods run", "a:text-is('Predict')", f"={MANIFEST}")
        ask("1 loses replicas with a lost zone", "a:text-is('Risk')")
        ask("Pending: fits nowhere", "a:text-is('Why is a Pod Pending?')", "=shop/large")
        ask("4 of 16 new Pods run", "text=Scale a workload >> nth=-1", "=shop/web", "[name=number]", "=20")
        ask(
            "new Pods of 1 workload rejected",
            "text=Delete a PriorityClass >> nth=-1",
            "=batch",
        )
        ask(
            "new Pods of 1 workload change priority",
            "text=Change a PriorityClass",
            "=batch",
            "[name=value]",
            "=200000",
        )
    assert clicks <= 12


def test_a_click_on_a_node_drains_it_and_a_changed_field_marks_the_answer_as_old(page: Any) -> None:
    page.click(".cell[data-name=b-1]")
    page.wait_for_selector("main > header")
    assert "drain of node b-1" in page.inner_text("main h1")
    opacity = "getComputedStyle(document.querySelector('main > header')).opacity"
    assert page.evaluate(opacity) == "1"
    page.fill("#name", "b-2")
    assert page.evaluate(opacity) == "0.4"


@pytest.mark.parametrize(
    ("change", "verb", "lead"), [("drain", "drain", "drain of node b-1"), ("lose-node", "lose", "node b-1 lost")]
)
def test_the_picture_says_what_a_click_on_a_node_asks(page: Any, ui: Served, change: str, verb: str, lead: str) -> None:
    page.goto(f"{ui.base}/whatif?change={change}")
    assert page.inner_text("#details > :first-child").startswith(f"Click a node to {verb} it")
    page.click(".cell[data-name=b-1]")
    page.wait_for_selector("main > header")
    assert f"{lead}" in page.inner_text("main h1")


def test_a_menu_has_all_questions_and_a_node_stays_for_the_next_one(page: Any, ui: Served) -> None:
    show(page, ui, "/whatif?change=drain&name=b-1")
    page.click("summary")
    assert {*page.locator(".menu a").all_inner_texts()} == {question.name for question in QUESTIONS.values()}
    page.click("a:text-is('Lose nodes')")
    page.wait_for_selector("main h1:has-text('node b-1 lost')")


def test_the_back_button_restores_the_question_with_its_answer(page: Any, ui: Served) -> None:
    show(page, ui, LOST)
    page.click("text=Drain nodes >> nth=-1")
    page.fill("#name", "b-1")
    page.press("#name", "Enter")
    page.wait_for_url("**change=drain*")
    page.wait_for_selector("main > header")
    page.go_back()
    page.go_back()
    page.wait_for_url("**change=lose-zone*")
    assert "zone a lost" in page.inner_text("main h1")
    assert page.input_value("#name") == "a"


def test_manifests_are_applied_and_the_link_restores_the_answer(page: Any, ui: Served) -> None:
    page.goto(f"{ui.base}/whatif?change=apply")
    page.fill(".ask textarea", MANIFEST)
    page.click(".ask > button")
    page.wait_for_selector("main > header")
    headline = page.inner_text("main > header")
    assert "2 of 2 new Pods run" in headline
    assert "Deployment shop/cache applied" in headline
    other = page.context.new_page()
    other.goto(page.url)
    assert other.inner_text("main > header") == headline
    assert other.input_value(".ask textarea").split() == MANIFEST.split()
