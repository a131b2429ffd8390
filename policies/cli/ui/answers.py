"""Answers to the questions of pages, by the functions of the commands: the report as HTML, and the JSON document.

Each answer is computed in a separate process, which then exits, so it may change the cache.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml

from forewarn.policies.base.documents import to_dict
from forewarn.policies.base.findings import brief, no_command
from forewarn.policies.cli.render.html import pages
from forewarn.policies.cli.render.html.answer import body, footer, header
from forewarn.policies.cli.render.html.elements import Page
from forewarn.policies.cli.render.html.nodes import node_data
from forewarn.policies.cli.ui.processes import Unanswered
from forewarn.policies.cli.ui.questions import CommandLine, on_standard_input
from forewarn.policies.inputs.sources.cluster import load_cluster
from forewarn.policies.inputs.sources.files import STDIN, File, SourceError
from forewarn.policies.kubernetes.cluster.cache import AnswerHead, Cache, ClusterSnapshot, Result
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.fields import InvalidInput, InvalidObject
from forewarn.policies.kubernetes.scheduling.bulk import prepare_for_all
from forewarn.policies.questions.application.audit import Audit, audit
from forewarn.policies.questions.application.changes import CHANGES
from forewarn.policies.questions.application.class_suggestion import suggest_classes
from forewarn.policies.questions.application.classes import ClassPlanRequest, plan_classes
from forewarn.policies.questions.application.cluster import Cluster, Progress
from forewarn.policies.questions.application.headroom import HeadroomRequest, headroom, read_buffers
from forewarn.policies.questions.application.node import NodePods, PressureRequest, node_pressure, periods
from forewarn.policies.questions.application.overview import overview
from forewarn.policies.questions.application.predict import PredictRequest, PredictResult, predicted
from forewarn.policies.questions.application.survival import SurvivalRequest, survive
from forewarn.policies.questions.application.whatif import Workloads, risk, whatif, whatif_each
from forewarn.policies.questions.application.why import WhyRequest, why
from forewarn.policies.questions.whatif.class_change import with_class
from forewarn.policies.questions.whatif.node_bands import NodeBands, zone_of
from forewarn.policies.questions.whatif.node_groups import POOL_LABELS, pool_of
from forewarn.policies.questions.whatif.occupancy import Placed
from forewarn.policies.questions.whatif.questions import only_workload, workloads_of
from forewarn.policies.questions.why.evidence import PreemptionEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from forewarn.policies.base.documents.answer import AnswerStatus, Effects
    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.linting.config.model import Config
    from forewarn.policies.prediction.simulation.scenario import DumpCache
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


def of_cluster(cluster: ClusterSnapshot) -> dict[str, Any]:
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


_LONGEST: Final = 500
_SAMPLE: Final = """
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sample"},
 "spec": {"containers": [{"name": "sample", "resources": {"requests": {"cpu": "1000"}}}]}}
