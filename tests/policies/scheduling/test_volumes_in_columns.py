"""Pods with claims and disks in columns: the same answers as plugin by plugin."""

import os
import random
from collections import Counter
from typing import Any

import pytest

from forewarn import policies
from forewarn.policies.kubernetes.releases.semantics import DEFAULT, Semantics
from forewarn.policies.kubernetes.scheduling.bulk import capacity_for, on_each_node
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from tests.builders import Made, MadePod, cluster, make_claim, make_node, make_pod, make_storage_class, make_volume
from tests.cases import cases
from tests.policies.scheduling import test_fast_cycle, test_vectorized, test_whole_answer
from tests.policies.scheduling.comparing import outcome_in_columns
from tests.policies.scheduling.consistency import check
from tests.policies.scheduling.profiles import args, config, point, random_config, semantics
from tests.policies.scheduling.random_changes import objects_of
from tests.policies.scheduling.random_clusters import random_case

SEED = os.environ.get("FOREWARN_SEED", "1")
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
DRIVER, TELLS = "csi.example.com", "capacity.example.com"
CLAIMS = [f"c{number}" for number in range(7)]
LEAST = {"minCandidateNodesPercentage": 40, "minCandidateNodesAbsolute": 1}
FILTERS = (
    "NodeAffinity",
    "TaintToleration",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
)
MODES = ("ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod")
SIZES = ("1Gi", "3Gi", "5Gi")


def terms(*requirements: list[dict[str, Any]]) -> dict[str, Any]:
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": found} for found in requirements]}}


