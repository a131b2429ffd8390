"""What is published: the same bytes of the same sources, said by what it was made, and held against advisories."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
EPOCH = 1_790_000_000


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Modules of .build by their names."""
    monkeypatch.syspath_prepend(str(ROOT / ".build"))
    return import_module


def test_the_single_file_is_the_same_bytes_for_the_same_content(build: Any, tmp_path: Path) -> None:
    made = []
    for number, umask in enumerate((0o022, 0o077)):
        directory = tmp_path / str(number)
        (directory / "forewarn").mkdir(parents=True)
        for name in ("zeta", "__main__", "alpha"):
            (directory / "forewarn" / f"{name}.py").write_text(f"NAME = {name!r}\n")
            os.utime(directory / "forewarn" / f"{name}.py", (EPOCH + number, EPOCH + number))
        before = os.umask(umask)
        try:
            build("standalone").build(directory, tmp_path / f"{number}.pyz")
        finally:
            os.umask(before)
        made.append((tmp_path / f"{number}.pyz").read_bytes())
    assert made[0] == made[1]
    assert os.access(tmp_path / "0.pyz", os.X_OK)


def test_the_chart_is_packed_as_helm_packs_it_but_the_same_each_time(build: Any, tmp_path: Path) -> None:
    release = build("release")
    first = release.chart(ROOT, tmp_path, "0.1.0", EPOCH)
    before = first.read_bytes()
    assert release.chart(ROOT, tmp_path, "0.1.0", EPOCH).read_bytes() == before
    chart = ROOT / "manifests/chart"
    with tarfile.open(first) as packed:
        names = {name.removeprefix("forewarn/") for name in packed.getnames()}
    files = {str(path.relative_to(chart)) for path in chart.rglob("*") if path.is_file()}
    assert names == {name for name in files if not name.startswith("ci/")}


def test_provenance_is_a_statement_about_each_file_by_its_digest(build: Any, tmp_path: Path) -> None:
    """The fields that in-toto and SLSA ask for: in-toto.io/Statement/v1, slsa.dev/provenance/v1."""
    made = tmp_path / "a.whl"
    made.write_bytes(b"content")
    statement = build("release").provenance([made], "ab" * 20)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert statement["subject"] == [{"name": "a.whl", "digest": {"sha256": hashlib.sha256(b"content").hexdigest()}}]
    definition = statement["predicate"]["buildDefinition"]
    assert definition["buildType"]
    assert definition["externalParameters"]
    assert {"name": "source", "digest": {"gitCommit": "ab" * 20}} in definition["resolvedDependencies"]
    assert statement["predicate"]["runDetails"]["builder"]["id"].startswith("urn:")


def test_an_advisory_is_let_pass_until_its_day_is_over(build: Any) -> None:
    text = "# why\n\nGHSA-aaaa-bbbb-cccc  2026-11-21  not reached\nPYSEC-2026-12 2026-11-20 waits for a fix\n"
    held, over = build("advisories").allowed(text, date(2026, 11, 21))
    assert (held, over) == (["GHSA-aaaa-bbbb-cccc"], ["PYSEC-2026-12"])


@pytest.mark.parametrize("line", ["PYSEC-2026-12", "PYSEC-2026-12 2026-11-20", "PYSEC-2026-12 soon because"])
def test_an_advisory_without_a_day_or_a_reason_is_refused(build: Any, line: str) -> None:
    with pytest.raises(ValueError, match="not an id, a day and a reason"):
        build("advisories").allowed(line, date(2026, 1, 1))


def test_the_list_that_is_shipped_can_be_read(build: Any) -> None:
    advisories = build("advisories")
    assert advisories.allowed(advisories.ALLOWED.read_text(), date(2026, 1, 1))[1] == []


CLEAN = {"name": "flask", "version": "3.1.3", "vulns": []}
WARNED = {"name": "numpy", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]}
SKIPPED = {"name": "yarl", "version": "1.0", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("found", "status", "line"),
    [
        ([CLEAN], 0, "no advisories about 1 packages"),
        ([CLEAN, WARNED, SKIPPED], 1, "numpy 1.0: PYSEC-1, mended in 1.1"),
        ([CLEAN, SKIPPED], 3, "nothing is known about 1 of 2 packages: not found"),
        ([], 3, "nothing is known about 0 of 0 packages: there are none"),
    ],
)
def test_what_could_not_be_asked_about_is_not_called_clean(build: Any, found: Any, status: int, line: str) -> None:
    assert build("advisories").evaluated({"dependencies": found}) == (status, [line])