"""
"""A Pod that fits nowhere: the reasons of all nodes are computed."""


class State(NamedTuple):
    """The data that all questions use. `named`: the command-line options that select the cluster and the release.

    `sources`: of the cluster; questions about single Pods read them again. `buffers`: the CapacityBuffers of files.
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
            if question["command"] == "predict":
                manifest = question["manifest"]
                return self._predicted(manifest).to_dict() if question["document"] else self.prediction(manifest)
            return getattr(self, question["command"])(question, print_notice)
        except (SourceError, InvalidObject, ValueError) as fault:
            raise Unanswered(no_command(brief(str(fault), _LONGEST))) from None

    def whatif(self, question: dict[str, Any], print_notice: PrintNotice) -> dict[str, Any]:
        """Return the result of a change."""
        fields, command = question["fields"], ""
        if text := fields.get("manifests"):
            words = (question["change"].lower(), "-f", "-", "-n", fields.get("namespace", "default"))
            command = on_standard_input(CommandLine("whatif", words), self.named, text)
        change = CHANGES[question["change"]](**_with_files(fields))
        progress = _progress_of(print_notice)
        result = whatif(self._cluster, change, nodes_over_time=True, autoscaling=self.autoscaling, progress=progress)
        return _answer(result, self._head(result.head), command)

    def losses(self, question: dict[str, Any], print_notice: PrintNotice) -> dict[str, Any]:
        """Return the results of the separate losses of all zones or nodes."""
        return self._answer(whatif_each(self._cluster, question["change"], **self._simulated("losses", print_notice)))

    def risk(self, question: dict[str, Any], print_notice: PrintNotice) -> dict[str, Any]:
        """Return the risks of workloads."""
        fields = {"most": 100, **question["fields"]}
        most, workloads = fields.pop("most"), Workloads(**fields)
        risks = risk(self._cluster, workloads, limit=most, **self._simulated("losses", print_notice))
        if not risks.workloads and str(workloads):
            raise Unanswered(f"no running workload{workloads}")
        return self._answer(risks)

    def audit(self, _question: dict[str, Any], print_notice: PrintNotice) -> dict[str, Any]:
        """Return the result of `forewarn audit`."""
        return self._answer(audit(self._cluster, **self._simulated("restarts", print_notice)))

    def overview(self, _question: dict[str, Any], print_notice: PrintNotice) -> dict[str, Any]:
        """Return what is at risk in the cluster."""
        events = PreemptionEvents()
        self._read(events.collect)
        return self._answer(overview(self._cluster, events, **self._simulated("losses", print_notice)))

    def survive(self, question: dict[str, Any], print_notice: PrintNotice) -> dict[str, Any]:
        """Return the nodes to add so that no loss harms protected Pods."""
        request = SurvivalRequest(question["change"], autoscaling=self.autoscaling, **question["fields"])
        return self._answer(survive(self._cluster, request, progress=_counting("choices of nodes", print_notice)))

    def suggest(self, _question: dict[str, Any], print_notice: PrintNotice) -> dict[str, Any]:
        """Return PriorityClasses for the workloads without one."""
        return self._answer(suggest_classes(self._cluster, **self._simulated("losses", print_notice)))

    def headroom(self, question: dict[str, Any], _print_notice: PrintNotice) -> dict[str, Any]:
        """Return how many more replicas of a workload fit, and its placeholder Pods."""
        fields = {"namespace": "default", **question["fields"]}
        (obj,) = workloads_of(self.cache.snapshot(), [fields.pop("workload")], fields["namespace"])
        request = HeadroomRequest([obj], autoscaling=self.autoscaling, options=self.config.options, **fields)
        result = headroom(self.cache.snapshot(), request, read_buffers(self.sources, self.buffers))
        count = [f"--placeholders={request.placeholders}"] if request.placeholders else []
        line = CommandLine("headroom", ("-f", "-", "-n", request.namespace, *count))
        return _answer(result, self._head(result.head), on_standard_input(line, self.named, _yaml([obj])))

    def plan(self, question: dict[str, Any], print_notice: PrintNotice) -> dict[str, Any]:
        """Return the steps that replace a PriorityClass."""
        fields = {"namespace": "default", "workloads": (), "delete": (), **question["fields"]}
        name, namespace, snapshot = fields["name"], fields["namespace"], self.cache.snapshot()
        workloads = workloads_of(snapshot, fields["workloads"], namespace)
        new = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": fields["value"],
            "preemptionPolicy": fields.get("preemption_policy", "PreemptLowerPriority"),
        }
        objects = [new, *(with_class(obj, name) for obj in workloads)]
        request = ClassPlanRequest(objects, fields["delete"], namespace)
        result = plan_classes(Cluster(self.cache), request, progress=_progress_of(print_notice))
        words = [word for each in fields["delete"] for word in ("--delete", each)]
        line = CommandLine("classes", ("plan", "-f", "-", "-n", namespace, *words))
        command = on_standard_input(line, self.named, _yaml(objects))
        return _answer(result, result.head, command)

    def why(self, question: dict[str, Any], _print_notice: PrintNotice) -> dict[str, Any]:
        """Return why a Pod is Pending or ended."""
        cluster, request, command = self._cluster, WhyRequest(**question["fields"]), ""
        try:
            result = why(cluster, request)
        except InvalidInput:
            key = only_workload(cluster.cache.snapshot(), request.name, request.default_namespace, POD_TEMPLATE_PATHS)
            if key is None:
                raise
            name = f"{key[1]}/{key[0].rpartition('/')[2].lower()}/{key[2]}"
            result, command = why(cluster, name), CommandLine("why", (name,)).line(self.named)
        return _answer(result, result.head, command)

    def pressure(self, question: dict[str, Any], _print_notice: PrintNotice) -> dict[str, Any]:
        """Return which Pods a node evicts for a critical Pod, and in which order it terminates Pods."""
        fields = _with_files(question["fields"])
        if "shutdown" in fields:
            fields["shutdown"] = periods(fields["shutdown"])
        pods = NodePods(fields["node"])
        result = node_pressure(self._read(pods.collect), pods, PressureRequest(**fields))
        return _answer(result, result.head)

    @property
    def _cluster(self) -> Cluster:
        return Cluster(self.cache, self.config, self.sources)

    def _simulated(self, what: str, print_notice: PrintNotice) -> dict[str, Any]:
        """Return the arguments of a question that simulates several cases. `what`: the cases, for its progress."""
        return {"autoscaling": self.autoscaling, "progress": _counting(what, print_notice)}

    def _answer(self, result: Any) -> dict[str, Any]:
        """The page and the document of a result with a `document` in the common answer format."""
        return _answer(result, self._head(result.head))

    def _head(self, head: AnswerHead) -> AnswerHead:
        """Return the head, which names missing node groups: these pages have no --node-templates."""
        is_known = self.autoscaling.grows or self.autoscaling.has_node_pools
        return head if is_known else replace(head, assumes=(*head.assumes, NO_NODE_GROUPS))

    def _read(self, collect: Callable[[Mapping[str, Any]], bool | None]) -> Cache:
        """Read the sources again, for data that the cache does not keep."""
        cache = load_cluster(*self.sources, into=Cache(collect=collect))
        cache.semantics = self.cache.semantics
        return cache

    def prediction(self, manifest: str) -> dict[str, Any]:
        """Return the result of `forewarn predict` for a manifest."""
        result = self._predicted(manifest)
        command = on_standard_input(CommandLine("predict", ("-f", "-")), self.named, manifest)
        faults = [no_command(brief(str(result.places.located(fault)), _LONGEST)) for fault in result.faults]
        document = result.document
        assert document.counters is not None
        markup = Page("", [header(document, "h3"), *body(document), footer(result.head)]).markup()
        prediction = UiPrediction(command, document.status, document.counters, markup, faults, nodes={})
        return {**to_dict(prediction), "nodes": pages.predicted_nodes(result, _MAX_NODES)}

    def _predicted(self, text: str) -> PredictResult:
        manifest = File(STDIN, data=text.encode())
        request = PredictRequest([manifest], autoscaling=self.autoscaling, options=self.config.options)
        return predicted(self.cache.snapshot(), request)


