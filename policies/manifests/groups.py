"""Groups the objects in a directory tree by change set.

A repository is more than one change set: it contains the same objects for production and staging, unrelated examples,
and bases that only overlays use.

- A kustomization does not separate objects. Its files get its namespace, and files outside its directory count as
inside.
- Directories that define the same object are alternatives: each is evaluated with shared objects only.
- A quota without a namespace applies to its directory and the directories below.
- Definitions for the whole cluster are visible in every directory except its alternatives.
- Configuration may name groups; their files are in no other group.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict, deque
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.manifests.directory_groups import Tree
from forewarn.policies.manifests.members import MAX_PAIRS, Group, Member, group_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from forewarn.policies.options import NamedGroup


class Kustomization(NamedTuple):
    """The `resources` and `patches` of a kustomization.yaml as real paths.

    `home`: the directory as named in the input; None for a path relative to the working directory. `affixes`:
    `namePrefix` and `nameSuffix`.
    """

    directory: str
    resources: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    namespace: str = ""
    home: str | None = None
    affixes: tuple[str, str] = ("", "")


class Grouping(NamedTuple):
    """All groups. `alternatives`: directories that define the same objects. `patches`: number of objects that are
    patches.

    `apart`: number of kustomizations that were not combined, because the total number of objects is too large.
    `unseen`: number of definitions that are not visible in other directories, because there are too many.
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
    """Return the groups of a directory tree.

    `named`: groups of the configuration. `limits_stay`: a ResourceQuota or LimitRange without a namespace applies
    only to its directory and those below.
    """
    groups: list[Group] = []
    rest = list(members)
    for spec in named:
        own = [m for m in members if any(matches(m.file, pattern) for pattern in spec.paths)]
        groups.append(group_of(spec.name, own))
        taken = {id(m.subject) for m in own}
        rest = [m for m in rest if id(m.subject) not in taken]
    rest, patches, apart = _kustomized(rest, {k.directory: k for k in kustomizations})
    tree = Tree(rest, limits_stay=limits_stay)
    groups += tree.groups()
    evaluated = tuple(group for group in groups if group.evaluated)
    return Grouping(evaluated, tuple(sorted(tree.alternatives)), patches, apart, tree.unseen)


def matches(file: str, pattern: str) -> bool:
    """True if the path of a file, as given or relative to the working directory, matches a shell pattern."""
    path = os.path.normpath(file)
    return fnmatchcase(path, pattern) or fnmatchcase(os.path.relpath(path), pattern)


def _kustomized(members: list[Member], known: Mapping[str, Kustomization]) -> tuple[list[Member], int, int]:
    """Return the members as top-level kustomizations change them: one copy for each namespace and home.

    Also returns the number of removed patches, and the number of kustomizations that are skipped because they contain
    too many objects.
    """
    if not known:
        return members, 0, 0
    real = {file: os.path.realpath(file) for file in {member.file for member in members}}
    sizes = Counter(real[member.file] for member in members)
    bases = {path for k in known.values() for path in k.resources}
    patches = {path for k in known.values() for path in k.patches} & sizes.keys()
    copies: dict[str, dict[_Place, None]] = defaultdict(dict)
    left, apart = MAX_PAIRS + len(members), 0
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
"""The namespace and home that a kustomization sets for a file."""
_AS_IT_IS: Final[_Place] = ("", None)


def _reached(
    directory: str, known: Mapping[str, Kustomization], sizes: Mapping[str, int], most: int
) -> tuple[list[tuple[str, _Place]], int]:
    """Return the files that a kustomization and its bases change, with namespace and home; and the number of steps.

    The outermost namespace applies. A file remains in its directory unless a kustomization includes the file from
    outside. `most`: maximum number of steps.
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
    """The real paths of all files of a kustomization, including those of its bases and patches."""
    to_do, seen, found = [directory], set[str](), set[str]()
    while to_do:
        current = to_do.pop()
        if current not in seen:
            seen.add(current)
            found.update(known[current].resources, known[current].patches)
            to_do += [path for path in known[current].resources if path in known]
    return found


def _into(member: Member, place: _Place) -> Member:
    """Return the member in the namespace and home that a kustomization sets."""
    subject, (namespace, home) = member.subject, place
    metadata = subject.object.get("metadata")
    if namespace and subject.namespace and not subject.within and isinstance(metadata, dict):
        moved = {**subject.object, "metadata": {**metadata, "namespace": namespace}}
        subject = subject._replace(object=moved, namespace=namespace)
    return member._replace(subject=subject, home=home if home is not None else member.home)
