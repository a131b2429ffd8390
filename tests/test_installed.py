"""forewarn as pip installs it: a wheel, beside other distributions that have packages `policies` and `webhook`."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections import Counter
from email import message_from_bytes
from pathlib import Path

import pytest

CHECKOUT = Path.cwd()
SAMPLE = CHECKOUT / "webhook/sample"
BUILD = "import release, sys; release.packages(release.Path(), release.Path(sys.argv[1]), int(sys.argv[2]))"
EPOCH = 1_790_000_000
LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", ".git", ".venv", ".cache", ".hypothesis", "*_cache", "*.egg-info", "dist", "build"
)
PLUGINS = re.findall(r"```python\n(.*?)```", Path("docs/reference/scheduler-profiles.md").read_text(), re.DOTALL)[0]
PROFILE = re.findall(r"```yaml\n(.*?)```", Path("docs/reference/scheduler-profiles.md").read_text(), re.DOTALL)[0]


def made_wheel(directory: Path, name: str, files: dict[str, str]) -> Path:
    """A wheel of a few files, as small as the format has them."""
    info = f"{name}-0.4.2.dist-info"
    files = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.4.2\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={digest(text)},{len(text.encode())}\n" for path, text in files.items())
    wheel = directory / f"{name}-0.4.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in (files | {f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}).items():
            archive.writestr(path, text)
    return wheel


def digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


COLLIDING = {
    f"{package}/{module}.py": f"raise AttributeError('the other {package}')\n"
    for package in ("policies", "webhook")
    for module in ("__init__", "cli", "findings", "__main__")
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build(tmp_path_factory.mktemp("packages"), 0o022, EPOCH - 86_400)


@pytest.fixture(scope="module")
def wheel(packages: dict[str, Path]) -> Path:
    return packages["whl"]


def build(where: Path, umask: int, when: int) -> dict[str, Path]:
    """ "whl" and "gz" (sdist) of a copy of the checkout whose files are of another day and other modes."""
    tree, target = where / "tree", where / "dist"
    target.mkdir()
    shutil.copytree(CHECKOUT, tree, symlinks=True, ignore=LEFT_OUT, copy_function=shutil.copyfile)
    for path in (path for path in tree.rglob("*") if path.is_file()):
        os.utime(path, (when, when))
        path.chmod(0o666 & ~umask | (0o111 & ~umask if os.access(CHECKOUT / path.relative_to(tree), os.X_OK) else 0))
    environment = os.environ | {"PYTHONPATH": str(tree / ".build")}
    command = [sys.executable, "-c", BUILD, str(target), str(EPOCH)]
    done = subprocess.run(command, cwd=tree, env=environment, umask=umask, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return {path.suffix[1:]: path for path in target.iterdir()}


class Environment:
    """A virtual environment that sees the libraries of this one, and nothing of the checkout."""

    def __init__(self, where: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(where)], check=True, timeout=500)
        self.bin = where / "bin"
        (self.packages,) = where.glob("lib/python3*/site-packages")
        # A line of a .pth file adds a directory, whose own .pth files (the editable install) are not looked at.
        (self.packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def install(self, *wheels: Path, compiled: bool = True) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install", "--quiet", "--no-index"]
        pip += ["--no-deps"] if compiled else ["--no-deps", "--no-compile"]
        done = subprocess.run([*pip, *map(str, wheels)], capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr

    def run(self, *command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        outside = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COVERAGE", "COV_"))}
        program = [str(self.bin / command[0]), *command[1:]]
        return subprocess.run(program, cwd=cwd, env=outside | variables, capture_output=True, text=True, timeout=500)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """forewarn first, then a wheel that owns `policies/` and `webhook/`: whoever comes last overwrites."""
    environment = Environment(tmp_path_factory.mktemp("environment"))
    scratch = tmp_path_factory.mktemp("other")
    plugins = {
        "company_plugins.py": PLUGINS,
        "company-0.4.2.dist-info/entry_points.txt": "[forewarn.scheduler_plugins]\n"
        "reserved-pool = company_plugins:ReservedPool\nstart-together = company_plugins:StartTogether\n",
    }
    environment.install(wheel)
    environment.install(made_wheel(scratch, "policies", COLLIDING), made_wheel(scratch, "company", plugins))
    return environment


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A directory somebody works in that has packages of these names."""
    for path, text in COLLIDING.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_a_wheel_says_what_it_is(wheel: Path) -> None:
    said = message_from_bytes(zipfile.ZipFile(wheel).read("forewarn-0.1.0.dist-info/METADATA"))
    assert (said["License-Expression"], said["License-File"]) == ("Apache-2.0", "LICENSE")
    assert said["Author"] == "The forewarn maintainers"
    assert "preemption" in said["Keywords"]
    assert not any(line.startswith("License ::") for line in said.get_all("Classifier", [])), "the expression says it"


