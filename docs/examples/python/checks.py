"""Fail on errors of manifests; print why Pods are Pending."""

import json
import sys

import forewarn

result = forewarn.lint("docs/examples/headroom")
errors = [finding for finding in result.findings if finding.severity == forewarn.Severity.ERROR]
for finding in errors:
    print(f"{finding.file}:{finding.line}: {finding.message} ({finding.rule})")
for fault in result.faults:
    print(fault)
if errors or result.faults:
    sys.exit(1)

cluster = forewarn.load("docs/examples/why/cluster.yaml")
for pod in cluster.pods:
    if not pod.node_name:
        answer = forewarn.why(cluster, pod.key)
        print(pod.key, answer.document.headline, "assumes:", answer.head.assumes)
        print(json.dumps(answer.to_dict(), indent=2))
