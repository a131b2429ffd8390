"""What kube-apiserver itself would answer to a request: see chain.py for what is covered and what is not."""

from policies.kube_apiserver.dry_run.answer import REASONS, Answer
from policies.kube_apiserver.dry_run.apply import dry_run_apply
from policies.kube_apiserver.dry_run.chain import dry_run

__all__ = ["dry_run", "dry_run_apply", "Answer", "REASONS"]