def one(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


class Storage:
    """A random cluster whose pods have volumes of every sort."""

    def __init__(self, seed: str) -> None:
        self.rng = rng = random.Random(f"{SEED} {seed}")
        self.nodes = [f"n{number}" for number in range(rng.randint(2, 8))]
        self.made: list[Made] = [*map(self.node, self.nodes), *self.classes()]
        for number in range(rng.randint(0, 8)):
            self.made.append(self.volume(f"free{number}", rng.choice(("late", "local", "local", "tells"))))
        for name in CLAIMS:
            self.made += [*self.claim(name), *(self.claim(name, "other") if rng.random() < 0.3 else ())]
        for node in self.nodes:
            self.made += [self.pod(f"{node}-{n}").on(node, started=n) for n in range(rng.randint(1, 5))]
            if rng.random() < 0.6:
                self.made.append(self.csi_node(node))
        if rng.random() < 0.3:
            self.made.append(self.pod("nominated").priority(rng.randint(0, 9)).nominated(rng.choice(self.nodes)))
        if rng.random() < 0.5:
            self.made += [self.attachment(number) for number in range(3)]
        cpu = rng.choice(("1", "3", "4"))
        self.asked = self.pod("asked", 0.9).priority(rng.choice((4, 6, 9))).request(cpu=cpu)
        if rng.random() < 0.04:
            self.asked.status(nominatedNodeName=rng.choice(self.nodes))

    def attachment(self, number: int) -> Made:
        volumes = [made.obj["metadata"]["name"] for made in self.made if made.obj["kind"] == "PersistentVolume"]
        source = {"persistentVolumeName": self.rng.choice(volumes)}
        made = Made("storage.k8s.io/v1", "VolumeAttachment", f"a{number}")
        return made.spec(attacher=DRIVER, nodeName=self.rng.choice(self.nodes), source=source)

    def node(self, name: str) -> Made:
        made = make_node(name).label("rank", self.rng.choice(("1", "2", "x")))
        key = self.rng.choices((ZONE, BETA_ZONE, ""), (80, 10, 10))[0]
        return made.label(key, self.rng.choice("abc")) if key else made

    def classes(self) -> list[Made]:
        late, tells = make_storage_class("late"), make_storage_class("tells", provisioner=TELLS)
        if self.rng.random() < 0.4:
            zones = [{"key": ZONE, "values": self.rng.sample("abc", 2)}]
            hosts = [{"key": HOST, "values": self.nodes[:2]}, {"key": "rank", "values": ["1", "2"]}]
            late.obj["allowedTopologies"] = [
                {"matchLabelExpressions": found} for found in self.rng.choice(([zones], [hosts], [zones, hosts]))
            ]
        found: list[Made] = [late, tells, make_storage_class("local", provisioner="kubernetes.io/no-provisioner")]
        found.append(Made("storage.k8s.io/v1", "CSIDriver", TELLS).spec(storageCapacity=True))
        if self.rng.random() < 0.3:
            found.append(Made("storage.k8s.io/v1", "CSIDriver", DRIVER).spec(preventPodSchedulingIfMissing=True))
        for number in range(self.rng.randint(0, 4)):
            made = Made("storage.k8s.io/v1", "CSIStorageCapacity", f"s{number}", "default")
            made.obj.update(storageClassName="tells", capacity=self.rng.choice(("2Gi", "8Gi")))
            selector = {"matchLabels": {ZONE: self.rng.choice("abc")}}
            if self.rng.random() < 0.3:
                selector = {"matchExpressions": [one("rank", "NotIn", "1"), one(HOST, "In", *self.nodes[:2])]}  # type: ignore[dict-item]
            made.obj["nodeTopology"] = selector if self.rng.random() < 0.9 else {}
            found.append(made)
        return found

    def affinity(self) -> dict[str, Any]:
        rng = self.rng
        zone = one(ZONE, "In", *rng.sample("abc", rng.randint(1, 2)))
        host = one(HOST, "In", rng.choice(self.nodes))
        rank = one("rank", *rng.choice((("Gt", "1"), ("Lt", "2"), ("NotIn", "x"), ("Exists",), ("DoesNotExist",))))
        absent = one("absent", *rng.choice((("NotIn", "x"), ("In", "x"), ("DoesNotExist",))))
        return rng.choice((terms([zone]), terms([host]), terms([host]), terms([zone, rank]), terms([host], [absent])))

    def volume(self, name: str, storage_class: str, **spec: Any) -> Made:
        rng = self.rng
        made = make_volume(name, storageClassName=storage_class, accessModes=list(MODES), **spec)
        made.spec(capacity={"storage": rng.choice(SIZES)})
        if rng.random() < (0.9 if storage_class == "local" else 0.6):
            made.spec(nodeAffinity=self.affinity())
        if rng.random() < 0.3:
            made.label(rng.choice((ZONE, BETA_ZONE)), rng.choice(("a", "b", "a__c")))
        return made

    def claim(self, name: str, namespace: str = "default") -> list[Made]:
        rng = self.rng
        requests = {"requests": {"storage": rng.choice(SIZES)}}
        made = make_claim(name, "", namespace, resources=requests).spec(accessModes=[rng.choice(MODES)])
        made.spec(storageClassName=rng.choice(("late", "late", "local", "tells")))
        if rng.random() < 0.5:
            if rng.random() < 0.1:
                made.metadata(annotations={"volume.kubernetes.io/selected-node": rng.choice(self.nodes)})
            meant = {"namespace": namespace, "name": name}
            storage_class = made.obj["spec"]["storageClassName"]
            some = [self.volume(f"meant-{name}-{namespace}", storage_class, claimRef=meant)]
            return [made, *(some if rng.random() < 0.2 else ())]
        volume = f"pv-{name}-{namespace}"
        made.spec(volumeName=volume).metadata(annotations={"pv.kubernetes.io/bind-completed": "yes"})
        sources: tuple[dict[str, Any], ...] = (
            {"csi": {"driver": DRIVER, "volumeHandle": name}},
            {"csi": {"driver": DRIVER, "volumeHandle": name}},
            {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}},
            {"portworxVolume": {"volumeID": name}},
        )
        source = sources[rng.choices(range(4), (50, 20, 28, 2))[0]]
        return [made, *([self.volume(volume, "late", **source)] if rng.random() < 0.97 else ())]

    def csi_node(self, name: str) -> Made:
        rng = self.rng
        drivers: list[dict[str, Any]] = []
        for driver in (DRIVER, "ebs.csi.aws.com", TELLS):
            if rng.random() < 0.8:
                drivers.append({"name": driver})
                if rng.random() < 0.7:
                    drivers[-1]["allocatable"] = {"count": rng.choice((0, 1, 2, 3, 8, 25))}
        annotations = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
        made = Made("storage.k8s.io/v1", "CSINode", name).spec(drivers=drivers)
        return made.metadata(annotations=annotations) if rng.random() < 0.5 else made

    def pod(self, name: str, share: float = 0.5) -> MadePod:
        rng = self.rng
        made = make_pod(name, "default" if share > 0.5 or rng.random() < 0.9 else "other")
        made.priority(rng.randint(0, 6)).request(cpu=rng.choice(("500m", "1", "2")))
        if rng.random() < share:
            for claim in rng.sample(CLAIMS, rng.choice((1, 1, 2, 3))):
                made.claim(claim)
        if rng.random() < 0.08:
            made.volume(gcePersistentDisk={"pdName": rng.choice("de"), "readOnly": rng.random() < 0.5})
        return made

    def snapshot(self, meant: Semantics = DEFAULT) -> policies.ClusterSnapshot:
        cache = policies.Cache(semantics=meant)
        for made in self.made:
            cache.add(made.obj)
        return cache.snapshot()


