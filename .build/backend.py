"""The build backend (PEP 517): setuptools, and for wheels a tree in which everything is inside one package.

The sources are the packages `policies` and `webhook`. Installed under these names they would share files with whatever
else has such names, and a folder `policies/` where somebody works would be taken for ours. So a wheel has them as
`forewarn.policies` and `forewarn.webhook`: its modules are those of the sources, line by line, with the names in their
import statements written in full (docs/internals/decisions/0010-one-package.md). An editable install has the sources as
they are, and a small package `forewarn` by which they have these names too.
"""

from __future__ import annotations

import ast
import base64
import gzip
import hashlib
import io
import os
import re
import shutil
import tarfile
import tempfile
import zipfile
from configparser import ConfigParser
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from setuptools import build_meta
from setuptools.build_meta import (
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
]

PACKAGE: Final = "forewarn"
INSIDE: Final = ("policies", "webhook")
"""The packages of the sources that are inside the package of a wheel."""
_OWN: Final = Path(__file__).resolve().parent / PACKAGE
"""The package itself, as an editable install has it."""
_BESIDE: Final = ("LICENSE", "pyproject.toml", "setup.cfg")
_INIT: Final = '"""Predict which Pods Kubernetes will preempt, before you apply."""\n'
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


class CannotBuild(Exception):
    """A source that cannot be moved into the package."""


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,  # noqa: ARG001 -- PEP 517's
) -> str:
    """Build the wheel of the tree in the working directory into `wheel_directory`; returns its file name."""
    target = os.path.abspath(wheel_directory)
    with tempfile.TemporaryDirectory(prefix="forewarn-wheel-") as scratch, _plain_modes():
        stage(Path(), Path(scratch))
        for path in Path(scratch).rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        with chdir(scratch):
            return build_meta.build_wheel(target, config_settings)


def build_sdist(sdist_directory: str, config_settings: Mapping[str, Any] | None = None) -> str:
    """Build the sdist; returns its file name. Of one tree it has the same bytes everywhere, given SOURCE_DATE_EPOCH."""
    name: str = build_meta.build_sdist(sdist_directory, config_settings)
    path, epoch = Path(sdist_directory, name), os.environ.get("SOURCE_DATE_EPOCH")
    with tarfile.open(path) as made:
        members = {member.name: (member, made.extractfile(member)) for member in made.getmembers()}
        files = {name: (member, file.read() if file else None) for name, (member, file) in members.items()}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member, data in (files[name] for name in sorted(files)):
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.mtime = int(epoch) if epoch else int(member.mtime)
            member.pax_headers = {}
            tar.addfile(member, io.BytesIO(data) if data is not None else None)
    with open(path, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=int(epoch or 0)) as zipped:
        zipped.write(packed.getvalue())
    return name


@contextmanager
def _plain_modes() -> Iterator[None]:
    """What is written meanwhile may be read by all and written by its owner, whatever the umask here."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def build_editable(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the wheel of an editable install, with the package `forewarn` in it; returns its file name."""
    name: str = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    path = Path(wheel_directory, name)
    files = {f"{PACKAGE}/{file.name}": file.read_bytes() for file in sorted(_OWN.glob("*.py"))}
    with zipfile.ZipFile(path) as made:
        files = {entry: made.read(entry) for entry in made.namelist()} | files
    (record,) = (entry for entry in files if entry.endswith(".dist-info/RECORD"))
    lines = [f"{entry},{_digest(data)},{len(data)}" for entry, data in files.items() if entry != record]
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for entry, data in files.items():
            made.writestr(entry, data)
    return name


def _digest(data: bytes) -> str:
    """As RECORD has it. Source: packaging.python.org, Binary distribution format."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def stage(sources: Path, tree: Path) -> None:
    """Write to `tree` what a wheel is made of. Raises CannotBuild."""
    for name in _BESIDE:
        shutil.copyfile(sources / name, tree / name)
    config = ConfigParser()
    config.read(tree / "setup.cfg")
    config["options.packages.find"]["include"] = f"\n{PACKAGE}\n{PACKAGE}.*"
    with open(tree / "setup.cfg", "w") as file:
        config.write(file)
    readme = sources / "README.md"
    if readme.exists():  # an image is built without it too
        (tree / "README.md").write_text(for_index(readme.read_text()))
    package = tree / PACKAGE
    _copy(_OWN, package)
    (package / "__init__.py").write_text(_INIT)
    for name in INSIDE:
        _copy(sources / name, package / name)


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    for module in target.rglob("*.py"):
        module.write_bytes(inside_package(module.read_bytes(), str(source / module.relative_to(target))))


def inside_package(source: bytes, file: str) -> bytes:
    """A module of the sources with `forewarn.` before the names of our packages in its imports; no line moves.

    Raises CannotBuild: `import policies.x`, which binds a name that would be another package's.
    """
    lines = source.splitlines(keepends=True)
    for line, column in sorted(_imports(source, file), reverse=True):
        text = lines[line - 1]
        lines[line - 1] = text[:column] + PACKAGE.encode() + b"." + text[column:]
    return b"".join(lines)


def _imports(source: bytes, file: str) -> Iterator[tuple[int, int]]:
    """Line (from 1) and column (from 0, in bytes) of each name of our packages in an import statement."""
    for node in ast.walk(ast.parse(source, file)):
        if isinstance(node, ast.ImportFrom) and not node.level and _is_ours(node.module or ""):
            yield node.lineno, node.col_offset + len("from ")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _is_ours(alias.name) and alias.asname is None:
                    would = f"write `from {alias.name} import …`"
                    raise CannotBuild(f"{file}:{alias.lineno}: import {alias.name} cannot be moved; {would}")
                if _is_ours(alias.name):
                    yield alias.lineno, alias.col_offset


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in INSIDE


def for_index(readme: str) -> str:
    """The README for readers who have no repository: files and pictures of it are not linked."""

    def link(match: re.Match[str]) -> str:
        target = match[3]
        return match[0] if ":" in target or target.startswith("#") else match[2]

    return _LINK.sub(link, readme)
