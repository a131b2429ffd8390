"""A simulated change as text and Markdown: the cluster before and after."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.controllers.recreated import sentence
from forewarn.policies.findings import cut, listed, one_line, plural
from forewarn.policies.render import Painter, autoscalers, plain
from forewarn.policies.render.markdown import label_of, text_of
from forewarn.policies.render.simulation import NO_PREEMPTION, duration, missing, new_pods, settled, violated
from forewarn.policies.render.table import markdown_table, table
from forewarn.policies.whatif.answer import pairs
from forewarn.policies.whatif.class_change import running_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from forewarn.policies.kube_apiserver.priority import Resolved
    from forewarn.policies.objects.pod_loss import PodLoss
    from forewarn.policies.whatif.answer import Answer, Anyway, Preemption, WorkloadCount
    from forewarn.policies.whatif.blockers import Blocker
    from forewarn.policies.whatif.class_change import Cell, ClassChange, Ranked
    from forewarn.policies.whatif.new_nodes import First, Starved
    from forewarn.policies.whatif.upgrade import Pool, Step

MAX_LINES: Final = 20
"""Maximum lines of one kind."""
_NAMED: Final = 10
_MAX_EDGES: Final = 40
_LONGEST: Final = 300
_SAME: Final = "same reason"
_PDB_TEXTS: Final = ("PDB", "healthy Pods", "Pods")
_REPLACEMENT: Final = "replacement Pod"


def render(answer: Answer, change: ClassChange | None = None, paint: Painter = plain) -> Iterator[str]:
    """The answer as text lines."""
    yield paint(answer.title, "bold")
    if change is not None:
        yield from class_change(change, paint)
        yield paint(f"after {_afterwards(change)}:", "bold")
    yield from (f"  {line}" for line in emptied(answer, paint))
    yield from (f"  {line}" for line in (*_upgrade_lines(answer, paint), *arrived(answer, paint)))
    yield f"  {settled(answer.summary)}"
    noun = _REPLACEMENT if change is not None and change.restarted else "new Pod"
    yield from (f"  {line}" for line in _summary_lines(answer, noun, paint))


def verdict(answer: Answer) -> str:
    """Return one sentence with the effects that need attention, or with the statement that there are none."""
    more = sum(each.pending - each.pending_before for each in answer.standings)
    beyond = sum(answer.summary.violated_pdbs.values())
    effects = [
        f"{plural(answer.fewer, 'replica')} lost" if answer.fewer else "",
        f"{plural(more, 'more Pod')} Pending" if more > 0 else "",
        f"{plural(len(answer.preemptions), 'Pod')} preempted" if answer.preemptions else "",
        f"{plural(beyond, 'Pod')} beyond PDBs" if beyond else "",
        f"{plural(len(answer.pdbs), 'PDB')} with too few healthy Pods" if answer.pdbs else "",
        f"{plural(len(answer.stuck), 'node')} not drained" if answer.stuck else "",
    ]
    found = [effect for effect in effects if effect]
    return f"{', '.join(found)}." if found else "No replica lost, no Pod preempted or newly Pending."


def _afterwards(change: ClassChange) -> str:
    """A phrase for the event that is simulated with a class change."""
    if not change.restarted:
        return "the manifests are applied"
    names = [each.workload for each in change.restarting]
    return f"a restart of {listed(names)}" if names else "the change"


def _summary_lines(answer: Answer, noun: str, paint: Painter) -> Iterator[str]:
    """Lines with the counts at the end. `noun`: the name of new Pods in the text."""
    if answer.summary.new_pods and answer.upgrade is None:
        complete = answer.summary.all_run_at is not None
        unfinished = "" if complete or noun != _REPLACEMENT else "; the rollout does not finish"
        yield paint(f"{new_pods(answer.summary, noun)}{unfinished}", "good" if complete else "warning")
    fewer = [standing for standing in answer.standings if standing.lost]
    style = "warning" if fewer else "good"
    yield paint(
        f"running: {plural(answer.running_before, 'Pod')} before, {answer.running_after} after{_lost(answer)}", style
    )
    yield from _limited(
        _each_reason_once(fewer, _short), len(fewer), "workload with fewer Pods", "workloads with fewer Pods"
    )
    waiting = [standing for standing in answer.standings if standing.pending and not standing.lost]
    yield from _limited(
        _each_reason_once(waiting, _pending_text),
        len(waiting),
        "workload with Pending Pods",
        "workloads with Pending Pods",
    )
    several = sum(1 for standing in answer.standings if standing.pending) > 1
    for what, name in (("priority_class", "PriorityClass"), ("namespace", "namespace")) if several else ():
        counts = answer.count_pending(what)
        if counts:
            yield f"Pending by {name}: {listed([f'{each} ({count})' for each, count in counts], MAX_LINES)}"
    yield from autoscalers.lines(answer.autoscalers)
    yield from (paint(line, "warning") for line in islice(missing(answer.summary), MAX_LINES))
    yield from _preempted_lines(answer, paint)
    yield from (paint(line, "warning") for line in affected(answer.losses))
    yield from (paint(line, "warning") for line in _unfinished(answer))
    if answer.anyway is not None:
        yield without_it(answer)


def affected(losses: Sequence[PodLoss]) -> Iterator[str]:
    """Yield phrases about the workloads that fail or are interrupted because they lose a Pod."""
    yield from (f"losing {loss.pod} {loss.sentence}" for loss in losses[:MAX_LINES])
    if len(losses) > MAX_LINES:
        yield f"{len(losses) - MAX_LINES} more fail or are interrupted; use -o json for all"


def _lost(answer: Answer) -> str:
    """Return the parts of the difference between the running Pods before and after; "" if there is only one part."""
    started = answer.fewer + answer.with_nodes - (answer.running_before - answer.running_after)
    gone = plural(answer.with_nodes, "DaemonSet Pod leaves with its node", "DaemonSet Pods leave with their nodes")
    parts = [
        f"{answer.fewer} lost" if answer.fewer or answer.with_nodes else "",
        gone if answer.with_nodes else "",
        f"{started} more of other workloads" if started else "",
    ]
    found = [part for part in parts if part]
    return f" ({', '.join(found)})" if len(found) > 1 else ""


def _unfinished(answer: Answer) -> Iterator[str]:
    unhealthy = (too_few_healthy(name, *counts) for name, counts in sorted(answer.pdbs.items()))
    one, many = "PDB with too few healthy Pods", "PDBs with too few healthy Pods"
    yield from _limited(unhealthy, len(answer.pdbs), one, many, "")
    unread = (f"not simulated: {problem}" for problem in answer.unread)
    yield from _limited(unread, len(answer.unread), "object not simulated", "objects not simulated", "")
    yield from _limited(answer.not_modelled, len(answer.not_modelled), "part not modelled", "parts not modelled", "")


def too_few_healthy(pdb: str, healthy: int, desired: int) -> str:
    """A sentence about a PDB with too few healthy Pods at the end."""
    return f"PDB {pdb}: {healthy} of {desired} desired Pods healthy at the end"


def emptied(answer: Answer, paint: Painter = plain) -> Iterator[str]:
    """Lines about a drain or upgrade: completed nodes, the reasons for the others, and the fix."""
    yield from _upgraded(answer, paint)
    drained = [node for node in answer.drained if node not in answer.stuck]
    if drained:
        yield paint(f"drained: {listed(drained, _NAMED)}", "good")
    stuck = _limited(_not_emptied(answer), len(answer.stuck), "node not drained", "nodes not drained", "")
    yield from (paint(line, "warning") for line in stuck)
    if answer.blocked and (fix := _fix_of(answer)):
        yield f"Fix: {fix}"


def arrived(answer: Answer, paint: Painter = plain) -> Iterator[str]:
    """Which Pods get to new nodes first, and the DaemonSets that do not, or that a restart leaves Pending."""
    found = answer.new_nodes
    if found is None:
        yield from _pending_daemons(answer.starved, "DaemonSets with Pending Pods:", paint)
        return
    total = sum(first.pods for first in found.first)
    stay = "" if total else " (running Pods do not move to new nodes)"
    yield f"scheduled on new nodes: {plural(total, 'Pod') if total else 'no Pods'}{stay}"
    yield from _limited(map(_first, found.first), len(found.first), "workload", "workloads")
    yield from _pending_daemons(found.starved, "DaemonSets with Pending Pods on new nodes:", paint)


def _pending_daemons(found: Sequence[Starved], title: str, paint: Painter) -> Iterator[str]:
    if found:
        yield paint(title, "warning")
    yield from _limited(map(_starved, found), len(found), "DaemonSet", "DaemonSets")
    if any(each.ranks_too_low for each in found):
        yield "Fix: give these DaemonSets a PriorityClass with a higher value than the Pods on their nodes"


def _first(first: First) -> str:
    last = duration(first.last)
    when = last if last == duration(first.first) else f"{duration(first.first)} to {last}"
    return f"{when}: {plural(first.pods, 'Pod')} of {first.workload} (priority {first.priority})"


def _starved(each: Starved) -> str:
    why = "; no Pod on a node has a lower priority" if each.ranks_too_low else ""
    return f"{each.workload} (priority {each.priority}): {plural(each.pods, 'Pod')}{why}"


def _upgraded(answer: Answer, paint: Painter) -> Iterator[str]:
    """Lines about the progress of an upgrade, and its duration."""
    upgrade = answer.upgrade
    if upgrade is None:
        return
    done, of, rest = upgrade.done, plural(len(upgrade.steps), "node"), upgrade.not_reached
    told = f"upgraded: {len(done)} of {of}"
    told += f" in {duration(upgrade.seconds)}: {_nodes(done)}" if done else ""
    yield paint(told, "good" if upgrade.complete else "warning")
    if upgrade.forced:
        pods = plural(len(upgrade.forced), "Pod")
        yield paint(f"deleted after --drain-timeout: {pods} ({listed(list(upgrade.forced), _NAMED)})", "warning")
    if not upgrade.complete:
        yield paint(f"not upgraded: {_nodes(upgrade.under_way)}", "warning")
        if rest:
            yield paint(f"not started: {plural(len(rest), 'node')}: {_nodes(rest)}", "warning")
        each = f"{upgrade.max_unavailable} at a time, {duration(upgrade.away)} each"
        verb = "takes" if len(upgrade.steps) == 1 else "take"
        yield f"{of} {verb} at least {duration(upgrade.least)}: {each}"


class _Table(NamedTuple):
    """A table of an upgrade. `texts`: heads of columns aligned to the left. `more`: a line after the table, or ""."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | int]]
    texts: Sequence[str]
    more: str = ""