@pytest.mark.parametrize("minor", [34, 36, 37])
def test_random_clusters_get_the_answer_of_the_walk(minor: int) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(cases(100)):
        storage = Storage(f"{minor}.{number}")
        snapshot = storage.snapshot(Semantics(minor))
        outcomes[test_vectorized.compare(snapshot, storage.asked.obj, number)] += 1
        if number % 20 == 0:
            check(snapshot.scheduling)
    assert min(outcomes["fits"], outcomes["preempts"], outcomes["pending"]) > cases(7), outcomes
    assert outcomes["walked"] < cases(32), outcomes


def test_storage_is_scored_as_in_the_walk() -> None:
    """Since 1.37, by what Filter has found for each node."""
    scored: Counter[bool] = Counter()
    for number in range(cases(200)):
        storage = Storage(f"scores {number}")
        snapshot, asked = storage.snapshot(Semantics(37)), storage.asked.request(cpu="100m").obj
        prediction = policies.predict(snapshot, asked)
        if prediction.fits and not prediction.without_columns:
            walked = test_vectorized.walked(snapshot, asked)
            assert prediction.scores == walked.scores, number
            scored[any(row.get("VolumeBinding") for row in walked.scores.values())] += 1
    assert scored[True] > 3, scored


@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_follows_changes(seed: int) -> None:
    storage = Storage(f"changes {seed}")
    rng, cache = storage.rng, policies.Cache()
    for made in storage.made:
        cache.add(made.obj)
    outcomes: Counter[str] = Counter()
    for number in range(80):
        node = rng.choice(storage.nodes)
        changed = rng.choice(
            (
                [storage.pod(f"{node}-{rng.randrange(6)}").on(node)],
                [storage.pod(f"{node}-{rng.randrange(6)}").on(node)],
                storage.claim(rng.choice(CLAIMS)),
                [storage.volume(f"free{rng.randrange(9)}", rng.choice(("late", "local")))],
                storage.classes(),
                [storage.csi_node(node)],
                [storage.attachment(rng.randrange(3))],
                [storage.node(node)],
            )
        )
        for made in changed:
            if rng.random() < 0.2 and made.obj["kind"] not in ("Node", "StorageClass"):
                cache.remove(made.obj)
            else:
                cache.add(made.obj)
        snapshot, asked = cache.snapshot(), storage.pod("asked", 0.9).priority(6).request(cpu="3")
        outcomes[test_vectorized.compare(snapshot, asked.obj, number)] += 1
        check(snapshot.scheduling)
    assert outcomes["walked"] < 50, outcomes


