"""A file that changes is read again; a broken one is refused and the old one stays."""

from __future__ import annotations

import errno
import itertools
import os
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.base.findings import Action
from forewarn.policies.linting.config.load import load_config
from forewarn.policies.linting.config.model import ConfigError
from forewarn.webhook.commands import serve
from forewarn.webhook.commands.serve import Reloaded, check_regularly
from forewarn.webhook.http.tls import SwappingContext, TlsError
from forewarn.webhook.metrics import Metrics
from forewarn.webhook.settings import parse_settings
from forewarn.webhook.x509 import Authority
from tests.webhook.http.test_tls import written

if TYPE_CHECKING:
    from pathlib import Path

    from forewarn.webhook.x509 import Certificate


def value_of(metrics: Metrics, sample: str) -> str:
    text = metrics.exposition("")[0].decode()
    return next((line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(sample)), "")


def test_a_change_takes_effect_and_a_broken_file_is_refused(tmp_path: Path) -> None:
    path, metrics = tmp_path / "forewarn.yaml", Metrics()
    path.write_text("actions: {pinned-priority: deny}")
    config = Reloaded("configuration", [path], lambda: load_config(path), metrics)
    assert not config.check()
    path.write_text("actions: {pinned-priority: audit}")
    assert config.check()
    assert config.current.actions == {"pinned-priority": Action.AUDIT}
    assert value_of(metrics, "forewarn_file_rejected") == "0.0"
    for broken in ("actions: {pinned-priority: shout}", "actions: [", "\0"):
        path.write_text(broken)
        assert not config.check()
        assert config.current.actions == {"pinned-priority": Action.AUDIT}
        assert value_of(metrics, "forewarn_file_rejected") == "1.0"
    path.unlink()
    assert not config.check()
    path.write_text("actions: {}")
    assert config.check()
    assert config.current.actions == {}
    assert value_of(metrics, "forewarn_file_rejected") == "0.0"
    assert value_of(metrics, 'forewarn_file_reloads_total{file="configuration",outcome="rejected"}') == "4.0"
    assert value_of(metrics, 'forewarn_file_reloads_total{file="configuration",outcome="loaded"}') == "2.0"


def test_a_refusal_is_told_once_a_change(tmp_path: Path) -> None:
    path, metrics = tmp_path / "c", Metrics()
    path.write_text("")
    config = Reloaded("configuration", [path], lambda: load_config(path), metrics)
    path.write_text("nonsense: 1")
    config.check()
    config.check()
    assert value_of(metrics, 'forewarn_file_reloads_total{file="configuration",outcome="rejected"}') == "1.0"


def test_a_file_swapped_by_a_symlink_is_seen(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("annotate: off")
    (tmp_path / "two").write_text("annotate: pods")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "one")
    config = Reloaded("configuration", [link], lambda: load_config(link), Metrics())
    link.unlink()
    link.symlink_to(tmp_path / "two")
    assert config.check()


def test_a_first_file_that_is_broken_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        Reloaded("configuration", [tmp_path / "c"], lambda: load_config(tmp_path / "c"), Metrics())


