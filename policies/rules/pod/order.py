"""Rules about the order in which an apply creates objects."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.findings import Problem, Severity, cut, quote
from forewarn.policies.kinds.registry import FLUX_KUSTOMIZATION, POD, PRIORITY_CLASS
from forewarn.policies.objects.fields import at, group_kind, text_at
from forewarn.policies.rules.support.context import Context, DependsOn, Phase, Target, rule
from forewarn.policies.rules.support.rule_text import class_name, location_suffix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.reviewed_object import ReviewedObject


_PHASES: Final = {"pre-install": 0, "PreSync": 0, "": 1, "Sync": 1, "post-install": 2, "PostSync": 2, "test": 3}
_ARGO_HOOK, _WAVE = "argocd.argoproj.io/hook", "argocd.argoproj.io/sync-wave"
_HELM_HOOK, _WEIGHT = "helm.sh/hook", "helm.sh/hook-weight"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,9}")
_FIX: Final = "create the class earlier"


@rule(
    Target.POD,
    Target.TEMPLATE,
    severity=Severity.WARNING,
    depends_on=DependsOn(("classes",), "the class may have been created a moment ago"),
)
def class_created_later(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A class is created after Pods that use it.

    Why: kube-apiserver rejects Pods of a class that does not exist yet. Helm waits for a hook, and Argo CD waits until
    a sync wave is healthy, so the class is never created. `kubectl apply` creates the objects of a file in their order,
    and fails for a Pod before its class.

    Details: the rule compares `helm.sh/hook` with its weight, `argocd.argoproj.io/hook`, and
    `argocd.argoproj.io/sync-wave`. It compares Flux Kustomizations by `path` and `dependsOn`. The order in a file
    matters only for Pods, because controllers retry. The rule ignores classes of the cluster.

    Bad:

        PriorityClass batch
        value: 10
        ---
        Job team/migrate
          annotations:
            helm.sh/hook: pre-install
        spec:
          template:
            spec:
              priorityClassName: batch
              restartPolicy: Never
              containers:
              - name: migrate
                image: migrate

    Good:

        PriorityClass batch
          annotations:
            helm.sh/hook: pre-install
            helm.sh/hook-weight: "-10"
            helm.sh/hook-delete-policy: hook-failed
        value: 10
        ---
        Job team/migrate
          annotations:
            helm.sh/hook: pre-install
        spec:
          template:
            spec:
              priorityClassName: batch
              restartPolicy: Never
              containers:
              - name: migrate
                image: migrate

    Fix: create the class in an earlier hook, sync wave or Flux Kustomization, or before the Pod in the file.
    """
    template = context.template(subject)
    name = class_name(template) if template and context.phase is Phase.LINT and not subject.is_partial else ""
    if template is None or not name or name in context.stored_classes:
        return
    definition = context.once(_Order).only.get(name)
    if definition is None:
        return
    why, severity = _reason(definition, subject, context)
    if why:
        message = f"PriorityClass {quote(name)}{location_suffix(definition.locate(()))} is created later: {why}"
        yield Problem(message, template.at("priorityClassName"), _FIX, severity=severity)


def _reason(definition: ReviewedObject, subject: ReviewedObject, context: Context) -> tuple[str, Severity | None]:
    """Why a class is created after Pods; "" if it is not, or if unknown."""
    of_class, of_pods = _step(definition.object), _step(subject.object)
    if of_class and of_pods and of_class.key != of_pods.key:
        return (f"{of_class}, the Pods {of_pods}" if of_class.key > of_pods.key else ""), None
    if chain := context.once(_Order).depends(definition, subject):
        return f"Flux Kustomization {chain}", None
    if group_kind(subject.object) == POD and not subject.within:
        one, other = subject.locate(()), definition.locate(())
        if one.file == other.file:
            return ("kubectl apply rejects the Pod" if other.line > one.line else ""), None
        if os.path.dirname(one.file) == os.path.dirname(other.file) and other.file > one.file:
            return "kubectl apply sorts files by name", Severity.NOTE
    return "", None


class _Step(NamedTuple):
    """When Helm or Argo CD creates an object: the phase, and the weight or wave in it."""

    key: tuple[int, int]
    shown: str

    def __str__(self) -> str:
        return self.shown


def _step(obj: ApiObject) -> _Step | None:
    annotations = at(obj, "metadata", "annotations")
    given = {key: str(value) for key, value in annotations.items()} if isinstance(annotations, dict) else {}
    hook = given.get(_ARGO_HOOK) or given.get(_HELM_HOOK, "")
    phases = [_PHASES[part.strip()] for part in hook.split(",") if part.strip() in _PHASES]
    wave = given.get(_WAVE) or (given.get(_WEIGHT) if hook else "") or "0"
    if not phases or not _INTEGER.fullmatch(wave):
        return None
    shown = f"in hook {cut(hook, _LONGEST)}" if hook else "in no hook"
    return _Step(
        (min(phases), int(wave)), f"in wave {wave}" if _WAVE in given else shown + f" ({wave})" * (wave != "0")
    )


_LONGEST: Final = 30


class _Order:
    """The classes that a change set defines once, and the dependencies of its Flux Kustomizations."""

    def __init__(self, context: Context) -> None:
        count = Counter(s.ref.name for s in context.of_kind(PRIORITY_CLASS))
        self.only = {s.ref.name: s for s in context.of_kind(PRIORITY_CLASS) if count[s.ref.name] == 1}
        self._needs: dict[str, list[str]] = {}
        self._paths: dict[str, str] = {}
        for subject in context.of_kind(FLUX_KUSTOMIZATION)[:_MAX_KUSTOMIZATIONS]:
            entries = at(subject.object, "spec", "dependsOn")
            names = [at(entry, "name") for entry in (entries if isinstance(entries, list) else ())]
            self._needs[subject.ref.name] = [name for name in names if isinstance(name, str)]
            self._paths[os.path.normpath(text_at(subject.object, "spec", "path"))] = subject.ref.name

    def depends(self, definition: ReviewedObject, subject: ReviewedObject) -> str:
        """`a depends on b` if the Kustomization of the class is applied after the one of the Pods; otherwise ""."""
        one, other = self._of(definition), self._of(subject)
        to_do, seen = [one] if one and other and one != other else [], set[str]()
        while to_do:
            current = to_do.pop()
            if current == other:
                return f"{cut(one, _LONGEST)} depends on {cut(other, _LONGEST)}"
            if current not in seen:
                seen.add(current)
                to_do += self._needs.get(current, ())
        return ""

    def _of(self, subject: ReviewedObject) -> str:
        """The Kustomization with the longest path that contains the file of an object; "" for none."""
        directory = f"/{os.path.dirname(os.path.normpath(subject.locate(()).file))}/" if self._paths else ""
        paths = [path for path in self._paths if path != os.curdir and f"/{path}/" in directory]
        return self._paths[max(paths, key=len)] if paths else ""


_MAX_KUSTOMIZATIONS: Final = 200
