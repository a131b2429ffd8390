"""Answers to the questions of pages, by the functions of the commands: the report as HTML, and the JSON document.

Each answer is computed in a separate process, which then exits, so it may change the cache.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.application.audit import audit
from forewarn.policies.application.changes import CHANGES
from forewarn.policies.application.cluster import Cluster
from forewarn.policies.application.predict import PredictRequest, predict
from forewarn.policies.application.risk import Workloads, risk
from forewarn.policies.application.whatif import whatif
from forewarn.policies.findings import cut, no_command, one_line
from forewarn.policies.objects.fields import InvalidObject
from forewarn.policies.render.head import after_verdict, on_page
from forewarn.policies.render.html import report as whatif_report
from forewarn.policies.render.html.audit import report as audit_report
from forewarn.policies.render.html.risk import report as risk_report
from forewarn.policies.render.prediction import lines
from forewarn.policies.scheduling.bulk import prepare_for_all
from forewarn.policies.sources import SourceError
from forewarn.policies.sources.files import STDIN, File
from forewarn.webhook.ui.links import CommandLine, on_standard_input
from forewarn.webhook.ui.manifest import edited
from forewarn.webhook.ui.pictures import of_predictions, touched
from forewarn.webhook.ui.processes import Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from forewarn.policies.application.predict import PredictResult
    from forewarn.policies.config.model import Config
    from forewarn.policies.documents.ui import UiPrediction
    from forewarn.policies.render.html.elements import Page
    from forewarn.policies.simulation.dump import DumpCache
    from forewarn.policies.whatif.autoscalers import Autoscaling

    PrintNotice = Callable[[str], None]

_MAX_LINES: Final = 500
_LONGEST: Final = 500
_SAMPLE: Final = """
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sample"},
 "spec": {"containers": [{"name": "sample", "resources": {"requests": {"cpu": "1000"}}}]}}
"""
"""A Pod that fits nowhere: the reasons of all nodes are computed."""


class State(NamedTuple):
    """The data that all questions use. `named`: the command-line options that select the cluster and the release."""

    cache: DumpCache
    autoscaling: Autoscaling
    config: Config
    named: Sequence[str]

    def warm_up(self) -> None:
        """Import and compute the data that all questions share, before processes are forked."""
        prepare_for_all(self.cache.snapshot().scheduling)
        with suppress(Unanswered, SourceError, ValueError):
            self.prediction(_SAMPLE, {})

    def answer(self, question: dict[str, Any], print_notice: PrintNotice) -> Any:
        """Return the answer to a question as JSON data. Raises Unanswered."""
        try:
            if question["command"] == "predict":
                predict = self.prediction_document if question["document"] else self.prediction
                return predict(question["manifest"], question["edits"])
            answer = {"whatif": self.whatif, "risk": self.risk, "audit": self.audit}[question["command"]]
            return answer(question, print_notice)
        except (SourceError, InvalidObject, ValueError) as fault:
            raise Unanswered(_one_line(str(fault))) from None

    def whatif(self, question: dict[str, Any], print_notice: PrintNotice) -> dict[str, Any]:
        """Return the result of a change."""
        result = whatif(
            Cluster(self.cache),
            CHANGES[question["change"]](**question["fields"]),
            autoscaling=self.autoscaling,
            nodes_over_time=True,
            progress=lambda seconds, steps: print_notice(f"{max(seconds, 0.0):.0f} s simulated, {steps:,} steps"),
        )
        page = whatif_report(result.answer, result.class_change, result.notes)
        return _answer(on_page(page, result.head), result.to_dict())

    def risk(self, question: dict[str, Any], print_notice: PrintNotice) -> dict[str, Any]:
        """Return the risks of workloads."""
        fields = {"most": 100, **question["fields"]}
        risks = risk(
            Cluster(self.cache),
            most=fields.pop("most"),
            workloads=Workloads(**fields),
            progress=lambda count, total: print_notice(f"{count} of {total} losses simulated"),
        )
        return _answer(on_page(risk_report(risks), risks.head), risks.to_dict())

    def audit(self, _question: dict[str, Any], print_notice: PrintNotice) -> dict[str, Any]:
        """Return the result of `forewarn audit`."""
        result = audit(
            Cluster(self.cache, self.config),
            progress=lambda count, total: print_notice(f"{count} of {total} restarts simulated"),
        )
        page = audit_report(
            result.findings,
            result.objects,
            len(result.cluster.pods),
            result.suppressed,
            result.cluster.semantics.unknown,
        )
        return _answer(on_page(page, result.head), result.to_dict())

    def prediction(self, manifest: str, edits: Mapping[str, Any]) -> UiPrediction:
        """Return the result of `forewarn predict` for a manifest with changes (`edits`)."""
        text, objects = edited(manifest, edits)
        result = self._predicted(text)
        return {
            "objects": objects,
            "manifest": text,
            "command": on_standard_input(CommandLine("predict", ("-f", "-")), self.named, text),
            "outcomes": dict(result.outcomes),
            "lines": [
                _indented(line)
                for line, _ in zip(after_verdict(lines(result), result.head), range(_MAX_LINES), strict=False)
            ],
            "faults": [
                _one_line(str(fault if text != manifest else result.places.located(fault))) for fault in result.faults
            ],
            "victims": touched(result.applied, result.cluster),
            "nodes": of_predictions(result.applied, result.cluster),
        }

    def prediction_document(self, manifest: str, edits: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of `forewarn predict -o json` for a manifest with changes (`edits`)."""
        text, _ = edited(manifest, edits)
        return list(self._predicted(text).documents())

    def _predicted(self, text: str) -> PredictResult:
        manifest = File(STDIN, data=text.encode())
        return predict(self.cache.snapshot(), PredictRequest([manifest], autoscaling=self.autoscaling))


def _answer(page: Page, document: Any) -> dict[str, Any]:
    return {"title": _one_line(page.title), "markup": page.markup(), "document": document, "scripts": page.scripts}


def _indented(line: str) -> str:
    rest = line.lstrip(" ")
    return line[: len(line) - len(rest)] + _one_line(rest)


def _one_line(text: str) -> str:
    return cut(no_command(one_line(text)), _LONGEST)
