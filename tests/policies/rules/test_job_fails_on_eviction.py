"""job-fails-on-eviction: which Jobs evictions can fail, and that the simulation agrees."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.objects.workload import backoff_limit, fails_with_one_pod
from tests.builders import make_node, make_pod

if TYPE_CHECKING:
    from pathlib import Path

IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
FAIL = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
ANY_CODE = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}}
OTHER_CODES = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 42]}}
SPECS: dict[str, tuple[dict[str, Any], str]] = {
    "default": ({}, ""),
    "no retry": ({"backoffLimit": 0}, "backoffLimit is 0"),
    "no retry, ignored": ({"backoffLimit": 0, "podFailurePolicy": {"rules": [IGNORE]}}, ""),
    "fails by policy": ({"podFailurePolicy": {"rules": [FAIL]}}, "a podFailurePolicy rule matches"),
    "ignored first": ({"podFailurePolicy": {"rules": [IGNORE, ANY_CODE]}}, ""),
    "any exit code first": ({"podFailurePolicy": {"rules": [ANY_CODE, IGNORE]}}, "a podFailurePolicy rule matches"),
    "other exit codes first": ({"backoffLimit": 0, "podFailurePolicy": {"rules": [OTHER_CODES, IGNORE]}}, ""),
    "more at once": ({"parallelism": 9, "completions": 9}, "7 of 9 Pods fails the Job: backoffLimit is 6"),
    "fewer to do than at once": ({"parallelism": 7, "completions": 6}, ""),
    "by index": ({"backoffLimitPerIndex": 0, "completionMode": "Indexed", "completions": 2}, "fails its index"),
    "by index, no retry": (
        {"backoffLimit": 0, "backoffLimitPerIndex": 1, "completionMode": "Indexed"},
        "backoffLimit is 0",
    ),
    "not a Job": ({"backoffLimit": "0"}, ""),
}


def job(spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    pod = make_pod("p").request(cpu="100m").labels(app="j").obj["spec"]
    template = {"metadata": {"labels": {"app": "j"}}, "spec": {**pod, "restartPolicy": "Never"}}
    metadata = {"name": "j", "namespace": "default", "uid": "u"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"template": template, **spec},
    } | more


@pytest.mark.parametrize("kind", ["Job", "CronJob"])
@pytest.mark.parametrize(("spec", "said"), SPECS.values(), ids=SPECS)
def test_jobs_that_evictions_can_fail(
    spec: dict[str, Any], said: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    obj = job(spec)
    if kind == "CronJob":
        obj |= {"kind": kind, "spec": {"schedule": "@daily", "jobTemplate": {"spec": obj["spec"]}}}
    (tmp_path / "job.json").write_text(json.dumps(obj))
    main(["lint", str(tmp_path / "job.json"), "--select", "job-fails-on-eviction"])
    printed = capsys.readouterr().out
    assert (said in printed and "[job-fails-on-eviction]" in printed) if said else printed == ""


@pytest.mark.parametrize(("spec", "said"), SPECS.values(), ids=SPECS)
def test_one_pod_fails_a_job_by_the_same_fields(spec: dict[str, Any], said: str) -> None:
    """What predictions say of a victim's Job is what the rule says of its spec."""
    if spec.get("backoffLimit") == "0":
        pytest.skip("kube-apiserver rejects it")
    with_one_pod = "backoffLimit is 0" in said or "a podFailurePolicy rule matches" in said
    assert fails_with_one_pod(job(spec)) is with_one_pod


def test_a_rule_matches_only_the_status_of_its_pattern() -> None:
    """The API server's default is True. Source: `matchOnPodConditions`, `SetDefaults_Job`."""
    for status, fails in (("True", False), ("False", True)):
        pattern = {"type": "DisruptionTarget", "status": status}
        rules = [{"action": "Ignore", "onPodConditions": [pattern]}]
        assert fails_with_one_pod(job({"backoffLimit": 0, "podFailurePolicy": {"rules": rules}})) is fails
    assert (backoff_limit(job({})), backoff_limit(job({"backoffLimitPerIndex": 1}))) == (6, 2**31 - 1)


@pytest.mark.parametrize(("ignored", "fails"), [(False, True), (True, False)])
def test_whatif_says_that_the_job_fails(
    ignored: bool, fails: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = {"podFailurePolicy": {"rules": [IGNORE]}} if ignored else {}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    pods = [
        make_pod(f"j-{n}").request(cpu="100m").labels(app="j").on("n1").metadata(ownerReferences=[owner]).obj
        for n in range(7)
    ]
    batch = job({"parallelism": 7, "completions": 9, **policy})
    items = [*(make_node(name).obj for name in ("n1", "n2")), batch, *pods]
    (tmp_path / "cluster.json").write_text(json.dumps({"items": items}))
    asked = ("whatif", "lose", "node", "n1", "--cluster", str(tmp_path / "cluster.json"))
    assert main([*asked, "-o", "json"]) == 0
    (standing,) = [w for w in json.loads(capsys.readouterr().out)["workloads"] if w["workload"] == "default/j"] or [{}]
    why = "the Job fails: backoffLimit 6 exceeded"
    assert standing.get("failure", "") == (why if fails else "")
    for form in ("text", "markdown", "html"):
        assert main([*asked, "-o", form]) == 0
        out = capsys.readouterr().out
        assert ("backoffLimit 6 exceeded" in out) is fails
        assert ("1 Job fails" in out) is fails
