"""Which of the objects in a tree of files come together in one apply.

A repository is not one apply: it holds the same objects for production and for staging, examples that were never meant
to stand side by side, and bases that only count through an overlay.

- A kustomization that no other one names is a group: the files that it reaches, in its namespace.
- Directories that define the same object are alternatives: each is judged with what they share, not with each other.
- A quota without a namespace is meant for its own directory and what is below.
- Configuration may name groups; their files are in no other one.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.kinds import CLAIM, LIMIT_RANGE, NAMESPACE, PRIORITY_CLASS, RESOURCE_QUOTA
from policies.objects.fields import group_kind
from policies.objects.reviewed_object import Operation, ReviewedObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.options import NamedGroup

CLASSES: Final = (PRIORITY_CLASS, NAMESPACE)
"""What an object may refer to wherever it is defined."""
_LIMITS: Final = (RESOURCE_QUOTA, LIMIT_RANGE)
_DEFINITIONS: Final = frozenset((*CLASSES, *_LIMITS, CLAIM))
_MOST_PAIRS: Final = 300_000
"""Objects that all groups together have besides their own: of more, only what limits and defines counts."""
_MOST_DEFINITIONS: Final = 4_000_000
"""The same of what limits and defines: a class that is not seen would be told to be missing."""


_SHARED: Final = ""
"""The branch of what is in none."""


class Member(NamedTuple):
    """An object and the file that it stands in. `reported`: whether findings on it are wanted, or it is context."""

    subject: ReviewedObject
    file: str
    reported: bool = True

    @property
    def directory(self) -> str:
        """Where the file is; empty for standard input."""
        return os.path.dirname(os.path.normpath(self.file))

    @property
    def identity(self) -> tuple[str, str, str]:
        """Kind, namespace and name: of two objects with the same, the later one replaces the earlier one."""
        return group_kind(self.subject.object), self.subject.ref.namespace, self.subject.ref.name


class Kustomization(NamedTuple):
    """What a kustomization.yaml says of its directory: `resources` and `patches` as real paths."""

    directory: str
    resources: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    namespace: str = ""


class Group(NamedTuple):
    """One apply: its objects in order, and those that findings are wanted of. `name`: its own, or its directory's."""

    name: str
    subjects: tuple[ReviewedObject, ...]
    judged: tuple[ReviewedObject, ...]


class Grouping(NamedTuple):
    """All groups. `alternatives`: directories that define the same objects. `patches`: how many objects are patches.

    `apart`: kustomizations that were not put together, as all of them hold too much. `unseen`: how many classes and
    namespaces directories do not see of one another, as all of them together would be too many.
    """

    groups: tuple[Group, ...]
    alternatives: tuple[str, ...] = ()
    patches: int = 0
    apart: int = 0
    unseen: int = 0


def grouped(
    members: Sequence[Member],
    kustomizations: Iterable[Kustomization] = (),
    named: Iterable[NamedGroup] = (),
    *,
    limits_stay: bool = True,
) -> Grouping:
    """The groups of a tree. `limits_stay`: a quota without a namespace is for its own directory."""
    groups: list[Group] = []
    rest = list(members)
    for spec in named:
        own = [m for m in members if any(matches(m.file, pattern) for pattern in spec.paths)]
        groups.append(_group(spec.name, own))
        taken = {id(m.subject) for m in own}
        rest = [m for m in rest if id(m.subject) not in taken]
    rest, patches, apart = _kustomized(rest, {k.directory: k for k in kustomizations}, groups)
    tree = _Tree(rest, limits_stay=limits_stay)
    groups += tree.groups()
    judged = tuple(group for group in groups if group.judged)
    return Grouping(judged, tuple(sorted(tree.alternatives)), patches, apart, tree.unseen)


def matches(file: str, pattern: str) -> bool:
    """Whether the path of a file, or that from the working directory, is as a shell pattern has it."""
    path = os.path.normpath(file)
    return fnmatchcase(path, pattern) or fnmatchcase(os.path.relpath(path), pattern)