def test_a_check_that_fails_does_not_end_the_checking(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    def fails() -> None:
        calls.append(1)
        raise RuntimeError("unforeseen")

    stop = check_regularly([fails], 0.01)
    end = time.monotonic() + 60
    while len(calls) < 3:
        assert time.monotonic() < end
        time.sleep(0.01)
    stop.set()
    assert "a periodic check failed" in caplog.text


def test_what_may_not_take_the_place_is_refused_once_and_asked_again(tmp_path: Path) -> None:
    path, metrics, why = tmp_path / "c", Metrics(), ["not now"]
    path.write_text("1")
    value = Reloaded(
        "certificate", [path], path.read_text, metrics, refuses=lambda held, new: f"{held}{new}{why[0]}" * bool(why[0])
    )
    path.write_text("2")
    assert [value.check() for _ in range(3)] == [False] * 3
    assert value.current == "1"
    assert value_of(metrics, 'forewarn_file_reloads_total{file="certificate",outcome="rejected"}') == "1.0"
    assert value_of(metrics, 'forewarn_file_rejected{file="certificate"}') == "1.0"
    why[0] = ""
    assert value.check()
    assert value.current == "2"
    assert value_of(metrics, 'forewarn_file_rejected{file="certificate"}') == "0.0"
    assert not value.check()


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "full"), OSError(errno.EMFILE, "open"), MemoryError(), ValueError()]
)
def test_what_cannot_be_loaded_now_is_loaded_later(error: Exception, tmp_path: Path) -> None:
    """The file does not change again when the disk has space again."""
    path, metrics, errors = tmp_path / "c", Metrics(), list[Exception]()
    path.write_text("1")

    def load() -> str:
        if errors:
            raise errors.pop()
        return path.read_text()

    value = Reloaded("configuration", [path], load, metrics)
    path.write_text("2")
    errors += [error] * 3
    for _ in range(3):
        with suppress(MemoryError):  # is logged by the thread that checks
            assert not value.check()
        assert value.current == "1"
    assert value.check()
    assert value.current == "2"
    assert not value.check()
    assert value_of(metrics, 'forewarn_file_rejected{file="configuration"}') == "0.0"


@pytest.mark.skipif(sys.platform != "linux", reason="memory file descriptors")
@pytest.mark.parametrize("call", range(4))
def test_a_renewed_certificate_is_served_whichever_step_of_loading_it_fails_at_first(
    call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, key = written(HOLDS, tmp_path)
    settings = parse_settings(["--tls-cert", str(chain), "--tls-key", str(key)], {})
    contexts, reconcile = serve._certificates(settings, Metrics())
    create, calls = os.memfd_create, itertools.count()

    def limited(name: str) -> int:
        if next(calls) == call:
            raise OSError(errno.EMFILE, "Too many open files")
        return create(name)

    monkeypatch.setattr("os.memfd_create", limited)
    written(OTHER, tmp_path)
    for _ in range(3):
        with suppress(TlsError):  # is logged by the thread that checks
            reconcile()
    assert contexts.certificate.chain == OTHER.chain
    assert next(calls) >= 4


def test_a_certificate_from_the_secret_stays_when_client_cas_change(tmp_path: Path) -> None:
    authorities = tmp_path / "ca.crt"
    authorities.write_bytes(HOLDS.ca)
    contexts, reconcile = serve._certificates(parse_settings(["--client-ca", str(authorities)], {}), Metrics())
    contexts.swap(OTHER)
    authorities.write_bytes(OTHER.ca)
    for _ in range(2):
        reconcile()
    assert contexts.certificate is OTHER
    assert contexts.demands.client_ca == OTHER.ca


NOW = datetime.now(UTC)
DAY = timedelta(days=1)


def made(begins: datetime, life: timedelta) -> Certificate:
    return Authority.make(begins, 100 * DAY).sign(begins, life=life)


HOLDS, OTHER = made(NOW, 5 * DAY), made(NOW, 9 * DAY)
EXPIRED, LATER = made(NOW - 9 * DAY, DAY), made(NOW + 2 * DAY, 5 * DAY)


@pytest.mark.parametrize(
    ("held", "new", "why"),
    [
        (HOLDS, OTHER, ""),
        (HOLDS, EXPIRED, "expired at"),
        (HOLDS, LATER, "not valid before"),
        (EXPIRED, HOLDS, ""),
        (EXPIRED, LATER, ""),
        (LATER, EXPIRED, ""),
    ],
)
def test_a_certificate_that_does_not_hold_replaces_none_that_does(
    held: Certificate, new: Certificate, why: str
) -> None:
    worse = SwappingContext(held).worse(new)
    assert worse.startswith(why)
    assert bool(worse) == bool(why)
