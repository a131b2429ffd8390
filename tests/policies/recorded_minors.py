"""Answers of the kube-apiservers of several minors to random requests, and how they are compared."""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from forewarn.policies.kubernetes.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.linting.config.load import load_limited_resources
from tests.policies.recorded import CASES, comparable
from tests.recorded.dry_run import dry_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

    Obj = dict[str, Any]

_DIFF = re.compile(r"\n@@.*?(?=\]?\Z)", re.DOTALL)
"""What stands behind the sentence of what may not change: a diff of the whole spec, as Go has it."""


class Recorded(NamedTuple):
    """A request and what came of it. `resolved`: class, priority and policy of a pod that was accepted."""

    id: str
    operation: str
    obj: Obj
    old: Obj | None
    code: int
    message: str
    resolved: list[Any] | None


def load(minor: str) -> tuple[list[Obj], list[Recorded]]:
    """The cluster that a minor's API server held, and the requests."""
    with gzip.open(CASES / f"requests-{minor}.jsonl.gz", "rt") as stream:
        first, *rest = map(json.loads, stream)
    return first["cluster"], [Recorded(**each) for each in rest]


def differences(recorded: Recorded, cluster: ClusterSnapshot, minor: int) -> Iterator[str]:
    """Where a dry run of this minor says something else; nothing where it agrees."""
    limits = load_limited_resources(CASES / "requests-config.yaml")
    strict = recorded.operation == "CREATE"
    subject = ReviewedObject(recorded.obj, Operation(recorded.operation), recorded.old)
    answer = dry_run(subject, cluster, Options(limited_resources=limits, minor=minor), strict=strict)
    code = 403 if recorded.code == 500 else recorded.code  # upstream's odd code for a limited class without a quota
    if answer.code != code:
        yield f"code {code} {recorded.message!r}, here {answer.code} {answer.message!r}"
    elif code != 400 and not answer.allowed:
        case = {"cluster": {"resourceQuotas": cluster.quotas_of(subject.effective_namespace)}}
        said = _named(_DIFF.sub("", recorded.message), recorded.obj)
        if comparable(answer.message, case) != comparable(said, case):
            yield f"{said!r}, here {answer.message!r}"
    elif recorded.resolved and answer.resolved:
        found = [*answer.resolved]
        if found != recorded.resolved:
            yield f"resolved {recorded.resolved}, here {found}"


def _named(message: str, obj: Obj) -> str:
    """A message with the end of a generated name as forewarn writes it."""
    metadata = obj.get("metadata") or {}
    prefix = "" if metadata.get("name") else metadata.get("generateName") or ""
    return re.sub(f'"{re.escape(prefix[:58])}[a-z0-9]{{5}}"', f'"{prefix[:58]}xxxxx"', message) if prefix else message