LISTED = """
- name: DRAFractionalCapacityRange
  versionedSpecs:
  - {default: false, lockToDefault: false, preRelease: Beta, version: "1.37"}
  - {default: true, lockToDefault: false, preRelease: Beta, version: "1.37", minCompatibilityVersion: "1.37"}
- name: PodsAPI
  versionedSpecs:
  - {default: false, lockToDefault: false, preRelease: Alpha, version: "1.36"}
  - {default: true, lockToDefault: false, preRelease: Beta, version: "1.37"}
  - {default: true, lockToDefault: true, preRelease: GA, version: "1.38"}
"""
KNOWN_FEATURES = """
const (
\tClientsAllowCBOR Feature = "ClientsAllowCBOR"
)
var defaultVersionedKubernetesFeatureGates = map[Feature]VersionedSpecs{
\tClientsAllowCBOR: {
\t\t{Version: version.MustParse("1.32"), Default: false, PreRelease: Alpha},
\t\t{Version: version.MustParse("1.38"), Default: true, PreRelease: GA, LockToDefault: true},
\t},
}
"""


def test_the_gates_of_a_release(build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gates = build("feature_gates")
    for name, text in ((gates.LIST, LISTED), (gates.CLIENT, KNOWN_FEATURES)):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "pkg/scheduler").mkdir(parents=True)
    (tmp_path / "pkg/scheduler/a.go").write_text("x := gates.Enabled(kubefeatures.PodsAPI)")
    (tmp_path / "pkg/scheduler/a_test.go").write_text("features.ClientsAllowCBOR")
    monkeypatch.setattr(gates, "module_of", lambda _: tmp_path)
    states = {
        name: [gates.state(specs, minor) for minor in (35, 36, 37, 38)]
        for name, specs in gates.specs_of("1.37.1").items()
    }
    assert states == {
        "DRAFractionalCapacityRange": ["-", "-", "off", "off"],
        "PodsAPI": ["-", "off", "on", "on!"],
        "ClientsAllowCBOR": ["off", "off", "off", "on!"],
    }
    assert gates.read_by(tmp_path) == {"PodsAPI": {"pkg/scheduler"}}


def test_the_gates_of_a_preview_stay(build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gates = build("feature_gates")
    for name in ("TARGET", "DEPENDENCIES", "READERS"):
        monkeypatch.setattr(gates, name, tmp_path / name)
    monkeypatch.setattr(gates, "CHECKED_WITH", {36: "1.36.4", 37: "1.37.1"})
    monkeypatch.setattr(gates, "specs_of", lambda _: {name: [gates.Spec(36, False, False)] for name in ("A", "B")})
    for name, found in (("module_of", tmp_path), ("dependencies_of", {}), ("read_by", {})):
        monkeypatch.setattr(gates, name, lambda _, found=found: found)
    gates.TARGET.write_text(json.dumps({"A": "off on on", "New": "- - off", "Old": "on on"}))
    assert gates.main() == 0
    assert json.loads(gates.TARGET.read_text()) == {"A": "off off on", "B": "off off", "New": "- - off"}


def test_the_changed_gates_of_a_new_minor(build: Any) -> None:
    old = {"PodsAPI": "off", "GangScheduling": "off", "CompositePodGroup": "off", "PodDeletionCost": "on"}
    new = {"PodsAPI": "on", "CompositePodGroup": "on", "PodDeletionCost": "on", "UnheardOf": "on", "Irrelevant": "on"}
    assert list(build("new_minor").gate_lines(old, new, {"UnheardOf"})) == [
        "CompositePodGroup: off -> on (NOT_MODELLED: the default is now the state that is not predicted)",
        "GangScheduling: off -> - (MODELLED)",
        "PodsAPI: off -> on (NO_EFFECT)",
        "UnheardOf: - -> on (new: add it to one of MODELLED, NOT_MODELLED, NO_EFFECT)",
    ]


def test_copied_messages_that_a_new_minor_lacks(build: Any, tmp_path: Path) -> None:
    new_minor = build("new_minor")
    texts = []
    for name, more in (("old", "node(s) had no free ports at all"), ("new", "another message of %d words")):
        directory = tmp_path / name / "pkg/scheduler"
        directory.mkdir(parents=True)
        (directory / "a.go").write_text(f'const x = "{more}"\nconst y = "the same message in both"\n')
        (directory / "a_test.go").write_text('const z = "a message of a test that is gone"\n')
        texts.append(new_minor.texts_of(tmp_path / name))
    ours = {"a.py": 'X = "0/3 node(s) had no free ports at all"', "b.py": '"the same message in both"'}
    (line,) = new_minor.message_lines(*texts, ours)
    assert line == 'pkg/scheduler/a.go: "node(s) had no free ports at all" in a.py'
