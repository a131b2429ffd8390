"""The clusters to which a GitOps repository deploys a directory: Applications of Argo CD, Kustomizations of Flux.

- Argo CD: `spec.source(s)[].path` goes to `spec.destination.name`, or to the name in front of the first dot of the
server's host; of an ApplicationSet for each element of its list generators.
- Flux: `spec.path` goes to the cluster that is named by a directory of the Kustomization's file, as in
`clusters/prod/apps.yaml`.

Source: argo-cd pkg/apis/application/v1alpha1/types.go; fluxcd kustomize-controller api/v1/kustomization_types.go.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from forewarn.policies.kinds.registry import FLUX_KUSTOMIZATION, RELEASE_NAMESPACE
from forewarn.policies.manifests.deploy_order import FluxOrder
from forewarn.policies.manifests.documents import Fault
from forewarn.policies.manifests.values import values
from forewarn.policies.objects.fields import OBJECT, ApiObject, at, group_kind, list_at, text_at

NAMED_IN: Final = (b"argoproj.io/", b"kustomize.toolkit.fluxcd.io/")
"""Texts in every file that `destinations` reads."""
_APPLICATION_SET: Final = "argoproj.io/ApplicationSet"


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
        return target if overrides else target or default if given in ("", RELEASE_NAMESPACE) else given


def deployed(files: Iterable[tuple[str, bytes]], clusters: Collection[str]) -> Deployed:
    """Return how files are deployed to `clusters`. `files`: relative paths and contents."""
    places, namespaces = defaultdict[str, set[str]](set), defaultdict[str, set[tuple[str, bool]]](set)
    kustomizations: list[ApiObject] = []
    for path, content in files:
        if any(name in content for name in NAMED_IN):
            for obj in _objects(path, content):
                is_of_flux = group_kind(obj) == FLUX_KUSTOMIZATION
                if is_of_flux:
                    kustomizations.append(obj)
                for target in islice(_of_object(obj, path), _MAX_TARGETS):
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
    with suppress(Fault):  # the comparison names it
        for value in values(content, path):
            if isinstance(value.value, OBJECT) and isinstance(value.value.get("spec"), OBJECT):
                yield value.value


def _of_object(obj: ApiObject, path: str) -> Iterator[_Target]:
    kind, spec = group_kind(obj), obj["spec"]
    if kind == "argoproj.io/Application":
        yield from _of_application(spec, {})
    elif kind == _APPLICATION_SET and isinstance(spec := at(obj, "spec", "template", "spec"), OBJECT):
        for generator in list_at(obj, "spec", "generators"):
            for element in list_at(generator, "list", "elements")[:_MAX_ELEMENTS]:
                yield from _of_application(spec, element if isinstance(element, OBJECT) else {})
    elif kind == FLUX_KUSTOMIZATION and (directory := text_at(spec, "path")):
        yield _Target(directory, {*path.split("/")[:-1]}, text_at(spec, "targetNamespace"))


def _of_application(spec: ApiObject, parameters: ApiObject) -> Iterator[_Target]:
    """`parameters`: of the template of an ApplicationSet."""

    def filled(value: Any, key: str) -> str:
        return _PARAMETER.sub(
            lambda match: str(parameters.get(match[1], match[0]))[:_LONGEST], text_at(value, key)[:1_000]
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
_LONGEST: Final = 253


_Value = TypeVar("_Value")


def nearest(directory: str, values: Mapping[str, _Value]) -> _Value | None:
    """Return the value of the directory, or of the nearest one above it; None if there is none."""
    steps = directory.split("/")
    for end in range(len(steps), 0, -1):
        if (names := values.get("/".join(steps[:end]))) is not None:
            return names
    return values.get(".")
