"""How fast `forewarn ui` is in Chromium: first paint, a search, and a prediction after a change.

`python -m tests.benchmarks.bench_ui [--nodes 400 5000]`; needs Playwright and Chromium, as `make browser`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median

from tests.benchmarks.clusters import Size, objects
from tests.policies.ui.browsing import Served, chromium, milliseconds_of, opened, served, until

MANIFEST = Path("docs/examples/headroom/cache.yaml").read_text().replace("priorityClassName: gold", "priority: 5000")
RUNS = 5
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
TYPE = (
    "const field = document.getElementById('{id}'); field.value = '{text}'; "
    "field.dispatchEvent(new Event('{event}', {{bubbles: true}}))"
)


def measured(ui: Served) -> dict[str, float]:
    """Medians in milliseconds."""
    with chromium() as browser, opened(browser, ui) as page:
        paints, draws, searches, filters, predictions = [], [], [], [], []
        for _ in range(RUNS):
            page.goto(f"{ui.base}/")
            page.wait_for_selector("html[data-drawn]")
            paints.append(page.wait_for_function(PAINT).json_value())  # possibly recorded after it is drawn
            draws.append(float(page.evaluate("document.documentElement.dataset.drawn")))
            searches.append(milliseconds_of(page, TYPE.format(id="search", text="7", event="input")))
            filters.append(milliseconds_of(page, TYPE.format(id="band", text="1", event="change")))
        page.goto(f"{ui.base}/predict")
        page.fill("#manifest", MANIFEST)
        page.wait_for_selector("html[data-predicted]")
        for run in range(RUNS):
            page.fill("#manifest", MANIFEST.replace("cpu: 500m", f"cpu: {run + 1}"))
            predictions.append(until(page, f"document.documentElement.dataset.predicted > {run + 1}"))
    found = {"first paint": paints, "drawn": draws, "search": searches, "filter": filters, "prediction": predictions}
    return {name: median(times) for name, times in found.items()}


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[400, 5000])
    for nodes in parser.parse_args().nodes:
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "cluster.json"
            path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": list(objects(Size(nodes)))}))
            with served(path) as ui:
                times = measured(ui)
        print(f"{nodes} nodes:", ", ".join(f"{name} {ms:.0f} ms" for name, ms in times.items()), flush=True)


if __name__ == "__main__":
    main()
