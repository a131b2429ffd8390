"""Reads the configuration file: accepts the whole file, or rejects it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.disclosure import Disclose
from forewarn.policies.base.findings import Action, Severity, cut, listed, nearest_word
from forewarn.policies.inputs.manifests.documents import Document, Fault, as_utf8, split
from forewarn.policies.inputs.manifests.yaml import nodes
from forewarn.policies.inputs.manifests.yaml.nodes import check_as_kubectl
from forewarn.policies.inputs.manifests.yaml.source import Construction, is_merge, scalar_value
from forewarn.policies.inputs.sources.files import unreadable
from forewarn.policies.kubernetes import options
from forewarn.policies.kubernetes.kinds.class_paths import ITEMS, VALUES, BadPath, ClassPath, parse_path
from forewarn.policies.kubernetes.kinds.registry import BY_GROUP_KIND
from forewarn.policies.kubernetes.objects.priority_class import HOSTED_CLASSES
from forewarn.policies.kubernetes.selectors import InvalidSelector, LabelSelector, PodPattern, parse_label_selector
from forewarn.policies.linting.config.model import Annotate, Budget, Config, ConfigError, Exemption, RepeatedWarnings
from forewarn.policies.linting.rules import RULES
from forewarn.policies.linting.rules.support.context import linter_severity

if TYPE_CHECKING:
    from enum import StrEnum


_Readers = Mapping[str, Callable[["ConfigNode"], Any]]
"""Key of a mapping -> the function that returns its value."""
_OUTER: Final = ("apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1")
_INNER: Final[Mapping[str, str]] = {
    "apiserver.config.k8s.io/v1": "ResourceQuotaConfiguration",
    "resourcequota.admission.k8s.io/v1beta1": "Configuration",
    "resourcequota.admission.k8s.io/v1alpha1": "Configuration",
}


def load_limited_resources(path: Path | str) -> tuple[options.LimitedResource, ...]:
    """The limitedResources of an AdmissionConfiguration file. A relative `path` starts at its directory.

    Raises ConfigError.
    """
    file = Path(path)
    entry = parse(contents(file, _MAX_CONFIG), str(path))
    fields = dict(entry.items())
    _expect(entry, fields, "kind", ("AdmissionConfiguration",))
    _expect(entry, fields, "apiVersion", _OUTER)
    fields = entry.fields(("apiVersion", "kind", "plugins"))
    for plugin in fields["plugins"].elements() if "plugins" in fields else ():
        given = plugin.fields(("name", "path", "configuration"))
        if "name" in given and given["name"].text() == "ResourceQuota":
            return _plugin(given, file.parent)
    return ()


def _plugin(fields: Mapping[str, ConfigNode], folder: Path) -> tuple[options.LimitedResource, ...]:
    """The limitedResources of the ResourceQuota plugin: its inline `configuration`, otherwise the file at `path`."""
    if "configuration" in fields:
        return _parse_configuration(fields["configuration"])
    if "path" in fields:
        file = folder / fields["path"].text()
        if file.exists() and not file.is_file():
            raise fields["path"].fault("must be a regular file")
        return _parse_configuration(parse(contents(file, _MAX_CONFIG), str(file)))
    return ()


def _parse_configuration(entry: ConfigNode) -> tuple[options.LimitedResource, ...]:
    fields = dict(entry.items())
    version = _expect(entry, fields, "apiVersion", tuple(_INNER))
    _expect(entry, fields, "kind", (_INNER[version],))
    readers = {"apiVersion": ConfigNode.text, "kind": ConfigNode.text, "limitedResources": _each(limited_resource)}
    limited: tuple[options.LimitedResource, ...] = entry.read(readers).get("limited_resources", ())
    return limited


def limited_resource(entry: ConfigNode) -> options.LimitedResource:
    """Parse one entry of limitedResources. Raises ConfigError."""
    texts = {"apiGroup": ConfigNode.text, "resource": ConfigNode.text}
    given = entry.read({**texts, "matchContains": ConfigNode.texts, "matchScopes": _each(_scope)})
    if not given.get("resource"):
        raise entry.fault("resource is missing. Fix: set the limited resource, such as pods")
    return options.LimitedResource(**given)


def _scope(entry: ConfigNode) -> options.ScopeSelector:
    operator = partial(ConfigNode.word, words=("In", "NotIn", "Exists", "DoesNotExist"), what="operator")
    readers: _Readers = {"scopeName": ConfigNode.text, "operator": operator, "values": ConfigNode.texts}
    return options.ScopeSelector(**entry.read(readers, required=("scopeName", "operator")))


def _expect(entry: ConfigNode, fields: Mapping[str, ConfigNode], key: str, values: tuple[str, ...]) -> str:
    """Return the value of a header field. Raises ConfigError if missing or not in `known`."""
    if key not in fields:
        raise entry.fault(f"{key} is missing: must be {' or '.join(values)}")
    if fields[key].text() not in values:
        raise fields[key].fault(f'must be {" or ".join(values)}, not "{fields[key].text()}"')
    return fields[key].text()


_UPPER: Final = re.compile("[A-Z]")
_MAX_LENGTH: Final = 4 << 20
_MAX_CONFIG: Final = 256 << 10
MAX_ENTRIES: Final = 1000
"""Maximum number of entries of a list in the configuration."""
_DEEPEST: Final = 50
_SHOWN: Final = 300
"""Maximum characters of a path in a message."""


@dataclass(frozen=True, slots=True)
class ConfigNode:
    """A value in a configuration file, with its position. The methods that read the value raise ConfigError."""

    file: str
    node: nodes.Node | None
    document: Document | None = None
    path: str = ""

    def fault(self, problem: str) -> ConfigError:
        """A ConfigError at this position."""
        return _error_at(self.file, self.place, f"{cut(self.path, _SHOWN) + ': ' if self.path else ''}{problem}")

    @property
    def place(self) -> tuple[int, int]:
        """Line and column of the value, from 1; (0, 0) without a value."""
        if self.node is None or self.document is None:
            return 0, 0
        location = self.document.location(self.node.start)
        return location.line, location.column

    def _child_at(self, node: nodes.Node, path: str) -> ConfigNode:
        return ConfigNode(self.file, node, self.document, path)

    @property
    def mapping(self) -> nodes.Collection | None:
        """The node of a mapping; None for other values."""
        return self.node if isinstance(self.node, nodes.Collection) and self.node.is_mapping else None

    @property
    def sequence(self) -> nodes.Collection | None:
        """The node of a list; None for other values."""
        return self.node if isinstance(self.node, nodes.Collection) and not self.node.is_mapping else None

    @property
    def written(self) -> str:
        """The text of a scalar; "" for other values."""
        return self.node.text if isinstance(self.node, nodes.Scalar) else ""

    @property
    def is_empty(self) -> bool:
        return self.node is None or (isinstance(self.node, nodes.Scalar) and self.node.text == "")

    def items(self, names: Collection[str] | None = None, what: str = "key") -> Iterator[tuple[str, ConfigNode]]:
        """Yield the entries of a mapping. Raises ConfigError for an unknown key, with the most similar known key.

        `names`: the valid keys; None: any. `what`: the name of a key in errors.
        """
        if self._empty():
            return
        if self.mapping is None:
            raise self.fault("must be a mapping")
        seen, children = set(), iter(self.mapping.children)
        for key_node, value_node in zip(children, children, strict=True):
            entry = self._child_at(key_node, self.path)
            if not isinstance(key_node, nodes.Scalar):
                raise entry.fault("a mapping or a list cannot be a key")
            key = key_node.text
            if key in seen:
                raise entry.fault(f'"{key}" is duplicated')
            if names is not None and key not in names:
                raise entry.fault(f'unknown {what} "{key}"{_suggestion(key, names)}')
            seen.add(key)
            yield key, self._child_at(value_node, f"{self.path}.{key}".lstrip("."))

    def fields(self, names: Collection[str], required: Collection[str] = ()) -> dict[str, ConfigNode]:
        """The entries of a mapping by key. Raises ConfigError for an unknown key, and if a required one is missing."""
        given = dict(self.items(names))
        for key in required:
            if key not in given:
                raise self.fault(f"{key} is missing")
        return given

    def read(self, readers: _Readers, required: Collection[str] = ()) -> dict[str, Any]:
        """The values of a mapping, by key in snake case. `readers`: key -> the function that returns its value."""
        given = self.fields(readers, required)
        return {_UPPER.sub(r"_\g<0>", key).lower(): readers[key](value) for key, value in given.items()}

    def elements(self) -> Iterator[ConfigNode]:
        """The entries of a list."""
        if self._empty():
            return
        if self.sequence is None:
            raise self.fault("must be a list")
        for index, node in enumerate(self.sequence.children):
            yield self._child_at(node, f"{self.path}[{index}]")

    def few(self) -> Iterator[ConfigNode]:
        """The entries of a list of at most MAX_ENTRIES."""
        if self.sequence is not None and len(self.sequence.children) > MAX_ENTRIES:
            raise self.fault(f"has more than {MAX_ENTRIES} entries. Fix: use patterns such as team-*")
        return self.elements()

    def text(self) -> str:
        """Return the value as text; booleans and numbers as written."""
        if not isinstance(self.node, nodes.Scalar) or self._empty():
            raise self.fault("must be a string")
        return self.node.text

    def texts(self) -> tuple[str, ...]:
        return tuple(element.text() for element in self.few())

    def integer(self) -> int:
        """The value as a whole number."""
        try:
            return int(self.text())
        except ValueError:
            raise self.fault(f'must be a whole number, not "{self.text()}"') from None

    def boolean(self) -> bool:
        """The value as a boolean: `true` or `false`."""
        text = self.text()
        if text not in ("true", "false"):
            raise self.fault(f'must be true or false, not "{text}"')
        return text == "true"

    def date(self) -> str:
        """The value as a date, for example 2027-01-31."""
        try:
            return date.fromisoformat(self.text()).isoformat()
        except ValueError:
            raise self.fault(f'must be a date such as 2027-01-31, not "{self.text()[:80]}"') from None

    def word(self, words: Collection[str], what: str) -> str:
        """Return the value, which must be one of `words`. `what`: the name of the value in errors."""
        text = self.text()
        if text not in words:
            raise self.fault(f'unknown {what} "{text}"{_suggestion(text, words)}')
        return text

    def plain(self) -> Any:
        """Return the value as plain Python types (dict, list, str …)."""
        try:
            return Construction(self.node).value
        except Fault as fault:
            raise self.located(fault) from None

    def located(self, fault: Fault) -> ConfigError:
        """A ConfigError for a problem of the document's text."""
        assert self.document is not None
        location = self.document.location(fault.start)
        return _error_at(self.file, (location.line, location.column), fault.message)

    def _empty(self) -> bool:
        try:
            return self.node is None or (isinstance(self.node, nodes.Scalar) and scalar_value(self.node) is None)
        except Fault as fault:
            raise self.located(fault) from None