def upgrade_tables(answer: Answer) -> Iterator[_Table]:
    """The tables of an upgrade: the pools, if there are several, and the PDBs that block evictions before it."""
    upgrade = answer.upgrade
    if upgrade is not None and len(upgrade.pools) > 1:
        heads = ("pool", "upgraded", "takes", "preempted Pods")
        yield _Table("by pool:", heads, _by_pool(answer, upgrade.pools), ("pool",))
    if upgrade is not None and answer.blockers:
        nodes = len({node for each in answer.blockers for node in each.nodes})
        pdbs = plural(len(answer.blockers), "PDB allows", "PDBs allow")
        title = f"before the upgrade, {pdbs} no disruptions, on {nodes} of {plural(len(upgrade.steps), 'node')}:"
        rows: list[list[str | int]]
        rows = [[each.budget, _needs(each), len(each.nodes), listed(list(each.pods), 2)] for each in answer.blockers]
        left = len(rows) - MAX_LINES
        more = f"and {plural(left, 'more PDB')}; use -o json for all" if left > 0 else ""
        yield _Table(title, ("PDB", "healthy Pods", "nodes", "Pods"), rows[:MAX_LINES], _PDB_TEXTS, more)


def _upgrade_lines(answer: Answer, paint: Painter) -> Iterator[str]:
    for each in upgrade_tables(answer):
        yield each.title
        yield from table(each.heads, each.rows, paint, texts=each.texts)
        yield from [f"  {each.more}"] if each.more else []


