"""If chance decides between different consequences, `whatif` shows the most frequent outcome, and the range of all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import forewarn

CASES = Path("tests/policies/cases/chance")


def asked(path: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """The JSON and the text of an answer."""
    done = forewarn("whatif", *arguments, "-o", "text", "-o", f"json={path}")
    assert done.returncode == 0
    return json.loads(path.read_text()), done.stdout


@pytest.mark.usefixtures("no_fixes")
def test_the_most_frequent_order_of_pending_pods_is_shown_with_its_rivals(tmp_path: Path) -> None:
    """In the live cluster, app-12 had 2 Pending Pods and app-9 none, as in 21 of 24 runs; the first run differs."""
    answer, out = asked(tmp_path / "answer.json", "drain", "w13-n01", "--cluster", str(CASES / "drain.json.gz"))
    pending = {name.rpartition("/")[2]: number for name, number in answer["pending"]["byWorkload"].items()}
    assert pending == {"app-12": 2, "app-2": 1, "app-7": 1}
    assert [name.rpartition("/")[2] for name in answer["mayStayPending"]] == ["app-9"]
    assert "app-9 may stay Pending instead\n" in out


@pytest.mark.parametrize("swapped", [False, True], ids=["as it is", "other names"])
def test_equal_nodes_give_a_range_whatever_their_names(swapped: bool, tmp_path: Path) -> None:
    """One of three equal Pods terminates: kube-scheduler may select its node, or preempt one of the other two."""
    text = (CASES / "equal-nodes.yaml").read_text()
    if swapped:
        text = text.replace("n1", "n0").replace("n3", "n1").replace("n0", "n3")
    (tmp_path / "cluster.yaml").write_text(text)
    change = ("apply", "-f", str(CASES / "equal-nodes-change.yaml"), "--cluster", str(tmp_path / "cluster.yaml"))
    answer, out = asked(tmp_path / "answer.json", *change)
    assert (answer["status"], answer["counters"]["preempted"], answer["counters"]["pdbsViolated"]) == ("HARM", 1, 1)
    runs = answer["typicalOf"]
    assert runs["total"] == 24
    assert runs["alike"] > 12
    assert runs["counters"]["preempted"] == {"least": 0, "most": 1}
    assert "preempted 1 (0 to 1) | Pending 0 | lost 0 | PDBs violated 1 (0 to 1)\n" in out
    assert f"WARN  chance decides: {runs['alike']} of 24 random runs, the most frequent outcome, have" in out


@pytest.mark.parametrize(("small", "by_chance"), [("1", True), ("2", False)], ids=["two kinds", "equal Pods"])
def test_the_order_of_pending_pods_makes_victims_uncertain(small: str, by_chance: bool, tmp_path: Path) -> None:
    """Pending Pods of one priority use the capacity of the first victims, so that the new Pods preempt more."""
    change, text = str(tmp_path / "change.yaml"), (CASES / "queue.yaml").read_text()
    shutil.copy(CASES / "queue-change.yaml", change)
    before, name, pending = text.partition("name: small")
    (tmp_path / "cluster.yaml").write_text(before + name + pending.replace('cpu: "1"', f'cpu: "{small}"'))
    cluster = ("--cluster", str(tmp_path / "cluster.yaml"))
    reason = "depends on which of the Pods of equal priority kube-scheduler tries first"
    for command, words in (("predict -f", "how many Pods preempt"), ("lint", "It")):
        done = forewarn(*command.split(), change, *cluster)
        assert (done.returncode, f"{words} {reason}" in done.stdout) == (0, by_chance)
