"""The linter's work does not grow with the square of the input: executed lines for twice as many objects."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.linting.rules import file
from forewarn.policies.linting.rules.support import names, rule_text
from forewarn.policies.linting.rules.support.names import Names
from tests.in_process import forewarn
from tests.work import steps

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


SIMILAR = "ab" * 40


def similar(number: int) -> str:
    place = number % len(SIMILAR)
    return f"{SIMILAR[:place]}c{SIMILAR[place:]}{'d' * (number // len(SIMILAR) % 7)}"


def pdb(number: int, selector: str = "matchLabels: {app: web}") -> str:
    spec = f"{{minAvailable: 1, selector: {{{selector}}}}}"
    return (
        f"apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: b{number}, namespace: a}}\nspec: {spec}\n"
    )


def deployment(number: int, labels: str = "app: web") -> str:
    template = f"{{metadata: {{labels: {{{labels}}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}"
    spec = f"{{replicas: 3, selector: {{matchLabels: {{{labels}}}}}, template: {template}}}"
    return f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d{number}, namespace: a}}\nspec: {spec}\n"


def priority_class(number: int) -> str:
    name = similar(number)
    return f"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: {number}\n"


def limit_range(number: int) -> str:
    metadata = f"{{name: l{number}, namespace: a}}"
    spec = "{limits: [{type: Container, max: {cpu: '2'}}]}"
    return f"apiVersion: v1\nkind: LimitRange\nmetadata: {metadata}\nspec: {spec}\n"


def in_queue(number: int) -> str:
    """A Job that misspells its LocalQueue and names a WorkloadPriorityClass, with both."""
    kueue, name = "apiVersion: kueue.x-k8s.io/v1beta1\n", f"batch-{number}"
    queue = f"{kueue}kind: LocalQueue\nmetadata: {{name: {name}, namespace: a}}\nspec: {{clusterQueue: all}}\n"
    workload_class = f"{kueue}kind: WorkloadPriorityClass\nmetadata: {{name: {name}}}\nvalue: {number}\n"
    labels = f"{{kueue.x-k8s.io/queue-name: x{name}, kueue.x-k8s.io/priority-class: {name}}}"
    spec = "{template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}"
    metadata = f"{{name: j{number}, namespace: a, labels: {labels}}}"
    job = f"apiVersion: batch/v1\nkind: Job\nmetadata: {metadata}\nspec: {spec}\n"
    return f"{queue}---\n{workload_class}---\n{job}"


INPUTS: dict[str, Callable[[int], str]] = {
    "equal selectors": lambda number: pdb(number) + "---\n" + deployment(number),
    "queues and classes of Kueue": in_queue,
    "LimitRanges": lambda number: limit_range(number) + "---\n" + deployment(number),
}


def work(directory: Path, make: Callable[[int], str], count: int) -> int:
    path = directory / f"{count}.yaml"
    path.write_text("---\n".join(map(make, range(count))))
    return steps(lambda: forewarn("lint", path))


@pytest.mark.parametrize("name", INPUTS)
def test_twice_as_many_objects_take_about_twice_the_work(name: str, tmp_path: Path) -> None:
    work(tmp_path, INPUTS[name], 2)  # imports
    small, large = (work(tmp_path, INPUTS[name], count) for count in (80, 160))
    assert large < 2.6 * small


def test_similar_names_are_looked_up_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_MAX_LOOKUPS", 3)
    known = Names(["priority-high", "priority-low"])
    asked = ["priority-hihg", "priority-lwo", "priority-hig", "priority-loww"]
    assert [known.nearest_name(name) for name in asked] == ["priority-high", "priority-low", "priority-high", ""]
    assert known.nearest_name(asked[0]) == "priority-high", "found before"


def test_few_long_names_are_compared() -> None:
    every = [similar(number) for number in range(300)]
    assert Names(every).nearest_name(similar(300)) != ""
    small, large = (steps(partial(Names(part).nearest_name, similar(300))) for part in (every[:100], every))
    assert large < 4 * small


def test_many_unknown_fields_are_reported_without_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "_MAX_ADVISED", 2)
    fields = ", ".join(f"containrs{number}: []" for number in range(200))
    (tmp_path / "a.yaml").write_text(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{{fields}}}\n")
    calls: list[object] = []

    def advice(*given: object) -> tuple[dict[str, Any], str, str]:
        calls.append(given)
        return {}, "", "remove it"

    monkeypatch.setattr(file, "advice", advice)
    assert "unknown field" in forewarn("lint", tmp_path).stdout
    assert len(calls) == 2


def test_selectors_beyond_the_limit_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_text, "MAX_COMPARISONS", 50)
    objects: list[Any] = [pdb(n, f"matchLabels: {{app: web{n}}}") for n in range(20)] + list(map(deployment, range(20)))
    (tmp_path / "a.yaml").write_text("---\n".join(objects))
    answer = forewarn("lint", tmp_path)
    assert "the selectors of this input require more than 50 comparisons with workloads" in answer.stdout
