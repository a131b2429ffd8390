"""The Dockerfile, read: what it starts from, what it fetches, as whom it runs. Its steps: tests/e2e/test_image.py."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatch
from importlib.metadata import requires, version
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.test_packaging import RUNTIME, SETUP, pins

ROOT = Path(__file__).resolve().parents[1]


def instructions() -> list[tuple[str, str]]:
    """Name and arguments of each instruction of the Dockerfile; lines that go on are one."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    lines = (line.partition(" ") for line in text.splitlines() if line)
    return [(name, rest.strip()) for name, _, rest in lines]


def stage(which: int) -> dict[str, Any]:
    """A stage: instruction -> its arguments, in order; those of COPY as (source, destination)."""
    number, found = -1, dict[str, Any]()
    for name, rest in instructions():
        number += name == "FROM"
        if number == which:
            found.setdefault(name, []).append(tuple(rest.split()) if name == "COPY" else rest)
    return found


FIRST, FINAL = stage(0), stage(1)
LOCK = "requirements-image.txt"


def deployment() -> Any:
    (found,) = yaml.safe_load_all((ROOT / "manifests/base/deployment.yaml").read_text())
    return found["spec"]["template"]["spec"]


def locked() -> dict[str, tuple[str, list[str]]]:
    """Name -> version and hashes of its files."""
    found = dict[str, tuple[str, list[str]]]()
    for entry in (ROOT / LOCK).read_text().replace("\\\n", " ").splitlines():
        if not entry.startswith("#"):
            pin, *hashes = entry.split()
            name, _, version = pin.partition("==")
            found[canonicalize_name(name)] = (version, hashes)
    return found


def test_both_stages_start_from_one_base_by_its_digest() -> None:
    bases = [base.removesuffix(" AS build") for base in (*FIRST["FROM"], *FINAL["FROM"])]
    assert len({*bases}) == 1
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", bases[0])
    python = re.findall(r"Python :: (3\.\d+)", SETUP["metadata"]["classifiers"])
    assert bases[0].partition(":")[2].rpartition(".")[0] in python


def test_no_step_asks_a_network() -> None:
    assert "RUN" not in FINAL
    for step in FIRST["RUN"]:
        assert not re.search(r"\b(apt-get|apt|curl|wget|git|ADD)\b", step), step
        if "pip install" in step:
            assert {"--no-index", "--no-deps"} <= {*step.split()}, step
    hashed = [step for step in FIRST["RUN"] if "--require-hashes" in step]
    assert len(hashed) == 1
    assert hashed[0].endswith(LOCK)


def test_what_is_copied_is_let_through_to_the_engine() -> None:
    ignored, *rest = (ROOT / ".dockerignore").read_text().split()
    assert ignored == "*"
    for source, _ in FIRST["COPY"]:
        assert any(fnmatch(source, line.removeprefix("!")) for line in rest), source
    assert [copied[0] for copied in FINAL["COPY"]] == ["--from=build"]


def test_it_runs_as_the_manifests_let_it() -> None:
    pod = deployment()
    (container,) = pod["containers"]
    security = pod["securityContext"]
    assert FINAL["USER"] == [f"{security['runAsUser']}:{security['runAsGroup']}"]
    assert security["runAsUser"] != 0
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert FINAL["EXPOSE"] == [" ".join(str(port["containerPort"]) for port in container["ports"])]
    assert (json.loads(FINAL["ENTRYPOINT"][0]), json.loads(FINAL["CMD"][0])) == (["forewarn"], container["args"])
    assert "PYTHONDONTWRITEBYTECODE=1" in FINAL["ENV"][0]


def test_the_versions_are_those_of_the_constraints_each_with_its_hashes() -> None:
    pinned = pins("constraints.txt")
    for name, (locked_at, hashes) in locked().items():
        assert locked_at == str(pinned[name]), name
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", digest) for digest in hashes)


def test_nothing_that_forewarn_needs_is_missing() -> None:
    """And what these need, by their metadata as they are installed here."""
    have, waiting = locked(), [*RUNTIME]
    others = [wanted.name for wanted in RUNTIME if version(wanted.name) != have[canonicalize_name(wanted.name)][0]]
    if others:
        pytest.skip(f"other versions than the image's are installed: {', '.join(others)}")
    needed: set[str] = set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name in needed:
            continue
        needed.add(name)
        assert name in have, name
        for line in requires(wanted.name) or ():
            requirement = Requirement(line)
            extras = wanted.extras or {""}
            if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(requirement)
    assert needed == have.keys(), "and nothing else is in the image"
