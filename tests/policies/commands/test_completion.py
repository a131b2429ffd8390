"""What shells complete, and what the command says of itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.cli.commands.completion import choices
from forewarn.policies.cli.main import COMMANDS, main
from forewarn.policies.kubernetes.releases.minors import PREDICTED_MINORS

if TYPE_CHECKING:
    from pathlib import Path

POD = "apiVersion: v1\nkind: Pod\nmetadata: {{name: p{}}}\nspec: {{priorityClassName: {}}}\n"


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def test_bash_completes_commands_options_and_their_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = f'forewarn() {{ "{sys.executable}" -m forewarn "$@"; }}'
    (tmp_path / "c").write_text(f"{calls}\n{script('bash', capsys)}")
    said = [("forewarn", "s"), ("forewarn", "lint", "--fail"), ("forewarn", "lint", "--fail-on", "w")]
    said += [("forewarn", "webhook", "d"), ("forewarn", "whatif", "lose", "--each", "n")]
    said += [("forewarn", "whatif", "lose", "''"), ("forewarn", "whatif", "lose", "--ea")]
    said += [("forewarn", "why", "-o", "j"), ("forewarn", "why", "--kubernetes-version", "''")]
    said += [("forewarn", "completion", "z"), ("forewarn", "explain", "default-not"), ("forewarn", "classes", "s")]
    lines = ["source ./c"]
    for words in said:
        lines += [f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _forewarn; echo ${{COMPREPLY[@]}}"]
    shell = shutil.which("bash") or pytest.skip("no bash")
    done = subprocess.run(
        [shell, "-c", "\n".join(lines)], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=500
    )
    commands, option, value, second, each, lost, every, form, versions, *others = done.stdout.splitlines()
    assert commands.split() == [name for name in COMMANDS if name.startswith("s")]
    assert (option, value, second, each) == ("--fail-on", "warning", "doctor", "node")
    assert (lost, every, form) == ("node zone pool", "--each", "json")
    assert versions.split() == [f"1.{minor}" for minor in PREDICTED_MINORS]
    assert others == ["zsh", "default-not-retroactive", "suggest"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_scripts_ask_for_words(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    assert "forewarn completion --words" in text
    found = shutil.which(shell)
    if found:
        (tmp_path / "c").write_text(text)
        subprocess.run([found, "-n", str(tmp_path / "c")], check=True, timeout=500)


def test_choices_do_not_depend_on_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    narrow = [choices(words, COMMANDS) for words in (["whatif", "lose", "--"], ["lint", "--fail-on", ""])]
    monkeypatch.setenv("COLUMNS", "120")
    assert [choices(words, COMMANDS) for words in (["whatif", "lose", "--"], ["lint", "--fail-on", ""])] == narrow
    assert "--fail-on" in narrow[0]


def test_help_takes_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["help", "lint"])
    assert capsys.readouterr().out.startswith("usage: forewarn lint")


def test_a_misspelt_command_is_recognised(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lnt"]) == 2
    assert 'did you mean "lint"?' in capsys.readouterr().err
    assert main(["drain", "node-1"]) == 2
    assert 'did you mean "whatif drain"?' in capsys.readouterr().err
    assert main(["classes", "paln", "-f", "x"]) == 2
    assert 'unknown command "classes paln"; did you mean "classes plan"?' in capsys.readouterr().err
    assert main(["x" * 10_000]) == 2
    assert len(capsys.readouterr().err) < 200


def test_a_class_that_was_not_looked_up_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(4):
        (tmp_path / f"{number}.yaml").write_text(POD.format(number, "gold" if number else "silver"))
    assert main(["lint", "-v", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.count("[priority-class-not-checked]") == 2
    assert "(and 2 more objects with it)" in out