def _upgrade_markdown(answer: Answer) -> Iterator[str]:
    for each in upgrade_tables(answer):
        yield from (text_of(each.title), "", *markdown_table(each.heads, each.rows), "")
        yield from [text_of(each.more), ""] if each.more else []


def _by_pool(answer: Answer, pools: Sequence[Pool]) -> list[list[str | int]]:
    of_node = {step.node: pool.name for pool in pools for step in pool.steps}
    preempted = Counter(of_node.get(push.node.removesuffix("-new"), "") for push in answer.preemptions)
    return [
        [
            pool.name or "(no label)",
            f"{pool.done} of {len(pool.steps)}",
            "-" if pool.seconds is None else duration(pool.seconds),
            preempted[pool.name],
        ]
        for pool in pools
    ]


def _needs(each: Blocker) -> str:
    return f"needs all {each.expected}" if each.never else f"{each.healthy}, needs {each.desired} of {each.expected}"


def _fix_of(answer: Answer) -> str:
    """The fix for a blocked drain or upgrade; "" if no cause is known."""
    blocking = sorted({pdb for pods in answer.stuck.values() for pdb in _blocking(pods, answer)})
    if blocking:
        what = "PodDisruptionBudget" if len(blocking) == 1 else "PodDisruptionBudgets"
        how = "lower minAvailable, more Pods, or higher maxUnavailable"
        return f"let {what} {listed(blocking, _NAMED)} allow a disruption ({how})"
    return "" if answer.summary.settled else "set a longer --until"


