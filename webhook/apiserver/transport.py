"""Connections to an API server, with the kubernetes client's configuration and its urllib3 pool."""

from __future__ import annotations

import os
from contextlib import suppress
from os.path import exists, expanduser
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from forewarn.policies.commands.impersonation import AS, AS_GROUPS, AS_UID, groups_of
from forewarn.webhook.apiserver.errors import ApiError, UnknownContext

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


_TOKEN: Final = "!#$&'*+-.^_`|~"
"""Characters of a header's name that Go does not escape; letters and digits apart. `%` is escaped."""


def headers_of(user: Any) -> list[tuple[str, str]]:
    """The headers that impersonate a user, in order; none if nothing is to be impersonated.

    `user`: the `user` of the kubeconfig's context. Options replace its fields one by one. Raises ApiError for fields
    of a wrong type, and for groups, uid or extra without a user, as kubectl does.
    """
    fields = user if isinstance(user, dict) else {}
    name = os.environ.get(AS) or fields.get("as") or ""
    uid = os.environ.get(AS_UID) or fields.get("as-uid") or ""
    groups = groups_of(os.environ.get(AS_GROUPS, "")) or fields.get("as-groups") or []
    extra = fields.get("as-user-extra") or {}
    if not (name or uid or groups or extra):
        return []
    if not (_are_texts([name, uid]) and _are_texts(groups) and _is_extra(extra)):
        raise ApiError(0, "the kubeconfig's as, as-uid, as-groups or as-user-extra has a wrong type")
    if not name:
        raise ApiError(
            0, "groups, uid or extra to impersonate without a user. Fix: add --as, or `as` in the kubeconfig"
        )
    return [(key, value.encode().decode("latin-1")) for key, value in _headers(name, uid, groups, extra)]


