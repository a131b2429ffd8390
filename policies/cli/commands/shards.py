"""Parts of a run (shards) for several processes: selection, output, and the merge of all parts.

The output of a part is the command's output for this part alone, with a key `shard` that identifies the run. Parts
belong to one run if they differ only in their number, with equal number of parts, questions, cluster state, and
options.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from forewarn.policies import VERSION
from forewarn.policies.base.findings import listed, quote
from forewarn.policies.inputs.sources.files import SourceError
from forewarn.policies.linting.config.load import contents
from forewarn.policies.linting.config.model import find_config
from forewarn.policies.linting.config.scheduler import SchedulerSource

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from forewarn.policies.cli.commands.parser import Output
    from forewarn.policies.kubernetes.cluster.cache import Cache
    from forewarn.policies.kubernetes.releases.release import Release

T = TypeVar("T")

FIX_OF_PART: Final = "write parts with --shard I/N -o json=FILE, or reports with --clusters -o json=FILE"
INDEX: Final = "JOB_COMPLETION_INDEX"
"""Environment variable in Jobs with completionMode Indexed. Source: pkg/controller/job `completionIndexEnvName`."""
COMPLETIONS: Final = "JOB_COMPLETIONS"
"""Environment variable that the Job must set, because Kubernetes does not provide the number of completions."""
MAX: Final = 100_000


class Shard(NamedTuple):
    """Part `number` (from 0) of `parts`."""

    number: int
    parts: int

    def part_of(self, items: Sequence[T]) -> Sequence[T]:
        """The items of the part: every `parts`-th one, so that all parts have about the same amount of work."""
        return items[self.number :: self.parts]


def add_shard_option(add: Callable[..., object]) -> None:
    """Add `--shard` by a parser's `add_argument`."""
    help_text = (
        f"run only part I of N, for forewarn whatif merge; the first part is 0 (default in an Indexed Job: "
        f"${INDEX}/${COMPLETIONS})"
    )
    add("--shard", rare=True, metavar="I/N", help=help_text)


def shard_of(text: str | None, environment: Mapping[str, str]) -> Shard | None:
    """Return the part to run, from the option or the environment variables of an Indexed Job; None for the whole run.

    Raises ValueError.
    """
    index, count = environment.get(INDEX, ""), environment.get(COMPLETIONS, "")
    if text is not None:
        given_index, slash, count = text.partition("/")
        if not slash:
            raise ValueError(f"--shard {quote(text[:40])}: not a part. Fix: write I/N, as 0/4")
        index = given_index or index
        if not index:
            raise ValueError(f"--shard {quote(text[:40])}: {INDEX} is not set. Fix: name the part: I/N")
    elif not index:
        return None
    elif not count:
        raise ValueError(f"{INDEX} is set without the number of parts. Fix: set {COMPLETIONS} or --shard /N (0/1: all)")
    shard = Shard(_number(index, "part"), _number(count, "number of parts"))
    if not 1 <= shard.parts <= MAX:
        raise ValueError(f"the number of parts must be between 1 and {MAX}, not {shard.parts}")
    if shard.number >= shard.parts:
        raise ValueError(f"part {shard.number} of {shard.parts}: must be between 0 and {shard.parts - 1}")
    return None if shard.parts == 1 and text is not None else shard


def shard_given(text: str | None, output: Output, parser: argparse.ArgumentParser) -> Shard | None:
    """Return the part to run; None for the whole run. Exits if options are invalid: a part is written as JSON."""
    try:
        shard = shard_of(text, os.environ)
    except ValueError as fault:
        parser.error(str(fault))
    if shard is not None and output.is_given and output.forms != ["json"]:
        parser.error(f"-o {' -o '.join(output.forms)}: a part is written as json, which `forewarn whatif merge` reads")
    return shard


