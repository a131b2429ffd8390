"""What a new release of Kubernetes needs here: new_minor.py 1.38.0 [--since 1.37.1] compares the modules of the two.

`make releases KUBERNETES=1.38.0`. Each section names the place of the change. CONTRIBUTING.md has the checklist.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs"), str(ROOT / ".build")]

from feature_gates import module_of, read_by, specs_of, state  # noqa: E402

from forewarn.policies.kubernetes.releases import semantics  # noqa: E402
from forewarn.policies.kubernetes.releases.minors import CHECKED_WITH  # noqa: E402

GROUPS: Final = ("MODELLED", "NOT_MODELLED", "NO_EFFECT")
DEFAULTS: Final = ("pkg/scheduler/apis/config/v1/default_plugins.go", "pkg/scheduler/apis/config/v1/defaults.go")
READ: Final = (
    "pkg/scheduler",
    "pkg/controller",
    "pkg/quota/v1",
    "pkg/kubelet/allocation",
    "pkg/kubelet/eviction",
    "pkg/apis/core/validation",
    "pkg/apis/scheduling",
    "plugin/pkg/admission/limitranger",
    "plugin/pkg/admission/priority",
    "plugin/pkg/admission/resourcequota",
)
"""Directories of Kubernetes that forewarn follows, and takes messages from."""
_TEXT: Final = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_VERB: Final = re.compile(r"%[-+#0-9.]*\w|\\.")
_SHORTEST: Final = 16
"""Characters of a text that is not found by chance."""


def gate_lines(old: dict[str, str], new: dict[str, str], used: Collection[str]) -> Iterator[str]:
    """Gates whose state (`state`) changed, of those that forewarn lists or predicted code reads (`used`)."""
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name, "-"), new.get(name, "-")
        ours = next((group for group in GROUPS if name in getattr(semantics, group)), "")
        if was != now and (ours or name in used):
            not_modelled = semantics.NOT_MODELLED
            is_new_default = name in not_modelled and now.startswith("off" if not_modelled[name] else "on")
            note = ": the default is now the state that is not predicted" if is_new_default else ""
            yield f"{name}: {was} -> {now} ({ours or 'new: add it to one of ' + ', '.join(GROUPS)}{note})"


def plugin_lines(old: Path, new: Path) -> Iterator[str]:
    """The changed lines of the default plugins, weights and arguments."""
    for name in DEFAULTS:
        before, after = ((module / name).read_text().splitlines() for module in (old, new))
        for line in difflib.unified_diff(before, after, n=0, lineterm=""):
            if re.match(r"[-+]\s*[^-+\s]", line):
                yield f"{name.rpartition('/')[2]}: {line[0]} {line[1:].strip()}"


def field_lines(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """The fields of the kinds that forewarn reads, which one of the releases does not have."""
    tables = import_module("field_tables")
    before, after = ({(t, f) for t, fs in tables.types_of(d, {}).items() for f in fs} for d in (old, new))
    yield from (f"+ {kind}.{name}" for kind, name in sorted(after - before))
    yield from (f"- {kind}.{name}" for kind, name in sorted(before - after))


def texts_of(module: Path) -> dict[str, str]:
    """The literal parts of texts in the directories that forewarn follows -> a file with them."""
    found: dict[str, str] = {}
    for name in READ:
        for path in sorted((module / name).rglob("*.go")):
            if not path.name.endswith("_test.go"):
                for text in _TEXT.findall(path.read_text()):
                    parts = (part.strip() for part in _VERB.split(text))
                    found |= {p: str(path.relative_to(module)) for p in parts if " " in p and len(p) >= _SHORTEST}
    return found


def message_lines(old: dict[str, str], new: dict[str, str], ours: dict[str, str]) -> Iterator[str]:
    """Texts that forewarn has from the old release, and that the new one does not have. `ours`: path -> source."""
    for text, file in sorted(old.items(), key=lambda item: (item[1], item[0])):
        if text not in new and not any(text in other for other in new):
            places = [path for path, source in ours.items() if text in source]
            if places:
                yield f'{file}: "{text}" in {", ".join(sorted(places))}'


def changed_files(old: Path, new: Path) -> Iterator[str]:
    """The files to read, those with the most changed lines first."""
    counts = Counter[str]()
    for name in READ:
        files = {str(path.relative_to(m)) for m in (old, new) for path in (m / name).rglob("*.go")}
        for file in files:
            if not file.endswith(("_test.go", "zz_generated.deepcopy.go")):
                before, after = (_lines(module / file) for module in (old, new))
                counts[file] = sum((before - after).values()) + sum((after - before).values())
    yield from (f"{count:5} {file}" for file, count in counts.most_common() if count)


def _lines(path: Path) -> Counter[str]:
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


def main(arguments: list[str]) -> int:
    """Print the sections."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", help="such as 1.38.0")
    parser.add_argument("--since", help="the release to compare with (default: the checked one of the minor before)")
    options = parser.parse_args(arguments)
    minor = int(options.release.split(".")[1])
    since = options.since or CHECKED_WITH.get(minor - 1)
    if since is None:
        parser.error(f"no checked release of 1.{minor - 1}: pass --since")
    old, new = (module_of(f"k8s.io/kubernetes@v{release}") for release in (since, options.release))
    states = [
        {name: state(specs, known) for name, specs in specs_of(release).items()}
        for known, release in ((int(since.split(".")[1]), since), (minor, options.release))
    ]
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "policies").rglob("*.py")}
    definitions = import_module("field_tables").definitions_of
    sections = {
        "Feature gates (make feature-gates; policies/kubernetes/releases/predicted_gates.json)": gate_lines(
            *states, read_by(new)
        ),
        "Default plugins, weights and arguments (policies/kubernetes/scheduling/configuration)": plugin_lines(old, new),
        "API fields (make field-tables)": field_lines(definitions(since), definitions(options.release)),
        "Messages that forewarn has, and the new release does not have": message_lines(
            texts_of(old), texts_of(new), sources
        ),
        "Files to read, by changed lines": changed_files(old, new),
    }
    sys.stdout.write(f"Kubernetes {since} -> {options.release}\n")
    for title, lines in sections.items():
        found = list(lines)
        sys.stdout.writelines([f"\n{title}: {len(found)}\n", *(f"  {line}\n" for line in found)])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
