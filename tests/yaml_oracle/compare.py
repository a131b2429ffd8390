"""Ask kubectl's reader (.cache/yaml-oracle) and ours about mutated texts, and tell where they differ.

Seeds are the recorded cases and the manifests of this repository; `--suite DIR` adds the texts of a checkout of
yaml-test-suite. Every disagreement is printed as a JSON line: what was asked, what kubectl reads, what we read.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import yaml

from forewarn.policies.inputs.manifests.object_finder import ObjectFinder
from forewarn.policies.inputs.manifests.reading import BROKEN, FileTexts, read
from forewarn.policies.inputs.manifests.yaml.nodes import UNREAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic

ROOT: Final = Path(__file__).parents[2]
ORACLE: Final = ROOT / ".cache" / "yaml-oracle"
SKIPPED: Final = "(skipped)"
_MAX_LENGTH: Final = 4_000
_PIECES: Final = (
    *(bytes([byte]) for byte in b" \n\t\r:-?,[]{}#&*!|>'\"%@`~<=.\\0aA1_+eExX"),
    *(
        b"---\n",
        b"...\n",
        b"--- ",
        b"- ",
        b": ",
        b"? ",
        b"  ",
        b"\n\n",
        b"<<: ",
        b"!!str ",
        b"!!int ",
        b"!!float ",
        b"!!binary ",
    ),
    *(
        b"null",
        b"~",
        b"true",
        b"yes",
        b"0x1F",
        b"0o7",
        b"1e3",
        b".inf",
        b".nan",
        b"1_000",
        b"2001-01-01",
        b"0b1",
        b"-0",
        b"1:30",
    ),
    *(b"\xef\xbb\xbf", b"\xc2\xa0", b"\xc2\x85", b"\xe2\x80\xa8", b"\xff", b"\x00", b"\x1b", b"\xc3", "ä😀".encode()),
    *(
        b"{}",
        b"[]",
        b'""',
        b"''",
        b"|-\n",
        b">+\n",
        b"|2\n",
        b"&a ",
        b"*a",
        b'\\"',
        b"\\u0041",
        b"\\x41",
        b"#",
        b" #",
        b"{a: b}",
    ),
)
_SUITE_MARKS: Final = {"␣": " ", "»": "\t", "—": "", "↵": "", "←": "\r", "⇔": "\ufeff"}


def seeds(suite: Path | None) -> list[bytes]:
    """Texts to begin with."""
    recorded = (ROOT / "tests/policies/manifests/cases/yaml.jsonl").read_text().splitlines()
    found = [
        base64.b64decode(case["base64"]) if "base64" in case else case["text"].encode()
        for case in map(json.loads, recorded)
    ]
    found += [path.read_bytes() for path in sorted((ROOT / "tests/policies/cases/lint").glob("*.yaml"))]
    for path in sorted((suite / "src").glob("*.yaml")) if suite else ():
        for case in yaml.safe_load(path.read_text()):
            if text := case.get("yaml"):
                for mark, meant in _SUITE_MARKS.items():
                    text = text.replace(mark, meant)
                found.append(text.removesuffix("∎\n").encode())
    return [text for text in found if len(text) <= _MAX_LENGTH]


def mutated(text: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """A text with one to three changes."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.choice((1, 1, 1, 2, 5, 20)))
        lines = text.split(b"\n")
        line = rng.randrange(len(lines))
        what = rng.randrange(8)
        if what <= 1:
            text = text[:at] + rng.choice(_PIECES) + text[at:]
        elif what == 2:
            text = text[:at] + text[end:]
        elif what == 3:
            text = text[:at] + rng.choice(_PIECES) + text[end:]
        elif what == 4:
            text = text[:end] + text[at:]
        elif what == 5:
            lines[line] = rng.choice((b" ", b"  ", b"- ", b"\t", b"# ")) + lines[line]
            text = b"\n".join(lines)
        elif what == 6:
            del lines[line]
            text = b"\n".join(lines)
        else:
            text = text + rng.choice((b"\n---\n", b"\n", b"\n...\n", b" ")) + rng.choice(others)
    return text[:_MAX_LENGTH]


class _Everything(ObjectFinder):
    """Keeps every value, whatever it is."""

    def __init__(self) -> None:
        super().__init__((), "", FileTexts(""))
        self.values: list[Any] = []

    def fork(self) -> _Everything:
        return _Everything()

    def merge(self, other: ObjectFinder) -> None:
        self.values += getattr(other, "values", ())

    def wants(self, api_version: str, kind: str, data: bytes = b"") -> bool:
        return True

    def take(self, value: Any, source: object) -> list[FileDiagnostic]:
        self.values.append(value)
        return []

    def skip(self, kind: str) -> None:
        self.values.append(SKIPPED)


def ours(text: bytes) -> tuple[list[Any], str]:
    """What the linter reads, and why a document of it cannot be read; text that kubectl drops is no reason."""
    finder = _Everything()
    with patch("forewarn.policies.inputs.manifests.reading.ObjectFinder", return_value=finder):
        reading = read(text, "f.yaml", ())
    faults = [told.message for told in reading.diagnostics if told.rule in BROKEN and told.message != UNREAD]
    return [value for value in finder.values if value is not None], faults[0] if faults else ""


def asked_of_kubectl(texts: Sequence[bytes]) -> Iterator[tuple[list[Any], str]]:
    """The same of kubectl's reader."""
    asked = [json.dumps({"id": str(n), "base64": base64.b64encode(text).decode()}) for n, text in enumerate(texts)]
    done = subprocess.run([ORACLE], input="\n".join(asked).encode(), capture_output=True, check=True)
    answers = done.stdout.decode(errors="replace")  # a value of !!binary may be no UTF-8
    for line in answers.rstrip("\n").split("\n"):  # a string may hold other ends of lines
        told = json.loads(line)
        yield told["documents"], told.get("refused", "")


def agree(ours: tuple[list[Any], str], kubectls: tuple[list[Any], str]) -> bool:
    """Whether both read the same; behind the first fault kubectl reads no further. 1, 1.0 and true are three things."""
    (read, fault), (documents, rejected) = ours, kubectls
    if bool(fault) != bool(rejected) or len(read) < len(documents) or (not rejected and len(read) > len(documents)):
        return False
    pairs = zip(read, documents, strict=False)
    return all(r is SKIPPED or json.dumps(r, sort_keys=True) == json.dumps(d, sort_keys=True) for r, d in pairs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; returns 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", type=Path, help="a checkout of yaml-test-suite")
    parser.add_argument("--count", type=int, default=20_000, help="mutations (default 20000)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args(arguments)
    rng, begun = random.Random(options.seed), seeds(options.suite)
    texts = begun + [mutated(rng.choice(begun), begun, rng) for _ in range(options.count)]
    different = 0
    for text, (documents, rejected) in zip(texts, asked_of_kubectl(texts), strict=True):
        found, fault = ours(text)
        if not agree((found, fault), (documents, rejected)):
            different += 1
            kubectl, forewarn = {"documents": documents, "refused": rejected}, {"documents": found, "refused": fault}
            print(
                json.dumps({"text": text.decode("utf-8", "backslashreplace"), "kubectl": kubectl, "forewarn": forewarn})
            )
    summary = f"seed {options.seed}: {len(texts)} texts, of them {len(begun)} seeds; {different} read differently"
    print(summary, file=sys.stderr)
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