def _error_at(file: str, place: tuple[int, int], problem: str) -> ConfigError:
    line, column = place
    if len(problem) > 3 * _SHOWN:
        problem = f"{problem[: 2 * _SHOWN]} … {problem[-_SHOWN:]}"
    return ConfigError(f"{file}:{line}:{column}: {problem}" if line else f"{file}: {problem}")


def contents(path: Path | str, limit: int = _MAX_LENGTH) -> bytes:
    """The bytes of a configuration file. Raises ConfigError, also for a file of more than `limit` bytes."""
    try:
        with open(path, "rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise ConfigError(str(unreadable(str(path), error))) from None
    if len(data) > limit:
        raise ConfigError(f"{path}: larger than {limit >> 10} KiB, the limit for a configuration file")
    return data


def parse(text: str | bytes, file: str) -> ConfigNode:
    """Parse a file with one document. Raises ConfigError, also for aliases, merge keys and a second document."""
    documents = [*_documents(text.encode() if isinstance(text, str) else text, file)]
    if len(documents) > 1:
        raise documents[1].fault("more than one YAML document; a configuration is one")
    return documents[0] if documents else ConfigNode(file, None)


def _documents(data: bytes, file: str) -> Iterator[ConfigNode]:
    """Yield the documents of a YAML text that are not empty. Raises ConfigError."""
    for piece in split(as_utf8(data), file):
        document, fault = piece if isinstance(piece, tuple) else (piece, None)
        entry = ConfigNode(file, None, document)
        try:
            if fault is not None:
                raise fault
            check_as_kubectl(document)
            root, unread = nodes.compose(document)
            if unread is not None:
                raise unread
            if root is not None:
                _check(root)
                yield ConfigNode(file, root, document)
        except Fault as found:
            raise entry.located(found) from None


def _check(root: nodes.Node) -> None:
    """Raise Fault for an alias, a merge key, and deep nesting: a configuration is as large as its text."""
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, nodes.Alias):
            raise Fault("a configuration has no aliases. Fix: write the value of the anchor here", node.start, node.end)
        if isinstance(node, nodes.Collection):
            if depth >= _DEEPEST:
                raise Fault(f"nested deeper than {_DEEPEST} levels", node.start, node.start + 1)
            if node.is_mapping and (merge := next(filter(is_merge, node.children[::2]), None)):
                raise Fault(
                    "a configuration has no merge keys (<<). Fix: write the entries here", merge.start, merge.end
                )
            stack += [(child, depth + 1) for child in reversed(node.children)]


