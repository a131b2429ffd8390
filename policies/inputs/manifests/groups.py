"""Groups the objects in a directory tree by change set.

A repository is more than one change set: it contains the same objects for production and staging, unrelated examples,
and bases that only overlays use.

- A kustomization does not separate objects. Its files get its namespace, and files outside its directory count as
inside.
- Directories that define the same object are alternatives: each is evaluated with shared objects only.
- Objects outside a directory of tests do not see its Pods.
- A quota without a namespace applies to its directory and the directories below.
- Definitions for the whole cluster are visible in every directory except its alternatives.
- Configuration may name groups; their files are in no other group, and see definitions of `--definitions`.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain as joined
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import grouped as by_key
from forewarn.policies.base.findings import reachable
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.base.metering import metered
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, group_kind, list_at, text_at
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic, Operation, ReviewedObject
from forewarn.policies.kubernetes.selectors import one_of

if TYPE_CHECKING:
    from forewarn.policies.inputs.manifests.builds import Built
    from forewarn.policies.inputs.manifests.kustomizations import Kustomization, Overlays
    from forewarn.policies.kubernetes.options import NamedGroup


CLUSTER_SCOPED: Final = (
    *(registry.PRIORITY_CLASS, registry.WORKLOAD_PRIORITY_CLASS),
    *(kind for kind in registry.APPLIED if not registry.is_namespaced(kind)),
)
"""Kinds that an object may refer to regardless of the directory of their definition."""
LIMITS: Final = (registry.RESOURCE_QUOTA, registry.LIMIT_RANGE)
DEFINITIONS: Final = frozenset(
    (*CLUSTER_SCOPED, *LIMITS, registry.CLAIM, registry.RESOURCE_CLAIM, registry.CLAIM_TEMPLATE)
)
MAX_PAIRS: Final = 300_000
"""Maximum number of objects of other branches in all groups; above it, only limits and definitions are included."""
SHARED: Final = ""
"""The branch of objects outside all branches."""
Identity = tuple[str, str, str]
"""Kind, namespace and name of an object."""


_NO_AFFIXES: Final = ("", "")


class _Fields(NamedTuple):
    subject: ReviewedObject
    file: str
    reported: bool = True
    home: str | None = None
    affixes: tuple[str, str] = _NO_AFFIXES


class Member(_Fields):
    """An object and its file. `reported`: report findings on the object; false for objects that others only refer to.

    `home`: the directory of the kustomization that includes the object from outside; for an object inside another
    object, a unique name; None: the file's directory. `affixes`: the `namePrefix` and `nameSuffix` of its
    kustomizations.
    """

    @classmethod
    def from_object(cls, subject: ReviewedObject, file: str, *, reported: bool = True) -> Member:
        """A member for an object of a file."""
        home = f"{os.path.normpath(file)}: {subject.within.replace(os.sep, '.')}" if subject.within else None
        return cls(subject, file, reported, home)

    @property
    def directory(self) -> str:
        """The directory of the member; "" for standard input."""
        return os.path.dirname(os.path.normpath(self.file)) if self.home is None else self.home

    @cached_property
    def identity(self) -> Identity:
        """Kind, namespace and name: a later object with the same identity replaces an earlier object.

        The name of an object of a template is "", because templates may be rendered for one environment at a time. The
        name of a kind that only rules read is "", too.
        """
        ref, kind = self.subject.ref, group_kind(self.subject.object)
        return kind, ref.namespace, "" if self.subject.is_partial or kind in registry.ONLY_LINTED else ref.name

    @property
    def built_identity(self) -> Identity:
        """The identity with the name that kustomizations give to the object."""
        kind, namespace, name = self.identity
        prefix, suffix = self.affixes
        return kind, namespace, f"{prefix}{name}{suffix}" if name and kind != registry.NAMESPACE else name

    @property
    def names_its_namespace(self) -> bool:
        """Whether the manifest itself sets a namespace, instead of the command line."""
        metadata = self.subject.object.get("metadata")
        return isinstance(metadata, dict) and bool(metadata.get("namespace"))

    @property
    def applies_to_all(self) -> bool:
        """Whether all groups see the object: a definition or limit of `--definitions`."""
        return not self.reported and self.identity[0] in (*CLUSTER_SCOPED, *LIMITS)


class Group(NamedTuple):
    """A change set: its objects in order, and the objects whose findings are reported. `name`: configured, or a
    directory.

    `subjects` excludes objects that are only partially known, so that rules do not see them as definitions.
    """

    name: str
    subjects: tuple[ReviewedObject, ...]
    evaluated: tuple[ReviewedObject, ...]


def group_of(name: str, members: Sequence[Member], context: Sequence[Member] = ()) -> Group:
    """Return a group of the members. `context`: objects of the group whose findings are not reported."""
    subjects = order_members([*context, *members])
    reported = {id(m.subject) for m in members if m.reported}
    evaluated = tuple(new for old, new in subjects if id(old) in reported)
    return Group(name, tuple(new for _, new in subjects if not new.is_partial), evaluated)


def order_members(members: Sequence[Member]) -> list[tuple[ReviewedObject, ReviewedObject]]:
    """Return pairs (subject, the same subject as reviewed in this order: an update if the same object precedes)."""
    last: dict[Identity, ReviewedObject] = {}
    pairs = []
    for member in members:
        subject, identity = member.subject, member.identity
        before = last.get(identity) if identity[2] and not identity[2].endswith("*") else None
        if before is not None and subject.old is None:
            subject = subject._replace(operation=Operation.UPDATE, old=before.object)
        last[identity] = subject
        pairs.append((member.subject, subject))
    return pairs


_MAX_DEFINITIONS: Final = 1_000_000
"""Maximum number of limits and definitions that subdirectories see, so that no class is reported as missing."""


_TESTS: Final = later(r"(?:^|/)(?:e2e|fixtures|testdata|tests)(?=/|$)")


class Tree:
    """Files by directory. A branch is a directory whose objects form a group, separate from its siblings."""

    def __init__(self, members: Sequence[Member], *, limits_stay: bool) -> None:
        self._members = members
        self._chains: dict[str, tuple[str, ...]] = {}
        self.alternatives = self._alternatives()
        self._branches = {*self.alternatives, *self._tests(), *(self._limited() if limits_stay else ())}
        self.unseen = 0
        """Number of definitions that are hidden from other branches, because there are too many; set by `groups`."""

    def _alternatives(self) -> dict[str, set[int]]:
        """Return the directories that define the same objects as others, each with the numbers of these objects.

        Example: the same Deployment in an overlay for production and in one for staging. A class of a shared base is
        the same in all overlays, so it makes no alternatives.
        """
        homes: dict[Identity, dict[str, int]] = defaultdict(dict)
        for member in self._members:
            if member.identity[2] and member.reported:
                homes[member.built_identity][member.directory] = id(member.subject)
        numbers: dict[str, set[int]] = defaultdict(set)
        for number, (identity, places) in enumerate(homes.items()):
            if len(places) > 1 and (identity[1] or len({*places.values()}) > 1):
                for branch in _distinguishing({*places}):
                    numbers[branch].add(number)
        return numbers

    def _limited(self) -> Iterator[str]:
        """Yield the directories, except the topmost, that contain a ResourceQuota or LimitRange without a namespace."""
        top = _common({m.directory for m in self._members})
        for member in self._members:
            is_limit = group_kind(member.subject.object) in LIMITS
            if is_limit and member.reported and not member.names_its_namespace and member.directory != top:
                yield member.directory

    def _tests(self) -> Iterator[str]:
        """Yield the directories of tests; their Pods do not run together with Pods of other directories."""
        for directory in {m.directory for m in self._members}:
            yield from (directory[: found.end()] for found in _TESTS.finditer(directory))

    def groups(self) -> Iterator[Group]:
        """Yield the groups: first the shared objects, then the objects of each branch."""
        chains: dict[str, tuple[str, ...]] = {}
        by_branch_and_id: dict[str, dict[int, Member]] = defaultdict(dict)
        for member in self._members:
            chain = self._chain(member.directory)
            branch = chain[-1] if chain else SHARED
            chains[branch] = chain
            # Overlays may bring the same object of a base.
            by_branch_and_id[branch].setdefault(id(member.subject), member)
        by_branch = {branch: list(own.values()) for branch, own in by_branch_and_id.items()}
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
        """Return a branch's definitions for the whole cluster; not quotas of alternatives, which apply only there."""
        kinds = CLUSTER_SCOPED if self.alternatives.keys() & chain else (*CLUSTER_SCOPED, *LIMITS)
        wide = [m for m in own if m.reported and m.identity[0] in kinds]
        wide = [m for m in wide if m.identity[0] not in LIMITS or m.names_its_namespace]
        return wide + [m for m in own if m.applies_to_all]

    def _chain(self, directory: str) -> tuple[str, ...]:
        """The branches that contain a directory, the outermost first. Directories may be thousands of levels deep."""
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
            if chosen := [m for m in definitions if m.reported is reported]:
                self._sources.append(chosen)
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
        definitions: dict[Identity, Member] = {}
        while left:
            lowest = left & -left
            for member in self._sources[lowest.bit_length() - 1]:
                definitions.setdefault(member.identity, member)
            left ^= lowest
        return definitions


