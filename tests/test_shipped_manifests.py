"""manifests/: what stands there agrees with the code. Rendering and applying is the end-to-end test's matter."""

from __future__ import annotations

import gzip
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from forewarn.policies.base.findings import Action
from forewarn.policies.cli.commands.audit import argument_parser
from forewarn.policies.cli.main import main
from forewarn.policies.cli.render import openreports
from forewarn.policies.kubernetes.kinds.registry import KINDS, OPTIONAL
from forewarn.policies.linting.config.load import read_config
from forewarn.policies.linting.rules import RULES
from forewarn.webhook.apiserver import open_reports
from forewarn.webhook.controllers.certificate_authority import NAME, Installation
from forewarn.webhook.doctor.installation import _is_covered, _rules
from forewarn.webhook.metrics import Metrics
from forewarn.webhook.settings import parse_settings

MANIFESTS = Path(__file__).parents[1] / "manifests"
PLACE = Installation("forewarn", "x")
INJECTOR = "forewarn-ca-injector"
READ = {"get", "list", "watch"}


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


BASE = [document for path in sorted((MANIFESTS / "base").rglob("*.yaml")) for document in documents(path)]


def one(kind: str, name: str = NAME, namespace: str | None = None) -> dict[str, Any]:
    found = [
        document
        for document in BASE
        if document["kind"] == kind
        and document["metadata"]["name"] == name
        and namespace in (None, document["metadata"].get("namespace"))
    ]
    assert len(found) == 1
    return found[0]


def test_the_page_registers_all_that_the_manifests_ask_of_a_namespace() -> None:
    """The configuration for forewarn outside the cluster, in docs/guides/run-the-webhook.md."""
    page = Path("docs/guides/run-the-webhook.md").read_text()
    (text,) = re.findall(r"kubectl apply -f - <<END\n(.*?)END\n", page, re.DOTALL)
    made = yaml.safe_load(re.sub(r"\$\(.*?\)", "none", dedent(text)))
    shipped = next(w for w in one("ValidatingWebhookConfiguration")["webhooks"] if w["name"] == "validate.forewarn.dev")
    namespaced = [rule for rule in shipped["rules"] if rule["scope"] == "Namespaced"]
    assert namespaced
    assert [rule for rule in _rules({"rules": namespaced}) if not _is_covered(rule, made["webhooks"][0]["rules"])] == []


def kubelets_variables() -> dict[str, str]:
    """What the kubelet adds to every container of the namespace, by pkg/kubelet/envvars (FromServices)."""
    variables: dict[str, str] = {}
    for service in (document for document in BASE if document["kind"] == "Service"):
        prefix, address = service["metadata"]["name"].upper().replace("-", "_"), "10.96.0.17"
        ports = service["spec"]["ports"]
        variables |= {f"{prefix}_SERVICE_HOST": address, f"{prefix}_SERVICE_PORT": str(ports[0]["port"])}
        variables[f"{prefix}_PORT"] = f"tcp://{address}:{ports[0]['port']}"
        for port in ports:
            number, link = str(port["port"]), f"{prefix}_PORT_{port['port']}_TCP"
            variables[f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = number
            variables |= {link: f"tcp://{address}:{number}", f"{link}_PROTO": "tcp"}
            variables |= {f"{link}_PORT": number, f"{link}_ADDR": address}
    return variables


def webhooks() -> list[dict[str, Any]]:
    kinds = "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"
    return [webhook for kind in kinds for webhook in one(kind)["webhooks"]]


def test_the_linter_has_nothing_to_say_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(MANIFESTS)]) == 0
    assert "no findings" in capsys.readouterr().err


