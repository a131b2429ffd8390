"""The helm of `kustomize build --helm-command`: runs the real helm on copies of the chart and its values files.

Kustomize puts values of a kustomization into helm's arguments, and directories of the tree into helm's environment.
Here, no value becomes an option, helm finds no plugins and needs no network. Source: kustomize
api/types/helmchartargs.go, AsHelmArgs.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
from typing import TYPE_CHECKING, Final

import forewarn
from forewarn.policies.commands.render_files import Outside, Stage, Trees

if TYPE_CHECKING:
    from collections.abc import Sequence

_FILES: Final = ("-f", "--values")
_TEXTS: Final = ("--namespace", "--name-template", "--api-versions", "--kube-version")
_ENVIRONMENT: Final = re.compile(r"\{\{.*\b(?:env|expandenv|getHostByName)\b", re.DOTALL)
"""Functions of name templates, but not of charts, that read variables and ask DNS servers."""
_SWITCHES: Final = ("--generate-name", "--include-crds", "--skip-tests", "--no-hooks", "--debug", "--devel")
_DIRECTORIES: Final = ("HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME")
_START: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from forewarn.policies.commands.helm_gate import main; main()"
)


def write_gate(path: str, helm: str, trees: Trees) -> None:
    """Write the program that kustomize runs as helm. `helm`: the path of the real one."""
    packages = os.path.dirname(os.path.dirname(os.path.abspath(str(forewarn.__file__))))
    command = shlex.join((sys.executable, "-I", "-S", "-c", _START, packages, helm, json.dumps(trees.roots)))
    with open(path, "x", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {command} "$@"\n')
    os.chmod(path, 0o700)


def main() -> None:
    """Replace this process by helm."""
    helm, roots, *arguments = sys.argv[1:]
    trees = Trees(tuple(json.loads(roots)))
    environment = {name: value for name, value in os.environ.items() if name not in _DIRECTORIES}
    try:
        os.execve(helm, (helm, *allowed(arguments, trees, tempfile.mkdtemp())), environment)
    except (Outside, OSError) as fault:
        sys.exit(f"forewarn: {fault}")


def allowed(arguments: Sequence[str], trees: Trees, directory: str) -> list[str]:
    """Return the arguments for helm, which name copies in a directory. Raises Outside, OSError."""
    if arguments[:1] == ["version"]:
        return ["version", "--short"]
    if arguments[:1] != ["template"]:
        raise Outside(f"helm {' '.join(arguments[:1])} is not allowed: download the chart to the chartHome first")
    written = Trees((*trees.roots, os.path.realpath(tempfile.gettempdir())))
    values, rest = Stage(written, directory), iter(arguments[1:])
    names, options = list[str](), list[str]()
    for argument in rest:
        if argument in _SWITCHES:
            options.append(argument)
        elif argument in (*_FILES, *_TEXTS):
            value = next(rest, "")
            refuse_option(value)
            if argument == "--name-template" and _ENVIRONMENT.search(value):
                raise Outside(f"nameTemplate must not use env, expandenv or getHostByName: {value[:100]}")
            options.append(f"{argument}={value}" if argument in _TEXTS else f"--values={values.values(value)}")
        else:
            refuse_option(argument)
            names.append(argument)
    if not names:
        raise Outside("helm template without a chart")
    *release, chart = names
    return ["template", *release, Stage(trees, directory).chart(chart), *options]


def refuse_option(value: str) -> None:
    """Raise Outside for a value that helm would take for an option."""
    if value.startswith("-"):
        raise Outside(f'"{value[:100]}" would become an option of helm')
