"""Finds files of the checked directories that kustomize, Argo CD or Flux deploys, whatever their names and places are.

A directory of Argo CD counts with those below, as if it were recursive.

Sources: kustomize api/internal/target/kusttarget.go; argo-cd reposerver/repository/repository.go, findManifests; fluxcd
pkg/kustomize, generator.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from forewarn.policies.inputs.manifests.kustomizations import KUSTOMIZATIONS, MAX_NAMED, Kustomization
from forewarn.policies.inputs.sources.files import OUTSIDE, TEST_DATA, File, SourceError, find_files, readable
from forewarn.policies.inputs.sources.git import upwards, work_trees
from forewarn.policies.linting.lint.assertions import ASSERTION
from forewarn.policies.linting.lint.input import SUFFIXES, TEMPLATE, UNTYPED, Input, LintRequest

ELSEWHERE: Final = "file or directory of a kustomization outside of the checked directories"
REMOTE: Final = "remote resource of a kustomization"
_BY_CONTENT: Final = (ASSERTION, TEMPLATE, TEST_DATA, UNTYPED)
"""Reasons for which files are skipped although a tool may deploy them."""


_YAML: Final = (".yaml", ".yml")
"""Suffixes of the files from which Flux generates a kustomization."""


class _Root(NamedTuple):
    """A checked directory: as given, its real path, and the top of its repository."""

    given: str
    real: str
    top: str

    def shown(self, real: str) -> str:
        """The path of a real path below the directory, as in reports."""
        return os.path.join(self.given, real[len(self.real) :].lstrip(os.sep)) if real != self.real else self.given


def deployed_files(files: Input, request: LintRequest) -> Iterator[File]:
    """Yield the files that tools deploy and that were not read. The caller must read each file before it takes the
    next one, because it may be a kustomization, which names others.
    """
    roots, read = _roots(request.paths), set[str]()
    for number, path in enumerate(_Named(files, request, roots).files() if roots else ()):
        if number == MAX_NAMED:
            problem = f"kustomizations name more than {MAX_NAMED:,} files. Fix: check fewer directories"
            files.unreadable.append(SourceError("", problem))
            return
        if path in files.sources:
            continue
        if not read:
            failed = (fault.file for fault in files.unreadable if isinstance(fault, SourceError))
            read = set(map(files.real_path, (*failed, *(file.path for file in files.sources.values()))))
        if (real := files.real_path(path)) in read:
            continue
        read.add(real)
        root = next((root for root in roots if is_below(real, root.real)), None)
        if root is None:
            files.leave_out(path, OUTSIDE)
        else:
            yield File(path, root.given)


def _roots(paths: Sequence[str]) -> list[_Root]:
    reals = {os.path.realpath(path): path for path in paths if os.path.isdir(path)}
    return [_Root(path, real, next(work_trees(real), real)) for real, path in reals.items()]


class _Named:
    """Finds the files that kustomizations and deployments name, including those read during the iteration."""

    def __init__(self, files: Input, request: LintRequest, roots: Sequence[_Root]) -> None:
        self._given, self._request, self._roots = files, request, roots
        self._left_out = {os.path.realpath(path) for path, what in files.left_out.items() if what in _BY_CONTENT}
        self._above = {above for path in self._left_out for above in upwards(path)}
        self._seen = set[str]()
        """The deployed directories."""

    def files(self) -> Iterator[str]:
        """Yield the paths of the files."""
        kustomizations, deployments = self._given.kustomizations, self._given.deployments
        number = of_kustomizations = 0
        while of_kustomizations < len(kustomizations) or number < len(deployments):
            if of_kustomizations < len(kustomizations):
                yield from self._kustomization_files(kustomizations[of_kustomizations])
                of_kustomizations += 1
            else:
                if self._left_out:
                    yield from self._deployment_files(deployments[number])
                number += 1

    def _kustomization_files(self, kustomization: Kustomization) -> Iterator[str]:
        for address in kustomization.remotes:
            self._given.leave_out(address, REMOTE)
        for path in (*kustomization.resources, *kustomization.patches):
            root = next((root for root in self._roots if is_below(path, root.real)), None)
            if root is None:
                if os.path.exists(path):
                    self._given.leave_out(os.path.relpath(path), ELSEWHERE)
                continue
            shown = root.shown(path)
            if shown in self._given.sources or os.path.join(shown, KUSTOMIZATIONS[0]) in self._given.sources:
                continue
            if os.path.isdir(path):
                yield from _kustomizations(shown)
            elif os.path.isfile(path):
                yield shown

    def _deployment_files(self, deployment: str | File) -> Iterator[str]:
        from forewarn.policies.inputs.manifests.destinations import fixed_directory

        directories = {directory for path in paths_of(deployment) if (directory := fixed_directory(path)) is not None}
        for directory in sorted(directories - self._seen):
            self._seen.add(directory)
            for root in self._roots:
                path = os.path.join(root.top, directory)
                path = os.path.realpath(path) if os.path.isdir(path) else ""  # may contain null bytes or surrogates
                path = root.real if path and is_below(root.real, path) else path
                if is_below(path, root.real) and self._lacks(path):
                    yield from self._directory_files(
                        root.shown(path), SUFFIXES if isinstance(deployment, File) else _YAML
                    )

    def _lacks(self, directory: str) -> bool:
        """Report whether a skipped file or directory is within a directory (a real path), or contains it."""
        return directory in self._above or not self._left_out.isdisjoint(upwards(directory))

    def _directory_files(self, directory: str, suffixes: tuple[str, ...]) -> Iterator[str]:
        """Yield the kustomization of a directory; if there is none, all manifests in the directory and below."""
        if names := _kustomizations(directory):
            yield from names
            return
        as_git = self._request.gitignore
        for file in find_files([directory], suffixes, self._given.leave_out, as_git=as_git, deployed=True):
            yield file.path


def paths_of(deployment: str | File) -> Iterator[str]:
    """Yield the directories that an object of Argo CD or Flux names; a file may have several objects."""
    if isinstance(deployment, str):
        yield deployment
        return
    from forewarn.policies.inputs.manifests.destinations import directories_in

    yield from directories_in(readable(deployment), deployment.path)


def _kustomizations(directory: str) -> list[str]:
    paths = (os.path.join(directory, name) for name in KUSTOMIZATIONS)
    return [path for path in paths if os.path.isfile(path)]


def is_below(path: str, directory: str) -> bool:
    """Report whether a real path is the directory or is within it."""
    return path == directory or path.startswith(os.path.join(directory, ""))
