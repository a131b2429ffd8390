"""forewarn's verdict about a new object, and recorded ones of kube-apiserver."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import field_path
from forewarn.policies.kubernetes.kube_apiserver.validation import decode
from forewarn.policies.kubernetes.kube_apiserver.validation.priority_class import validate_priority_class
from forewarn.policies.kubernetes.kube_apiserver.validation.resources import validate_resource_quota
from forewarn.policies.kubernetes.kube_apiserver.validation.tables import validate
from forewarn.policies.kubernetes.objects.fields import InvalidObject

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.releases.semantics import Semantics

    Obj = dict[str, Any]

OTHER_TYPE: Final = "(type)"
"""Stands for the field of a value that cannot be decoded."""
RECORDED: Final = Path(__file__).parents[1] / "cases" / "validation.jsonl.gz"
_OTHERS: Final = {
    "PriorityClass": (decode.PRIORITY_CLASS_STRUCT, validate_priority_class),
    "ResourceQuota": (decode.RESOURCE_QUOTA_STRUCT, validate_resource_quota),
}


def fields_of(obj: Obj, semantics: Semantics) -> list[str]:
    """The fields that forewarn rejects, with upstream's names."""
    if obj["kind"] in _OTHERS:
        struct, validate_other = _OTHERS[obj["kind"]]
        if decode.decode_error(obj, struct):
            return [OTHER_TYPE]
        faults = validate_other({**obj, "metadata": {**(obj.get("metadata") or {}), "namespace": "default"}})
    else:
        try:
            faults = validate(obj, semantics)
        except InvalidObject:
            return [OTHER_TYPE]
    return sorted({fault.field or field_path(fault.path) for fault in faults})


@dataclass
class Recorded:
    """Objects as JSON, by kind, with the answers by minor."""

    objects: dict[str, list[str]] = field(default_factory=dict)
    answers: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Recorded:
        """The contents of a file, each line with a kind, an object, and the fields that minors reject."""
        read = cls()
        for line in gzip.decompress(path.read_bytes()).splitlines() if path.exists() else ():
            entry = json.loads(line)
            text = json.dumps(entry["object"])
            read.objects.setdefault(entry["kind"], []).append(text)
            read.answers[text] = {
                minor: fields for minors, fields in entry["fields"].items() for minor in minors.split()
            }
        return read

    def write(self, path: Path) -> None:
        """Write the file; minors with the same answer together."""
        lines = []
        for kind, texts in self.objects.items():
            for text in texts:
                minors = defaultdict[str, list[str]](list)
                for minor, fields in sorted(self.answers[text].items()):
                    minors[json.dumps(fields)].append(minor)
                by_minors = {" ".join(each): json.loads(fields) for fields, each in minors.items()}
                lines.append(json.dumps({"kind": kind, "fields": by_minors, "object": json.loads(text)}))
        path.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
