"""The types of all JSON outputs (`-o json`). `docs/json_schemas.py` writes the JSON Schemas in docs/reference/schemas.

Later releases may add keys. While the version of a document stays the same, no key disappears or changes its meaning.
"""

from typing import Any, Final

from forewarn.policies.render.documents.classes import Classes, ClassPlan
from forewarn.policies.render.documents.dry_run import DryRun
from forewarn.policies.render.documents.expectations import Expectations
from forewarn.policies.render.documents.findings import Findings, Impact, Review
from forewarn.policies.render.documents.headroom import Headroom
from forewarn.policies.render.documents.info import NodeGroups, Release, Rule, Scheduler
from forewarn.policies.render.documents.node import NodePressure, Resize
from forewarn.policies.render.documents.predict import PredictLine
from forewarn.policies.render.documents.risk import Risk
from forewarn.policies.render.documents.several_clusters import SeveralClusters
from forewarn.policies.render.documents.sweep import Sweep
from forewarn.policies.render.documents.ui import UiCluster, UiFault, UiPrediction, UiWarnings
from forewarn.policies.render.documents.webhook import Accuracy, Checks
from forewarn.policies.render.documents.whatif import WhatIf
from forewarn.policies.render.documents.why import Why, WorkloadWhy

DOCUMENTS: Final[dict[str, tuple[str, Any]]] = {
    "lint": ("`lint` and `audit`", Findings),
    "predict": ("each line of `predict`", PredictLine),
    "whatif": ("`whatif`", WhatIf),
    "whatif-each": ("`whatif --each`", Sweep),
    "whatif-pressure": ("`whatif pressure`", NodePressure),
    "whatif-resize": ("`whatif resize`", Resize),
    "headroom": ("each line of `headroom`", Headroom),
    "classes": ("`classes`", Classes),
    "classes-plan": ("`classes plan`", ClassPlan),
    "test": ("`test`", Expectations),
    "why": ("`why`", Why | WorkloadWhy),
    "risk": ("`risk`", Risk),
    "several-clusters": ("`audit`, `classes`, `headroom` and `risk` about several clusters", SeveralClusters),
    "dry-run": ("each line of `dry-run`", DryRun),
    "explain": ("each line of `explain`", Rule),
    "info-node-groups": ("`info node-groups`", NodeGroups),
    "info-releases": ("`info releases`", list[Release]),
    "info-scheduler": ("`info scheduler`", Scheduler),
    "webhook-review": ("each line of `webhook review -o json`", Review),
    "webhook-accuracy": ("`webhook accuracy`", Accuracy),
    "webhook-doctor": ("`webhook doctor`", Checks),
    "ui-cluster": ("the Cluster page of `ui`", UiCluster),
    "ui-predict": ("the Predict page of `ui`", UiPrediction),
    "ui-warnings": ("the page Accuracy and warnings of the webhook", UiWarnings),
    "ui-error": ("an error of `ui`", UiFault),
    "preemption-impact": ("the annotation `forewarn.dev/preemption-impact`", Impact),
}
"""Name of a JSON Schema -> the output that it describes, and its type."""
VERSION: Final = 1
"""The version of all schemas. It changes if a key disappears or changes its meaning."""