def place_of_entry(data: bytes, number: int) -> tuple[int, int]:
    """Return line and column of the entry with this number; all count from 1. (0, 0) if there is no such entry.

    Each YAML document is a list of entries, or one entry; empty documents do not count. `data` must be valid YAML.
    """
    with suppress(ConfigError):  # for an alias, which is valid in such a file
        for entry in _documents(data, ""):
            for each in entry.elements() if entry.sequence else () if entry.is_empty else (entry,):
                number -= 1
                if number == 0:
                    return each.place
    return 0, 0


def _suggestion(word: str, words: Collection[str]) -> str:
    near = nearest_word(word, words)
    return f'; did you mean "{near}"?' if near else f"; known: {listed(sorted(words), 12)}"


_RULES: Final = {rule.ID: rule for rule in RULES}
_SEVERITIES: Final = {str(severity): severity for severity in Severity}


def load_config(path: Path | str) -> Config:
    """Read a configuration file. Raises ConfigError, even if it cannot be opened."""
    return read_config(contents(path, _MAX_CONFIG), str(path))


def is_empty(path: Path | str) -> bool:
    """True if a configuration file has no content except comments. Raises ConfigError."""
    return parse(contents(path, _MAX_CONFIG), str(path)).is_empty


def read_config(text: str | bytes, file: str) -> Config:
    """Parse a configuration. Raises ConfigError for the first error."""
    config = Config()
    entries = dict(parse(text, file).items(READERS))
    for key in sorted(entries, key=_NAMES_RULES.__ne__):  # first: other entries may name these rules
        config = READERS[key](config, entries[key])
    return config


