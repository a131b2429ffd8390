"""Which of the objects in a tree of files come together in one apply.

A repository is not one apply: it holds the same objects for production and for staging, examples that were never meant
to stand side by side, and bases that only count through an overlay.

- A kustomization separates nothing. Its files are in its namespace, and those outside its directory count as inside.
- Directories that define the same object are alternatives: each is judged with what they share, not with each other.
- A quota without a namespace is meant for its own directory and what is below.
- Definitions for the whole cluster are visible in every directory except the alternatives of their own.
- Configuration may name groups; their files are in no other one.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict, deque
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.kinds import CLAIM, LIMIT_RANGE, NAMESPACE, PRIORITY_CLASS, RESOURCE_QUOTA, WORKLOAD_PRIORITY_CLASS
from policies.objects.fields import group_kind
from policies.objects.reviewed_object import Operation, ReviewedObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.options import NamedGroup

_CLUSTER_SCOPED: Final = (PRIORITY_CLASS, NAMESPACE, WORKLOAD_PRIORITY_CLASS)
"""What an object may refer to wherever it is defined."""
_LIMITS: Final = (RESOURCE_QUOTA, LIMIT_RANGE)
_DEFINITIONS: Final = frozenset((*_CLUSTER_SCOPED, *_LIMITS, CLAIM))
_MOST_PAIRS: Final = 300_000
"""Objects that all groups together have besides their own: of more, only what limits and defines counts."""
_MOST_DEFINITIONS: Final = 1_000_000
"""The same of what limits and defines: a class that is not seen would be told to be missing."""


_SHARED: Final = ""
"""The branch of what is in none."""


_Identity = tuple[str, str, str]
"""Kind, namespace and name."""


class Member:
    """An object and the file that it stands in. `reported`: whether findings on it are wanted, or it is context.

    `home`: the directory of the kustomization that takes it from outside, or a name of its own for what stands in
    another object, which is created apart; None: the file's own directory.
    """

    def __init__(self, subject: ReviewedObject, file: str, reported: bool = True, home: str | None = None) -> None:
        self.subject: Final = subject
        self.file: Final = file
        self.reported: Final = reported
        self.home: Final = home

    def _replace(self, **changes: Any) -> Member:
        """The same with other values, as of a named tuple."""
        return Member(**({name: getattr(self, name) for name in ("subject", "file", "reported", "home")} | changes))

    @classmethod
    def of(cls, subject: ReviewedObject, file: str, *, reported: bool = True) -> Member:
        """An object of a file."""
        home = f"{os.path.normpath(file)}: {subject.within.replace(os.sep, '.')}" if subject.within else None
        return cls(subject, file, reported, home)

    @property
    def directory(self) -> str:
        """The directory that it belongs to; empty for standard input."""
        return os.path.dirname(os.path.normpath(self.file)) if self.home is None else self.home

    @cached_property
    def identity(self) -> _Identity:
        """Kind, namespace and name: of two objects with the same, the later one replaces the earlier one."""
        ref = self.subject.ref
        return group_kind(self.subject.object), ref.namespace, ref.name

    @property
    def names_its_namespace(self) -> bool:
        """Whether the object itself has a namespace, or only the command line gives it one."""
        metadata = self.subject.object.get("metadata")
        return isinstance(metadata, dict) and bool(metadata.get("namespace"))


class Kustomization(NamedTuple):
    """What a kustomization.yaml says of its directory: `resources` and `patches` as real paths.

    `home`: the directory as the input calls it; None: relative to the working directory.
    """

    directory: str
    resources: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    namespace: str = ""
    home: str | None = None


class Group(NamedTuple):
    """One apply: its objects in order, and those that findings are wanted of. `name`: its own, or its directory's."""

    name: str
    subjects: tuple[ReviewedObject, ...]
    judged: tuple[ReviewedObject, ...]


