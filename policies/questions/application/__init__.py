"""Questions about a cluster: one module for each, with a frozen request, a function and a typed result.

A function takes a `Cluster` and a request, and changes neither. It prints nothing, and reads neither options nor the
environment. `progress` is called with the finished work; an exception that it raises cancels the question.
Errors are SourceError, InvalidObject, ValueError and ConfigError; `sources.files.status_of` is their exit status.
"""

from __future__ import annotations

from typing import Final

from forewarn.policies.inputs.sources.files import SourceError
from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.policies.linting.config.model import ConfigError

NO_ANSWER: Final = (ConfigError, SourceError, InvalidObject, ValueError)
"""Errors of questions that have no answer."""