def _with_files(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request, with manifests as files."""
    texts = {key: File(STDIN, data=fields[key].encode()) for key in ("admit", "manifests") if key in fields}
    return {**fields, **texts}


def _answer(result: Result | Audit, head: AnswerHead, command: str = "") -> dict[str, Any]:
    """Return a result as the data of a page. `command`: the command with manifests; "" if the address determines it."""
    page = pages.page_of(result, head)
    return {
        "title": no_command(brief(page.title, _LONGEST)),
        "markup": page.markup(),
        "document": result.to_dict(),
        "scripts": page.scripts,
        "command": command,
    }


def _yaml(objects: Iterable[Any]) -> str:
    return yaml.safe_dump_all(json.loads(json.dumps(list(objects))), sort_keys=False, allow_unicode=True)


def _progress_of(print_notice: PrintNotice) -> Progress:
    return lambda seconds, steps: print_notice(f"{max(seconds, 0.0):.0f} s simulated, {steps:,} steps")


def _counting(what: str, print_notice: PrintNotice) -> Progress:
    """Return a function that prints each number once. A question calls it more often, because a call can cancel it."""
    print_notice("preparing the simulations")
    last = -1

    def show(count: float, total: int) -> None:
        nonlocal last
        if count > last:
            last = int(count)
            print_notice(f"{last} of {total} {what} simulated" if total else f"{last} {what} simulated")

    return show
