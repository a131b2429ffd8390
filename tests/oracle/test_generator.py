"""The generator itself; whether its objects are valid is what `oracle validate` says."""

import json
import subprocess
import sys
from pathlib import Path

from tests.cases import each
from tests.oracle.generator import scenarios
from tests.oracle.generator.claims import EVERY_KIND, make_scenario_of_every_kind
from tests.oracle.generator.kinds import KINDS, make_case

SCRIPT = Path(__file__).with_name("generate.py")


each_kind = each(lambda: ((kind,) for kind in KINDS))


@each_kind
def test_a_case_is_reproducible_and_plain_json(kind: str) -> None:
    first, second = make_case(7, 3, kind), make_case(7, 3, kind)
    assert json.dumps(first) == json.dumps(second)
    assert first["id"] == f"{kind}-00003"


def test_another_seed_gives_another_case() -> None:
    assert make_case(1, 0, "fit") != make_case(2, 0, "fit")


@each_kind
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


@each(lambda: ((kind,) for kind in KINDS if not kind.startswith("ties")))
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


@each(lambda: ((kind,) for kind in EVERY_KIND))
def test_a_scenario_is_reproducible_and_its_pods_have_their_controllers(kind: str) -> None:
    for number in range(5):
        case = make_scenario_of_every_kind(7, number, kind)
        assert json.dumps(case) == json.dumps(make_scenario_of_every_kind(7, number, kind))
        named = {(w["kind"], w["metadata"]["name"]) for w in case["workloads"]}
        for obj in [*case["pods"], *case["workloads"]]:
            assert {(ref["kind"], ref["name"]) for ref in obj["metadata"].get("ownerReferences", ())} <= named


def test_a_deployment_that_rolls_has_the_pods_of_its_first_replica_set() -> None:
    cases = [scenarios.make_scenario(7, number, "rollouts") for number in range(5)]
    rolled = [a["object"] for case in cases for a in case["arrivals"] if a["op"] == "update"]
    assert {obj["kind"] for obj in rolled} >= {"Deployment"}
    for case in cases:
        sizes = {w["metadata"]["name"]: w["spec"]["replicas"] for w in case["workloads"] if w["kind"] == "ReplicaSet"}
        for workload in case["workloads"]:
            if workload["kind"] == "Deployment":
                assert sizes[workload["metadata"]["name"] + "-first"] == workload["spec"]["replicas"]
