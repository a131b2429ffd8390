"""`--scheduler-config`: a KubeSchedulerConfiguration from a file, or the name of a preset.

Errors have a file, line and column. Unlike kube-scheduler, forewarn accepts unknown plugins: they run at the
extension points that name them, and forewarn does not predict outcomes that they may decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.copies import cached_in
from forewarn.policies.base.findings import Path as FieldPath
from forewarn.policies.base.findings import field_path
from forewarn.policies.linting.config.load import ConfigNode, contents, parse
from forewarn.policies.linting.config.model import ConfigError

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import FieldError
    from forewarn.policies.kubernetes.releases.semantics import SchedulerConfiguration, Semantics

_SHOWN: Final = 10
"""Maximum number of reported errors."""
_MAX_SIZE: Final = 1024 * 1024
"""Maximum bytes of a file."""
_MAX_DIGITS: Final = 4000
_NUMERIC: Final = frozenset("+-.0123456789")


@dataclass(eq=False)
class SchedulerSource:
    """The configuration of a scheduler. Call the object with a release: the profiles depend on the release.

    `given`: the configuration as plain JSON values, unchanged. `entry`: the node in its file; None for a preset.
    """

    name: str
    given: Any
    entry: ConfigNode | None = None

    def __post_init__(self) -> None:
        self._by_release: dict[Semantics, SchedulerConfiguration] = {}

    def __call__(self, semantics: Semantics) -> SchedulerConfiguration:
        """The scheduler configuration for a release; the same object for the same release. Raises ConfigError."""
        return cached_in(self._by_release, semantics, lambda: self._read(semantics))

    def _read(self, semantics: Semantics) -> SchedulerConfiguration:
        from forewarn.policies.kubernetes.scheduling.configuration import InvalidConfiguration, scheduler_configuration
        from forewarn.policies.kubernetes.scheduling.foreign_plugins import named_only, with_installed
        from forewarn.policies.kubernetes.scheduling.framework import InvalidPlugin

        try:
            return scheduler_configuration(self.given, semantics, with_installed(), self.name, named_only)
        except InvalidPlugin as error:
            raise ConfigError(str(error)) from None
        except InvalidConfiguration as error:
            raise ConfigError("\n".join(self._messages(error.faults))) from None

    def _messages(self, faults: Sequence[FieldError]) -> list[str]:
        shown, entry = faults[:_SHOWN], self.entry
        more = [f"and {len(faults) - _SHOWN} more faults"] if len(faults) > _SHOWN else []
        if entry is None:
            return [*(f"{self.name}: {fault}" for fault in shown), *more]
        return [*(str(_entry_at(entry, fault.path).fault(fault.text)) for fault in shown), *more]


def scheduler_source(source: str) -> SchedulerSource:
    """Read a file (a path with a dot or slash, or an existing file), or a preset. Raises ConfigError."""
    from forewarn.policies.kubernetes.scheduling.configuration import PRESETS
    from forewarn.policies.linting.rules.support.names import suggested

    if source in PRESETS:
        return SchedulerSource(source, PRESETS[source])
    path = Path(source)
    if "/" not in source and "." not in source and not path.exists():
        raise ConfigError(f'"{source}": no such file or preset{suggested(source, PRESETS)}')
    return read_scheduler(contents(path, _MAX_SIZE), source)


def read_scheduler(text: bytes, file: str) -> SchedulerSource:
    """Parse a configuration. Raises ConfigError for invalid YAML and duplicate keys."""
    entry = parse(text, file)
    _check(entry)
    return SchedulerSource(file, None if entry.is_empty else entry.plain(), entry)


def _check(entry: ConfigNode) -> None:
    """Raise ConfigError for duplicate keys, and numbers with too many digits."""
    left = [entry]
    while left:
        inner = left.pop()
        text = inner.written
        if len(text) > _MAX_DIGITS and text[:1] in _NUMERIC:
            raise inner.fault(f"{len(text)} characters, more than any valid value")
        left += _inside(inner).values()


def _inside(entry: ConfigNode) -> Mapping[str | int, ConfigNode]:
    """Return the values of a mapping by key, or those of a list by index."""
    if entry.mapping:
        return dict(entry.items())
    return dict(enumerate(entry.elements())) if entry.sequence else {}


def _entry_at(entry: ConfigNode, path: FieldPath) -> ConfigNode:
    """The entry at a path, or the innermost existing entry on the path."""
    for part in path:
        inner = _inside(entry).get(part)
        if inner is None:
            return replace(entry, path=field_path(path))
        entry = inner
    return entry
