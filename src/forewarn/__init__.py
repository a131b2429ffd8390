"""Predict which Pods Kubernetes will preempt, before you apply.

Functions and types are imported on first use (PEP 562).
"""

import forewarn.python_version  # noqa: F401  # before what an older Python cannot import

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies import VERSION

if TYPE_CHECKING:
    from forewarn.policies.application.audit import Audit as Audit
    from forewarn.policies.application.audit import audit as audit
    from forewarn.policies.application.changes import Add as Add
    from forewarn.policies.application.changes import Apply as Apply
    from forewarn.policies.application.changes import Change as Change
    from forewarn.policies.application.changes import ChangeClass as ChangeClass
    from forewarn.policies.application.changes import Delete as Delete
    from forewarn.policies.application.changes import Drain as Drain
    from forewarn.policies.application.changes import Events as Events
    from forewarn.policies.application.changes import LoseNodes as LoseNodes
    from forewarn.policies.application.changes import LosePool as LosePool
    from forewarn.policies.application.changes import LoseZone as LoseZone
    from forewarn.policies.application.changes import MaxReplicas as MaxReplicas
    from forewarn.policies.application.changes import Restart as Restart
    from forewarn.policies.application.changes import Scale as Scale
    from forewarn.policies.application.changes import Upgrade as Upgrade
    from forewarn.policies.application.classes import ClassPlan as ClassPlan
    from forewarn.policies.application.classes import ClassPlanRequest as ClassPlanRequest
    from forewarn.policies.application.classes import classes as classes
    from forewarn.policies.application.classes import plan_classes as plan_classes
    from forewarn.policies.application.cluster import Cluster as Cluster
    from forewarn.policies.application.cluster import load as load
    from forewarn.policies.application.diff import Diff as Diff
    from forewarn.policies.application.diff import DiffRequest as DiffRequest
    from forewarn.policies.application.diff import diff as diff
    from forewarn.policies.application.expectations import ExpectationsRequest as ExpectationsRequest
    from forewarn.policies.application.expectations import test as test
    from forewarn.policies.application.headroom import HeadroomRequest as HeadroomRequest
    from forewarn.policies.application.headroom import headroom as headroom
    from forewarn.policies.application.headroom_answer import HeadroomResult as HeadroomResult
    from forewarn.policies.application.headroom_answer import ObjectHeadroom as ObjectHeadroom
    from forewarn.policies.application.lint import Lint as Lint
    from forewarn.policies.application.lint import lint as lint
    from forewarn.policies.application.manifests import Manifest as Manifest
    from forewarn.policies.application.predict import PredictRequest as PredictRequest
    from forewarn.policies.application.predict import PredictResult as PredictResult
    from forewarn.policies.application.predict import predict as predict
    from forewarn.policies.application.whatif import WhatIf as WhatIf
    from forewarn.policies.application.whatif import Workloads as Workloads
    from forewarn.policies.application.whatif import risk as risk
    from forewarn.policies.application.whatif import whatif as whatif
    from forewarn.policies.application.whatif import whatif_each as whatif_each
    from forewarn.policies.application.why import ClusterWhy as ClusterWhy
    from forewarn.policies.application.why import PodWhy as PodWhy
    from forewarn.policies.application.why import WhyRequest as WhyRequest
    from forewarn.policies.application.why import WorkloadWhy as WorkloadWhy
    from forewarn.policies.application.why import why as why
    from forewarn.policies.cluster.cache import AnswerHead as AnswerHead
    from forewarn.policies.commands.explain import findings_of as findings_of
    from forewarn.policies.config.model import ConfigError as ConfigError
    from forewarn.policies.controllers.own_pods import Recreator as Recreator
    from forewarn.policies.expectations import Expectations as Expectations
    from forewarn.policies.findings import Finding as Finding
    from forewarn.policies.findings import Problem as Problem
    from forewarn.policies.findings import Severity as Severity
    from forewarn.policies.kinds.owners import Loss as Loss
    from forewarn.policies.lint.input import RenderRequest as RenderRequest
    from forewarn.policies.objects.fields import ForewarnError as ForewarnError
    from forewarn.policies.objects.fields import InvalidInput as InvalidInput
    from forewarn.policies.objects.fields import InvalidObject as InvalidObject
    from forewarn.policies.objects.pod import Pod as Pod
    from forewarn.policies.objects.reviewed_object import ReviewedObject as ReviewedObject
    from forewarn.policies.rules.support.context import Context as Context
    from forewarn.policies.rules.support.context import Target as Target
    from forewarn.policies.scheduling.schedule_one import Prediction as Prediction
    from forewarn.policies.sources.files import SourceError as SourceError
    from forewarn.policies.whatif.answer import Preemption as Preemption
    from forewarn.policies.whatif.answer import WorkloadCount as WorkloadCount
    from forewarn.policies.whatif.autoscalers import Autoscaling as Autoscaling
    from forewarn.policies.whatif.headroom import Headroom as Headroom
    from forewarn.policies.whatif.priority_levels import Classes as Classes
    from forewarn.policies.whatif.priority_levels import PriorityLevel as PriorityLevel
    from forewarn.policies.whatif.risk_answer import Risks as Risks
    from forewarn.policies.whatif.risk_answer import WorkloadRisk as WorkloadRisk
    from forewarn.policies.whatif.sweep import Row as Row
    from forewarn.policies.whatif.sweep import Sweep as Sweep
    from forewarn.policies.why.evidence import Trouble as Trouble
    from forewarn.policies.why.troubles import Diagnosis as Diagnosis

