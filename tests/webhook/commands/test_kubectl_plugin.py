"""`kubectl forewarn`: which cluster and which namespace, by kubectl's rules; and what its completion answers."""

from __future__ import annotations

import json
import shlex
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from forewarn.policies.cli.commands.completion import options_of
from forewarn.policies.cli.main import COMMANDS
from forewarn.policies.cli.main import main as main_of_forewarn
from forewarn.policies.kubernetes.releases.minors import PREDICTED_MINORS
from forewarn.webhook.commands.kubectl_plugin import choices, complete, main, split, translated

CONFIG = {
    "current-context": "staging",
    "contexts": [
        {"name": "staging", "context": {"cluster": "s", "namespace": "shop"}},
        {"name": "production", "context": {"cluster": "p"}},
    ],
}


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config"
    path.write_text(json.dumps(CONFIG))
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


def forewarn(line: str) -> str:
    return shlex.join(translated(split(shlex.split(line))))


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("predict -f x.yaml", "predict -f x.yaml --namespace shop"),
        ("predict -f x.yaml -n web", "predict -f x.yaml --namespace web"),
        ("-nweb predict -f x.yaml", "predict -f x.yaml --namespace web"),
        ("-n=web predict -f x.yaml", "predict -f x.yaml --namespace web"),
        ("predict --namespace=web -f x.yaml", "predict -f x.yaml --namespace web"),
        ("predict -f x --context production", "predict -f x --context production --namespace default"),
        ("predict -f x --context=nowhere -o json", "predict -f x -o json --context nowhere --namespace default"),
        ("predict -f x --cluster dump.json", "predict -f x --cluster dump.json --namespace default"),
        (
            "--as dev predict -f x --as-group=a --as-group b",
            "predict -f x --as dev --as-group a --as-group b --namespace shop",
        ),
        ("audit --as-uid 7 --as dev", "audit --as-uid 7 --as dev"),
        ("whatif lose zone a", "whatif lose zone a --namespace shop"),
        ("whatif merge parts", "whatif merge parts"),
        ("whatif pressure n --context production", "whatif pressure n --context production --namespace default"),
        ("lint -- -n", "lint --cluster live --namespace shop -- -n"),
        ("audit", "audit"),
        ("audit --context production", "audit --context production"),
        ("audit --context 'prod-*' --context=a", "audit --context 'prod-*' --context a"),
        ("whatif upgrade --clusters 'a*'", "whatif upgrade --clusters 'a*' --namespace default"),
        ("why web-0 -o json", "why web-0 -o json --namespace shop"),
        ("diff -f x", "diff -f x --namespace shop"),
        ("classes plan -f x", "classes plan -f x --namespace shop"),
        ("classes", "classes"),
        ("audit -n web", "audit --namespace web"),
        ("risk", "risk"),
        ("risk -n web", "risk --namespace web"),
        ("webhook doctor", "webhook doctor --namespace shop"),
        ("webhook serve -n forewarn", "webhook serve --namespace forewarn"),
        ("snapshot -o d --context production", "snapshot -o d --context production"),
        ("explain unknown-priority-class", "explain unknown-priority-class"),
        ("headroom --help", "headroom --help"),
        ("--version", "--version"),
        ("", ""),
    ],
)
def test_what_a_command_line_stands_for(line: str, command: str) -> None:
    assert forewarn(line) == command


