"""The clusters to which a GitOps repository deploys a directory: Applications of Argo CD, Kustomizations of Flux.

- Argo CD: `spec.source(s)[].path` goes to `spec.destination.name`, or to the name in front of the first dot of the
server's host; of an ApplicationSet for each element of its list generators.
- Flux: `spec.path` goes to the cluster that is named by a directory of the Kustomization's file, as in
`clusters/prod/apps.yaml`.

Source: argo-cd pkg/apis/application/v1alpha1/types.go; fluxcd kustomize-controller api/v1/kustomization_types.go.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from forewarn.policies.inputs.manifests.deploy_order import FluxOrder
from forewarn.policies.inputs.manifests.documents import Fault
from forewarn.policies.inputs.manifests.object_finder import items_of
from forewarn.policies.inputs.manifests.reading import readable_values, scalars_in, values
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.objects.fields import OBJECT, ApiObject, at, group_kind, list_at, text_at

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path

NAMED_IN: Final = (b"argoproj.io/", b"kustomize.toolkit.fluxcd.io/")
"""Each file that `deployed` reads contains one of these texts."""


class Deployed(NamedTuple):
    """How a repository is deployed. `clusters`: directory -> its clusters. `order`: of its Flux Kustomizations.

    `namespaces`: directory -> namespaces of its objects, and whether they replace those in manifests, as with Flux.
    """

    clusters: Mapping[str, set[str]]
    namespaces: Mapping[str, set[tuple[str, bool]]]
    order: FluxOrder

    def namespace(self, obj: ApiObject, directory: str, default: str) -> str:
        """Return the namespace of a namespaced object. `default`: without a tool that knows it."""
        namespaces = nearest(directory, self.namespaces) or set()
        target, overrides = next(iter(namespaces)) if len(namespaces) == 1 else ("", False)
        given = text_at(obj, "metadata", "namespace")
        return target if overrides else target or default if given in ("", registry.RELEASE_NAMESPACE) else given


def deployed(files: Iterable[tuple[str, bytes]], clusters: Collection[str]) -> Deployed:
    """Return how files are deployed to `clusters`. `files`: relative paths and contents."""
    places, namespaces = defaultdict[str, set[str]](set), defaultdict[str, set[tuple[str, bool]]](set)
    kustomizations: list[ApiObject] = []
    relevant = ((path, content) for path, content in files if any(name in content for name in NAMED_IN))
    objects = ((path, obj) for path, content in relevant for obj in _objects(path, content))
    for path, obj in objects:
        is_of_flux = group_kind(obj) == registry.FLUX_KUSTOMIZATION
        if is_of_flux:
            kustomizations.append(obj)
        for target in islice(_object_targets(obj, path), _MAX_TARGETS):
            directory = posixpath.normpath(target.directory.lstrip("/"))
            if names := target.clusters.intersection(clusters):
                places[directory] |= names
            if target.namespace:
                namespaces[directory].add((target.namespace, is_of_flux))
    return Deployed(places, namespaces, FluxOrder(kustomizations))


class _Target(NamedTuple):
    directory: str
    clusters: set[str]
    namespace: str


def _objects(path: str, content: bytes) -> Iterator[ApiObject]:
    with suppress(Fault):  # the comparison reports the error
        for value in values(content, path):
            if isinstance(value.value, OBJECT) and isinstance(value.value.get("spec"), OBJECT):
                yield value.value


def directories_in(content: bytes, path: str) -> Iterator[str]:
    """Yield the directories that DEPLOYERS in a file name, unchanged; they may belong to another repository."""
    if not (_MAY_NAME_DIRECTORY.search(content) or (b"argoproj.io" in content and b"path" in content)):
        return
    for value in readable_values(content, path):
        for obj in items_of(value) or [value]:
            if isinstance(obj, OBJECT) and isinstance(obj.get("spec"), OBJECT):
                yield from islice(_paths_in(obj), _MAX_TARGETS)


def _paths_in(obj: ApiObject) -> Iterator[str]:
    kind, spec = group_kind(obj), obj["spec"]
    if kind == registry.HELM_RELEASE:
        yield text_at(spec, "chart", "spec", "chart")
    elif kind in (registry.APPLICATION, registry.APPLICATION_SET):
        for keys, text in scalars_in(spec, _MAX_SCALARS):
            names = [key for key in keys if isinstance(key, str)]
            if names[-1] == "path" and isinstance(text, str) and {*names}.intersection(_SOURCES):
                yield text


def releases_in(obj: ApiObject) -> Iterator[tuple[str, Path]]:
    """Yield the directory of each chart that an object of Argo CD or Flux deploys, as it names it, and the path of its
    field with the settings of Helm.
    """
    kind = group_kind(obj)
    if kind == registry.HELM_RELEASE:
        yield text_at(obj, "spec", "chart", "spec", "chart"), ("spec",)
    elif kind in (registry.APPLICATION, registry.APPLICATION_SET):
        spec: Path = ("spec",) if kind == registry.APPLICATION else ("spec", "template", "spec")
        count = len(list_at(obj, *spec, "sources")[:_MAX_TARGETS])
        for source in ((*spec, "source"), *((*spec, "sources", number) for number in range(count))):
            yield text_at(obj, *source, "path"), (*source, "helm")


def fixed_directory(path: str) -> str | None:
    """The directory above the first pattern or parameter of a path; None for a path that begins with a parameter."""
    steps = posixpath.normpath(path.lstrip("/")).split("/")
    fixed = [*takewhile(lambda step: _PATTERN.search(step) is None, steps)]
    is_whole = steps[0].startswith(("*", "?", "["))
    return "/".join(fixed) if path and fixed and os.pardir not in fixed else os.curdir if is_whole else None


_MAY_NAME_DIRECTORY: Final = re.compile(rb"GitRepository|Bucket|\\[xuU\n]")
"""Matches in a HelmRelease whose chart is a directory, and in text with escapes, which may hide such a chart."""
_SOURCES: Final = ("source", "sources", "directories")
_PATTERN: Final = re.compile(r"[*?\[{]")
_MAX_SCALARS: Final = 100_000


def _object_targets(obj: ApiObject, path: str) -> Iterator[_Target]:
    kind, spec = group_kind(obj), obj["spec"]
    if kind == registry.APPLICATION:
        yield from _application_targets(spec, {})
    elif kind == registry.APPLICATION_SET and isinstance(spec := at(obj, "spec", "template", "spec"), OBJECT):
        for generator in list_at(obj, "spec", "generators"):
            for element in list_at(generator, "list", "elements")[:_MAX_ELEMENTS]:
                yield from _application_targets(spec, element if isinstance(element, OBJECT) else {})
    elif kind == registry.FLUX_KUSTOMIZATION and (directory := text_at(spec, "path")):
        yield _Target(directory, {*path.split("/")[:-1]}, text_at(spec, "targetNamespace"))


def _application_targets(spec: ApiObject, parameters: ApiObject) -> Iterator[_Target]:
    """Yield what an Application deploys. `parameters`: of the template of an ApplicationSet."""

    def filled(value: Any, key: str) -> str:
        return _PARAMETER.sub(
            lambda match: str(parameters.get(match[1], match[0]))[:_MAX_LENGTH], text_at(value, key)[:1_000]
        )

    destination = spec.get("destination")
    try:
        host = urlsplit(filled(destination, "server")).hostname or ""
    except ValueError:
        host = ""
    names = {filled(destination, "name"), host, host.partition(".")[0]} - {""}
    namespace = filled(destination, "namespace")
    for source in (spec.get("source"), *list_at(spec, "sources")):
        if isinstance(source, OBJECT) and (directory := filled(source, "path")):
            yield _Target(directory, names, "" if "{{" in namespace else namespace)


_PARAMETER: Final = re.compile(r"\{\{\s*\.?(\w+)\s*\}\}")
_MAX_ELEMENTS, _MAX_TARGETS = 1_000, 10_000
_MAX_LENGTH: Final = 253


_Value = TypeVar("_Value")


def nearest(directory: str, values: Mapping[str, _Value]) -> _Value | None:
    """Return the value of the directory, or of its nearest parent that has one; None if there is none."""
    steps = directory.split("/")
    for end in range(len(steps), 0, -1):
        if (names := values.get("/".join(steps[:end]))) is not None:
            return names
    return values.get(".")
