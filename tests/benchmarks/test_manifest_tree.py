"""The tree that the linter is measured on is what it says, and nothing in it is wrong."""

from __future__ import annotations

from collections import Counter

from forewarn.policies.inputs.manifests.reading import read
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS
from tests.benchmarks.manifest_tree import manifests

WORKLOADS = frozenset((*POD_TEMPLATE_PATHS, "/Pod"))


def test_a_quarter_are_workloads_and_half_of_the_rest_definitions() -> None:
    readings = [read(text, path, WORKLOADS) for path, text in manifests(80)]
    kinds = sum((Counter(reading.skipped) for reading in readings), Counter[str]())
    assert sum(bool(reading.subjects) for reading in readings) == 20
    assert kinds["CustomResourceDefinition"] == 30
    assert not [diagnostic for reading in readings for diagnostic in reading.diagnostics]


def test_the_same_seed_gives_the_same_tree_of_about_11_kb_a_file() -> None:
    assert list(manifests(40, seed=3)) == list(manifests(40, seed=3)) != list(manifests(40, seed=4))
    assert 8_000 < sum(len(text) for _, text in manifests(80)) / 80 < 16_000


def test_some_are_as_large_as_in_real_trees() -> None:
    by_path = {path: text for path, text in manifests(110) if "00108" in path}
    definition, board = by_path["crds/00108.yaml"], by_path["base/00108.yaml"]
    assert 600_000 < len(definition) < 900_000
    assert all(f"  {sign} " in definition for sign in "*?-")
    assert len(board) > 60_000
    assert "\n  board.json: |" in board
    for path, text in by_path.items():
        assert not read(text, path, WORKLOADS).diagnostics


def test_faults_put_into_such_a_tree_are_all_found() -> None:
    for path, text in manifests(40):
        broken = text + "\n}: [unclosed\n"
        assert [diagnostic.rule for diagnostic in read(broken, path, WORKLOADS).diagnostics] == ["parse-error"], path