def test_every_kind_that_is_watched_may_be_listed_and_watched_and_nothing_else_may() -> None:
    rules = one("ClusterRole")["rules"]
    granted = {
        (group, resource)
        for rule in rules
        if {"list", "watch"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted == {(resource.group, resource.plural) for resource in (*KINDS, *OPTIONAL)}
    assert all(set(rule["verbs"]) <= READ for rule in rules if rule != ASKING)


def test_the_ca_injector_may_update_the_configurations_by_name_and_a_policy_ends_that_at_the_bundle() -> None:
    rule, namespace = one("ClusterRole", INJECTOR)["rules"]
    assert (rule["resourceNames"], rule["verbs"]) == ([NAME], ["get", "update", "watch"])
    assert (namespace["resourceNames"], namespace["verbs"]) == (["forewarn"], ["get"])
    policy, binding = (
        one("ValidatingAdmissionPolicy", INJECTOR)["spec"],
        one("ValidatingAdmissionPolicyBinding", INJECTOR),
    )
    assert binding["spec"] == {"policyName": INJECTOR, "validationActions": ["Deny"]}
    assert policy["failurePolicy"] == "Fail"
    (condition,) = policy["matchConditions"]
    assert f'"system:serviceaccount:forewarn:{INJECTOR}"' in condition["expression"]
    (matched,) = policy["matchConstraints"]["resourceRules"]
    assert set(matched["resources"]) == set(rule["resources"])


def test_the_owner_that_the_ca_injector_writes_has_the_uid_of_the_namespace() -> None:
    """The policy fails closed, so it matches nothing but updates of forewarn's own configurations."""
    policy, binding = (
        one(kind, f"{INJECTOR}-owner")["spec"]
        for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    )
    first = one("ValidatingAdmissionPolicy", INJECTOR)["spec"]
    assert policy["matchConditions"] == first["matchConditions"]
    (matched,), (all_matched,) = (spec["matchConstraints"]["resourceRules"] for spec in (policy, first))
    assert matched == {**all_matched, "operations": ["UPDATE"], "resourceNames": [NAME]}
    assert policy["paramKind"] == {"apiVersion": "v1", "kind": "Namespace"}
    assert binding["paramRef"] == {"name": one("Namespace")["metadata"]["name"], "parameterNotFoundAction": "Allow"}
    assert "n.uid == params.metadata.uid" in policy["validations"][0]["expression"]


def test_what_binds_a_role_binds_it_to_the_account_of_its_name() -> None:
    bindings = [document for document in BASE if document["kind"] in ("RoleBinding", "ClusterRoleBinding")]
    assert len(bindings) == 4
    for binding in bindings:
        name = binding["metadata"]["name"]
        assert binding["roleRef"]["name"] == name
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": "forewarn"}]
        assert one("Deployment", name)["spec"]["template"]["spec"]["serviceAccountName"] == name


JOBS = {
    name: [document for path in sorted((MANIFESTS / "jobs" / name).glob("*.yaml")) for document in documents(path)]
    for name in ("base", "sweep", "sweep-result")
}


def job(name: str) -> dict[str, Any]:
    (found,) = (document for document in JOBS[name] if document["kind"] == "Job")
    return found


def of_jobs(kind: str) -> dict[str, Any]:
    (found,) = (document for document in JOBS["base"] if document["kind"] == kind)
    return found


def test_a_sweep_may_list_what_a_snapshot_has_and_nothing_else() -> None:
    rules, binding = of_jobs("ClusterRole")["rules"], of_jobs("ClusterRoleBinding")
    granted = {(group, name) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]}
    assert granted == {(resource.group, resource.plural) for resource in (*KINDS, *OPTIONAL)}
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list"}
    account = of_jobs("ServiceAccount")["metadata"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account}]
    assert binding["roleRef"]["name"] == of_jobs("ClusterRole")["metadata"]["name"]


