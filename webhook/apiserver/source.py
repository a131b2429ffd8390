"""`--cluster live[:CONTEXT]`: the objects of a running cluster, as a source of cluster state."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Finding, one_line
from forewarn.policies.inputs.sources.files import MissingFile, SourceError
from forewarn.policies.kubernetes.kinds.registry import DEVICES, KINDS, KUEUE, SEPARATE_KINDS, KindSpec, empty_list
from forewarn.policies.kubernetes.objects.fields import list_at, text_at
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.discovery import MAX_GROUPS, STATUS
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.orchestrator import PRIORITIES
from forewarn.policies.questions.whatif.capacity_buffers import MAX_BUFFERS
from forewarn.webhook.apiserver import client

if TYPE_CHECKING:
    from forewarn.policies.inputs.sources.cluster import Written

MAX_EVENTS: Final = 500
"""Maximum number of Events about one Pod: an API server keeps them for an hour, and counts equal ones in one Event."""
MAX_EACH: Final = 10_000
"""Maximum number of Events of a namespace, and about preempted Pods."""
_OF_NODES: Final = "default"
"""The namespace of Events about Nodes."""
_DEFINITIONS: Final = KindSpec(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", "", namespaced=False
)
_BUFFERS: Final = tuple(
    KindSpec(f"autoscaling.x-k8s.io/{version}", "CapacityBuffer", "capacitybuffers", "")
    for version in ("v1beta1", "v1alpha1")
)
_AUTOSCALERS: Final = KindSpec("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "")
_CONFIG_MAP: Final = KindSpec("v1", "ConfigMap", "configmaps", "")
_CONFIG_MAPS: Final = "/api/v1/namespaces/kube-system/configmaps"
_MACHINES: Final = (
    KindSpec("cluster.x-k8s.io/v1beta1", "MachineDeployment", "machinedeployments", ""),
    KindSpec("machine.openshift.io/v1beta1", "MachineSet", "machinesets", ""),
    KindSpec("karpenter.sh/v1", "NodePool", "nodepools", ""),
)
_MAX_AUTOSCALERS: Final = 20_000
_NOT_READ: Final = (403, 404)
_SHORT: Final = client.Timeouts(10.0, 10.0, 20.0)
_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


class Live:
    """The cluster source `live`."""

    def __call__(self, context: str = "") -> Iterator[dict[str, Any]]:
        """Yield all objects that forewarn reads, from a context (default: the current one). Raises SourceError."""
        api = _api(context)
        yield from read_all(api, _name(context))
        yield from version_of(api)

    def described(self, context: str) -> str:
        """Return the name of the context, or a text for the cluster of this Pod if there is no kubeconfig.

        Names the impersonated user, because the user may see only a part of the cluster.
        """
        name, user = client.context_and_user(context)
        return f"{f'context {name}' if name else 'the cluster of this Pod'}{f' as {user}' if user else ''}"

    def contexts(self, context: str = "") -> list[str]:  # noqa: ARG002  (the signature of a source's attributes)
        """Return the names of the kubeconfig's contexts. Raises SourceError."""
        try:
            return client.contexts()
        except client.ApiError as error:
            raise SourceError("", error.problem) from None

    def events(self, context: str, namespace: str, name: str) -> Iterator[dict[str, Any]]:
        """Yield the Events about objects of this name. Raises SourceError.

        `name`: "" for the whole namespace. `namespace`: "" for a Node. At most MAX_EVENTS, for a namespace
        MAX_EACH. Requires permission to list `events` in the namespace, for Nodes in the namespace default.
        """
        if not all(_NAME.fullmatch(item) for item in (namespace, name) if item):
            return  # no object can have this name
        about = f"involvedObject.namespace={namespace},involvedObject.name={name}"
        if not namespace:
            about = f"involvedObject.kind=Node,involvedObject.name={name}"
        is_complete = yield from _events(
            context, f"namespaces/{namespace or _OF_NODES}/", about if name else "", MAX_EVENTS if name else MAX_EACH
        )
        if not is_complete and not name:
            raise SourceError(_name(context), f"more than {MAX_EACH} Events in namespace {namespace}")

    def preemptions(self, context: str) -> Iterator[dict[str, Any]]:
        """Yield the Events about preempted Pods in all namespaces. Raises SourceError, also for more than MAX_EACH.

        Requires permission to list `events` in all namespaces.
        """
        if not (yield from _events(context, "", "reason=Preempted", MAX_EACH)):
            raise SourceError(_name(context), f"more than {MAX_EACH} Events about preempted Pods")

    def definitions(self, context: str) -> Iterator[dict[str, Any]]:
        """Yield the CustomResourceDefinitions; none without permission to list them. Raises SourceError."""
        objects = _optional(_api(context), _name(context), (_DEFINITIONS,))
        yield from (obj for obj in objects if isinstance(obj.get("spec"), dict))

    def report_writer(self, context: str) -> Callable[[Sequence[Finding]], Written]:
        """Return a function that writes findings as OpenReports (`open_reports.write_reports`).

        Raises SourceError, even if the API server does not serve these kinds.
        """
        from forewarn.policies.cli.render.openreports import API_VERSION
        from forewarn.webhook.apiserver.open_reports import is_served, write_reports
        from forewarn.webhook.apiserver.typed_client import ObjectApi, ObjectApiError

        api = ObjectApi(_api(context), client.DEFAULT_TIMEOUTS)
        try:
            if not is_served(api):
                why = f"the cluster does not serve {API_VERSION}"
                raise SourceError(_name(context), why, fix="install the CRDs of OpenReports")
        except (client.ApiError, ObjectApiError) as error:
            raise SourceError(_name(context), one_line(str(error))) from None

        def write(findings: Sequence[Finding]) -> Written:
            try:
                return write_reports(api, findings)
            except (client.ApiError, ObjectApiError) as error:
                raise SourceError(_name(context), f"cannot write reports: {one_line(str(error))}") from None

        return write

    def capacity_buffers(self, context: str) -> Iterator[dict[str, Any]]:
        """Yield the CapacityBuffers of the cluster, at most MAX_BUFFERS + 1; none if they are not served. Raises
        SourceError."""

        def first_version_objects() -> Iterator[dict[str, Any]]:
            for resource in _BUFFERS:
                if (yield from _listed(api, context, resource, (404,))):
                    return

        api = _api(context)
        return islice(first_version_objects(), MAX_BUFFERS + 1)

    def autoscalers(self, context: str) -> Iterator[dict[str, Any]]:
        """Return the HorizontalPodAutoscalers of the cluster. Raises SourceError."""
        return _listed(_api(context), context, _AUTOSCALERS, ())

    def autoscalers_if_permitted(self, context: str) -> Iterator[dict[str, Any]]:
        """Return the HorizontalPodAutoscalers; none without permission. Raises SourceError."""
        return islice(_listed(_api(context), context, _AUTOSCALERS), _MAX_AUTOSCALERS)

    def node_groups(self, context: str) -> Iterator[dict[str, Any]]:
        """Yield the ConfigMaps of cluster-autoscaler, objects of Cluster API, and NodePools; none without permission or
        if they are not served. Raises SourceError.
        """
        api = _api(context)
        for name in (STATUS, PRIORITIES):
            try:
                yield {**api.get(f"{_CONFIG_MAPS}/{name}", timeouts=_SHORT), "apiVersion": "v1", "kind": "ConfigMap"}
            except client.ApiError as error:
                if error.status not in _NOT_READ:
                    raise _fault(_name(context), _CONFIG_MAP, error) from None
        yield from islice(chain.from_iterable(_listed(api, context, kind) for kind in _MACHINES), MAX_GROUPS)


