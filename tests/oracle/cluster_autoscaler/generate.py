"""Make random cases of cluster-autoscaler: generate.py SEED COUNT [scale-down]; one JSON line each."""

from __future__ import annotations

import json
import sys
from random import Random
from typing import Any

ZONES = ["z1", "z2", "z3"]
TYPES = {"m1x2": (1, 2), "m2x4": (2, 4), "m4x8": (4, 8), "m4x16": (4, 16), "m8x16": (8, 16), "m8x32": (8, 32)}
POOLS = ["general", "batch", "db"]
TIME = "2026-01-01T00:00:00Z"
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
TAINTS: list[Any] = [
    {"key": "dedicated", "value": "x", "effect": "NoSchedule"},
    {"key": "maintenance", "value": "yes", "effect": "NoExecute"},
    {"key": "soft", "value": "x", "effect": "PreferNoSchedule"},
    {"key": "startup-taint.cluster-autoscaler.kubernetes.io/agent", "effect": "NoSchedule"},
    {"key": "status-taint.cluster-autoscaler.kubernetes.io/x", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"},
]


class World:
    """One case, made with one random source."""

    def __init__(self, seed: str) -> None:
        self.dice, self.uids = Random(seed), 0
        self.case: dict[str, Any] = {
            key: [] for key in ("nodes", "pods", "pending", "daemonsets", "groups", "pvcs", "pvs")
        }
        self.case["id"] = seed

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def metadata(self, name: str, **more: Any) -> dict[str, Any]:
        self.uids += 1
        return {"name": name, "uid": f"00000000-0000-4000-8000-{self.uids:012}", "creationTimestamp": TIME, **more}

    def node(self, name: str, like: dict[str, Any]) -> dict[str, Any]:
        labels = {**like["labels"], "kubernetes.io/hostname": name}
        status = {"capacity": like["capacity"], "allocatable": like["allocatable"], "conditions": [ready(True)]}
        made = {"apiVersion": "v1", "kind": "Node", "metadata": self.metadata(name, labels=labels), "spec": {}}
        if like["taints"]:
            made["spec"] = {"taints": [*like["taints"]]}
        return {**made, "status": status}

    def shape(self) -> dict[str, Any]:
        kind = self.dice.choice([*TYPES])
        cpu, memory = TYPES[kind]
        labels = {"topology.kubernetes.io/zone": self.dice.choice(ZONES), "node.kubernetes.io/instance-type": kind}
        if self.chance(0.6):
            labels["pool"] = self.dice.choice(POOLS)
        pods, extra = self.dice.choice(["8", "30", "110", "110"]), {}
        if self.chance(0.1):
            extra = {"example.com/gpu": str(self.dice.choice([1, 2, 8]))}
        capacity = {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": pods, "ephemeral-storage": "100Gi", **extra}
        allocatable = {**capacity, "cpu": f"{cpu * 1000 - 80}m", "memory": f"{memory * 1024 - 256}Mi"}
        taints = [self.dice.choice(TAINTS)] if self.chance(0.2) else []
        return {"labels": labels, "capacity": capacity, "allocatable": allocatable, "taints": taints}

    def similar(self, shape: dict[str, Any]) -> dict[str, Any]:
        """A shape for a similar group: another zone, perhaps slightly other amounts."""
        labels = {**shape["labels"], "topology.kubernetes.io/zone": self.dice.choice(ZONES)}
        made = {**shape, "labels": labels, "capacity": {**shape["capacity"]}, "allocatable": {**shape["allocatable"]}}
        if self.chance(0.3):
            memory = int(shape["capacity"]["memory"][:-2]) * 1024
            made["capacity"]["memory"] = f"{memory - int(memory * self.dice.choice([0.005, 0.014, 0.016, 0.03]))}Mi"
        if self.chance(0.2):
            cpu = int(shape["allocatable"]["cpu"][:-1])
            made["allocatable"]["cpu"] = f"{int(cpu * self.dice.choice([0.97, 0.951, 0.949, 0.9]))}m"
        return made

    def groups(self) -> None:
        last: dict[str, Any] | None = None
        for index in range(self.dice.randint(1, 5)):
            shape = self.similar(last) if last and self.chance(0.5) else self.shape()
            last = shape
            number, name = self.dice.choice([0, 1, 1, 2, 3]), f"g{index}"
            members = []
            for _ in range(number):
                member = self.node(f"n{len(self.case['nodes']):02}", shape)
                self.worsen(member)
                self.case["nodes"].append(member)
                members.append(member["metadata"]["name"])
            size = number + (self.dice.randint(1, 2) if self.chance(0.12) else 0)
            most = max(size, self.dice.choice([size, size + 1, size + 2, size + 4, 12, 30]))
            self.case["groups"].append(
                {
                    "name": name,
                    "minSize": self.dice.choice([0, min(1, size)]),
                    "maxSize": most,
                    "size": size,
                    "nodes": members,
                    "template": self.node(f"template-{name}", shape),
                }
            )
        if not self.case["nodes"] or self.chance(0.2):
            self.case["nodes"].append(self.node(f"n{len(self.case['nodes']):02}", self.shape()))

    def worsen(self, node: dict[str, Any]) -> None:
        if self.chance(0.04):
            node["status"]["conditions"] = [ready(False)]
            node["spec"].setdefault("taints", []).append(NOT_READY)
        elif self.chance(0.04):
            node["spec"]["unschedulable"] = True
            taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
            node["spec"].setdefault("taints", []).append(taint)
        elif self.chance(0.03):
            node["spec"].setdefault("taints", []).append(self.dice.choice(TAINTS))

    def daemon_sets(self) -> None:
        for index in range(self.dice.choice([0, 1, 1, 2])):
            name = f"ds{index}"
            spec: dict[str, Any] = {
                "containers": [container(self.dice.choice([50, 100, 500]), self.dice.choice([32, 400]))]
            }
            if self.chance(0.5):
                spec["tolerations"] = [{"operator": "Exists"}]
            if self.chance(0.3):
                spec |= {"priorityClassName": "system-node-critical", "priority": 2000001000}
            if self.chance(0.2):
                spec["nodeSelector"] = {"pool": self.dice.choice(POOLS)}
            if self.chance(0.15):
                spec["containers"][0]["ports"] = [{"containerPort": 9100, "hostPort": 9100, "protocol": "TCP"}]
            template = {"metadata": {"labels": {"ds": name}}, "spec": spec}
            made = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": self.metadata(name, namespace="default")}
            self.case["daemonsets"].append(
                {**made, "spec": {"selector": {"matchLabels": {"ds": name}}, "template": template}}
            )
            for node in self.case["nodes"]:
                if self.chance(0.85):
                    self.bound(
                        f"{name}-{node['metadata']['name']}", node, {**spec}, {"ds": name}, self.case["daemonsets"][-1]
                    )

    def bound(self, name: str, node: dict[str, Any], spec: Any, labels: Any, owner: Any) -> None:
        metadata = self.metadata(name, namespace="default", labels=labels, ownerReferences=[controller(owner)])
        spec = {**spec, "nodeName": node["metadata"]["name"], "schedulerName": "default-scheduler"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
        if self.chance(0.02):
            metadata |= {"deletionTimestamp": TIME, "finalizers": ["example.com/x"]}
        self.case["pods"].append(pod)

    def placed(self) -> None:
        owners = [self.owner("ReplicaSet", f"rs-{app}") for app in ("a0", "a1", "placed")]
        for node in self.case["nodes"]:
            cpu = int(node["status"]["allocatable"]["cpu"][:-1]) - 600
            memory = int(node["status"]["allocatable"]["memory"][:-2]) - 900
            for _ in range(self.dice.choice([1, 2, 2, 3])):
                owner = self.dice.choice(owners)
                share = (
                    int(max(cpu, 10) * self.dice.uniform(0.2, 0.9)),
                    int(max(memory, 10) * self.dice.uniform(0.2, 0.9)),
                )
                cpu, memory = cpu - share[0], memory - share[1]
                spec = {"containers": [container(*share)], "priority": self.dice.choice([0, 0, 10, -5, -20])}
                name = f"placed{len(self.case['pods'])}"
                spec["tolerations"] = [{"operator": "Exists"}]
                self.bound(name, node, spec, {"app": owner["metadata"]["name"][3:]}, owner)

    def owner(self, kind: str, name: str) -> dict[str, Any]:
        version = {"Job": "batch/v1"}.get(kind, "apps/v1")
        return {"apiVersion": version, "kind": kind, "metadata": self.metadata(name)}

    def pending(self) -> None:
        for index in range(self.dice.randint(1, 4)):
            app = f"a{index}"
            spec = self.pending_spec(app)
            kind = self.dice.choice(["ReplicaSet"] * 6 + ["Job", "StatefulSet", "", "DaemonSet"])
            owner = self.owner(kind, f"own-{app}") if kind else None
            for number in range(self.dice.choice([1, 2, 3, 5, 8, 12])):
                labels, own = {"app": app}, json.loads(json.dumps(spec))
                if kind == "StatefulSet":
                    labels["apps.kubernetes.io/pod-index"] = str(number)
                references = {"ownerReferences": [controller(owner)]} if owner else {}
                metadata = self.metadata(f"{app}-{number}", namespace="default", labels=labels, **references)
                if kind == "DaemonSet":
                    field = {"key": "metadata.name", "operator": "In", "values": [self.a_node()]}
                    own.setdefault("affinity", {})["nodeAffinity"] = required([{"matchFields": [field]}])
                condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                status: dict[str, Any] = {"phase": "Pending", "conditions": [condition]}
                if self.chance(0.02):
                    status["nominatedNodeName"] = self.a_node()
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": own, "status": status}
                self.case["pending"].append(pod)

    def a_node(self) -> str:
        name: str = self.dice.choice(self.case["nodes"])["metadata"]["name"]
        return name

    def pending_spec(self, app: str) -> dict[str, Any]:
        cpu, memory = (
            self.dice.choice([50, 100, 250, 500, 700, 900, 1000, 2000, 3500]),
            self.dice.choice([64, 256, 1024, 4096]),
        )
        spec: dict[str, Any] = {"containers": [container(cpu, memory)], "schedulerName": "default-scheduler"}
        spec["priority"] = self.dice.choice([0, 0, 0, 10, 1000, 100000, -5, -15])
        if self.chance(0.1):
            spec["initContainers"] = [container(2000, 64) | {"name": "init"}]
        if self.chance(0.06):
            spec["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
        if self.chance(0.2):
            spec["nodeSelector"] = {"pool": self.dice.choice(POOLS)}
        if self.chance(0.06):
            spec["nodeSelector"] = {"topology.kubernetes.io/zone": self.dice.choice(ZONES)}
        if self.chance(0.3):
            spec["tolerations"] = [{"operator": "Exists"}]
        if self.chance(0.1):
            spec["containers"][0]["ports"] = [{"containerPort": 8080, "hostPort": 8080, "protocol": "TCP"}]
        self.place(app, spec)
        if self.chance(0.05):
            self.volume(app, spec)
        if self.chance(0.3):
            spec["preemptionPolicy"] = "Never"
        return spec

    def place(self, app: str, spec: dict[str, Any]) -> None:
        selector = {"matchLabels": {"app": app}}
        if self.chance(0.2):
            constraint = {
                "maxSkew": self.dice.choice([1, 1, 2]),
                "topologyKey": self.dice.choice(["kubernetes.io/hostname", "topology.kubernetes.io/zone"]),
                "whenUnsatisfiable": self.dice.choice(["DoNotSchedule"] * 4 + ["ScheduleAnyway"]),
                "labelSelector": selector,
            }
            if constraint["whenUnsatisfiable"] == "DoNotSchedule" and self.chance(0.2):
                constraint["minDomains"] = 2
            spec["topologySpreadConstraints"] = [constraint]
        elif self.chance(0.2):
            key = self.dice.choice(["kubernetes.io/hostname", "topology.kubernetes.io/zone"])
            kind = self.dice.choice(["podAntiAffinity"] * 4 + ["podAffinity"])
            if kind == "podAffinity" and self.chance(0.5):
                selector = {"matchLabels": {"app": "placed"}}
            spec["affinity"] = {kind: required_pods(key, selector)}
        elif self.chance(0.1):
            expression = {
                "key": "topology.kubernetes.io/zone",
                "operator": self.dice.choice(["In", "NotIn"]),
                "values": ["z1", "z3"],
            }
            spec["affinity"] = {"nodeAffinity": required([{"matchExpressions": [expression]}])}

    def volume(self, app: str, spec: dict[str, Any]) -> None:
        claim, volume = f"claim-{app}", f"pv-{app}"
        spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
        metadata = self.metadata(claim, namespace="default", annotations={"pv.kubernetes.io/bind-completed": "yes"})
        amount = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        self.case["pvcs"].append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata,
                "spec": {**amount, "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}},
                "status": {"phase": "Bound"},
            }
        )
        expression = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [self.dice.choice(ZONES)]}
        reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": claim, "uid": metadata["uid"]}
        more = {"capacity": {"storage": "1Gi"}, "nfs": {"server": "s", "path": "/a"}, "claimRef": reference}
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
        self.case["pvs"].append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": self.metadata(volume),
                "spec": {**amount, **more, "nodeAffinity": affinity},
                "status": {"phase": "Bound"},
            }
        )

    def priorities(self) -> str:
        """The text of the ConfigMap of the expander priority."""
        expressions = [".*", "g0", "^g[12]$", "g1|g3", "(g2)+", "nothing", "g\\d", "4$", "'('"]
        values = self.dice.sample([-5, 1, 10, 50], self.dice.choice([1, 2, 3]))
        lines = [(f"{value}:", *(f"- {self.dice.choice(expressions)}" for _ in range(2))) for value in values]
        return self.dice.choice(["\n".join(line for some in lines for line in some)] * 9 + ["", "- 1", "a: [b]"])

    def options(self) -> None:
        expanders = ["least-waste"] * 4 + [
            "most-pods",
            "least-nodes",
            "random",
            "most-pods,least-waste",
            "least-nodes,most-pods",
            "priority",
            "priority,least-waste",
            "least-nodes,priority",
        ]
        options: dict[str, Any] = {"expander": self.dice.choice(expanders), "balanceSimilar": self.chance(0.5)}
        if "priority" in options["expander"]:
            options["priorities"] = self.priorities()
        nodes = sum(group["size"] for group in self.case["groups"])
        if self.chance(0.2):
            options["maxNodesTotal"] = max(1, nodes + self.dice.choice([0, 1, 2, 5]))
        if self.chance(0.1):
            options["expendablePodsPriorityCutoff"] = self.dice.choice([0, 5, -1000])
        if self.chance(0.08):
            options["maxCoresTotal"] = self.dice.randint(4, 40)
        if self.chance(0.06):
            options["maxMemoryTotalGiB"] = self.dice.randint(8, 100)
        if self.chance(0.1):
            options["forceDaemonSets"] = True
        if self.chance(0.1):
            options["balancingIgnoredLabels"] = [self.dice.choice(["pool", "node.kubernetes.io/instance-type"])]
        self.case["options"] = options

    def made(self) -> dict[str, Any]:
        self.groups()
        self.daemon_sets()
        self.placed()
        self.pending()
        self.options()
        return self.case


