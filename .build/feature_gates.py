"""Write feature_gates.json and gate_dependencies.json in policies/kubernetes/releases.

They have the feature gates of each known minor.

Made of Kubernetes' own list and of client-go, which `go mod download` brings for each release of
`policies.kubernetes.releases.minors.CHECKED_WITH`. Also writes which of them the code reads that forewarn predicts, for
the tests.
Keeps the defaults of a preview, which are written by hand. `make feature-gates`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from forewarn.policies.kubernetes.releases.minors import CHECKED_WITH  # noqa: E402

TARGET: Final = ROOT / "policies/kubernetes/releases/feature_gates.json"
DEPENDENCIES: Final = ROOT / "policies/kubernetes/releases/gate_dependencies.json"
READERS: Final = ROOT / "tests/policies/releases/readers.json"
LIST: Final = "test/compatibility_lifecycle/reference/versioned_feature_list.yaml"
CLIENT: Final = "features/known_features.go"
PREDICTED: Final = {
    "pkg": "quota scheduler",
    "pkg/api": "job pod v1/pod v1/resource",
    "pkg/apis": "apps batch core policy resource scheduling",
    "pkg/controller": """
        controller_utils.go cronjob daemon deployment devicetainteviction disruption history job nodelifecycle
        podautoscaler podgc replicaset replication resourceclaim resourcequota statefulset tainteviction
        volume/persistentvolume
        """,
    "pkg/kubelet": "allocation cm eviction kubelet.go lifecycle nodeshutdown preemption qos server/stats",
    "pkg/registry": "apps batch core/node core/pod policy resource scheduling",
    "plugin/pkg/admission": """
        defaulttolerationseconds job limitranger nodedeclaredfeatures podgroup podresize podtopologylabels priority
        resourcequota runtimeclass scheduling storage
        """,
}
"""Code that forewarn predicts: directory -> files and directories in it."""
_GATE: Final = re.compile(r"^\t(\w+): \{\n((?:\t\t\{Version:.*\n)+)\t\},$", re.MULTILINE)
_NAME: Final = re.compile(r'^\t(\w+)\s+Feature = "(\w+)"', re.MULTILINE)
_SPEC: Final = re.compile(r'MustParse\("1\.(\d+)"\), Default: (true|false)(.*)')
_DEPENDENCIES: Final = re.compile(r"^var defaultKubernetesFeatureGateDependencies = .*?^\}", re.MULTILINE | re.DOTALL)
_DEPENDENCY: Final = re.compile(r"^\t(?:\w+\.)?(\w+): +\{(.+)\},", re.MULTILINE)
_CONSTANT: Final = re.compile(r"(\w+)(?=[,)]|$)")
_READ: Final = re.compile(r"\b\w*[fF]eatures?\.(\w+)")


class Spec(NamedTuple):
    """The default of a gate since a minor."""

    minor: int
    default: bool
    is_locked: bool


def module_of(name: str) -> Path:
    """The directory of a Go module, such as k8s.io/kubernetes@v1.37.1. Raises SystemExit."""
    command = ["go", "mod", "download", "-json", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    found = json.loads(done.stdout or "{}")
    if "Dir" not in found:
        raise SystemExit(f"no module {name}: {found.get('Error') or done.stderr.strip()}")
    return Path(found["Dir"])


def specs_of(release: str) -> dict[str, list[Spec]]:
    """The feature gates that a release's components accept. Raises SystemExit."""
    module, client = (
        module_of(f"k8s.io/{name}{release.partition('.')[2]}") for name in ("kubernetes@v1.", "client-go@v0.")
    )
    listed: list[dict[str, Any]] = yaml.safe_load((module / LIST).read_text())
    found = {
        gate["name"]: [
            Spec(int(spec["version"].split(".")[1]), spec["default"], spec["lockToDefault"])
            for spec in gate["versionedSpecs"]
            if "minCompatibilityVersion" not in spec  # of components with --min-compatibility-version
        ]
        for gate in listed
    }
    text = (client / CLIENT).read_text()
    names = dict(_NAME.findall(text))
    for name, specs in _GATE.findall(text):
        found[names[name]] = [
            Spec(int(minor), default == "true", "LockToDefault: true" in more)
            for minor, default, more in _SPEC.findall(specs)
        ]
    return found


def dependencies_of(module: Path) -> dict[str, str]:
    """Gate -> the gates that must be on with it, separated by commas."""
    found = _DEPENDENCIES.search((module / "pkg/features/kube_features.go").read_text())
    pairs = _DEPENDENCY.findall(found[0]) if found else []
    return {name: ",".join(_CONSTANT.findall(others)) for name, others in pairs}


def state(specs: list[Spec], minor: int) -> str:
    """The default in a minor: on or off, `!` if it is locked; `-` without the gate."""
    last = next((spec for spec in reversed(specs) if spec.minor <= minor), None)
    return f"{'on' if last.default else 'off'}{'!' if last.is_locked else ''}" if last else "-"


def read_by(module: Path) -> dict[str, set[str]]:
    """Gate -> the entries of PREDICTED that read it."""
    found: dict[str, set[str]] = {}
    for place in (f"{directory}/{name}" for directory, names in PREDICTED.items() for name in names.split()):
        path = module / place
        for file in [path] if path.is_file() else path.rglob("*.go"):
            if not file.name.endswith("_test.go"):
                for name in _READ.findall(file.read_text()):
                    found.setdefault(name, set()).add(place)
    return found


def main() -> int:
    """Write the files."""
    specs: dict[int, dict[str, list[Spec]]] = {}
    readers: dict[str, set[str]] = {}
    dependencies: dict[int, dict[str, str]] = {}
    for minor, release in CHECKED_WITH.items():
        specs[minor] = specs_of(release)
        module = module_of(f"k8s.io/kubernetes@v{release}")
        dependencies[minor] = dependencies_of(module)
        for name, places in read_by(module).items():
            readers.setdefault(name, set()).update(places)
    stored = {name: states.split()[len(specs) :] for name, states in json.loads(TARGET.read_text()).items()}
    previews = {name: states for name, states in stored.items() if states}
    names = sorted({name for gates in (*specs.values(), previews) for name in gates})
    table = {
        name: " ".join([*(state(specs[minor].get(name, []), minor) for minor in specs), *previews.get(name, [])])
        for name in names
    }
    TARGET.write_text(json.dumps(table, indent=0) + "\n")
    dependent = sorted({name for gates in dependencies.values() for name in gates})
    depends = {name: " ".join(gates.get(name, "-") for gates in dependencies.values()) for name in dependent}
    if unknown := {*dependent, *re.findall(r"\w+", " ".join(depends.values()))} - {*names}:
        raise SystemExit(f"dependencies of unknown feature gates: {unknown}")
    DEPENDENCIES.write_text(json.dumps(depends, indent=0) + "\n")
    read = {name: " ".join(sorted(readers[name])) for name in names if name in readers}
    READERS.write_text(json.dumps(read, indent=0) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
