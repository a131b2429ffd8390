"""`forewarn why --since`, `--audit-log` and `--before`: who preempted Pods that no longer exist."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.inputs.sources import json_stream
from forewarn.policies.questions.why import post_mortem
from tests.builders import Made, MadePod, cluster_text, make_node, make_pod, make_priority_class
from tests.in_process import forewarn

if TYPE_CHECKING:
    from pathlib import Path

HIGH = "11111111-1111-1111-1111-111111111111"


def _owned(name: str, workload: str) -> MadePod:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": workload, "controller": True, "uid": workload}
    pod = make_pod(name, "shop").metadata(ownerReferences=[owner], uid=f"uid-{name}", creationTimestamp=_at(0))
    return pod.labels(app=workload).request(cpu="3")


def _at(minute: int, second: int = 0) -> str:
    return f"2026-01-01T{10 + minute // 60:02}:{minute % 60:02}:{second:02}Z"


def _workload() -> Made:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    web = Made("apps/v1", "ReplicaSet", "web", "shop")
    return web.spec(replicas=1, selector={"matchLabels": {"app": "web"}}, template=template)


def _base() -> list[Made]:
    return [make_node("n1").has(cpu="4"), make_priority_class(1000, "gold"), _workload()]


def _preemptor() -> MadePod:
    pod = make_pod("urgent", "shop").request(cpu="3").priority(1000).metadata(uid=HIGH, creationTimestamp=_at(1))
    return pod.spec(priorityClassName="gold")


def _event(pod: str, uid: str, minute: int) -> Made:
    event = Made("v1", "Event", f"{pod}.{minute}", "shop")
    event.obj |= {
        "reason": "Preempted",
        "message": f"Preempted by pod {uid} on node n1",
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": pod, "uid": f"uid-{pod}"},
        "lastTimestamp": _at(minute),
    }
    return event


def _audit(verb: str, pod: str, minute: int, part: str = "", second: int = 0, **body: Any) -> str:
    ref = {"resource": "pods", "namespace": "shop", "name": pod, **({"subresource": part} if part else {})}
    return json.dumps(
        {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "stage": "ResponseComplete",
            "verb": verb,
            "user": {"username": "system:kube-scheduler"},
            "objectRef": ref,
            "responseStatus": {"code": 200},
            "requestReceivedTimestamp": _at(minute, second),
            **({"requestObject": body} if body else {}),
        }
    )


def _log(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def _preemption(victim: str, by: str, minute: int) -> list[str]:
    """What kube-scheduler requests when it preempts a Pod that it bound to n1."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    return [
        _audit("create", victim, 0, "binding", target={"name": "n1"}),
        _audit("patch", victim, minute, "status", status={"conditions": [condition]}),
        _audit("delete", victim, minute),
        _audit("patch", by, minute, "status", 1, status={"nominatedNodeName": "n1"}),
    ]


def _before(path: Path) -> Path:
    path.write_text(cluster_text([*_base(), _owned("web-1", "web").on("n1")]))
    return path


def _now(path: Path, *more: Made) -> Path:
    path.write_text(cluster_text([*_base(), _preemptor().on("n1"), *more]))
    return path


