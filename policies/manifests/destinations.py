"""The clusters to which a GitOps repository deploys a directory: Applications of Argo CD, Kustomizations of Flux.

- Argo CD: `spec.source(s)[].path` goes to `spec.destination.name`, or to the name in front of the first dot of the
server's host.
- Flux: `spec.path` goes to the cluster that is named by a directory of the Kustomization's file, as in
`clusters/prod/apps.yaml`.

Source: argo-cd pkg/apis/application/v1alpha1/types.go; fluxcd kustomize-controller api/v1/kustomization_types.go.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from forewarn.policies.manifests.documents import Fault
from forewarn.policies.manifests.values import values
from forewarn.policies.objects.fields import OBJECT, group_kind, text_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from forewarn.policies.objects.fields import ApiObject

NAMED_IN: Final = (b"argoproj.io/", b"kustomize.toolkit.fluxcd.io/")
"""Texts in every file that `destinations` reads."""
_APPLICATION: Final = "argoproj.io/Application"
_KUSTOMIZATION: Final = "kustomize.toolkit.fluxcd.io/Kustomization"


def destinations(files: Iterable[tuple[str, bytes]], clusters: Collection[str]) -> dict[str, set[str]]:
    """Return directory -> the clusters among `clusters` to which the directory is deployed.

    `files`: relative paths and contents.
    """
    found: dict[str, set[str]] = {}
    for path, content in files:
        if any(name in content for name in NAMED_IN):
            for directory, cluster in _of_file(path, content, clusters):
                found.setdefault(directory, set()).add(cluster)
    return found


def _of_file(path: str, content: bytes, clusters: Collection[str]) -> Iterator[tuple[str, str]]:
    try:
        objects = [value.value for value in values(content, path)]
    except Fault:
        return
    for obj in objects:
        spec = obj.get("spec") if isinstance(obj, OBJECT) else None
        if not isinstance(spec, OBJECT):
            continue
        if group_kind(obj) == _APPLICATION:
            named = _of_application(spec) & set(clusters)
            paths = [text_at(source, "path") for source in _sources(spec)]
        elif group_kind(obj) == _KUSTOMIZATION:
            named = set(path.split("/")[:-1]) & set(clusters)
            paths = [text_at(spec, "path")]
        else:
            continue
        yield from ((posixpath.normpath(place.lstrip("/")), cluster) for place in paths if place for cluster in named)


def _sources(spec: ApiObject) -> Iterator[ApiObject]:
    several = spec.get("sources")
    sources = (spec.get("source"), *(several if isinstance(several, list) else ()))
    yield from (source for source in sources if isinstance(source, OBJECT))


def _of_application(spec: ApiObject) -> set[str]:
    destination = spec.get("destination")
    if not isinstance(destination, OBJECT):
        return set()
    try:
        host = urlsplit(text_at(destination, "server")).hostname or ""
    except ValueError:
        host = ""
    return {text_at(destination, "name"), host, host.partition(".")[0]} - {""}


def clusters_of(directory: str, deployed: Mapping[str, set[str]]) -> set[str] | None:
    """Return the clusters of the nearest directory above (or of the directory itself) that is deployed; None if none
    is.
    """
    steps = directory.split("/")
    for end in range(len(steps), 0, -1):
        if (found := deployed.get("/".join(steps[:end]))) is not None:
            return found
    return deployed.get(".")