@pytest.mark.parametrize("minor", [34, 36, 37])
def test_random_clusters_get_the_whole_answer_of_the_walk(minor: int) -> None:
    told: Counter[bool] = Counter()
    for number in range(cases(75)):
        storage = Storage(f"whole {minor}.{number}")
        told[test_whole_answer.same(storage.snapshot(Semantics(minor)), storage.asked.obj, number)] += 1
    assert told[True] > cases(40), told


def in_order(rng: random.Random) -> dict[str, Any]:
    """Filters in another order, and a search for victims that ends early."""
    filters = point(*rng.sample(FILTERS, 4))
    return config({"plugins": {"filter": filters}, "pluginConfig": args(DefaultPreemption=LEAST)})


@pytest.mark.parametrize("made", [random_config, in_order], ids=["random", "order"])
def test_random_profiles_get_the_answer_of_the_walk(made: Any) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(cases(100)):
        storage = Storage(f"profile {number}")
        snapshot = storage.snapshot(semantics(made(random.Random(f"{SEED} {number}"))))
        outcomes[test_vectorized.compare(snapshot, storage.asked.obj, number)] += 1
    assert min(outcomes["fits"], outcomes["preempts"], outcomes["pending"]) > 3, outcomes


def test_the_search_for_victims_ends_as_early_as_in_the_walk() -> None:
    """By how many nodes preemption looks at: those too that are full, and out of the question for their volumes."""
    few = semantics(config({"pluginConfig": args(DefaultPreemption=LEAST)}))
    sampled: Counter[bool] = Counter()
    for number in range(cases(200)):
        storage = Storage(f"search {number}")
        meant = few if number % 2 else semantics(in_order(random.Random(f"{SEED} {number}")))
        snapshot, asked = storage.snapshot(meant), storage.asked.obj
        prediction = policies.predict(snapshot, asked)
        if prediction.outcome == "preempts" and not prediction.without_columns:
            walked = test_vectorized.walked(snapshot, asked)
            assert prediction._decision.is_sampled == walked._decision.is_sampled, number
            sampled[walked._decision.is_sampled] += 1
    assert min(sampled[True], sampled[False]) > cases(10), sampled


@pytest.mark.parametrize("feature", ["storage", "disks"])
def test_random_clusters_of_all_sorts(feature: str) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(cases(100)):
        case = random_case(f"{feature} {SEED}.{number}", feature)
        cache = policies.Cache()
        for obj in objects_of(case):
            cache.add(obj)
        outcomes[test_vectorized.compare(cache.snapshot(), case["pod"], case["id"])] += 1
    assert outcomes["preempts"] > cases(18), outcomes
    assert outcomes["walked"] < cases(40), outcomes


@pytest.mark.parametrize("minor", [36, 37])
def test_cycles_score_and_reject_as_plugin_by_plugin(minor: int) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(cases(200)):
        storage = Storage(f"cycle {minor}.{number}")
        snapshot = storage.snapshot(Semantics(minor))
        outcomes[test_fast_cycle.compare(snapshot, storage.asked.obj, number)] += 1
    assert outcomes["scored"] > (cases(5) if minor == 36 else 0), outcomes  # 1.37 scores storage too, by the plugin
    assert outcomes["rejected"] > cases(2), outcomes


