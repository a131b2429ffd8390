"""Topology spread constraints and Pod affinity, over nodes that exist and nodes that may be added; volumes of Pods.

Sources: provisioning/scheduling/topology.go, topologygroup.go, topologynodefilter.go, topologydomaingroup.go,
volumetopology.go; pkg/scheduling/volumeusage.go. Upstream chooses among equally good domains by the order of a Go map;
here `Choices` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.objects.volumes import driver_of_provisioner
from forewarn.policies.kubernetes.selectors import LabelSelector, with_label_keys
from forewarn.policies.prediction.autoscaling import NotPredicted
from forewarn.policies.prediction.autoscaling.karpenter.requirements import (
    HOSTNAME,
    KarpenterPod,
    Problem,
    Requirement,
    Requirements,
    requirements_of,
    untolerated,
)

if TYPE_CHECKING:
    from random import Random

    from forewarn.policies.kubernetes.objects.node import Taint, Toleration
    from forewarn.policies.kubernetes.objects.pod import AffinityTerm, Pod, TopologySpreadConstraint
    from forewarn.policies.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
    from forewarn.policies.prediction.autoscaling.karpenter.autoscaler import ClusterState, StateNode
    from forewarn.policies.prediction.autoscaling.karpenter.instance_types import InstanceType, NodePool


SPREAD: Final = "topology spread"
AFFINITY: Final = "pod affinity"
ANTI_AFFINITY: Final = "pod anti-affinity"
_UNLIMITED: Final = 2**31 - 1
_SHOWN: Final = 25
Item = TypeVar("Item")


class Choices:
    """Makes the choices that upstream leaves to the order of a Go map: the first one, or with `random` a random one.

    `arbitrary`: whether there has been a choice between several options so far.
    """

    __slots__ = ("_random", "arbitrary")

    def __init__(self, random: Random | None = None) -> None:
        self._random, self.arbitrary = random, False

    def one(self, options: Collection[str]) -> str:
        """Return one of the options; there is at least one."""
        self.arbitrary = self.arbitrary or len(options) > 1
        return self._random.choice(sorted(options)) if self._random and len(options) > 1 else min(options)

    def order(self, items: Iterable[Item]) -> list[Item]:
        """Return the items in the given order, or with `random` in a random order."""
        ordered = list(items)
        if self._random:
            self._random.shuffle(ordered)
        return ordered


class NodeFilter(NamedTuple):
    """Selects the nodes that a spread constraint counts: one of `terms` must match if `honours_affinity`, and the Pod
    must tolerate the taints if `honours_taints`.
    """

    terms: tuple[Requirements, ...] = ()
    honours_affinity: bool = False
    honours_taints: bool = False
    tolerations: tuple[Toleration, ...] = ()

    def counts(self, taints: Sequence[Taint], requirements: Requirements) -> bool:
        """Report whether a node counts. In contrast to scheduling, labels that it will get do not match."""
        if self.honours_affinity and self.terms and all(requirements.compatible(term) for term in self.terms):
            return False
        return not self.honours_taints or untolerated(taints, self.tolerations) is None

    def identity(self) -> Hashable:
        """Return what upstream hashes: keys of requirements, and tolerations that occur an odd number of times."""
        terms = _odd(frozenset(term) for term in self.terms)
        return terms, self.honours_affinity, self.honours_taints, _odd(self.tolerations)


EVERY_NODE: Final = NodeFilter()


def _odd(entries: Iterable[Hashable]) -> frozenset[Hashable]:
    """Return the entries with an odd number of occurrences: upstream combines hashes of a list by XOR."""
    return frozenset(entry for entry, count in Counter(entries).items() if count % 2)


class Group:
    """Counts Pods per domain of a topology key (`domains`). `owners`: Pods with this constraint or term."""

    __slots__ = ("domains", "key", "kind", "max_skew", "min_domains", "namespaces", "node_filter", "owners", "selector")

    def __init__(
        self,
        kind: str,
        key: str,
        selector: LabelSelector | None,
        namespaces: frozenset[str],
        constraint: TopologySpreadConstraint | None = None,
        node_filter: NodeFilter = EVERY_NODE,
    ) -> None:
        self.kind, self.key, self.selector, self.namespaces = kind, key, selector, namespaces
        self.max_skew = constraint.max_skew if constraint else _UNLIMITED
        self.min_domains = constraint.min_domains if constraint else 1
        self.node_filter = node_filter
        self.owners: set[str] = set()
        self.domains: dict[str, int] = {}

    @property
    def identity(self) -> Hashable:
        """What distinguishes groups (upstream `Hash`); minDomains does not."""
        own = (self.key, self.kind, self.namespaces, self.max_skew)
        return own, self.node_filter.identity(), self.selector and frozenset(self.selector.requirements)

    def selects(self, pod: Pod) -> bool:
        return pod.namespace in self.namespaces and self.selector is not None and self.selector.matches(pod.labels)

    def lists(self, pod: Pod) -> bool:
        """Report whether the group counts a running Pod; without a selector, it counts all Pods of its namespaces."""
        return pod.namespace in self.namespaces and (self.selector is None or self.selector.matches(pod.labels))

    def counts(self, pod: Pod, taints: Sequence[Taint], requirements: Requirements) -> bool:
        return self.selects(pod) and self.node_filter.counts(taints, requirements)

    def record(self, domains: Iterable[str]) -> None:
        """Count a Pod in these domains."""
        for domain in domains:
            self.domains[domain] = self.domains.get(domain, 0) + 1

    def next_domains(
        self, pod: Pod, pod_domains: Requirement, node_domains: Requirement, choices: Choices
    ) -> Collection[str]:
        """Return the domains in which a Pod can run. `pod_domains`, `node_domains`: those that Pod and node allow."""
        only = next(iter(node_domains.values)) if self.key == HOSTNAME and len(node_domains.values) == 1 else None
        if self.kind == SPREAD:
            return self._spread(pod, pod_domains, node_domains, only, choices)
        if self.kind == AFFINITY:
            return self._affinity(pod, pod_domains, node_domains, only, choices)
        if only is not None:
            return () if self.domains.get(only) else (only,)
        return [d for d, count in self.domains.items() if not count and node_domains.has(d) and pod_domains.has(d)]

    def _spread(
        self, pod: Pod, pod_domains: Requirement, node_domains: Requirement, only: str | None, choices: Choices
    ) -> Collection[str]:
        own = int(self.selects(pod))
        if only is not None:
            return (only,) if self.domains.get(only, 0) + own <= self.max_skew else ()
        least = self._min_count(pod_domains)
        counts = {d: count for d, count in self.domains.items() if node_domains.has(d)}
        counts = {d: count for d, count in counts.items() if count + own - least <= self.max_skew}
        lowest = min(counts.values(), default=0)
        best = [domain for domain, count in counts.items() if count == lowest]
        return (choices.one(best),) if best else ()

    def _min_count(self, pod_domains: Requirement) -> int:
        if self.key == HOSTNAME:
            return 0  # Karpenter can always add a node
        supported = [count for domain, count in self.domains.items() if pod_domains.has(domain)]
        if self.min_domains > 1 and len(supported) < self.min_domains:
            return 0
        return min(supported, default=_UNLIMITED)

    def _affinity(
        self, pod: Pod, pod_domains: Requirement, node_domains: Requirement, only: str | None, choices: Choices
    ) -> Collection[str]:
        allowed = [domain for domain in self.domains if pod_domains.has(domain)]
        first = self.selects(pod) and not any(self.domains[domain] for domain in allowed)
        if only is not None:
            return (only,) if pod_domains.has(only) and (self.domains.get(only) or first) else ()
        populated = [domain for domain in allowed if self.domains[domain] and node_domains.has(domain)]
        if populated or not first:
            return populated
        on_node = [domain for domain in allowed if node_domains.has(domain)]
        return {choices.one(domains) for domains in (on_node, allowed) if domains}

    def explanation(self, pod_domains: Requirement, node_domains: Requirement) -> str:
        """Return upstream's message for a Pod without a domain."""
        shown = [f"{domain}: {count}" for domain, count in sorted(self.domains.items())]
        rest = f" and {len(shown) - _SHOWN} other(s)" if len(shown) > _SHOWN else ""
        return (
            f"unsatisfiable topology constraint for {self.kind}, key={self.key} (counts = "
            f"{', '.join(shown[:_SHOWN])}{rest}, podDomains = {pod_domains}, nodeDomains = {node_domains}"
        )


