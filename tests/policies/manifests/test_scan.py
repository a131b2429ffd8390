"""The fast scan skips no checked kind, and no file is left out in which kubectl or kustomize finds one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from forewarn.policies.inputs.manifests.reading import BROKEN, Reading, is_untyped, read, type_meta
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.lint.input import LintRequest, read_input

WANTED = {"/Pod", "apps/Deployment"}
KEYS = ("apiVersion", '"apiVersion"', '"api\\x56ersion"', "!!str apiVersion", "&a apiVersion", "? apiVersion\n", "a")
KINDS = (
    "kind",
    "'kind'",
    '"k\\x69nd"',
    '"k\\u0069nd"',
    '"ki\\\n  nd"',
    "!!str kind",
    "&k kind",
    "? kind\n",
    "*k ",
    "b",
)
VALUES = (
    "v1",
    '"v1"',
    "apps/v1",
    "Pod",
    "Deployment",
    "'Pod'",
    "ConfigMap",
    "*v",
    "&v Pod",
    "|\n  Pod",
    "# c\n  Pod",
    "",
)
LINES = (
    *(f"{key}: {value}" for key in KEYS for value in VALUES[:3]),
    *(f"{key}: {value}" for key in KINDS for value in VALUES[3:]),
)
DEEP = "[" * 300 + "]" * 300
JSON = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}'
PIECES = (
    JSON,
    "[" + JSON + "]",
    '{"apiVersion": "v1", "kind": "List", "items": [' + JSON + "]}",
    "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n",
    "---",
    "--- ",
    "--- !!map\n",
    "--- |\n",
    "--- # c\n",
    "...\n",
    "%YAML 1.1\n",
    "\ufeff",
    "x: &x {kind: Pod, apiVersion: v1}\n<<: *x\n",
    "a: |\n  b\n",
    'a: "b\nkind: ConfigMap\napiVersion: v1\n"',
    "a: 'b\n kind: ConfigMap'\n",
    "metadata: {name: a}\n",
    "metadata:\n  name: a\n",
    "a: {{ b }}\n",
    "a: [\n",
    "# c\n",
    "- ",
    " ",
    "  ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\x85",
    "\u2028",
)
ENDS = ("\n", "\r", "\r\n", "\x85", "\u2028", " # c\n", " #c\r\n", "", " ")
_line = st.tuples(st.sampled_from(("", "", "", " ", "- ")), st.sampled_from(LINES), st.sampled_from(ENDS)).map("".join)


def texts(*more: str) -> st.SearchStrategy[str]:
    """Texts of pieces and lines."""
    return st.lists(st.one_of(st.sampled_from((*PIECES, *more)), _line), max_size=7).map("".join)


def found(reading: Reading) -> tuple[Any, ...]:
    broken = [each.message for each in reading.diagnostics if each.rule in BROKEN]
    return [subject.object for subject in reading.subjects], reading.objects, dict(reading.skipped), broken


@given(texts())
@example(f"---\r{JSON}")
@example("metadata: {}\rkind: Pod\rapiVersion: v1\r")
def test_the_scan_changes_nothing_but_faults_beyond_the_grammar(text: str) -> None:
    with (
        patch("forewarn.policies.inputs.manifests.reading.type_meta", lambda _: None),
        patch("forewarn.policies.inputs.manifests.reading.is_untyped", lambda _: False),
    ):
        whole = read(text, "f.yaml", WANTED)
    scanned = read(text, "f.yaml", WANTED)
    assert [each.object for each in scanned.subjects] == [each.object for each in whole.subjects]
    assert len(scanned.diagnostics) <= len(whole.diagnostics)
    if not whole.diagnostics:
        assert found(scanned) == found(whole)


def documents_of_kubectl(text: str) -> Iterator[str]:
    """The documents of a file. Source: apimachinery, YAMLReader."""
    lines: list[str] = []
    for line in [*text.split("\n"), "---"]:
        if not line.startswith("---"):
            lines.append(line)
            continue
        if (rest := line[3:].strip()) and not rest.startswith("#"):
            return
        yield "\n".join(lines)
        lines = []


def documents_of_kustomize(text: str) -> Iterator[str]:
    """The documents of a file. Source: kyaml/kio, splitDocuments."""
    text = text.replace("\r\n", "\n")
    separators = re.findall(r"\n---(.*)\n", text)
    if all(not rest.strip() or rest.strip().startswith("#") for rest in separators):
        yield from re.split(r"\n---.*\n", text)


def objects(text: str) -> Iterator[Any]:
    """The values that the parser of kubectl or of kustomize finds, as far as libyaml accepts the text, too."""
    for documents in (documents_of_kubectl, documents_of_kustomize):
        for document in documents(text):
            with suppress(yaml.YAMLError, RecursionError, TypeError, ValueError, AttributeError):
                if isinstance(value := next(iter(yaml.load_all(document, yaml.CBaseLoader)), None), dict):
                    yield value


@given(texts(DEEP, f"x: {DEEP}\n"))
@example(f"--- {JSON}")
@example(f"# c\n--- {JSON}")
@example('---\r"k\\x69nd": Pod\rapiVersion: v1\r')
def test_a_file_that_is_left_out_has_no_object_of_a_checked_kind(text: str) -> None:
    with TemporaryDirectory() as directory:
        Path(directory, "f.yaml").write_bytes(text.encode())
        left_out = read_input(LintRequest([directory], Config())).left_out
    if left_out:
        typed = [
            value for value in objects(text) if value.get("kind") in ("Pod", "Deployment") and value.get("apiVersion")
        ]
        assert typed == []


def test_ordinary_documents_are_not_parsed() -> None:
    assert type_meta(b"apiVersion: v1\nkind: ConfigMap\n") == ("v1", "ConfigMap")
    assert is_untyped(b"a: b\n")
