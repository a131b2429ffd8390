"""An answer has the same counters in text, Markdown, HTML and JSON, and in --each, diff, --fail-on and test."""

from __future__ import annotations

import json
import random
import re
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.base.documents import key_of
from forewarn.policies.base.documents.answer import CONDITIONS, Effects, label
from tests.builders import Made, cluster_text, make_budget, make_node, make_pod, make_priority_class
from tests.cases import cases
from tests.in_process import forewarn

if TYPE_CHECKING:
    from pathlib import Path

NAMES = {label(name): name for name in Effects._fields if name != "down_seconds"}
COUNTER = re.compile(
    r"(?<!replacements )(" + "|".join(sorted(NAMES, key=len, reverse=True)) + r") (-?[\d,]+)(?: → ([\d,]+))?"
)
CLASSES = {"gold": 1000, "silver": 100, "": 0}


def workload(name: str, replicas: int, priority_class: str, cpu: str) -> dict[str, Any]:
    spec = {
        "containers": make_pod(name).request(cpu=cpu).obj["spec"]["containers"],
        "priorityClassName": priority_class,
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    made = Made("apps/v1", "Deployment", name, "shop")
    return made.spec(replicas=replicas, selector={"matchLabels": {"app": name}}, template=template).obj


def cluster(dice: random.Random, path: Path) -> list[dict[str, Any]]:
    """Write a cluster of 6 nodes in 2 zones. Returns its Deployments."""
    made: list[Any] = [make_priority_class(value, name) for name, value in CLASSES.items() if name]
    made += [make_node(f"n{number}").has(cpu="4", pods="9").zone("ab"[number % 2]) for number in range(6)]
    deployments = []
    for number in range(4):
        name, priority_class = f"w{number}", dice.choice([*CLASSES])
        cpu, replicas = dice.choice(["1", "2"]), dice.randint(1, 5)
        deployments.append(workload(name, replicas, priority_class, cpu))
        for replica in range(replicas):
            pod = make_pod(f"{name}-{replica}", "shop").request(cpu=cpu).labels(app=name)
            pod.obj["spec"] |= {"priorityClassName": priority_class, "priority": CLASSES[priority_class]}
            made.append(pod.on(f"n{dice.randrange(6)}") if dice.random() < 0.95 else pod)
        if dice.random() < 0.3:
            made.append(make_budget(name, 0, "shop", app=name).spec(maxUnavailable=dice.randint(0, 1)))
    if dice.random() < 0.3:
        hard = {"pods": str(dice.randint(4, 12))}
        made.append(Made("v1", "ResourceQuota", "pods", "shop").spec(hard=hard).status(hard=hard, used={"pods": "9"}))
    path.write_text(cluster_text([*made, *deployments]))
    return deployments


def question(dice: random.Random, deployments: list[dict[str, Any]], directory: Path) -> list[str]:
    """Return the words of a question, and write its manifest."""
    changed = dice.choice(deployments)
    spec = {**changed["spec"], "replicas": dice.randint(1, 9)}
    (directory / "new.json").write_text(json.dumps({**changed, "spec": spec}))
    name = changed["metadata"]["name"]
    return dice.choice(
        [
            ["whatif", "lose", "zone", dice.choice("ab")],
            ["whatif", "lose", "node", f"n{dice.randrange(6)}"],
            ["whatif", "drain", f"n{dice.randrange(6)}"],
            ["whatif", "scale", f"shop/{name}", str(dice.randint(1, 9))],
            ["whatif", "restart", f"shop/{name}"],
            ["whatif", "class", "gold", "--delete"],
            ["whatif", "apply", "-f", str(directory / "new.json")],
            ["predict", "-f", str(directory / "new.json")],
        ]
    )


def shown(text: str) -> dict[str, int]:
    """Return the counters in a line with `name N | name N`; with new nodes, what they leave."""
    return {NAMES[name]: int((after or count).replace(",", "")) for name, count, after in COUNTER.findall(text)}


def in_html(page: str) -> dict[str, int]:
    tiles = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page)
    return shown(" | ".join(f"{name} {unescape(re.sub('<.*?>', '', value))}" for name, value in tiles))


