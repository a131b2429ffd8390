"""Names and selectors on a command line that the cluster does not have: status 2, one line, and what may be meant."""

from __future__ import annotations

import difflib
from typing import Any

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.linting.rules.support.names import suggested

SAMPLE = "webhook/sample/cluster.yaml"
POD_FORM = "not a Pod. Fix: write NAMESPACE/POD"
CASES = [
    ("whatif lose node node-z", 'whatif: node "node-z" not found in the cluster; known: node-a, node-b, node-c'),
    ("whatif lose node nod-a", 'whatif: node "nod-a" not found in the cluster; did you mean "node-a"?'),
    ("whatif drain node/node-a", 'whatif: node "node/node-a" not found in the cluster; did you mean "node-a"?'),
    ("whatif pressure x --signal memory", 'whatif pressure: node "x" not found in the cluster; known: node-a, node-b'),
    ("whatif lose zone zon-1", 'whatif: no node matches zone zon-1; did you mean "zone-1"?'),
    ("whatif lose zone eu", "whatif: no node matches zone eu; known: zone-1, zone-2, zone-3"),
    ("whatif lose pool web", 'whatif: invalid selector "web". Fix: write LABEL=VALUE[,LABEL=VALUE]'),
    ("whatif lose pool linux", "write LABEL=VALUE[,LABEL=VALUE], for example kubernetes.io/os=linux"),
    ("whatif lose pool kubernetes.io/arch=adm64", 'did you mean "amd64"?'),
    ("whatif lose pool kubernetes.io/arc=amd64", 'did you mean "kubernetes.io/arch"?'),
    ("whatif upgrade --pool web", 'whatif: invalid selector "web". Fix: write LABEL=VALUE'),
    ("whatif scale web 3 -n prod", 'whatif: "web": not a workload. Fix: write shop/deployment/web'),
    ("whatif scale wbe 3", 'whatif: "wbe": not a workload; did you mean "web"?'),
    ("whatif scale shop/wbe 3", 'whatif: "shop/wbe": not a workload; did you mean "shop/web"?'),
    (
        "whatif scale x 3",
        'whatif: "x": not a workload of a supported kind. Fix: write NAMESPACE/KIND/NAME; known: deployment (deploy)',
    ),
    (
        "whatif scale deploy/web 3",
        "whatif: Deployment default/web not found; found in shop. Fix: pass namespace shop (-n)",
    ),
    ("whatif scale deploy/wbe 3 -n shop", 'whatif: Deployment shop/wbe not found; did you mean "web"?'),
    ("whatif scale deploy/a 3 -n shp", 'Deployment shp/a not found; namespace "shp" not found; did you mean "shop"?'),
    ("whatif scale deploy/web 100001 -n shop", "whatif: scale to 100,001 replicas; the limit is 100,000"),
    ("whatif class wbe --delete", 'whatif: PriorityClass "wbe" not found in the cluster; did you mean "web"?'),
    ("whatif class gold --default", "known: batch, normal, web. Fix: give a value to create it"),
    ("whatif class gold --value 2000000000", "maximum allowed value of a user defined priority is 1000000000"),
    ("whatif class Gold --value 5", 'metadata.name: Invalid value: "Gold"'),
    ("why web-1", "why: default/web-1: Pod not found in the cluster; known: shop/web-1"),
    ("why shop/wbe-1", 'why: shop/wbe-1: Pod not found in the cluster; did you mean "web-1"?'),
    ("why shpo/a", 'why: shpo/a: Pod not found in the cluster; namespace "shpo" not found; did you mean "shop"?'),
    ("why deploymnt/web -n shop", "Fix: for a workload, write KIND/NAME; known: cronjob, daemonset, deployment, job, "),
    ("why a/b/c", f'why: "a/b/c": {POD_FORM}'),
    ("why shop/", f'why: "shop/": {POD_FORM}'),
    ("risk -n shpo", 'risk: namespace "shpo" not found; did you mean "shop"?'),
    ("risk --class wbe", 'risk: PriorityClass "wbe" not found; did you mean "web"?'),
]


@pytest.mark.parametrize(("command", "said"), CASES)
def test_a_wrong_name_is_wrong_usage(command: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--cluster", SAMPLE]) == 2
    out, err = capsys.readouterr()
    assert not out or out.startswith("REJECTED  PriorityClass ")
    assert err.startswith("forewarn ")
    assert (err.count("\n"), said in err) == (1, True), err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        *((f"why {name}", "shop/web-1 (") for name in ("shop/web-1", "shop/pod/web-1", "pod/web-1 -n shop")),
        *((f"whatif restart {name}", "Deployment shop/web r") for name in ("web", "shop/web", "shop/deploy/web")),
        ("whatif scale shop/web 4", "Deployment shop/web scaled"),
        ("whatif scale web 4 -n shop", "Deployment shop/web scaled"),
        ("whatif class batch --workloads shop/web", "Deployment shop/web with PriorityClass batch: "),
    ],
)
def test_objects_are_named_by_namespace_or_by_kind(command: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--cluster", SAMPLE]) == 0
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("whatif uprade", '; did you mean "upgrade"?'),
        ("whatif lose zon eu-1a", '; did you mean "zone"? Fix: write forewarn whatif lose node|zone|pool NAME'),
        ("whatif upgrade --fail-on blokced", '; did you mean "blocked"?'),
        ("whatif lose xyz a", ". Fix: write forewarn whatif lose node|zone|pool NAME"),
        (
            "whatif upgrade --away 10d",
            'argument --away: must be seconds, or a duration in s, m or h such as 90s, 5m or 1h, not "10d"',
        ),
        ("whatif upgrade --away -m", "argument --away: expected one argument. Fix: write --away DURATION"),
        ("whatif upgrade --max-surge -x", "--max-surge: expected one argument. Fix: write --max-surge N"),
        ("whatif upgrade --pool -x", "argument --pool: expected one argument. Fix: write --pool LABEL=VALUE"),
    ],
)
def test_a_wrong_argument_is_explained(command: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(command.split())
    assert ended.value.code == 2
    assert capsys.readouterr().err.replace("'", "").endswith(said.replace("'", "") + "\n")


def test_of_very_many_names_few_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    original = difflib.get_close_matches

    def counted(name: str, names: list[str], **more: Any) -> list[str]:
        compared.append(len(names))
        return original(name, names, **more)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    names = [f"web-{number:06}-abcde" for number in range(150_000)]
    assert suggested("wbe-000007-abcde", names).startswith('; did you mean "web-')
    assert [0 < count <= 100 for count in compared] == [True]
