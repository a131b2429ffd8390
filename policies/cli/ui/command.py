"""`forewarn ui`: pages about a cluster, on this machine."""

from __future__ import annotations

import os
import socket
import webbrowser
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import one_line, plural
from forewarn.policies.cli.commands.cluster_command import Run, add_cluster_option, answered, options_with_cluster
from forewarn.policies.cli.commands.parser import Parser, integer_between
from forewarn.policies.cli.commands.release import add_release_options, release_of
from forewarn.policies.cli.commands.simulated import loaded_for
from forewarn.policies.cli.render.head import line_of
from forewarn.policies.cli.ui.answers import State, cluster_answer, document_of, pools_of
from forewarn.policies.cli.ui.app import Cluster, Shown, create_ui_app
from forewarn.policies.cli.ui.processes import Processes, Unanswered
from forewarn.policies.cli.ui.questions import is_name
from forewarn.policies.cli.ui.server import HOST, Access, Server
from forewarn.policies.inputs.sources.cluster import described
from forewarn.policies.inputs.sources.files import SourceError, reason
from forewarn.policies.kubernetes.cluster.cache import head_of
from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.policies.linting.config.model import ConfigError, find_config
from forewarn.policies.questions.application.classes import classes as levels_of
from forewarn.policies.questions.application.classes import table_of
from forewarn.policies.questions.application.cluster import require_nodes, with_node_groups
from forewarn.policies.questions.application.findings import configured
from forewarn.policies.questions.whatif.autoscalers import Autoscaling
from forewarn.policies.questions.whatif.capacity_buffers import CapacityBuffers
from forewarn.policies.questions.whatif.node_bands import zone_of

if TYPE_CHECKING:
    import argparse

    from forewarn.policies.cli.ui.processes import Load
    from forewarn.policies.cli.ui.processes import Run as Ask
    from forewarn.policies.kubernetes.releases.release import Release

OK: Final = 0
_MAX_NAMES: Final = 5000
"""Maximum number of suggestions for an input field."""
_NAMED: Final = (
    *("--cluster", "--context", "--kubeconfig", "--as", "--as-group", "--as-uid", "--kubernetes-version"),
    *("--feature-gates", "--scheduler-config"),
)
"""The options that the commands on the pages have, too."""


def main(arguments: Sequence[str]) -> int:
    """Serve the pages until Ctrl-C; return the exit status."""
    parser = argument_parser()
    options, run = options_with_cluster(parser, arguments)
    release, port, in_browser = release_of(options, parser), options.port, options.browser
    return answered("ui", run.output, lambda: _serve(run, release, _named(arguments), port, in_browser=in_browser))


def _serve(run: Run, release: Release, named: Sequence[str], port: int, *, in_browser: bool) -> int:
    """Serve the pages of a cluster until Ctrl-C. Raises SourceError."""

    def load() -> tuple[Ask, Any]:
        state = state_of(run, release, named)
        return state.answer, shown_of(state, ", ".join(map(described, run.cluster)))._asdict()

    ask, about = load()
    processes, shown = Processes(ask, answering(load)), Shown(**about)  # before threads start
    try:
        with socket.create_server((HOST, port)) as listening:
            bound_port = listening.getsockname()[1]
            access = Access(bound_port)
            server = Server(listening, create_ui_app(Cluster(processes, shown), processes, access))
            address = f"http://{HOST}:{bound_port}/?token="
            print(f"{shown.source} ({shown.counts}): {address}{access.token}\nPress Ctrl-C to stop.", flush=True)  # noqa: T201
            if in_browser:
                webbrowser.open(address + access.once)
            server.serve_forever()
    except KeyboardInterrupt:
        return OK
    except OSError as error:
        raise SourceError(f"--port {port}", reason(error).partition(" (while ")[0]) from None
    finally:
        processes.close()
    return OK


