"""Everything that is published of a version: `release.py DIRECTORY`, run by `make release`.

Wheel, sdist, chart and single file, of what git knows; checksums; a bill of materials (CycloneDX); and provenance, an
in-toto statement that says of what and how they were made. It is not signed: who publishes signs it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from configparser import ConfigParser
from pathlib import Path
from typing import Any, Final

import standalone

ROOT: Final = Path(__file__).resolve().parent.parent
LOCK: Final = "requirements-image.txt"
BUILD: Final = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"
_CREATED: Final = "urn:forewarn:make-release"


def output_of(*command: str, cwd: Path = ROOT, **environment: str) -> str:
    """What a command prints. Raises CalledProcessError; what it complains of is seen."""
    given = os.environ | environment
    return subprocess.run(command, cwd=cwd, env=given, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def print_notice(what: str) -> None:
    """A line for who waits."""
    print(f"release: {what}", file=sys.stderr, flush=True)  # noqa: T201


def epoch() -> int:
    """When it was made: SOURCE_DATE_EPOCH, else the time of the commit."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or output_of("git", "log", "-1", "--format=%ct"))


def packages(tree: Path, target: Path, when: int) -> list[Path]:
    """Build the wheel and the sdist of a copy of the sources; modes and times do not depend on the machine."""
    for path in tree.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    environment = {"SOURCE_DATE_EPOCH": str(when)}
    before = os.umask(0o022)
    try:
        names = [
            output_of(sys.executable, "-c", BUILD, which, str(target), cwd=tree, **environment).splitlines()[-1]
            for which in ("build_wheel", "build_sdist")
        ]
    finally:
        os.umask(before)
    wheel, sdist = (target / name for name in names)
    _normalize(sdist, when)
    return [wheel, sdist]


def _normalize(sdist: Path, when: int) -> None:
    """Sort the members of an sdist, and set their owners, modes and times."""
    with tarfile.open(sdist) as made:
        members = {member.name: (member, made.extractfile(member)) for member in made.getmembers()}
        files = {name: (member, file.read() if file else None) for name, (member, file) in members.items()}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member, data in (files[name] for name in sorted(files)):
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.mtime = when
            member.pax_headers = {}
            tar.addfile(member, io.BytesIO(data) if data is not None else None)
    with open(sdist, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=when) as zipped:
        zipped.write(packed.getvalue())


def chart(tree: Path, target: Path, version: str, when: int) -> Path:
    """The chart as `helm package` has it: a directory of its name."""
    path, source = target / f"forewarn-chart-{version}.tgz", tree / "manifests/chart"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in sorted(source.rglob("*")):
            name = file.relative_to(source)
            if file.is_file() and name.parts[0] != "ci":
                member = tarfile.TarInfo(f"forewarn/{name}")
                member.size, member.mode, member.mtime = file.stat().st_size, 0o644, when
                tar.addfile(member, io.BytesIO(file.read_bytes()))
    with open(path, "wb") as written, gzip.GzipFile("", "wb", fileobj=written, mtime=when) as zipped:
        zipped.write(packed.getvalue())
    return path


def single_file(wheel: Path, target: Path, version: str) -> Path:
    """The linter and the commands for live clusters as one file, for this Python on this kind of machine."""
    path = target / f"forewarn-{version}-{standalone.needed()}.pyz"
    with tempfile.TemporaryDirectory() as scratch:
        install = [sys.executable, str(ROOT / ".build/installing.py"), "--target", scratch]
        subprocess.run([*install, "-c", str(ROOT / "constraints.txt"), f"{wheel}[live]"], check=True)
        standalone.build(Path(scratch), path)
    return path


def materials(target: Path, version: str) -> Path:
    """The bill of materials: forewarn, and what an image has beside it with the hashes of its files."""
    path = target / f"forewarn-{version}.cdx.json"
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "--output-reproducible", "--output-format", "JSON"]
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch, "pyproject.toml")  # setup.cfg is not read
        project.write_text(f'[project]\nname = "forewarn"\nversion = "{version}"\nlicense = "Apache-2.0"\n')
        made = json.loads(output_of(*command, "--pyproject", str(project), LOCK))
    path.write_text(json.dumps(made, indent=2, sort_keys=True) + "\n")
    return path


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def provenance(made: list[Path], commit: str) -> dict[str, Any]:
    """The statement. Source: in-toto.io/Statement/v1 and slsa.dev/provenance/v1."""
    python = platform.python_version()
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": digest(path)}} for path in made],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:forewarn:make-release:v1",
                "externalParameters": {"target": "release", "commit": commit},
                "internalParameters": {"python": python, "platform": platform.machine()},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    {"name": LOCK, "digest": {"sha256": digest(ROOT / LOCK)}},
                    {"name": "constraints.txt", "digest": {"sha256": digest(ROOT / "constraints.txt")}},
                ],
            },
            "runDetails": {"builder": {"id": _CREATED}},
        },
    }


def main(target: Path) -> None:
    """Make all of it anew."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    version, when = setup["metadata"]["version"], epoch()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch, "tree")
        for name in filter(None, output_of("git", "ls-files", "-z").split("\0")):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name, follow_symlinks=False)
        print_notice("wheel, sdist and chart")
        wheel, sdist = packages(tree, target, when)
        made = [wheel, sdist, chart(tree, target, version, when)]
        print_notice("the single file, with its libraries: a minute or two")
        made.append(single_file(wheel, target, version))
    print_notice("bill of materials and provenance")
    made.append(materials(target, version))
    statement = target / f"forewarn-{version}.intoto.json"
    statement.write_text(json.dumps(provenance(made, output_of("git", "rev-parse", "HEAD")), indent=2) + "\n")
    lines = [f"{digest(path)}  {path.name}\n" for path in sorted([*made, statement])]
    (target / "SHA256SUMS").write_text("".join(lines))
    print("".join(lines), end="")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