_NOTHING: Final[dict[str, Sequence[Member]]] = {}


def _affordable(
    by_branch: Mapping[str, Sequence[Member]], chains: Mapping[str, tuple[str, ...]]
) -> Mapping[str, Sequence[Member]]:
    """Return the objects of each branch that its subdirectories see: all, only limits and definitions, or none.

    The choice depends on the number of objects, which must stay bounded.
    """
    definitions = {branch: [m for m in own if m.identity[0] in DEFINITIONS] for branch, own in by_branch.items()}
    for seen, most in ((by_branch, MAX_PAIRS), (definitions, _MAX_DEFINITIONS)):
        sizes = {branch: len(members) for branch, members in seen.items()}
        if sum(sizes.get(outer, 0) for chain in chains.values() for outer in (SHARED, *chain)[: len(chain)]) <= most:
            return seen
    return _NOTHING


def _common(directories: Iterable[str]) -> str:
    """The common parent directory, which may be one of the directories; "" if relative and absolute paths are mixed."""
    paths = list(directories)
    if len({os.path.isabs(path) for path in paths}) > 1:
        return ""
    return os.path.commonpath(paths) if paths else ""


def _distinguishing(directories: set[str]) -> Iterator[str]:
    """Yield the directories at which the paths to these directories diverge; these are alternatives of each other."""
    common = _common(directories)
    for directory in directories:
        if directory != common:
            rest = os.path.relpath(directory, common or os.curdir) if common else directory
            first = rest.split(os.sep, 2)
            step = os.sep + first[1] if not common and rest.startswith(os.sep) else first[0]
            yield os.path.join(common, step) if common else step


