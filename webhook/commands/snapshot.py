"""`forewarn snapshot`: write a running cluster to a file for `--cluster`."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final

from forewarn.policies.base.findings import plural
from forewarn.policies.cli.commands.cluster_command import add_context_options, use_kubeconfig
from forewarn.policies.cli.commands.parser import Parser
from forewarn.policies.cli.terminal import complain, is_about_output, print_notice, progress
from forewarn.policies.inputs.sources.files import SourceError, output_file, reason, status_of
from forewarn.policies.kubernetes.cluster.cache import TIME
from forewarn.policies.kubernetes.kinds.registry import listed_as_empty
from forewarn.policies.kubernetes.objects.redaction import redacted
from forewarn.webhook.apiserver.client import FIX_OF_CONNECTION, ApiServer, connect
from forewarn.webhook.apiserver.source import live, read_all, version_of

WRITTEN, USAGE, FAILED = 0, 2, 3
_WAIT: Final = 600.0
"""Maximum seconds that the other Pods of an Indexed Job wait for the file of the first Pod."""
_HEAD: Final = b'{"apiVersion":"v1","kind":"List","items":['
_LEVEL: Final = 6


def main(arguments: Sequence[str]) -> int:
    """Run the command; return 0 if written, 2 for wrong usage, 3 if not written (an older file remains)."""
    options = _parser().parse_args(arguments)
    use_kubeconfig(options)
    if options.once and options.output == "-":
        return complain("snapshot", "--once requires -o FILE", USAGE)
    if options.once and (ended := _is_there(Path(options.output))) is not None:
        return ended
    name = f"live:{options.context}" if options.context else "live"
    api = ApiServer(partial(connect, options.context))
    context = options.context
    others = (live.node_groups, live.autoscalers_if_permitted)
    objects: Iterator[dict[str, Any]] = chain(read_all(api, name), *(read(context) for read in others))
    now = datetime.now(UTC).strftime(TIME)
    if options.redact:
        objects = map(redacted, objects)
    kinds: Counter[str] = Counter()
    try:
        with _replaced(options.output) as stream:
            counted = _counted(progress(objects, None, "objects", sys.stderr), kinds)
            write_list(chain(counted, version_of(api, time=now)), stream)
    except SourceError as fault:
        fault.fix = fault.fix or (FIX_OF_CONNECTION if fault.file == name else "")
        return complain("snapshot", str(fault), status_of(fault))
    except OSError as error:
        if options.output == "-" and is_about_output(error):
            raise
        return complain("snapshot", f"-o {options.output}: {reason(error)}", FAILED)  # of the temporary file
    text = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(4))
    print_notice(f"{options.output}: {plural(kinds.total(), 'object')} ({text or 'empty cluster'})")
    return WRITTEN


def write_list(objects: Iterable[dict[str, Any]], stream: IO[bytes]) -> None:
    """Write objects as one List in JSON, each on its own line, without collecting them in memory."""
    remaining = iter(objects)
    first = next(remaining, None)  # read first, so that there is no partial file if the cluster does not answer
    stream.write(_HEAD)
    separator = b"\n"
    for obj in chain(() if first is None else (first,), remaining):
        stream.write(separator + json.dumps(obj, separators=(",", ":")).encode())
        separator = b",\n"
    stream.write(b"\n]}\n")


def _is_there(path: Path) -> int | None:
    """Return the exit status if this process must not write the file; None if this process must write.

    In an Indexed Job, the first Pod writes the file, and the other Pods wait for the file, so that all use the same
    snapshot.
    """
    own, began = os.environ.get("JOB_COMPLETION_INDEX", "0") == "0", time.monotonic()
    while not path.exists():
        if own:
            return None
        if time.monotonic() - began > _WAIT:
            why = f"not found after {_WAIT / 60:.0f} minutes; Pod 0 of the Job must write it"
            return complain("snapshot", f"-o {path}: {why}", FAILED)
        time.sleep(1)
    print_notice(f"{path}: already exists, not changed")
    return WRITTEN


def _counted(objects: Iterable[dict[str, Any]], kinds: Counter[str]) -> Iterator[dict[str, Any]]:
    for obj in objects:
        if not listed_as_empty(obj):
            kinds[obj["kind"]] += 1
        yield obj


@contextmanager
def _replaced(output: str) -> Iterator[IO[bytes]]:
    """Yield the output file; at the end of the block, the complete snapshot replaces `output` atomically.

    `output`: `-` for standard output. Only the owner may read the file, because it contains the objects of a cluster.
    """
    if output == "-":
        with tempfile.TemporaryFile() as spool:
            yield spool
            spool.seek(0)
            shutil.copyfileobj(spool, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        return
    with output_file(output, mode=0o600) as plain:
        if output.endswith(".gz"):
            with gzip.GzipFile("", "wb", _LEVEL, plain, mtime=0) as packed:
                yield packed  # type: ignore[misc]
        else:
            yield plain
        plain.flush()
        with suppress(OSError):  # the output is a pipe or a device
            os.fsync(plain.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn snapshot",
        description="Write a cluster snapshot for --cluster: the objects of a running cluster that predictions use.",
        epilog="Exit status: 0: written. 2: wrong usage. 3: the command failed.",
        examples=("snapshot -o cluster.json.gz", "snapshot --context prod --redact -o prod.json.gz"),
    )
    add = parser.add_argument
    add_context_options(add)
    help_text = "output file, compressed if its name ends in .gz; - for standard output"
    add("-o", "--output", required=True, metavar="FILE", help=help_text)
    help_text = "keep only fields that predictions read, without images; predictions that use images can differ"
    once = "keep an existing file; in an Indexed Job, Pod 0 writes the file and other Pods wait for it"
    add("--once", action="store_true", help=once)
    add("--redact", action="store_true", help=help_text)
    return parser
