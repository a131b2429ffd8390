"""Finds files of the checked directories that kustomize, Argo CD or Flux deploys, whatever their names and places are.

A directory of Argo CD counts with those below, as if it were recursive.

Sources: kustomize api/internal/target/kusttarget.go; argo-cd reposerver/repository/repository.go, findManifests; fluxcd
pkg/kustomize, generator.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.lint.assertions import ASSERTION
from forewarn.policies.lint.input import (
    SUFFIXES,
    TEMPLATE,
    UNTYPED,
    Input,
    LintRequest,
)
from forewarn.policies.manifests.groups import KUSTOMIZATIONS, MAX_NAMED
from forewarn.policies.sources.files import OUTSIDE, TEST_DATA, TESTS, File, SourceError, find_files, readable
from forewarn.policies.sources.git import work_trees

if TYPE_CHECKING:
    from forewarn.policies.manifests.groups import Kustomization

ELSEWHERE: Final = "file or directory of a kustomization outside of the checked directories"
REMOTE: Final = "remote resource of a kustomization"
_BY_CONTENT: Final = (ASSERTION, TEMPLATE, TESTS, TEST_DATA, UNTYPED)
"""Why files are left out that a tool may deploy all the same."""


class _Root(NamedTuple):
    """A checked directory: as given, its real path, and the top of its repository."""

    given: str
    real: str
    top: str

    def shown(self, real: str) -> str:
        """The path of a real path below the directory, as in reports."""
        return os.path.join(self.given, real[len(self.real) :].lstrip(os.sep)) if real != self.real else self.given


def deployed_files(given: Input, request: LintRequest) -> Iterator[File]:
    """Yield the files that tools deploy and that were not read. Each must be read before the next is asked for: it
    may be a kustomization, which names others.
    """
    reals = {os.path.realpath(path): path for path in request.paths if os.path.isdir(path)}
    roots = [_Root(path, real, next(work_trees(real), real)) for real, path in reals.items()]
    read = set[str]()
    for number, path in enumerate(_named(given, roots, request)):
        if number == MAX_NAMED:
            problem = f"kustomizations name more than {MAX_NAMED:,} files. Fix: check fewer directories"
            given.unreadable.append(SourceError("", problem))
            return
        if path in given.sources:
            continue
        read = read or {os.path.realpath(file.path) for file in given.sources.values()}
        if (real := os.path.realpath(path)) in read:
            continue
        read.add(real)
        root = next((root for root in roots if _is_below(real, root.real)), None)
        if root is None:
            given.leave_out(path, OUTSIDE)
        else:
            yield File(path, root.given)


def _named(given: Input, roots: Sequence[_Root], request: LintRequest) -> Iterator[str]:
    """Yield the files that kustomizations and deployments name, also those that are read meanwhile."""
    kustomizations = deployments = 0
    left_out = [os.path.realpath(path) for path, what in given.left_out.items() if what in _BY_CONTENT]
    while roots and (kustomizations < len(given.kustomizations) or deployments < len(given.deployments)):
        if kustomizations < len(given.kustomizations):
            kustomization = given.kustomizations[kustomizations]
            for address in kustomization.remotes if request.rendering is None else ():
                given.leave_out(address, REMOTE)
            yield from _of_kustomization(kustomization, roots, given)
            kustomizations += 1
        else:
            if left_out:
                yield from _of_deployment(given.deployments[deployments], left_out, roots, given, request)
            deployments += 1


def _of_kustomization(kustomization: Kustomization, roots: Sequence[_Root], given: Input) -> Iterator[str]:
    for path in (*kustomization.resources, *kustomization.patches):
        root = next((root for root in roots if _is_below(path, root.real)), None)
        if root is None:
            if os.path.exists(path):
                given.leave_out(os.path.relpath(path), ELSEWHERE)
            continue
        shown = root.shown(path)
        if shown in given.sources or os.path.join(shown, KUSTOMIZATIONS[0]) in given.sources:
            continue
        if os.path.isdir(path):
            yield from _kustomizations(shown)
        elif os.path.isfile(path):
            yield shown


def _of_deployment(
    deployment: str | File, left_out: Sequence[str], roots: Sequence[_Root], given: Input, request: LintRequest
) -> Iterator[str]:
    from forewarn.policies.manifests.destinations import fixed_directory

    paths = map(fixed_directory, _paths_of(deployment))
    for directory in dict.fromkeys(path for path in paths if path is not None):
        for root in roots:
            path = os.path.realpath(os.path.join(root.top, directory))
            path = root.real if _is_below(root.real, path) else path
            if not _is_below(path, root.real) or not os.path.isdir(path):
                continue
            if any(_is_below(other, path) or _is_below(path, other) for other in left_out):
                yield from _in_directory(root.shown(path), given, request)


def _paths_of(deployment: str | File) -> Iterator[str]:
    if isinstance(deployment, str):
        yield deployment
        return
    from forewarn.policies.manifests.destinations import directories_in

    yield from directories_in(readable(deployment), deployment.path)


def _in_directory(directory: str, given: Input, request: LintRequest) -> Iterator[str]:
    """Yield the kustomization of a directory; without one, all manifests in it and below."""
    if names := _kustomizations(directory):
        yield from names
        return
    for file in find_files([directory], SUFFIXES, given.leave_out, as_git=request.gitignore, deployed=True):
        yield file.path


def _kustomizations(directory: str) -> list[str]:
    paths = (os.path.join(directory, name) for name in KUSTOMIZATIONS)
    return [path for path in paths if os.path.isfile(path)]


def _is_below(path: str, directory: str) -> bool:
    """Report whether a real path is a directory, or in it."""
    return path == directory or path.startswith(os.path.join(directory, ""))
