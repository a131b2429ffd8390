"""`forewarn ui` as a command."""

from __future__ import annotations

import urllib.request

import pytest

from forewarn.policies.cli.ui import command
from forewarn.webhook.http.server import bind
from tests.in_process import forewarn
from tests.policies.ui.browsing import MAX_SECONDS, served
from tests.policies.ui.desk import CLUSTER


def test_the_printed_address_shows_the_cluster() -> None:
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with served(CLUSTER) as ui:
        with opener.open(ui.first, timeout=MAX_SECONDS) as answer:
            assert b"Continue" in answer.read()
        with opener.open(f"{ui.base}/api/risk", timeout=MAX_SECONDS) as answer:
            assert b'"workload": "shop/web"' in answer.read(), "a process has answered"


def test_a_port_in_use_has_a_reason() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        done = forewarn("ui", "--no-browser", "--cluster", CLUSTER, "--port", str(port))
    assert done.returncode == 3
    assert f"--port {port}: " in done.stderr
    assert "in use" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], []),
        (["--no-browser", "--port", "1", "--cluster", "a.yaml"], ["--cluster", "a.yaml"]),
        (["--cluster=a", "--cluster", "b", "--context=c"], ["--cluster=a", "--cluster", "b", "--context=c"]),
        (["--kubernetes-version", "1.34", "--port=2"], ["--kubernetes-version", "1.34"]),
    ],
)
def test_copied_commands_name_the_cluster_and_the_release(arguments: list[str], named: list[str]) -> None:
    assert command._named(arguments) == named


def test_a_browser_is_started_with_the_token_for_one_use(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    class Stopped:
        def serve_forever(self) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(command, "Server", lambda *_: Stopped())
    done = forewarn("ui", "--cluster", CLUSTER)
    assert done.returncode == 0
    (address,) = opened
    assert address.startswith("http://127.0.0.1:")
    assert address.partition("token=")[2] not in done.stdout