class Grouping(NamedTuple):
    """All groups. `alternatives`: directories that define the same objects. `unpatched`: number of objects that are
    not checked, because kustomizations change them in ways that are not applied.

    `apart`: number of kustomizations that were not combined, because the total number of objects is too large.
    `unseen`: number of definitions that are not visible in other directories, because there are too many. `faults`: the
    patches that kustomize rejects.
    """

    groups: tuple[Group, ...]
    alternatives: tuple[str, ...] = ()
    unpatched: int = 0
    apart: int = 0
    unseen: int = 0
    faults: Collection[FileDiagnostic] = ()


def grouped(
    members: Sequence[Member],
    kustomizations: Iterable[Kustomization] = (),
    named: Iterable[NamedGroup] = (),
    *,
    limits_stay: bool = True,
    read: Callable[[str], bytes | None] = lambda _: None,
    unread: Mapping[str, Sequence[Member]] = MappingProxyType({}),
) -> Grouping:
    """Return the groups of a directory tree.

    `named`: groups of the configuration. `read`: returns the content of a file of the input by its real path, None for
    other files. `unread`: real paths -> objects of kinds that rules do not read. `limits_stay`: a ResourceQuota or
    LimitRange without a namespace applies only to its directory and those below.
    """
    groups: list[Group] = []
    rest = list(members)
    given = [m for m in members if m.applies_to_all]
    for spec in named:
        own = [m for m in members if matches(m.file, spec.paths)]
        defined = {m.identity for m in own}
        groups.append(group_of(spec.name, own, [m for m in given if m.identity not in defined]))
        taken = {id(m.subject) for m in own}
        rest = [m for m in rest if id(m.subject) not in taken]
    rest, unpatched, apart, faults = kustomized(rest, {k.directory: k for k in kustomizations}, read, unread)
    tree = Tree(_registered_once(rest, faults), limits_stay=limits_stay)
    groups += tree.groups()
    evaluated = tuple(group for group in groups if group.evaluated)
    return Grouping(evaluated, tuple(sorted(tree.alternatives)), unpatched, apart, tree.unseen, faults)


