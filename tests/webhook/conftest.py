from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.webhook.running import Running, running

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    """One server for the tests of a module that leave it running."""
    with running() as server:
        yield server
