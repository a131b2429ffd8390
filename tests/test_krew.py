"""The krew manifest: what krew asks of one, and what `make standalone` fills in.

Source: krew's documentation of plugin manifests, and what it refuses (internal/index/validation, v0.4).
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from forewarn.policies import VERSION

SHIPPED = Path("manifests/krew/forewarn.yaml")
TEXT = {"type": "string", "minLength": 1}
LABELS = {"type": "object", "minProperties": 1, "additionalProperties": False}
PLATFORM = {
    "type": "object",
    "additionalProperties": False,
    "required": ["uri", "sha256", "bin", "selector"],
    "properties": {
        "uri": {"type": "string", "pattern": r"^https://.+\.(tar\.gz|zip)$"},
        "sha256": {"type": "string", "pattern": "^[a-f0-9]{64}$"},
        "bin": TEXT,
        "selector": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": False,
            "properties": {
                "matchLabels": {**LABELS, "properties": {"os": TEXT, "arch": TEXT}},
                "matchExpressions": {"type": "array", "minItems": 1},
            },
        },
        "files": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["from", "to"],
                "properties": {"from": TEXT, "to": TEXT},
            },
        },
    },
}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "krew.googlecontainertools.github.com/v1alpha2"},
        "kind": {"const": "Plugin"},
        "metadata": {"type": "object", "required": ["name"], "properties": {"name": {"pattern": r"^[\w-]+$"}}},
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "required": ["version", "shortDescription", "platforms"],
            "properties": {
                "version": {"type": "string", "pattern": r"^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$"},
                "shortDescription": {"type": "string", "pattern": r"^[^\r\n]+$", "maxLength": 50},
                "description": TEXT,
                "caveats": TEXT,
                "homepage": {"type": "string", "pattern": "^https://"},
                "platforms": {"type": "array", "minItems": 1, "items": PLATFORM},
            },
        },
    },
}


def checked(path: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = yaml.safe_load(path.read_text())
    Draft202012Validator(SCHEMA).validate(manifest)
    assert manifest["metadata"]["name"] == path.stem, "krew goes by the file's name"
    return manifest


def test_the_shipped_manifest_is_one_that_krew_takes() -> None:
    checked(SHIPPED)


@pytest.mark.parametrize("missing", ["sha256", "bin", "selector", "uri"])
def test_the_schema_refuses_what_krew_refuses(missing: str) -> None:
    manifest = checked(SHIPPED)
    del manifest["spec"]["platforms"][0][missing]
    assert not Draft202012Validator(SCHEMA).is_valid(manifest)


def test_the_build_fills_in_the_archive_that_it_makes(tmp_path: Path) -> None:
    (tmp_path / "forewarn.pyz").write_bytes(b"#!/usr/bin/env python3\n")
    run = [sys.executable, ".build/krew.py", str(tmp_path / "forewarn.pyz"), str(tmp_path / "krew")]
    subprocess.run(run, check=True, timeout=500)
    manifest = checked(tmp_path / "krew/forewarn.yaml")
    assert manifest["spec"]["version"] == f"v{VERSION}"
    (platform,) = manifest["spec"]["platforms"]
    archive = tmp_path / "krew" / platform["uri"].rpartition("/")[2]
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == platform["sha256"]
    labels = platform["selector"]["matchLabels"]
    assert re.search(rf"-{labels['os']}-{labels['arch']}\.tar\.gz$", platform["uri"])
    with tarfile.open(archive) as tar:
        assert {entry["from"] for entry in platform["files"]} == {*tar.getnames()}
        assert tar.getmember(platform["bin"]).mode == 0o755
    first = archive.read_bytes()
    subprocess.run(run, check=True, timeout=500)
    assert archive.read_bytes() == first, "the same file, the same sum"
