"""Groups of manifests without a kustomization: subsets of the directories that may form the content of one cluster."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from forewarn.policies.manifests.members import (
    CLUSTER_SCOPED,
    DEFINITIONS,
    LIMITS,
    MAX_PAIRS,
    SHARED,
    Group,
    Identity,
    Member,
    group_of,
)
from forewarn.policies.objects.fields import group_kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


_MAX_DEFINITIONS: Final = 1_000_000
"""Maximum number of limits and definitions that subdirectories see, so that no class is reported as missing."""


class Tree:
    """Files by directory. A branch is a directory whose objects form a group, separate from its siblings."""

    def __init__(self, members: Sequence[Member], *, limits_stay: bool) -> None:
        self._members = members
        self._chains: dict[str, tuple[str, ...]] = {}
        self.alternatives = self._alternatives()
        self._branches = {*self.alternatives, *(self._limited() if limits_stay else ())}
        self.unseen = 0
        """Definitions that not every branch sees which should; known when all groups were asked for."""

    def _alternatives(self) -> dict[str, set[int]]:
        """Return the directories that define the same objects as others, each with the numbers of these objects.

        Example: the same Deployment in an overlay for production and in one for staging. A class of a shared base is
        the same in all overlays, so it makes no alternatives.
        """
        homes: dict[Identity, dict[str, int]] = defaultdict(dict)
        for member in self._members:
            if member.identity[2] and member.reported:
                homes[member.identity][member.directory] = id(member.subject)
        found: dict[str, set[int]] = defaultdict(set)
        for number, (identity, places) in enumerate(homes.items()):
            if len(places) > 1 and (identity[1] or len({*places.values()}) > 1):
                for branch in _distinguishing({*places}):
                    found[branch].add(number)
        return found

    def _limited(self) -> Iterator[str]:
        """Yield the directories, except the topmost, that contain a ResourceQuota or LimitRange without a namespace."""
        top = _common({m.directory for m in self._members})
        for member in self._members:
            is_limit = group_kind(member.subject.object) in LIMITS
            if is_limit and not member.names_its_namespace and member.directory != top:
                yield member.directory

    def groups(self) -> Iterator[Group]:
        """Yield the groups: the shared objects first, then those of each branch."""
        chains: dict[str, tuple[str, ...]] = {}
        found: dict[str, dict[int, Member]] = defaultdict(dict)
        for member in self._members:
            chain = self._chain(member.directory)
            branch = chain[-1] if chain else SHARED
            chains[branch] = chain
            found[branch].setdefault(id(member.subject), member)  # overlays may bring the same object of a base
        by_branch = {branch: list(own.values()) for branch, own in found.items()}
        above = _affordable(by_branch, chains)
        wide = _Wide(self.alternatives)
        for branch, own in by_branch.items():
            wide.add(chains[branch], self._wide(chains[branch], own))
        far = len(by_branch) * max(wide.count, 1) <= _MAX_DEFINITIONS
        hidden = not far or (len(by_branch) > 1 and above is _NOTHING)
        self.unseen = wide.count if hidden else 0
        for branch, own in by_branch.items():
            chain = chains[branch]
            context = [m for outer in (SHARED, *chain)[: len(chain)] for m in above.get(outer, ())]
            redefined = {m.identity for m in own}
            context = [m for m in context if m.identity not in redefined]
            redefined.update(m.identity for m in context)
            others = wide.visible(chain) if far and len(by_branch) > 1 else {}
            yield group_of(branch, own, [*(m for key, m in others.items() if key not in redefined), *context])

    def _wide(self, chain: tuple[str, ...], own: Sequence[Member]) -> list[Member]:
        """Return the definitions of a branch that apply to the whole cluster.

        Quotas of alternatives only apply to their own environment.
        """
        kinds = CLUSTER_SCOPED if self.alternatives.keys() & chain else (*CLUSTER_SCOPED, *LIMITS)
        return [m for m in own if m.identity[0] in kinds and (m.identity[0] not in LIMITS or m.names_its_namespace)]

    def _chain(self, directory: str) -> tuple[str, ...]:
        """Return the branches that contain a directory, the outermost first. Directories may be thousands of levels
        deep.
        """
        way = []
        while directory not in self._chains:
            way.append(directory)
            parent = os.path.dirname(directory)
            if parent == directory:
                break
            directory = parent
        chain = self._chains.get(directory, ())
        for below in reversed(way):
            chain = (*chain, below) if below in self._branches else chain
            self._chains[below] = chain
        return chain


class _Wide:
    """Definitions for the whole cluster, and the branches that see them. Sets are integers with one bit for each
    source.

    A branch sees all definitions except those of its alternatives: directories that define the same objects.
    Alternatives are never nested.
    """

    def __init__(self, alternatives: Mapping[str, set[int]]) -> None:
        self._alternatives = alternatives
        self._sources: list[list[Member]] = []
        self._below: dict[str, int] = defaultdict(int)
        """Alternative -> the sources in it."""
        self._defining: dict[int, int] = defaultdict(int)
        """Number of an object -> the sources in the alternatives that define it."""
        self.count = 0

    def add(self, chain: tuple[str, ...], definitions: Sequence[Member]) -> None:
        """Add the definitions of a branch. `chain`: the branches that contain it.

        Definitions whose findings are not reported, such as those of `--definitions`, are visible in all branches.
        """
        self.count += len(definitions)
        for reported in (True, False):
            if found := [m for m in definitions if m.reported is reported]:
                self._sources.append(found)
                if reported:
                    self._add_to_alternatives(chain, 1 << (len(self._sources) - 1))

    def _add_to_alternatives(self, chain: tuple[str, ...], bit: int) -> None:
        for branch in chain:
            if branch in self._alternatives:
                self._below[branch] |= bit
                for number in self._alternatives[branch]:
                    self._defining[number] |= bit

    def visible(self, chain: tuple[str, ...]) -> dict[Identity, Member]:
        """Return the definitions that a branch sees; the first one for each object."""
        left = (1 << len(self._sources)) - 1
        for branch in chain:
            if branch in self._alternatives:
                conflicting = 0
                for number in self._alternatives[branch]:
                    conflicting |= self._defining[number]
                left &= ~conflicting | self._below[branch]
        found: dict[Identity, Member] = {}
        while left:
            lowest = left & -left
            for member in self._sources[lowest.bit_length() - 1]:
                found.setdefault(member.identity, member)
            left ^= lowest
        return found


_NOTHING: Final[dict[str, Sequence[Member]]] = {}


def _affordable(
    by_branch: Mapping[str, Sequence[Member]], chains: Mapping[str, tuple[str, ...]]
) -> Mapping[str, Sequence[Member]]:
    """Return the objects of each branch that its subdirectories see: all, only limits and definitions, or none.

    The choice depends on the number of objects, which must stay bounded.
    """
    definitions = {branch: [m for m in own if m.identity[0] in DEFINITIONS] for branch, own in by_branch.items()}
    for seen, most in ((by_branch, MAX_PAIRS), (definitions, _MAX_DEFINITIONS)):
        sizes = {branch: len(found) for branch, found in seen.items()}
        if sum(sizes.get(outer, 0) for chain in chains.values() for outer in (SHARED, *chain)[: len(chain)]) <= most:
            return seen
    return _NOTHING


def _common(directories: Iterable[str]) -> str:
    """Return the common parent directory, which may be one of the directories; "" if relative and absolute paths are
    mixed.
    """
    known = list(directories)
    if len({os.path.isabs(path) for path in known}) > 1:
        return ""
    return os.path.commonpath(known) if known else ""


def _distinguishing(directories: set[str]) -> Iterator[str]:
    """Yield the directories at which the paths to these directories diverge; these are alternatives of each other."""
    common = _common(directories)
    for directory in directories:
        if directory != common:
            rest = os.path.relpath(directory, common or os.curdir) if common else directory
            first = rest.split(os.sep, 2)
            step = os.sep + first[1] if not common and rest.startswith(os.sep) else first[0]
            yield os.path.join(common, step) if common else step