def _answer(*arguments: str | Path) -> dict[str, Any]:
    done = forewarn("why", *arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_the_preemptor_of_an_event_is_named(tmp_path: Path) -> None:
    cluster = _now(tmp_path / "c.json", _event("web-1", HIGH, 60))
    (pod,) = _answer("--cluster", cluster)["preempted"]
    assert (pod["pod"], pod["by"], pod["node"], pod["source"]) == ("shop/web-1", "shop/urgent", "n1", "Event")


def test_a_running_pod_shows_whom_it_preempted_and_when(tmp_path: Path) -> None:
    """According to Events, conditions and audit logs; a Pod that preempted none has no such rows."""
    log = _log(tmp_path / "audit.log", *_preemption("web-3", "urgent", 70))
    cluster = _now(tmp_path / "c.json", _event("web-1", HIGH, 60), _event("web-2", "another", 61))
    asked = ("urgent", "-n", "shop", "--cluster", cluster, "--audit-log", log)
    found = [(each["pod"], each["node"], each["time"], each["source"]) for each in _answer(*asked)["preempted"]]
    assert found == [("shop/web-3", "n1", _at(70), "audit log"), ("shop/web-1", "n1", _at(60), "Event")]
    lines = [line.split() for line in forewarn("why", *asked).stdout.splitlines()]
    assert ["PREEMPTED", "BY", "IT", "NODE", "AT", "SOURCE"] in lines
    assert ["shop/web-1", "n1", _at(60), "Event"] in lines
    (tmp_path / "d.json").write_text(cluster_text([*_base(), _owned("web-1", "web").on("n1")]))
    assert "PREEMPTED BY IT" not in forewarn("why", "web-1", "-n", "shop", "--cluster", tmp_path / "d.json").stdout


def test_the_period_selects_events_and_the_answer_names_the_oldest(tmp_path: Path) -> None:
    events = (_event("web-1", HIGH, 10), _event("web-2", HIGH, 120))
    cluster = _now(tmp_path / "c.json", *events)
    assert len(_answer("--cluster", cluster)["preempted"]) == 2
    answer = _answer("--cluster", cluster, "--since", "1h")
    assert [pod["pod"] for pod in answer["preempted"]] == ["shop/web-2"]
    assert answer["missing"] == []
    (missing,) = _answer("--cluster", cluster)["missing"]
    assert missing.startswith("the oldest Event is of 2026-01-01T10:10:00Z: earlier preemptions are unknown")


def test_the_audit_log_names_the_deleted_preemptor_of_an_event(tmp_path: Path) -> None:
    """By its nomination, unless the log shows that the nominated Pod has another uid."""
    cluster = _now(tmp_path / "c.json", _event("web-1", "of-a-deleted-pod", 20))
    nominated = _preemption("web-1", "other", 20)
    bound = _audit("create", "other", 21, "binding").replace('"resource"', '"uid": "of-another-pod", "resource"')
    for more, by in ([], "shop/other"), ([bound], "a Pod that no longer exists"):
        (pod,) = _answer("--cluster", cluster, "--audit-log", _log(tmp_path / "a.log", *nominated, *more))["preempted"]
        assert pod["by"] == by


def test_the_audit_log_shows_what_events_no_longer_do(tmp_path: Path) -> None:
    cluster = _now(tmp_path / "c.json", _event("web-9", HIGH, 100))
    log = _log(tmp_path / "audit.log", *_preemption("web-1", "urgent", 20), *_preemption("web-2", "other", 50))
    answer = _answer("--cluster", cluster, "--audit-log", log)
    found = {pod["pod"]: (pod["by"], pod["node"], pod["source"]) for pod in answer["preempted"]}
    assert found == {
        "shop/web-9": ("shop/urgent", "n1", "Event"),
        "shop/web-2": ("shop/other", "n1", "audit log"),
        "shop/web-1": ("shop/urgent", "n1", "audit log"),
    }
    assert not answer["missing"]


def test_30_preemptions_have_the_right_preemptor_or_are_reported_as_unknown(tmp_path: Path) -> None:
    lines, events = list[str](), list[Made]()
    for number in range(30):
        recorded = _preemption(f"web-{number}", f"by-{number}", 5 + 2 * number)
        if number % 3 == 0:  # a log of level Metadata has no request objects
            recorded = [_audit("delete", f"web-{number}", 5 + 2 * number)]
        lines += recorded if number % 3 != 1 else []
        if number % 3 == 1:
            events.append(_event(f"web-{number}", HIGH, 5 + 2 * number))
    cluster, log = _now(tmp_path / "c.json", *events), _log(tmp_path / "audit.log", *lines)
    found = {pod["pod"]: pod["by"] for pod in _answer("--cluster", cluster, "--audit-log", log)["preempted"]}
    expected = [["unknown", "shop/urgent", f"shop/by-{number}"][number % 3] for number in range(30)]
    assert found == {f"shop/web-{number}": by for number, by in enumerate(expected)}


def test_requests_of_others_and_failed_requests_do_not_count(tmp_path: Path) -> None:
    by_user = _audit("delete", "web-1", 5).replace("system:kube-scheduler", "kube-scheduler-admin")
    failed = _audit("delete", "web-2", 5).replace('"code": 200', '"code": 404')
    log = _log(tmp_path / "audit.log", by_user, failed, _audit("delete", "web-3", 5, "eviction"))
    assert _answer("--cluster", _now(tmp_path / "c.json"), "--audit-log", log)["preempted"] == []


def test_a_condition_shows_a_pod_that_still_terminates(tmp_path: Path) -> None:
    victim = _owned("web-1", "web").on("n1").terminating(preempted=True)
    victim.obj["status"]["conditions"][-1]["lastTransitionTime"] = _at(7)
    cluster = tmp_path / "c.json"
    cluster.write_text(cluster_text([*_base(), victim, _preemptor().nominated("n1")]))
    (pod,) = _answer("--cluster", cluster)["preempted"]
    assert (pod["pod"], pod["by"], pod["source"]) == ("shop/web-1", "shop/urgent", "condition")
    assert (pod["byClass"], pod["time"]) == ("gold", _at(7))


def test_a_pod_of_a_condition_is_completed_by_the_audit_log(tmp_path: Path) -> None:
    victim = _owned("web-1", "web").on("n1").terminating(preempted=True)
    cluster, log = tmp_path / "c.json", _log(tmp_path / "audit.log", *_preemption("web-1", "urgent", 20))
    cluster.write_text(cluster_text([*_base(), victim, _preemptor().on("n1")]))
    (pod,) = _answer("--cluster", cluster, "--audit-log", log)["preempted"]
    assert (pod["by"], pod["byClass"], pod["time"]) == ("shop/urgent", "gold", _at(20))


def test_a_pod_that_is_gone_has_the_value_of_its_workload(tmp_path: Path) -> None:
    web = _workload()
    web.obj["spec"]["template"]["spec"]["priorityClassName"] = "gold"
    cluster = tmp_path / "c.json"
    cluster.write_text(cluster_text([*_base()[:2], web, _event("web-1", HIGH, 20), _event("other", HIGH, 30)]))
    found = {pod["workload"]: pod["priority"] for pod in _answer("--cluster", cluster)["preempted"]}
    assert found == {"shop/web": 1000, "shop/other": None}


def test_the_earlier_snapshot_gives_the_class_and_what_would_have_prevented_it(tmp_path: Path) -> None:
    cluster, before = _now(tmp_path / "c.json", _event("web-1", HIGH, 60)), _before(tmp_path / "before.json")
    answer = _answer("--cluster", cluster, "--before", before)
    assert [(pod["workload"], pod["priority"]) for pod in answer["preempted"]] == [("shop/web", 0)]
    assert [pod["byClass"] for pod in answer["preempted"]] == ["gold"]
    effect = "in a simulation of before.json: preempted 1 → 0; shop/urgent"
    fixes = [
        ("add 1 node like n1", f"{effect} runs without preemption"),
        ("gold for shop/web", f"{effect} stays Pending"),
        (
            "preemptionPolicy: Never for gold (immutable: recreate the class, which 0 Pods have)",
            f"{effect} stays Pending",
        ),
        ("quota for class gold in namespace shop: pods 0", f"{effect} is rejected"),
    ]
    assert [(fix["action"], fix["effect"]) for fix in answer["fix"]] == fixes
    for name in ([], ["shop/web-1"]):
        hint = "--before FILE: how to prevent it"
        assert hint in forewarn("why", *name, "--cluster", cluster).stdout
        assert hint not in forewarn("why", *name, "--cluster", cluster, "--before", before).stdout
    of_pod = _answer("shop/web-1", "--cluster", cluster, "--before", before)
    assert [(fix["action"], fix["effect"]) for fix in of_pod["fix"]] == fixes
    out = forewarn("why", "shop/web-1", "--cluster", cluster, "--before", before).stdout
    assert out.startswith("WARN  shop/web-1 (0): gone on n1: preempted\n      shop/web: running 1 → 0 | Pending 0\n")
    assert "       preempted at 2026-01-01T11:00:00Z on n1 by shop/urgent (gold, priority 1,000)\n" in out


def test_nodes_are_no_fix_for_a_preemptor_that_uses_only_its_node(tmp_path: Path) -> None:
    pinned = _preemptor().on("n1").spec(nodeSelector={"kubernetes.io/hostname": "n1"})
    cluster, before = tmp_path / "c.json", _before(tmp_path / "before.json")
    cluster.write_text(cluster_text([*_base(), pinned, _event("web-1", HIGH, 60)]))
    actions = [fix["action"].partition(" ")[0] for fix in _answer("--cluster", cluster, "--before", before)["fix"]]
    assert actions == ["gold", "preemptionPolicy:", "quota"]


def test_the_cycles_of_all_preemptors_are_repeated(tmp_path: Path) -> None:
    uids = [HIGH.replace("1", str(number)) for number in (1, 2, 3)]
    urgent = [_preemptor().metadata(name=f"urgent-{uid[0]}", uid=uid).on("n1") for uid in uids]
    node, etl = make_node("n1").has(cpu="12"), _owned("etl-1", "etl")
    web = [_owned(f"web-{number}", "web").on("n1") for number in (1, 2, 3)]
    before, cluster = tmp_path / "before.json", tmp_path / "c.json"
    before.write_text(cluster_text([*_base()[1:], node, *web, etl.on("n1")]))
    events = [_event(f"web-{number}", uid, 60) for number, uid in enumerate(uids, 1)]
    cluster.write_text(cluster_text([*_base()[1:], node, *urgent, etl.on("n1"), *events]))
    answer = _answer("--cluster", cluster, "--before", before)
    assert next((fix["action"], fix["effect"]) for fix in answer["fix"]) == (
        "add 1 node like n1",
        "in a simulation of before.json: preempted 3 → 0; 3 of 3 preemptors run without preemption",
    )
    assert any(fix["effect"].endswith("3 of 3 preemptors are rejected") for fix in answer["fix"])
    assert _answer("shop/web-2", "--cluster", cluster, "--before", before)["fix"] == answer["fix"]
    out = forewarn("why", "--cluster", cluster, "--before", before).stdout
    assert all(re.search(rf"^shop/web +1 +shop/urgent-{uid[0]} +gold +n1 ", out, re.MULTILINE) for uid in uids)


def test_a_fix_names_the_recorded_number_if_the_simulation_preempts_another_one(tmp_path: Path) -> None:
    events = [_event(name, HIGH, 60) for name in ("web-1", "web-2")]
    cluster, before = _now(tmp_path / "c.json", *events), _before(tmp_path / "before.json")
    effect = "in a simulation of before.json: preempted 1 → 0 (recorded: 2); shop/urgent is rejected"
    assert effect in [fix["effect"] for fix in _answer("--cluster", cluster, "--before", before)["fix"]]


def test_a_snapshot_without_the_preemption_gives_no_fix_and_says_so(tmp_path: Path) -> None:
    cluster, before = _now(tmp_path / "c.json", _event("web-1", HIGH, 60)), tmp_path / "before.json"
    before.write_text(cluster_text([*_base(), make_node("n2").has(cpu="4"), _owned("web-1", "web").on("n1")]))
    for name in ([], ["shop/web-1"]):
        answer = _answer(*name, "--cluster", cluster, "--before", before)
        missing = "no fix was tried: in the earlier snapshot, the preemptors preempt none of shop/web"
        assert missing in answer["missing"]
        assert answer.get("fix", []) == []


def test_what_would_have_prevented_it_leaves_out_placeholders_and_names_the_victims_instead(tmp_path: Path) -> None:
    pause, etl = _owned("pause-1", "pause").priority(-5).on("n1"), _owned("etl-1", "etl").priority(-1).on("n1")
    pause.container["image"] = "registry.k8s.io/pause:3.9"
    nodes = [make_node(name).has(cpu="6") for name in ("n1", "n2")]
    before, cluster = tmp_path / "before.json", tmp_path / "c.json"
    web = [_owned(f"web-{number}", "web").on("n2") for number in (1, 2)]
    before.write_text(cluster_text([*_base()[1:], *nodes, pause, etl, *web]))
    events = [_event(name, HIGH, 60) for name in ("pause-1", "etl-1")]
    cluster.write_text(cluster_text([*_base()[1:], *nodes, _preemptor().request(cpu="6").on("n1"), *events]))
    answer = _answer("--cluster", cluster, "--before", before)
    assert answer["counts"] | {"preemptedIn24H": 1, "placeholdersPreempted": 1} == answer["counts"]
    assert [each["pod"] for each in answer["preemptedPlaceholders"]] == ["shop/pause-1"]
    fixes = answer["fix"]
    preempted = "in a simulation of before.json: preempted Pods of shop/etl 1 → 0"
    effect = f"{preempted}; shop/urgent preempts 2 of shop/web (no class)"
    assert fixes[-1] == {"action": "gold for shop/etl", "effect": effect}
    assert _answer("shop/pause-1", "--cluster", cluster, "--before", before).get("fix", []) == []


def test_pods_that_disappeared_without_a_record_are_counted(tmp_path: Path) -> None:
    cluster, before = _now(tmp_path / "c.json"), _before(tmp_path / "before.json")
    missing = " ".join(_answer("--cluster", cluster, "--before", before)["missing"])
    assert f"1 Pod no longer exists since {before}, and nothing shows why" in missing


def test_pods_that_disappeared_are_named_with_who_deleted_them(tmp_path: Path) -> None:
    cluster, before = _now(tmp_path / "c.json"), _before(tmp_path / "before.json")
    log = _log(tmp_path / "audit.log", _by_jane("delete", 20))
    arguments = ("why", "--cluster", cluster, "--before", before)
    by_jane = rf"jane@example.com\s+{_at(20)}"
    for more, by in ((), "$"), (("--audit-log", log), rf"\s+{by_jane}"):
        assert re.search(rf"^shop/web-1{by}", forewarn(*arguments, *more, "-v").stdout, re.MULTILINE)
        out = " ".join(forewarn(*arguments, *more).stdout.split())
        assert ("nothing shows why" in out, "-v gone Pods" in out) == (not more, True)
        assert "before.json (before)" in out
    assert "audit.log" in out


def test_a_pod_that_is_gone_is_explained_by_the_audit_log(tmp_path: Path) -> None:
    cluster, log = _now(tmp_path / "c.json"), _log(tmp_path / "audit.log", *_preemption("web-1", "urgent", 20))
    answer = _answer("shop/web-1", "--cluster", cluster, "--audit-log", log)
    assert [(each["id"], each["message"]) for each in answer["troubles"]] == [
        ("preempted", "preempted on n1 by shop/urgent (audit log)")
    ]
    assert answer["state"] == "gone"


def test_a_pod_that_is_gone_without_a_record_is_unknown(tmp_path: Path) -> None:
    cluster, before = _now(tmp_path / "c.json"), _before(tmp_path / "before.json")
    (trouble,) = _answer("shop/web-1", "--cluster", cluster, "--before", before)["troubles"]
    text = "it ran on n1 in the earlier snapshot (priority 0); nothing shows what deleted it"
    assert (trouble["id"], trouble["message"]) == ("deleted", text)


def _by_jane(verb: str, minute: int, part: str = "", **more: Any) -> str:
    return json.dumps(
        json.loads(_audit(verb, "web-1", minute, part)) | {"user": {"username": "jane@example.com"}, **more}
    )


BY_A_KUBELET: dict[str, Any] = {"user": {"username": "system:node:n1"}}
DRY: dict[str, Any] = {"requestURI": "/api/v1/namespaces/shop/pods/web-1?dryRun=All"}
REJECTED: dict[str, Any] = {"responseStatus": {"code": 429}}


@pytest.mark.parametrize(
    ("lines", "trouble"),
    [
        ([_by_jane("create", 20, "eviction"), _by_jane("delete", 21)], "evicted by jane@example.com"),
        ([_by_jane("delete", 20), _by_jane("delete", 22, **BY_A_KUBELET)], "deleted by jane@example.com"),
        ([_by_jane("delete", 10), _by_jane("create", 20, "eviction")], "evicted by jane@example.com"),
        ([_by_jane("create", 20, "eviction", **DRY), _by_jane("create", 20, "eviction", **REJECTED)], ""),
        ([_by_jane("create", 20, "eviction", responseStatus=None), _by_jane("create", 20, "binding")], ""),
    ],
)
@pytest.mark.parametrize("is_terminating", [False, True])
@pytest.mark.parametrize("has_before", [False, True])
def test_the_audit_log_names_who_deleted_a_pod(
    lines: list[str], trouble: str, *, is_terminating: bool, has_before: bool, tmp_path: Path
) -> None:
    """And without a request that succeeded, the answer does not propose the log that it has."""
    there = [_owned("web-1", "web").on("n1").terminating()] if is_terminating else []
    before: list[str | Path] = ["--before", _before(tmp_path / "before.json")] if has_before else []
    log = _log(tmp_path / "audit.log", *lines)
    cluster = _now(tmp_path / "c.json", *there)
    done = forewarn("why", "shop/web-1", "--cluster", cluster, "--audit-log", log, *before)
    if trouble:
        assert f"{trouble} at 2026-01-01T10:20:00Z (audit log)" in done.stdout
    elif before or there:
        assert done.stdout
        assert "audit-log FILE" not in done.stdout + done.stderr
        assert "API server's audit log" not in done.stdout


def test_the_user_of_an_audit_log_is_printable(tmp_path: Path) -> None:
    line = _by_jane("delete", 20, user={"username": f"\x1b[31m{'x' * 999}"})
    cluster, log = _now(tmp_path / "c.json"), _log(tmp_path / "audit.log", line)
    (trouble,) = _answer("shop/web-1", "--cluster", cluster, "--audit-log", log)["troubles"]
    assert (trouble["message"].isprintable(), len(trouble["message"]) < 300) == (True, True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("", "no audit events"), ("{}\n", "line 1: no audit event"), ("kube-scheduler\n", "line 1: no audit event")],
)
def test_another_file_as_the_audit_log_is_an_error(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_text(text)
    done = forewarn("why", "--cluster", _now(tmp_path / "c.json"), "--audit-log", tmp_path / "audit.log")
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr


def test_an_audit_log_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    cluster = _now(tmp_path / "c.json")
    for log, status, problem in ((tmp_path / "none.log", 2, "no such file"), (tmp_path, 2, "directory")):
        done = forewarn("why", "--cluster", cluster, "--audit-log", log)
        assert (done.returncode, done.stdout) == (status, "")
        assert problem in done.stderr.lower()


def test_a_line_that_is_cut_and_broken_lines(tmp_path: Path) -> None:
    cluster, log = _now(tmp_path / "c.json"), tmp_path / "audit.log"
    log.write_text(f"{_audit('delete', 'web-1', 5)}\n{_audit('delete', 'web-2', 5)[:60]}")
    assert [pod["pod"] for pod in _answer("--cluster", cluster, "--audit-log", log)["preempted"]] == ["shop/web-1"]
    log.write_text(f"{_audit('delete', 'web-1', 5)}\nsystem:kube-scheduler\n")
    done = forewarn("why", "--cluster", cluster, "--audit-log", log)
    assert (done.returncode, "line 2: no audit event" in done.stderr) == (2, True)


def test_a_log_with_more_records_than_are_kept_is_a_warning_and_an_earlier_snapshot_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(post_mortem, "_MAX_RECORDS", 1)
    cluster, before = _now(tmp_path / "c.json"), tmp_path / "before.json"
    before.write_text(cluster_text([*_base(), *(_owned(f"web-{number}", "web").on("n1") for number in range(3))]))
    log = _log(tmp_path / "audit.log", *(_audit("delete", f"web-{number}", 5) for number in range(2)))
    for name in ((), ("shop/web-0",)):
        answer = _answer(*name, "--cluster", cluster, "--audit-log", log, "--before", before)
        assert "the audit logs have more than 1 records on Pods; later ones are not read" in " ".join(answer["missing"])
    assert [pod["pod"] for pod in _answer("--cluster", cluster, "--audit-log", log)["preempted"]] == ["shop/web-0"]


def test_a_long_event_is_skipped_and_a_long_log_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _now(tmp_path / "c.json")
    long = _audit("delete", "web-2", 5, note="x" * 2000, more="system:kube-scheduler")
    log = _log(tmp_path / "audit.log", _audit("delete", "web-1", 5), long, _audit("delete", "web-3", 5))
    monkeypatch.setattr(json_stream, "MAX_LINE", 1000)
    answer = _answer("--cluster", cluster, "--audit-log", log)
    assert [pod["pod"] for pod in answer["preempted"]] == ["shop/web-1", "shop/web-3"]
    monkeypatch.setattr(json_stream, "MAX_BYTES", 1500)
    done = forewarn("why", "--cluster", cluster, "--audit-log", log)
    assert (done.returncode, done.stdout, "Fix: pass a shorter log" in done.stderr) == (2, "", True)


def test_the_nearest_nomination_on_the_node_names_the_preemptor(tmp_path: Path) -> None:
    nominations = [
        _audit("patch", by, minute, "status", second, status={"nominatedNodeName": "n1"})
        for by, minute, second in (("late", 6, 1), ("b", 4, 58), ("a", 4, 58), ("early", 4, 10))
    ]
    bound = _audit("create", "web-1", 0, "binding", target={"name": "n1"})
    log = _log(tmp_path / "audit.log", *nominations, bound, _audit("delete", "web-1", 5))
    (pod,) = _answer("--cluster", _now(tmp_path / "c.json"), "--audit-log", log)["preempted"]
    assert pod["by"] == "shop/a"


def test_a_short_period_is_a_duration(tmp_path: Path) -> None:
    cluster = _now(tmp_path / "c.json", _event("web-1", HIGH, 60))
    assert "1 was preempted in 1 min 30 s" in forewarn("why", "--cluster", cluster, "--since", "90s").stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--audit-log", "/nowhere"), "/nowhere"),
        (("--before", "/nowhere"), "/nowhere"),
        (("--since", "soon"), "argument --since"),
        (("shop/web-1", "--since", "2h"), "--since goes without a name"),
    ],
)
def test_bad_input_is_a_clear_error(arguments: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    done = forewarn("why", *arguments, "--cluster", _now(tmp_path / "c.json"))
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
