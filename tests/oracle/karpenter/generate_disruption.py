"""Random cases for Karpenter's disruption controller: those of `generate.py` with mostly settled nodes and few Pods."""

from __future__ import annotations

from typing import Any

from tests.oracle.karpenter.generate import Case

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
SETTLED = ("karpenter.sh/registered", "karpenter.sh/initialized")
TRANSIENT = ("node.kubernetes.io/not-ready", "agent", "karpenter.sh/unregistered")
TIMES = [f"2025-12-31T23:{minute:02}:00Z" for minute in range(40, 60)]


def condition(kind: str, status: str, since: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": kind, "message": "", "lastTransitionTime": since}


class DisruptionCase(Case):
    """A case with settled nodes; its features beyond those of `Case` are below."""

    def build(self, name: str) -> dict[str, Any]:
        r = self.r
        case = super().build(name)
        case["pending"] = case["pending"][: r.choice([0, 0, 0, 1, 3])]
        self.price(case["instanceTypes"])
        for pool in case["nodepools"]:
            self.disruption(pool["spec"])
        claims = {claim["status"]["providerID"]: claim for claim in case["nodeclaims"]}
        for node in case["nodes"]:
            self.settle(node, claims.get(node["spec"].get("providerID", "")))
        for pod in case["pods"]:
            self.pod(pod)
        for pdb in [obj for obj in case["objects"] if obj["kind"] == "PodDisruptionBudget"]:
            pdb["status"] = {"disruptionsAllowed": r.choice([0, 1, 1, 2, 2])}
        if self.chance(0.3):
            case["options"]["spotToSpot"] = True
        return case

    def node_count(self) -> int:
        return self.r.choice([2, 4, 6, 9])

    def pod_count(self) -> int:
        return self.r.choice([1, 1, 2, 4]) if self.r.random() < 0.95 else 0

    def price(self, types: list[Any]) -> None:
        """Use few different prices, in proportion to the size, so that some nodes cost the same and large ones more."""
        if self.r.random() < 0.7:
            for kind in types:
                cpu = int(kind["capacity"]["cpu"])
                for offering in kind["offerings"]:
                    if offering["capacityType"] != "reserved":
                        offering["price"] = cpu * (0.02 if offering["capacityType"] == "spot" else 0.05)
        if self.r.random() < 0.3:
            for number in range(14):
                copy = {**self.r.choice(types)}
                copy |= {
                    "name": f"z.{number}",
                    "offerings": [{**o, "price": 0.001 * (number + 1)} for o in copy["offerings"]],
                }
                types.append(copy)

    def disruption(self, spec: dict[str, Any]) -> None:
        r = self.r
        spec["disruption"] = {
            "consolidationPolicy": r.choice(["WhenEmptyOrUnderutilized"] * 8 + ["WhenEmpty"]),
            "consolidateAfter": r.choice(["0s", "30s", "5m", "10m"] + ["Never"] * self.chance(0.2)),
        }
        if self.chance(0.05):
            spec["disruption"]["consolidationPolicy"] = "Balanced"
        if r.random() < 0.7:
            spec["disruption"]["budgets"] = [self.budget() for _ in range(r.choice([1, 1, 2]))]
        if self.chance(0.1):
            spec["template"]["spec"]["expireAfter"] = "720h"

    def budget(self) -> dict[str, Any]:
        r = self.r
        budget: dict[str, Any] = {"nodes": r.choice(["10%", "50%", "100%", "100%", "0", "1", "2", "5", "33%"])}
        if self.chance(0.2):
            budget["reasons"] = r.sample(["Empty", "Drifted", "Underutilized"], r.choice([1, 2]))
        if self.chance(0.2):
            budget |= r.choice(
                [
                    {"schedule": "@daily", "duration": "1h"},
                    {"schedule": "0 9 * * mon-fri", "duration": "8h"},
                    {"schedule": "30 23 31 12 *", "duration": "30m"},
                    {"schedule": "29 23 31 12 *", "duration": "30m"},
                    {"schedule": "* * * * *", "duration": "1m"},
                ]
            )
        return budget

    def settle(self, node: dict[str, Any], claim: dict[str, Any] | None) -> None:
        r, labels = self.r, node["metadata"].setdefault("labels", {})
        settled = r.random() < 0.9
        if claim and settled:
            labels |= dict.fromkeys(SETTLED, "true")
            node["spec"]["taints"] = [t for t in node["spec"]["taints"] if t["key"] not in TRANSIENT]
            if r.random() < 0.7:
                claim["metadata"] = {
                    k: v for k, v in claim["metadata"].items() if k not in ("deletionTimestamp", "finalizers")
                }
                claim["status"].pop("conditions", None)
                node["metadata"] = {
                    k: v for k, v in node["metadata"].items() if k not in ("deletionTimestamp", "finalizers")
                }
                node["spec"]["taints"] = [t for t in node["spec"]["taints"] if t["key"] != "karpenter.sh/disrupted"]
            node["status"] = {**node["status"], **{k: claim["status"][k] for k in ("capacity", "allocatable")}}
            for key in (
                "node.kubernetes.io/instance-type",
                "topology.kubernetes.io/zone",
                "karpenter.sh/capacity-type",
            ):
                if self.chance(0.01):
                    labels.pop(key, None)
        node["status"] = {
            **node["status"],
            "conditions": [condition("Ready", "False" if self.chance(0.06) else "True", TIMES[0])],
        }
        if self.chance(0.05):
            node["metadata"]["annotations"] = {DO_NOT_DISRUPT: r.choice(["true", "true", "false", "1h"])}
        if claim is None:
            return
        conditions = claim["status"].setdefault("conditions", [])
        conditions.append(condition("Initialized", "True" if settled else "False", r.choice(TIMES)))
        if r.random() < 0.85:
            conditions.append(condition("Consolidatable", "True", TIMES[-1]))
        if self.chance(0.12):
            conditions.append(condition("Drifted", r.choice(["True", "True", "False"]), r.choice(TIMES)))
        if r.random() < 0.5:
            claim["status"]["lastPodEventTime"] = r.choice(TIMES)
        if self.chance(0.2):
            claim["spec"]["terminationGracePeriod"] = "10m"

    def pod(self, pod: dict[str, Any]) -> None:
        r, spec = self.r, pod["spec"]
        if r.random() < 0.7:
            for container in spec["containers"]:
                container["resources"] = {
                    "requests": {"cpu": r.choice(["50m", "100m", "300m"]), "memory": r.choice(["64Mi", "200Mi"])}
                }
            spec.pop("resources", None)
        if r.random() < 0.3:
            spec.pop("affinity", None)
        if self.chance(0.15):
            spec["priority"] = r.choice([1000, 100_000, -1000, 1_000_000_000, 2_000_001_000, -40_000_000, -(2**31)])
        if self.chance(0.1):
            cost = r.choice(["10", "-100", "2147483647", "-2147483647", "134217728", "-134217728"])
            pod["metadata"].setdefault("annotations", {})[DELETION_COST] = cost
        if self.chance(0.1):
            pod["metadata"].pop("ownerReferences", None)
        if self.chance(0.05):
            pod["status"]["phase"] = "Pending"
        if r.random() < 0.5:
            pod["metadata"].get("annotations", {}).pop(DO_NOT_DISRUPT, None)
        if self.chance(0.03):
            spec.setdefault("tolerations", []).append({"key": "karpenter.sh/disrupted", "operator": "Exists"})