def owned(name: str, uid: str) -> Made:
    """The claim of an ephemeral volume, made for the pod of this uid."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    return make_claim(name, storageClassName="late").metadata(ownerReferences=[owner])


WITH_LIMIT = Made("storage.k8s.io/v1", "CSINode", "n1").spec(drivers=[{"name": DRIVER, "allocatable": {"count": 9}}])
EPHEMERAL: dict[str, Any] = {"volumeClaimTemplate": {"spec": {}}}


@pytest.mark.parametrize(
    ("beside", "told"),
    [
        ([make_pod("p").metadata(uid="u").volume(ephemeral=EPHEMERAL).on("n1"), owned("p-v0", "u")], True),
        ([make_pod("p").metadata(uid="u").volume(ephemeral=EPHEMERAL).on("n1")], True),
        ([make_pod("p").metadata(uid="u").volume(ephemeral=EPHEMERAL).on("n1"), owned("p-v0", "other")], False),
        ([make_pod("p").metadata(uid="u").volume(ephemeral=EPHEMERAL).on("n2"), owned("p-v0", "other")], True),
        ([make_pod("p").priority(9).volume(ephemeral=EPHEMERAL).nominated("n1"), owned("p-v0", "other")], False),
        ([make_pod("p").volume(awsElasticBlockStore={"volumeID": "aws://zone/x"}).on("n1")], False),
        ([make_pod("p").volume(persistentVolumeClaim={"claimName": ""}).on("n1")], False),
        ([make_pod("p").volume(persistentVolumeClaim={"claimName": "gone"}).on("n1")], True),
    ],
)
def test_errors_about_volumes_of_other_pods_are_left_to_the_walk(beside: list[Made], told: bool) -> None:
    claim = make_claim("c", storageClassName="late")
    nodes = (make_node("n1"), make_node("n2"), WITH_LIMIT, make_storage_class("late"), claim)
    found = cluster(*nodes, *beside)
    asked = make_pod("asked").claim("c").priority(5).obj
    prediction = policies.predict(found, asked)
    assert (outcome_in_columns(found.scheduling, prediction.pod) is not None) == told
    walked = test_vectorized.walked(found, asked)
    assert test_vectorized.said(prediction) == test_vectorized.said(walked)
    assert walked.rejection.error == "" or not told


def test_who_must_go_for_room_on_a_driver_is_left_to_the_walk() -> None:
    """Where something is attached no longer than its pod. Where a node fits nobody asks."""
    full = Made("storage.k8s.io/v1", "CSINode", "n1").spec(drivers=[{"name": DRIVER, "allocatable": {"count": 1}}])
    csi = {"driver": DRIVER, "volumeHandle": "held"}
    there = (make_node("n1"), full, make_storage_class("late"), make_claim("c", storageClassName="late"))
    held = make_pod("p").claim("held").on("n1"), make_claim("held", "v"), make_volume("v", csi=csi)
    asked = make_pod("asked").claim("c").priority(5).obj
    for other, told in ((), False), ((make_node("n2"),), True):
        found = cluster(*there, *held, *other)
        prediction = policies.predict(found, asked)
        assert (outcome_in_columns(found.scheduling, prediction.pod) is not None) == told
        assert ("NodeVolumeLimits" in prediction.without_columns) != told
        assert prediction.outcome == ("fits" if told else "preempts")
        assert test_vectorized.said(prediction) == test_vectorized.said(test_vectorized.walked(found, asked))


def test_room_for_many_pods_with_a_claim_is_left_to_one_after_the_other() -> None:
    """The first takes the only volume."""
    local = make_storage_class("local", provisioner="kubernetes.io/no-provisioner")
    made = make_claim("c", storageClassName="local"), make_volume("v", storageClassName="local"), local
    found = cluster(make_node("n1"), *made)
    pod = policies.predict(found, make_pod("asked").claim("c").obj).pod
    assert outcome_in_columns(found.scheduling, pod) is not None
    assert capacity_for(found.scheduling, pod) is None
    assert on_each_node(found.scheduling, pod, ["n1"]) is None


def with_limit(node: str, count: int) -> Made:
    driver = {"name": DRIVER, "allocatable": {"count": count}}
    return Made("storage.k8s.io/v1", "CSINode", node).spec(drivers=[driver])


def answers_alike(found: policies.ClusterSnapshot, asked: Made, *, told: bool = True) -> Prediction:
    """What columns tell, where they do, and the walk does in any case."""
    prediction = policies.predict(found, asked.obj)
    assert (outcome_in_columns(found.scheduling, prediction.pod) is not None) == told
    assert test_vectorized.said(prediction) == test_vectorized.said(test_vectorized.walked(found, asked.obj))
    return prediction


@pytest.mark.parametrize(("limit", "sampled"), [(0, False), (None, True)])
def test_nodes_at_their_limit_count_in_how_far_the_search_goes(limit: int | None, sampled: bool) -> None:
    """Of five nodes that preemption looks at it ends after two; of two after one."""
    cache = cache_of(semantics(config({"pluginConfig": args(DefaultPreemption=LEAST)})))
    for number in range(5):
        near = number < 2
        node = make_node(f"n{number}").has(cpu="1")
        cache.add((node if near or limit is not None else node.taint("away")).obj)
        if near:
            cache.add(make_pod(f"p{number}").request(cpu="1").on(f"n{number}").obj)
        elif limit is not None:
            cache.add(with_limit(f"n{number}", limit).obj)
    for made in (make_storage_class("late"), make_claim("c", storageClassName="late")):
        cache.add(made.obj)
    asked = make_pod("asked").claim("c").priority(5).request(cpu="1")
    assert answers_alike(cache.snapshot(), asked)._decision.is_sampled == sampled


def cache_of(meant: Semantics = DEFAULT, *made: Made) -> policies.Cache:
    cache = policies.Cache(semantics=meant)
    for one_of_them in made:
        cache.add(one_of_them.obj)
    return cache


def test_what_nominated_pods_attach_counts_before_they_are_there() -> None:
    held = make_pod("p").claim("a").on("n1"), make_pod("q").claim("b").priority(9).nominated("n1")
    claims = [make_claim(name, storageClassName="late") for name in "abc"]
    found = cluster(make_node("n1"), make_node("n2"), with_limit("n1", 2), make_storage_class("late"), *held, *claims)
    assert answers_alike(found, make_pod("asked").claim("c"), told=False).feasible == ["n2"]


def test_a_node_gets_the_label_that_a_volume_asks_for() -> None:
    local = make_storage_class("local", provisioner="kubernetes.io/no-provisioner")
    volume = make_volume("v", storageClassName="local", accessModes=["ReadWriteOnce"])
    volume.spec(nodeAffinity=terms([one("rank", "In", "1", "2")]))
    claim = make_claim("c", storageClassName="local")
    cache = cache_of(
        DEFAULT, make_node("n1").label("rank", "1"), make_node("n2").label("rank", "x"), local, volume, claim
    )
    for rank, feasible in (("x", ["n1"]), ("2", ["n1", "n2"]), ("3", ["n1"])):
        cache.add(make_node("n2").label("rank", rank).obj)
        assert answers_alike(cache.snapshot(), make_pod("asked").claim("c")).feasible == feasible


@pytest.mark.parametrize(("room", "feasible"), [("1Gi", ["n1"]), ("1023Mi", [])])
def test_storage_that_is_just_enough_is_enough(room: str, feasible: list[str]) -> None:
    tells = Made("storage.k8s.io/v1", "CSIDriver", TELLS).spec(storageCapacity=True)
    capacity = Made("storage.k8s.io/v1", "CSIStorageCapacity", "s", "default")
    capacity.obj.update(storageClassName="tells", capacity=room, nodeTopology={})
    claim = make_claim("c", storageClassName="tells", resources={"requests": {"storage": "1Gi"}})
    found = cluster(make_node("n1"), tells, capacity, make_storage_class("tells", provisioner=TELLS), claim)
    assert answers_alike(found, make_pod("asked").claim("c")).feasible == feasible


def test_of_two_volumes_that_are_meant_for_a_claim_the_first_decides() -> None:
    local = make_storage_class("local", provisioner="kubernetes.io/no-provisioner")
    spec: dict[str, Any] = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"]}
    meant = {**spec, "claimRef": {"namespace": "default", "name": "c"}}
    volumes = [make_volume(f"v{n}", **meant, nodeAffinity=terms([one(HOST, "In", f"n{n}")])) for n in (1, 2)]
    claims = [make_claim(name, storageClassName="local") for name in "cd"]
    found = cluster(make_node("n1"), make_node("n2"), local, *volumes, make_volume("free", **spec), *claims)
    assert answers_alike(found, make_pod("asked").claim("c").claim("d")).feasible == ["n1"]
