"""No text of the repository leads to a name that is not ours: nothing is published yet, and a stranger may take it.

Keys of annotations, audit annotations and webhooks (`forewarn.dev/…`, `validate.forewarn.dev`) are names of an API,
which nobody fetches; they stay.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOT_OURS = {
    "address under the domain": r"https?://(?:[\w-]+\.)*forewarn\.dev\b",
    "repository": r"\b(?:github\.com|githubusercontent\.com|gitlab\.com)/forewarn\b",
    "action or hook by a tag": r"\bforewarn/forewarn@|^\s*rev: v?\d|\bforewarn@v?\d+\.\d+\.",
    "image": r"\b(?:ghcr\.io|docker\.io|quay\.io)/forewarn\b|\bdocker (?:pull|run) (?:-\S+ )*forewarn/",
    "package of an index": r"\b(?:pipx?|uv|brew) (?:tool )?(?:install|run|add) (?:-\S+ )*['\"]?forewarn(?!-|\s*@)\b",
    "chart of a repository": r"\bhelm (?:repo add|pull) \S*forewarn|\boci://\S*forewarn",
    "plugin of an index": r"\bkrew install forewarn\b",
}  # fmt: skip
HISTORY = ("CHANGELOG.md", "tests/test_published_names.py")


def _texts() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=500
    )
    names = [name for name in listed.stdout.split("\0") if name and name not in HISTORY]
    if not names:
        pytest.skip("no work tree of git")
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def test_no_text_leads_to_a_name_that_a_stranger_could_take() -> None:
    found = []
    for path in _texts():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for what, pattern in NOT_OURS.items():
            lines = {text.count("\n", 0, match.start()) + 1 for match in re.finditer(pattern, text, re.MULTILINE)}
            found += [f"{path.relative_to(ROOT)}:{line}: {what}" for line in sorted(lines)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "helpUri: https://forewarn.dev/docs/rules/#x",
        "https://docs.forewarn.dev",
        "- uses: forewarn/forewarn@v0.1.0",
        "  rev: v0.1.0",
        "- pip install forewarn",
        "pip install -q 'forewarn[lsp]'",
        "pipx install forewarn",
        "- remote: https://raw.githubusercontent.com/forewarn/forewarn/v0.1.0/docs/examples/ci/gitlab.yml",
        "kubectl krew install forewarn",
        "image: ghcr.io/forewarn/forewarn",
    ],
)
def test_what_was_documented_would_be_found(text: str) -> None:
    assert any(re.search(pattern, text, re.MULTILINE) for pattern in NOT_OURS.values())


@pytest.mark.parametrize(
    "text",
    [
        'pip install "forewarn @ REPOSITORY_URL/archive/COMMIT.tar.gz"',
        "pip install '.[live]'",
        "  rev: COMMIT             # replace: the commit that you have read",
        "- uses: OWNER/REPOSITORY@COMMIT",
        "helm install forewarn manifests/chart -n forewarn",
        'forewarn.dev/exempt-until: "2026-01-02T12:00:00Z"',
        "kubectl krew install --manifest=.cache/krew/forewarn.yaml",
    ],
)
def test_what_is_replaced_or_is_in_a_checkout_is_none(text: str) -> None:
    assert not any(re.search(pattern, text, re.MULTILINE) for pattern in NOT_OURS.values())
