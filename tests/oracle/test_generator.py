"""The generator itself; whether its objects are valid is what `oracle validate` says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.oracle.generator.kinds import KINDS, make_case

SCRIPT = Path(__file__).with_name("generate.py")


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_is_reproducible_and_plain_json(kind: str) -> None:
    first, second = make_case(7, 3, kind), make_case(7, 3, kind)
    assert json.dumps(first) == json.dumps(second)
    assert first["id"] == f"{kind}-00003"


def test_another_seed_gives_another_case() -> None:
    assert make_case(1, 0, "fit") != make_case(2, 0, "fit")


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_unique_within_their_namespace(kind: str) -> None:
    for number in range(10):
        case = make_case(1, number, kind)
        for objects in (
            case["nodes"],
            [*case["pods"], case["pod"]],
            case["pdbs"],
            case.get("pvcs", []),
            case.get("pvs", []),
        ):
            names = [(o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects]
            assert len(names) == len(set(names))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("ties")])
def test_the_importance_of_pods_on_a_node_is_never_open(kind: str) -> None:
    for number in range(10):
        places = [
            (pod["spec"]["nodeName"], pod["spec"]["priority"], pod["status"].get("startTime"))
            for pod in make_case(1, number, kind)["pods"]
            if "nodeName" in pod["spec"]
        ]
        assert len(places) == len(set(places))


def test_the_command_prints_the_kinds_asked_for_and_its_seed() -> None:
    command = [sys.executable, str(SCRIPT), "--seed", "5", "--count", "4", "--kinds", "fit,pdb"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    identities = [json.loads(line)["id"] for line in run.stdout.splitlines()]
    assert identities == ["fit-00000", "pdb-00001", "fit-00002", "pdb-00003"]
    assert run.stderr == "seed 5\n"


def test_an_unknown_kind_is_refused() -> None:
    run = subprocess.run(
        [sys.executable, str(SCRIPT), "--kinds", "fit,nonsense"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert "unknown kinds: nonsense" in run.stderr