def state_of(run: Run, release: Release, named: Sequence[str]) -> State:
    """The cluster and other data for questions. Raises SourceError and ConfigError."""
    buffers = CapacityBuffers()
    cache = loaded_for(run, None, release, collect=buffers.collect).cache
    require_nodes(cache.snapshot())
    rules = configured(find_config(os.curdir))
    autoscaling = with_node_groups(Autoscaling(cutoff=rules.options.autoscaler_cutoff), cache, run.cluster)
    state = State(cache, autoscaling, rules, named, run.cluster, buffers)
    state.warm_up()
    return state


def shown_of(state: State, source: str) -> Shown:
    """The data of the cluster that all pages show. `source`: the description of the cluster."""
    cluster = state.cache.snapshot()
    counts = f"{plural(len(cluster.objects.nodes), 'node')}, {plural(len(cluster.pods), 'Pod')}"
    named = ((each.name, each.value) for each in cluster.priority_classes.values() if is_name(each.name))
    classes = sorted(named, key=lambda each: (-each[1], each))
    pods = sorted(cluster.pods.values(), key=lambda pod: (bool(pod.node_name), pod.key))
    pending = [pod for pod in pods if not pod.node_name]
    keys = (key for key, each in cluster.workloads.items() if not any(each.controller))
    workloads = sorted(f"{namespace}/{kind.rpartition('/')[2].lower()}/{name}" for kind, namespace, name in keys)
    names = {
        "zones": sorted({zone_of(node) for node in cluster.objects.nodes.values()}),
        "pools": pools_of(cluster),
        "nodes": sorted(node.name for node in cluster.objects.nodes.values()),
        "classes": [name for name, _ in classes],
        "workloads": workloads,
        "pods": [*(pod.key for pod in pending), *workloads, *(pod.key for pod in pods[len(pending) :])],
        "pending": {cluster.top_workload_of(pod): pod.key for pod in reversed(pending)}.values(),
    }
    known = {key: list(islice(filter(is_name, each), _MAX_NAMES)) for key, each in names.items()}
    head, picture, levels = line_of(head_of(cluster)), cluster_answer(cluster), levels_of(cluster)
    totals = {
        "nodes": f"{len(cluster.objects.nodes)}",
        "running": plural(sum(level.running.pods for level in levels.classes), "Pod"),
        "Pending": plural(sum(level.pending for level in levels.classes), "Pod"),
        "cpu requested": f"{levels.percent_of_cpu} %",
        "memory requested": f"{levels.percent_of_memory} %",
    }
    table = table_of(levels)
    return Shown(
        *(one_line(source), counts, state.named, picture, document_of(cluster), classes, known, one_line(head)),
        *(totals, [table.columns, *table.rows]),
    )


def answering(load: Load) -> Load:
    """Return the function wrapped, so that its errors are messages for a page."""

    def loaded_again() -> tuple[Ask, Any]:
        try:
            return load()
        except (SourceError, ConfigError, InvalidObject, ValueError) as fault:
            raise Unanswered(one_line(f"the cluster was not reloaded: {fault}")) from None
        except SystemExit:
            raise Unanswered("the cluster was not reloaded") from None

    return loaded_again


def _named(arguments: Sequence[str]) -> list[str]:
    """Return the arguments about the cluster and the release, with their values."""
    found, rest = list[str](), iter(arguments)
    for word in rest:
        name, sign, _ = word.partition("=")
        if name in _NAMED:
            found += [word] if sign else [word, next(rest, "")]
    return found


def argument_parser() -> argparse.ArgumentParser:
    """The parser of the options."""
    parser = Parser(
        prog="forewarn ui",
        description="Show a cluster in the browser, predict the effect of manifests, and simulate losses, drains and "
        "PriorityClass changes. The pages are available only on this machine.",
        epilog="Exit status: 0: stopped. 2: wrong usage. 3: the command failed.",
        examples=("ui", "ui --cluster cluster.json.gz --no-browser --port 8765"),
    )
    add = parser.add_argument
    add_cluster_option(add)
    add_release_options(add)
    help_text = "port on 127.0.0.1 (default: any free port)"
    add("--port", type=integer_between(0, 65535), default=0, metavar="N", help=help_text)
    add("--no-browser", dest="browser", action="store_false", help="print the address, and do not open a browser")
    return parser
