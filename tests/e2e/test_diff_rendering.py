"""What `forewarn diff` renders with the real helm, and with kustomize as it is in the real kubectl."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.build import HELM, MINOR, binaries, control_plane

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.e2e


def _compared(
    tree: Path, files: dict[str, str], *programs: Path, options: Sequence[str] = ()
) -> tuple[dict[str, Any], str]:
    """The difference from an empty directory, with no other helm and no kustomize to be found than these."""
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    path = os.pathsep.join([*map(str, programs), "/usr/bin", "/bin"])
    environment = {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": os.getcwd(),
        "HOME": str(tree.parent),
        "DEPLOY_TOKEN": SECRET,
    }
    (tree.parent / "empty").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "forewarn", "diff", "../empty", ".", "-o", "json", *options]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=120)
    return json.loads(done.stdout) if done.stdout else {}, done.stderr


SECRET = "s3cret-of-the-environment"
EVIL = "#!/bin/sh\ntouch $(dirname $0)/ran\ncat\n"
ENABLE = "--kustomize-flag=--enable-helm"
ANY_FILE = "--kustomize-flag=--load-restrictor=LoadRestrictionsNone"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  priorityClassName: %s\n"
SHOWN = '{{ .Files.Get "%s" }}'
INFLATE = "helmCharts:\n- name: c\n  %s\n"
GENERATOR = "apiVersion: builtin\nkind: HelmChartInflationGenerator\nmetadata: {name: g}\nname: c\nreleaseName: %s\n"
OF_FILE = """resources: [pod.yaml]
configMapGenerator: [{name: m, files: ['x=%s']}]
replacements:
- {source: {kind: ConfigMap, fieldPath: data.x}, targets: [{select: {kind: Pod}, fieldPaths: [spec.priorityClassName]}]}
"""
POST = "--post-renderer={tree}/evil.sh"
PLUGIN = "name: evil\nversion: 0.1.0\ndownloaders: [{command: ../../../../evil.sh, protocols: [evil]}]\n"
SCHEMA = '{"$ref": "file://{tree}/../outside/schema.json"}'
REACHED: dict[str, dict[str, str]] = {
    "release": {"kustomization.yaml": INFLATE % f"releaseName: {POST}"},
    "component": {
        "kustomization.yaml": "components: [b]",
        "b/kustomization.yaml": "kind: Component\n" + INFLATE % f"RELEASEname: {POST}",
        "b/charts/c/Chart.yaml": "name: c\nversion: 0.1.0\napiVersion: v2\n",
        "b/charts/c/values.yaml": "a: b\n",
        "b/charts/c/templates/a.yaml": POD % "x",
    },
    "legacy": {"kustomization.yaml": f"helmChartInflationGenerator: [{{chartName: c, releaseName: '{POST}'}}]"},
    "generator": {"kustomization.yaml": "generators: [g.yaml]", "g.yaml": GENERATOR % POST},
    "patched generator": {
        "kustomization.yaml": "generators: [g]",
        "g/g.yaml": GENERATOR % "x",
        "g/kustomization.yaml": "resources: [g.yaml]\npatches: [{target: {kind: HelmChartInflationGenerator}, "
        f'patch: \'[{{"op": "replace", "path": "/releaseName", "value": "{POST}"}}]\'}}]',
    },
    "plugin": {
        "kustomization.yaml": "helmGlobals: {configHome: '{tree}/h'}\nhelmCharts: [{name: d, repo: 'evil://x'}]",
        "h/.data/plugins/evil/plugin.yaml": PLUGIN,
    },
    "file": {"kustomization.yaml": OF_FILE % "../outside/secret"},
    "environment": {"kustomization.yaml": OF_FILE % "/proc/self/environ"},
    "credentials": {"kustomization.yaml": OF_FILE % ".git/config", ".git/config": SECRET},
    "base": {"kustomization.yaml": "resources: [../outside]"},
    "base of a link": {"kustomization.yaml": "resources: [outside-link]"},
    "repository": {"kustomization.yaml": "resources: ['file://{tree}/r?ref=--upload-pack={tree}/evil.sh']"},
    "chart outside": {
        "kustomization.yaml": "helmGlobals: {chartHome: ../outside}\n" + INFLATE % "valuesFile: pod.yaml",
    },
    "written values": {
        "kustomization.yaml": "helmCharts: [{name: '../../../../../../../../..{tree}/w', valuesFile: pod.yaml, "
        "valuesInline: {ran: 1}}]",
        "w/Chart.yaml": "name: w\nversion: 0.1.0\napiVersion: v2\n",
    },
    "linked chart file": {"charts/c/templates/a.yaml": POD % (SHOWN % "link")},
    "linked environment": {"charts/c/templates/a.yaml": POD % '{{ .Files.Get "env" | b64enc }}'},
    "linked chart": {
        "kustomization.yaml": INFLATE % "releaseName: r",
        "charts/c/templates/a.yaml": POD % (SHOWN % "link"),
    },
    "schema": {"charts/c/values.schema.json": SCHEMA},
}


@pytest.mark.whole
@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("attack", REACHED)
def test_a_tree_runs_no_program_and_shows_no_other_file(tmp_path: Path, attack: str, allowed: bool) -> None:
    """`allowed`: an option allows helm, or any file of the tree."""
    tree, outside = tmp_path / "shop", tmp_path / "outside"
    pod = POD.replace("name: p", "name: other") % SECRET
    (outside / "c/templates").mkdir(parents=True)
    for name, text in {
        "c/Chart.yaml": "name: c\nversion: 0.1.0\napiVersion: v2\n",
        "c/templates/a.yaml": pod,
        "secret": SECRET, "kustomization.yaml": "resources: [pod.yaml]", "pod.yaml": pod, "values.yaml": f"a: {SECRET}",
        "schema.json": f'{{"type": "object", "required": ["{SECRET}"]}}',
    }.items():  # fmt: skip
        (outside / name).write_text(text)
    option = ANY_FILE if attack in ("file", "environment") else ENABLE
    files = {
        "pod.yaml": POD % "x",
        "evil.sh": EVIL,
        "charts/c/Chart.yaml": "name: c\nversion: 0.1.0\napiVersion: v2\n",
        "charts/c/values.yaml": "a: b\n",
        "charts/c/templates/a.yaml": POD % "{{ .Values.a }}",
        **REACHED[attack],
    }
    (tree / "charts/c").mkdir(parents=True)
    (tree / "evil.sh").touch(0o755)
    (tree / "outside-link").symlink_to("../outside")
    (tree / "w-kustomize-values.yaml").symlink_to("ran")
    if attack.startswith("linked"):
        (tree / "charts/c/link").symlink_to("../../../outside/secret")
        (tree / "charts/c/env").symlink_to("/proc/self/environ")
    files = {name: text.replace("{tree}", str(tree)) for name, text in files.items()}
    programs = binaries(HELM), binaries(control_plane(MINOR, "kubectl"))
    report, said = _compared(tree, files, *programs, options=[option] if allowed else [])
    assert report["objects"] or report["notes"], said
    told = json.dumps(report) + said
    assert SECRET not in told
    assert not any(b64encode(SECRET[at:].encode()).decode()[:-4] in told for at in range(3))
    assert not (tree / "ran").exists()


@pytest.mark.whole
def test_what_the_user_allows_is_rendered(tmp_path: Path) -> None:
    files = {
        "shop/kustomization.yaml": INFLATE
        % "releaseName: r\n  additionalValuesFiles: [../more.yaml]\n  valuesInline: {q: 1}",
        "shop/charts/c/Chart.yaml": "name: c\nversion: 0.1.0\napiVersion: v2\n",
        "shop/charts/c/values.yaml": "a: b\n",
        "shop/charts/c/templates/a.yaml": POD % "'{{ .Release.Name }}{{ .Values.a }}{{ .Values.q }}'",
        "more.yaml": "a: more\n",
    }
    programs = binaries(HELM), binaries(control_plane(MINOR, "kubectl"))
    report, said = _compared(tmp_path / "tree", files, *programs, options=[ENABLE, ANY_FILE])
    assert "rmore1" in json.dumps(report["objects"]), said
