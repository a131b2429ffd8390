from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.build import binaries
from tests.e2e.control_plane import ControlPlane, boot

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the end-to-end tests out unless they were asked for by their marker: they build a control plane."""
    if "e2e" not in config.option.markexpr:
        kept = [item for item in items if "e2e" not in item.keywords]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane of the run."""
    running = boot(binaries(), tmp_path_factory.mktemp("control-plane"))
    try:
        yield running
    finally:
        running.processes.stop_all()
