"""Dry runs: kube-apiserver's response to a request. chain.py lists the modelled parts."""

from forewarn.policies.dry_run.answer import REASONS, Answer
from forewarn.policies.dry_run.apply import dry_run_apply
from forewarn.policies.dry_run.chain import dry_run

__all__ = ["REASONS", "Answer", "dry_run", "dry_run_apply"]