def _registered_once(members: list[Member], faults: Iterable[FileDiagnostic]) -> list[Member]:
    """Return the members without objects that their build already contains, also by the namespace that it sets."""
    twice = {fault.location for fault in faults if fault.rule == "parse-error" and fault.object is not None}
    members = [m for m in members if m.subject.locate(("metadata", "name")) not in twice] if twice else members
    first: dict[tuple[object, ...], int] = {}
    for number, member in enumerate(members):
        if member.identity[2] and member.subject.builds:
            first.setdefault((member.built_identity, member.home, member.subject.builds), number)
    numbers = {*first.values()}
    return [m for n, m in enumerate(members) if n in numbers or not (m.subject.moved and m.identity[2])]


def matches(file: str, patterns: Iterable[str]) -> bool:
    """True if the path of a file, unchanged or relative to the working directory, matches one of the shell patterns."""
    path = os.path.normpath(file)
    return one_of(patterns, path) or one_of(patterns, os.path.relpath(path))


def kustomized(
    members: list[Member],
    kustomizations: Mapping[str, Kustomization],
    read: Callable[[str], bytes | None],
    unread: Mapping[str, Sequence[Member]] = MappingProxyType({}),
) -> tuple[list[Member], int, int, Collection[FileDiagnostic]]:
    """Return the members as top-level kustomizations change them: one copy for each namespace, home and patched object.

    Also returns the number of objects that kustomizations change in ways that are not applied, the number of
    kustomizations that are skipped because they contain too many objects, and the patches that kustomize rejects.
    """
    if not kustomizations:
        return members, 0, 0, ()
    from forewarn.policies.inputs.manifests.builds import lost_names
    from forewarn.policies.inputs.manifests.kustomizations import MAX_WORK, Overlays, real_in  # few trees have any

    split = {member.file: os.path.split(member.file) for member in members}
    directories = {
        directory: os.path.realpath(directory) for directory in {directory for directory, _ in split.values()}
    }
    real = {file: real_in(directories[directory], name) for file, (directory, name) in split.items()}
    sizes = Counter(real[member.file] for member in members)
    patches = {path for k in kustomizations.values() for path in k.patches} & sizes.keys()
    merges = by_key((real[m.file], m.subject) for m in members if real[m.file] in patches)
    overlays = Overlays(kustomizations, read, merges)
    sizes.update(dict(zip(unread, map(len, unread.values()), strict=True)))
    placements, apart = _placements(kustomizations, sizes, MAX_PAIRS + sizes.total())
    built: list[Built] = []
    with metered(lambda: False, MAX_WORK):
        copies = [
            _copies(m, placements.get(real[m.file], _LEFT_OUT), overlays, built)
            for m in members
            if real[m.file] not in patches
        ]
    of_patches = (
        m
        for m in members
        if real[m.file] in patches and (id(m.subject.object) not in overlays.applied or _has_removed_version(m.subject))
    )
    parts = (m._replace(subject=m.subject._replace(is_partial=True, is_patch=True)) for m in of_patches)
    names = {m.subject.ref.name for m in members}
    placed = [*(_with_target(copy, names) for copy in joined.from_iterable(copies)), *parts]
    faults = [*overlays.faults.values(), *lost_names(built, _built(unread, placements, overlays), kustomizations, read)]
    return placed, len(overlays.not_applied), apart, faults


def _built(
    unread: Mapping[str, Sequence[Member]], placements: Mapping[str, Iterable[_Placement]], overlays: Overlays
) -> list[Built]:
    """Return objects that rules do not read as kustomizations place them. `unread`: see `grouped`."""
    from forewarn.policies.inputs.manifests.builds import Built

    placed = [
        (member, _moved_into(member, member.subject, place, by).subject, place, changing, by)
        for path, members in unread.items()
        for place, changing in placements.get(path, ())
        for by in [overlays.moving(changing)]
        for member in members
    ]
    return [
        Built(s, m.file, place[2], m.reported, changing, is_deleted=False, moving=by)
        for m, s, place, changing, by in placed
    ]


