"""`forewarn snapshot`: write a running cluster to a file for `--cluster`."""

from __future__ import annotations

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
from typing import IO, TYPE_CHECKING, Any, Final

from forewarn.policies.cluster.cache import TIME
from forewarn.policies.commands.cluster_command import add_context_options, use_kubeconfig
from forewarn.policies.commands.parser import Parser
from forewarn.policies.controllers.replica_set import POD_DELETION_COST
from forewarn.policies.findings import plural
from forewarn.policies.kinds.registry import AUTOSCALER, NODE, POD, POD_TEMPLATE_PATHS, listed_as_empty
from forewarn.policies.kubelet.pods import CONFIG_SOURCE
from forewarn.policies.objects import devices, storage
from forewarn.policies.objects.fields import at, group_kind, list_at
from forewarn.policies.objects.pod import MIRROR_ANNOTATION
from forewarn.policies.objects.workload import REDACTED
from forewarn.policies.sources.files import SourceError, output_file, reason, status_of
from forewarn.policies.terminal import complain, is_about_output, print_notice, progress
from forewarn.webhook.apiserver.client import FIX_OF_CONNECTION, ApiServer, connect, mapping
from forewarn.webhook.apiserver.source import live, read_all, version_of

if TYPE_CHECKING:
    import argparse


_READ_GROUPS: Final = (
    *("forewarn.dev/", "deployment.kubernetes.io/", "cluster.x-k8s.io/", "machine.openshift.io/"),
    *("capacity.cluster-autoscaler.kubernetes.io/", "cluster-autoscaler.kubernetes.io/"),
    *("delay-deletion.cluster-autoscaler.kubernetes.io/", "karpenter.sh/"),
)
"""Prefixes of annotations that forewarn reads: its own, and those of Deployments and autoscalers."""
_READ: Final = frozenset(
    (
        *(storage.BETA_STORAGE_CLASS, storage.BIND_COMPLETED, storage.MIGRATED_PLUGINS, storage.SELECTED_NODE),
        *(CONFIG_SOURCE, devices.EXTENDED_RESOURCE_CLAIM, MIRROR_ANNOTATION, POD_DELETION_COST),
        *storage.DEFAULT_CLASS,
    )
)
"""Annotations that Kubernetes' components read. Their values are names of classes, nodes and plugins, or numbers."""
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_OF_AN_AUTOSCALER: Final = frozenset(("scaleTargetRef", "minReplicas", "maxReplicas"))
_OF_A_STATUS: Final = frozenset(("name", "resources", "allocatedResources", "restartCount"))


def redacted(obj: dict[str, Any]) -> dict[str, Any]:
    """Remove confidential fields in place, and return the object.

    Removes environment variables, images, commands, probes, metrics of autoscalers, and annotations that forewarn does
    not read.
    """
    for metadata in _metadata(obj):
        _redact_metadata(metadata)
    kind = group_kind(obj)
    path = () if kind == POD else POD_TEMPLATE_PATHS.get(kind)
    if path is not None:
        _redact_pod_spec(mapping(at(obj, *path, "spec")))
    if kind == AUTOSCALER:
        obj["spec"] = {key: value for key, value in mapping(obj.get("spec")).items() if key in _OF_AN_AUTOSCALER}
        obj.pop("status", None)
    if kind in (POD, NODE):
        _redact_status(mapping(obj.get("status")))
    return obj


def _metadata(obj: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the metadata of the object and of its templates."""
    yield mapping(obj.get("metadata"))
    spec = mapping(obj.get("spec"))
    job = mapping(spec.get("jobTemplate"))
    templates = [obj.get("template"), spec.get("template"), job, at(job, "spec", "template")]
    for template in [*templates, *list_at(spec, "volumeClaimTemplates")]:
        yield mapping(mapping(template).get("metadata"))


def _redact_metadata(metadata: dict[str, Any]) -> None:
    metadata.pop("managedFields", None)
    if "annotations" in metadata:
        annotations = mapping(metadata["annotations"]).items()
        metadata["annotations"] = {k: v for k, v in annotations if k.startswith(_READ_GROUPS) or k in _READ}


def _redact_pod_spec(spec: dict[str, Any]) -> None:
    for kind in _CONTAINERS:
        for container in spec.get(kind) or ():
            for key in REDACTED & mapping(container).keys():
                del container[key]
    for volume in spec.get("volumes") or ():
        if "image" in mapping(volume):
            volume["image"] = {}


def _redact_status(status: dict[str, Any]) -> None:
    status.pop("images", None)
    status.pop("message", None)
    for kind in _STATUSES:
        if kind in status:
            status[kind] = [{k: v for k, v in mapping(s).items() if k in _OF_A_STATUS} for s in status[kind] or ()]


WRITTEN, USAGE, FAILED = 0, 2, 3
_WAIT: Final = 600.0
"""Maximum seconds that the other Pods of an Indexed Job wait for the file of the first Pod."""
_HEAD: Final = b'{"apiVersion":"v1","kind":"List","items":['
_LEVEL: Final = 6


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0 if written, 2 for wrong usage, 3 if not written (an older file remains)."""
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
        fix = "" if fault.file != name or ". Fix: " in fault.problem else f". Fix: {FIX_OF_CONNECTION}"
        return complain("snapshot", f"{fault}{fix}", status_of(fault))
    except OSError as error:
        if options.output == "-" and is_about_output(error):
            raise
        return complain("snapshot", f"-o {options.output}: {reason(error)}", FAILED)  # of its temporary file
    text = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(4))
    print_notice(f"{options.output}: {plural(kinds.total(), 'object')} ({text or 'empty cluster'})")
    return WRITTEN


def write_list(objects: Iterable[dict[str, Any]], stream: IO[bytes]) -> None:
    """Write objects as one List in JSON, each on its own line, without collecting them in memory."""
    remaining = iter(objects)
    first = next(remaining, None)  # a cluster that does not answer leaves nothing behind, not even a beginning
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
        with suppress(OSError):  # a pipe or a device
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
    help_text = "omit, for example, environment variables, images and commands; predictions that use images can differ"
    once = "keep an existing file; in an Indexed Job, Pod 0 writes the file and other Pods wait for it"
    add("--once", action="store_true", help=once)
    add("--redact", action="store_true", help=help_text)
    return parser
