"""kube-apiserver's REST API: raw JSON over connections that are kept. Any thread may use a client."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any, NamedTuple
from urllib.parse import urlencode

from forewarn.policies.kubernetes.kinds.registry import KINDS, KUEUE
from tests.e2e.build import POLICIES_ARE_STABLE

Obj = dict[str, Any]

_POLICIES = f"apis/admissionregistration.k8s.io/{'v1' if POLICIES_ARE_STABLE else 'v1beta1'}"
_SPECS = (*KINDS, *KUEUE)
PATHS = {spec.kind: (spec.path.strip("/").rpartition("/")[0], spec.plural, spec.namespaced) for spec in _SPECS} | {
    "PodGroup": ("apis/scheduling.k8s.io/v1beta1", "podgroups", True),
    "RuntimeClass": ("apis/node.k8s.io/v1", "runtimeclasses", False),
    "Lease": ("apis/coordination.k8s.io/v1", "leases", True),
    "DeviceClass": ("apis/resource.k8s.io/v1", "deviceclasses", False),
    "ResourceClaimTemplate": ("apis/resource.k8s.io/v1", "resourceclaimtemplates", True),
    "ResourceClaim": ("apis/resource.k8s.io/v1", "resourceclaims", True),
    "ResourceSlice": ("apis/resource.k8s.io/v1", "resourceslices", False),
    "CustomResourceDefinition": ("apis/apiextensions.k8s.io/v1", "customresourcedefinitions", False),
    "NodePool": ("apis/karpenter.sh/v1", "nodepools", False),
    "NodeClaim": ("apis/karpenter.sh/v1", "nodeclaims", False),
    "KWOKNodeClass": ("apis/karpenter.kwok.sh/v1alpha1", "kwoknodeclasses", False),
    "ConfigMap": ("api/v1", "configmaps", True),
    "Role": ("apis/rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("apis/rbac.authorization.k8s.io/v1", "rolebindings", True),
    "Secret": ("api/v1", "secrets", True),
    "HorizontalPodAutoscaler": ("apis/autoscaling/v2", "horizontalpodautoscalers", True),
    "Event": ("api/v1", "events", True),
    "ClusterRole": ("apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "ValidatingWebhookConfiguration": (
        "apis/admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        False,
    ),
    "MutatingWebhookConfiguration": ("apis/admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", False),
    "MutatingAdmissionPolicy": (_POLICIES, "mutatingadmissionpolicies", False),
    "MutatingAdmissionPolicyBinding": (_POLICIES, "mutatingadmissionpolicybindings", False),
}
"""Kind -> path of its group version, resource, whether it is in namespaces."""


class Refused(Exception):
    """An answer that is not 2xx."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


class Answer(NamedTuple):
    """An answer and the warnings that kubectl would print."""

    code: int
    body: Obj
    warnings: list[str]


class Api:
    """A client with one identity."""

    def __init__(self, port: int, ca: bytes, token: str) -> None:
        self.port = port
        self._context = ssl.create_default_context(cadata=ca.decode())
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._idle: list[http.client.HTTPSConnection] = []

    def close(self) -> None:
        """Close the connections that are kept."""
        while self._idle:
            self._idle.pop().close()

    def ask(self, method: str, path: str, body: Obj | None = None, media: str = "application/json") -> Answer:
        """One request; any status is an answer. Raises OSError where there is none."""
        data = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Content-Type": media} if data else self._headers
        for connection in (self._idle.pop() if self._idle else None, self._fresh()):
            if connection is None:
                continue
            try:
                connection.request(method, "/" + path, data, headers)
                response = connection.getresponse()
                text = response.read()
                self._idle.append(connection)
                break
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):
                connection.close()  # the API server has closed it while it was idle
            except BaseException:
                connection.close()
                raise
        else:
            raise ConnectionError(f"{method} {path}: no answer")
        warnings = [
            value.split('"', 1)[1][:-1].replace('\\"', '"') for value in response.headers.get_all("Warning", [])
        ]
        return Answer(response.status, _parsed(text), warnings)

    def do(self, method: str, path: str, body: Obj | None = None, media: str = "application/json") -> Obj:
        """One request that has to succeed. Raises Refused."""
        answer = self.ask(method, path, body, media)
        if not 200 <= answer.code < 300:
            raise Refused(answer.code, answer.body.get("message", "")[:2000])
        return answer.body

    def create(self, obj: Obj, **query: str) -> Obj:
        return self.do("POST", path_of(obj, name="", **query), obj)

    def replace(self, obj: Obj, subresource: str = "") -> Obj:
        return self.do("PUT", path_of(obj, subresource=subresource), obj)

    def patch(self, obj: Obj, change: Obj, subresource: str = "", **query: str) -> Obj:
        path = path_of(obj, subresource=subresource, **query)
        return self.do("PATCH", path, change, "application/merge-patch+json")

    def delete(self, obj: Obj, **query: str) -> Obj:
        return self.do("DELETE", path_of(obj, **query))

    def get(self, kind: str, name: str, namespace: str = "default") -> Obj:
        return self.do("GET", path_of(identity(kind, name, namespace)))

    def list(self, kind: str, namespace: str = "", **query: str) -> list[Obj]:
        """All objects of a kind, each saying what it is."""
        group, resource, _ = PATHS[kind]
        where = f"namespaces/{namespace}/" if namespace else ""
        found = self.do("GET", f"{group}/{where}{resource}{_query(query)}")
        return [{"apiVersion": found["apiVersion"], "kind": kind, **item} for item in found["items"]]

    def delete_all(self, kind: str, namespace: str = "") -> None:
        group, resource, _ = PATHS[kind]
        where = f"namespaces/{namespace}/" if namespace else ""
        self.do("DELETE", f"{group}/{where}{resource}?gracePeriodSeconds=0&propagationPolicy=Background")

    def ready(self) -> bool:
        """Whether /readyz says ok; False also where nobody answers."""
        try:
            return self.ask("GET", "readyz").code == 200
        except OSError:
            return False

    def _fresh(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self._context, timeout=60)


def identity(kind: str, name: str, namespace: str = "default") -> Obj:
    """The least object that has an address."""
    group, _, namespaced = PATHS[kind]
    version = group.removeprefix("apis/").removeprefix("api/")
    metadata = {"name": name, **({"namespace": namespace} if namespaced else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def path_of(obj: Obj, name: str | None = None, subresource: str = "", **query: str) -> str:
    """The path of an object; of its collection where the name is empty."""
    group, resource, namespaced = PATHS[obj["kind"]]
    where = f"namespaces/{obj['metadata'].get('namespace', 'default')}/" if namespaced else ""
    name = obj["metadata"]["name"] if name is None else name
    parts = [part for part in (resource, name, subresource) if part]
    return f"{group}/{where}{'/'.join(parts)}{_query(query)}"


def _query(query: dict[str, str]) -> str:
    return "?" + urlencode(query) if query else ""


def _parsed(text: bytes) -> Obj:
    try:
        found: Any = json.loads(text)
    except ValueError:
        return {"message": text.decode(errors="replace")}
    return found if isinstance(found, dict) else {"message": str(found)}
