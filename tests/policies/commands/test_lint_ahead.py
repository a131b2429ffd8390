from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forewarn.policies.inputs.manifests import read
from forewarn.policies.inputs.sources.files import File
from forewarn.policies.linting.lint.ahead import read_ahead, skimmed
from tests.benchmarks.manifest_tree import write_tree

ROOT = Path(__file__).resolve().parents[3]
WANTED = frozenset(("/Pod", "scheduling.k8s.io/PriorityClass"))
DEFINITION = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: as.example.com}
spec:
  group: example.com
  names:
    kind: A
  versions:
  - name: v1
    schema:
      openAPIV3Schema: {properties: {spec: {properties: {priorityClassName: {type: string}}}}}
"""
LINT = """
import sys
from forewarn.policies.cli.commands import lint
from forewarn.policies.linting.lint import ahead
ahead.LEAST = ahead.MIN_PARALLEL_BYTES = 1
ahead.cores = lambda: int(sys.argv[1])
tell = ahead._readings
def told(pipe):
    for entry in tell(pipe):
        print("told", file=sys.stderr)
        yield entry
ahead._readings = told
{more}
sys.exit(lint.main(["-o", "json", *sys.argv[2:]]))
"""


def _lint(cores: int, tree: Path, more: str = "") -> tuple[int, str, int]:
    """Exit status, report, and how many files a helper told of."""
    command = [sys.executable, "-c", LINT.replace("{more}", more), str(cores), str(tree)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=500
    )
    return done.returncode, done.stdout, done.stderr.count("told\n")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tree")
    write_tree(directory, 60)
    (directory / "broken.yaml").write_text("apiVersion: v1\nkind: ConfigMap\ndata: {a: [}\n")
    (directory / "prose.yaml").write_text("a: [\n")
    (directory / "data.json").write_text('{"a" 1}')
    (directory / "template.yaml").write_text("apiVersion: v1\nkind: Secret\nspec: {{ a }}\n")
    (directory / "gone.yaml").symlink_to(directory / "nowhere.yaml")
    (directory / "note.yaml").write_text("apiVersion: v1\nkind: ConfigMap\n# forewarn: ignore[no-such-rule] because\n")
    (directory / "definition.yaml").write_text(DEFINITION)
    (directory / "defined.yaml").write_text(
        "apiVersion: example.com/v1\nkind: A\nmetadata: {name: a}\nspec: {priorityClassName: system-node-critica}\n"
    )
    return directory


@pytest.mark.skipif(sys.platform != "linux", reason="helpers are forked on Linux alone")
def test_helpers_change_nothing(tree: Path) -> None:
    alone, helped = _lint(1, tree), _lint(3, tree)
    assert helped[:2] == alone[:2]
    assert '"parse-error"' in alone[1]


@pytest.mark.skipif(sys.platform != "linux", reason="helpers are forked on Linux alone")
def test_helpers_do_what_this_process_leaves_to_them(tree: Path) -> None:
    leave = """
import os
here, indexes = os.getpid(), ahead._indexes
ahead._indexes = lambda tickets: indexes(tickets) if os.getpid() != here else iter(())
"""
    alone, helped = _lint(1, tree), _lint(2, tree, leave)
    assert helped[:2] == alone[:2]
    assert (alone[2], helped[2] > 20) == (0, True)
    assert "system-node-critica" in helped[1]


@pytest.mark.skipif(sys.platform != "linux", reason="helpers are forked on Linux alone")
def test_what_is_no_manifest_is_left_out_whoever_reads_it(tree: Path) -> None:
    """Of all files that are read ahead none is left to helpers: what is said must not depend on who was first."""
    alone, ahead = _lint(1, tree), _lint(2, tree, "ahead.forked = lambda _: None")
    assert ahead == alone
    omitted = json.loads(alone[1])["summary"]["leftOut"]
    assert omitted == {"unreadable file without a kind": 2, "template of other kinds": 1}


@pytest.mark.skipif(sys.platform != "linux", reason="helpers are forked on Linux alone")
def test_helpers_that_die_are_not_missed(tree: Path) -> None:
    die = "ahead.skimmed = lambda *_: 1 / 0"
    assert _lint(3, tree, die)[:2] == _lint(1, tree)[:2]


def test_a_small_tree_needs_no_helpers(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("apiVersion: v1\nkind: ConfigMap\n")
    assert read_ahead([File(str(path), str(tmp_path))], WANTED, "default") == {}


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("apiVersion: v1\nkind: ConfigMap\n---\nreplicas: 1\n", True),
        ('{"apiVersion": "v1", "kind": "ConfigMap"}', True),
        (DEFINITION, True),
        ("apiVersion: v1\nkind: Pod\n", False),
        ('{"apiVersion": "v1", "kind": "Pod"}', False),
        ("apiVersion: v1\nkind: List\nitems:\n- kind: Pod\n  apiVersion: v1\n", False),
        ("apiVersion: v1\nkind: ConfigMap\na: [}\n", False),
        ("apiVersion: v1\nkind: ConfigMap # forewarn: ignore[parse-error] because\n", False),
    ],
)
def test_a_helper_tells_of_files_in_which_there_is_nothing_to_judge(tmp_path: Path, text: str, is_told: bool) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    told = skimmed(File(str(path), str(tmp_path)), WANTED)
    assert (told is not None) is is_told
    assert told is None or told == read(text, str(path), WANTED)


def test_a_file_that_cannot_be_read_is_left_to_who_reports_it(tmp_path: Path) -> None:
    assert skimmed(File(str(tmp_path / "nowhere.yaml"), str(tmp_path)), WANTED) is None
