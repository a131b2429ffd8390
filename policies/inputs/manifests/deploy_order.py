"""The order in which Helm, Argo CD and Flux apply objects: hooks, weights, waves, and dependencies of Kustomizations.

Sources: helm pkg/action/hooks.go; argo-cd docs/user-guide/sync-waves.md and gitops-engine pkg/sync/hook; fluxcd
kustomize-controller docs/spec/v1/kustomizations.md, `dependsOn`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from itertools import islice
from typing import Final

from forewarn.policies.base.findings import cut, reachable
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, list_at, mapping_at, text_at

_ARGO_HOOK, _WAVE = "argocd.argoproj.io/hook", "argocd.argoproj.io/sync-wave"
_ARGO_OPTIONS, _FLUX_FORCE = "argocd.argoproj.io/sync-options", "kustomize.toolkit.fluxcd.io/force"
_HELM_HOOK, _WEIGHT = "helm.sh/hook", "helm.sh/hook-weight"
_PHASES: Final = {"pre-install": 0, "PreSync": 0, "": 1, "Sync": 1, "post-install": 2, "PostSync": 2, "test": 3}
_OF_UPGRADE: Final = {"pre-upgrade": 0, "post-upgrade": 2, "crd-install": 0}
_INTEGER: Final = later(r"[+-]?[0-9]{1,9}")
MAX_LENGTH: Final = 30
"""Maximum characters of a name."""


class Step(NamedTuple):
    """When Helm or Argo CD creates an object: the phase, and the weight or wave in it. `shown`: the step in words."""

    key: tuple[int, int]
    shown: str


def step_of(obj: ApiObject) -> Step | None:
    """Return the step of an installation at which an object is created; None if there is none, or it is unknown."""
    annotations = _annotations(obj)
    hook, wave = _hook(annotations), _wave(annotations)
    phases = [_PHASES[part] for part in _parts(hook) if part in _PHASES]
    if not phases or not _INTEGER.fullmatch(wave):
        return None
    shown = f"in hook {cut(hook, MAX_LENGTH)}" if hook else "in no hook"
    words = f"in wave {wave}" if _WAVE in annotations else shown + f" ({wave})" * (wave != "0")
    return Step((min(phases), int(wave)), words)


def position_of(obj: ApiObject) -> tuple[int, int] | None:
    """Return the phase and the weight or wave at which an upgrade applies an object; None if it does not apply it."""
    annotations = _annotations(obj)
    wave, phases = _wave(annotations), _PHASES | _OF_UPGRADE
    steps = [phases[part] for part in _parts(_hook(annotations)) if part in phases and part != "test"]
    return (min(steps), int(wave) if _INTEGER.fullmatch(wave) else 0) if steps else None


def _annotations(obj: ApiObject) -> dict[str, str]:
    return {key: str(value) for key, value in mapping_at(obj, "metadata", "annotations").items()}


def _hook(annotations: dict[str, str]) -> str:
    return annotations.get(_ARGO_HOOK) or annotations.get(_HELM_HOOK, "")


def is_hook(obj: ApiObject) -> bool:
    """Report whether an object is a hook, which Helm or Argo CD recreates for each upgrade."""
    return bool(_hook(_annotations(obj)))


def is_recreated(obj: ApiObject) -> bool:
    """Report whether Helm, Argo CD or Flux may delete and recreate a stored object instead of updating it."""
    annotations = _annotations(obj)
    is_forced = "Force=true" in _parts(annotations.get(_ARGO_OPTIONS, ""))
    return is_hook(obj) or is_forced or annotations.get(_FLUX_FORCE, "").lower() == "enabled"


def _parts(hook: str) -> list[str]:
    return [part.strip() for part in hook.split(",")]


def _wave(annotations: dict[str, str]) -> str:
    return annotations.get(_WAVE) or (annotations.get(_WEIGHT) if _hook(annotations) else "") or "0"


class FluxOrder:
    """The dependencies of Flux Kustomizations, by name. Ignores `kustomizations` above a maximum number."""

    def __init__(self, kustomizations: Iterable[ApiObject]) -> None:
        self._needs: dict[str, list[str]] = {}
        self._paths: dict[str, str] = {}
        for obj in islice(kustomizations, _MAX_KUSTOMIZATIONS):
            name, names = text_at(obj, "metadata", "name"), [at(e, "name") for e in list_at(obj, "spec", "dependsOn")]
            self._needs[name] = [need for need in names if isinstance(need, str)]
            self._paths[os.path.normpath(text_at(obj, "spec", "path"))] = name

    def nearest(self, directory: str) -> str:
        """The name of the Kustomization whose path is the longest one within the path of a directory; "" for none."""
        within = f"/{os.path.normpath(directory)}/" if self._paths else ""
        paths = [path for path in self._paths if path != os.curdir and f"/{path}/" in within]
        return self._paths[max(paths, key=len)] if paths else ""

    def needs(self, one: str, other: str) -> bool:
        """Report whether the Kustomization `one` is applied after `other`."""
        return one != other and other in self._all_needs(one)

    def depth(self, name: str) -> int:
        """The number of Kustomizations on which one depends, also indirectly."""
        return len(self._all_needs(name) - {name})

    @cache  # noqa: B019  (as long as the order)
    def _all_needs(self, name: str) -> set[str]:
        return set(reachable(self._needs.get(name, ()), lambda current: self._needs.get(current, ())))


_MAX_KUSTOMIZATIONS: Final = 200
