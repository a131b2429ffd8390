"""Mistakes that are planted into manifests of other repositories, as `plants.json` has them.

A plant changes one document of a file: `find` is a pattern with named groups, and `replace` is what takes its place,
with `{group}` for a group, `{near}` for a misspelling of the class, and `{shorter}` for the class without a letter.
`append` is one more document behind it. `document` must match in a document that has an apiVersion, `unless` must not.
`defined`: only classes that the repository defines; `used`: only classes that it uses; `known`: only classes that it
defines or uses three times; `labelled`: only labels of its workloads. `sites`: how many files of a repository get the
plant (default 1). `alone`: no other plant in the same tree. `anywhere`: a finding in any file counts, else one in the
changed file. `note`: a note counts, else only an error or a warning. `broken`: the text is no YAML.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

PLANTS: Final[list[dict[str, Any]]] = json.loads(Path(__file__).with_name("plants.json").read_text())
_DOCUMENTS: Final = re.compile(r"^---.*\n", re.MULTILINE)
_LONG: Final = 200_000
"""Characters of a file that may get a plant: longer ones are generated."""
_TYPED: Final = re.compile(r"^apiVersion:", re.MULTILINE)
_PATCH: Final = re.compile(r"patch|assert", re.IGNORECASE)
"""Files that kustomize merges into others, or that tests compare with others: what they hold is no object."""
_CLASS: Final = re.compile(r"^kind: +[\"']?PriorityClass\b", re.MULTILINE)
_NAME: Final = re.compile(r"^  name: +[\"']?([-a-z0-9.]+)", re.MULTILINE)
_USE: Final = re.compile(
    r"^(?P<before>[ -]+priorityClassName: +[\"']?)(?P<class>[a-z][-a-z0-9.]*)(?=[\"']? *$)", re.MULTILINE
)
NONSENSE: Final = "zq{}-nonsense"


class Site(NamedTuple):
    """A plant in a file: the whole text that the file then has."""

    plant: Mapping[str, Any]
    file: str
    text: str
    is_template: bool
    """Whether the file has template braces, so that only rendering shows its objects."""


def defined_in(texts: Mapping[str, str]) -> set[str]:
    """The names of the classes that files define."""
    documents = (document for text in texts.values() if "PriorityClass" in text for document in _DOCUMENTS.split(text))
    return {name[1] for document in documents if _CLASS.search(document) and (name := _NAME.search(document))}


_OFTEN: Final = 3
_WORKLOAD: Final = re.compile(r"^kind: (Deployment|StatefulSet|DaemonSet) *$", re.MULTILINE)
_LABEL: Final = re.compile(r"^ +[-a-z./]+: +[\"']?([a-z][-a-z0-9.]{2,})[\"']? *$", re.MULTILINE)


def words_of(texts: Mapping[str, str]) -> dict[str, Collection[str]]:
    """The words that a plant may ask for, by the key of its condition."""
    defined, uses = defined_in(texts), Counter(use["class"] for text in texts.values() for use in _USE.finditer(text))
    documents = (document for text in texts.values() for document in _DOCUMENTS.split(text) if "{{" not in text)
    labels = {label for document in documents if _WORKLOAD.search(document) for label in _LABEL.findall(document)}
    known = defined | {name for name, count in uses.items() if count >= _OFTEN}
    return {"defined": defined, "used": set(uses), "known": known, "labelled": labels}


def near(name: str) -> str:
    """A misspelling: two neighbouring letters that differ change places, as near the middle as can be."""
    for at in sorted(range(1, len(name) - 1), key=lambda at: abs(at - len(name) // 2)):
        one, other = name[at], name[at + 1]
        if one != other and one.isalnum() and other.isalnum():
            return name[:at] + other + one + name[at + 2 :]
    return name + "x"


def shorter(name: str) -> str:
    """The name without the letter in its middle."""
    middle = len(name) // 2
    return name[:middle] + name[middle + 1 :]


def sites(plant: Mapping[str, Any], texts: Mapping[str, str], words: Mapping[str, Collection[str]]) -> Iterator[Site]:
    """Where a plant fits: one site for each file."""
    for file, text in texts.items():
        is_hand_written = len(text) <= _LONG and not _PATCH.search(file)
        changed = _planted(plant, text, words) if is_hand_written else None
        if changed is not None:
            yield Site(plant, file, changed, "{{" in text)


def _planted(plant: Mapping[str, Any], text: str, allowed: Mapping[str, Collection[str]]) -> str | None:
    """The text with the plant in the first document where it fits."""
    for start, end in _spans(text):
        document = text[start:end]
        if "document" in plant and not (
            _TYPED.search(document) and re.search(plant["document"], document, re.MULTILINE)
        ):
            continue
        if "unless" in plant and re.search(plant["unless"], document, re.MULTILINE):
            continue
        found = next((f for f in re.finditer(plant["find"], document, re.MULTILINE) if not _is_comment(f)), None)
        if found is None:
            continue
        words = found.groupdict()
        name = words.get("class", "")
        if any(key in plant and name not in names for key, names in allowed.items()):
            continue
        words |= {"near": near(name), "shorter": shorter(name)}
        changed: str = document[: found.start()] + plant["replace"].format(**words) + document[found.end() :]
        if "append" in plant:
            changed = changed.rstrip("\n") + "\n---\n" + plant["append"].format(**words)
        return f"{text[:start]}{changed}{text[end:]}"
    return None


def _is_comment(found: re.Match[str]) -> bool:
    return found.string[: found.start()].rpartition("\n")[2].lstrip().startswith("#")


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each document."""
    start = 0
    for separator in _DOCUMENTS.finditer(text):
        yield start, separator.start()
        start = separator.end()
    yield start, len(text)


def rounds(texts: Mapping[str, str], seed: int = 1) -> list[list[Site]]:
    """The sites of each plant that fits anywhere, in rounds: in each, no two plants change the same file."""
    chance, words = random.Random(seed), words_of(texts)
    found: list[list[Site]] = []
    for plant in PLANTS:
        fitting = list(sites(plant, texts, words))
        for site in chance.sample(fitting, min(len(fitting), plant.get("sites", 1))):
            others = [] if "alone" in plant else found
            free = (r for r in others if all(s.file != site.file and "alone" not in s.plant for s in r))
            if (together := next(free, None)) is not None:
                together.append(site)
            else:
                found.append([site])
    return found


def with_nonsense(texts: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The files in which each class that a literal names is replaced by a name of its own; and these names."""
    names: list[str] = []

    def replaced(use: re.Match[str]) -> str:
        names.append(NONSENSE.format(len(names)))
        return use["before"] + names[-1]

    changed = {file: _USE.sub(replaced, text) for file, text in texts.items() if "priorityClassName" in text}
    return {file: text for file, text in changed.items() if text != texts[file]}, names