def _has_removed_version(patch: ReviewedObject) -> bool:
    """Report whether a patch has a removed API version: it only applies to objects of the same version."""
    return bool(registry.removed_version(patch.object.get("apiVersion"), patch.object.get("kind")))


def _with_target(member: Member, names: Collection[str]) -> Member:
    """Return an autoscaler with the name of its workload as the file writes it; other members unchanged.
    `names`: the names of objects in files.
    """
    obj, (prefix, suffix) = member.subject.object, member.affixes
    built = text_at(obj, "spec", "scaleTargetRef", "name") if prefix or suffix else ""
    name = built.removeprefix(prefix).removesuffix(suffix)
    if built in names or name not in names or built != f"{prefix}{name}{suffix}":
        return member
    spec = {**obj["spec"], "scaleTargetRef": {**obj["spec"]["scaleTargetRef"], "name": name}}
    return member._replace(subject=member.subject._replace(object={**obj, "spec": spec}))


def _copies(
    member: Member, placements: Iterable[_Placement], overlays: Overlays, built: list[Built]
) -> Collection[Member]:
    """Return the member as kustomizations place and change it. Adds the copies, also deleted ones, to `built`."""
    from forewarn.policies.inputs.manifests.builds import Built

    copies: dict[tuple[_Place, int], Member] = {}
    is_left_out, builds = placements is _LEFT_OUT, frozenset(changing[-1] for _, changing in placements if changing)
    member = member._replace(subject=member.subject._replace(is_left_out=is_left_out, builds=builds))
    for place, changing in placements:
        subject = overlays.built(member.subject, changing)
        is_known = subject is not None or id(member.subject) not in overlays.not_applied
        by = overlays.moving(changing)
        copy = _moved_into(
            member if is_known else member._replace(reported=False), subject or member.subject, place, by
        )
        is_deleted = is_known and subject is None
        built.append(Built(copy.subject, copy.file, copy.affixes, copy.reported, changing, is_deleted, by))
        if subject is not None or (not is_known and group_kind(member.subject.object) not in LIMITS):
            copies[place, id(subject.object) if subject is not None else 0] = copy
    return copies.values()


def _placements(
    kustomizations: Mapping[str, Kustomization], sizes: Mapping[str, int], remaining: int
) -> tuple[Mapping[str, Collection[_Placement]], int]:
    """Return where kustomizations put each file, and the number of skipped kustomizations.

    `remaining`: maximum number of steps.
    """
    placements: dict[str, dict[_Placement, None]] = defaultdict(dict)
    apart, bases = 0, {path for k in kustomizations.values() for path in k.resources}
    for directory in [k for k in kustomizations if k not in bases]:
        files, steps = _reached(directory, kustomizations, sizes, remaining)
        remaining -= steps
        apart += remaining < 0
        for file, placement in files if remaining >= 0 else ():
            placements[file][placement] = None
    moved = {file: [each for each in own if each[0] != _AS_IT_IS] for file, own in placements.items()}
    return {file: moved[file] or own for file, own in placements.items()}, apart


_Place = tuple[str, str | None, tuple[str, str]]
"""The namespace, home and affixes of names that kustomizations set for a file."""
_Placement = tuple[_Place, tuple[str, ...]]
"""A place, and the directories of the kustomizations that change the file's objects, the outermost one last."""
_AS_IT_IS: Final[_Place] = ("", None, _NO_AFFIXES)
_LEFT_OUT: Final[Sequence[_Placement]] = ((_AS_IT_IS, ()),)
_MAX_NAME_LENGTH: Final = 253
_MAX_CHANGING: Final = 100
"""Maximum number of kustomizations that change one object; only a cycle exceeds it."""
_TOO_MANY: Final = ("",)
"""Stands for kustomizations that are not applied."""


