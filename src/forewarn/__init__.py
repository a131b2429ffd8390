"""Predict which Pods Kubernetes will preempt, before you apply.

Functions and types are imported on first use (PEP 562).
"""

import forewarn.python_version  # noqa: F401  # before what an older Python cannot import

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies import VERSION

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Finding as Finding
    from forewarn.policies.base.findings import Problem as Problem
    from forewarn.policies.base.findings import Severity as Severity
    from forewarn.policies.cli.commands.explain import findings_of as findings_of
    from forewarn.policies.inputs.sources.files import SourceError as SourceError
    from forewarn.policies.kubernetes.cluster.cache import AnswerHead as AnswerHead
    from forewarn.policies.kubernetes.controllers.own_pods import Recreator as Recreator
    from forewarn.policies.kubernetes.objects.fields import ForewarnError as ForewarnError
    from forewarn.policies.kubernetes.objects.fields import InvalidInput as InvalidInput
    from forewarn.policies.kubernetes.objects.fields import InvalidObject as InvalidObject
    from forewarn.policies.kubernetes.objects.pod import Pod as Pod
    from forewarn.policies.kubernetes.objects.pod_loss import Loss as Loss
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject as ReviewedObject
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction as Prediction
    from forewarn.policies.linting.config.model import ConfigError as ConfigError
    from forewarn.policies.linting.rules.support.context import Context as Context
    from forewarn.policies.linting.rules.support.context import Target as Target
    from forewarn.policies.questions.application.audit import Audit as Audit
    from forewarn.policies.questions.application.audit import audit as audit
    from forewarn.policies.questions.application.changes import Add as Add
    from forewarn.policies.questions.application.changes import Apply as Apply
    from forewarn.policies.questions.application.changes import Change as Change
    from forewarn.policies.questions.application.changes import ChangeClass as ChangeClass
    from forewarn.policies.questions.application.changes import Delete as Delete
    from forewarn.policies.questions.application.changes import Drain as Drain
    from forewarn.policies.questions.application.changes import Events as Events
    from forewarn.policies.questions.application.changes import LoseNodes as LoseNodes
    from forewarn.policies.questions.application.changes import LosePool as LosePool
    from forewarn.policies.questions.application.changes import LoseZone as LoseZone
    from forewarn.policies.questions.application.changes import MaxReplicas as MaxReplicas
    from forewarn.policies.questions.application.changes import Remove as Remove
    from forewarn.policies.questions.application.changes import Restart as Restart
    from forewarn.policies.questions.application.changes import Scale as Scale
    from forewarn.policies.questions.application.changes import Upgrade as Upgrade
    from forewarn.policies.questions.application.classes import Classes as Classes
    from forewarn.policies.questions.application.classes import ClassPlan as ClassPlan
    from forewarn.policies.questions.application.classes import ClassPlanRequest as ClassPlanRequest
    from forewarn.policies.questions.application.classes import PriorityLevel as PriorityLevel
    from forewarn.policies.questions.application.classes import classes as classes
    from forewarn.policies.questions.application.classes import plan_classes as plan_classes
    from forewarn.policies.questions.application.cluster import Cluster as Cluster
    from forewarn.policies.questions.application.cluster import load as load
    from forewarn.policies.questions.application.diff import Diff as Diff
    from forewarn.policies.questions.application.diff import DiffRequest as DiffRequest
    from forewarn.policies.questions.application.diff import diff as diff
    from forewarn.policies.questions.application.expectations import Expectations as Expectations
    from forewarn.policies.questions.application.expectations import ExpectationsRequest as ExpectationsRequest
    from forewarn.policies.questions.application.expectations import test as test
    from forewarn.policies.questions.application.headroom import HeadroomRequest as HeadroomRequest
    from forewarn.policies.questions.application.headroom import HeadroomResult as HeadroomResult
    from forewarn.policies.questions.application.headroom import ObjectHeadroom as ObjectHeadroom
    from forewarn.policies.questions.application.headroom import headroom as headroom
    from forewarn.policies.questions.application.lint import Lint as Lint
    from forewarn.policies.questions.application.lint import lint as lint
    from forewarn.policies.questions.application.manifests import Manifest as Manifest
    from forewarn.policies.questions.application.predict import PredictRequest as PredictRequest
    from forewarn.policies.questions.application.predict import PredictResult as PredictResult
    from forewarn.policies.questions.application.predict import predict as predict
    from forewarn.policies.questions.application.whatif import WhatIf as WhatIf
    from forewarn.policies.questions.application.whatif import Workloads as Workloads
    from forewarn.policies.questions.application.whatif import risk as risk
    from forewarn.policies.questions.application.whatif import whatif as whatif
    from forewarn.policies.questions.application.whatif import whatif_each as whatif_each
    from forewarn.policies.questions.application.why import ClusterWhy as ClusterWhy
    from forewarn.policies.questions.application.why import PodWhy as PodWhy
    from forewarn.policies.questions.application.why import WhyRequest as WhyRequest
    from forewarn.policies.questions.application.why import WorkloadWhy as WorkloadWhy
    from forewarn.policies.questions.application.why import why as why
    from forewarn.policies.questions.whatif.answer import Preemption as Preemption
    from forewarn.policies.questions.whatif.answer import WorkloadCount as WorkloadCount
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling as Autoscaling
    from forewarn.policies.questions.whatif.headroom import Headroom as Headroom
    from forewarn.policies.questions.whatif.risk_answer import Risks as Risks
    from forewarn.policies.questions.whatif.risk_answer import WorkloadRisk as WorkloadRisk
    from forewarn.policies.questions.whatif.sweep import Row as Row
    from forewarn.policies.questions.whatif.sweep import Sweep as Sweep
    from forewarn.policies.questions.why.evidence import Trouble as Trouble
    from forewarn.policies.questions.why.troubles import Diagnosis as Diagnosis