class Grouping(NamedTuple):
    """All groups. `alternatives`: directories that define the same objects. `patches`: how many objects are patches.

    `apart`: kustomizations that were not put together, as all of them hold too much. `unseen`: how many definitions
    are not visible in every directory that they are for, as all of them together would be too many.
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
    rest, patches, apart = _kustomized(rest, {k.directory: k for k in kustomizations})
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
    last: dict[_Identity, ReviewedObject] = {}
    found = []
    for member in members:
        subject, identity = member.subject, member.identity
        before = last.get(identity) if identity[2] and not identity[2].endswith("*") else None
        if before is not None and subject.old is None:
            subject = subject._replace(operation=Operation.UPDATE, old=before.object)
        last[identity] = subject
        found.append((member.subject, subject))
    return found


def _kustomized(members: list[Member], known: Mapping[str, Kustomization]) -> tuple[list[Member], int, int]:
    """The members as kustomizations change them that no other one uses as a base: one copy for each namespace and home.

    The members without patches, how many patch, and how many kustomizations are left out because they hold too much.
    """
    if not known:
        return members, 0, 0
    real = {file: os.path.realpath(file) for file in {member.file for member in members}}
    sizes = Counter(real[member.file] for member in members)
    bases = {path for k in known.values() for path in k.resources}
    patches = {path for k in known.values() for path in k.patches} & sizes.keys()
    copies: dict[str, dict[_Place, None]] = defaultdict(dict)
    left, apart = _MOST_PAIRS + len(members), 0
    for directory in [k for k in known if k not in bases]:
        found, steps = _reached(directory, known, sizes, left)
        left -= steps
        apart += left < 0
        for file, place in found if left >= 0 else ():
            copies[file][place] = None
    placed = [
        _into(member, place)
        for member in members
        if real[member.file] not in patches
        for place in copies.get(real[member.file], (_AS_IT_IS,))
    ]
    return placed, sum(sizes[path] for path in patches), apart


_Place = tuple[str, str | None]
"""Namespace and home that a kustomization gives to a file."""
_AS_IT_IS: Final[_Place] = ("", None)


def _reached(
    directory: str, known: Mapping[str, Kustomization], sizes: Mapping[str, int], most: int
) -> tuple[list[tuple[str, _Place]], int]:
    """The files that a kustomization and its bases change, with their places; and how much there was to look at.

    Of namespaces the outermost counts. A file stays in its directory unless a kustomization takes it from outside.
    """
    to_do, seen = deque([(directory, _AS_IT_IS)]), set[tuple[str, _Place]]()
    files, steps = dict[tuple[str, _Place], None](), 0
    while to_do and steps <= most:
        current, (namespace, home) = given = to_do.popleft()
        if given in seen:
            continue
        seen.add(given)
        found = known[current]
        steps += len(found.resources)
        inside = os.path.join(current, "")
        outer = home if home is not None else os.path.relpath(current) if found.home is None else found.home
        for path in found.resources:
            place = (namespace or found.namespace, home if path.startswith(inside) else outer)
            if path in known:
                to_do.append((path, place))
            elif path in sizes and place != _AS_IT_IS and (path, place) not in files:
                files[path, place] = None
                steps += sizes[path]
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


def _into(member: Member, place: _Place) -> Member:
    """The member in the namespace and at the home that its kustomization gives it."""
    subject, (namespace, home) = member.subject, place
    metadata = subject.object.get("metadata")
    if namespace and subject.namespace and not subject.within and isinstance(metadata, dict):
        moved = {**subject.object, "metadata": {**metadata, "namespace": namespace}}
        subject = subject._replace(object=moved, namespace=namespace)
    return member._replace(subject=subject, home=home if home is not None else member.home)


class _Tree:
    """Files by their directories. A branch is a directory that is judged apart from what stands beside it."""

    def __init__(self, members: Sequence[Member], *, limits_stay: bool) -> None:
        self._members = members
        self._chains: dict[str, tuple[str, ...]] = {}
        self.alternatives = self._alternatives()
        self._branches = {*self.alternatives, *(self._limited() if limits_stay else ())}
        self.unseen = 0
        """Definitions that not every branch sees which should; known when all groups were asked for."""

    def _alternatives(self) -> dict[str, set[int]]:
        """Directories that define the same objects, each with numbers of those that others define too.

        A class of a base is the same class in all its overlays, while a Deployment is another one in each.
        """
        homes: dict[_Identity, dict[str, int]] = defaultdict(dict)
        for member in self._members:
            if member.identity[2] and member.reported:
                homes[member.identity][member.directory] = id(member.subject)
        found: dict[str, set[int]] = defaultdict(set)
        for number, (identity, places) in enumerate(homes.items()):
            if len(places) > 1 and (identity[1] or len({*places.values()}) > 1):
                for branch in _apart({*places}):
                    found[branch].add(number)
        return found

    def _limited(self) -> Iterator[str]:
        """Directories that hold a quota without a namespace, where others do not."""
        top = _common({m.directory for m in self._members})
        for member in self._members:
            is_limit = group_kind(member.subject.object) in _LIMITS
            if is_limit and not member.names_its_namespace and member.directory != top:
                yield member.directory

    def groups(self) -> Iterator[Group]:
        """What is shared first, then each branch."""
        chains: dict[str, tuple[str, ...]] = {}
        found: dict[str, dict[int, Member]] = defaultdict(dict)
        for member in self._members:
            chain = self._chain(member.directory)
            branch = chain[-1] if chain else _SHARED
            chains[branch] = chain
            found[branch].setdefault(id(member.subject), member)  # overlays may bring the same object of a base
        by_branch = {branch: list(own.values()) for branch, own in found.items()}
        above = _affordable(by_branch, chains)
        wide = _Wide(self.alternatives)
        for branch, own in by_branch.items():
            wide.add(chains[branch], self._wide(chains[branch], own))
        far = len(by_branch) * max(wide.count, 1) <= _MOST_DEFINITIONS
        hidden = not far or (len(by_branch) > 1 and above is _NOTHING)
        self.unseen = wide.count if hidden else 0
        for branch, own in by_branch.items():
            chain = chains[branch]
            context = [m for outer in (_SHARED, *chain)[: len(chain)] for m in above.get(outer, ())]
            redefined = {m.identity for m in own}
            context = [m for m in context if m.identity not in redefined]
            redefined.update(m.identity for m in context)
            others = wide.visible(chain) if far and len(by_branch) > 1 else {}
            yield _group(branch, own, [*(m for key, m in others.items() if key not in redefined), *context])

    def _wide(self, chain: tuple[str, ...], own: Sequence[Member]) -> list[Member]:
        """What a branch defines for the whole cluster. Quotas of alternatives are for their own environment."""
        kinds = _CLUSTER_SCOPED if self.alternatives.keys() & chain else (*_CLUSTER_SCOPED, *_LIMITS)
        return [m for m in own if m.identity[0] in kinds and (m.identity[0] not in _LIMITS or m.names_its_namespace)]

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


class _Wide:
    """Definitions for the whole cluster, and which branches see them. Sets are integers with one bit for each source.

    A branch sees all definitions except those of its alternatives. The alternatives that define one object are beside
    each other, so no branch is in two of them.
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
        """Add what a branch defines. No alternative hides what is not reported, such as `--definitions`."""
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

    def visible(self, chain: tuple[str, ...]) -> dict[_Identity, Member]:
        """The definitions that a branch sees; of the same object, the first."""
        left = (1 << len(self._sources)) - 1
        for branch in chain:
            if branch in self._alternatives:
                conflicting = 0
                for number in self._alternatives[branch]:
                    conflicting |= self._defining[number]
                left &= ~conflicting | self._below[branch]
        found: dict[_Identity, Member] = {}
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