_NAMES_RULES: Final = "rules"


def _rules(config: Config, entry: ConfigNode) -> Config:
    for element in entry.elements():
        if not _FOREIGN.fullmatch(element.text()):
            form = "must be the id of a rule of another package, PACKAGE.RULE"
            raise element.fault(f'{form}, not "{element.text()[:80]}"')
    return config._replace(rules=tuple(dict.fromkeys(entry.texts())))


_FOREIGN: Final = re.compile(r"[a-z][a-z0-9-]*\.[a-z][a-z0-9-]*")


def _actions(config: Config, entry: ConfigNode) -> Config:
    actions = {}
    for rule, value in entry.items(_RULES, "rule"):
        actions[rule] = Action(value.word([a.value for a in Action], "action"))
        if _RULES[rule].ACTION is None and actions[rule] is not Action.OFF:
            raise value.fault('a linter-only rule has no action except "off". Fix: use severities')
    return config._replace(actions=actions)


def _severities(config: Config, entry: ConfigNode) -> Config:
    severities = {}
    for rule, value in entry.items((*_RULES, *config.rules), "rule"):
        if rule in _RULES and linter_severity(_RULES[rule]) is None:
            raise value.fault("a webhook-only rule has no severity. Fix: use actions")
        severities[rule] = _SEVERITIES[value.word(_SEVERITIES, "severity")]
    return config._replace(severities=severities)


