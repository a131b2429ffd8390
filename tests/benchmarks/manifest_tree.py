"""A tree of manifests like a platform team's repository: the same files for the same seed.

A quarter are workloads, half of the rest CustomResourceDefinitions, the others configuration, services and roles. From
100 files on some are as large as in real trees: definitions of 750 kB whose prose begins lines with `*` and `?`, and
dashboards in ConfigMaps. 1,000 files are about 15 MB.
`python tests/benchmarks/manifest_tree.py DIRECTORY [FILES] [SEED]` writes one.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEXT: Final = (
    "the controller keeps a copy of each object that it owns and compares it with what users asked for so changes "
    "made by hand are put back unless they are listed as exceptions names follow DNS labels and may be at most 63 "
    "characters long a value of zero means no limit is set defaults come from the cluster profile when absent"
)
_WORDS: Final = _TEXT.split()
_LARGE: Final = 108
_CLASSES = ("high", "standard", "batch", "system-cluster-critical")


class _Dumper(yaml.CSafeDumper):
    """Writes out in full what stands in two places, as people do."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
_KINDS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod")


def manifests(files: int = 1000, seed: int = 1) -> Iterator[tuple[str, str]]:
    """(path, text) of every file, in the order of the paths."""
    chance = random.Random(seed)
    for index in range(files):
        kind = index % 8
        if index % 250 == _LARGE:
            yield f"crds/{index:05}.yaml", _dump(_definition(chance, index, _large(chance)))
            yield f"base/{index:05}.yaml", _dump(_dashboard(chance, index))
        elif kind < 2:
            yield f"apps/{index:05}.yaml", _dump(_workload(chance, index))
        elif kind < 5:
            yield f"crds/{index:05}.yaml", _dump(_definition(chance, index))
        else:
            yield f"base/{index:05}.yaml", "---\n".join(_dump(obj) for obj in _others(chance, index))


def write_tree(directory: Path, files: int = 1000, seed: int = 1) -> int:
    """Write the tree; returns how many bytes it has."""
    size = 0
    for path, text in manifests(files, seed):
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        size += target.write_bytes(text.encode())
    return size


def _dump(obj: dict[str, Any]) -> str:
    return yaml.dump(obj, Dumper=_Dumper, sort_keys=False, width=100)


def _sentence(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(_WORDS, k=words)).capitalize() + "."


def _meta(name: str, chance: random.Random) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": chance.choice(_WORDS), "team": "platform"}
    return {"name": name, "namespace": f"team-{chance.randrange(20)}", "labels": labels}


def _container(chance: random.Random, name: str) -> dict[str, Any]:
    env = [{"name": f"SETTING_{i}", "value": _sentence(chance, 3)} for i in range(chance.randrange(12, 40))]
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10, "failureThreshold": 3}
    return {
        "name": name,
        "image": f"registry.example.com/{name}:v1.{chance.randrange(40)}.0",
        "args": [f"--{chance.choice(_WORDS)}={chance.randrange(100)}" for _ in range(6)],
        "env": env,
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "livenessProbe": probe,
        "readinessProbe": {**probe, "initialDelaySeconds": 5},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/config", "readOnly": True}],
    }


def _workload(chance: random.Random, index: int) -> dict[str, Any]:
    kind, name = _KINDS[index % len(_KINDS)], f"app-{index}"
    spec = {
        "priorityClassName": chance.choice(_CLASSES[:3]),
        "serviceAccountName": name,
        "containers": [_container(chance, f"{name}-{i}") for i in range(chance.randrange(1, 5))],
        "volumes": [{"name": "config", "configMap": {"name": name, "defaultMode": 420}}],
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}],
    }
    meta = _meta(name, chance)
    template = {"metadata": {"labels": meta["labels"]}, "spec": spec}
    match kind:
        case "Pod":
            return {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": spec}
        case "Job":
            return {"apiVersion": "batch/v1", "kind": kind, "metadata": meta, "spec": {"template": template}}
        case "CronJob":
            job = {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": template}}}
            return {"apiVersion": "batch/v1", "kind": kind, "metadata": meta, "spec": job}
    body = {"selector": {"matchLabels": meta["labels"]}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": body}


def _schema(chance: random.Random, depth: int) -> dict[str, Any]:
    description = _sentence(chance, chance.randrange(5, 19))
    if depth == 0 or chance.random() < 0.3:
        kind = chance.choice(("string", "integer", "boolean"))
        return {"description": description, "type": kind}
    names = [f"{a}{b.capitalize()}" for a, b in zip(chance.sample(_WORDS, 6), chance.sample(_WORDS, 6), strict=True)]
    properties = {name: _schema(chance, depth - 1) for name in names}
    return {"description": description, "properties": properties, "required": names[:2], "type": "object"}


def _large(chance: random.Random) -> dict[str, Any]:
    """A schema as that of a workload's owner: hundreds of fields, and prose with lists in it."""
    signs = ("* ", "? ", "- ", "", "", "# ")
    fields = {}
    for number in range(39):
        prose = "\n".join(chance.choice(signs) + _sentence(chance, 12) for _ in range(8))
        fields[f"field{number}"] = {**_schema(chance, 3), "description": prose}
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}


def _dashboard(chance: random.Random, index: int) -> dict[str, Any]:
    """JSON in a ConfigMap, as dashboards are shipped."""
    panels = [{"id": i, "title": _sentence(chance, 4), "targets": [{"expr": "sum(rate(x[5m]))"}]} for i in range(300)]
    text = json.dumps({"panels": panels, "title": f"board-{index}"}, indent=4)
    data = {"board.json": text}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(f"board-{index}", chance), "data": data}


def _definition(chance: random.Random, index: int, large: dict[str, Any] | None = None) -> dict[str, Any]:
    kind = f"Thing{index}"
    schema = large or {"type": "object", "properties": {"spec": _schema(chance, 3), "status": _schema(chance, 2)}}
    columns = [{"jsonPath": ".metadata.creationTimestamp", "name": "Age", "type": "date"}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.example.com", "annotations": {"controller-gen/version": "v0.16.1"}},
        "spec": {
            "group": "example.com",
            "names": {"kind": kind, "plural": f"{kind.lower()}s"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": version,
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": schema},
                    "served": True,
                    "storage": version == "v1",
                }
                for version in ("v1",)
            ],
        },
    }


def _others(chance: random.Random, index: int) -> Iterator[dict[str, Any]]:
    name = f"app-{index}"
    meta = _meta(name, chance)
    lines = "\n".join(_sentence(chance, 12) for _ in range(chance.randrange(10, 70)))
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"settings.conf": lines}}
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {"selector": meta["labels"], "ports": ports},
    }
    rules = [
        {"apiGroups": [""], "resources": chance.sample(_WORDS, 4), "verbs": ["get", "list", "watch"]} for _ in range(8)
    ]
    yield {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta, "rules": rules}


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[2:4]]
    print(write_tree(Path(sys.argv[1]), *numbers), "bytes")