def _group(name: str, members: Sequence[Member], context: Sequence[Member] = ()) -> Group:
    subjects = in_order([*context, *members])
    reported = {id(m.subject) for m in members if m.reported}
    judged = tuple(new for old, new in subjects if id(old) in reported)
    return Group(name, tuple(new for _, new in subjects), judged)


def in_order(members: Sequence[Member]) -> list[tuple[ReviewedObject, ReviewedObject]]:
    """The subjects, each beside what it is in this order: an update where the same object stands before it."""
    last: dict[tuple[str, str, str], ReviewedObject] = {}
    found = []
    for member in members:
        subject, identity = member.subject, member.identity
        before = last.get(identity) if identity[2] and not identity[2].endswith("*") else None
        if before is not None and subject.old is None:
            subject = subject._replace(operation=Operation.UPDATE, old=before.object)
        last[identity] = subject
        found.append((member.subject, subject))
    return found


def _kustomized(
    members: list[Member], known: Mapping[str, Kustomization], groups: list[Group]
) -> tuple[list[Member], int, int]:
    """Adds a group for each kustomization that is nobody's base, as many as can be.

    The members that none of them reaches, how many patch, and how many kustomizations there is no group for.
    """
    if not known:
        return members, 0, 0
    by_file: dict[str, list[Member]] = defaultdict(list)
    real = {file: os.path.realpath(file) for file in {member.file for member in members}}
    for member in members:
        by_file[real[member.file]].append(member)
    bases = {path for k in known.values() for path in k.resources}
    patches = {path for k in known.values() for path in k.patches} & by_file.keys()
    taken: set[str] = set(patches)
    left, apart = _MOST_PAIRS + len(members), 0
    for directory, kustomization in known.items():
        if directory in bases:
            continue
        files, steps = _reached(directory, known, by_file, left)
        left -= steps
        if left < 0:
            apart += 1
            continue
        taken.update(files)
        own = [_into(m, kustomization.namespace) for f in files if f not in patches for m in by_file[f]]
        groups.append(_group(os.path.relpath(directory), own))
    rest = [m for m in members if real[m.file] not in taken]
    return rest, sum(len(by_file[path]) for path in patches), apart


def _reached(
    directory: str, known: Mapping[str, Kustomization], by_file: Mapping[str, Sequence[Member]], most: int
) -> tuple[list[str], int]:
    """The files that a kustomization names, and those that the ones it names do; and how much there was to look at.

    Each kustomization once, the nearest first, and no more than is asked for.
    """
    to_do, seen, files, steps = deque([directory]), set[str](), dict[str, None](), 0
    while to_do and steps <= most:
        current = to_do.popleft()
        if current in seen:
            continue
        seen.add(current)
        steps += len(known[current].resources)
        for path in known[current].resources:
            if path in known:
                to_do.append(path)
            elif path in by_file and path not in files:
                files[path] = None
                steps += len(by_file[path])
    return list(files), steps


def reached(directory: str, known: Mapping[str, Kustomization]) -> set[str]:
    """The real paths of the files that a kustomization is made of, its bases' and patches among them."""
    to_do, seen, found = [directory], set[str](), set[str]()
    while to_do:
        current = to_do.pop()
        if current not in seen:
            seen.add(current)
            found.update(known[current].resources, known[current].patches)
            to_do += [path for path in known[current].resources if path in known]
    return found


def _into(member: Member, namespace: str) -> Member:
    """The member in the namespace of its kustomization."""
    subject = member.subject
    if not namespace or not subject.namespace:
        return member
    metadata = subject.object.get("metadata")
    if not isinstance(metadata, dict):
        return member
    moved = {**subject.object, "metadata": {**metadata, "namespace": namespace}}
    return member._replace(subject=subject._replace(object=moved, namespace=namespace))


