"""Every command answers in one form: a status, few short lines, and the numbers of the JSON document."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.base.documents.answer import AnswerStatus
from forewarn.policies.cli.render.answer import MAX_LINES, WIDTH, number
from tests.builders import Made, cluster_text, make_budget, make_node, make_pod, make_priority_class
from tests.in_process import forewarn

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = {
    "risk": ("risk", "--most", "3"),
    "risk with new nodes": ("risk", "--most", "3", "--node-templates", "docs/examples/whatif/node-groups.yaml"),
    "headroom": ("headroom",),
    "headroom of a workload": ("headroom", "deployment/web-0", "-n", "team-0"),
    "headroom with placeholders": ("headroom", "deployment/web-0", "-n", "team-0", "--placeholders", "9"),
    "audit": ("audit",),
    "classes": ("classes",),
    "classes plan": ("classes", "plan", "--delete", "class-0"),
    "pressure": ("whatif", "pressure", "node-0", "--shutdown", "0=9,2=5"),
    "test": ("test", "{expectations}"),
}


def cluster(seed: int) -> str:
    """40 nodes with Pods of 6 classes in 12 namespaces, of which some are Pending, beyond a quota, or blocked."""
    rng = random.Random(seed)
    made: list[Made] = [make_priority_class(value, f"class-{value}") for value in range(6)]
    nodes = [f"node-{each}" for each in range(40)]
    made += [make_node(name).has(cpu="4", memory="8Gi", pods="20").zone(rng.choice("abc")) for name in nodes]
    for team in range(12):
        namespace, value = f"team-{team}", rng.randrange(6)
        spec = make_pod("web").request(cpu="1").of_class(value).obj["spec"]
        template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
        labels = {"matchLabels": {"app": "web"}}
        for name in ("web-0", f"a-workload-with-a-name-of-some-length-{team}"):
            made.append(
                Made("apps/v1", "Deployment", name, namespace).spec(replicas=9, selector=labels, template=template)
            )
        made.append(make_budget("web", 0, namespace, app="web").spec(maxUnavailable=0))
        hard = {"pods": "3"}
        made.append(
            Made("v1", "ResourceQuota", "pods", namespace).spec(hard=hard).status(hard=hard, used={"pods": "9"})
        )
        for each in range(9):
            pod = make_pod(f"web-{each}", namespace).of_class(value).request(cpu="1").labels(app="web")
            made.append(pod.on(rng.choice(nodes)) if rng.random() < 0.9 else pod)
    return cluster_text(made)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("command", COMMANDS)
def test_an_answer_has_few_short_lines_and_the_numbers_of_the_document(command: str, seed: int, tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(cluster(seed))
    expectation = {"name": "no Pod is Pending", "when": {"lost": {"zone": "any"}}, "expect": {"noPending": {}}}
    (tmp_path / "expectations.json").write_text(json.dumps([expectation, {**expectation, "name": "b" * 90}]))
    words = [word.replace("{expectations}", str(tmp_path / "expectations.json")) for word in COMMANDS[command]]
    formats = ("-o", "text", "-o", f"json={tmp_path}/answer.json")
    text = forewarn(*words, "--cluster", tmp_path / "cluster.json", *formats).stdout
    lines, document = text.splitlines(), json.loads((tmp_path / "answer.json").read_text())
    assert (len(lines) <= MAX_LINES, max(map(len, lines)) <= WIDTH) == (True, True), text
    assert lines[0].startswith(f"{AnswerStatus(document['status'])}  ")
    assert " ".join(text.split()).startswith(f"{document['status']} {document['question']}: {document['clause']}")
    assert all(f" {number(count)}" in text for count in document.get("counts", {}).values())
    assert str(tmp_path) not in "\n".join(lines[:2])
