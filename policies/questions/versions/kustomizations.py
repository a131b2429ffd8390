"""Checks what kustomize would read and run. The checked files cannot allow more than the options of the command.
forewarn reads the kustomization, and everything that it references, before kustomize does.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from forewarn.policies.base.findings import cut, with_fix
from forewarn.policies.inputs.manifests.documents import MAX_DEPTH, Document, Fault, as_utf8, split
from forewarn.policies.inputs.manifests.kustomizations import KUSTOMIZATIONS, REMOTE
from forewarn.policies.inputs.manifests.yaml.nodes import Node, Scalar, compose, followed, leniently
from forewarn.policies.inputs.sources.files import File, SourceError, read_file
from forewarn.policies.inputs.sources.programs import Outside, Trees
from forewarn.policies.questions.versions.tools import refuse_option

_PLUGINS: Final = frozenset(("generators", "transformers", "validators"))
_LISTS: Final = frozenset(("apiversion", "kind", "metadata", "resources", "bases"))
"""Keys of a kustomization that does not change its objects."""
_DATA: Final = re.compile(r"literals|values(?:inline|local)|(?:common)?(?:annotations|labels)|pairs")
"""Keys of values that name no files."""
_LOADED: Final = re.compile(
    r"resources|bases|components|crds|configurations|replacements|patches(?:strategicmerge|json6902)?|files|envs?|paths?"
    r"|valuesfile|additionalvaluesfiles"
)
"""Keys of values that kustomize loads, also from addresses: `tools.write_gate` prevents downloads of charts."""
_ARGUMENTS: Final = re.compile(
    r"(?:chart|release)?name|(?:release)?namespace|nametemplate|(?:chart)?version|repo|chartrepourl|(?:chart|config|helm)home"
    r"|apiversions|kubeversion|values|valuesfile|additionalvaluesfiles"
)
"""Keys of values that become arguments of helm."""
_SYSTEM: Final = ("/proc/", "/dev/", "/sys/")
"""Directories in which files appear at any time."""
_MAX_LINE_LENGTH: Final = 4_096
_SHOWN: Final = 100
_MAX_FILES: Final = 10_000
_MAX_BYTES: Final = 4 << 20
_MAX_TEXTS: Final = 1_000_000


class Refused(Exception):
    """A kustomization that forewarn does not build. `file` and `line`: the position of the reason."""

    def __init__(self, why: str, file: str, line: int) -> None:
        super().__init__(why)
        self.why, self.file, self.line = why, file, line


class Limits(NamedTuple):
    """Permissions of kustomizations: reading files of these trees, and options for helm, all files, and the network."""

    trees: Trees
    helm: bool = False
    any_file: bool = False
    network: bool = False


class _PositionedText(NamedTuple):
    """A scalar: its text, the keys above it in lower case, and its line."""

    text: str
    keys: tuple[str, ...]
    line: int


class _Place(NamedTuple):
    """The real path of a file or directory that kustomize reads. `root`: for plugins, the directory of the
    kustomization that uses them.
    """

    path: str
    root: str = ""


class Checker:
    """Checks kustomizations, each file once."""

    def __init__(self) -> None:
        self._reached = cache(lambda limits, place: _Checking(limits, place).reached())

    def check(self, directory: str, limits: Limits) -> None:
        """Raise Refused if kustomize must not build the kustomization in a directory."""
        to_do, seen = [_Place(os.path.realpath(directory))], set[_Place]()
        while to_do:
            place = to_do.pop()
            if place in seen:
                continue
            seen.add(place)
            if len(seen) > _MAX_FILES:
                raise Refused(f"more than {_MAX_FILES:,} files and directories", place.path, 1)
            to_do += self._reached(limits, place)


class _Checking:
    """Checks the kustomization or file at one place."""

    def __init__(self, limits: Limits, place: _Place) -> None:
        self._limits, self._place = limits, place
        self._reached: list[_Place] = []

    def reached(self) -> list[_Place]:
        """Return the places that this one names. Raises Refused."""
        path, root = self._place
        if not os.path.isdir(path):
            self._check_file(path, lambda text: self._check_text(text, root))
        for name in _kustomizations(path):
            self._check_file(os.path.join(path, name), self._check_entry)
        return self._reached

    def _check_file(self, file: str, check_text: Callable[[_PositionedText], None]) -> None:
        line = 1
        try:
            real = self._limits.trees.resolved(file)
            data = read_file(File(real, os.path.dirname(real)), _MAX_BYTES)
            if len(data) > _MAX_BYTES:
                raise Outside(f"larger than {_MAX_BYTES >> 20} MiB")
            for text in _texts(data, file):
                line = text.line
                check_text(text)
        except (Outside, Fault, SourceError) as fault:
            why = with_fix(fault.problem, fault.fix) if isinstance(fault, SourceError) else str(fault)
            raise Refused(why, file, line) from None

    def _check_entry(self, text: _PositionedText) -> None:
        """Check a text of a kustomization."""
        path, root = self._place
        if root and text.keys and text.keys[0] not in _LISTS:
            raise Outside("a directory of generators, transformers or validators may list resources only")
        if not root and _PLUGINS.isdisjoint(text.keys):
            self._check_text(text, path)
            return
        if REMOTE.match(text.text):
            raise Outside(f"{cut(text.text, _SHOWN)}: plugins from an address are not supported")
        for inline in _texts(text.text.encode(), "", text.line - 1):
            if inline.keys:
                self._check_text(inline, root or path)
        self._check_path(text.text, path, root or path)

    def _check_text(self, text: _PositionedText, directory: str) -> None:
        """Check a text whose files are relative to a directory."""
        if any(map(_DATA.fullmatch, text.keys)):
            return
        key = text.keys[-1] if text.keys else ""
        if self._limits.helm and _ARGUMENTS.fullmatch(key):
            refuse_option(text.text)
            if key in ("name", "chartname") and os.pardir in text.text.split("/"):
                raise Outside(f'the name of a chart contains "..": {cut(text.text, _SHOWN)}')
        for entry in (text.text, text.text.partition("=")[2]):
            if _LOADED.fullmatch(key) and REMOTE.match(entry):
                self._check_address(entry)
            self._check_path(entry, directory)

    def _check_address(self, address: str) -> None:
        if not self._limits.network:
            raise Outside(f"{cut(address, _SHOWN)}: network access is off")
        if any(value.startswith("-") for _, value in parse_qsl(address.partition("?")[2])):
            raise Outside(f"{cut(address, _SHOWN)}: the ref is an option of git")
        if self._limits.helm:
            raise Outside(f"{cut(address, _SHOWN)}: addresses are not supported together with --enable-helm")

    def _check_path(self, entry: str, directory: str, root: str = "") -> None:
        """Raise Outside if an entry, read as a path, leads out of the trees. `root`: see `_Place`."""
        # As kustomize does: "x\n/../../base" is a path too, although no file has such a name.
        path, trees = os.path.normpath(os.path.join(directory, entry)), self._limits.trees
        if not entry or "\0" in path or len(path) > _MAX_LINE_LENGTH:
            return
        shown = cut(entry, _SHOWN)
        if _has_line_breaks(path):
            raise Outside(f"{shown}: names of files with line breaks are not supported")
        if self._leads_anywhere(entry, path):
            raise Outside(f"{shown}: outside of the checked directories")
        if not os.path.lexists(path):
            return
        is_directory = os.path.isdir(path)
        if is_directory:
            is_read = bool(_kustomizations(path))
        else:  # kustomize itself reads no other absolute path
            is_read = not os.path.isabs(entry) or self._limits.any_file or trees.surround(path)
        if is_read and not trees.holds(path):
            is_link = os.path.realpath(path) != path
            raise Outside(f"{shown}: {'link leaves' if is_link else 'outside of'} the checked directories")
        if is_read and (root or is_directory):
            self._reached.append(_Place(os.path.realpath(path), root))

    def _leads_anywhere(self, entry: str, path: str) -> bool:
        """True if the target of a path depends on more than the files that exist now."""
        any_file, is_absolute = self._limits.any_file, os.path.isabs(entry)
        # Without load restrictions, kustomize opens an absolute path as it is: ".." then leaves the target of a link.
        if any_file and is_absolute and os.pardir in entry.split("/"):
            return True
        may_open = any_file or not is_absolute
        return may_open and os.path.realpath(path).startswith(_SYSTEM) and not self._limits.trees.holds(path)


def _kustomizations(directory: str) -> list[str]:
    return [name for name in KUSTOMIZATIONS if os.path.lexists(os.path.join(directory, name))]


def _has_line_breaks(path: str) -> bool:
    """True if a path with a line break may lead to a file: kustomize changes the number of line breaks in plugins."""
    before, line_break, _ = path.partition("\n")
    with suppress(OSError):
        return bool(line_break) and any("\n" in name for name in os.listdir(os.path.dirname(before)))
    return False


def _texts(data: bytes, file: str, line: int = 0) -> Iterator[_PositionedText]:
    """Yield the scalars of a file, or of an embedded text that begins on `line`. Raises Fault."""
    data = as_utf8(data)
    if codecs.BOM_UTF8 in data:  # go-yaml then loses characters of keys, so that "xresources" is read as "resources"
        raise Fault("a second byte order mark is not supported")
    for document in split(data, file, line):
        if isinstance(document, tuple):
            raise document[1]
        root, fault = leniently(compose, document)
        if fault is not None:
            raise fault
        if root is not None:
            yield from _scalars(root, document)


def _scalars(root: Node, document: Document) -> Iterator[_PositionedText]:
    to_do: list[tuple[Node, tuple[str, ...]]] = [(root, ())]
    for _ in range(_MAX_TEXTS):
        if not to_do:
            return
        node, keys = to_do.pop()
        node = followed(node)
        if isinstance(node, Scalar):
            if node.tag is not None:  # go-yaml reads "!!str, x" as one tag and a value
                raise Fault(f"tag {node.tag} is not supported")
            yield _PositionedText(node.text, keys, document.line_of(node.start))
        elif len(keys) > MAX_DEPTH:
            raise Fault(f"nested more than {MAX_DEPTH} levels deep")
        elif node.is_mapping:
            for key, value in zip(node.children[::2], node.children[1::2], strict=True):
                name = followed(key)
                to_do += [(key, ()), (value, (*keys, name.text.casefold() if isinstance(name, Scalar) else ""))]
        else:
            to_do += [(inner, keys) for inner in node.children]
    raise Fault(f"more than {_MAX_TEXTS:,} values")
