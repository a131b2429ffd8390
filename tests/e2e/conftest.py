from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.kubernetes.releases.release import known_minor
from forewarn.policies.kubernetes.releases.semantics import Semantics
from tests.e2e.build import CACHE, MINOR, binaries, control_plane
from tests.e2e.control_plane import WITHOUT, ControlPlane, boot
from tests.e2e.installation import Installation
from tests.e2e.living import Living, classes_of, kubelets_of
from tests.e2e.objects import priority_class
from tests.e2e.processes import free_ports
from tests.e2e.quotas import ADMISSION, LIMITED, Limiting
from tests.e2e.racing import AT_ONCE, clear
from tests.e2e.staging import Stage
from tests.e2e.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Api
    from tests.e2e.graceful_kubelet import GracefulKubelets


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the end-to-end tests out unless they were asked for by their marker: they build a control plane."""
    if "e2e" not in config.option.markexpr:
        kept = [item for item in items if "e2e" not in item.keywords]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def run_directory() -> Path:
    """A new directory for logs and state; of those of runs that are over, the last three are kept."""
    runs = CACHE / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    over = [run for run in sorted(runs.iterdir()) if not Path(f"/proc/{run.name.rpartition('-')[2]}").exists()]
    for run in over[:-3]:
        shutil.rmtree(run, ignore_errors=True)  # another run may be at it too
    made = runs / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}-{os.getpid()}"
    print(f"\ne2e: logs are in {made}")
    return made


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """The control plane of the run."""
    running = boot(binaries(control_plane()), run_directory())
    try:
        yield running
    finally:
        running.processes.stop_all()


@pytest.fixture(scope="module")
def api(plane: ControlPlane) -> Iterator[Api]:
    """A client that may do everything."""
    with closing(plane.api()) as client:
        yield client


@pytest.fixture(scope="module")
def stage(plane: ControlPlane) -> Iterator[Stage]:
    """Where clusters are put; a test that puts one takes it away."""
    with closing(Stage(plane.api(), Semantics(known_minor(MINOR)))) as made:
        yield made


@pytest.fixture(scope="module")
def classes(api: Api) -> Iterator[None]:
    """Two classes beside the built-in ones and forewarn's, one of them the default; none is left at the end."""
    clear(api)
    api.create(priority_class("usual", 10, globalDefault=True))
    api.create(priority_class("high", 1000))
    yield
    clear(api)


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads for requests at the same moment."""
    with ThreadPoolExecutor(AT_ONCE) as made:
        yield made


@pytest.fixture(scope="session")
def installed(plane: ControlPlane) -> Installation:
    """manifests/base."""
    return Installation(plane)


@pytest.fixture(scope="module")
def limiting(plane: ControlPlane) -> Iterator[Limiting]:
    config = plane.home / "admission.yaml"
    config.write_text(ADMISSION + indent(LIMITED, "    "))
    (port,) = free_ports(1)
    plugins = f"{WITHOUT},ValidatingAdmissionWebhook,MutatingAdmissionWebhook"
    log = f"--audit-log-path={plane.home / 'limiting-audit.log'}"
    flag = f"--admission-control-config-file={config}"
    plane.start_api_server("kube-apiserver-limiting", port, flag, f"--disable-admission-plugins={plugins}", log)
    with closing(plane.api(port=port)) as api:
        yield Limiting(port, api)
    plane.processes.stop("kube-apiserver-limiting")


@pytest.fixture(scope="module")
def webhook(plane: ControlPlane, installed: Installation, api: Api) -> Iterator[Webhook]:
    """One registered replica; its failures are failures of the request."""
    made = Webhook(plane, installed)
    try:
        made.begin(api, strict=True)
        yield made
    finally:
        made.end(api)


@pytest.fixture(scope="module")
def kubelets(plane: ControlPlane, webhook: Webhook) -> Iterator[GracefulKubelets]:
    """Controllers and kubelets, as clusters of tests/e2e/living.py have them."""
    with kubelets_of(plane) as running:
        yield running


@pytest.fixture
def living_classes(api: Api) -> Iterator[None]:
    """The priority classes of such clusters."""
    with classes_of(api):
        yield


@pytest.fixture
def living(
    plane: ControlPlane, webhook: Webhook, api: Api, stage: Stage, living_classes: None, kubelets: GracefulKubelets
) -> Living:
    """What a test of such clusters uses."""
    return Living(plane, webhook, api, stage, kubelets)