def _nodes(steps: Sequence[Step]) -> str:
    return listed([step.node for step in steps], _NAMED)


def _not_emptied(answer: Answer) -> list[str]:
    """A line for each node that is not drained: blocked, or not finished when the simulation ended."""
    ended = "" if answer.summary.settled else " yet" if answer.summary.stopped else " before --until"
    return [
        f"{node} is not drained{ended}: {plural(len(pods), 'Pod')} left ({listed(list(pods))}){_reason(pods, answer)}"
        for node, pods in sorted(answer.stuck.items())
    ]


def _blocking(pods: Iterable[str], answer: Answer) -> set[str]:
    return {pdb for pod in pods for pdb in answer.forbidden.get(pod, ())}


def _reason(pods: Iterable[str], answer: Answer) -> str:
    """A phrase with the PDBs that block the eviction of these Pods; "" if there are none."""
    pdbs = sorted(_blocking(pods, answer))
    if not pdbs:
        return ""
    one, several = "PodDisruptionBudget {} allows no disruptions", "PodDisruptionBudgets {} allow no disruptions"
    return ": " + (one if len(pdbs) == 1 else several).format(listed(pdbs, _NAMED))


def _limited(lines: Iterable[str], count: int, one: str, many: str, indent: str = "  ") -> Iterator[str]:
    yield from (f"{indent}{line}" for line in islice(lines, MAX_LINES))
    if count > MAX_LINES:
        yield f"{indent}and {plural(count - MAX_LINES, f'more {one}', f'more {many}')}; use -o json for all"


def _each_reason_once(standings: Iterable[WorkloadCount], tell: Callable[[WorkloadCount], str]) -> Iterator[str]:
    """Yield the lines for these workloads; if the reason is the same as in the previous line, a reference replaces
    it.
    """
    before = ""
    for standing in standings:
        same = standing.pending and standing.message and standing.message == before
        before = standing.message if standing.pending else ""
        yield tell(standing._replace(message=_SAME) if same else standing)


def _short(standing: WorkloadCount) -> str:
    who = f"{_workload_text(standing)}: {standing.before} → {standing.after}"
    if standing.pending:
        return f"{who}, {_waiting(standing)}"
    why = standing.failure or sentence(standing.again, standing.kind)
    return f"{who}: {why}" if standing.failure else f"{who} ({why})" if why else who