class Topology:
    """The groups of all Pods. `inverse`: groups of Pods whose anti-affinity excludes others."""

    def __init__(
        self,
        state: ClusterState,
        nodes: Sequence[StateNode],
        node_pools: Mapping[NodePool, Sequence[InstanceType]],
        pods: Sequence[KarpenterPod],
        choices: Choices,
        *,
        preferences: bool,
    ) -> None:
        """Set up the groups. `nodes`: those not being deleted. `pods`: those to schedule, which do not count yet."""
        self._state, self._nodes, self._preferences, self._choices = state, nodes, preferences, choices
        self._universe = _domains(node_pools)
        self._groups: dict[Hashable, Group] = {}
        self._owned: dict[str, list[Group]] = {}
        self._inverse: dict[Hashable, Group] = {}
        self._excluded = {pod.pod.identity for pod in pods}
        for pod, labels in state.pods_on_nodes():
            if pod.identity not in self._excluded:
                self._keep_away(pod, pod.spec.tolerations, labels)
        for pod_to_schedule in choices.order(pods):
            self.update(pod_to_schedule)

    def update(self, pod: KarpenterPod) -> None:
        """Set the groups that a Pod owns, after relaxation."""
        identity = pod.pod.identity
        for group in self._owned.pop(identity, ()):
            group.owners.discard(identity)
        self._keep_away(pod.pod, pod.tolerations, {})
        owned = self._owned[identity] = []
        for group in self._groups_of(pod):
            charge(1 + len(group.domains) // 4)
            key = group.identity
            present = self._groups.get(key)
            if present is None:
                present = self._groups[key] = group
                self._count(group)
            elif str(present.node_filter) != str(group.node_filter) or present.min_domains != group.min_domains:
                self._choices.arbitrary = True  # upstream confuses the two: the rule of the first Pod applies to both
            present.owners.add(identity)
            owned.append(present)

    def _keep_away(self, pod: Pod, tolerations: Sequence[Toleration], labels: Mapping[str, str]) -> None:
        """Add the groups of a Pod's required anti-affinity. `labels`: those of its node."""
        for term in pod.spec.pod_affinity.required_anti_affinity:
            group = self._group(ANTI_AFFINITY, term, pod, tolerations)
            group = self._inverse.setdefault(group.identity, group)
            if group.key in labels:
                group.record((labels[group.key],))
            group.owners.add(pod.identity)

    def _groups_of(self, pod: KarpenterPod) -> Iterator[Group]:
        for constraint in pod.spread:
            if self._preferences or constraint.when_unsatisfiable == "DoNotSchedule":
                yield self._spread(constraint, pod)
        affinity, preferences = pod.pod.spec.pod_affinity, self._preferences
        for kind, required, preferred in (
            (AFFINITY, affinity.required_affinity, pod.preferred_affinity),
            (ANTI_AFFINITY, affinity.required_anti_affinity, pod.preferred_anti_affinity),
        ):
            for term in (*required, *(weighted.term for weighted in preferred if preferences)):
                yield self._group(kind, term, pod.pod, pod.tolerations)

    def _group(self, kind: str, term: AffinityTerm, pod: Pod, tolerations: Sequence[Toleration]) -> Group:
        names = frozenset((pod.namespace,)) if term.namespaces is None else term.namespaces
        if term.namespace_selector is not None:
            namespaces = self._state.namespaces
            names |= {namespace.name for namespace in namespaces if term.namespace_selector.matches(namespace.labels)}
        return self._with_domains(Group(kind, term.topology_key, term.selector, names), tolerations)

    def _with_domains(self, group: Group, tolerations: Sequence[Toleration] | None) -> Group:
        """Return a group with the domains of NodePools whose taints are tolerated (None: of all NodePools)."""
        for domain, taint_sets in self._universe.get(group.key, {}).items():
            if tolerations is None or any(untolerated(taints, tolerations) is None for taints in taint_sets):
                group.domains[domain] = 0
        return group

    def _spread(self, constraint: TopologySpreadConstraint, pod: KarpenterPod) -> Group:
        own = with_label_keys(constraint.selector, "In", constraint.match_label_keys, pod.pod.labels)
        selector = Requirements.from_labels(pod.pod.spec.node_affinity.node_selector or {})
        terms = [Requirements((*selector.values(), *requirements_of(term))) for term in pod.required]
        node_filter = NodeFilter(
            tuple(terms) if pod.pod.spec.node_affinity.required is not None else (selector,),
            constraint.node_affinity_policy == "Honor",
            constraint.node_taints_policy == "Honor",
            pod.tolerations,
        )
        group = Group(SPREAD, constraint.topology_key, own, frozenset((pod.pod.namespace,)), constraint, node_filter)
        return self._with_domains(group, pod.tolerations if node_filter.honours_taints else None)

    def _count(self, group: Group) -> None:
        """Count the Pods on nodes, and add the domains of nodes. Source: `countDomains`."""
        charge(4 * len(self._nodes) + len(self._state.counted))
        for node in self._nodes:
            if node.node is None or group.key not in node.labels:
                continue
            if group.node_filter.counts(node.node.taints, Requirements.from_labels(node.node.labels)):
                group.domains.setdefault(node.labels[group.key], 0)
        for pod, node_of_pod in self._state.counted:
            labels = node_of_pod.labels
            domain = labels.get(group.key, node_of_pod.name if group.key == HOSTNAME else None)
            if domain is None or pod.identity in self._excluded or not group.lists(pod):
                continue
            if group.node_filter.counts(node_of_pod.taints, Requirements.from_labels(labels)):
                group.record((domain,))

    def add_requirements(
        self, pod: KarpenterPod, taints: Sequence[Taint], strict: Requirements, node: Requirements
    ) -> Requirements | Problem:
        """Return a node's requirements within a Pod's domains, or why none is left. `strict`: without preferences."""
        restricted = node.copy()
        charge(len(self._inverse))
        inverse = [g for g in self._inverse.values() if g.counts(pod.pod, taints, node)]
        for group in (*dict.fromkeys(self._owned.get(pod.pod.identity, ())), *inverse):
            pod_domains, node_domains = strict.on(group.key), node.on(group.key)
            charge(1 + len(group.domains) // 4)
            domains = group.next_domains(pod.pod, pod_domains, node_domains, self._choices)
            if not domains:
                return partial(group.explanation, pod_domains, node_domains)
            restricted.add((Requirement(group.key, frozenset(domains)),))
        return restricted

    def register(self, hostname: str) -> None:
        """Add the hostname of a node as a domain."""
        for group in (*self._groups.values(), *self._inverse.values()):
            if group.key == HOSTNAME:
                group.domains.setdefault(hostname, 0)

    def record(self, pod: KarpenterPod, taints: Sequence[Taint], requirements: Requirements) -> None:
        """Count a Pod that is scheduled on a node with these requirements."""
        charge(len(self._groups) + len(self._inverse))
        for group in self._groups.values():
            if group.counts(pod.pod, taints, requirements):
                domains = requirements.on(group.key)
                if group.kind == ANTI_AFFINITY or (len(domains.values) == 1 and not domains.complement):
                    group.record(domains.values)
        for group in self._inverse.values():
            if pod.pod.identity in group.owners:
                group.record(requirements.on(group.key).values)


def _domains(node_pools: Mapping[NodePool, Sequence[InstanceType]]) -> dict[str, dict[str, list[tuple[Taint, ...]]]]:
    """Return topology key -> domain -> taints of each NodePool with the domain. Source: `buildDomainGroups`."""
    universe: dict[str, dict[str, list[tuple[Taint, ...]]]] = {}
    for pool, types in node_pools.items():
        charge(10 * len(types))
        values: dict[str, set[str]] = {}
        for type_ in types:
            requirements = pool.requirements.copy()
            requirements.add(type_.requirements.values())
            for key, requirement in requirements.items():
                values.setdefault(key, set()).update(requirement.values)
        for key, requirement in pool.requirements.items():
            if requirement.operator == "In":
                values.setdefault(key, set()).update(requirement.values)
        for key, domains in values.items():
            for domain in domains:
                universe.setdefault(key, {}).setdefault(domain, []).append(pool.taints)
    return universe


_EBS: Final = "ebs.csi.aws.com"
MAX_ALTERNATIVES: Final = 10_000
"""Maximum number of combinations of the places of a Pod's volumes."""


class Rejected(Exception):
    """Karpenter ignores the Pod; the text is upstream's message."""


class Storage(NamedTuple):
    """The storage objects of a cluster, by name; claims by namespace and name.

    `locates_volumes`: false in recordings. Upstream looks up a volume in the Pod's namespace; a real client ignores the
    namespace, but the fake client of the recordings finds no volume.
    """

    claims: Mapping[tuple[str, str], PersistentVolumeClaim]
    volumes: Mapping[str, PersistentVolume]
    classes: Mapping[str, StorageClass]
    locates_volumes: bool = True

    def _claims_of(self, pod: Pod) -> Iterator[tuple[str, PersistentVolumeClaim | None]]:
        for volume in pod.spec.volumes:
            name = volume.claim_of(pod.name)
            if name is not None:
                yield name, self.claims.get((pod.namespace, name))

    def validate(self, pod: Pod) -> None:
        """Raise Rejected for a Pod whose claims can never be bound. Source: `ValidatePersistentVolumeClaims`."""
        for name, claim in self._claims_of(pod):
            if claim is None:
                what = f'persistentvolumeclaims "{name}" not found'
                raise Rejected(f"getting persistent volume claim, {what} (PersistentVolumeClaim={name})")
            key = f"{claim.namespace}/{name}"
            if claim.deleting:
                raise Rejected(f"persistentvolumeclaim is being deleted (PersistentVolumeClaim={key})")
            volume = f"PersistentVolumeClaim={key}, PersistentVolume={claim.volume_name}"
            if claim.phase == "Lost":
                raise Rejected(f"persistentvolumeclaim bound to non-existent persistentvolume ({volume})")
            problem = self._bound_problem(claim) if claim.volume_name else self._class_problem(claim)
            if problem.startswith("pvc is considered unbound"):
                short = f"PersistentVolume={claim.volume_name}, PersistentVolumeClaim={name}"
                raise Rejected(f"{problem} ({short}, annotation=pv.kubernetes.io/bind-completed)")
            if problem:
                source = f", PersistentVolume={claim.volume_name}" if claim.volume_name else ""
                what = f"PersistentVolumeClaim={key}, StorageClass={claim.storage_class}"
                raise Rejected(f"{problem} ({source[2:] + ', ' if source else ''}{what})")

    def _bound_problem(self, claim: PersistentVolumeClaim) -> str:
        volume = self.volumes.get(claim.volume_name)
        if volume is None:
            return f'failed to validate pvc, persistentvolumes "{claim.volume_name}" not found'
        if volume.deleting:
            return "failed to validate pvc, persistentvolume is being deleted"
        return "" if claim.bind_completed else "pvc is considered unbound because it does not contain annotation"

    def _class_problem(self, claim: PersistentVolumeClaim) -> str:
        if not claim.storage_class:
            return "unbound pvc must define a storage class"
        storage_class = self.classes.get(claim.storage_class)
        if storage_class is None:
            what = f'storageclasses.storage.k8s.io "{claim.storage_class}" not found'
            return f"failed to validate pvc, failed to get storage class, {what}"
        if storage_class.binding_mode == "Immediate":
            return "failed to validate pvc, pvc with immediate volume binding mode must be bound"
        return ""

    def alternatives(self, pod: Pod) -> list[Requirements] | None:
        """Return the places where a Pod's volumes are or can be, as alternatives; empty for any place.

        None if a claim, volume or class is missing. Source: `GetRequirements`.
        """
        merged: list[Requirements] = []
        for _, claim in self._claims_of(pod):
            places = None if claim is None else self._places(claim)
            if places is None:
                return None
            if places and merged:
                if len(places) * len(merged) > MAX_ALTERNATIVES:
                    raise NotPredicted(f"Pod {pod.key}: more than {MAX_ALTERNATIVES} combinations of volumes")
                charge(10 * len(places) * len(merged))
                pairs = [(one, other) for one in merged for other in places]
                fitting = [(one, other) for one, other in pairs if one.conflict(other) is None]
                merged = [Requirements((*one.values(), *other.values())) for one, other in fitting or pairs]
            else:
                merged = places or merged
        return merged

    def _places(self, claim: PersistentVolumeClaim) -> list[Requirements] | None:
        if claim.volume_name:
            volume = self.volumes.get(claim.volume_name)
            return None if volume is None or not self.locates_volumes else self._places_of_volume(volume)
        if not claim.storage_class:
            return []
        class_ = self.classes.get(claim.storage_class)
        if class_ is None:
            return None
        terms = (term for term in class_.allowed_topologies if term)
        return [Requirements(Requirement.from_entry(key, "In", values) for key, values in term) for term in terms]

    def _places_of_volume(self, volume: PersistentVolume) -> list[Requirements]:
        """Return the places of a volume; the hostname of a local volume does not count, because its Pod moves."""
        places = []
        for term in volume.node_affinity.terms if volume.node_affinity else ():
            requirements = Requirements(requirements_of(term))
            if volume.local:
                requirements.pop(HOSTNAME, None)
            if term.expressions:
                places.append(requirements)
        return places

    def used_by(self, pod: Pod) -> dict[str, set[str]]:
        """Return CSI driver -> claims of a Pod, to check the volume limits of nodes. Source: `GetVolumes`."""
        used: dict[str, set[str]] = {}
        for _, claim in self._claims_of(pod):
            driver = "" if claim is None else self._driver(claim)
            if driver and claim is not None:
                used.setdefault(driver, set()).add(f"{claim.namespace}/{claim.name}")
        return used

    def _driver(self, claim: PersistentVolumeClaim) -> str:
        volume = self.volumes.get(claim.volume_name)
        if volume is not None and volume.csi:
            return volume.csi[0]
        if claim.volume_name:
            return _EBS if volume and volume.migrated and volume.migrated.driver == _EBS else ""
        class_ = self.classes.get(claim.storage_class)
        provisioner = class_.provisioner if class_ else ""
        return driver_of_provisioner(provisioner) or provisioner
