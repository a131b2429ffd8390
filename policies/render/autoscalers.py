"""For which of the pods that wait an autoscaler would look for nodes, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.findings import listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.whatif.autoscalers import Autoscalers


def lines(found: Autoscalers) -> Iterator[str]:
    """Line by line; none where no pod waits."""
    of_ca, of_karpenter = found.cluster_autoscaler, found.karpenter
    if not of_ca.pending:
        return
    if of_ca.counts == of_karpenter.counts == of_ca.pending:
        whom = "a node for it" if of_ca.pending == 1 else "nodes for all of them"
        yield f"an autoscaler would look for {whom}"
        return
    for name, each in (("cluster-autoscaler", of_ca), ("Karpenter", of_karpenter)):
        others = listed([f"{why}: {count}" for why, count in each.others.items()])
        beside = f" ({others})" if others else ""
        waits = "waits" if each.pending == 1 else "wait"
        yield f"{name} would look for nodes for {each.counts} of {plural(each.pending, 'pod')} that {waits}{beside}"
