"""`forewarn policies`: write admission policies of Kubernetes for rules of the configuration."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import yaml

from forewarn.policies.base.findings import one_line
from forewarn.policies.cli.commands.cluster_command import add_output_option, answered
from forewarn.policies.cli.commands.parser import Parser, add_config_option
from forewarn.policies.cli.commands.release import KNOWN, release_minor
from forewarn.policies.cli.terminal import as_json
from forewarn.policies.kubernetes.releases.minors import NEWEST
from forewarn.policies.linting.config.model import find_config
from forewarn.policies.questions.application.admission_policies import admission_policies, reasons
from forewarn.policies.questions.application.findings import configured


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 2 for wrong usage or configuration, 3 if the output cannot be written."""
    parser = Parser(
        prog="forewarn policies",
        description="Write the configuration as ValidatingAdmissionPolicies and a MutatingAdmissionPolicy, with "
        "bindings. kube-apiserver then evaluates some of forewarn's rules without the webhook.",
        epilog="Exit status: 0: written. 2: wrong usage or configuration. 3: the output cannot be written.",
        examples=("policies -c .forewarn.yaml | kubectl apply -f -", "policies --kubernetes-version 1.35 -o json"),
    )
    add_config_option(parser.add_argument)
    help_text = f"Kubernetes release (default: 1.{NEWEST}); before 1.36, no MutatingAdmissionPolicy"
    parser.add_argument("--kubernetes-version", type=release_minor, default=NEWEST, metavar=KNOWN, help=help_text)
    add_output_option(parser.add_argument)
    options = parser.parse_args(arguments)

    def answer() -> int:
        config = configured(options.config or find_config(os.curdir))
        policies = admission_policies(config, options.kubernetes_version)
        if options.output.form == "json":
            sys.stdout.write(as_json({"apiVersion": "v1", "kind": "List", "items": list(policies.objects)}))
        else:
            rules = f"# Rules of forewarn: {', '.join(policies.rules)}."
            missing = f"# Not covered: {one_line(reasons(policies.not_covered))}." if policies.not_covered else ""
            print("\n".join(filter(None, (rules, missing))))  # noqa: T201
            yaml.safe_dump_all(policies.objects, sys.stdout, sort_keys=False, width=120)
        return 0

    return answered("policies", options.output, answer)