__version__: Final = VERSION
_MODULES: Final = {
    "policies.questions.application.cluster": ("load", "Cluster"),
    "policies.questions.application.lint": ("lint", "Lint"),
    "policies.base.findings": ("Finding", "Severity", "Problem"),
    "policies.questions.application.audit": ("audit", "Audit"),
    "policies.questions.application.diff": ("diff", "DiffRequest", "Diff"),
    "policies.questions.versions.rendering": ("RenderRequest",),
    "policies.questions.application.predict": ("predict", "PredictRequest", "PredictResult"),
    "policies.kubernetes.scheduling.schedule_one": ("Prediction",),
    "policies.kubernetes.objects.pod": ("Pod",),
    "policies.questions.application.classes": (
        *("classes", "plan_classes", "ClassPlanRequest", "ClassPlan"),
        *("Classes", "PriorityLevel"),
    ),
    "policies.questions.application.headroom": ("headroom", "HeadroomRequest", "HeadroomResult", "ObjectHeadroom"),
    "policies.questions.whatif.headroom": ("Headroom",),
    "policies.questions.application.whatif": ("whatif", "WhatIf", "whatif_each", "risk", "Workloads"),
    "policies.questions.whatif.answer": ("WorkloadCount", "Preemption"),
    "policies.kubernetes.controllers.own_pods": ("Recreator",),
    "policies.kubernetes.objects.pod_loss": ("Loss",),
    "policies.questions.application.changes": (
        *("Change", "LoseNodes", "LoseZone", "LosePool", "Drain", "Remove", "Upgrade", "Add"),
        *("Restart", "Scale", "MaxReplicas", "Apply", "Delete", "Events", "ChangeClass"),
    ),
    "policies.questions.whatif.sweep": ("Sweep", "Row"),
    "policies.questions.whatif.risk_answer": ("Risks", "WorkloadRisk"),
    "policies.questions.application.expectations": ("test", "ExpectationsRequest", "Expectations"),
    "policies.questions.application.why": ("why", "WhyRequest", "PodWhy", "WorkloadWhy", "ClusterWhy"),
    "policies.questions.why.troubles": ("Diagnosis",),
    "policies.questions.why.evidence": ("Trouble",),
    "policies.kubernetes.cluster.cache": ("AnswerHead",),
    "policies.questions.whatif.autoscalers": ("Autoscaling",),
    "policies.questions.application.manifests": ("Manifest",),
    "policies.inputs.sources.files": ("SourceError",),
    "policies.kubernetes.objects.fields": ("ForewarnError", "InvalidInput", "InvalidObject"),
    "policies.linting.config.model": ("ConfigError",),
    "policies.linting.rules.support.context": ("Context", "Target"),
    "policies.kubernetes.objects.reviewed_object": ("ReviewedObject",),
    "policies.cli.commands.explain": ("findings_of",),
}
"""Module -> its names in this package, in the order of docs/reference/python.md."""
__all__ = ["__version__", *(name for names in _MODULES.values() for name in names)]


if not TYPE_CHECKING:  # type checkers report an unknown name

    def __getattr__(name: str) -> Any:
        for module, names in _MODULES.items():
            if name in names:
                return getattr(import_module(f"forewarn.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
