"""docs/reference/feature-gates.md: the feature gates that code reads which forewarn predicts."""

from __future__ import annotations

import textwrap

from forewarn.policies.releases.gates import BY_REASON, MODELLED, NO_EFFECT, NOT_MODELLED, OF_ADMISSION, state
from forewarn.policies.releases.minors import KNOWN_MINORS

_WIDTH = 150
_OPTION = """
`--feature-gates A=true,B=false` sets the feature gates of the cluster's components. Without the option, predictions
hold for the defaults in this table. `-` means that the release does not have the gate, and `!` that the gate is locked.
forewarn rejects states with which the components of the release do not start, and states that it does not predict. For
a gate without effect, forewarn prints the reason.
"""
_LISTED = """
The tables list the gates of kube-scheduler, of the controllers of workloads, quotas and Nodes, of kube-apiserver for
the kinds that forewarn checks, and of the kubelet's admission and eviction. Other gates have no effect on predictions.
"""


def page() -> str:
    """The page."""
    names = sorted({*MODELLED, *NOT_MODELLED} - {*NO_EFFECT})
    reasons = [
        f"| {reason} | {', '.join(f'`{name}`' for name in names.split())} |" for reason, names in BY_REASON.items()
    ]
    minors = " | ".join(f"1.{minor}" for minor in KNOWN_MINORS)
    rows = [
        f"| `{name}` | {' | '.join(state(name, minor) for minor in KNOWN_MINORS)} | {_answer(name)} |" for name in names
    ]
    head = [line for text in (_OPTION, _LISTED) for line in (*textwrap.wrap(text.strip(), _WIDTH), "")]
    return "\n".join(
        [
            "# Feature gates",
            "",
            *head,
            f"| gate | {minors} | predictions |",
            "|---" * (len(KNOWN_MINORS) + 2) + "|",
            *rows,
            "",
            "## Gates without effect on predictions",
            "",
            "| reason | gates |",
            "|---|---|",
            *reasons,
            "",
        ]
    )


def _answer(name: str) -> str:
    only = f"only `{name}={str(NOT_MODELLED.get(name)).lower()}`"
    if name in OF_ADMISSION:
        return f"{only}; `dry-run` models both states"
    return "modelled" if name in MODELLED else only
