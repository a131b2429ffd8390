"""Texts about new Pods that kube-scheduler schedules together with their PodGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.base.disclosure import Audience, shown_count, shown_pods
from forewarn.policies.base.findings import Text, cut
from forewarn.policies.linting.rules.support.rule_text import MAX_CHARACTERS, naming
from forewarn.policies.linting.rules.wording.forecasts import unfinished
from forewarn.policies.linting.rules.wording.impact import capitalized
from forewarn.policies.linting.rules.wording.phrases import counted, of_namespaces, priorities

if TYPE_CHECKING:
    from forewarn.policies.linting.rules.support.details import GroupPending, GroupPreemption
    from forewarn.policies.prediction.forecast.pod_groups import GroupForecast

_LONGEST: Final = 30
"""Maximum number of characters of the PodGroup's name at the start of a message."""


def preemption(details: GroupPreemption, audience: Audience) -> Text:
    """The text: `PodGroup trainer (minCount 8): would preempt 2 PodGroups (16 Pods): ml/a, ml/b (priority 100)`."""
    group, more = details.group, capitalized(unfinished(details.impact, audience))
    whole = [unit for unit in group.units if len(unit.pods) > 1]
    in_whole = sum(len(unit.pods) for unit in whole)
    others = len(group.victims) - in_whole
    what = []
    if whole:
        pods = counted(shown_count(in_whole, audience), "Pod")
        what.append(f"{counted(shown_count(len(whole), audience), 'PodGroup')} ({pods})")
    if others:
        what.append(counted(shown_count(others, audience), "other Pod" if whole else "Pod"))
    shown = shown_pods(group.victims, audience)
    facts = [priorities(shown.priorities), *(["violates a PDB"] if group.num_pdb_violations else [])]
    start, behind = f"{_head(group)}would preempt {' and '.join(what)}", f" ({', '.join(facts)})"
    firsts = [(unit.pods[0], len(unit.pods) > 1) for unit in group.units]
    names = [
        f"{first.namespace}/{first.spec.pod_group}" if is_whole else first.key
        for first, is_whole in firsts
        if audience.may_name(first.namespace)
    ]
    if names:
        problem = naming(f"{start}: ", names, len(group.units), behind)
    else:
        problem = f"{start}{of_namespaces(shown)}{behind}"
    return Text(problem, details.fix, more, (start,))


def stays_pending(details: GroupPending, audience: Audience) -> Text:
    """The text of a Pending group, for example `PodGroup trainer (minCount 8): waits for 3 more Pods`."""
    group = details.group
    if group.missing:
        missing = counted(shown_count(group.missing, audience), "more Pod")
        return Text(f"{_head(group)}waits for {missing}", group.fix)
    start = f"{_head(group)}stays Pending"
    why, fix = ("", "") if audience.coarse else (f": {group.message}", group.fix)
    fix = fix or "run `forewarn predict`, or lower requests or minCount"
    return Text(cut(f"{start}{why}", MAX_CHARACTERS), fix, shorter=(start,))


def _head(group: GroupForecast) -> str:
    return f"PodGroup {cut(group.group.name, _LONGEST)} ({group.policy}): "
