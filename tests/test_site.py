"""`make site`, if mkdocs-material is installed: faults fail it, it loads nothing, its search finds the right page."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("material", reason="pip install '.[docs]'")

COMMAND = re.findall(r"-m (mkdocs build .*)$", Path("Makefile").read_text(), re.MULTILINE)[0].split()


PAGE = "docs/faq.md"
Vectors = dict[str, dict[str, float]]
"""Location of a section -> the weight of each of its terms."""


def _build(directory: Path, page: str, text: str) -> subprocess.CompletedProcess[str]:
    """Build the site of a copy of the repository in which a page has more text."""
    for name in ("docs", ".build"):
        shutil.copytree(name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in Path().iterdir():
        if path.name not in ("docs", ".build", ".cache", ".git"):
            (directory / path.name).symlink_to(path.absolute())
    with (directory / page).open("a") as written:
        written.write(f"\n{text}")
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", *COMMAND]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=500
    )


@pytest.mark.parametrize(
    ("page", "text", "reported"),
    [
        (PAGE, "[nowhere](nowhere.md)\n", "nowhere.md"),
        (PAGE, "[nothing](alternatives.md#no-such-heading)\n", "no-such-heading"),
        ("docs/unfound.md", "# A page outside the menu\n", "unfound.md"),
        (PAGE, "```mermaid\ngraph LR\n```\n", "mermaid"),
    ],
)
def test_a_fault_fails_the_build(tmp_path: Path, page: str, text: str, reported: str) -> None:
    done = _build(tmp_path, page, text)
    assert done.returncode != 0
    assert reported in done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    done = _build(directory, PAGE, "")
    assert done.returncode == 0, done.stderr
    return directory / ".cache/site"


def test_the_site_loads_nothing_from_other_hosts(site: Path) -> None:
    """Links to other sites are fine; scripts, styles, fonts and images are the site's own."""
    loads = re.compile(
        r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//|<link\b[^>]*\bhref=["']?https?://"""
    )
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    assert [f"{path}: {found[0]}" for path in pages for found in loads.finditer(path.read_text())] == []
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.search(r"@import|url\(['\"]?https?:", styles)


def test_callouts_of_github_are_admonitions(site: Path) -> None:
    page = (site / "guides/run-the-webhook/index.html").read_text()
    assert '<div class="admonition warning">' in page
    assert [str(path) for path in site.rglob("*.html") if "[!WARNING]" in path.read_text()] == []


def test_pages_have_nothing_that_only_the_site_renders() -> None:
    """GitHub shows tabs and admonitions of mkdocs as text, and front matter as a table."""
    pages = [Path("README.md"), *Path("docs").rglob("*.md")]
    assert [
        str(page) for page in pages if re.search(r"\A---$|^ *(===|!!!|\?\?\?) ", page.read_text(), re.MULTILINE)
    ] == []


QUESTIONS = {
    "pod stuck pending priority": "guides/why/",
    "why was my pod evicted": "guides/why/",
    "OOMKilled": "guides/why/",
    "lose a zone": "guides/what-if/",
    "zone outage": "guides/what-if/",
    "globalDefault two": "reference/rules/global-default-not-unique/",
    "victims": "guides/predict/",
    "prediction wrong": "guides/predict/",
    "drain node pdb": "guides/what-if/",
    "node upgrade blocked by pdb": "guides/before-an-upgrade/",
    "GKE quota system-node-critical": "reference/rules/system-class-blocked-by-quota/",
    "kubelet memory pressure eviction": "guides/node-pressure/",
    "cluster-autoscaler scale up pending pods": "guides/autoscalers/",
    "placeholder pods overprovisioning": "guides/headroom/",
    "how many more replicas fit": "guides/headroom/",
    "helm install webhook": "guides/run-the-webhook/",
    "exempt namespace": "guides/run-the-webhook/",
    "failurePolicy": "guides/run-the-webhook/",
    "EKS webhook security group": "guides/hosted-control-planes/",
    "argocd": "guides/gitops/",
    "github actions": "guides/lint-in-ci/",
    "suppress findings": "guides/lint/",
    "choose priority values": "guides/introduce-priority-classes/",
    "change value of priorityclass": "guides/change-priority-classes/",
    "quota priorityclass namespace": "guides/limit-a-priority-class/",
    "gang scheduling": "guides/pod-groups/",
    "prometheus alerts": "guides/troubleshoot/",
    "supported kubernetes versions": "faq/",
    "custom scheduler profile": "reference/scheduler-profiles/",
}
"""What users type into the search field -> the page that answers it."""
FOUND = 27
"""Of the questions, at least so many have the right page as their first hit."""
STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        a able about across after all almost also am among an and any are as at be because been but by can cannot
        could dear did do does either else ever every for from get got had has have he her hers him his how however
        i if in into is it its just least let like likely may me might most must my neither no nor not of off often
        on only or other our own rather said say says she should since so some than that the their them then there
        these they this tis to too twas us wants was we were what when where which while who whom why will with
        would yet you your
        """,
    )
)
"""Of lunr 2.3."""


def test_the_first_hit_of_the_search_answers_the_question(site: Path) -> None:
    index = json.loads((site / "search/search_index.json").read_text())
    vectors = _vectors(index)
    first = {question: _ranked(index, question, vectors)[0] for question in QUESTIONS}
    wrong = {question: page for question, page in first.items() if page != QUESTIONS[question]}
    assert len(QUESTIONS) - len(wrong) >= FOUND, wrong


def _ranked(index: dict[str, Any], query: str, vectors: Vectors) -> list[str]:
    """The pages that mkdocs-material 9 lists for a query, best first.

    lunr ranks sections by BM25 with b = 0, and each word of the query is a prefix. The theme then multiplies the scores
    of sections with more of the words, and of beginnings of pages. A page ranks as its best section.
    """
    clauses = _words(query, index)
    scores: dict[str, float] = {}
    for location, weights in vectors.items():
        found = {word: [weight for term, weight in weights.items() if term.startswith(word)] for word in clauses}
        if total := sum(sum(matched) for matched in found.values()):
            counted = [word for word in found if found[word] or word not in STOP_WORDS]
            share = sum(bool(found[word]) for word in counted) / len(counted)
            total *= 1 + (("#" not in location) + share) ** 2
            page = location.partition("#")[0]
            scores[page] = max(scores.get(page, 0), total)
    return sorted(scores, key=lambda page: -scores[page])


def _words(text: str, index: dict[str, Any]) -> list[str]:
    return [word for word in re.split(index["config"]["separator"], re.sub(r"<[^>]*>", " ", text).lower()) if word]


def _vectors(index: dict[str, Any]) -> Vectors:
    """The weight of each term of each section, over title and text."""
    fields = [(name, field["boost"]) for name, field in index["config"]["fields"].items() if name != "tags"]
    counts = {
        (doc["location"], name): Counter(word for word in _words(doc[name], index) if word not in STOP_WORDS)
        for doc in index["docs"]
        for name, _ in fields
    }
    documents = Counter(term for counted in counts.values() for term in counted)
    made: Vectors = {}
    for doc in index["docs"]:
        weights = made[doc["location"]] = defaultdict[str, float](float)
        for name, boost in fields:
            for term, count in counts[doc["location"], name].items():
                rarity = math.log(1 + abs((len(index["docs"]) - documents[term] + 0.5) / (documents[term] + 0.5)))
                weights[term] += rarity * 2.2 * count / (1.2 + count) * boost * doc.get("boost", 1)
    return made