def test_kubeconfigs_are_merged_as_kubectl_merges_them(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first file that names a current context decides; contexts come from all."""
    first = tmp_path / "first"
    first.write_text("current-context: mine\npreferences: {}\n")
    last = tmp_path / "last"
    last.write_text("current-context: staging\ncontexts: [{name: mine, context: {namespace: blog}}]\n")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'none'}:{first}:{config}:{last}")
    assert forewarn("headroom -f x").endswith("--namespace blog")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "contexts: 5",
        "contexts: [5, {name: staging, context: 5}]\ncurrent-context: staging",
        "{",
        "\0",
        "a: *a",
    ],
)
def test_a_kubeconfig_that_makes_no_sense_is_left_to_the_command(config: Path, text: str) -> None:
    config.write_text(text)
    assert forewarn("headroom -f x") == "headroom -f x --namespace default"


def test_a_namespace_is_wrong_usage_of_a_command_that_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["classes", "-n", "web"])
    assert "unrecognized arguments: --namespace" in capsys.readouterr().err


def test_a_flag_without_its_value_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["headroom", "--context"]) == 2
    assert capsys.readouterr().err == "kubectl forewarn: --context requires a value\n"


def test_kubeconfig_is_where_the_cluster_is_looked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    other.write_text("{}")
    assert main(["audit", "--kubeconfig", str(other)]) == 3
    assert str(other) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["headroom", "--context", "p"], ["production"]),
        (["headroom", "--output", ""], ["text", "json", "markdown", "html"]),
        (["-n", "a", "headroom", "--at"], ["--at-least"]),
        (["headroom", "--kubec"], ["--kubeconfig"]),
        (["nonsense", "--"], []),
        (["webhook", "d"], ["doctor"]),
        (["whatif", "l"], ["lose"]),
        (["whatif", "lose", "--ea"], ["--each"]),
        (["whatif", "lose", ""], ["node", "zone", "pool"]),
        (["whatif", "drain", ""], []),
        (["headroom", "-o", "j"], ["json"]),
        (["headroom", "--kubernetes-version", "1.3"], [f"1.{minor}" for minor in PREDICTED_MINORS]),
        (["predict", "-f", ""], []),
    ],
)
def test_what_may_come_next(words: list[str], found: list[str]) -> None:
    assert choices(words)[0] == found


def test_kubectl_reads_the_answers_of_completion(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each choice, a tab before what it means; last a directive."""
    assert complete([""]) == 0
    *lines, directive = capsys.readouterr().out.splitlines()
    first = dict.fromkeys(name.partition(" ")[0] for name in COMMANDS if name != "completion")
    assert [line.partition("\t")[0] for line in lines] == [*first]
    assert directive == ":4"
    assert complete(["predict", "-f", ""]) == 0
    assert capsys.readouterr().out == ":0\n"


def test_k9s_calls_commands_that_there_are() -> None:
    plugins = yaml.safe_load(Path("manifests/k9s/plugins.yaml").read_text())["plugins"]
    assert len({plugin["shortCut"] for plugin in plugins.values()}) == len(plugins)
    for plugin in plugins.values():
        assert {"shortCut", "description", "scopes", "command", "background", "args"} == set(plugin)
        said = shlex.split(plugin["args"][-1].partition("|")[0])
        assert said[:2] == ["kubectl", "forewarn"]
        assert translated(split(said[2:]))[0] in COMMANDS


def test_every_command_that_takes_a_context_gets_the_one_of_kubectl() -> None:
    taking = {name for name, it in COMMANDS.items() if name != "completion" and "--context" in options_of(it)}
    given = {name for name in COMMANDS if "--context" in translated(split([*name.split(), "--context", "c"]))}
    assert given - {"whatif", "whatif merge", "webhook serve"} == taking, "whatif has the option behind each change"


def test_a_kubeconfig_that_does_not_exist_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "why a/b/c --cluster webhook/sample/cluster.yaml",
            'kubectl forewarn why: "a/b/c": not a Pod. Fix: write NAMESPACE/POD',
        ),
        ("lnt", 'kubectl forewarn: unknown command "lnt"; did you mean "lint"?'),
        ("nonsense", "see `kubectl forewarn --help`"),
        ("explain nonsense", "see `kubectl forewarn lint --list-rules`"),
        ("whatif drain", "Fix: write kubectl forewarn whatif drain NODE"),
        ("why --help", "usage: kubectl forewarn why [-h]"),
        ("why --help", "  kubectl forewarn why shop/web-5d9c7-x2x1z"),
        ("webhook", "usage: kubectl forewarn webhook COMMAND"),
        ("--help", "usage: kubectl forewarn COMMAND"),
        ("webhook accuracy --health-port 1", "kubectl -n forewarn exec deploy/forewarn -- forewarn webhook"),
    ],
)
def test_messages_and_help_name_the_command_that_was_typed(
    line: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    with suppress(SystemExit):
        main(line.split())
    printed = "".join(capsys.readouterr())
    assert said in printed
    with suppress(SystemExit):
        main_of_forewarn(line.split())
    assert said.replace("kubectl forewarn", "forewarn") in "".join(capsys.readouterr())


@pytest.mark.parametrize("command", ["audit", "why shop/web-0", "snapshot -o dump.json", "webhook doctor"])
def test_an_unknown_context_is_wrong_usage(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*command.split(), "--context", "stagin"]) == 2
    err = capsys.readouterr().err
    assert (err.count("\n"), 'context "stagin" not found in' in err) == (1, True)


def test_a_kubeconfig_beside_a_file_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config"
    config.write_text("{}")
    with pytest.raises(SystemExit, match="2"):
        main(["audit", "--kubeconfig", str(config), "--cluster", "webhook/sample/cluster.yaml"])
    assert "--kubeconfig selects a running cluster. Fix: remove it or --cluster webhook" in capsys.readouterr().err


def test_a_kubeconfig_option_that_names_no_file_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main_of_forewarn(["why", "a/b", "--kubeconfig", "none"])
    assert "--kubeconfig: none: no such file or directory" in capsys.readouterr().err


def test_a_file_without_its_option_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main_of_forewarn(["predict", "web.yaml"])
    assert "unrecognized arguments: web.yaml; did you mean -f web.yaml?\n" in capsys.readouterr().err
