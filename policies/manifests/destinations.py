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
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from forewarn.policies.kinds.registry import FLUX_KUSTOMIZATION
from forewarn.policies.manifests.deploy_order import FluxOrder
from forewarn.policies.manifests.documents import Fault
from forewarn.policies.manifests.values import values
from forewarn.policies.objects.fields import OBJECT, at, group_kind, text_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from forewarn.policies.objects.fields import ApiObject

NAMED_IN: Final = (b"argoproj.io/", b"kustomize.toolkit.fluxcd.io/")
"""Texts in every file that `destinations` reads."""
_APPLICATION: Final = "argoproj.io/Application"
_APPLICATION_SET: Final = "argoproj.io/ApplicationSet"


class Deployed(NamedTuple):
    """How a repository is deployed. `clusters`: directory -> its clusters. `order`: of its Flux Kustomizations."""

    clusters: Mapping[str, set[str]]
    order: FluxOrder


def deployed(files: Iterable[tuple[str, bytes]], clusters: Collection[str]) -> Deployed:
    """Return how files are deployed to `clusters`. `files`: relative paths and contents."""
    found: dict[str, set[str]] = {}
    kustomizations: list[ApiObject] = []
    for path, content in files:
        if any(name in content for name in NAMED_IN):
            for obj in _objects(path, content):
                if group_kind(obj) == FLUX_KUSTOMIZATION:
                    kustomizations.append(obj)
                for directory, cluster in islice(_of_object(obj, path), _MAX_PAIRS):
                    if cluster in clusters:
                        found.setdefault(posixpath.normpath(directory.lstrip("/")), set()).add(cluster)
    return Deployed(found, FluxOrder(kustomizations))


def _objects(path: str, content: bytes) -> Iterator[ApiObject]:
    with suppress(Fault):  # the comparison names it
        for value in values(content, path):
            if isinstance(value.value, OBJECT) and isinstance(value.value.get("spec"), OBJECT):
                yield value.value


def _of_object(obj: ApiObject, path: str) -> Iterator[tuple[str, str]]:
    kind, spec = group_kind(obj), obj["spec"]
    if kind == _APPLICATION:
        yield from _of_application(spec, {})
    elif kind == _APPLICATION_SET and isinstance(spec := at(obj, "spec", "template", "spec"), OBJECT):
        generators = at(obj, "spec", "generators")
        for generator in generators if isinstance(generators, list) else ():
            elements = at(generator, "list", "elements")
            for element in islice(elements if isinstance(elements, list) else (), _MAX_ELEMENTS):
                yield from _of_application(spec, element if isinstance(element, OBJECT) else {})
    elif kind == FLUX_KUSTOMIZATION and (directory := text_at(spec, "path")):
        yield from ((directory, step) for step in path.split("/")[:-1])


def _sources(spec: ApiObject) -> Iterator[ApiObject]:
    several = spec.get("sources")
    sources = (spec.get("source"), *(several if isinstance(several, list) else ()))
    yield from (source for source in sources if isinstance(source, OBJECT))


def _of_application(spec: ApiObject, parameters: ApiObject) -> Iterator[tuple[str, str]]:
    """Yield directories and clusters. `parameters`: of the template of an ApplicationSet."""

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
    for source in _sources(spec) if names else ():
        if directory := filled(source, "path"):
            yield from ((directory, name) for name in names)


_PARAMETER: Final = re.compile(r"\{\{\s*\.?(\w+)\s*\}\}")
_MAX_ELEMENTS, _MAX_PAIRS = 1_000, 10_000
_LONGEST: Final = 253


def clusters_of(directory: str, deployed: Mapping[str, set[str]]) -> set[str] | None:
    """Return the clusters of the nearest directory above (or of the directory itself) that is deployed; None if none
    is.
    """
    steps = directory.split("/")
    for end in range(len(steps), 0, -1):
        if (found := deployed.get("/".join(steps[:end]))) is not None:
            return found
    return deployed.get(".")
