"""`forewarn classes suggest`: which class workloads without one get, by which rule, and what a lost zone costs."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import yaml

from forewarn.policies.base.documents.answer import Effects, Fix
from forewarn.policies.kubernetes.quantity import parse_quantity
from forewarn.policies.questions.application.class_suggestion import Suggestion, ZoneLoss, moved_losses
from forewarn.policies.questions.application.classes import _side_effect_sentences, _tables
from forewarn.policies.questions.application.whatif_answer import quota_tables
from forewarn.policies.questions.whatif.class_plan import OtherOrder, SimulatedStep
from forewarn.policies.questions.whatif.sweep import Row, WorkloadLoss
from tests.builders import Made, cluster_text, make_budget, make_node, make_pod, make_priority_class
from tests.in_process import forewarn

if TYPE_CHECKING:
    from pathlib import Path


def _workload(kind: str, name: str, class_name: str = "", **labels: str) -> Made:
    version = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    named = {"priorityClassName": class_name} if class_name else {}
    template = {"metadata": {"labels": {"app": name, **labels}}, "spec": {"containers": [container], **named}}
    made = Made(version, kind, name, "shop")
    if kind == "CronJob":
        return made.spec(schedule="0 3 * * *", jobTemplate={"spec": {"template": template}})
    return made.spec(replicas=1, selector={"matchLabels": {"app": name}}, template=template)


def _pod(workload: Made, name: str, node: str, value: int = 0, class_name: str = "") -> Made:
    metadata = workload.obj["metadata"]
    owner = {"apiVersion": "apps/v1", "kind": workload.obj["kind"], "name": metadata["name"], "controller": True}
    spec = {"priorityClassName": class_name} if class_name else {}
    pod = make_pod(name, "shop").request(cpu="2").priority(value).labels(app=metadata["name"]).on(node).spec(**spec)
    return pod.metadata(ownerReferences=[owner])


def _file(path: Path, *made: Made) -> Path:
    nodes = [make_node(f"{zone}-1").zone(zone).has(cpu="4") for zone in "ab"]
    path.write_text(cluster_text([*nodes, *made]))
    return path


def _answer(*arguments: str | Path) -> dict[str, Any]:
    done = forewarn("classes", "suggest", *arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _given(document: dict[str, Any]) -> dict[str, tuple[str, int, bool]]:
    """Workload -> the class, its value, and whether it is new."""
    classes = ((each["class"], each["value"], each["new"], each["workloads"]) for each in document["classes"])
    return {name: (own, value, new) for own, value, new, names in classes for name in names}


EVERY = (
    *(_workload(kind, kind.lower()) for kind in ("DaemonSet", "StatefulSet", "Deployment", "Job", "CronJob")),
    _workload("Deployment", "guarded"),
    make_budget("guarded", 1, "shop", app="guarded"),
)


def test_each_rule_gives_its_class(tmp_path: Path) -> None:
    assert _given(_answer("--cluster", _file(tmp_path / "c.json", *EVERY))) == {
        "DaemonSet shop/daemonset": ("node-agent", 1_000_000, True),
        "StatefulSet shop/statefulset": ("stateful", 100_000, True),
        "Deployment shop/guarded": ("available", 50_000, True),
        "Deployment shop/deployment": ("standard", 10_000, True),
        "Job shop/job": ("batch", 1_000, True),
        "CronJob shop/cronjob": ("batch", 1_000, True),
    }


def test_the_class_of_most_workloads_alike_comes_first(tmp_path: Path) -> None:
    alike = [_workload("StatefulSet", f"db-{number}", "gold" if number < 2 else "other") for number in range(3)]
    classes = make_priority_class(500, "gold"), make_priority_class(600, "other")
    document = _answer("--cluster", _file(tmp_path / "c.json", *EVERY, *alike, *classes))
    assert _given(document)["StatefulSet shop/statefulset"] == ("gold", 500, False)


def test_half_is_not_most(tmp_path: Path) -> None:
    """A team's service must not get the class of background work because this is as frequent as others."""
    alike = [_workload("Deployment", f"web-{number}", "gold" if number % 2 else "low") for number in range(4)]
    classes = make_priority_class(500, "gold"), make_priority_class(5, "low")
    document = _answer("--cluster", _file(tmp_path / "c.json", *EVERY, *alike, *classes))
    assert _given(document)["Deployment shop/deployment"] == ("standard", 10_000, True)


