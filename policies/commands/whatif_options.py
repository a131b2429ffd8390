"""The options of `forewarn whatif`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.commands.autoscaling import add_arrival_options, add_autoscaling_options
from forewarn.policies.commands.cluster_command import (
    add_cluster_option,
    add_color_option,
    add_namespace_option,
    add_output_option,
)
from forewarn.policies.commands.parser import Parser, integer_between
from forewarn.policies.commands.release import add_release_options
from forewarn.policies.commands.shards import add_shard_option
from forewarn.policies.commands.simulated import add_runs_options, add_until_option, simulated_time, simulated_until
from forewarn.policies.commands.sweep import HAPPENINGS

if TYPE_CHECKING:
    import argparse


FORMATS: Final = ("text", "json", "markdown", "html", "svg")
MAX_VALUE: Final = 2**31 - 1
MAX_ADDED: Final = 1_000
SCOPES: Final = {"node": "one or more nodes", "zone": "one zone", "pool": "LABEL=VALUE[,LABEL=VALUE]"}
"""Kind of loss in `whatif lose` -> its argument."""


def _common_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_cluster_option(add)
    add_release_options(add)
    add_until_option(add, ", or as long as the upgrade or restart takes")
    add_namespace_option(add)
    add_output_option(add, FORMATS)
    add("--timeline", action="store_true", help="also show all events in order")
    add(
        "--fail-on",
        action="append",
        choices=(*HAPPENINGS, "blocked"),
        default=[],
        help="exit with 1 if this happens; blocked means that a node cannot be drained or upgraded (repeatable)",
    )
    add_autoscaling_options(add)
    add_arrival_options(add)
    add_color_option(add)


_EXAMPLES: Final = {
    "lose": ("whatif lose zone eu-1a", "whatif lose --each node -o json=losses.json"),
    "drain": ("whatif drain node-1 node-2", "whatif drain node-1 --fail-on blocked"),
    "add": ("whatif add node gen-0001 --count 3", "whatif add pool pool=general -o json"),
    "restart": (
        "whatif restart daemonset/log-agent -n monitoring",
        "whatif restart deployment/web --fail-on preemption",
    ),
    "upgrade": ("whatif upgrade --fail-on blocked", "whatif upgrade --pool pool=blue --max-surge 2 --drain-timeout 1h"),
    "class": ("whatif class gold --value 100000", "whatif class gold --workloads namespace=shop"),
    "scale": ("whatif scale deployment/web 10 -n shop", "whatif scale statefulset/db 5 -n shop -o json"),
    "apply": ("whatif apply -f manifests/", "whatif apply -f web.yaml --timeline"),
    "delete": ("whatif delete -f web.yaml", "whatif delete -f web.yaml --cluster cluster.json.gz"),
    "events": ("whatif events --events outage.yaml --timeline", "whatif events -f web.yaml --runs 20"),
}


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser, with one subcommand for each kind of change."""
    parser = Parser(
        prog="forewarn whatif",
        description="Simulate a change, and compare running Pods, Pending Pods and preemptions before and after the "
        "change.",
        epilog="Exit status: 0: simulated. 1: --fail-on is met. 2: wrong usage. 3: no answer.",
        examples=("whatif lose zone eu-1a", "whatif upgrade --fail-on blocked"),
    )
    kinds = parser.add_subparsers(dest="what", required=True, metavar="CHANGE")

    def add(name: str, help_text: str) -> Parser:
        sub = kinds.add_parser(name, help=help_text, description=f"Simulate: {help_text}.", examples=_EXAMPLES[name])
        sub.set_defaults(own=sub)
        _common_options(sub)
        return sub

    lose = add("lose", "a node, zone or pool is lost, or each node or zone separately")
    lose.add_argument("scope", nargs="?", choices=SCOPES, metavar="node|zone|pool")
    lose.add_argument("names", nargs="*", metavar="NAME", help="names of nodes, of a zone, or LABEL=VALUE of a pool")
    lose.add_argument("--each", choices=("node", "zone"), help="simulate the loss of each node or each zone separately")
    add_shard_option(lose.add_argument)
    add("drain", "nodes are drained, as kubectl drain does").add_argument("names", nargs="+", metavar="NODE")
    upgrade = add("upgrade", "each node is drained, replaced and uncordoned in turn")
    upgrade.add_argument("--pool", default="", metavar="LABEL=VALUE", help="upgrade only nodes with these labels")
    help_text = "number of nodes upgraded at the same time (default: 1)"
    upgrade.add_argument("--max-unavailable", type=integer_between(1, 100_000), metavar="N", help=help_text)
    help_text = "number of new nodes that are added first; each one replaces an old node"
    upgrade.add_argument("--max-surge", type=integer_between(1, 100_000), metavar="N", help=help_text)
    help_text = "time until a drained node returns, or a new node is ready (default: 2m)"
    upgrade.add_argument("--away", type=simulated_time, default=120.0, metavar="DURATION", help=help_text)
    help_text = "delete the remaining Pods of a node after this time, regardless of PDBs (default: wait)"
    upgrade.add_argument("--drain-timeout", type=simulated_until, default=0.0, metavar="DURATION", help=help_text)
    more = add("add", "nodes are added")
    more.add_argument("scope", choices=("node", "pool"), metavar="node|pool")
    more.add_argument("name", metavar="NAME", help="node, LABEL=VALUE of a pool, or group of --node-templates to copy")
    more.add_argument(
        "--count", type=integer_between(1, MAX_ADDED), default=1, metavar="N", help="number of nodes (default: 1)"
    )
    add("restart", "the Pods of a workload are replaced").add_argument("name", metavar="KIND/NAME")
    scale = add("scale", "the number of replicas of a workload changes")
    scale.add_argument("name", metavar="KIND/NAME")
    scale.add_argument("replicas", type=integer_between(0, MAX_VALUE), metavar="N")
    _class_options(add("class", "a PriorityClass is created, changed or deleted"))
    for name, help_text in (("apply", "manifests are applied"), ("delete", "the objects of manifests are deleted")):
        add(name, help_text).add_argument(
            "-f", "--filename", action="append", required=True, metavar="FILE", help=_FILE
        )
    events = add("events", "several events at different times")
    events.add_argument("-f", "--filename", action="append", default=[], metavar="FILE", help=f"{_FILE}, at time 0")
    help_text = "list of `{at, create|update|delete|scale|cordon|uncordon|drain|lost}`"
    events.add_argument("--events", metavar="FILE", help=help_text)
    add_runs_options(events.add_argument)
    for name, help_text in (
        ("pressure", "a node runs out of memory or disk"),
        ("resize", "Pods are resized in place"),
        ("merge", "combine the parts of a divided run"),
    ):
        kinds.add_parser(name, help=help_text)  # for the list alone: policies.cli runs them
    return parser


_FILE: Final = "manifest (file or directory, repeatable)"


def _class_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME")
    add(
        "--value",
        type=integer_between(-(2**31), MAX_VALUE),
        metavar="N",
        help="new value; a missing PriorityClass is created",
    )
    add("--default", action="store_true", help="make the PriorityClass the global default")
    add("--delete", action="store_true", help="delete the PriorityClass")
    add("--preemption-policy", choices=("PreemptLowerPriority", "Never"), help="new preemptionPolicy")
    help_text = "manifest to apply after the change (default: restart all workloads whose Pods change priority)"
    add("-f", "--filename", action="append", default=[], metavar="FILE", help=help_text)
    help_text = (
        "workloads that get the PriorityClass: KIND/NAME or LABEL=VALUE (see -n), or namespace=NAME (repeatable)"
    )
    add("--workloads", action="append", default=[], metavar="WHICH", help=help_text)