class _Tree:
    """Files by their directories. A branch is a directory that is judged apart from what stands beside it."""

    def __init__(self, members: Sequence[Member], *, limits_stay: bool) -> None:
        self._members = members
        self._chains: dict[str, tuple[str, ...]] = {}
        self.alternatives = self._alternatives()
        self._branches = {*self.alternatives, *(self._limited() if limits_stay else ())}
        self.unseen = 0
        """Classes and namespaces that not every branch sees which should; known when all groups were asked for."""

    def _alternatives(self) -> set[str]:
        homes: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        for member in self._members:
            if member.identity[2]:
                homes[member.identity].add(member.directory)
        return {branch for found in homes.values() if len(found) > 1 for branch in _apart(found)}

    def _limited(self) -> Iterator[str]:
        """Directories that hold a quota without a namespace, where others do not."""
        top = _common({m.directory for m in self._members})
        for member in self._members:
            metadata = member.subject.object.get("metadata")
            has_none = not (isinstance(metadata, dict) and metadata.get("namespace"))
            if has_none and group_kind(member.subject.object) in _LIMITS and member.directory != top:
                yield member.directory

    def groups(self) -> Iterator[Group]:
        """What is shared first, then each branch."""
        chains: dict[str, tuple[str, ...]] = {}
        by_branch: dict[str, list[Member]] = defaultdict(list)
        for member in self._members:
            chain = self._chain(member.directory)
            branch = chain[-1] if chain else _SHARED
            chains[branch] = chain
            by_branch[branch].append(member)
        above = _affordable(by_branch, chains)
        far = len(by_branch) * max(len(self._definitions), 1) <= _MOST_DEFINITIONS
        hidden = not far or (len(by_branch) > 1 and above is _NOTHING)
        self.unseen = len(self._definitions) if hidden else 0
        for branch, own in by_branch.items():
            chain = chains[branch]
            context = self._far(chain) if far and len(by_branch) > 1 else []
            for outer in (_SHARED, *chain)[: len(chain)]:
                context += above.get(outer, ())
            redefined = {m.identity for m in own}
            yield _group(branch, own, [m for m in context if m.identity not in redefined])

    @cached_property
    def _definitions(self) -> Sequence[tuple[tuple[str, ...], Member]]:
        """Classes and namespaces, each with the branches that it stands in."""
        return [(self._chain(m.directory), m) for m in self._members if m.identity[0] in CLASSES]

    def _far(self, chain: tuple[str, ...]) -> list[Member]:
        """The definitions of other branches, but for the alternatives of one's own; of the same, the first."""
        parents = {os.path.dirname(branch): branch for branch in chain}
        found: dict[tuple[str, str, str], Member] = {}
        for other, member in self._definitions:
            if other != chain[: len(other)] and all(parents.get(os.path.dirname(b), b) == b for b in other):
                found.setdefault(member.identity, member)
        return list(found.values())

    def _chain(self, directory: str) -> tuple[str, ...]:
        """The branches that a directory is in, the outermost first. Directories may be thousands deep."""
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


_NOTHING: Final[dict[str, Sequence[Member]]] = {}


def _affordable(
    by_branch: Mapping[str, Sequence[Member]], chains: Mapping[str, tuple[str, ...]]
) -> Mapping[str, Sequence[Member]]:
    """What those below a branch see of it: all, or what limits and defines, or nothing, by how much that comes to."""
    definitions = {branch: [m for m in own if m.identity[0] in _DEFINITIONS] for branch, own in by_branch.items()}
    for seen, most in ((by_branch, _MOST_PAIRS), (definitions, _MOST_DEFINITIONS)):
        sizes = {branch: len(found) for branch, found in seen.items()}
        if sum(sizes.get(outer, 0) for chain in chains.values() for outer in (_SHARED, *chain)[: len(chain)]) <= most:
            return seen
    return _NOTHING


def _common(directories: Iterable[str]) -> str:
    """The directory above all of these, or one of them."""
    known = list(directories)
    if len({os.path.isabs(path) for path in known}) > 1:
        return ""
    return os.path.commonpath(known) if known else ""


def _apart(directories: set[str]) -> Iterator[str]:
    """Where the ways to these directories part: the directories of which each is an alternative."""
    common = _common(directories)
    for directory in directories:
        if directory != common:
            rest = os.path.relpath(directory, common or os.curdir) if common else directory
            first = rest.split(os.sep, 2)
            step = os.sep + first[1] if not common and rest.startswith(os.sep) else first[0]
            yield os.path.join(common, step) if common else step