def _pending_text(standing: WorkloadCount) -> str:
    return f"{_workload_text(standing)}: {_waiting(standing)}"


def _workload_text(standing: WorkloadCount) -> str:
    named = f"class {standing.priority_class}, " if standing.priority_class else ""
    return f"{standing.workload} ({named}priority {standing.priority})"


def _waiting(standing: WorkloadCount) -> str:
    unchanged = " (unchanged)" if standing.pending == standing.pending_before else ""
    why = f": {standing.message}" if standing.message else ""
    return f"{standing.pending} Pending{unchanged}{why}"


def _preempted_lines(answer: Answer, paint: Painter) -> Iterator[str]:
    if not answer.preemptions:
        yield NO_PREEMPTION
        return
    depth = f" (cascade depth {answer.summary.depth})" if answer.summary.depth > 1 else ""
    yield paint(f"preempted: {plural(len(answer.preemptions), 'Pod')}{depth}", "warning")
    found = pairs(answer.preemptions)
    yield from _limited((pair(*each) for each in found), len(found), "pair", "pairs")
    yield from (paint(line, "warning") for line in _violated_lines(answer))


def _violated_lines(answer: Answer) -> Iterator[str]:
    """Lines about the PDBs that preemption violates."""
    found = sorted(answer.summary.violated_pdbs.items())
    yield from _limited((violated(*each) for each in found), len(found), "violated PDB", "violated PDBs", "")


def pair(who: tuple[str, int, str, int], preemptions: list[Preemption]) -> str:
    """Return a line about the preemptions between two workloads. `who`: name and priority of the preemptor, then of
    the victim.
    """
    by, by_priority, victim, priority = who
    victims = listed([push.victim.rpartition("/")[2] for push in preemptions], _NAMED)
    told = f"{by} (priority {by_priority}) preempts {plural(len(preemptions), 'Pod')} of {victim} (priority {priority})"
    return told if victim == preemptions[0].victim else f"{told}: {victims}"


def without_it(answer: Answer) -> str:
    """Return a sentence about the simulation without the change. `answer.anyway` must exist."""
    anyway = answer.anyway
    assert anyway is not None
    waiting = sum(each.pods for each in anyway.summary.waiting)
    victims = len(anyway.summary.evictions)
    preempted = plural(victims, "Pod") if victims else "no Pods"
    return f"without this change: {preempted} preempted, {plural(waiting, 'Pod')} Pending at the end{_outcomes(anyway)}"


def _outcomes(anyway: Anyway) -> str:
    """A phrase about other effects without the change: `, 2 fewer running, 1 rejected by a ResourceQuota`; "" for
    none.
    """
    rejected = sum(each.pods for each in anyway.summary.missing)
    fewer = f", {anyway.fewer} fewer running" if anyway.fewer else ""
    return fewer + (f", {rejected} rejected by a ResourceQuota" if rejected else "")


# A class that changes


def class_change(change: ClassChange, paint: Painter = plain) -> Iterator[str]:
    """Lines about a PriorityClass change: the effect now, and the Pods that may then preempt each other."""
    changed = change.changed
    yield f"{paint('now:', 'bold')} {running_text(change)}"
    if changed:
        yield paint("new Pods:", "bold")
    yield from _limited(map(_new_pods, changed), len(changed), "workload", "workloads")
    if change.cells:
        yield paint("running Pods that may be preempted (before → during the rollout → after):", "bold")
    yield from _limited(map(_cell, change.cells), len(change.cells), "change", "changes")
    rejected = [each for each in changed if each.after is None and each.running]
    if rejected:
        count = sum(sum(each.running.values()) for each in rejected)
        names = listed([each.workload for each in rejected], _NAMED)
        yield paint(
            f"not replaced once deleted: {plural(count, 'Pod')} of {names} (admission rejects new Pods)", "warning"
        )


