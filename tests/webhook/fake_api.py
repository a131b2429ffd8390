"""An API server in memory: resourceVersions, conflicts, uids; and faults where a test wants them."""

from __future__ import annotations

import copy
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any

from forewarn.webhook.apiserver.typed_client import Conflict, NotFound, ObjectApi, ObjectApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from forewarn.policies.kubernetes.objects.fields import ApiObject

LEASE = "/apis/coordination.k8s.io/v1/namespaces/forewarn/leases/forewarn-global-default"
WRITER = "/apis/coordination.k8s.io/v1/namespaces/forewarn/leases/forewarn-ca-injector"


class FakeApi(ObjectApi):
    """An ObjectApi. `before(verb, path)` is called ahead of every request and may raise."""

    def __init__(self, *paths: str, before: Callable[[str, str], None] | None = None) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.before = before or (lambda _verb, _path: None)
        self.calls: list[tuple[str, str]] = []
        self._version, self._lock = 0, Lock()
        self._watches: list[tuple[str, SimpleQueue[None]]] = []
        for path in paths:
            self.put(path, {})

    def put(self, path: str, obj: ApiObject, uid: str = "") -> dict[str, Any]:
        """Store an object whatever is there."""
        with self._lock:
            self._version += 1
            metadata = {**(obj.get("metadata") or {}), "name": path.rpartition("/")[2]}
            old = self.objects.get(path, {}).get("metadata", {})
            metadata |= {"resourceVersion": str(self._version), "uid": uid or old.get("uid") or f"uid-{self._version}"}
            self.objects[path] = {**copy.deepcopy(dict(obj)), "metadata": metadata}
            self._changed(path)
            return copy.deepcopy(self.objects[path])

    def delete(self, path: str) -> None:
        with self._lock:
            self._version += 1
            if self.objects.pop(path, None):
                self._changed(path)

    def watch(self, path: str) -> Iterator[object]:
        self._come("watch", path)
        changes = SimpleQueue[None]()
        with self._lock:
            self._watches.append((path, changes))
            if path in self.objects:
                changes.put(None)
        while True:
            yield changes.get()

    def _changed(self, path: str) -> None:
        for watched, changes in self._watches:
            if watched == path:
                changes.put(None)

    def get(self, path: str) -> dict[str, Any]:
        self._come("get", path)
        if path in self.objects:
            return copy.deepcopy(self.objects[path])
        under = f"{path}/"
        if path.endswith("s"):
            return {"items": [copy.deepcopy(o) for p, o in sorted(self.objects.items()) if p.startswith(under)]}
        raise NotFound(f"GET {path}: not found")

    def create(self, path: str, obj: ApiObject) -> dict[str, Any]:
        self._come("create", path)
        metadata = obj["metadata"]
        name = metadata.get("name") or f"{metadata['generateName']}{self._version}"
        if f"{path}/{name}" in self.objects:
            raise Conflict(f"POST {path}: {name} exists")
        return self.put(f"{path}/{name}", obj)

    def replace(self, path: str, obj: ApiObject) -> dict[str, Any]:
        self._come("replace", path)
        if path not in self.objects and obj.get("kind") == "Lease" and "resourceVersion" not in obj["metadata"]:
            return self.put(path, obj)  # AllowCreateOnUpdate
        if path not in self.objects:
            raise NotFound(f"PUT {path}: not found")
        if obj["metadata"].get("resourceVersion") != self.objects[path]["metadata"]["resourceVersion"]:
            raise Conflict(f"PUT {path}: the object has been modified")
        return self.put(path, obj)

    def _come(self, verb: str, path: str) -> None:
        self.calls.append((verb, path))
        self.before(verb, path)


def unreachable(_verb: str, path: str) -> None:
    raise ObjectApiError(f"{path}: connection refused")