__version__: Final = VERSION
_MODULES: Final = {
    "policies.application.cluster": ("load", "Cluster"),
    "policies.application.lint": ("lint", "Lint"),
    "policies.findings": ("Finding", "Severity", "Problem"),
    "policies.application.audit": ("audit", "Audit"),
    "policies.application.diff": ("diff", "DiffRequest", "Diff"),
    "policies.lint.input": ("RenderRequest",),
    "policies.application.predict": ("predict", "PredictRequest", "PredictResult"),
    "policies.scheduling.schedule_one": ("Prediction",),
    "policies.objects.pod": ("Pod",),
    "policies.application.classes": ("classes", "plan_classes", "ClassPlanRequest", "ClassPlan"),
    "policies.whatif.priority_levels": ("Classes", "PriorityLevel"),
    "policies.application.headroom": ("headroom", "HeadroomRequest"),
    "policies.application.headroom_answer": ("HeadroomResult", "ObjectHeadroom"),
    "policies.whatif.headroom": ("Headroom",),
    "policies.application.whatif": ("whatif", "WhatIf", "whatif_each", "risk", "Workloads"),
    "policies.whatif.answer": ("WorkloadCount", "Preemption"),
    "policies.controllers.own_pods": ("Recreator",),
    "policies.kinds.owners": ("Loss",),
    "policies.application.changes": (
        *("Change", "LoseNodes", "LoseZone", "LosePool", "Drain", "Upgrade", "Add"),
        *("Restart", "Scale", "MaxReplicas", "Apply", "Delete", "Events", "ChangeClass"),
    ),
    "policies.whatif.sweep": ("Sweep", "Row"),
    "policies.whatif.risk_answer": ("Risks", "WorkloadRisk"),
    "policies.application.expectations": ("test", "ExpectationsRequest"),
    "policies.expectations": ("Expectations",),
    "policies.application.why": ("why", "WhyRequest", "PodWhy", "WorkloadWhy", "ClusterWhy"),
    "policies.why.troubles": ("Diagnosis",),
    "policies.why.evidence": ("Trouble",),
    "policies.cluster.cache": ("AnswerHead",),
    "policies.whatif.autoscalers": ("Autoscaling",),
    "policies.application.manifests": ("Manifest",),
    "policies.sources.files": ("SourceError",),
    "policies.objects.fields": ("ForewarnError", "InvalidInput", "InvalidObject"),
    "policies.config.model": ("ConfigError",),
    "policies.rules.support.context": ("Context", "Target"),
    "policies.objects.reviewed_object": ("ReviewedObject",),
    "policies.commands.explain": ("findings_of",),
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