def _new_pods(ranked: Ranked) -> str:
    count = plural(sum(ranked.running.values()), "Pod")
    return f"{ranked.workload}: priority {_rank(ranked.before)} → {_rank(ranked.after)} ({count})"


def _rank(resolved: Resolved | None) -> str:
    if resolved is None:
        return "rejected"
    return f"{resolved.priority}{' (never preempts)' if resolved.preemption_policy == 'Never' else ''}"


def _cell(cell: Cell) -> str:
    who = f"by class {cell.priority_class}" if cell.priority_class else "by Pods without a class"
    return f"{who}: {cell.workload} {cell.before} → {cell.meanwhile} → {cell.end}"


# Markdown


def markdown(answer: Answer, change: ClassChange | None = None, notes: Iterable[str] = ()) -> str:
    """Return the result as Markdown for a pull request, with a table and a chart. `notes`: about ignored objects."""
    summary, lines = answer.summary, [f"### {text_of(answer.title)}", ""]
    if change is not None:
        told_of_class = (
            f"{' ' * (len(line) - len(line.lstrip()))}- {text_of(line.strip())}" for line in class_change(change)
        )
        lines += [*told_of_class, ""]
    pending = sum(standing.pending for standing in answer.standings)
    counts = f"{answer.running_before} → {answer.running_after} running{_lost(answer)}, {pending} Pending"
    lines += [f"{counts}, {len(answer.preemptions)} preempted; {settled(summary)}", ""]
    progress = [f"- {text_of(line.strip())}" for line in (*emptied(answer), *arrived(answer))]
    lines += [*progress, ""] if progress else []
    lines += _upgrade_markdown(answer)
    told = [standing for standing in answer.standings if standing.lost or standing.pending]
    if told:
        lines += ["| workload | class | priority | running | Pending | reason |", "|---|---|---|---|---|---|"]
        lines += _each_reason_once(told[:MAX_LINES], _row)
        lines += [f"\nand {plural(len(told) - MAX_LINES, 'more workload')}"] if len(told) > MAX_LINES else []
    bullets = [f"- {text_of(line)}" for line in autoscalers.lines(answer.autoscalers)]
    bullets += [f"- {text_of(cut(line, _LONGEST))}" for line in islice(missing(summary), MAX_LINES)]
    bullets += [f"- {text_of(line)}" for line in _violated_lines(answer)]
    bullets += [f"- {text_of(cut(line, _LONGEST))}" for line in (*affected(answer.losses), *_unfinished(answer))]
    bullets += [f"- {text_of(without_it(answer))}"] if answer.anyway is not None else []
    bullets += [f"- {text_of(note)}" for note in notes]
    lines += [*([""] if lines[-1] else []), *bullets] if bullets else []
    lines += _picture(answer)
    return "\n".join(lines) + "\n"


def _row(standing: WorkloadCount) -> str:
    why = text_of(cut(one_line(standing.message or standing.failure), _LONGEST))
    named = text_of(standing.priority_class or "-")
    counts = f"{standing.before} → {standing.after} | {standing.pending}"
    return f"| {text_of(standing.workload)} | {named} | {standing.priority} | {counts} | {why} |"


def _picture(answer: Answer) -> Iterator[str]:
    """A Mermaid flowchart of the preemptions between workloads."""
    found = pairs(answer.preemptions)
    if not found:
        return
    names: dict[tuple[str, int], str] = {}
    yield from ("", "```mermaid", "flowchart LR")
    for (by, by_priority, victim, priority), preemptions in found[:_MAX_EDGES]:
        one, other = (names.setdefault(key, f"n{len(names)}") for key in ((by, by_priority), (victim, priority)))
        ends = f'{one}["{label_of(f"{by} ({by_priority})")}"]', f'{other}["{label_of(f"{victim} ({priority})")}"]'
        yield f'  {ends[0]} -->|"{plural(len(preemptions), "Pod")}, {duration(preemptions[0].t)}"| {ends[1]}'
    yield "```"
