"""The options `--as`, `--as-group` and `--as-uid`, with kubectl's meaning.

They set environment variables for the live source, as `--kubeconfig` sets KUBECONFIG.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from typing import Final

AS: Final = "FOREWARN_AS"
AS_GROUPS: Final = "FOREWARN_AS_GROUPS"
AS_UID: Final = "FOREWARN_AS_UID"


def add_impersonation_options(add: Callable[..., object]) -> None:
    """Add the options with `add`, a parser's `add_argument`."""
    add("--as", rare=True, dest="as_user", default="", metavar="USER", help="user to impersonate, as with kubectl")
    add("--as-group", rare=True, action="append", default=[], metavar="GROUP", help="group to impersonate (repeatable)")
    add("--as-uid", rare=True, default="", metavar="UID", help="uid to impersonate")


def use_impersonation(options: argparse.Namespace) -> None:
    """Set the environment variables."""
    given = {AS: options.as_user, AS_GROUPS: options.as_group and json.dumps(options.as_group), AS_UID: options.as_uid}
    for variable, value in given.items():
        os.environ.pop(variable, None)
        if value:
            os.environ[variable] = value


def groups_of(variable: str) -> list[str]:
    return list(json.loads(variable)) if variable else []
