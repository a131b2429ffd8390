"""Read a file of node groups: templates of the nodes that cluster-autoscaler can add.

The file is a list of `{name, minSize, size, maxSize, pricePerMonth, template}`; `template` is a Node
(docs/guides/what-if.md).
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import cut, quote
from forewarn.policies.kubernetes.kube_apiserver.validation.decode import fields_of
from forewarn.policies.kubernetes.objects.fields import InvalidObject, json_type, mapping
from forewarn.policies.kubernetes.objects.node import HOSTNAME, Node
from forewarn.policies.kubernetes.objects.resources import CPU, MEMORY
from forewarn.policies.linting.config.load import ConfigNode, contents, parse
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import NodeGroup, Price, from_provider

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from forewarn.policies.linting.config.model import ConfigError

MAX_GROUPS: Final = 500
MAX_SIZE: Final = 2**31 - 1
_MAX_LENGTH: Final = 253
"""Maximum characters of a name."""
_FIELDS: Final = ("name", "minSize", "size", "maxSize", "pricePerMonth", "template")
_PRICE: Final = re.compile(r"(\d{1,9})(?:\.(\d{2}))? ([A-Z]{3})")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NEEDED: Final = ("cpu", "memory", "pods")
POOL_LABELS: Final = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "pool",
    "node.kubernetes.io/instance-type",
)
"""Labels that name a node's pool; the first one that a node has counts."""
_CONDITIONS: Final = "node.kubernetes.io/"
"""Prefix of the taints that the API server and controllers set for conditions."""


def load_node_groups(path: str) -> tuple[NodeGroup, ...]:
    """Return the node groups in a file. Raises ConfigError, even if the file cannot be opened."""
    return read_node_groups(contents(path), path)


def read_node_groups(text: str | bytes, file: str) -> tuple[NodeGroup, ...]:
    """Parse node groups from a file's text.

    Raises ConfigError for the first error. `file`: the name in error messages.
    """
    root = parse(text, file)
    groups: dict[str, NodeGroup] = {}
    for entry in root.elements():
        if len(groups) == MAX_GROUPS:
            raise entry.fault(f"more than {MAX_GROUPS} node groups")
        given = entry.fields(_FIELDS, ("name", "template"))
        name = given["name"].text()
        if not name or len(name) > _MAX_LENGTH or not name.isprintable():
            raise given["name"].fault(f"must be 1 to {_MAX_LENGTH} printable characters")
        sizes = {what: _size(given[what]) for what in ("minSize", "size", "maxSize") if what in given}
        least, most = sizes.get("minSize", 0), sizes.get("maxSize")
        if most is not None and least > most:
            raise given["minSize"].fault(f"{least} is greater than maxSize {most}")
        group = _with_template(name, sizes.get("size", least), most, given["template"])
        if "pricePerMonth" in given:
            group = group._replace(price=_price(given["pricePerMonth"], groups.values()))
        if group.name in groups:
            raise entry.fault(f'node group "{group.name}" is duplicated')
        groups[group.name] = group
    if not groups:
        raise root.fault("no node groups. Fix: write a list of {name, maxSize, template}")
    return tuple(groups.values())


def _price(entry: ConfigNode, others: Iterable[NodeGroup]) -> Price:
    """Return the price of a node, in the currency of the other groups. Raises ConfigError."""
    match = _PRICE.fullmatch(entry.text())
    if match is None:
        raise entry.fault(f"must be an amount and a currency, such as 140.50 USD, not {quote(cut(entry.text(), 40))}")
    price = Price(100 * int(match[1]) + int(match[2] or 0), match[3])
    for other in others:
        if other.price is not None and other.price.currency != price.currency:
            raise entry.fault(f"is in {price.currency}, that of {other.name} in {other.price.currency}")
    return price


def pool_of(node: Node) -> str:
    """Return the pool of a node, from the first of POOL_LABELS that the node has; "" without such a label."""
    return next((node.labels[label] for label in POOL_LABELS if label in node.labels), "")


def new_node_like(model: Node, name: str) -> Node:
    """Return a new node like `model`, ready and empty: without the model's taints for conditions and cordoning."""
    taints = tuple(taint for taint in model.taints if not taint.key.startswith(_CONDITIONS))
    return replace(model, name=name, labels={**model.labels, HOSTNAME: name}, taints=taints, unschedulable=False)


def free_names(prefix: str, taken: Container[str]) -> Iterator[str]:
    """Yield `PREFIX-1`, `PREFIX-2` and so on, except taken names."""
    return (name for number in count(1) if (name := f"{prefix}-{number}") not in taken)


def _size(node: ConfigNode) -> int:
    text = node.text()
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_SIZE)) and int(text) <= MAX_SIZE):
        raise node.fault(f"must be a whole number from 0 to {MAX_SIZE}")
    return int(text)


def _with_template(name: str, size: int, limit: int | None, entry: ConfigNode) -> NodeGroup:
    """Return the group with a template. `entry`: the template. Raises ConfigError."""
    node = fields_of("Node")  # a misspelled field is an error; other fields are ignored
    types = {part: name for part, _, name in node.nested}
    for part, value in entry.items(node.known):
        if part == "kind" and value.text() != "Node":
            raise value.fault(f'must be Node, not "{value.text()}"')
        fields = value.fields(fields_of(types[part]).known) if part in types else {}
        if "taints" in fields:
            _check_taints(fields["taints"])
    given = entry.plain()
    status = {**mapping(given, "status")} if isinstance(given, dict) else {}
    written = {"allocatable": "allocatable", "capacity": "capacity"}
    for one, other in (("allocatable", "capacity"), ("capacity", "allocatable")):
        if status.get(one) is None and status.get(other) is not None:
            status[one], written[one] = status[other], other
    obj = {**(given or {}), "status": status, "apiVersion": "v1", "kind": "Node"}
    try:
        group = from_provider(name, size, limit, obj)
    except InvalidObject as fault:
        path = [written.get(step, step) if isinstance(step, str) else step for step in fault.path]
        raise _fault_at(entry, path, fault.problem) from None
    for needed in _NEEDED:
        if needed not in group.allocatable:
            raise _fault_at(entry, ("status", written["allocatable"]), f"{needed} is missing; no Pod would fit")
    if not (group.capacity.get(CPU, 0) > 0 and group.capacity.get(MEMORY, 0) > 0):
        raise _fault_at(entry, ("status", written["capacity"]), "cpu and memory must be greater than 0")
    return group


def _check_taints(entry: ConfigNode) -> None:
    """Raise ConfigError at the first taint that the API server would reject. Source: `validateNodeTaints`."""
    for taint in entry.elements():
        fields = taint.fields(fields_of("Taint").known, ("key", "effect"))
        for name, field in fields.items():
            value = field.plain()
            if name != "timeAdded" and not isinstance(value, str) and (name != "value" or value is not None):
                raise field.fault(f"must be a string, not {json_type(value)}")
        fields["effect"].word(_EFFECTS, "effect")


def _fault_at(entry: ConfigNode, path: Sequence[str | int], problem: str) -> ConfigError:
    """Return the ConfigError for a field, at the deepest existing position on the field's `path`."""
    for step in path:
        if entry.sequence:
            node = dict(enumerate(entry.elements())).get(step if isinstance(step, int) else -1)
        else:
            node = dict(entry.items()).get(str(step))
        if node is None:
            break
        entry = node
    return entry.fault(problem)
