"""Answers to the questions of pages, by the functions of the commands: the report as HTML, and the JSON document.

Each answer is computed in a separate process, which then exits, so it may change the cache.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qs

import yaml

from forewarn.policies.base.documents import to_dict
from forewarn.policies.base.findings import brief, no_command
from forewarn.policies.cli.commands import classes, headroom, overview, pressure, risk, whatif, why
from forewarn.policies.cli.commands.cluster_command import parsed
from forewarn.policies.cli.commands.simulated import Question, Subject
from forewarn.policies.cli.render.html import pages
from forewarn.policies.cli.render.html.answer import body, footer, header
from forewarn.policies.cli.render.html.elements import Page
from forewarn.policies.cli.render.html.nodes import node_data
from forewarn.policies.cli.terminal import of_total
from forewarn.policies.cli.ui.processes import Unanswered
from forewarn.policies.cli.ui.questions import CommandLine
from forewarn.policies.inputs.sources.cluster import load_cluster
from forewarn.policies.inputs.sources.files import STDIN, File, SourceError
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.fields import InvalidInput, InvalidObject
from forewarn.policies.kubernetes.scheduling.bulk import prepare_for_all
from forewarn.policies.prediction.simulation.scenario import DumpCache
from forewarn.policies.questions.application.audit import Audit, audit
from forewarn.policies.questions.application.cluster import Cluster, Progress
from forewarn.policies.questions.application.predict import PredictRequest, PredictResult, predicted
from forewarn.policies.questions.whatif.class_change import with_class
from forewarn.policies.questions.whatif.node_bands import NodeBands, zone_of
from forewarn.policies.questions.whatif.node_groups import POOL_LABELS, pool_of
from forewarn.policies.questions.whatif.occupancy import Placed
from forewarn.policies.questions.whatif.questions import only_workload, workloads_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from forewarn.policies.base.documents.answer import AnswerStatus, Effects
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, Result
    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.linting.config.model import Config
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling
    from forewarn.policies.questions.whatif.capacity_buffers import CapacityBuffers

    PrintNotice = Callable[[str], None]


_MAX_NODES: Final = 60
"""Maximum number of nodes in the picture of a prediction."""


class ClassOnNode(NamedTuple):
    """The Pods of a PriorityClass on a node. An empty `priorityClass`: Pods without a class."""

    priority_class: str
    priority: int
    pods: int


class UiNode(NamedTuple):
    """A node. `milli_cpu` and `memory` (bytes): allocatable."""

    name: str
    pool: str
    zone: str
    cordoned: bool
    milli_cpu: int
    memory: int
    classes: Sequence[ClassOnNode]


class UiCluster(NamedTuple):
    """The nodes of the Cluster page of `forewarn ui`, by name."""

    nodes: Sequence[UiNode]


def cluster_answer(cluster: ClusterSnapshot) -> dict[str, Any]:
    """Return all nodes by node pool and zone, without changes over time."""
    return node_data(NodeBands(Placed(cluster, ()), ()), (), between=False) | {"frames": []}


def pools_of(cluster: ClusterSnapshot) -> list[str]:
    """Return the node pools that labels of nodes name, each as `LABEL=VALUE`."""
    labels = (node.labels for node in cluster.objects.nodes.values())
    named = (next((f"{key}={label[key]}" for key in POOL_LABELS if key in label), "") for label in labels)
    return sorted(set(named) - {""})


def document_of(cluster: ClusterSnapshot) -> dict[str, Any]:
    """Return the nodes with the number of Pods of each PriorityClass, as JSON."""
    infos = sorted(cluster.scheduling.node_infos, key=lambda info: info.node.name)
    return to_dict(UiCluster([_node(info.node, info.pods) for info in infos]))


def _node(node: Node, pods: Iterable[Pod]) -> UiNode:
    counts = Counter((pod.priority_class_name, pod.effective_priority) for pod in pods)
    ordered = sorted(counts.items(), key=lambda item: (-item[0][1], item[0][0]))
    classes = [ClassOnNode(name, priority, number) for (name, priority), number in ordered]
    size = node.allocatable
    return UiNode(node.name, pool_of(node), zone_of(node), node.unschedulable, size.milli_cpu, size.memory, classes)


NO_NODE_GROUPS: Final = "no new nodes (no node groups found; on the command line, --node-templates describes them)"


class UiPrediction(NamedTuple):
    """The answer of the Predict page of `forewarn ui`.

    `status`, `counters`: as in `predict`. `markup`: the answer as HTML. `command`: the equivalent shell command.
    `nodes`: data of the drawing, whose format can change.
    """

    command: str
    status: AnswerStatus
    counters: Effects
    markup: str
    faults: Sequence[str]
    nodes: dict[str, Any]


_MAX_LENGTH: Final = 500
_SAMPLE: Final = """
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sample"},
 "spec": {"containers": [{"name": "sample", "resources": {"requests": {"cpu": "1000"}}}]}}
