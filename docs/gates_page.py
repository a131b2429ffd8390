"""docs/reference/feature-gates.md: the feature gates that code reads which forewarn predicts."""

from __future__ import annotations

import textwrap

from forewarn.policies.kubernetes.releases.minors import KNOWN_MINORS
from forewarn.policies.kubernetes.releases.semantics import MODELLED, NO_EFFECT, NOT_MODELLED, state

_WIDTH = 150
_OPTION = """
Pass the feature gates of the cluster's components as `--feature-gates A=true,B=false`. Without the option, predictions
are for the defaults in the table (of the [compared patch releases](compatibility.md#kubernetes-releases)). Two gates
are exceptions. `GenericWorkload` counts as on if the cluster or the manifests contain
[PodGroups](compatibility.md#pod-groups). `DRADeviceTaintRules` counts as on if the cluster contains DeviceTaintRules.
forewarn rejects combinations with which components would not start, and values that it does not predict, such as
`AllBeta=true`.

`-` means that the release does not have the gate, and `!` that it is locked. *Modelled* gates can still have
[limits](compatibility.md#what-is-exact). Predictions ignore gates that are not in the table.
"""


def page() -> str:
    """The page."""
    names = sorted({*MODELLED, *NOT_MODELLED} - {*NO_EFFECT})
    minors = " | ".join(f"1.{minor}" for minor in KNOWN_MINORS)
    rows = [
        f"| `{name}` | {' | '.join(state(name, minor) for minor in KNOWN_MINORS)} | {_answer(name)} |" for name in names
    ]
    paragraphs = _OPTION.strip().split("\n\n")
    head = [line for text in paragraphs for line in (*textwrap.wrap(text, _WIDTH, break_on_hyphens=False), "")]
    return "\n".join(
        [
            "# Feature gates",
            "",
            *head,
            f"| gate | {minors} | predictions |",
            "|---" * (len(KNOWN_MINORS) + 2) + "|",
            *rows,
            "",
        ]
    )


def _answer(name: str) -> str:
    only = f"only `{name}={str(NOT_MODELLED.get(name)).lower()}`"
    return only if name in NOT_MODELLED else "modelled"