def test_rows_name_the_first_workloads_most_pods_first(tmp_path: Path) -> None:
    web = [_workload("Deployment", f"web-{number}") for number in range(5)]
    pods = [_pod(web[4], f"web-4-{number}", "a-1") for number in range(2)]
    (row,) = _answer("--cluster", _file(tmp_path / "c.json", *web, *pods))["rows"]
    names = "Deployment shop/web-4, Deployment shop/web-0, Deployment shop/web-1 and 2 more"
    assert row["ruleAndNames"] == f"other workloads: {names}"


def test_values_and_names_that_are_taken_are_not_used_again(tmp_path: Path) -> None:
    classes = make_priority_class(7, "batch"), make_priority_class(10_000, "mine"), make_priority_class(11_000, "too")
    given = _given(_answer("--cluster", _file(tmp_path / "c.json", *EVERY, *classes)))
    assert given["Job shop/job"] == ("batch-2", 1_000, True)
    assert given["Deployment shop/deployment"] == ("standard", 12_000, True)


def test_values_are_not_below_the_cutoff_of_the_autoscaler(tmp_path: Path) -> None:
    cutoff = ("--expendable-pods-priority-cutoff", "5000")
    given = _given(_answer("--cluster", _file(tmp_path / "c.json", *EVERY), *cutoff))
    assert given["Job shop/job"][1] >= 5000