def _listed(
    api: client.ApiServer, context: str, resource: KindSpec, not_read: Container[int] = _NOT_READ
) -> Generator[dict[str, Any], None, bool]:
    """Yield a kind's objects; return false for a status in `not_read`, such as not served. Raises SourceError."""
    try:
        for page in api.pages(resource, consistent=False, timeouts=_SHORT):
            yield from page.objects
    except client.ApiError as error:
        if error.status in not_read:
            return False
        raise _fault(_name(context), resource, error) from None
    return True


live: Final = Live()


def _api(context: str) -> client.ApiServer:
    return client.ApiServer(partial(client.connect, context))


def _events(context: str, place: str, about: str, at_most: int) -> Generator[dict[str, Any], None, bool]:
    """Yield Events, page by page, and return False if there are more. Raises SourceError.

    `place`: the part of the path before `events`. `about`: a field selector, or "" for all.
    """
    api, query = _api(context), {"fieldSelector": about} if about else {}
    for _ in range(0, at_most, MAX_EVENTS):
        try:
            page = api.get(f"/api/v1/{place}events", {**query, "limit": str(MAX_EVENTS)}, timeouts=_SHORT)
        except client.ApiError as error:
            why = f"cannot list events: {error}" if error.status else error.problem
            raise SourceError(_name(context), why) from None
        for obj in list_at(page, "items")[:MAX_EVENTS]:
            if isinstance(obj, dict):
                yield {**obj, "apiVersion": "v1", "kind": "Event"}
        query["continue"] = text_at(page, "metadata", "continue")
        if not query["continue"]:
            return True
    return False


