"""Drains and upgrades of nodes as text: completed nodes, the reasons for the others, and the fix."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import duration, listed, plural
from forewarn.policies.render import Painter, plain
from forewarn.policies.render.table import MAX_LINES, TitledTable, left_out, limited

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from forewarn.policies.whatif.answer import Answer
    from forewarn.policies.whatif.upgrade import DrainBlocker, UpgradedPool, UpgradeStep

_NAMED: Final = 10
_PDB_TEXTS: Final = ("PDB", "healthy Pods", "Pods")


def emptied(answer: Answer, paint: Painter = plain) -> Iterator[str]:
    """Lines about a drain or upgrade: completed nodes, the reasons for the others, and the fix."""
    yield from _upgraded(answer, paint)
    drained = [node for node in answer.drained if node not in answer.not_drained]
    if drained:
        yield paint(f"drained: {listed(drained, _NAMED)}", "good")
    if answer.drained or answer.upgrade:
        force = "kubectl drain deletes these only with --force"
        yield from [f"without controller: {listed(answer.bare, _NAMED)}; {force}"] * bool(answer.bare)
    stuck = limited([*_not_emptied(answer)], "node not drained", "nodes not drained", "")
    yield from (paint(line, "warning") for line in stuck)
    if answer.blocked and (fix := _fix_of(answer)):
        yield f"Fix: {fix}"


def _upgraded(answer: Answer, paint: Painter) -> Iterator[str]:
    """Lines about the progress of an upgrade, and its duration."""
    upgrade = answer.upgrade
    if upgrade is None:
        return
    done, of, rest = upgrade.done, plural(len(upgrade.steps), "node"), upgrade.not_reached
    text = f"upgraded: {len(done)} of {of}"
    text += f" in {duration(upgrade.seconds)}: {_nodes(done)}" if done else ""
    yield paint(text, "good" if upgrade.complete else "warning")
    if upgrade.forced:
        pods = listed([each.pod for each in upgrade.forced], _NAMED)
        yield paint(f"deleted after --drain-timeout: {plural(len(upgrade.forced), 'Pod')} ({pods})", "warning")
    if not upgrade.complete:
        yield paint(f"not upgraded: {_nodes(upgrade.under_way)}", "warning")
        if rest:
            yield paint(f"not started: {plural(len(rest), 'node')}: {_nodes(rest)}", "warning")
        item = f"{upgrade.max_unavailable} at a time, {duration(upgrade.away)} each"
        verb = "takes" if len(upgrade.steps) == 1 else "take"
        yield f"{of} {verb} at least {duration(upgrade.least)}: {item}"


def upgrade_tables(answer: Answer) -> Iterator[TitledTable]:
    """The tables of the pools of an upgrade, if there are several, and of the PDBs that block evictions."""
    upgrade = answer.upgrade
    if upgrade is not None and len(upgrade.pools) > 1:
        heads = ("pool", "upgraded", "takes", "preempted Pods")
        yield TitledTable("by pool:", heads, _by_pool(answer, upgrade.pools), ("pool",))
    if answer.blocks.drains:
        nodes = len({node for blocker in answer.blocks.drains for node in blocker.nodes})
        when, newly = ("before the upgrade", "") if upgrade else ("after the change", "more ")
        pdbs = plural(len(answer.blocks.drains), f"{newly}PDB blocks", f"{newly}PDBs block")
        of = len(upgrade.steps if upgrade else answer.simulation.api.nodes)
        title = f"{when}, {pdbs} evictions, on {nodes} of {plural(of, 'node')}:"
        rows: list[list[str | int]] = [
            [blocker.budget, _needs(blocker), len(blocker.nodes), listed(list(blocker.pods), 2)]
            for blocker in answer.blocks.drains
        ]
        more = "".join(left_out(len(rows), MAX_LINES, "PDB"))
        yield TitledTable(title, ("PDB", "healthy Pods", "nodes", "Pods"), rows[:MAX_LINES], _PDB_TEXTS, more)


def _by_pool(answer: Answer, pools: Sequence[UpgradedPool]) -> list[list[str | int]]:
    of_node = {step.node: pool.pool for pool in pools for step in pool.steps}
    preempted = Counter(of_node.get(preemption.node.removesuffix("-new")) for preemption in answer.preempted)
    rows: list[list[str | int]] = [
        [
            pool.pool or "(no label)",
            f"{pool.upgraded} of {pool.nodes}",
            "-" if pool.seconds is None else duration(pool.seconds),
            preempted[pool.pool],
        ]
        for pool in pools
    ]
    if preempted[None]:
        rows.append(["(new nodes)", "-", "-", preempted[None]])
    return rows


def _needs(blocker: DrainBlocker) -> str:
    if blocker.overlaps:
        return "another PDB selects the same Pods"
    if blocker.desired == blocker.expected:
        return f"needs all {blocker.expected}"
    of = "" if blocker.never else f" of {blocker.expected}"
    return f"{blocker.healthy}, needs {blocker.desired}{of}"


def _fix_of(answer: Answer) -> str:
    """The fix for a blocked drain or upgrade; "" if no cause is known."""
    one, several = _blocking([pod for pods in answer.not_drained.values() for pod in pods], answer)
    blockers = {each.budget: each for each in answer.drains_blocked_by}
    one, several = ([pdb for pdb in pdbs if pdb in blockers] for pdbs in (one, several))
    fixes = [f"remove all but one of {_pdbs(several)}, or narrow a selector"] if several else []
    how = "lower minAvailable, more Pods, or higher maxUnavailable"
    fixes += [f"let {_pdbs(one)} allow a disruption ({how})"] if one else []
    waiting = [blockers[pdb] for pdb in one if not blockers[pdb].never]
    if any(each.all_unready for each in waiting):
        fixes.append("or get all its Pods ready")
    elif waiting and answer.causes.pending and answer.drained[1:]:
        fixes.append("or drain fewer nodes at once")
    if any(blockers[pdb].unready for pdb in one):
        fixes.append("or set unhealthyPodEvictionPolicy: AlwaysAllow to evict Pods that are not ready")
    return "; ".join(fixes)


def _pdbs(names: list[str]) -> str:
    return f"PodDisruptionBudget{'s' * (len(names) > 1)} {listed(names, _NAMED)}"


def _nodes(steps: Sequence[UpgradeStep]) -> str:
    return listed([step.node for step in steps], _NAMED)


def _not_emptied(answer: Answer) -> list[str]:
    """A line for each node that is not drained: blocked, or not finished when the simulation ended."""
    ended = "" if answer.summary.settled else " yet" if answer.summary.stopped else " before --until"
    return [
        f"{node} is not drained{ended}: {plural(len(pods), 'Pod')} left ({listed(list(pods))}){_reason(pods, answer)}"
        for node, pods in sorted(answer.not_drained.items())
    ]


def _blocking(pods: Iterable[str], answer: Answer) -> tuple[list[str], list[str]]:
    """The PDBs that alone block the eviction of one of these Pods, and those that share a Pod, which blocks it."""
    found = [answer.eviction_blocked_by.get(pod, ()) for pod in pods]
    shared = {pdb for pdbs in found if len(pdbs) > 1 for pdb in pdbs}
    return sorted({pdb for pdbs in found if len(pdbs) == 1 for pdb in pdbs}), sorted(shared)


def _reason(pods: Iterable[str], answer: Answer) -> str:
    """A phrase with the PDBs that block the eviction of these Pods; "" if there are none."""
    one, several = _blocking(pods, answer)
    reasons = [f"{_pdbs(one)} {'allow' if len(one) > 1 else 'allows'} no disruptions"] if one else []
    reasons += [f"{_pdbs(several)} select the same Pods: the eviction API allows one"] if several else []
    return f": {', '.join(reasons)}" if reasons else ""
