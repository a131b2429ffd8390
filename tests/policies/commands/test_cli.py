"""The command: what it imports, what it prints, how it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.cli import main as cli
from forewarn.policies.cli.main import COMMANDS, main
from tests.in_process import forewarn
from tests.shell import bash

HEAVY = {"flask", "numpy", "kubernetes", "cryptography", "uvicorn", "werkzeug", "forewarn.webhook"}
HEAVY |= {
    "forewarn.policies.kubernetes.quantity",
    "forewarn.policies.kubernetes.scheduling",
    "forewarn.policies.kubernetes.releases.semantics",
}  # milliseconds of the start-up
HEAVY |= {"dataclasses", "inspect", "pkgutil"}
HEAVY |= {"hashlib", "forewarn.policies.kubernetes.controllers", "forewarn.policies.kubernetes.releases.semantics"}
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {priorityClassName: gold}\n"
JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {backoffLimit: 0, template: {spec: {}}}\n"
CLASS = (
    "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: a}\nvalue: 1\npreemptionPolicy: Never\n"
)


def _run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return forewarn(*arguments, stdin=stdin)


TYPO = f"{CLASS.replace('{name: a}', '{name: golden}')}---\n{POD.replace('gold', 'goldne')}"


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        (POD, set()),
        (JOB, set()),
        (CLASS, {"forewarn.policies.kubernetes.quantity"}),
        (TYPO, {"forewarn.policies.kubernetes.quantity", "forewarn.policies.kubernetes.scheduling"}),
    ],
)
def test_lint_imports_nothing_heavy(text: str, allowed: set[str]) -> None:
    heavy = tuple(sorted(HEAVY - allowed))
    program = (
        "import argparse, sys, typing\nargparse.ArgumentParser().add_argument('file')\nbefore = set(sys.modules)\n"
        "from forewarn.policies.cli import main as cli\n"
        "cli.main(['lint', '-'])\n"
        f"print('heavy:', sorted(m for m in sys.modules.keys() - before if m.startswith({heavy})))\n"
        "made = [value for name, module in sys.modules.items() if name.startswith('forewarn.')\n"
        "        for value in vars(module).values() if typing.NamedTuple in getattr(value, '__orig_bases__', ())]\n"
        "print('slowly made:', made)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=text, capture_output=True, text=True, check=True, timeout=500
    )
    assert done.stdout.splitlines()[-2:] == ["heavy: []", "slowly made: []"]


def test_a_command_runs_with_the_collector_of_cycles_and_ends_without() -> None:
    program = (
        "import gc, sys\n"
        "from forewarn.policies.cli import main as cli\n"
        "cli._load = lambda *_: lambda _: print(gc.isenabled()) or 0\n"
        "sys.argv = ['forewarn', 'explain']\n"
        "cli.main()\n"
        "print(gc.get_freeze_count() > 1_000)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
    assert done.stdout == "True\nTrue\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with pytest.raises(SystemExit) as ended:
        main([*name.split(), "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert f"usage: forewarn {name}" in printed
    assert re.search(r"^  -\w [A-Z]", printed, re.MULTILINE) is None, "-c, --config FILE with every version of Python"


def test_rare_options_are_only_in_the_complete_help(capsys: pytest.CaptureFixture[str]) -> None:
    printed = {}
    for option in ("--help", "--help-all", "-h"):
        with pytest.raises(SystemExit):
            main(["whatif", "lose", option])
        printed[option] = capsys.readouterr().out
    assert printed["--help"] == printed["-h"]
    for option in ("--as-group", "--feature-gates", "--color"):
        assert option in printed["--help-all"]
        assert option not in printed["--help"]
    for option in ("--help-all", "--cluster ", "--fail-on"):
        assert option in printed["--help"]


def test_help_lists_every_command_and_the_version_names_kubernetes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(command.help in printed for command in COMMANDS.values() if command.group)
    assert main(["--version"]) == 0
    assert (
        "(Kubernetes 1.34 to 1.37; default 1.37, tested with 1.37.1; 1.38: preview, unverified)"
        in capsys.readouterr().out
    )
    assert main(["info", "releases", "1.37"]) == 0
    assert capsys.readouterr().out.startswith("Kubernetes 1.37 (checked with 1.37.1, default without a cluster")


def test_an_unknown_command_and_no_command_are_wrong_usage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert main(["lnit"]) == 2
    assert 'unknown command "lnit"' in capsys.readouterr().err
    assert main([]) == 2


def test_lint_says_what_it_read_on_stderr_and_ends_with_0_on_a_note() -> None:
    done = _run("lint", "-v", "-", stdin=POD)
    assert done.returncode == 0
    assert "[priority-class-not-checked]" in done.stdout
    assert done.stderr == "no errors or warnings, 1 note: 1 file, 1 object checked\n"
    assert "\033" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        pytest.param(["--fail-on", "note"], 1, id="a lower threshold"),
        pytest.param(["--fail-on", "never"], 0, id="report only"),
        pytest.param(["-o", "sariff"], 2, id="unknown format"),
        pytest.param(["--nonsense"], 2, id="unknown flag"),
        pytest.param(["-c", "none.yaml"], 2, id="no such configuration"),
        pytest.param(["none.yaml"], 2, id="no such file"),
        pytest.param(["--cluster", "none.yaml"], 2, id="no such cluster"),
    ],
)
def test_the_exit_status_says_why(arguments: list[str], status: int) -> None:
    done = _run("lint", "-", *arguments, stdin=POD)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert status < 2 or any(said in done.stderr for said in ("none.yaml", "--help", "sarif"))


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        (["{a}", "-q", "{b}"], 2),
        (["{a}", "-o", "text", "{b}", "--exit-zero", "{c}"], 3),
        (["-q", "{a}", "--closed", "{b}"], 2),
        (["{a}", "-q", "--", "{b}"], 2),
        (["--", "{a}", "{b}"], 2),
        (["{a}", "--definitions", "{b}", "-q", "{c}"], 2),
        (["-q"], 3),
    ],
)
def test_paths_and_options_stand_in_any_order(arguments: list[str], files: int, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.yaml").write_text(POD.replace("name: a", f"name: {name}"))
    given = [argument.format(a="a.yaml", b="b.yaml", c="c.yaml") for argument in arguments]
    more = ["--exit-zero", "-o", "json=report.json"]
    done = forewarn("lint", *([*more, *given] if "--" in given else [*given, *more]), cwd=tmp_path)
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert json.loads((tmp_path / "report.json").read_text())["summary"]["files"] == files


def test_what_begins_with_a_dash_is_a_path_behind_two_of_them_alone() -> None:
    assert "unrecognized arguments: -x" in _run("lint", "a.yaml", "-q", "-x").stderr
    assert "unrecognized arguments: -y" in _run("lint", "a.yaml", "-q", "-y", "--", "-x").stderr
    done = _run("lint", "-q", "none.yaml", "--closed", "--", "-x")
    assert (done.returncode, "-x: " in done.stderr) == (2, True)
    several = _run("whatif", "lose", "zone", "a", "--cluster", "x", "more")
    assert "several names given. Fix: name one zone" in several.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["whatif", "lose", "node", "n1", "--cluster", "{none}", "n2"],
        ["whatif", "drain", "n1", "-o", "json", "n2", "--cluster", "{none}"],
        ["test", "{none}", "--cluster", "{none}", "{none}"],
    ],
)
def test_so_they_do_in_every_command_that_takes_several(arguments: list[str], tmp_path: Path) -> None:
    done = _run(*(argument.format(none=tmp_path / "none") for argument in arguments))
    assert "unrecognized" not in done.stderr
    assert f"{tmp_path / 'none'}: no such file" in done.stderr


def test_a_directory_without_manifests_is_not_a_clean_bill(tmp_path: Path) -> None:
    done = _run("lint", str(tmp_path))
    assert done.returncode == 3
    assert "no .yaml, .yml or .json files found" in done.stderr


def test_several_outputs_are_written_in_one_run(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = _run("lint", "-v", "-", "-o", "text", "-o", f"json={report}", stdin=POD)
    assert "[priority-class-not-checked]" in done.stdout
    assert '"notes": 1' in report.read_text()


def test_programs_are_told_what_a_message_says_as_data() -> None:
    done = _run("lint", "-", "-o", "json", stdin=f"{POD}---\n{CLASS.replace('gold', 'silver')}")
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["rule"], finding["detail"]) == ("unknown-priority-class", {"class": "gold"})
    unchecked = _run("lint", "-", "-o", "json", stdin=POD)
    assert [finding["detail"] for finding in json.loads(unchecked.stdout)["findings"]] == [{"class": "gold"}]


def test_explain_shows_a_rule_and_offers_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "unknown-priority-class"]) == 0
    out = capsys.readouterr().out
    assert "Why:\n\nkube-apiserver rejects such a Pod." in out
    assert (
        'error: Deployment team/web: PriorityClass "glod" not found; Pods will be rejected. Did you mean "gold"?' in out
    )
    checked = (
        "Checked objects: Pods, static Pods, Pod templates, custom resources, PodGroups, Workloads, templates and "
        "values of charts."
    )
    assert checked in " ".join(out.split())
    assert "\n    # forewarn: ignore[unknown-priority-class] REASON" in out
    assert main(["explain"]) == 0
    listed = capsys.readouterr().out
    assert "unknown-priority-class             error    deny   A Pod, PodGroup or template names" in listed
    assert main(["lint", "--list-rules"]) == 0
    assert capsys.readouterr().out == listed
    assert main(["explain", "unknown-priorityclass"]) == 2
    assert 'did you mean "unknown-priority-class"?' in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error() -> None:
    assert bash('"$0" -m policies.cli.main explain priority-drift | head -1').stderr == ""


def test_a_reader_that_was_gone_before_the_report_is_no_error_either() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        command = [sys.executable, "-m", "forewarn", "lint", "-v", "-"]
        done = subprocess.run(
            command, input=POD, stdout=closed, stderr=subprocess.PIPE, text=True, check=False, timeout=500
        )
    assert (done.returncode, done.stderr) == (141, "no errors or warnings, 1 note: 1 file, 1 object checked\n")


SAMPLE = "webhook/sample"
CHECKOUT = f"{SAMPLE}/manifests/checkout.yaml"
CLUSTER = f"{SAMPLE}/cluster.yaml"
POD_KIND = {"group": "", "version": "v1", "kind": "Pod"}
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u",
        "operation": "CREATE",
        "kind": POD_KIND,
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "x",
        "object": {"apiVersion": "v1", "kind": "Pod"},
    },
}
CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 5\n"
SAYING = [
    ["--help"],
    ["--version"],
    ["lint", "--help"],
    ["lint", "--list-rules"],
    ["lint", "-v", "-"],
    ["lint", "-", "-o", "json"],
    ["explain", "priority-drift"],
    ["predict", "-f", CHECKOUT, "--cluster", CLUSTER],
    ["predict", "-f", CHECKOUT, "--cluster", CLUSTER, "-o", "json"],
    ["preempt", "--batch", "-"],
    ["webhook", "review", "-f", "{review}"],
    ["demo"],
]
each_saying = pytest.mark.parametrize("arguments", SAYING, ids=" ".join)


def _name(arguments: list[str]) -> str:
    two = " ".join(arguments[:2])
    return two if two in COMMANDS else arguments[0]


def _unread(arguments: list[str], stdout: Any, tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    for name, text in (("review", json.dumps(REVIEW)), ("class", CLASS)):
        (tmp_path / name).write_text(text)
    given = [argument.format(review=tmp_path / "review", **{"class": tmp_path / "class"}) for argument in arguments]
    command = [sys.executable, "-m", "forewarn", *given]
    streams = {"stdout": stdout, "stderr": subprocess.PIPE, "input": POD if "-" in given else ""}
    return subprocess.run(command, text=True, timeout=60, check=False, env={**os.environ, **variables}, **streams)


@each_saying
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["", "unbuffered"])
def test_what_cannot_be_written_is_said_in_one_line_with_status_3(
    arguments: list[str], unbuffered: str, tmp_path: Path
) -> None:
    with open("/dev/full", "w") as full:
        done = _unread(arguments, full, tmp_path, PYTHONUNBUFFERED=unbuffered)
    told = [line for line in done.stderr.splitlines() if "standard output" in line]
    assert told == [f"forewarn {_name(arguments)}: standard output: No space left on device"]
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("file", ["", "missing.yaml", "--nonsense"])
def test_the_exit_status_is_the_same_if_standard_error_cannot_be_written(file: str) -> None:
    command = [sys.executable, "-m", "policies.cli.main", "lint", file or "docs/examples/hello-crowd.yaml"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=full, timeout=60)
    assert done.returncode == (2 if file else 0)


@each_saying
def test_a_reader_that_has_gone_ends_every_command_quietly(arguments: list[str], tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = _unread(arguments, closed, tmp_path, PYTHONUNBUFFERED="")
    assert done.returncode == 141
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_standard_output_that_is_closed_is_said() -> None:
    done = bash('"$0" -m policies.cli.main explain priority-drift >&-')
    assert (done.returncode, done.stderr) == (3, "forewarn explain: standard output is closed\n")


def test_a_report_that_cannot_be_written_names_its_file() -> None:
    done = _run("lint", "-", "-o", "json=/dev/full", stdin=POD)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        3,
        "forewarn lint: /dev/full: no space left on device. Fix: free space on that disk",
    )


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_the_excerpt_is_the_line_that_is_meant(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD.replace("a}", 'a, annotations: {b: "1\u20282\x853"}}'), encoding=encoding)
    shown = _run("lint", "-v", str(file)).stdout.splitlines()
    assert shown[0].startswith(f"{file}:4:27: note")
    assert shown[1:3] == ["  4 | spec: {priorityClassName: gold}", "    |                           ^^^^"]


LIMITED = "tests/policies/cases/limited-config.yaml"
QUOTA = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {services: 1}}\n"


def test_lint_takes_limited_resources_from_the_api_servers_own_file() -> None:
    done = _run("lint", "--admission-config", LIMITED, "-", stdin=f"{POD}---\n{QUOTA}")
    assert done.returncode == 1
    assert 'no ResourceQuota in default covers class "gold"' in done.stdout
    assert "limited-class-without-quota" not in _run("lint", "-", stdin=f"{POD}---\n{QUOTA}").stdout


def test_an_admission_configuration_that_cannot_be_read_is_wrong_usage() -> None:
    done = _run("lint", "--admission-config", "none.yaml", "-", stdin=POD)
    problem = "none.yaml: no such file or directory. Fix: pass the path of an existing file or directory"
    assert (done.returncode, done.stderr) == (2, f"forewarn lint: argument --admission-config: {problem}\n")


def test_who_interrupts_a_command_is_told_so_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupted)
    assert main(["whatif", "lose", "--each", "node"]) == 130
    assert capsys.readouterr() == ("", "forewarn whatif: interrupted\n")


@pytest.mark.parametrize(("name", "status"), [("high", 0), ("hihg", 1)])
def test_lint_needs_no_standard_error(name: str, status: int, tmp_path: Path) -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    pod["spec"] = {"priorityClassName": name, "containers": [{"name": "c", "image": "i"}]}
    (tmp_path / "a.yaml").write_text(f"{json.dumps(high)}\n---\n{json.dumps(pod)}\n")
    done = bash('"$0" -m forewarn lint -o json "$1" 2>&-', tmp_path / "a.yaml")
    assert done.returncode == status, done.stdout
    json.loads(done.stdout)