@pytest.mark.parametrize("name", ["sweep", "sweep-result"])
def test_the_pods_of_jobs_are_restricted_ones_that_push_out_nobody(name: str) -> None:
    spec = job(name)["spec"]["template"]["spec"]
    assert spec["securityContext"] == one("Deployment")["spec"]["template"]["spec"]["securityContext"]
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["image"] == "forewarn"
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert of_jobs("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert spec["serviceAccountName"] == of_jobs("ServiceAccount")["metadata"]["name"]
    assert spec["automountServiceAccountToken"] is (name == "sweep"), "only a snapshot asks the API server"
    assert spec["priorityClassName"] == of_jobs("PriorityClass")["metadata"]["name"]
    assert of_jobs("PriorityClass")["preemptionPolicy"] == "Never"
    claims = (volume.get("persistentVolumeClaim") for volume in spec["volumes"])
    volumes = [claim["claimName"] for claim in claims if claim]
    assert volumes == [of_jobs("PersistentVolumeClaim")["metadata"]["name"]]
    assert job(name)["metadata"]["namespace"] == of_jobs("Namespace")["metadata"]["name"]
    (kustomization,) = (d for d in JOBS[name] if d["kind"] == "Kustomization")
    (base,) = documents(MANIFESTS / "base/kustomization.yaml")
    assert kustomization["images"] == base["images"]


def _expanded(arguments: list[str], results: Path, variables: dict[str, str]) -> list[str]:
    """As the kubelet makes them, with the volume elsewhere."""
    found = [argument.replace("/results", str(results)) for argument in arguments]
    for name, value in variables.items():
        found = [argument.replace(f"$({name})", value) for argument in found]
    return found


def test_what_the_pods_of_a_sweep_write_is_put_together_as_what_one_process_says(tmp_path: Path) -> None:
    """The pods' containers as processes, with the arguments and variables of the manifests."""
    spec, pod = job("sweep")["spec"], job("sweep")["spec"]["template"]["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"] > 1
    (snapshot,), (container,) = pod["initContainers"], pod["containers"]
    assert snapshot["args"][:2] == ["snapshot", "--once"]
    state = Path(_expanded(snapshot["args"], tmp_path, {})[-1])
    state.write_bytes(gzip.compress(Path("docs/examples/whatif/cluster.yaml").read_bytes()))
    for index in range(spec["completions"]):
        own = {each["name"]: each["value"] for each in container["env"]}
        variables = {"JOB_COMPLETION_INDEX": str(index), **own}
        arguments = _expanded(container["args"], tmp_path, variables)
        done = subprocess.run(
            [sys.executable, "-m", "forewarn", *arguments],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (merge,) = job("sweep-result")["spec"]["template"]["spec"]["containers"]
    commands = [
        _expanded(merge["args"], tmp_path, {}),
        ["whatif", "lose", "--each", "node", "--cluster", str(state)],
    ]
    told = [
        subprocess.run([sys.executable, "-m", "forewarn", *c], capture_output=True, check=True, timeout=500)
        for c in commands
    ]
    assert told[0].stdout == told[1].stdout != b""


def last(path: str) -> str:
    return path.rpartition("/")[2]


@pytest.mark.parametrize(
    ("account", "granted"),
    [
        (NAME, {last(PLACE.serving): ["get"], last(PLACE.default): ["create", "get", "update"]}),
        (
            INJECTOR,
            {last(path): ["get", "update"] for path in (PLACE.authorities, PLACE.serving)}
            | {last(PLACE.election): ["create", "get", "update"]},
        ),
    ],
)
def test_what_is_written_is_shipped_empty_and_may_be_read_and_updated_by_name(
    account: str, granted: dict[str, list[str]]
) -> None:
    rules = one("Role", account, "forewarn")["rules"]
    assert {name: rule["verbs"] for rule in rules for name in rule["resourceNames"]} == granted
    for kind in ("Secret", "Lease"):
        assert not any({"data", "spec"} & document.keys() for document in BASE if document["kind"] == kind)
    shipped = {document["metadata"]["name"] for document in BASE if document["kind"] in ("Secret", "Lease")}
    assert granted.keys() <= shipped


ASKING = {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]}


def test_nobody_may_create_anything_that_is_stored_but_one_lease_each() -> None:
    rules = [rule for document in BASE if document["kind"] in ("Role", "ClusterRole") for rule in document["rules"]]
    leases = [rule for rule in rules if "create" in rule["verbs"] and rule != ASKING]
    assert {name for rule in leases for name in rule["resources"]} == {"leases"}
    assert sorted(rule["resourceNames"] for rule in leases) == [[last(PLACE.election)], [last(PLACE.default)]]
    rules = [rule for rule in rules if rule not in (ASKING, *leases)]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch", "update"}


CLOSED = {
    "classes.validate.forewarn.dev": ["priorityclasses"],
    "exemptions.validate.forewarn.dev": ["namespaces", "namespaces/finalize", "namespaces/status"],
}


def test_only_priority_classes_and_exemptions_that_come_or_change_fail_closed() -> None:
    for webhook in webhooks():
        closed = CLOSED.get(webhook["name"])
        assert webhook["failurePolicy"] == ("Fail" if closed else "Ignore")
        reserves = webhook["name"] == "classes.validate.forewarn.dev"
        assert webhook["sideEffects"] == ("NoneOnDryRun" if reserves else "None")
        assert webhook["timeoutSeconds"] == 5
        if closed:
            (rule,), names = webhook["rules"], {condition["name"] for condition in webhook["matchConditions"]}
            assert (rule["resources"], rule["operations"]) == (closed, ["CREATE", "UPDATE"])
            own = "not-forewarns-own-class" if reserves else "sets-an-exemption"
            assert names == {own, "forewarn-is-installed"}
        else:
            names = {condition["name"] for condition in webhook["matchConditions"]}
            impact = {"pods-are-updated-only-where-their-impact-changes"} if "mutate" in webhook["name"] else set()
            assert names == {"not-kube-system", "not-forewarns-own-namespace", "not-leases-and-events"} | impact
    assert one("MutatingWebhookConfiguration")["webhooks"][0]["reinvocationPolicy"] == "IfNeeded"


def test_what_fails_closed_is_asked_for_only_while_forewarn_holds_a_right_in_its_namespace() -> None:
    """The right that is asked for is one that the Role grants: else PriorityClasses would never be judged."""
    conditions = {
        c["name"]: c["expression"] for w in webhooks() if w["failurePolicy"] == "Fail" for c in w["matchConditions"]
    }
    asked = conditions["forewarn-is-installed"]
    lease = last(PLACE.default)
    assert f'.name("{lease}").check("update")' in asked
    assert any(lease in rule["resourceNames"] and "update" in rule["verbs"] for rule in one("Role")["rules"])
    assert one("RoleBinding")["subjects"] == [{"kind": "ServiceAccount", "name": "forewarn", "namespace": "forewarn"}]


def test_every_workload_is_judged_and_so_is_what_scales_one() -> None:
    evaluated = {resource for webhook in webhooks() for rule in webhook["rules"] for resource in rule["resources"]}
    workloads = {"deployments", "replicasets", "statefulsets", "replicationcontrollers"}
    assert evaluated >= workloads | {f"{name}/scale" for name in workloads}
    assert evaluated >= {"daemonsets", "jobs", "cronjobs", "pods", "podtemplates", "namespaces", "resourcequotas"}


@pytest.mark.parametrize("name", [NAME, INJECTOR])
def test_the_pods_are_restricted_ones(name: str) -> None:
    pod = one("Deployment", name)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert one("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert pod["enableServiceLinks"] is False


def test_there_is_time_to_drain() -> None:
    pod = one("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    drain = next(float(e["value"]) for e in container["env"] if e["name"] == "FOREWARN_DRAIN")
    assert drain + 35 < pod["terminationGracePeriodSeconds"]


@pytest.mark.parametrize("links", [False, True], ids=["as shipped", "with variables for its own Service"])
def test_the_container_starts_with_its_arguments_and_the_variables_that_it_gets(links: bool) -> None:
    pod = one("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["enableServiceLinks"] is False
    fields = {"metadata.namespace": "forewarn", "metadata.name": "forewarn-5d8f-x7k2p"}
    own = {e["name"]: e.get("value") or fields[e["valueFrom"]["fieldRef"]["fieldPath"]] for e in container["env"]}
    group, command, *arguments = container["args"]
    settings = parse_settings(arguments, {**(kubelets_variables() if links else {}), **own})
    assert (group, command) == ("webhook", "serve")
    assert [settings.port, settings.health_port] == [port["containerPort"] for port in container["ports"]]
    assert (settings.host, settings.namespace) == ("::", "forewarn")
    assert settings.identity == "forewarn-5d8f-x7k2p"
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert settings.config is not None
    assert str(settings.config.parent) in mounts
    assert settings.config.name in one("ConfigMap")["data"]


def test_no_selector_of_the_serving_pods_takes_in_the_ca_injector() -> None:
    labels = one("Deployment", INJECTOR)["spec"]["template"]["metadata"]["labels"]
    selectors = [
        one("Deployment")["spec"]["selector"]["matchLabels"],
        one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        one("Service")["spec"]["selector"],
    ]
    assert selectors == [{"app.kubernetes.io/name": "forewarn"}] * 4, "a Deployment's cannot be changed by an upgrade"
    assert all(labels[key] != value for selector in selectors for key, value in selector.items())


def _patches() -> list[Any]:
    """Component, what its JSON patch is for, and one of the patch's tests."""
    found = []
    for path in sorted((MANIFESTS / "components").glob("*/kustomization.yaml")):
        for patch in documents(path)[0].get("patches", []):
            operations = yaml.safe_load(patch.get("patch", ""))
            for operation in operations if isinstance(operations, list) else []:
                if operation["op"] == "test":
                    target = patch["target"]
                    name = f"{path.parent.name}-{target['kind']}"
                    found.append(pytest.param(target, operation["path"], operation["value"], id=name))
    return found


@pytest.mark.parametrize(("target", "path", "value"), _patches())
def test_what_a_component_takes_away_stands_where_it_looks(target: dict[str, str], path: str, value: Any) -> None:
    """Kustomize refuses the whole component otherwise; the rules of a role are made from the watched kinds."""
    there: Any = one(target["kind"], target["name"], target.get("namespace"))
    for step in path.removeprefix("/").split("/"):
        there = there[int(step)] if isinstance(there, list) else there[step]
    assert there == value


@pytest.mark.parametrize("name", ["mutual-tls", "client-token"])
def test_what_a_component_adds_is_of_files_that_it_mounts(name: str) -> None:
    (patch,) = documents(MANIFESTS / "components" / name / "deployment.yaml")
    pod = patch["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    settings = parse_settings([], {each["name"]: each["value"] for each in container["env"]})
    (mount,), (volume,) = container["volumeMounts"], pod["volumes"]
    files = [path for path in (settings.client_ca, settings.client_token_file) if path]
    assert [str(path.parent) for path in files] == [mount["mountPath"]]
    assert mount["name"] == volume["name"]
    assert bool(settings.client_names) is bool(settings.client_ca)


def test_what_api_servers_are_told_names_the_service_of_the_webhooks() -> None:
    directory = MANIFESTS / "components/mutual-tls"
    (admission,) = documents(directory / "admission.yaml")
    (kubeconfig,) = documents(directory / "webhooks.kubeconfig")
    services = {(w["clientConfig"]["service"]["name"], w["clientConfig"]["service"]["namespace"]) for w in webhooks()}
    assert [user["name"] for user in kubeconfig["users"]] == [f"{name}.{namespace}.svc" for name, namespace in services]
    names = {plugin["name"]: plugin["configuration"]["kubeConfigFile"] for plugin in admission["plugins"]}
    assert names.keys() == {"ValidatingAdmissionWebhook", "MutatingAdmissionWebhook"}
    assert {Path(path).name for path in names.values()} == {"webhooks.kubeconfig"}


def test_auditing_alone_lets_every_rule_do_no_more() -> None:
    (config,) = documents(MANIFESTS / "components/audit-only/config.yaml")
    read = read_config(config["data"]["forewarn.yaml"], "config.yaml")
    heard = {rule.ID for rule in RULES if rule.ACTION is not None}
    assert read.actions == dict.fromkeys(heard, Action.AUDIT)


def test_base_may_ask_what_somebody_may_do_and_disclosing_by_access_is_configuration_alone() -> None:
    component = MANIFESTS / "components/disclose-by-access"
    (config,) = documents(component / "config.yaml")
    assert read_config(config["data"]["forewarn.yaml"], "config.yaml").disclose_to.subject_access_review
    (kustomization,) = documents(component / "kustomization.yaml")
    assert "resources" not in kustomization
    assert ASKING in one("ClusterRole")["rules"]


def test_the_audit_may_write_its_lease_its_reports_and_new_events_and_nothing_else() -> None:
    component = MANIFESTS / "components/cluster-audit"
    lease, role, _, cluster_role, _ = documents(component / "rbac.yaml")
    assert lease["metadata"]["name"] == last(PLACE.audit)
    assert "spec" not in lease
    (by_name,) = role["rules"]
    assert (by_name["resourceNames"], by_name["verbs"]) == ([last(PLACE.audit)], ["create", "get", "update"])
    created, changed, events = cluster_role["rules"]
    assert created["verbs"] == events["verbs"] == ["create"]
    assert (changed["resourceNames"], changed["verbs"]) == ([openreports.NAME], ["get", "update"])
    assert created["apiGroups"] == changed["apiGroups"] == [open_reports.GROUP.split("/")[2]]
    assert f"{cluster_role['metadata']['name']}\n" in (MANIFESTS / "uninstall.sh").read_text()
    for obj in documents(component / "rbac.yaml"):
        if obj["kind"].endswith("Binding"):
            assert obj["subjects"] == one("ClusterRoleBinding")["subjects"]
            assert obj["roleRef"]["name"] == role["metadata"]["name"] == cluster_role["metadata"]["name"]
    (patch,) = documents(component / "deployment.yaml")
    (container,) = patch["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert parse_settings([], {**variables, "FOREWARN_NAMESPACE": "forewarn"}).audit_interval == 3600


CRON_JOB = [obj for path in sorted((MANIFESTS / "components/audit-cron-job").glob("*.yaml")) for obj in documents(path)]


def of_cron_job(kind: str) -> dict[str, Any]:
    (found,) = (obj for obj in CRON_JOB if obj["kind"] == kind)
    return found


def test_the_cron_job_may_list_what_an_audit_reads_and_write_its_reports_and_nothing_else() -> None:
    rules, binding = of_cron_job("ClusterRole")["rules"], of_cron_job("ClusterRoleBinding")
    *read, created, changed = rules
    autoscalers = {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": ["list"]}
    assert [rule for rule in read if rule != autoscalers] == of_jobs("ClusterRole")["rules"] != read
    assert created["apiGroups"] == changed["apiGroups"] == [open_reports.GROUP.split("/")[2]]
    assert (created["verbs"], changed["verbs"]) == (["create"], ["get", "update"])
    assert changed["resourceNames"] == [openreports.NAME]
    account = of_cron_job("ServiceAccount")["metadata"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account}]
    assert binding["roleRef"]["name"] == of_cron_job("ClusterRole")["metadata"]["name"]
    assert f"{binding['metadata']['name']}\n" in (MANIFESTS / "uninstall.sh").read_text()


def test_the_pod_of_the_cron_job_is_as_restricted_as_the_webhook_and_preempts_no_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pod, webhook = of_cron_job("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"], one("Deployment")
    webhooks_pod = webhook["spec"]["template"]["spec"]
    (container,), (webhooks_container,) = pod["containers"], webhooks_pod["containers"]
    assert pod["securityContext"] == webhooks_pod["securityContext"]
    assert container["securityContext"] == webhooks_container["securityContext"]
    assert pod["serviceAccountName"] == of_cron_job("ServiceAccount")["metadata"]["name"]
    assert pod["priorityClassName"] == of_cron_job("PriorityClass")["metadata"]["name"]
    assert of_cron_job("PriorityClass")["preemptionPolicy"] == "Never"
    (base,) = documents(MANIFESTS / "base/kustomization.yaml")
    assert of_cron_job("CronJob")["metadata"]["namespace"] == NAME
    (kustomization,) = documents(MANIFESTS / "components/audit-cron-job/kustomization.yaml")
    assert kustomization["images"] == base["images"]
    command, *arguments = container["args"]
    monkeypatch.setattr("os.path.exists", lambda path: path.startswith("/etc/forewarn/"))  # in the container
    options = argument_parser().parse_args(arguments)
    assert (command, options.cluster, options.apply, options.exit_zero) == ("audit", ["live"], True, True)
    assert options.config == webhooks_container["env"][1]["value"]


def test_alerts_and_panels_name_metrics_that_there_are() -> None:
    text = Metrics().exposition("")[0].decode()
    families = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    known = {name.removesuffix("_total") for name in families}
    monitoring = MANIFESTS / "components/monitoring"
    told = (monitoring / "rules.yaml").read_text() + (monitoring / "forewarn.json").read_text()
    named = set(re.findall(r"(?:forewarn|process)_[a-z_]+", told))
    assert {re.sub(r"_(total|bucket)$", "", name) for name in named} <= known
    panels = json.loads((monitoring / "forewarn.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_each_alert_is_tested_for_firing_and_for_keeping_silent() -> None:
    """The tests themselves are run by promtool, in tests/e2e/test_alerts.py."""
    (rules,) = documents(MANIFESTS / "components/monitoring/rules.yaml")
    alerts = [rule["alert"] for group in rules["spec"]["groups"] for rule in group["rules"]]
    assert len(set(alerts)) == len(alerts)
    (tests,) = documents(Path(__file__).parent / "e2e/alerts.yaml")
    tried = [alert for test in tests["tests"] for alert in test["alert_rule_test"]]
    for fires in (True, False):
        assert {alert["alertname"] for alert in tried if bool(alert["exp_alerts"]) == fires} == set(alerts)


def test_each_alert_leads_to_its_heading() -> None:
    (rules,) = documents(MANIFESTS / "components/monitoring/rules.yaml")
    alerts = [rule for group in rules["spec"]["groups"] for rule in group["rules"]]
    for alert in alerts:
        assert alert["annotations"]["runbook_url"] == f"docs/guides/troubleshoot.md#{alert['alert'].lower()}"
    page = Path("docs/guides/troubleshoot.md").read_text().partition("\n## Alerts\n")[2]
    assert re.findall(r"^### (\w+)$", page, re.MULTILINE) == [alert["alert"] for alert in alerts]
    for section in page.split("\n### ")[1:]:
        assert re.findall(r"^\*\*(\w+)\*\*:", section, re.MULTILINE) == ["Means", "Check", "Fix"], section


def test_the_script_takes_the_replicas_away_before_the_configurations_and_those_before_the_rest(tmp_path: Path) -> None:
    script, log = MANIFESTS / "uninstall.sh", tmp_path / "log"
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    kubectl.chmod(kubectl.stat().st_mode | stat.S_IXUSR)
    subprocess.run(
        [script, "--context", "staging"], check=True, env={**os.environ, "KUBECTL": str(kubectl)}, timeout=500
    )
    calls = log.read_text().splitlines()
    assert all(call.startswith("--context staging ") for call in calls)
    words = ["scale deployment", "wait --for=delete", "validatingwebhook", "mutatingwebhook", "-k base"]
    places = [next(n for n, call in enumerate(calls) if word in call) for word in words]
    assert places == sorted(places)