def test_wheel_and_sdist_are_the_same_bytes_whoever_builds_them_when(packages: dict[str, Path], tmp_path: Path) -> None:
    again = build(tmp_path, 0o077, EPOCH + 86_400)
    assert packages.keys() == again.keys() == {"whl", "gz"}
    for kind, path in packages.items():
        assert again[kind].name == path.name
        assert again[kind].read_bytes() == path.read_bytes()


def test_an_sdist_has_every_file_of_the_repository_once(packages: dict[str, Path]) -> None:
    """So its tests find the files that they read. `make` links policies and webhook to their place below src."""
    if Path(".git").exists():
        list_files = ["git", "ls-files", "-z"]
        listed = subprocess.run(list_files, capture_output=True, text=True, check=True, timeout=500).stdout
        files = {name for name in listed.split("\0") if name and Path(name).is_file()}
    else:
        omitted = re.compile(
            r"(^|/)(__pycache__|\.venv|\.cache|[^/]*_cache|\.hypothesis|[^/]*\.egg-info|PKG-INFO)(/|$)"
        )
        files = {str(path) for path in Path().rglob("*") if path.is_file() and not omitted.search(str(path))}
    with tarfile.open(packages["gz"]) as sdist:
        packed = [name.partition("/")[2].removeprefix("src/forewarn/") for name in sdist.getnames()]
    files = {name.removeprefix("src/forewarn/") for name in files}
    assert files <= set(packed), sorted(files - set(packed))
    assert len(packed) == len(set(packed)), sorted(Counter(packed) - Counter(set(packed)))


LINT = ("lint", "--cluster", str(SAMPLE / "cluster.yaml"), str(SAMPLE / "manifests/search.yaml"))


def test_a_wheel_has_one_package_and_no_file_of_another_distribution(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"forewarn", "forewarn-0.1.0.dist-info"}
    assert {"forewarn/py.typed", "forewarn/webhook/sample/cluster.yaml"} <= set(names)