def _each(read: Callable[[ConfigNode], Any]) -> Callable[[ConfigNode], tuple[Any, ...]]:
    return lambda entry: tuple(map(read, entry.few()))


def _choice(choices: type[StrEnum]) -> Callable[[ConfigNode], StrEnum]:
    return lambda entry: choices(entry.word(list(choices), "choice"))


def _field(name: str, read: Callable[[ConfigNode], Any]) -> Callable[[Config, ConfigNode], Config]:
    return lambda config, entry: config._replace(**{name: read(entry)})


def _option(name: str, read: Callable[[ConfigNode], Any]) -> Callable[[Config, ConfigNode], Config]:
    def reader(config: Config, entry: ConfigNode) -> Config:
        changes: dict[str, Any] = {name: read(entry)}
        return config._replace(options=config.options._replace(**changes))

    return reader


def _parts(name: str, readers: _Readers) -> Callable[[Config, ConfigNode], Config]:
    return lambda config, entry: config._replace(**{name: getattr(config, name)._replace(**entry.read(readers))})


def _template_paths(config: Config, entry: ConfigNode) -> Config:
    """Read podTemplatePaths: a kind with one path without wildcards counts as a workload.

    Several paths, and paths into lists or maps, are only for the linter. `predict` and simulations ignore these kinds.
    """
    given = config.options
    templates, parts = dict(given.pod_template_paths), dict(given.class_paths)
    for kind, value in entry.items():
        class_paths = _class_paths(_kind(kind, value), value, is_name=False)
        named = tuple(path for path in parts.get(kind, ()) if path.is_name)
        if len(class_paths) == 1 and not {ITEMS, VALUES} & set(class_paths[0].steps):
            templates[kind] = class_paths[0].steps
            class_paths = ()
        parts[kind] = (*class_paths, *named)
    return config._replace(options=given._replace(pod_template_paths=templates, class_paths=parts))


def _name_paths(config: Config, entry: ConfigNode) -> Config:
    paths = dict(config.options.class_paths)
    for kind, value in entry.items():
        templates = (path for path in paths.get(kind, ()) if not path.is_name)
        paths[kind] = (*templates, *_class_paths(_kind(kind, value), value, is_name=True))
    return config._replace(options=config.options._replace(class_paths=paths))


def _kind(kind: str, value: ConfigNode) -> str:
    group, slash, name = kind.rpartition("/")
    if not slash or not name or "." in name or "/" in group:
        raise value.fault(f'"{kind}" must be group/Kind, such as argoproj.io/Rollout')
    if kind in BY_GROUP_KIND:
        raise value.fault(f"{name} is a built-in kind. Fix: list custom kinds only")
    return kind


def _class_paths(kind: str, value: ConfigNode, *, is_name: bool) -> tuple[ClassPath, ...]:
    entries = list(value.elements()) if value.sequence else [value]
    if not entries:
        raise value.fault(f"names no path of {kind}")
    paths = []
    for entry in entries:
        try:
            paths.append(parse_path(entry.text(), is_name=is_name))
        except BadPath as fault:
            raise entry.fault(str(fault)) from None
    return tuple(paths)


def _budget(entry: ConfigNode) -> Budget:
    return Budget(**entry.read(dict.fromkeys(Budget._fields, _predictions), required=Budget._fields))