def in_text(text: str) -> dict[str, int]:
    """Return the counters in the lines below the status, which are indented."""
    others = text.splitlines()[1:]
    lines = [line for line in others[: others.index("") if "" in others else None] if line.startswith("  ")]
    return shown(" | ".join(line for line in lines if "|" in line or COUNTER.match(line.strip())))


@pytest.mark.parametrize("seeds", [range(cases(8)), pytest.param(range(1000, 1500), marks=pytest.mark.slow)])
def test_all_forms_of_an_answer_have_the_same_counters(seeds: range, tmp_path: Path) -> None:
    different = []
    for seed in seeds:
        dice, path = random.Random(seed), tmp_path / f"{seed}"
        path.mkdir()
        deployments = cluster(dice, path / "cluster.json")
        words = [*question(dice, deployments, path), "--cluster", str(path / "cluster.json")]
        found = forms(words, path)
        own = found["json"]
        for form, counters in found.items():
            if any(own[name] != value for name, value in counters.items()):
                different.append((seed, words, form, counters, own))
    assert different == []


def document_of(*words: str | Path) -> Any:
    done = forewarn(*words, "-o", "json")
    assert done.stdout, (words, done.stderr)
    return json.loads(done.stdout)


def forms(words: list[str], path: Path) -> dict[str, dict[str, int]]:
    """Return form of the answer -> its counters."""
    files = {form: path / f"answer.{form}" for form in ("json", "markdown", "html")}
    conditions = [word for condition in CONDITIONS for word in ("--fail-on", condition)]
    formats = [word for form in files for word in ("-o", f"{form}={files[form]}")]
    done = forewarn(*words, *conditions, "-o", "text", *formats)
    assert done.stdout, (words, done.stderr)
    document, texts = json.loads(files["json"].read_text()), {form: each.read_text() for form, each in files.items()}
    own = {name: document["counters"][key_of(name)] for name in Effects._fields} if document.get("counters") else {}
    own = own or dict.fromkeys(Effects._fields, 0)
    found = {
        "json": own,
        "text": in_text(done.stdout),
        "markdown": shown(texts["markdown"].split("\n\n")[1]),
        "html": in_html(texts["html"]),
    }
    assert found["text"].keys() == found["markdown"].keys() == found["html"].keys(), words
    assert {name for name, value in own.items() if value} <= {*found["text"], "down_seconds", "victims", "preempted"}
    line = re.search(r"fails on (.*) \(--fail-on\)", done.stderr)
    failed = {condition.replace("-", "_") for condition in line[1].split(", ")} if line else set()
    found["--fail-on"] = {name: own[name] if (name in failed) == bool(own[name]) else -1 for name in NAMES.values()}
    for name in ("new_nodes", "removed_nodes"):
        del found["--fail-on"][name]
    if words[:2] == ["whatif", "lose"]:
        kind, name = words[2:4]
        sweep = document_of("whatif", "lose", "--each", kind, *words[4:])
        case = next(case["counters"] for case in sweep["cases"] if case["case"] == f"{kind} {name}")
        if document.get("typicalOf") is None:  # otherwise chance decides, and each case has one run
            found["--each"] = {each: case[key_of(each)] for each in Effects._fields}
        found["test"] = expected(kind, name, words[4:], path)
    if words[1] == "apply":
        (path / "empty").mkdir()
        (path / "new").mkdir()
        (path / "new" / "new.json").write_text((path / "new.json").read_text())
        difference = document_of("diff", path / "empty", path / "new", *words[-2:])
        found["diff"] = {name: difference["counters"][key_of(name)] for name in Effects._fields}
    return found


def expected(kind: str, name: str, words: list[str], path: Path) -> dict[str, int]:
    """Return 0 for each counter about which `forewarn test` agrees that it is 0."""
    kinds: dict[str, Any] = {"pending": {"noPending": {}}, "preempted": {"noPreemption": {}}}
    entries = [{"name": key, "when": {"lost": {kind: name}}, "expect": value} for key, value in kinds.items()]
    (path / "expectations.json").write_text(json.dumps(entries))
    results = document_of("test", path / "expectations.json", *words)["expectations"]
    return {result["name"]: 0 for result in results if result["met"]}