def _headers(name: str, uid: str, groups: list[str], extra: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    yield "Impersonate-User", name
    if uid:
        yield "Impersonate-Uid", uid
    for group in groups:
        yield "Impersonate-Group", group
    for key, values in extra.items():
        for value in values:
            yield f"Impersonate-Extra-{quote(key, safe=_TOKEN)}", value


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _is_extra(extra: Any) -> bool:
    return isinstance(extra, dict) and _are_texts(list(extra)) and all(map(_are_texts, extra.values()))


_IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"
_POOL: Final = 32
"""Maximum idle connections: one for each watched kind, and a few for other requests."""


class HttpCall(NamedTuple):
    """One HTTP request. Timeouts in seconds: to connect, and between two reads."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    connect_seconds: float
    read_seconds: float
    body: bytes | None = None
    repeats: int = 0
    """Maximum number of retries if an idle connection was closed."""


class Connection:
    """A connection pool to one API server, with credentials that the kubernetes client renews. Thread-safe."""

    def __init__(self, configuration: Any, pool: Any, impersonation: Sequence[tuple[str, str]] = ()) -> None:
        self._configuration, self._pool, self._impersonation = configuration, pool, impersonation
        self._base = str(configuration.host).rstrip("/")
        self._lock = Lock()

    def open(self, call: HttpCall) -> Any:
        """Send a request, and return the urllib3 response before its body is read. Raises ApiError if there is no
        response.
        """
        import urllib3

        try:
            return self._send(call)
        except urllib3.exceptions.ProtocolError as error:
            # The server has closed a connection that was kept, just as it was used again.
            if not call.repeats:
                raise self._unanswered(error) from None
            return self.open(call._replace(repeats=call.repeats - 1))
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._unanswered(error) from None

    def _send(self, call: HttpCall) -> Any:
        import urllib3

        headers = urllib3.HTTPHeaderDict({**call.headers, **self._credentials()})
        for name, value in self._impersonation:
            headers.add(name, value)
        return self._pool.request(
            call.method,
            f"{self._base}{call.path}" + (f"?{urlencode(call.query)}" if call.query else ""),
            body=call.body,
            headers=headers,
            timeout=urllib3.Timeout(connect=call.connect_seconds, read=call.read_seconds),
            retries=False,
            redirect=False,
            preload_content=False,
        )

    def _unanswered(self, error: Exception) -> ApiError:
        return error if isinstance(error, ApiError) else ApiError(0, f"{self._base} does not answer: {_reason(error)}")

    def close(self) -> None:
        self._pool.clear()

    def _credentials(self) -> dict[str, str]:
        """The Authorization header with a bearer token, renewed if it expires soon. Raises ApiError."""
        with self._lock:
            try:
                settings = self._configuration.auth_settings().values()
            except Exception as error:  # whatever a credential plugin or an identity provider comes up with
                raise ApiError(0, f"cannot renew the credentials: {error}") from None
        return {str(s["key"]): str(s["value"]).strip() for s in settings if s.get("in") == "header" and s.get("value")}


def connect(context: str = "") -> Connection:
    """Connect with the kubeconfig (KUBECONFIG, else ~/.kube/config), or as a Pod if there is none.

    `context`: "" for the current context. Raises ApiError if a package, file or context is missing.
    """
    try:
        import urllib3
        from kubernetes import client, config
    except ModuleNotFoundError as missing:
        raise ApiError(0, f"{missing.name} is not installed; install forewarn with the extra `live`") from None
    configuration = client.Configuration()
    user = None
    if context or _kubeconfig() or _IN_CLUSTER not in os.environ:
        user = _read_kubeconfig(config, configuration, context)
    else:
        _read_service_account(config, configuration)
    configuration.connection_pool_maxsize = _POOL
    if not configuration.verify_ssl:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # as the kubeconfig wants it
    return Connection(configuration, client.ApiClient(configuration).rest_client.pool_manager, headers_of(user))


def contexts() -> list[str]:
    """The names of the kubeconfig's contexts, sorted. Raises ApiError."""
    try:
        from kubernetes import config
    except ModuleNotFoundError as missing:
        raise ApiError(0, f"{missing.name} is not installed; install forewarn with the extra `live`") from None
    path = _required_kubeconfig("")
    names = _contexts(config, path)
    if names is None:
        raise ApiError(0, f"cannot read the contexts of the kubeconfig {path}")
    return list(dict.fromkeys(names))


def _required_kubeconfig(otherwise: str) -> str:
    path = _kubeconfig()
    if not path:
        given = os.environ.get("KUBECONFIG")
        where = f"$KUBECONFIG: {given}" if given else "$KUBECONFIG, ~/.kube/config"
        raise ApiError(0, f"no kubeconfig found ({where}){otherwise}")
    return path


def _read_kubeconfig(config: Any, configuration: Any, context: str) -> Any:
    """Fill the configuration from the kubeconfig, and return the fields of the context's user."""
    path = _required_kubeconfig(" and not running in a cluster")
    try:
        config.load_kube_config(config_file=path, context=context or None, client_configuration=configuration)
        return _user_of(config.kube_config.KubeConfigMerger(path).config.value, context)
    except Exception as error:  # the client answers a malformed kubeconfig with whatever comes up
        entries = _contexts(config, path)
        if context and entries is not None and context not in entries:
            why = f'context "{context}" not found in {path}; known: {", ".join(entries) or "none"}'
            raise UnknownContext(0, why) from None
        raise ApiError(0, f"cannot use the kubeconfig {path}: {_reason(error)}") from None


def _user_of(value: Any, context: str) -> Any:
    """The fields of a context's user. `value`: of the merged kubeconfig. Raises any exception if malformed."""
    context = context or value["current-context"]
    name = next(entry for entry in value["contexts"] if entry["name"] == context).value["context"].get("user")
    return next((entry.value.get("user") for entry in value.get("users") or () if entry["name"] == name), None)


def current_context() -> str:
    """The name of the kubeconfig's current context; "" without a kubeconfig or current context."""
    path = _kubeconfig()
    if not path:
        return ""
    from kubernetes import config

    try:
        return str(config.list_kube_config_contexts(config_file=path)[1]["name"])
    except Exception:  # as malformed as what could not be loaded
        return ""


def impersonated_user(context: str) -> str:
    """The user that requests of a context impersonate; "" if none, or if the kubeconfig is missing or malformed."""
    user, path = None, _kubeconfig()
    with suppress(Exception):  # as malformed as what could not be loaded
        from kubernetes import config

        user = _user_of(config.kube_config.KubeConfigMerger(path).config.value, context) if path else None
    with suppress(ApiError):
        names = (value for key, value in headers_of(user) if key == "Impersonate-User")
        return next(names, "").encode("latin-1").decode(errors="replace")
    return ""


def _contexts(config: Any, path: str) -> list[str] | None:
    """Return the sorted names of all contexts in a kubeconfig; None if the file is invalid."""
    try:
        contexts = config.kube_config.KubeConfigMerger(path).config.value["contexts"]
        return sorted(str(context["name"]) for context in contexts)
    except Exception:  # as malformed as what could not be loaded
        return None


def _read_service_account(config: Any, configuration: Any) -> None:
    try:
        config.load_incluster_config(client_configuration=configuration)
    except Exception as error:
        why = f"cannot use the Pod's service account: {_reason(error).rstrip('.')} (automountServiceAccountToken?)"
        raise ApiError(0, why) from None


def _kubeconfig() -> str:
    """Return the existing kubeconfig files, separated as in KUBECONFIG; "" if there are none."""
    given = os.environ.get("KUBECONFIG") or "~/.kube/config"
    # os.path leaves a ~ in place where there is no home; pathlib raises.
    return os.pathsep.join(path for path in given.split(os.pathsep) if path and exists(expanduser(path)))


def _reason(error: BaseException) -> str:
    """The root cause of an error in one line, without urllib3's texts about the pool."""
    cause = getattr(error, "reason", None)
    if isinstance(cause, BaseException):
        return _reason(cause)
    cause = error.__cause__ or error
    text = (
        (getattr(cause, "strerror", None) if isinstance(cause, OSError) else "") or str(cause) or type(error).__name__
    )
    return " ".join(text.rpartition(">: ")[2].split())
