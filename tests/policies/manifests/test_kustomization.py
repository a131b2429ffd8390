"""The paths that a kustomization names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.inputs.manifests.kustomizations import read_kustomization

if TYPE_CHECKING:
    from pathlib import Path


_ENTRIES = [
    "a.yaml",
    "./a.yaml",
    "b//c.yaml",
    "b/./../a.yaml",
    "../x/a.yaml",
    "link/c.yaml",
    "link/../a.yaml",
    "b/leaf.yaml",
    "gone/../a.yaml",
    "../../../../../../../../../../../../x",
    "/etc/../etc/x",
    "up",
    "up/b",
    "a.yaml/",
    ".",
]


@pytest.mark.parametrize("path", _ENTRIES)
def test_a_resource_is_its_real_path(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x" / "b").mkdir(parents=True)
    (tmp_path / "far" / "near").mkdir(parents=True)
    (tmp_path / "x" / "link").symlink_to("../far/near")
    (tmp_path / "x" / "up").symlink_to("..")
    (tmp_path / "x" / "b" / "leaf.yaml").symlink_to("../../far/leaf.yaml")
    monkeypatch.chdir(tmp_path)
    found = read_kustomization(f"resources: [{path}]\npatches: [path: {path}]\n".encode(), "x/kustomization.yaml")
    assert found is not None
    assert found.resources == found.patches == (os.path.realpath(os.path.join("x", path)),)


def test_an_entry_costs_a_look_at_its_own_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not at all steps of its directory, of which a tree has many."""
    deep = tmp_path.joinpath(*"abcdefgh")
    deep.mkdir(parents=True)
    looks: list[object] = []
    lstat = os.lstat

    def counted(path: str) -> os.stat_result:
        looks.append(path)
        return lstat(path)

    monkeypatch.setattr(os, "lstat", counted)
    text = "resources:\n" + "".join(f"- ./{i}/x.yaml\n" for i in range(100))
    read_kustomization(text.encode(), str(deep / "kustomization.yaml"))
    assert 200 <= len(looks) < 250