NOW = 1_767_229_200
"""An hour and a minute after TIME."""
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"


class ScaleDownWorld(World):
    """A case of scale-down: a cluster with little use, and the times of scans."""

    def metadata(self, name: str, **more: Any) -> dict[str, Any]:
        made = super().metadata(name, **more)
        if self.chance(0.1):
            made["creationTimestamp"] = "2026-01-01T00:30:00Z"
        return made

    def worsen(self, node: dict[str, Any]) -> None:
        super().worsen(node)
        if self.chance(0.06):
            value = self.dice.choice(["true", "true", "false", ""])
            node["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": value}

    def sizes(self) -> None:
        for group in self.case["groups"]:
            group["size"], have = len(group["nodes"]), len(group["nodes"])
            group["minSize"] = self.dice.choice([0, 0, 0, min(1, have), max(have - 1, 0), have])
            group["maxSize"] = max(group["maxSize"], have)

    def more_nodes(self) -> None:
        """Groups of scale-up cases have few nodes."""
        for group in self.case["groups"]:
            like = group["template"]
            shape = {"labels": like["metadata"]["labels"], "capacity": like["status"]["capacity"]}
            shape |= {"allocatable": like["status"]["allocatable"], "taints": like["spec"].get("taints", [])}
            for _ in range(self.dice.choice([0, 1, 2, 4])):
                member = self.node(f"n{len(self.case['nodes']):02}", shape)
                self.worsen(member)
                self.case["nodes"].append(member)
                group["nodes"].append(member["metadata"]["name"])

    def controllers(self) -> list[dict[str, Any]]:
        kinds = {
            "ReplicaSet": ("apps/v1", "replicaSets"),
            "StatefulSet": ("apps/v1", "statefulSets"),
            "ReplicationController": ("v1", "replicationControllers"),
            "Job": ("batch/v1", "jobs"),
        }
        owners = []
        for index in range(self.dice.randint(2, 5)):
            kind = self.dice.choice(["ReplicaSet"] * 5 + [*kinds, "Rollout"])
            version, key = kinds.get(kind, ("argoproj.io/v1alpha1", ""))
            namespace = self.dice.choice(["default"] * 4 + ["kube-system"])
            labels, replicas = {"app": f"a{index}"}, self.dice.choice([1, 2, 3, 9])
            template: Any = {"metadata": {"labels": labels}, "spec": {"containers": [container(1, 1)]}}
            spec: dict[str, Any] = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
            if kind == "Job":
                template["spec"]["restartPolicy"] = "Never"
                spec = {"parallelism": replicas, "template": template}
            elif kind == "ReplicationController":
                spec["selector"] = labels
            metadata = self.metadata(f"own{index}", namespace=namespace)
            made = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
            owners.append(made)
            if key and self.chance(0.93):
                self.case[key].append(made)
            if self.chance(0.4):
                self.budget(namespace, labels)
        return owners

    def budget(self, namespace: str, labels: dict[str, str]) -> None:
        metadata = self.metadata(f"pdb{len(self.case['pdbs'])}", namespace=namespace)
        selector = self.dice.choice([{"matchLabels": labels}] * 4 + [{}, {"matchLabels": {"app": "nothing"}}])
        status = {"disruptionsAllowed": self.dice.choice([0, 1, 1, 2, 5]), "currentHealthy": 3, "desiredHealthy": 2}
        status |= {"expectedPods": 3, "observedGeneration": 1}
        spec = {"selector": selector, "minAvailable": 1}
        pdb = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
        self.case["pdbs"].append({**pdb, "status": status})

    def running(self) -> None:
        owners = self.controllers()
        specs = {id(owner): self.running_spec(f"a{index}") for index, owner in enumerate(owners)}
        for node in self.case["nodes"]:
            cpu = int(node["status"]["allocatable"]["cpu"][:-1]) * self.dice.choice([0, 0.1, 0.3, 0.3, 0.5, 0.5, 0.8])
            for _ in range(self.dice.choice([0, 1, 1, 2, 3])):
                if cpu < 20:
                    break
                owner = self.dice.choice(owners)
                amount = int(self.dice.uniform(10, cpu))
                cpu -= amount
                self.one(node, owner, specs[id(owner)], amount)

    def one(self, node: dict[str, Any], owner: dict[str, Any], spec: Any, amount: int) -> None:
        own, index = json.loads(json.dumps(spec)), len(self.case["pods"])
        own["containers"][0]["resources"]["requests"]["cpu"] = f"{amount}m"
        labels = {"app": f"a{owner['metadata']['name'][3:]}"}
        self.bound(f"run{index}", node, own, labels, owner)
        pod = self.case["pods"][-1]
        pod["metadata"]["namespace"] = owner["metadata"]["namespace"]
        for key in ("deletionTimestamp", "finalizers"):
            pod["metadata"].pop(key, None)
        annotations = {}
        if self.chance(0.12):
            annotations[SAFE] = self.dice.choice(["true", "true", "false", "on-completion", "maybe"])
        if self.chance(0.03):
            annotations["cluster-autoscaler.kubernetes.io/daemonset-pod"] = "true"
        if "volumes" in own and self.chance(0.3):
            annotations[f"{SAFE}-local-volumes"] = self.dice.choice(["local", "other", "other,local"])
        if annotations:
            pod["metadata"]["annotations"] = annotations
        if self.chance(0.04):
            del pod["metadata"]["ownerReferences"]
        elif self.chance(0.03):
            pod["metadata"].setdefault("annotations", {})["kubernetes.io/config.mirror"] = "x"
            static = {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"], "uid": "u"}
            pod["metadata"]["ownerReferences"] = [{**static, "controller": True}]

    def running_spec(self, app: str) -> dict[str, Any]:
        spec: dict[str, Any] = {"containers": [container(10, self.dice.choice([16, 64, 256, 1024]))]}
        spec["priority"] = self.dice.choice([0, 0, 0, 10, -5, -20])
        if self.chance(0.7):
            spec["tolerations"] = [{"operator": "Exists"}]
        if self.chance(0.08):
            spec["nodeSelector"] = {"pool": self.dice.choice(POOLS)}
        if self.chance(0.06):
            spec["containers"][0]["ports"] = [{"containerPort": 8080, "hostPort": 8080, "protocol": "TCP"}]
        if self.chance(0.06):
            spec["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
        self.place(app, spec)
        if self.chance(0.12):
            volumes: list[Any] = [{"emptyDir": {}}, {"emptyDir": {"medium": "Memory"}}, {"hostPath": {"path": "/"}}]
            spec["volumes"] = [{"name": "local", **self.dice.choice(volumes)}]
        elif self.chance(0.05):
            self.volume(app, spec)
        return spec

    def scale_down_options(self) -> None:
        given: dict[str, Any] = {}
        for share, key, values in (
            (0.3, "threshold", [0.2, 0.3, 0.7, 1]),
            (0.2, "unneededTime", [0, 60, 300]),
            (0.2, "unreadyTime", [0, 30, 600]),
            (0.2, "recheck", [0, 20, 60]),
            (0.2, "systemPodTimeout", [60, 3000, 7200]),
            (0.4, "maxParallel", [1, 2, 3]),
            (0.6, "maxDrains", [1, 2, 5]),
            (0.2, "minReplicas", [1, 2, 3]),
            (0.2, "ignoreDaemonSets", [True]),
            (0.2, "ignoreMirrorPods", [True]),
            (0.1, "noUnready", [True]),
            (0.1, "anySystemPods", [True]),
            (0.2, "anyLocalStorage", [True]),
            (0.2, "anyController", [True]),
        ):
            if self.chance(share):
                given[key] = self.dice.choice(values)
        self.case["scaleDown"] = given
        self.case["options"] = {"expendablePodsPriorityCutoff": self.dice.choice([-10, -10, -10, 0, -1000])}
        self.case["now"] = NOW
        self.case["scans"] = self.dice.choice(
            [[0, 10, 600, 610, 620], [0, 10, 20, 30, 60, 70], [0, 300, 310, 601, 611], [0, 10, 100, 1199, 1201, 1211]]
        )

    def made(self) -> dict[str, Any]:
        for key in ("pdbs", "replicaSets", "statefulSets", "replicationControllers", "jobs"):
            self.case[key] = []
        self.groups()
        self.more_nodes()
        self.sizes()
        self.daemon_sets()
        self.running()
        self.scale_down_options()
        for pod in self.case["pods"]:  # forewarn's terminate in time
            pod["metadata"].pop("deletionTimestamp", None)
        for node in self.case["nodes"]:  # which count as unready only if they are ready otherwise
            left = [taint for taint in node["spec"].get("taints", []) if not taint["key"].startswith("startup-taint")]
            node["spec"]["taints"] = left
        return self.case


def ready(is_ready: bool) -> dict[str, str]:
    return {"type": "Ready", "status": str(is_ready), "lastHeartbeatTime": TIME, "lastTransitionTime": TIME}


def container(cpu: int, memory: int) -> dict[str, Any]:
    return {"name": "c", "image": "img", "resources": {"requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}}}


def controller(owner: dict[str, Any]) -> dict[str, Any]:
    name, uid = owner["metadata"]["name"], owner["metadata"]["uid"]
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name, "uid": uid, "controller": True}


def required(terms: list[Any]) -> dict[str, Any]:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def required_pods(key: str, selector: dict[str, Any]) -> dict[str, Any]:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, "labelSelector": selector}]}


if __name__ == "__main__":
    for number in range(int(sys.argv[2])):
        world = ScaleDownWorld if "scale-down" in sys.argv else World
        print(json.dumps(world(f"{sys.argv[1]}-{number:05}").made(), separators=(",", ":")))