def test_a_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    sources = {
        path
        for package in ("policies", "webhook")
        for path in Path(package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for path in sources:
        assert archive.read(f"forewarn/{path}") == path.read_bytes(), path


@pytest.mark.parametrize("start", [("forewarn",), ("python", "-m", "forewarn"), ("python", "-P", "-m", "forewarn")])
def test_the_linter_works_beside_others_packages_of_the_same_names(
    installed: Environment, elsewhere: Path, start: tuple[str, ...]
) -> None:
    done = installed.run(*start, *LINT, cwd=elsewhere)
    assert 'PriorityClass "wbe" not found' in done.stdout, done.stderr
    assert done.returncode == 1
    other = installed.run("python", "-P", "-c", "import policies", cwd=elsewhere)
    assert "the other policies" in other.stderr, "the other distribution's package is as it was installed"


def test_the_webhook_works_beside_others_packages_of_the_same_names(installed: Environment, elsewhere: Path) -> None:
    """`forewarn demo` starts the webhook in another process, sends it manifests, lints and predicts."""
    done = installed.run("forewarn", "demo", cwd=elsewhere)
    summary, head = done.stderr.splitlines()
    assert (done.returncode, summary) == (0, "1 error: 1 file, 1 object checked")
    assert head.startswith("Input: ")
    assert "would preempt 1 Pod of another namespace" in done.stdout


def test_neither_of_two_distributions_overwrites_the_other(installed: Environment, wheel: Path, tmp_path: Path) -> None:
    """Whichever of them is installed first: forewarn in the environment of all tests, the other one in another."""
    wheels = [made_wheel(tmp_path, "policies", COLLIDING), wheel]
    forewarn_last = Environment(tmp_path / "environment")
    for one in wheels:
        forewarn_last.install(one, compiled=False)
    for archive in map(zipfile.ZipFile, wheels):
        for name in archive.namelist():
            for environment in (installed, forewarn_last) if name.endswith(".py") else ():
                assert (environment.packages / name).read_bytes() == archive.read(name), name


def test_every_module_of_a_wheel_can_be_imported_and_comes_from_it(installed: Environment, tmp_path: Path) -> None:
    everything = """
import importlib, json, pkgutil, sys, forewarn
for found in pkgutil.walk_packages(forewarn.__path__, "forewarn."):
    importlib.import_module(found.name)
ours = [m for n, m in sys.modules.items() if n.split(".")[0] in ("forewarn", "policies", "webhook") and m.__file__]
from forewarn.webhook.admission.prediction_access import _cached_properties
print(json.dumps([[m.__name__, m.__file__, m.__cached__] for m in ours] + [len(list(_cached_properties()))]))
"""
    done = installed.run("python", "-c", everything, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *modules, properties = json.loads(done.stdout)
    assert len(modules) > 400
    for name, file, cached in modules:
        assert Path(file).is_relative_to(installed.packages / "forewarn"), name
        assert Path(cached).exists(), f"{name}: pip has compiled it"
    assert properties > 5, "a forked process finds what it must unlock"


def test_completion_knows_the_options_of_every_command(installed: Environment, tmp_path: Path) -> None:
    """It asks each command for its help: as many as in a checkout."""
    words = ["completion", "--words", "whatif", "lose", "--"]
    found = installed.run("forewarn", *words, cwd=tmp_path).stdout
    here = [sys.executable, "-m", "forewarn", *words]
    assert found == subprocess.run(here, capture_output=True, text=True, check=True, timeout=500).stdout
    assert "--fail-on" in found


def test_the_source_live_is_found(installed: Environment, tmp_path: Path) -> None:
    done = installed.run("forewarn", "audit", "--cluster", "live", cwd=tmp_path, KUBECONFIG=str(tmp_path / "none"))
    assert done.returncode == 3
    assert "live: no kubeconfig found" in done.stderr


def test_scheduler_plugins_of_another_distribution_are_of_the_public_classes(
    installed: Environment, tmp_path: Path
) -> None:
    (tmp_path / "scheduler.yaml").write_text(PROFILE)
    done = installed.run("forewarn", "info", "scheduler", "scheduler.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "ReservedPool" in done.stdout
    assert "nobody" not in done.stdout


@pytest.fixture(scope="module")
def standalone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that `make standalone` makes, of forewarn and PyYAML alone: the linter needs no more."""
    directory = tmp_path_factory.mktemp("standalone")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory / "content")
    libraries = Path(sysconfig.get_path("platlib"))
    for name in ("yaml", "_yaml"):
        shutil.copytree(libraries / name, directory / "content" / name)
    (directory / "content/pure.py").touch()
    made = directory / "forewarn.pyz"
    subprocess.run(
        [sys.executable, ".build/standalone.py", str(directory / "content"), str(made)], check=True, timeout=500
    )
    return made


def test_the_single_file_lints_and_is_unpacked_once(standalone: Path, tmp_path: Path) -> None:
    """The first start unpacks forewarn and native libraries as bytecode; the next start changes none of these files."""
    environment = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, str(standalone), "lint", str(SAMPLE / "manifests/search.yaml")]

    def linted() -> dict[Path, int]:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr
        assert "1 file, 1 object checked" in done.stderr
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "cache/forewarn").rglob("*") if path.is_file()}

    first = linted()
    (unpacked,) = (tmp_path / "cache/forewarn").iterdir()
    assert {"forewarn", "yaml"} <= {path.name for path in unpacked.iterdir()}
    assert not any(path.suffix == ".py" or path.stem == "pure" for path in first)
    assert linted() == first
    assert [path.name for path in (tmp_path / "cache/forewarn").iterdir()] == [unpacked.name]


def test_the_single_file_is_for_one_python(standalone: Path, tmp_path: Path) -> None:
    start = f"import runpy, sys; sys.version_info = (3, 10); runpy.run_path({str(standalone)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", start], cwd=tmp_path, capture_output=True, text=True, timeout=500)
    needed = "{}.{}".format(*sys.version_info[:2])
    assert (done.returncode, done.stderr) == (2, f"forewarn: this file is for Python {needed}, not 3.10\n")


def test_the_single_file_is_kubectls_plugin_by_its_name(standalone: Path, tmp_path: Path) -> None:
    shutil.copy(standalone, tmp_path / "kubectl-forewarn")
    environment = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, str(tmp_path / "kubectl-forewarn"), "why", "-n"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert (done.returncode, done.stderr) == (2, "kubectl forewarn: -n requires a value\n")


def test_the_single_file_runs_nothing_that_a_checkout_has_put_into_its_cache(standalone: Path, tmp_path: Path) -> None:
    """In CI XDG_CACHE_HOME is often a directory of the checkout, and the name of the content is no secret."""
    environment = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    command = [sys.executable, str(standalone), "--version"]

    def run(**variables: str) -> subprocess.CompletedProcess[str]:
        given = environment | variables
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=given, cwd=tmp_path, timeout=500
        )

    assert run().returncode == 0
    (unpacked,) = (tmp_path / "cache/forewarn").iterdir()
    shutil.rmtree(unpacked)
    (unpacked / "forewarn").mkdir(parents=True)
    (unpacked / "forewarn/__main__.py").write_text("def main():\n    print('taken over')\n")
    for mode in (0o755, 0o700):
        unpacked.chmod(mode)
        done = run()
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.endswith(f"{unpacked} was not unpacked by this file. Fix: remove it\n")
    assert run(XDG_CACHE_HOME="cache").returncode == 0, "a relative path is ignored"


def test_the_single_file_says_where_it_cannot_be_unpacked(standalone: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    environment = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(tmp_path / "file")}
    command = [sys.executable, str(standalone), "--version"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 2
    assert done.stderr.startswith(f"forewarn: cannot be unpacked into {tmp_path}/file/forewarn/")
