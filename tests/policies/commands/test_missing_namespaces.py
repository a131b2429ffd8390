"""kube-apiserver rejects objects in a Namespace that does not exist, and so does every command that applies them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.builders import Made, cluster_text, make_namespace, make_node, make_pod, make_priority_class
from tests.in_process import forewarn

if TYPE_CHECKING:
    from pathlib import Path

SHOP = make_namespace("shop")


@pytest.mark.parametrize(
    ("cluster", "namespace", "beside", "is_rejected"),
    [
        ([SHOP], "new", [], True),
        ([SHOP], "new", [make_namespace("other"), make_priority_class(5, "new")], True),
        ([SHOP], "new", [make_namespace("new")], False),
        ([SHOP], "shop", [], False),
        ([SHOP], "kube-system", [], False),
        ([SHOP], "release-namespace", [], False),
        ([SHOP, make_pod("old", "new")], "new", [], False),
        ([SHOP, Made("apps/v1", "Deployment", "old", "new")], "new", [], False),
        ([SHOP, Made("v1", "LimitRange", "old", "new").spec(limits=[])], "new", [], False),
        ([], "new", [], False),
        ([], "new", [make_namespace("other")], False),
    ],
)
def test_an_object_of_a_missing_namespace_is_rejected(
    cluster: list[Made],
    namespace: str,
    beside: list[Made],
    is_rejected: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.json").write_text(cluster_text([make_node("n1"), *cluster]))
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    objects = [make_pod("web", namespace).obj, *(each.obj for each in beside)]
    (tmp_path / "after/web.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    for command in ("predict -f after", "whatif apply -f after", "diff before after"):
        out = forewarn(*command.split(), "--cluster", "cluster.json").stdout
        assert ('namespaces "new" not found' in out and out.startswith("REJECTED")) == is_rejected, out
    found = forewarn("lint", "after", "--cluster", "cluster.json").stdout
    assert ('Pod new/web: namespaces "new" not found' in found) == ("[unknown-namespace]" in found) == is_rejected
