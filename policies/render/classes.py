"""Text and Markdown of `forewarn classes` and `forewarn classes plan`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import duration, first_line, fitting, grouped, listed, plural
from forewarn.policies.kube_apiserver.quota import quota_in
from forewarn.policies.objects.fields import ref_of
from forewarn.policies.objects.priority_class import SYSTEM_PRIORITY_CLASS_PREFIX, PriorityClass
from forewarn.policies.quantity import cores, gibibytes
from forewarn.policies.render import Painter, plain, whatif
from forewarn.policies.render.simulation import pair, settled, violated
from forewarn.policies.render.table import left_out, markdown_table, table, text_of
from forewarn.policies.render.whatif import named, on_new_pods, quotas_of
from forewarn.policies.whatif.answer import pairs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.whatif.class_plan import OtherOrder, Plan, Step
    from forewarn.policies.whatif.priority_levels import Classes, PriorityLevel, Requested

MAX_COLUMNS: Final = 16
"""Maximum levels of a matrix in text."""
HEADS: Final = (
    *("", "PriorityClass", "value", "running", "Pending", "cpu", "memory", "may preempt"),
    *("their cpu", "their memory"),
)
_TEXTS: Final = ("PriorityClass",)
_OLD: Final = "old value"


def render(levels: Classes, paint: Painter = plain) -> Iterator[str]:
    """The table of costs and the matrix, as lines."""
    yield paint(_title(levels), "bold")
    yield from table(HEADS, rows(levels), paint, texts=_TEXTS)
    yield ""
    yield _MATRIX
    if len(levels.classes) > MAX_COLUMNS:
        yield f"  {len(levels.classes)} levels; use -o json for the matrix"
    else:
        yield from table(_matrix_heads(levels), _matrix(levels), paint, texts=_TEXTS)
    yield from (f"note: {note}" for note in notes(levels))


def markdown(levels: Classes) -> str:
    """The table of costs and the matrix as Markdown."""
    lines = [f"### {_title(levels)}", "", *markdown_table(HEADS, rows(levels)), "", _MATRIX, ""]
    lines += markdown_table(_matrix_heads(levels), _matrix(levels))
    lines += ["", *(f"- {note}" for note in notes(levels))]
    return "\n".join(lines).rstrip("\n") + "\n"


_MATRIX: Final = "running Pods of each level (columns) that a new Pod (rows) may preempt:"


def notes(levels: Classes) -> Iterator[str]:
    """Notes that explain the tables."""
    if old := _old(levels):
        yield f"{_OLD}: {plural(old, 'Pod')} with a priority that new Pods of the class do not get"
    if others := levels.pending_of_other_schedulers:
        yield f"{plural(others, 'Pod')} Pending for other schedulers not counted"
    yield "taints, node affinity and capacity restrict preemption further: `forewarn predict` shows the actual victims"


def _old(levels: Classes) -> int:
    return sum(level.running.pods + level.pending for level in levels.classes if level.new_pods is None)


def _title(levels: Classes) -> str:
    pods = sum(level.running.pods for level in levels.classes)
    classes = plural(count(levels), "PriorityClass", "PriorityClasses")
    able = [each for each in levels.classes if each.could_displace.pods and each.new_pods and each.new_pods.preempt]
    own = [level for level in able if not level.class_.startswith(SYSTEM_PRIORITY_CLASS_PREFIX)] or able
    running, more = plural(pods, "running Pod"), [f"{level.class_} {level.could_displace.pods}" for level in own[1:]]
    first = f"{own[0].class_} may preempt {own[0].could_displace.pods} of {running}" if own else ""
    which = listed([first, *more], _NAMED) if own else f"no PriorityClass may preempt any of {running}"
    pending = sum(level.pending for level in levels.classes)
    waiting = f"; {plural(pending, 'Pod')} Pending" if pending else ""
    waiting += "".join(f"; {phrase}" for phrase in _with_old_priorities(levels))
    return f"{which}{waiting}; {shares(levels)} requested ({classes})"


def _with_old_priorities(levels: Classes) -> Iterator[str]:
    """Yield phrases about the Pods with a priority that new Pods do not get: of classes, and without a class."""
    none = replace(levels, classes=[level for level in levels.classes if not level.class_])
    default = next((f" (new ones get {level.class_})" for level in levels.classes if level.global_default), "")
    if of_classes := _old(levels) - _old(none):
        yield f"{plural(of_classes, 'Pod')} with an {_OLD} of {'its' if of_classes == 1 else 'their'} class"
    if without := _old(none):
        yield f"{plural(without, 'Pod')} without a class{default}"


def count(levels: Classes) -> int:
    return sum(1 for level in levels.classes if level.class_ and level.new_pods is not None)


def shares(levels: Classes) -> str:
    """Return `63 % of cpu and 41 % of memory`: the requests of running Pods as shares of the allocatable amounts."""
    return f"{percent_of_cpu(levels)} % of cpu and {percent_of_memory(levels)} % of memory"


def percent_of_cpu(levels: Classes) -> int:
    return _percent(sum(level.running.milli_cpu for level in levels.classes), levels.allocatable.milli_cpu)


def percent_of_memory(levels: Classes) -> int:
    return _percent(sum(level.running.memory for level in levels.classes), levels.allocatable.memory)


def _percent(part: int, whole: int) -> int:
    return round(100 * part / whole) if whole > 0 else 0


def rows(levels: Classes) -> list[list[str | int]]:
    """Return the cells below HEADS."""
    return [
        [number, _name(each), each.value, each.running.pods, each.pending, *_capacity(each.running), *_reach(each)]
        for number, each in enumerate(levels.classes, 1)
    ]


def _name(level: PriorityLevel) -> str:
    name = level.class_ or "(none)"
    if level.new_pods is None:
        return f"{name} ({_OLD})"
    return f"{name} (default)" if level.global_default else name


def _reach(level: PriorityLevel) -> list[str]:
    displaced = level.could_displace
    if level.new_pods is None:
        return ["-", "-", "-"]
    if not level.new_pods.preempt:
        return ["never", "-", "-"]
    return [plural(displaced.pods, "Pod") if displaced.pods else "no Pods", *_capacity(displaced)]


def _capacity(requested: Requested) -> list[str]:
    return [cores(requested.milli_cpu), gibibytes(requested.memory)]


def _matrix_heads(levels: Classes) -> list[str]:
    return ["", "PriorityClass", *(str(number) for number in range(1, len(levels.classes) + 1))]


def _matrix(levels: Classes) -> list[list[str | int]]:
    return [
        [number, _name(level), *_cells(level, levels)]
        for number, level in enumerate(levels.classes, 1)
        if level.new_pods is not None
    ]


def _cells(level: PriorityLevel, levels: Classes) -> list[str | int]:
    pods = {(lower.class_, lower.value): lower.pods for lower in level.may_preempt}
    return [pods.get((other.class_, other.value), "-") for other in levels.classes]


# A plan

_STEP_HEADS: Final = ("step", "preempted", "Pending", "new Pods", "takes", "change")
_STEP_TEXTS: Final = ("change",)
_NAMED: Final = 3
_EFFECTS: Final = 4
"""Maximum number of effects in the first line."""
_MAX_PAIRS: Final = 10
_ROLLOUT_FIX: Final = "add capacity, or allow maxUnavailable in its rollout"
_MAX_STEPS: Final = 60
_VERBS: Final = {"recreate": "delete and recreate", "default": "change", "apply": "set the class of"}


def render_plan(plan: Plan, paint: Painter = plain) -> Iterator[str]:
    """The steps of a plan as text lines."""
    good = plan.complete and not plan.preempted
    yield paint(_plan_title(plan), "bold")
    if plan.steps:
        yield from table(_STEP_HEADS, _step_rows(plan)[:_MAX_STEPS], paint, texts=_STEP_TEXTS, longest=240)
        yield from left_out(len(plan.steps), _MAX_STEPS, "step")
    yield from (paint(line, "good" if good else "warning") for line in _details(plan))
    yield from (f"note: {note}" for note in _plan_notes(plan))


def plan_markdown(plan: Plan) -> str:
    """The steps of a plan as Markdown: a table and a list."""
    lines = [f"### {text_of(_plan_title(plan))}", ""]
    if plan.steps:
        lines += [*markdown_table(_STEP_HEADS, _step_rows(plan), longest=240), ""]
    lines += [f"- {text_of(line.strip())}" for line in (*_details(plan), *_plan_notes(plan))]
    return "\n".join(lines).rstrip("\n") + "\n"


def _plan_title(plan: Plan) -> str:
    if not plan.steps:
        return f"nothing to change{_ignored(plan, _EFFECTS)}"
    numbers = range(_EFFECTS, 0, -1)
    lines = [f"{_steps_text(plan, most)}: {'; '.join(_phrases(plan, most))}{_ignored(plan, most)}" for most in numbers]
    return first_line(fitting("", lines))


def _ignored(plan: Plan, most: int) -> str:
    if not plan.ignored:
        return ""
    if most < _EFFECTS:
        return f"; {plural(len(plan.ignored), 'object')} ignored"
    return f"; ignored, because no workload of the cluster: {listed(list(plan.ignored), _NAMED)}"


def _steps_text(plan: Plan, most: int) -> str:
    seconds = sum(step.ended_at - step.started_at for step in plan.steps)
    in_time = f" in {duration(seconds)}" if seconds and most > 1 else ""
    return f"{plural(len(plan.steps), 'step')}{in_time}"


def _phrases(plan: Plan, most: int) -> Iterator[str]:
    """Yield the recreated classes, the changes of priorities, the highest new one first because the plan is for it, and
    at most `most` effects. With fewer than _EFFECTS, without names.
    """
    yield from _recreated(plan, most)
    changed = [(each.after.priority, each) for each in plan.affected if each.after and each.differs]
    top = max((priority for priority, _ in changed), default=0)
    highest = [each for priority, each in changed if priority == top]
    yield from on_new_pods(highest)
    yield from on_new_pods([each for each in plan.lowered if each not in highest], are_named=most == _EFFECTS)
    unfinished = named(name for step in plan.steps for name in step.unfinished)
    stuck = [f"rollout of {unfinished} not finished"] if unfinished else []
    stuck += [_not_recreated(*each) for each in plan.still_named.items()]
    no_effect = whatif.NO_EFFECT if most == _EFFECTS else whatif.NO_EFFECT.removesuffix(whatif.OR_PENDING)
    yield whatif.joined([*stuck, *whatif.effects_of(plan.answer, most=most)], most, 1) or no_effect
    yield from whatif.unfinished([plan.answer])


def _recreated(plan: Plan, most: int) -> Iterator[str]:
    recreated = sorted({c.name for step in plan.steps if step.step.action == "recreate" for c in step.step.classes})
    if recreated:
        noun = "PriorityClass" if len(recreated) == 1 else "PriorityClasses"
        gap = "; new Pods rejected in between" if most > 1 else ""
        yield f"{noun} {named(recreated, 'class')} deleted and recreated (immutable{gap})"


def _not_recreated(class_name: str, workloads: Sequence[str]) -> str:
    return f"running Pods of {named(workloads)} cannot be recreated without PriorityClass {class_name}"


def _step_rows(plan: Plan) -> list[list[str | int]]:
    return [
        [number, len(s.preemptions), s.pending, s.new_pods, duration(s.ended_at - s.started_at), step_text(s.step)]
        for number, s in enumerate(plan.steps, 1)
    ]


def step_text(step: Step) -> str:
    """A step as a phrase: `create PriorityClass gold (100000)`, or `restart 3 workloads with new priority 5000: …`."""
    verb = _VERBS.get(step.action, step.action)
    if step.classes:
        noun = "PriorityClass" if len(step.classes) == 1 else "PriorityClasses"
        return f"{verb} {noun} {listed([_class_in(step, c) for c in step.classes], 10)}"
    names = ["/".join((ref.namespace, ref.name)) for ref in (ref_of(obj, "default") for obj in step.objects)]
    count = plural(len(names), "workload")
    one_by_one = ", one after the other" if len(names) > 1 else ""
    return f"{verb} {count} (new priority {step.priority}{one_by_one}): {listed(names, _NAMED)}"


def _class_in(step: Step, c: PriorityClass) -> str:
    if step.action == "delete":
        return c.name
    parts = [] if step.action == "default" else [str(c.value)]
    if step.action == "recreate":
        parts += [f"preemptionPolicy {c.preemption_policy}"]
    parts += ["Never"] if c.preemption_policy == "Never" and step.action == "create" else []
    default = f"globalDefault: {str(c.global_default).lower()}"
    parts += [default] if c.global_default or step.action == "default" else []
    return f"{c.name} ({', '.join(parts)})"


def _details(plan: Plan) -> Iterator[str]:
    """Lines about the steps with preemption or unfinished rollouts."""
    for number, step in enumerate(plan.steps, 1):
        preempting = pairs(step.preemptions)
        yield from (f"step {number}: {pair(*names)}" for names in preempting[:_MAX_PAIRS])
        if len(preempting) > _MAX_PAIRS:
            yield f"step {number}: {plural(len(preempting) - _MAX_PAIRS, 'more pair')}; use -o json for all"
        for fix, blocked in grouped((_fix(plan, name), name) for name in step.unfinished).items():
            yield f"step {number}: no progress for 10 min in the rollout of {listed(blocked, _NAMED)}. Fix: {fix}"
    for each in plan.still_named.items():
        yield f"{_not_recreated(*each)}. Fix: delete it when no Pod names it"
    if plan.rejected:
        count = plural(len(plan.rejected), "workload")
        names = listed([workload.workload for workload in plan.rejected], _MAX_PAIRS)
        yield f"admission rejects new Pods of {count}, because their PriorityClass does not exist then: {names}"
        yield "Fix: also pass these workloads with another priorityClassName (-f)"
    pdbs = sorted(plan.answer.summary.violated_pdbs.items())
    yield from (violated(*pdb) for pdb in pdbs[:_MAX_PAIRS])
    if len(pdbs) > _MAX_PAIRS:
        yield f"{plural(len(pdbs) - _MAX_PAIRS, 'more violated PDB')}; use -o json for all"
    if plan.answer.summary.stopped:
        yield settled(plan.answer.summary)
    yield from (f"not simulated: {each}" for each in plan.answer.summary.left_out)


def _fix(plan: Plan, workload: str) -> str:
    """How the rollout of a workload can continue: with other limits of the quota that rejects its Pods, or capacity."""
    rejections = {row.group: row.message for row in plan.answer.summary.missing}
    message = rejections.get(workload, "")
    verb = "meet" if "must specify" in message else "raise"
    return f"{verb} {quotas_of(plan.answer, {workload: message})}" if quota_in(message) else _ROLLOUT_FIX


def _stuck(other: OtherOrder) -> str:
    return f", but the rollout of {listed(list(other.unfinished), _NAMED)} does not finish" if other.unfinished else ""


def _plan_notes(plan: Plan) -> Iterator[str]:
    other = plan.alternative
    if other is not None:
        preempted = plural(other.preempted, "Pod") if other.preempted else "no Pods"
        first, steps = "new classes get preemptionPolicy Never first", f"the steps preempt {preempted}"
        yield f"if {first}, {steps}{_stuck(other)}" if other.never_first else f"{first}: without this, {steps}"
    pods = sum(sum(kept.running.values()) for kept in plan.keep_priority)
    if pods:
        names = listed([kept.workload for kept in plan.keep_priority], _NAMED)
        keep = "keeps its" if pods == 1 else "keep their"
        yield f"{plural(pods, 'running Pod')} of {names} {keep} priority: a restart does not replace them"
    if plan.pending_before:
        yield f"before the change: {plural(plan.pending_before, 'Pod')} Pending"
    if plan.preempted_before:
        preempted = plural(plan.preempted_before, "Pod")
        yield f"before step 1, Pending Pods preempt {preempted}: the table does not count them, the violated PDBs do"
    yield from plan.not_modelled
