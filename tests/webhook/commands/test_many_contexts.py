"""Several contexts of a kubeconfig in one run: an API server that does not answer, or rejects, hides no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders import make_node, make_pod
from tests.webhook.builders import OBJECTS
from tests.webhook.scripted_api import ScriptedApi, scripted_api

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
HOSTILE = ["\x1b[2J\n::error::x", "\u202egnp", "x" * 5_000]


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    """A server with one node that has one Pod."""
    with scripted_api() as scripted:
        pod = make_pod("low", "team").priority(0).request(cpu="3").on("n1").status(phase="Running")
        for obj in (*OBJECTS, make_node("n1").obj, pod.obj):
            scripted.put(json.loads(json.dumps(obj)))
        yield scripted


class Machine:
    """A kubeconfig, and forewarn as a program: a process that forks has no threads of the server."""

    def __init__(self, directory: Path, contexts: dict[str, str]) -> None:
        servers = sorted(set(contexts.values()))
        names = {server: f"c{number}" for number, server in enumerate(servers)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": server}} for server, name in names.items()],
            "users": [{"name": "u", "user": {"token": "secret"}}],
            "contexts": [
                {"name": name, "context": {"cluster": names[server], "user": "u"}} for name, server in contexts.items()
            ],
        }
        config = directory / "config"
        config.write_text(json.dumps(document))
        setup = ConfigParser()
        setup.read(ROOT / "setup.cfg")
        installed = directory / "site" / "forewarn_test-0.dist-info"
        installed.mkdir(parents=True)
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: forewarn-test\nVersion: 0\n")
        sources = setup["options.entry_points"]["forewarn.sources"]
        (installed / "entry_points.txt").write_text(f"[forewarn.sources]{sources}\n")
        path = os.pathsep.join(map(str, (installed.parent, ROOT / "src")))
        self._environment = {**os.environ, "PYTHONPATH": path, "KUBECONFIG": str(config)}

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit status, standard output, standard error."""
        line = [sys.executable, "-m", "forewarn", *arguments]
        found = subprocess.run(line, env=self._environment, capture_output=True, timeout=600, check=False)
        return found.returncode, found.stdout.decode(), found.stderr.decode()

    def clusters(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        """Exit status, and cluster -> its entry."""
        status, out, _ = self.run(*arguments, "-o", "json")
        return status, {each["cluster"]: each for each in json.loads(out)["clusters"]}


def test_an_unreachable_and_a_forbidden_cluster_among_others(api: ScriptedApi, tmp_path: Path) -> None:
    with scripted_api() as forbidden:
        why = 'nodes is forbidden: User "x" cannot list resource "nodes"'
        forbidden.script("list", "nodes", *[forbidden.reject(403, why)] * 5)
        contexts = {"prod-a": api.url, "prod-b": "http://127.0.0.1:1", "prod-c": forbidden.url, "test": api.url}
        machine = Machine(tmp_path, contexts)
        status, found = machine.clusters("audit", "--context", "prod-*")
    assert status == 3
    assert list(found) == ["prod-b", "prod-c", "prod-a"]
    assert found["prod-b"]["reason"].startswith("http://127.0.0.1:1 does not answer")
    assert (
        found["prod-c"]["reason"]
        == f"cannot list nodes: {why} (403). Fix: allow this user to list them in all namespaces"
    )
    assert "findings" in found["prod-a"]["report"]
    assert machine.clusters("audit", "--exit-zero", "--context", "prod-a", "--context", "test")[0] == 0


def test_many_contexts_in_two_processes(api: ScriptedApi, tmp_path: Path) -> None:
    contexts = {f"prod-{number:03}": "http://127.0.0.1:1" for number in range(18)}
    machine = Machine(tmp_path, contexts | {"prod-x": api.url, "prod-y": api.url})
    status, found = machine.clusters("audit", "--context", "*", "--jobs", "2")
    assert status == 3
    assert len(found) == 20
    assert sorted(name for name, each in found.items() if "report" in each) == ["prod-x", "prod-y"]


def test_hostile_names_of_contexts(api: ScriptedApi, tmp_path: Path) -> None:
    machine = Machine(tmp_path, dict.fromkeys(HOSTILE, api.url) | {"\x1b]0;y\x07": "http://127.0.0.1:1"})
    status, out, err = machine.run("audit", "--context", "*")
    assert status == 3
    lines = [*out.splitlines(), *err.splitlines()]
    assert [line for line in lines if not line.isprintable() or line.startswith("::") or len(line) >= 4_400] == []
    assert set(machine.clusters("audit", "--context", "*")[1]) == {*HOSTILE, "\x1b]0;y\x07"}


def test_a_credential_plugin_that_hangs_ends_with_the_time_limit(api: ScriptedApi, tmp_path: Path) -> None:
    """Of two, one after the other; tests of the pool have others beside one that hangs."""
    machine = Machine(tmp_path, {"hangs": api.url, "hangs-too": api.url})
    config = tmp_path / "config"
    document = json.loads(config.read_text())
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sleep", "args": ["600"]}
    document["users"] = [{"name": "u", "user": {"exec": {**plugin, "interactiveMode": "Never"}}}]
    config.write_text(json.dumps(document))
    status, found = machine.clusters("audit", "--context", "*", "--cluster-timeout", "1", "--jobs", "1")
    assert status == 3
    assert {name: each["reason"] for name, each in found.items()} == dict.fromkeys(
        ("hangs", "hangs-too"), "timeout after 1 s"
    )


def test_wrong_names_and_kubeconfigs(api: ScriptedApi, tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"prod-a": api.url, "prod-b": api.url})
    status, out, err = machine.run("audit", "--context", "prd-a*")
    assert (status, out) == (2, "")
    assert err == 'forewarn audit: --context "prd-a*": matches no context; did you mean "prod-a"?\n'
    (tmp_path / "config").write_text("contexts: 5\n")
    status, out, err = machine.run("audit", "--context", "*")
    assert (status, out) == (3, "")
    assert "cannot read the contexts of the kubeconfig" in err
