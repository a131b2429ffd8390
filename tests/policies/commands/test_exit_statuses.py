"""Exit statuses that all commands share: 2 for a file that does not exist, 3 or a --fail-on value for no answer."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Final

import pytest

from forewarn.policies.cli.main import COMMANDS, main

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
"""
NO_NODES = "apiVersion: v1\nkind: NodeList\nitems: []\n"
NO_PODS = "---\napiVersion: v1\nkind: PodList\nitems: []\n"
NO_CLASSES = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClassList\nitems: []\n"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {schedulerName: SCHEDULER, containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
"""
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"
CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 5\n"
ON_A_NODE: Final = ("whatif", "pressure", "n1", "--cluster", "{cluster}")
WITH_CLUSTER: Final = ("--cluster", "{cluster}")

MISSING: Final = {
    ("lint", "PATH"): ("lint", "{none}"),
    ("lint", "--definitions"): ("lint", "{pod}", "--definitions", "{none}"),
    ("lint", "--config"): ("lint", "{pod}", "-c", "{none}"),
    ("lint", "--admission-config"): ("lint", "{pod}", "--admission-config", "{none}"),
    ("lint", "--baseline"): ("lint", "{pod}", "--baseline", "{none}"),
    ("lint", "--cluster"): ("lint", "{pod}", "--cluster", "{none}"),
    ("lint", "--scheduler-config"): ("lint", "{pod}", *WITH_CLUSTER, "--scheduler-config", "{none}"),
    ("lint", "one of two"): ("lint", "{pod}", "{none}"),
    ("dry-run", "--batch"): ("dry-run", "--batch", "{none}"),
    ("predict", "--filename"): ("predict", "-f", "{none}", *WITH_CLUSTER),
    ("predict", "--cluster"): ("predict", "-f", "{pod}", "--cluster", "{none}"),
    ("predict", "one of two clusters"): ("predict", "-f", "{pod}", *WITH_CLUSTER, "--cluster", "{none}"),
    ("predict", "--scheduler-config"): ("predict", "-f", "{pod}", *WITH_CLUSTER, "--scheduler-config", "{none}"),
    ("predict", "--config"): ("predict", "-f", "{pod}", *WITH_CLUSTER, "-c", "{none}"),
    ("predict", "--node-templates"): ("predict", "-f", "{pod}", *WITH_CLUSTER, "--node-templates", "{none}"),
    ("preempt", "--batch"): ("preempt", "--batch", "{none}"),
    ("why", "--config"): ("why", "default/p", *WITH_CLUSTER, "-c", "{none}"),
    ("why", "--node-templates"): ("why", "default/p", *WITH_CLUSTER, "--node-templates", "{none}"),
    ("why", "--cluster"): ("why", "default/p", "--cluster", "{none}"),
    ("why", "--scheduler-config"): ("why", "default/p", *WITH_CLUSTER, "--scheduler-config", "{none}"),
    ("whatif events", "--filename"): ("whatif", "events", "-f", "{none}", *WITH_CLUSTER),
    ("whatif events", "--cluster"): ("whatif", "events", "-f", "{pod}", "--cluster", "{none}"),
    ("whatif events", "--events"): ("whatif", "events", "--events", "{none}", *WITH_CLUSTER),
    ("simulate", "--batch"): ("simulate", "--batch", "{none}"),
    ("whatif events", "--config"): ("whatif", "events", "-f", "{pod}", *WITH_CLUSTER, "-c", "{none}"),
    ("whatif events", "--node-templates"): (
        "whatif",
        "events",
        "-f",
        "{pod}",
        *WITH_CLUSTER,
        "--node-templates",
        "{none}",
    ),
    ("whatif events", "--scheduler-config"): (
        "whatif",
        "events",
        "-f",
        "{pod}",
        *WITH_CLUSTER,
        "--scheduler-config",
        "{none}",
    ),
    ("whatif", "--cluster"): ("whatif", "lose", "node", "n1", "--cluster", "{none}"),
    ("whatif", "--filename"): ("whatif", "apply", "-f", "{none}", *WITH_CLUSTER),
    ("whatif", "delete"): ("whatif", "delete", "-f", "{none}", *WITH_CLUSTER),
    ("whatif", "class"): ("whatif", "class", "gold", "--value", "5", "-f", "{none}", *WITH_CLUSTER),
    ("whatif", "--each node"): ("whatif", "lose", "--each", "node", "--cluster", "{none}"),
    ("whatif", "--each zone"): ("whatif", "lose", "--each", "zone", "--cluster", "{none}"),
    ("whatif", "--config"): ("whatif", "lose", "node", "n1", *WITH_CLUSTER, "-c", "{none}"),
    ("whatif", "--node-templates"): ("whatif", "lose", "node", "n1", *WITH_CLUSTER, "--node-templates", "{none}"),
    ("whatif", "--instance-types"): ("whatif", "lose", "node", "n1", *WITH_CLUSTER, "--instance-types", "{none}"),
    ("whatif", "--scheduler-config"): ("whatif", "lose", "node", "n1", *WITH_CLUSTER, "--scheduler-config", "{none}"),
    ("test", "EXPECTATIONS"): ("test", "{none}", *WITH_CLUSTER),
    ("test", "a file of an expectation"): ("test", "{expectations}", *WITH_CLUSTER),
    ("test", "--cluster"): ("test", "{expectations}", "--cluster", "{none}"),
    ("test", "--scheduler-config"): ("test", "{expectations}", *WITH_CLUSTER, "--scheduler-config", "{none}"),
    ("whatif merge", "FILE"): ("whatif", "merge", "{none}"),
    ("test", "--config"): ("test", "{expectations}", *WITH_CLUSTER, "--config", "{none}"),
    ("risk", "--config"): ("risk", *WITH_CLUSTER, "--config", "{none}"),
    ("risk", "--cluster"): ("risk", "--cluster", "{none}"),
    ("risk", "--scheduler-config"): ("risk", *WITH_CLUSTER, "--scheduler-config", "{none}"),
    ("headroom", "--filename"): ("headroom", "-f", "{none}", *WITH_CLUSTER),
    ("headroom", "--cluster"): ("headroom", "-f", "{pod}", "--cluster", "{none}"),
    ("headroom", "--config"): ("headroom", "-f", "{pod}", *WITH_CLUSTER, "-c", "{none}"),
    ("headroom", "--node-templates"): ("headroom", "-f", "{pod}", *WITH_CLUSTER, "--node-templates", "{none}"),
    ("headroom", "--scheduler-config"): ("headroom", "-f", "{pod}", *WITH_CLUSTER, "--scheduler-config", "{none}"),
    ("classes", "--cluster"): ("classes", "--cluster", "{none}"),
    ("classes", "--scheduler-config"): ("classes", *WITH_CLUSTER, "--scheduler-config", "{none}"),
    ("why", "--audit-log"): ("why", "default/gone", *WITH_CLUSTER, "--audit-log", "{none}"),
    ("why", "--before"): ("why", "default/gone", *WITH_CLUSTER, "--before", "{none}"),
    ("overview", "--cluster"): ("overview", "--cluster", "{none}"),
    ("overview", "--config"): ("overview", *WITH_CLUSTER, "-c", "{none}"),
    ("overview", "--node-templates"): ("overview", *WITH_CLUSTER, "--node-templates", "{none}"),
    ("overview", "--instance-types"): ("overview", *WITH_CLUSTER, "--instance-types", "{none}"),
    ("overview", "--scheduler-config"): ("overview", *WITH_CLUSTER, "--scheduler-config", "{none}"),
    ("classes suggest", "--cluster"): ("classes", "suggest", "--cluster", "{none}"),
    ("classes suggest", "--config"): ("classes", "suggest", *WITH_CLUSTER, "-c", "{none}"),
    ("classes suggest", "--node-templates"): ("classes", "suggest", *WITH_CLUSTER, "--node-templates", "{none}"),
    ("classes suggest", "--instance-types"): ("classes", "suggest", *WITH_CLUSTER, "--instance-types", "{none}"),
    ("classes suggest", "--scheduler-config"): ("classes", "suggest", *WITH_CLUSTER, "--scheduler-config", "{none}"),
    ("classes plan", "--filename"): ("classes", "plan", "-f", "{none}", *WITH_CLUSTER),
    ("classes plan", "--cluster"): ("classes", "plan", "--delete", "x", "--cluster", "{none}"),
    ("classes plan", "--config"): ("classes", "plan", "--delete", "x", *WITH_CLUSTER, "-c", "{none}"),
    ("classes plan", "--scheduler-config"): (
        *("classes", "plan", "--delete", "x", *WITH_CLUSTER),
        *("--scheduler-config", "{none}"),
    ),
    ("diff", "--filename"): ("diff", "{versions}", "{versions}", "-f", "{none}"),
    ("diff", "--cluster"): ("diff", "{versions}", "{versions}", "--cluster", "{none}"),
    ("diff", "--config"): ("diff", "{versions}", "{versions}", "-c", "{none}"),
    ("diff", "--scheduler-config"): ("diff", "{versions}", "{versions}", *WITH_CLUSTER, "--scheduler-config", "{none}"),
    ("audit", "--cluster"): ("audit", "--cluster", "{none}"),
    ("audit", "--config"): ("audit", *WITH_CLUSTER, "-c", "{none}"),
    ("audit", "--admission-config"): ("audit", *WITH_CLUSTER, "--admission-config", "{none}"),
    ("audit", "--baseline"): ("audit", *WITH_CLUSTER, "--baseline", "{none}"),
    ("audit", "--since"): ("audit", *WITH_CLUSTER, "--since", "{none}"),
    ("risk", "--node-templates"): ("risk", *WITH_CLUSTER, "--node-templates", "{none}"),
    ("risk", "--instance-types"): ("risk", *WITH_CLUSTER, "--instance-types", "{none}"),
    ("risk", "--since"): ("risk", *WITH_CLUSTER, "--since", "{none}"),
    ("audit", "--node-templates"): ("audit", *WITH_CLUSTER, "--node-templates", "{none}"),
    ("audit", "--instance-types"): ("audit", *WITH_CLUSTER, "--instance-types", "{none}"),
    ("audit", "--scheduler-config"): ("audit", *WITH_CLUSTER, "--scheduler-config", "{none}"),
    ("whatif pressure", "--cluster"): ("whatif", "pressure", "n1", "--signal", "memory", "--cluster", "{none}"),
    ("whatif pressure", "--stats"): (*ON_A_NODE, "--signal", "memory", "--stats", "{none}"),
    ("whatif pressure", "--admit"): (*ON_A_NODE, "--admit", "{none}"),
    ("info node-groups", "--cluster"): ("info", "node-groups", "--cluster", "{none}"),
    ("info scheduler", "FILE|PRESET"): ("info", "scheduler", "{none}"),
    ("policies", "--config"): ("policies", "-c", "{none}"),
    ("ui", "--cluster"): ("ui", "--no-browser", "--cluster", "{none}"),
    ("ui", "--scheduler-config"): ("ui", "--no-browser", *WITH_CLUSTER, "--scheduler-config", "{none}"),
    ("webhook review", "--filename"): ("webhook", "review", "-f", "{none}"),
    ("webhook review", "--cluster"): ("webhook", "review", "-f", "{pod}", "--cluster", "{none}"),
    ("webhook review", "--config"): ("webhook", "review", "-f", "{pod}", "-c", "{none}"),
    ("webhook review", "--admission-config"): ("webhook", "review", "-f", "{pod}", "--admission-config", "{none}"),
    ("webhook review", "--scheduler-config"): (
        "webhook",
        "review",
        "-f",
        "{pod}",
        *WITH_CLUSTER,
        "--scheduler-config",
        "{none}",
    ),
    ("webhook serve", "--config"): ("webhook", "serve", "--config", "{none}"),
    ("webhook serve", "--admission-config"): ("webhook", "serve", "--admission-config", "{none}"),
    ("webhook serve", "--scheduler-config"): ("webhook", "serve", "--scheduler-config", "{none}"),
    ("webhook serve", "--cluster"): ("webhook", "serve", "--cluster", "{none}"),
    ("webhook serve", "--tls-cert"): (
        "webhook",
        "serve",
        *WITH_CLUSTER,
        "--tls-cert",
        "{none}",
        "--tls-key",
        "{pod}",
    ),
    ("webhook serve", "--tls-key"): (
        "webhook",
        "serve",
        *WITH_CLUSTER,
        "--tls-cert",
        "{pod}",
        "--tls-key",
        "{none}",
    ),
    ("webhook serve", "--client-ca"): ("webhook", "serve", *WITH_CLUSTER, "--client-ca", "{none}"),
    ("webhook serve", "--client-token-file"): ("webhook", "serve", *WITH_CLUSTER, "--client-token-file", "{none}"),
}
"""(Command, option or case) -> a command line with a file that does not exist."""
NAMES_A_FILE: Final = re.compile("FILE|PATH|SOURCE|CASES|EXPECTATIONS|REVIEW")
WRITTEN: Final = {"--output", "--write-baseline", "--write-ca"}
KUBECONFIG: Final = {"--kubeconfig"}
"""A file that credentials come from: see tests/webhook/apiserver."""


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    texts = {
        "cluster": NODE + NO_PODS + NO_CLASSES,
        "empty": SERVICE + NO_PODS,
        "without-pods": NODE + NO_CLASSES,
        "without-nodes": NO_NODES + NO_PODS + NO_CLASSES,
        "pod": POD.replace("SCHEDULER", "default-scheduler"),
        "other": POD.replace("SCHEDULER", "other"),
        "service": SERVICE,
        "class": CLASS,
        "expectations": "[{name: a, when: {apply: none.yaml}, expect: {noPending: {}}}]",
        "misspelt": "[{name: a, expect: {run: {class: glod}}}]",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    versions = tmp_path / "versions"
    versions.mkdir()
    return {"versions": versions} | {name: tmp_path / f"{name}.yaml" for name in (*texts, "none")}


def status(arguments: tuple[str, ...], places: dict[str, Path]) -> int:
    try:
        return main([argument.format(**places) for argument in arguments])
    except SystemExit as ended:
        return int(str(ended.code))


@pytest.mark.parametrize("arguments", [pytest.param(row, id=" ".join(key)) for key, row in MISSING.items()])
def test_a_file_that_does_not_exist_is_wrong_usage(
    arguments: tuple[str, ...], places: dict[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    assert status(arguments, places) == 2
    said = capfd.readouterr().err
    assert "none.yaml" in said
    assert "no such file" in said.lower()
    assert "Traceback" not in said


WITH_CONTEXT: Final = [
    row for (_, option), row in MISSING.items() if option == "--cluster" and row[:2] != ("webhook", "serve")
]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--context", "prod"), "--context selects a running cluster. Fix: remove it or --cluster {none}"),
        (("--kubeconfig", "{pod}"), "--kubeconfig selects a running cluster. Fix: remove it or --cluster {none}"),
    ],
)
@pytest.mark.parametrize("command", WITH_CONTEXT, ids=" ".join)
def test_a_context_beside_a_file_is_wrong_usage(
    command: tuple[str, ...],
    given: tuple[str, ...],
    message: str,
    places: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert status((*command, *given), places) == 2
    assert message.format(**places) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ("--cluster", "live:a", "--context", "b"),
            "--context selects a running cluster. Fix: remove it or --cluster live:a",
        ),
        (
            ("--clusters", "{none}", "--kubeconfig", "{pod}"),
            "--kubeconfig selects a running cluster. Fix: remove it or --clusters {none}",
        ),
        (("--cluster", "live", "--context", "b", "--kubeconfig", "{none}"), "no such file"),
    ],
)
def test_a_context_beside_another_cluster_is_wrong_usage(
    given: tuple[str, ...], message: str, places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(("audit", *given), places) == 2
    assert message.format(**places) in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_the_table_has_every_option_that_names_a_file(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parsers: list[argparse.ArgumentParser] = []
    original = argparse.ArgumentParser.__init__

    def noted(self: argparse.ArgumentParser, *args: object, **kwargs: object) -> None:
        original(self, *args, **kwargs)  # type: ignore[arg-type]
        parsers.append(self)

    monkeypatch.setattr(argparse.ArgumentParser, "__init__", noted)
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    actions = [action for parser in parsers for action in parser._actions]
    named = {
        next((name for name in action.option_strings if name.startswith("--")), str(action.metavar))
        for action in actions
        if action.metavar and NAMES_A_FILE.search(str(action.metavar))
    }
    covered = {option for name, option in MISSING if name == command or name.startswith(f"{command} ")}
    assert named - covered - WRITTEN - KUBECONFIG == set()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(("predict", "-f", "{other}", *WITH_CLUSTER), 3, id="no prediction"),
        pytest.param(("predict", "-f", "{other}", *WITH_CLUSTER, "--fail-on", "victims"), 3, id="another value"),
        *(
            pytest.param(
                (*command, "-f", "{pod}", "--cluster", "{service}"), 3, id=f"{' '.join(command)} without nodes"
            )
            for command in (("predict",), ("headroom",), ("whatif", "apply"))
        ),
        pytest.param(("whatif", "lose", "node", "n1", "--cluster", "{without-nodes}"), 3, id="a node without nodes"),
        pytest.param(("whatif", "apply", "-f", "{cluster}", "--cluster", "{empty}"), 0, id="the first node"),
        pytest.param(("whatif", "lose", "node", "n1", "--until", "0", *WITH_CLUSTER), 2, id="no time to simulate"),
        pytest.param(("test", "{misspelt}", *WITH_CLUSTER), 3, id="a misspelt class"),
        pytest.param(("test", "{misspelt}", *WITH_CLUSTER, "--allow-empty"), 0, id="no Pods accepted"),
        pytest.param(("preempt", "--batch", "-", "--fail-on", "pending"), 2, id="preempt --batch --fail-on"),
        pytest.param(("simulate", "--batch", "-", "--fail-on", "pending"), 2, id="simulate --batch --fail-on"),
        pytest.param(("dry-run", "--batch", "-", "--fail-on", "not-evaluated"), 2, id="dry-run --batch --fail-on"),
    ],
)
def test_no_answer_has_a_status_of_its_own(
    arguments: tuple[str, ...], expected: int, places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(arguments, places) == expected
    assert "Traceback" not in capsys.readouterr().err


def test_the_reference_page_has_every_command() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/exit-statuses.md").read_text()
    assert [name for name in COMMANDS if f"`{name}`" not in page] == []