def _predictions(entry: ConfigNode) -> int:
    if not 0 <= (number := entry.integer()) <= MAX_PREDICTIONS:
        raise entry.fault(f"must be between 0 and {MAX_PREDICTIONS}")
    return number


MAX_PREDICTIONS: Final = 1_000_000
"""Maximum value of a prediction budget per hour."""


def _exemption(entry: ConfigNode) -> Exemption:
    missing = "reason is missing. Fix: add one; it is logged with every exempt request"
    return Exemption(**_conditioned(entry, "reason", ConfigNode.text, missing, "exempts everything"))


def _conditioned(
    entry: ConfigNode, key: str, read: Callable[[ConfigNode], Any], missing: str, unlimited: str
) -> dict[str, Any]:
    """The values of an entry with a required key and at least one condition. `missing`, `unlimited`: the errors."""
    given = entry.read({key: read, **_CONDITIONS})
    if not given.get(key):
        raise entry.fault(missing)
    if len(given) == 1:
        raise entry.fault(f"{unlimited}. Fix: set namespaces, a namespaceSelector, users or groups")
    return given


def _duration(entry: ConfigNode) -> timedelta:
    amount = _DURATION.fullmatch(entry.text())
    if amount is None:
        raise entry.fault(f'must be a duration in d, h or m, such as 72h, not "{entry.text()[:80]}"')
    return int(amount[1]) * _UNITS[amount[2]]


_DURATION: Final = re.compile(r"([0-9]{1,6})([dhm])", re.ASCII)
_BREAK_GLASS: Final[_Readers] = {"groups": ConfigNode.texts, "maxDuration": _duration}
_UNITS: Final = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}


def _allowed_classes(entry: ConfigNode) -> options.AllowedClasses:
    missing = "classes is missing. Fix: list the PriorityClasses"
    return options.AllowedClasses(**_conditioned(entry, "classes", ConfigNode.texts, missing, "allows them to all"))


def _required_classes(entry: ConfigNode) -> options.RequiredClasses:
    given = entry.read(dict.fromkeys(options.RequiredClasses._fields, ConfigNode.texts))
    if not given.get("namespaces") and not given.get("kinds"):
        raise entry.fault("applies to all Pods. Fix: set namespaces or kinds")
    return options.RequiredClasses(**given)


def _promises(entry: ConfigNode) -> tuple[options.Promise, ...]:
    promises = tuple(_promise(element, number) for number, element in enumerate(entry.elements(), 1))
    if len(promises) > _MAX_PROMISES:
        raise entry.fault(f"more than {_MAX_PROMISES} expectations")
    return promises


def _promise(entry: ConfigNode, number: int) -> options.Promise:
    """Parse one expectation of the configuration. `number`: its position, from 1. Raises ConfigError."""
    given = entry.fields(("name", "when", "expect"), required=("name", "expect"))
    if "when" in given:
        raise given["when"].fault("not supported in the configuration. Fix: use `forewarn test`")
    name = given["name"].text()
    if not 0 < len(name) <= _MAX_NAME_LENGTH:
        raise given["name"].fault(f"must have between 1 and {_MAX_NAME_LENGTH} characters")
    expected = given["expect"].fields((*_EXPECTED, *_SIMULATED))
    for key in _SIMULATED:
        if key in expected:
            raise expected[key].fault("not supported in the configuration. Fix: use `forewarn test`")
    if "noPreemption" not in expected:
        raise given["expect"].fault("noPreemption is missing")
    by = _pods(expected["by"]) if "by" in expected else PodPattern()
    return options.Promise(name, number, _pods(expected["noPreemption"]), by)


_MAX_PROMISES: Final = 100
_MAX_NAME_LENGTH: Final = 200
_EXPECTED: Final = ("noPreemption", "by")
_SIMULATED: Final = ("run", "within", "noPending", "fit")


def _pods(entry: ConfigNode) -> PodPattern:
    given = {key: value.text() for key, value in entry.items(("namespace", "class", "workload"))}
    return PodPattern(given.get("namespace"), given.get("class"), given.get("workload"))