"""
"""A Pod that fits nowhere: the reasons of all nodes are computed."""


class State(NamedTuple):
    """The data that all questions use. `named`: the command-line options that select the cluster and the release.

    `sources`: of the cluster; some questions read them again. `buffers`: the CapacityBuffers of its files.
    """

    cache: DumpCache
    autoscaling: Autoscaling
    config: Config
    named: Sequence[str]
    sources: Sequence[str]
    buffers: CapacityBuffers

    def warm_up(self) -> None:
        """Import and compute the data that all questions share, before processes are forked."""
        prepare_for_all(self.cache.snapshot().scheduling)
        with suppress(Unanswered, SourceError, ValueError):
            self.prediction(_SAMPLE)

    def answer(self, question: dict[str, Any], print_notice: PrintNotice) -> Any:
        """Return the answer to a question as JSON data. Raises Unanswered."""
        try:
            match command := question["command"]:
                case "predict":
                    manifest = question["manifest"]
                    return self._predicted(manifest).to_dict() if question["document"] else self.prediction(manifest)
                case "audit":
                    progress = _progress("restarts", of_total, print_notice)
                    result: Any = audit(self._cluster, autoscaling=self.autoscaling, progress=progress)
                    return self._answer(result)
                case "classes" if question["words"][0] == "plan":
                    command_line = self._plan({key: each[0] for key, each in parse_qs(question["query"]).items()})
                case _:
                    command_line = CommandLine(command, tuple(question["words"]), question["text"])
            return self._asked(command_line, print_notice)
        except (SourceError, InvalidObject, ValueError) as fault:
            raise Unanswered(no_command(brief(str(fault), _MAX_LENGTH))) from None

    def _asked(self, command_line: CommandLine, print_notice: PrintNotice) -> dict[str, Any]:
        """Return the answer to a command."""
        words, shown = command_line.arguments, command_line.line(self.named)
        two = " ".join((command_line.command, *words[:1]))
        question = _QUESTIONS[two if two in _QUESTIONS else command_line.command](words)
        options = _parsed(question, words[two in _QUESTIONS :], command_line.text)
        progress = _progress(question.what, question.counts, print_notice)
        cluster, collected = self._cluster, self.buffers
        if question is not headroom.QUESTION and (collected := question.collector(options)) is not None:
            cluster = cluster.replaced(self._read(collected.collect))
        subject = Subject(cluster, lambda: self.autoscaling, progress, collected, draws=True)
        try:
            result = question.ask(options, subject)
        except InvalidInput:
            key = only_workload(cluster.snapshot, getattr(options, "pod", ""), options.namespace or "default", _KINDS)
            if key is None or command_line.command != "why":
                raise
            name = f"{key[1]}/{key[0].rpartition('/')[2].lower()}/{key[2]}"
            return self._asked(CommandLine("why", (name,)), print_notice)
        return self._answer(result, shown)

    def _plan(self, inputs: Mapping[str, str]) -> CommandLine:
        """Return the command that plans the replacement of a PriorityClass, with the manifests."""
        name, namespace = inputs["name"], inputs.get("namespace", "default")
        new = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": int(inputs["value"]),
            "preemptionPolicy": inputs.get("policy", "PreemptLowerPriority"),
        }
        workloads = workloads_of(self.cache.snapshot(), inputs.get("workloads", "").split(), namespace)
        objects = json.loads(json.dumps([new, *(with_class(obj, name) for obj in workloads)]))
        deleted = (word for each in inputs.get("replaced", "").split() for word in ("--delete", each))
        text = yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True)
        return CommandLine("classes", ("plan", "-f", "-", "-n", namespace, *deleted), text)

    @property
    def _cluster(self) -> Cluster:
        return Cluster(self.cache, self.config, self.sources)

    def _answer(self, result: Result | Audit, command: str = "") -> dict[str, Any]:
        """Return a result as the data of a page. `command`: the command that it answers. The head of simulations names
        missing node groups: these pages have no --node-templates.
        """
        is_known = self.autoscaling.grows or self.autoscaling.has_node_pools
        head = result.head if is_known else replace(result.head, assumes=(*result.head.assumes, NO_NODE_GROUPS))
        page = pages.page_of(result, head)
        return {
            "title": no_command(brief(page.title, _MAX_LENGTH)),
            "markup": page.markup(),
            "document": result.to_dict(),
            "scripts": page.scripts,
            "command": command,
        }

    def _read(self, collect: Callable[[Mapping[str, Any]], bool | None]) -> DumpCache:
        """Read the sources again, for data that the cache does not keep."""
        cache = DumpCache(collect)
        load_cluster(*self.sources, into=cache)
        cache.semantics, cache.recreated = self.cache.semantics, self.cache.recreated
        return cache

    def prediction(self, manifest: str) -> dict[str, Any]:
        """Return the result of `forewarn predict` for a manifest."""
        result = self._predicted(manifest)
        command = CommandLine("predict", ("-f", "-"), manifest).line(self.named)
        faults = [no_command(brief(str(fault), _MAX_LENGTH)) for fault in result.faults]
        document = result.document
        assert document.counters is not None
        markup = Page("", [header(document, "h3"), *body(document), footer(result.head)]).markup()
        prediction = UiPrediction(command, document.status, document.counters, markup, faults, nodes={})
        return {**to_dict(prediction), "nodes": pages.predicted_nodes(result, _MAX_NODES)}

    def _predicted(self, text: str) -> PredictResult:
        manifest = File(STDIN, data=text.encode())
        request = PredictRequest([manifest], autoscaling=self.autoscaling, options=self.config.options)
        return predicted(self.cache.snapshot(), request)


_KINDS: Final = tuple(POD_TEMPLATE_PATHS)
_QUESTIONS: Final[Mapping[str, Callable[[Sequence[str]], Question]]] = {
    "classes plan": lambda _: classes.PLAN,
    "classes suggest": lambda _: classes.SUGGESTION,
    "headroom": headroom.question_of,
    "overview": lambda _: overview.QUESTION,
    "risk": lambda _: risk.QUESTION,
    "whatif": whatif.question_of,
    "whatif pressure": lambda _: pressure.QUESTION,
    "why": lambda _: why.QUESTION,
}
"""Command -> returns its question for the words of the command."""


def _parsed(question: Question, words: Sequence[str], text: str) -> argparse.Namespace:
    """Return the options of a question, with the text as standard input. Raises Unanswered if they are invalid."""
    parser = question.parser()
    try:
        with redirect_stderr(StringIO()) as errors:
            options = parsed(parser, words)
            question.check(options, getattr(options, "own", parser))
    except SystemExit:
        raise Unanswered(no_command(brief(errors.getvalue().strip(), _MAX_LENGTH))) from None
    file = File(STDIN, data=text.encode())
    for name, value in vars(options).items():
        if value in (STDIN, [STDIN]):
            setattr(options, name, file if value == STDIN else [file])
    return options


def _progress(what: str, counts: Callable[[float, int], str], print_notice: PrintNotice) -> Progress:
    """Return a function that prints each number once. A question calls it more often, because a call can cancel it."""
    print_notice(what)
    last = ""

    def show(count: float, total: int) -> None:
        nonlocal last
        if (numbers := counts(max(count, 0), total)) != last:
            last = numbers
            print_notice(f"{what}: {numbers}")

    return show
