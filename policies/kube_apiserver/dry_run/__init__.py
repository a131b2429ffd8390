"""The response of kube-apiserver to a request: chain.py lists what is modelled."""

from forewarn.policies.kube_apiserver.dry_run.answer import REASONS, Answer
from forewarn.policies.kube_apiserver.dry_run.apply import dry_run_apply
from forewarn.policies.kube_apiserver.dry_run.chain import dry_run

__all__ = ["dry_run", "dry_run_apply", "Answer", "REASONS"]