def _some(entry: ConfigNode) -> tuple[str, ...]:
    if not (texts := entry.texts()):
        raise entry.fault("must not be empty. Fix: list at least one, or remove the key")
    return texts


def _selector(entry: ConfigNode) -> LabelSelector | None:
    keys = entry.fields(("matchLabels", "matchExpressions"))
    try:
        selector = parse_label_selector({key: value.plain() for key, value in keys.items()})
    except InvalidSelector as fault:
        raise entry.fault(str(fault)) from None
    if selector is None or selector.empty:
        raise entry.fault("selects everything. Fix: set at least one label")
    return selector


_CONDITIONS: Final[_Readers] = {"namespaces": _some, "namespaceSelector": _selector, "users": _some, "groups": _some}
"""The conditions of an exemption or of allowed classes."""


def _group(entry: ConfigNode) -> options.NamedGroup:
    readers = {"name": ConfigNode.text, "paths": ConfigNode.texts}
    return options.NamedGroup(**entry.read(readers, required=readers))


def _suppressions(config: Config, entry: ConfigNode) -> Config:
    ignored = tuple(_ignored(element, config.rules) for element in entry.few())
    return config._replace(options=config.options._replace(ignored=ignored))


def _ignored(entry: ConfigNode, foreign: tuple[str, ...]) -> options.Ignored:
    readers: _Readers = {
        "rules": _each(lambda rule: rule.word((*_RULES, *foreign), "rule")),
        "reason": _reason,
        "until": ConfigNode.date,
        **dict.fromkeys(("paths", "objects"), ConfigNode.texts),
    }
    given = entry.read(readers, required=("rules", "reason"))
    if not (given.get("paths") or given.get("objects")):
        raise entry.fault("suppresses the rules everywhere. Fix: set paths or objects, or use actions: {RULE: off}")
    return options.Ignored(**given, file=entry.file, line=entry.place[0])


def _reason(entry: ConfigNode) -> str:
    if not entry.text():
        raise entry.fault("must not be empty")
    return entry.text()


READERS: Final[Mapping[str, Callable[[Config, ConfigNode], Config]]] = {
    "rules": _rules,
    "actions": _actions,
    "severities": _severities,
    "autoscalerCutoff": _option("autoscaler_cutoff", ConfigNode.integer),
    "placeholderPods": _option("placeholder_pods", _selector),
    "podTemplatePaths": _template_paths,
    "priorityClassPaths": _name_paths,
    "recreatesPods": _option("recreates_pods", _each(lambda entry: _kind(entry.text(), entry))),
    "limitedResources": _option("limited_resources", _each(limited_resource)),
    "allowedClasses": _option("allowed_classes", _each(_allowed_classes)),
    "requiredClasses": _option("required_classes", _each(_required_classes)),
    "expectations": _option("promises", _promises),
    "annotate": _field("annotate", _choice(Annotate)),
    "exemptions": _field("exemptions", _each(_exemption)),
    "disclose": _field("disclose", _choice(Disclose)),
    "discloseTo": _parts("disclose_to", {"groups": ConfigNode.texts, "subjectAccessReview": ConfigNode.boolean}),
    "predictionBudget": _parts("prediction_budget", {"user": _budget, "namespace": _budget}),
    "repeatedWarnings": _field("repeated_warnings", _choice(RepeatedWarnings)),
    "breakGlass": _option("break_glass", lambda entry: options.BreakGlass(**entry.read(_BREAK_GLASS))),
    "knownClasses": _option("known_classes", ConfigNode.texts),
    "preset": _option("preset", lambda entry: entry.word(HOSTED_CLASSES, "preset")),
    "groups": _option("groups", _each(_group)),
    "suppressions": _suppressions,
    "exclude": _option("exclude", ConfigNode.texts),
    "clusters": _option("clusters", lambda entry: tuple((name, value.texts()) for name, value in entry.items())),
}