def _reached(
    directory: str, kustomizations: Mapping[str, Kustomization], sizes: Mapping[str, int], limit: int
) -> tuple[list[tuple[str, _Placement]], int]:
    """Return the files of a kustomization and its bases with their placements, and the number of steps.

    The outermost namespace applies. A file remains in its directory unless a kustomization includes the file from
    outside. `limit`: maximum number of steps.
    """
    start: _Placement = (_AS_IT_IS, ())
    to_do, seen = deque([(directory, start)]), set[tuple[str, _Placement]]()
    files, steps = dict[tuple[str, _Placement], None](), 0
    while to_do and steps <= limit:
        current, ((namespace, home, (prefix, suffix)), changing) = given = to_do.popleft()
        if given in seen:
            continue
        seen.add(given)
        kustomization = kustomizations[current]
        steps += len(kustomization.resources) + len(changing)
        inside = os.path.join(current, "")
        affixes = prefix + kustomization.affixes[0], kustomization.affixes[1] + suffix
        affixes = affixes if len("".join(affixes)) < _MAX_NAME_LENGTH else (prefix, suffix)  # a cycle of kustomizations
        outer = home if home is not None else kustomization.overlay
        components = _order_components(kustomization.components, kustomizations)
        changing = (current, *changing) if kustomization.content or not changing else changing
        if len(components) + len(changing) > _MAX_CHANGING:
            components, changing = [], _TOO_MANY
        for path in kustomization.resources:
            place = (namespace or kustomization.namespace, home if path.startswith(inside) else outer, affixes)
            later = components[components.index(path) + 1 :] if path in components else components
            placement = place, (*later, *changing)
            if path in kustomizations:
                to_do.append((path, placement))
            elif path in sizes and (path, placement) not in files:
                files[path, placement] = None
                steps += sizes[path]
    return list(files), steps


def _order_components(components: Sequence[str], kustomizations: Mapping[str, Kustomization]) -> list[str]:
    """Return components in the order in which they change objects: each after the components that it includes."""
    to_do, order, opened = [*reversed(components)], dict[str, None](), set[str]()
    while to_do:
        path = to_do[-1]
        inner = kustomizations[path].components if path in kustomizations and path not in opened else ()
        opened.add(path)
        to_do += (each for each in reversed(inner) if each not in opened)
        if to_do[-1] == path:
            order[to_do.pop()] = None
    return [*order]


def reached(directory: str, kustomizations: Mapping[str, Kustomization]) -> Collection[str]:
    """The real paths of all files of a kustomization: of its patches and resources, then of its bases."""
    used = reachable([directory], lambda k: filter(kustomizations.__contains__, kustomizations[k].resources))
    return dict.fromkeys(path for k in map(kustomizations.__getitem__, used) for path in (*k.patches, *k.resources))


def _moved_into(member: Member, subject: ReviewedObject, place: _Place, by: Kustomization | None) -> Member:
    """Return a copy of the member with this object, and with the namespace, home and affixes of `place`. `by`: the
    kustomization that sets the namespace.
    """
    namespace, home, affixes = place
    metadata = subject.object.get("metadata")
    if namespace and group_kind(subject.object) in registry.WEBHOOK_CONFIGURATIONS:
        subject = subject._replace(object=_with_namespace(subject.object, namespace))
    if namespace and subject.namespace and not subject.within and isinstance(metadata, dict):
        given = metadata.get("namespace")
        moved = (str(given), os.path.normpath(by.file)) if by and given not in (None, "", namespace) else ()
        obj = {**subject.object, "metadata": {**metadata, "namespace": namespace}}
        subject = subject._replace(object=obj, namespace=namespace, moved=moved)
    return member._replace(subject=subject, home=home if home is not None else member.home, affixes=affixes)


def _with_namespace(configuration: ApiObject, namespace: str) -> ApiObject:
    """Return a webhook configuration whose Services without a namespace get `namespace`, as from kustomize."""
    webhooks = []
    for webhook in list_at(configuration, "webhooks"):
        service = at(webhook, "clientConfig", "service")
        if isinstance(service, dict) and not service.get("namespace"):
            named = {**webhook["clientConfig"], "service": {**service, "namespace": namespace}}
            webhook = {**webhook, "clientConfig": named}
        webhooks.append(webhook)
    return {**configuration, "webhooks": webhooks}
