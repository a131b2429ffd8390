"""The image's steps, without a network and without an engine: those of the Dockerfile, in a directory of their own."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_image import FINAL, FIRST, ROOT, instructions

pytestmark = [pytest.mark.e2e, pytest.mark.whole]

WHEELHOUSE = ROOT / ".cache/wheelhouse"
UNREACHABLE_PROXY = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def wheelhouse() -> Path:
    """What `make wheelhouse` fetches; forewarn's own wheel in it may be of an earlier day."""
    if not list(WHEELHOUSE.glob("forewarn-*.whl")):
        subprocess.run([sys.executable, ".build/lock.py", "wheelhouse", str(WHEELHOUSE)], cwd=ROOT, check=True)
    return WHEELHOUSE


def offline(**more: str) -> dict[str, str]:
    """An environment in which pip knows of no index, and nobody can be asked."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "COVERAGE"))}
    return (
        kept
        | {"PIP_CONFIG_FILE": "/dev/null", "HTTPS_PROXY": UNREACHABLE_PROXY, "HTTP_PROXY": UNREACHABLE_PROXY}
        | more
    )


def image_python() -> str:
    """The minor of the image's Python, as `3.13`."""
    base: str = FINAL["FROM"][0]
    return ".".join(base.partition(":")[2].split(".")[:2])


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_wheelhouse_has_all_that_is_installed_on_each_machine(
    wheelhouse: Path, tmp_path: Path, machine: str
) -> None:
    """With the hashes of requirements-image.txt, and by the image's Python, whatever this one is."""
    asked = [sys.executable, str(ROOT / ".build/lock.py"), "platform", machine]
    chosen = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--find-links", str(wheelhouse), "--no-deps"]
    target = ["--target", str(tmp_path), "--no-compile", *chosen]
    locked = ["--require-hashes", "-r", str(ROOT / "requirements-image.txt")]
    done = subprocess.run([*pip, *target, *locked], env=offline(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    libraries = [path.name for path in (tmp_path / "numpy/_core").glob("_multiarray_umath*.so")]
    assert len(libraries) == 1
    assert machine in libraries[0]


def found_python() -> str | None:
    """An interpreter of the image's minor on this machine."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{image_python()}"), *versions.glob(f"{image_python()}.*/bin/python")]
    for candidate in filter(None, map(str, filter(None, candidates))):
        asked = subprocess.run([candidate, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True)
        if asked.stdout.decode().split() == image_python().split("."):
            return candidate
    return None


@pytest.mark.skipif(found_python() is None, reason="there is no Python of the image's minor on this machine")
def test_its_steps_make_a_forewarn_that_runs(wheelhouse: Path, tmp_path: Path) -> None:
    source, programs = tmp_path / "src", tmp_path / "bin"
    source.mkdir()
    programs.mkdir()
    (programs / "python").symlink_to(str(found_python()))
    for name, copied in FIRST["COPY"]:
        where = tmp_path / copied.strip("/")
        if copied.endswith("/"):
            where = where / Path(name).name
        where.symlink_to(ROOT / name)
    environment = offline(PATH=f"{programs}:{os.environ['PATH']}", HOME=str(tmp_path))
    for step in FIRST["RUN"]:
        here = step.replace("/opt/", f"{tmp_path}/opt/").replace("/src/", f"{source}/")
        done = subprocess.run(["sh", "-euc", here], env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{step}\n{done.stdout}{done.stderr}"
    path = f"{tmp_path}/opt/forewarn/bin"
    entry = shlex.split(FINAL["ENTRYPOINT"][0].strip("[]").replace(",", " "))
    (tmp_path / "work").mkdir()
    environment |= {"PATH": f"{path}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    before = sorted((tmp_path / "opt").rglob("*"))
    done = subprocess.run([*entry, "demo"], env=environment, cwd=tmp_path / "work", capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "1 error: 1 file, 1 object checked\n")
    assert sorted((tmp_path / "opt").rglob("*")) == before, "nothing is written: the root may be read-only"
    assert not list((tmp_path / "opt").glob("forewarn/lib/python*/site-packages/pip"))


def test_each_instruction_is_looked_at() -> None:
    assert {name for name, _ in instructions()} <= {"FROM", "COPY", "RUN", "ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}