def test_other_pods_are_counted_and_placeholders_keep_their_class(tmp_path: Path) -> None:
    reserve = _workload("Deployment", "reserve", "low")
    reserve.obj["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.k8s.io/pause:3.10"
    placeholder = _pod(reserve, "reserve-1", "a-1", -5, "low")
    placeholder.obj["spec"]["containers"][0]["image"] = "registry.k8s.io/pause:3.10"
    bare = make_pod("bare", "shop").on("a-1")
    document = _answer(
        "--cluster", _file(tmp_path / "c.json", reserve, placeholder, bare, make_priority_class(-5, "low"))
    )
    assert (_given(document), document["without"]) == ({}, 1)
    assert document["clause"] == "all workloads have one"


def test_a_plan_accepts_the_manifest(tmp_path: Path) -> None:
    cluster, manifest = "docs/examples/introduce-priority-classes/cluster.yaml", tmp_path / "classes.yaml"
    assert forewarn("classes", "suggest", "--cluster", cluster, "-o", f"yaml={manifest}").returncode == 0
    objects = [*yaml.safe_load_all(manifest.read_text())]
    assert [each["kind"] for each in objects] == ["PriorityClass", "PriorityClass", "Deployment", "Deployment"]
    plan = forewarn("classes", "plan", "-f", manifest, "--cluster", cluster, "-o", "json")
    assert [step["action"] for step in json.loads(plan.stdout)["steps"]] == ["create", "apply", "apply"]


def test_nothing_to_suggest_is_a_notice_and_a_comment(tmp_path: Path) -> None:
    done = forewarn("classes", "suggest", "--cluster", _file(tmp_path / "c.json"), "-o", "yaml")
    notice = "nothing to suggest: all workloads have a PriorityClass\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, f"# {notice}", notice)
    (tmp_path / "s.yaml").write_text(done.stdout)
    planned = forewarn("classes", "plan", "-f", tmp_path / "s.yaml", "--cluster", _file(tmp_path / "c.json"))
    assert planned.returncode == 0
    assert planned.stdout.startswith("OK  change of PriorityClasses in 0 steps: nothing to change\n")


def test_a_plan_counts_placeholders_apart() -> None:
    step: Any = SimpleNamespace(action="apply", classes=[], objects=[{"kind": "Deployment"}], priority=5)
    victims: Any = [SimpleNamespace(workload=name) for name in ("reserve", "reserve", "web")]
    waiting = {"reserve": 2, "web": 4}
    steps = [SimulatedStep(step, 0, 0, new_pods=1, pending=6, unfinished=[], preemptions=victims, waiting=waiting)]
    plan: Any = SimpleNamespace(steps=steps, answer=SimpleNamespace(placeholders=["reserve"]))
    table = next(_tables(plan))
    (row,) = table.rows
    assert dict(zip(table.columns[1:5], row[1:5], strict=True)) == {
        "PREEMPTED": 1,
        "PENDING": 4,
        "PLACEHOLDERS": 2,
        "PLACEHOLDERS PENDING": 2,
    }


def test_another_order_is_named_if_its_numbers_differ() -> None:
    def warnings(preempted: int) -> list[str]:
        other = OtherOrder(never_first=True, preempted=preempted, unfinished=[])
        plan: Any = SimpleNamespace(
            steps=[], alternative=other, preempted=3, keep_priority=[], preempted_before=0, not_modelled=[], affected=[]
        )
        return [*_side_effect_sentences(plan)]

    assert warnings(3) == []
    assert warnings(4) == ["if new classes get preemptionPolicy Never first, the steps preempt 4 Pods"]


def test_quotas_far_from_their_limits_are_one_line() -> None:
    def usage(name: str, pods: int) -> Any:
        return SimpleNamespace(
            namespace="a", name=name, hard={"pods": parse_quantity("10")}, used={"pods": parse_quantity(f"{pods}")}
        )

    changes = [(usage("far", 1), usage("far", 2)), (usage("full", 7), usage("full", 8))]
    simulation: Any = SimpleNamespace(api=SimpleNamespace(quotas=SimpleNamespace(changes=lambda: changes)))
    (table,) = quota_tables(simulation, least=0.8)
    assert table.rows == [["a/full", "pods", "7", "8", "10"], ["1 below 80 % of the limit: -v", "", "", "", ""]]


def test_the_effect_on_a_lost_zone_is_that_of_a_cluster_with_the_classes(tmp_path: Path) -> None:
    def cluster(path: Path, web_class: str, web: int, job_class: str, job: int) -> Path:
        urgent, plain = _workload("StatefulSet", "urgent", "high"), _workload("Deployment", "plain", web_class)
        batch = _workload("StatefulSet", "db", job_class)
        return _file(
            path,
            *(urgent, plain, batch, make_priority_class(20_000, "high")),
            *(make_priority_class(value, name) for name, value in (("standard", 10_000), ("stateful", 100_000)) if web),
            _pod(urgent, "urgent-0", "a-1", 20_000, "high"),
            _pod(plain, "plain-1", "b-1", web, web_class),
            _pod(batch, "db-0", "b-1", job, job_class),
        )

    before = cluster(tmp_path / "before.json", "", 0, "", 0)
    after = cluster(tmp_path / "after.json", "standard", 10_000, "high", 20_000)
    document = _answer("--cluster", before)
    assert _given(document)["StatefulSet shop/db"] == ("high", 20_000, False)
    for path, when in ((before, "now"), (after, "then")):
        sweep = json.loads(forewarn("whatif", "lose", "--each", "zone", "--cluster", path, "-o", "json").stdout)
        for case in sweep["cases"]:
            (zone,) = [each for each in document["zones"] if f"zone {each['zone']}" == case["case"]]
            assert zone[when] == case["counters"]
    assert [zone["now"]["preempted"] for zone in document["zones"]] == [1, 0]
    assert [(zone["harmed"], zone["harmedThen"]) for zone in document["zones"]] == [(1, 1), (1, 1)]


def test_a_cluster_without_nodes_and_an_unknown_format_are_errors(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(cluster_text([make_pod("a")]))
    done = forewarn("classes", "suggest", "--cluster", tmp_path / "c.json")
    assert (done.returncode, done.stdout) == (3, "")
    done = forewarn("classes", "suggest", "--cluster", _file(tmp_path / "d.json"), "-o", "sarif")
    assert (done.returncode, done.stdout) == (2, "")
    done = forewarn("classes", "suggest", "-o", "text", "-o", "yaml=classes.yaml")
    assert "-o yaml: a run writes one format. Fix: pass -o once, such as -o yaml=FILE" in done.stderr


def test_a_suggestion_shows_what_a_loss_changes_and_which_classes_lose_more() -> None:
    def loss(zone: str, *counts: tuple[int, int, int, int], **fields: Any) -> ZoneLoss:
        names = "preempted", "pending", "lost", "jobs_failed"
        now, then = (Effects(**dict(zip(names, each, strict=True))) for each in counts)
        return ZoneLoss(zone, now, then, **fields)

    b = loss("b", (3, 2, 4, 2), (1, 3, 5, 2), lost_of=["batch 3 → 4"])
    a = loss("a", (3, 2, 0, 0), (4, 2, 0, 0), harmed=2, harmed_then=1)
    zones = [b, a, loss("c", (3, 2, 0, 1), (2, 2, 0, 3))]
    head: Any = None
    document = Suggestion(head, [], zones, 0, [], 7, [], ["note"], " --cluster c.json").document
    assert document.tables[0].rows[:2] == [
        ["b", "3 → 1", "2 → 3", "4 → 5", 2, 0, "batch 3 → 4"],
        ["a", "3 → 4", 2, 0, 0, "2 → 1", ""],
    ]
    assert document.fix == [
        Fix(
            "forewarn classes suggest --cluster c.json -o yaml=classes.yaml; forewarn classes plan --cluster c.json"
            " -f classes.yaml; then kubectl apply --server-side in the steps of the plan",
            "zone b lost: preempted 3 → 1, but Pending 2 → 3, lost 4 → 5; 7 Pods restart",
        )
    ]
    more_pending = [loss("c", (3, 2, 0, 0), (2, 5, 0, 0))]
    assert not Suggestion(head, [], more_pending, 0, [], 7, [], []).document.fix


def test_classes_that_lose_more_or_fewer_by_the_class_that_a_workload_gets() -> None:
    now = _lost({"a/web": ("", 2), "a/job": ("batch", 3), "a/db": ("high", 5)})
    then = _lost({"a/web": ("prod", 1), "a/job": ("batch", 4), "a/cache": ("", 3)})
    assert moved_losses(now, then) == ["(no class) 0 → 3", "batch 3 → 4", "prod 2 → 1", "high 5 → 0"]
    assert moved_losses(now, now) == []


def _lost(lost: dict[str, tuple[str, int]]) -> Row:
    return Row("zone a", Effects(), True, lost={name: WorkloadLoss(*each, ()) for name, each in lost.items()})


def test_workloads_with_only_the_global_default_are_listed(tmp_path: Path) -> None:
    silent, named = _workload("Deployment", "silent"), _workload("Deployment", "named", "low")
    low = make_priority_class(5, "low")
    low.obj["globalDefault"] = True
    pod = _pod(silent, "silent-1", "a-1", 5, "low")
    document = _answer("--cluster", _file(tmp_path / "c.json", silent, named, low, pod))
    assert document["defaulted"] == [{"workload": "Deployment shop/silent", "class": "low", "pods": 1}]
    assert document["clause"] == "all workloads have one, 1 only the global default"


def test_only_pods_that_a_rollout_replaces_restart(tmp_path: Path) -> None:
    kept = _workload("StatefulSet", "kept").spec(updateStrategy={"type": "OnDelete"})
    web = _workload("StatefulSet", "web")
    cluster = _file(tmp_path / "c.json", kept, web, _pod(kept, "kept-0", "a-1"), _pod(web, "web-0", "b-1"))
    assert _answer("--cluster", cluster)["restarted"] == 1
