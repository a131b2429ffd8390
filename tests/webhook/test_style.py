"""Texts of the webhook that users read are in the words of Kubernetes."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from forewarn.webhook.metrics import Metrics
from forewarn.webhook.settings import FLAGS
from tests.cases import each
from tests.style_words import banned_in

if TYPE_CHECKING:
    from collections.abc import Iterator

MORE: Final[tuple[tuple[str, str], ...]] = (
    (r"\bdriv(e|es|en|ing) out\b", "preempt"),
    (r"\bmakes? (pods )?go\b", "preempt"),
    (r"\bnobody goes\b", "no preemption"),
    (r"\brefus(e|es|ed|al|ing)\b", "reject, deny"),
    (r"\b(has|have|is|no) room\b", "fits, capacity"),
    (r"\bjudg(e|es|ed|ing)\b", "evaluate, check"),
    (r"\blook(s|ed|ing)? at\b", "check, read"),
    (r"\b(tell|tells|told|says|said|saying)\b", "report, show, print"),
    (r"\blet pass\b|\blets? .{0,20}\bpass\b", "skip, allow"),
    (r"\b(left|leave|leaves) .{0,12}\balone\b|\b(left|leave|leaves) out\b", "ignore, skip, exclude"),
    (r"\bsuccessors?\b", "replacement Pod"),
    (r"\bput right\b|\bsee(s|n)? to\b(?! it)", "reconcile"),
    (r"\b(whoever|whosoever|whom|somebody|anybody|nobody)\b|\bwho asks\b", "user, requester, client"),
    (r"\bstands? (for|in|by)\b", "is the value of, replaces, is a standby"),
    (r"\bat work\b", "running, the leader"),
    (r"\b(comes|come|came) (of|about|to be|back|up|down)\b", "results in, happens"),
    (r"\bbecomes? of\b", "happens to"),
    (r"\bthere is no\b|\bis no\b|\bis none of\b|\bis not there\b", "not found, is not"),
    (r"\bread again\b", "reloaded"),
    (r"\b(has|have) ended\b|\bis ending\b|\bending pods?\b", "expired, terminating"),
    (r"\bfits nowhere\b|\bfinds no place\b", "stays Pending"),
    (r"\bheld to\b", "verified against"),
    (r"\blate (state|news|cluster state)\b|\bnews\b", "stale cache, message from the API server"),
    (r"\bfault of ours\b", "internal error"),
    (r"\bbroke off\b", "was cut off"),
    (r"\bupkeep\b", "background task"),
    (r"\baftermath\b", "cascade"),
)
"""Pattern, whatever the case, and what to write instead, beyond those that all texts share."""
_COMPILED: Final = tuple((re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in MORE)

ELSEWHERE = {"webhook/admission/decision.py", "webhook/accuracy.py", "webhook/commands/accuracy.py"}
"""Modules whose texts have tests of their own."""
MODULES = sorted(path for path in Path("webhook").rglob("*.py") if str(path) not in ELSEWHERE)
MANIFESTS = sorted(
    path
    for path in (*Path("manifests").rglob("*"), Path("Dockerfile"), Path("action.yml"), Path(".pre-commit-hooks.yaml"))
    if path.is_file() and path.suffix not in (".json", ".tpl")
)


def banned(text: str) -> Iterator[str]:
    """What is wrong with a text: `"looks at": write check, read`."""
    yield from banned_in(text)
    for pattern, instead in _COMPILED:
        if (found := pattern.search(text)) is not None:
            yield f'"{found[0]}": write {instead}'


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and text of each string but docstrings; a replacement field is `…`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            yield from texts(node)


@each(lambda: ((path,) for path in MODULES))
def test_strings_of_the_code(path: Path) -> None:
    """Log lines, errors, help, checks of the doctor. A single word is a name, not a text."""
    found = [(line, text) for line, text in texts(ast.parse(path.read_text())) if re.search(r"\w \w", text)]
    assert [f"{path}:{line}: {wrong}" for line, text in found for wrong in banned(text)] == []


def test_metrics() -> None:
    found = [(metric.name, metric.help) for metric in Metrics().described]
    assert [f"{name}: {wrong}" for name, text in found for wrong in banned(f"{name.replace('_', ' ')} {text}")] == []
    assert [name for name, text in found if not re.match(r"[A-Z0-9].*\.$", text)] == []


def test_settings() -> None:
    found = [(flag.name, flag.help) for flag in FLAGS]
    assert [f"{name}: {wrong}" for name, text in found for wrong in banned(text)] == []
    assert [name for name, text in found if text.endswith(".")] == []


def test_alerts_and_dashboard() -> None:
    rules = yaml.safe_load(Path("manifests/components/monitoring/rules.yaml").read_text())
    alerts = [rule for group in rules["spec"]["groups"] for rule in group["rules"]]
    said = [
        (a["alert"], text) for a in alerts for text in (a["annotations"]["summary"], a["annotations"]["description"])
    ]
    dashboard: Any = json.loads(Path("manifests/components/monitoring/forewarn.json").read_text())
    said += [(p["title"], f"{p['title']} {p.get('description', '')}") for p in dashboard["panels"]]
    assert [f"{name}: {wrong}" for name, text in said for wrong in banned(text)] == []


def test_every_metric_is_on_the_dashboard_or_in_an_alert_or_explained() -> None:
    """A metric that the dashboard shows or an alert uses must exist."""
    described = {metric.name for metric in Metrics().described}
    for name in ("forewarn.json", "rules.yaml"):
        used = set(re.findall(r"forewarn_[a-z_]+", Path("manifests/components/monitoring", name).read_text()))
        assert {re.sub("_bucket$", "", metric) for metric in used} <= described
    shown = Path("manifests/components/monitoring/forewarn.json").read_text()
    assert "forewarn_predictions_shown_total" in shown


def test_the_page_has_every_metric() -> None:
    page = Path("docs/reference/metrics.md").read_text()
    rows = re.findall(r"^\| `(forewarn_[a-z_]+)` \|", page, re.MULTILINE)
    assert sorted(rows) == sorted(metric.name for metric in Metrics().described)


@each(lambda: ((path,) for path in MANIFESTS))
def test_comments_and_descriptions_of_manifests(path: Path) -> None:
    lines = enumerate(path.read_text().splitlines(), 1)
    found = [(n, line) for n, line in lines if re.search(r"#|[dD]escription:|message:|^\| |summary:", line)]
    assert [f"{path}:{n}: {wrong}" for n, line in found for wrong in banned(line)] == []


@pytest.mark.parametrize(
    "text", ["its pods would be pushed out", "It is refused.", "a fault of ours", "nobody answers"]
)
def test_banned_words_are_found(text: str) -> None:
    assert list(banned(text))
