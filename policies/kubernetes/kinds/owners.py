"""Owners of Pods that forewarn does not simulate: the effect of losing one of their Pods, from the table owners.json.

Each row names its sources, by the project and the path in the project's repository. A row applies to Pods whose
controller is of the row's kind and that have the row's labels; the first row that applies counts. To add an owner,
add a row, a Pod to tests/policies/cases/owners.yaml, and a line to docs/guides/custom-controllers.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from forewarn.policies.base.findings import grouped
from forewarn.policies.base.light import NamedTuple


class Loss(StrEnum):
    """The effect of losing one Pod on the application to which the Pod belongs."""

    NOTHING = ""
    """The rest continues."""
    INTERRUPTS = "interrupts"
    """The rest stops, restarts or fails over."""
    FAILS = "fails"
    """The whole fails, and its controller does not continue it."""


class Role(NamedTuple):
    """The Pods that a controller of the kind `owner` (`group/Kind`, empty for Pods without controller) owns, and that
    have all `labels` (an empty value: any).

    `recreated`: the controller creates a lost Pod again. `condition`: when the loss has a smaller or larger effect;
    follows the name of the application in a sentence. `whole`: the application that the loss affects if it is not the
    owner: its kind, and the labels with its name.
    """

    owner: str
    labels: Mapping[str, str]
    recreated: bool
    loss: Loss
    sources: tuple[str, ...]
    condition: str = ""
    whole: tuple[str, tuple[str, ...]] = ("", ())


def _role(row: dict[str, Any]) -> Role:
    kind, labels = row.pop("whole", ("", ()))
    loss, sources = Loss(row.pop("loss")), tuple(row.pop("sources"))
    return Role(**row, loss=loss, sources=sources, whole=(kind, tuple(labels)))


with open(os.path.join(os.path.dirname(__file__), "owners.json"), encoding="utf-8") as _file:
    ROLES: Final = tuple(map(_role, json.load(_file)))
"""In order: of rows with the same owner, those with more labels first."""

_BY_OWNER: Final = grouped((role.owner, role) for role in ROLES)


def role_of(owner: str, labels: Mapping[str, str]) -> Role | None:
    """Return the row for a Pod, by the `group/Kind` of its controller and by its labels; None without one."""
    for role in _BY_OWNER.get(owner, ()):
        if all(key in labels and value in ("", labels[key]) for key, value in role.labels.items()):
            return role
    return None