def _number(text: str, what: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise ValueError(f"the {what} must be a whole number, not {quote(text[:40])}")
    return int(text)


def digest_of(*parts: bytes) -> str:
    """Return the digest of a sequence of texts; also depends on where one text ends and the next starts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d:" % len(part) + part)
    return digest.hexdigest()


def run_options(command: str, release: Release, until: float, cache: Cache, config: str | None) -> dict[str, Any]:
    """The options that identify a run, except the cluster. `config`: the value of `--config`."""
    profiles = release.scheduler.given if isinstance(release.scheduler, SchedulerSource) else None
    file = config or find_config(os.curdir)
    return {
        "command": command,
        "forewarn": VERSION,
        "kubernetes": f"1.{cache.semantics.minor}",
        "feature gates": dict(sorted(release.gates.items())),
        "scheduler configuration": profiles and digest_of(repr(profiles).encode()),
        "configuration": digest_of(contents(file)) if file else "",
        "until": until,
    }


def marked(
    document: Mapping[str, Any], shard: Shard, questions: int, cluster: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the output of a part with its `shard` key.

    `questions`: number of questions of the whole run. `cluster`: digest of the cluster. `options`: the options that
    identify the run.
    """
    place = {"index": shard.number, "count": shard.parts, "of": questions, "cluster": cluster, "asked": dict(options)}
    return {**document, "shard": place}


class Part(NamedTuple):
    """The output of a part, read from a file. `of`: number of questions of the whole run. `cluster`: digest of the
    cluster.
    """

    file: str
    shard: Shard
    of: int
    cluster: str
    options: Mapping[str, Any]
    result: Mapping[str, Any]


def read_part(file: str, value: Any) -> Part:
    """Parse the output of a part. Raises SourceError."""
    place = value.get("shard") if isinstance(value, dict) else None
    if not isinstance(place, dict):
        raise SourceError(file, "not a part of a run", fix=FIX_OF_PART)
    index, count, of = (_count(place.get(name)) for name in ("index", "count", "of"))
    cluster, asked = place.get("cluster"), place.get("asked")
    if not isinstance(cluster, str) or not isinstance(asked, dict) or of < 0 or not 0 <= index < count <= MAX:
        raise SourceError(file, "invalid `shard` field")
    return Part(file, Shard(index, count), of, cluster, asked, value)


def _count(value: Any) -> int:
    """The value if it is a count, otherwise -1."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value < 2**31 else -1


def sort_parts(parts: Sequence[Part]) -> list[Part]:
    """Return all parts of one run in order. Raises SourceError for missing or duplicate parts, or parts of different
    runs.
    """
    first, by_number = parts[0], dict[int, Part]()
    for part in parts:
        _same_run(first, part)
        other = by_number.setdefault(part.shard.number, part)
        if other is not part:
            raise SourceError(part.file, f"part {part.shard.number} is duplicated: {other.file} is the same part")
    missing = [str(index) for index in range(first.shard.parts) if index not in by_number]
    if missing:
        parts_missing = f"{'part' if len(missing) == 1 else 'parts'} {listed(missing)}"
        fix = f"pass all files of the run; --shard {missing[0]}/{first.shard.parts} writes part {missing[0]}"
        raise SourceError(first.file, f"one of {first.shard.parts} parts; {parts_missing} missing", fix=fix)
    return [by_number[index] for index in sorted(by_number)]


def _same_run(first: Part, part: Part) -> None:
    about = f"{first.file} is from another run"
    if part.shard.parts != first.shard.parts:
        raise SourceError(part.file, f"{about}: one of {first.shard.parts} parts, and this one of {part.shard.parts}")
    for name in sorted({*first.options, *part.options}):
        one, other = first.options.get(name), part.options.get(name)
        if one != other:
            raise SourceError(part.file, f"{about}: {name[:80]} was {_shown(one)} there, and is {_shown(other)} here")
    if part.cluster != first.cluster:
        state = "of another state of the cluster (use one `forewarn snapshot` for all parts)"
        raise SourceError(part.file, f"{about}: {state}")
    if part.of != first.of:
        raise SourceError(part.file, f"{about}: of {first.of} cases, and this one of {part.of}")


def _shown(value: Any) -> str:
    return "not set" if value is None else json.dumps(value)[:80]