def _name(context: str) -> str:
    return f"live:{context}" if context else "live"


def read_all(api: client.ApiServer, name: str) -> Iterator[dict[str, Any]]:
    """Yield every object that forewarn reads, kind by kind; an empty list for a kind without objects. `name`: the
    source in errors. Raises SourceError.
    """
    yield from _optional(api, name, DEVICES)
    yield from _optional(api, name, KUEUE)
    for resource in SEPARATE_KINDS:
        yield from _optional(api, name, (resource,))
    for resource in KINDS:
        try:
            yield from _complete(api, resource)
        except client.ApiError as error:
            raise _fault(name, resource, error) from None


def _complete(api: client.ApiServer, resource: KindSpec) -> Iterator[dict[str, Any]]:
    """Yield the objects of a kind, or an empty list if there are none. Raises ApiError."""
    is_empty = True
    for page in api.pages(resource, consistent=False):
        is_empty = is_empty and not page.objects
        yield from page.objects
    if is_empty:
        yield empty_list(resource)


def _optional(api: client.ApiServer, name: str, together: Sequence[KindSpec]) -> list[dict[str, Any]]:
    """Return the objects of several kinds that are only useful together.

    Empty lists for all kinds if the API server does not serve one of them; nothing if permission to list one is
    missing. `name`: name of the source in errors.
    """
    result: list[dict[str, Any]] = []
    for resource in together:
        try:
            result += _complete(api, resource)
        except client.ApiError as error:
            if error.status == 404:
                return [empty_list(item) for item in together]
            if error.status == 403:
                return []
            raise _fault(name, resource, error) from None
    return result


def version_of(api: client.ApiServer, **more: str) -> Iterator[dict[str, Any]]:
    """Yield an object with the fields `more` and, if available, the API server's version in the form of `kubectl
    version -o json`; nothing without fields.
    """
    fields: dict[str, Any] = dict(more)
    with suppress(client.ApiError):
        version = api.get("/version")
        fields |= {"serverVersion": version} if version.get("gitVersion") else {}
    if fields:
        yield {"apiVersion": "forewarn.dev/v1", "kind": "Version", **fields}


def _fault(name: str, resource: KindSpec, error: client.ApiError) -> SourceError:
    if isinstance(error, client.UnknownContext):
        return MissingFile("", error.problem)
    fix = "allow this user to list them in all namespaces" if error.status == 403 else ""
    return SourceError(name, f"cannot list {resource.name}: {error}" if error.status else error.problem, fix=fix)
