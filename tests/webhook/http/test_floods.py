"""Floods of connections at a real process: API servers and probes get answers, files are reloaded, watches go on."""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING

import pytest

from tests.hostile.floods import HEALTH_PORT, TLS_PORT, TOKEN, Flood, open_many, serving
from tests.webhook.builders import OBJECTS, priority_class
from tests.webhook.scripted_api import kubeconfig, scripted_api

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLUSTER = "webhook/sample/cluster.yaml"
COUNT = 1_100
IDLE = [TLS_PORT[name] for name in ("half-open", "no TLS", "idle", "slow request line", "slow header")]
HARD_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
MAX_MEBIBYTES = 50


@pytest.fixture(scope="module", autouse=True)
def _many_files() -> None:
    if HARD_LIMIT < 2 * COUNT:
        pytest.skip("this process cannot open enough files")
    open_many(COUNT)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("limits", "count", "addresses"),
    [
        pytest.param((256, 256), 300, 100, id="256"),
        pytest.param((256, 1_024), COUNT, 1, id="soft 256", marks=pytest.mark.slow),
        pytest.param((1_024, 1_024), COUNT, 1, id="1024"),
        pytest.param((20_000, 20_000), COUNT, 100, id="20000", marks=pytest.mark.slow),
    ],
)
def test_idle_connections_leave_descriptors_for_everything_else(
    limits: tuple[int, int], count: int, addresses: int, tmp_path: Path
) -> None:
    """At a limit of 1,024 open files, 1,003 idle connections once left no descriptor for the next one."""
    if limits[1] > HARD_LIMIT:
        pytest.skip("the hard limit of this machine is lower")
    sources = [f"127.0.0.{number}" for number in range(1, addresses + 1)]
    config = tmp_path / "forewarn.yaml"
    config.write_text("actions: {pinned-priority: audit}")
    with scripted_api() as api:
        for obj in OBJECTS:
            api.put(obj)
        variables = {"KUBECONFIG": str(kubeconfig(tmp_path / "config", api.url))}
        flags = ("--cluster", "live", "--config", str(config))
        with serving(limits, *flags, **variables) as server, Flood(server.port) as flood:
            until(lambda: server.health("/readyz") == (200, "ok\n"))
            flood.open(count, IDLE, sources)
            config.write_text("actions: {pinned-priority: warn}")
            assert len(server.seconds(30)) == 30
            assert server.descriptors < limits[1]
            api.stream("priorityclasses").send("ADDED", api.put(priority_class("late", 7)))
            samples = (
                'forewarn_cache_objects{kind="PriorityClass"} 5.0',
                'forewarn_file_reloads_total{file="configuration",outcome="loaded"} 1.0',
            )
            until(lambda: all(sample in server.health("/metrics")[1] for sample in samples))


def test_strangers_leave_connections_for_api_servers(tmp_path: Path) -> None:
    """Whatever they do, and although the connections of strangers are as new as that of an API server."""
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN)
    flags = ("--cluster", CLUSTER, "--client-token-file", str(tokens))
    sources = [f"127.0.0.{number}" for number in range(1, 101)]
    with serving((256, 256), *flags) as server, Flood(server.port) as flood:
        for sent in TLS_PORT.values():
            flood.open(30, [sent], sources)
            assert len(server.seconds(5)) == 5


def test_a_flood_of_the_health_port_delays_no_probe_and_takes_little_memory(tmp_path: Path) -> None:
    """14,000 announced bodies took 1.1 GB; as many requests at once on 100 connections would take more."""
    with scripted_api() as api:
        for obj in OBJECTS:
            api.put(obj)
        variables = {"KUBECONFIG": str(kubeconfig(tmp_path / "config", api.url))}
        with serving((20_000, 20_000), "--cluster", "live", **variables) as server:
            until(lambda: server.health("/readyz") == (200, "ok\n"))
            for _ in range(5):
                server.health("/metrics")
                server.seconds(1)
            before = server.peak
            for sent in HEALTH_PORT.values():
                with Flood(server.health_port, is_tls=False) as flood:
                    flood.open(COUNT, [sent], ["127.0.0.1", "127.0.0.2"])
                    assert [server.health("/livez")[0] for _ in range(10)] == [200] * 10
                    assert server.descriptors < 300
            assert server.peak - before < MAX_MEBIBYTES
