"""CEL selectors of devices. Source: dynamic-resource-allocation `cel/compile.go`.

cel-python parses and evaluates; each step has a cost, and an expression has a limit. Unsupported parts of Kubernetes'
CEL (cel.bind, optional fields, parts of the libraries) raise `NotModelled`; they never give a result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.metering import meter
from forewarn.policies.kubernetes.quantity import NANO, InvalidQuantity, parse_quantity

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.devices import Attribute, Device

MAX_TEXT: Final = 10 * 1024
"""Maximum characters of an expression (upstream `CELSelectorExpressionMaxLength`)."""
MAX_RETAINED: Final = 8 * 1024 * 1024
"""Maximum size of the cache of matches, in characters: those of the expression and 100 for each entry."""
_ENTRY: Final = 100
MAX_STEPS: Final = 20_000
"""Maximum number of steps of one expression for one device."""


class NotModelled(Exception):
    """The error for an expression with parts that forewarn does not support."""


class SelectorError(Exception):
    """The error with which an expression fails in kube-scheduler, too, for example for a missing attribute."""


class Selectors:
    """A cache of matches of selectors and devices, with a maximum size. Thread-safe."""

    def __init__(self) -> None:
        self._cache = _Cache({}, {})

    def match(self, expressions: tuple[str, ...], driver: str, device: Device) -> bool:
        """Report whether all expressions match a device of a driver. Raises NotModelled and SelectorError."""
        cache = self._cache
        cache.devices[id(device)] = device  # keeps the id unique
        for expression in expressions:
            key = expression, id(device)
            matches = cache.known.get(key)
            if matches is None:
                matches = cache.known[key] = _answer(expression, driver, device)
                cache.size += _ENTRY + len(expression)
                if cache.size > MAX_RETAINED:
                    self._cache = _Cache({}, {})
            if isinstance(matches, str):
                raise SelectorError(matches)
            if not matches:
                return False
        return True


@dataclass(slots=True)
class _Cache:
    """A cache: (expression, id of the device) -> whether the expression matches, or the error text.

    `devices`: the devices by `id()`; references to them keep the ids unique.
    """

    known: dict[tuple[str, int], bool | str]
    devices: dict[int, Device]
    size: int = 0


def _answer(expression: str, driver: str, device: Device) -> bool | str:
    try:
        return evaluate(expression, driver, device)
    except SelectorError as error:
        return str(error)


_latest: tuple[object, Selectors] = (None, Selectors())


def selectors_of(resource_slices: object) -> Selectors:
    """Return the cache of matches for a table of ResourceSlices. A new table gets a new cache."""
    global _latest
    objects, selectors = _latest
    if objects is not resource_slices:
        selectors = Selectors()
        _latest = resource_slices, selectors
    return selectors


def evaluate(expression: str, driver: str, device: Device) -> bool:
    """Report whether one expression matches a device. Raises NotModelled and SelectorError."""
    program = _program(expression)
    from celpy import CELEvalError, celtypes

    try:
        result = program.evaluate({"device": _device(driver, device)})
    except CELEvalError as error:
        message = str(error.args[0]) if error.args else ""
        if "undeclared reference" in message or "bad " in message[:4]:
            raise NotModelled(f"the selector {expression[:80]!r} uses what is not known here") from None
        raise SelectorError(f"CEL runtime error: {message[:200]}") from None
    except RecursionError:
        raise NotModelled(f"the selector {expression[:80]!r} is nested too deep") from None
    if not isinstance(result, bool | celtypes.BoolType):
        raise SelectorError("CEL result could not be converted to bool")
    return bool(result)


@lru_cache(maxsize=256)
def _program(expression: str) -> Any:
    try:
        import celpy
    except ModuleNotFoundError:
        raise NotModelled("selectors of devices need cel-python (forewarn's extra `devices`)") from None
    if len(expression) > MAX_TEXT:
        raise NotModelled(f"the selector {expression[:80]!r} is too long")
    environment = celpy.Environment(runner_class=_runner())
    try:
        return environment.program(environment.compile(expression), functions=_functions())
    except (celpy.CELParseError, RecursionError):
        raise NotModelled(f"the selector {expression[:80]!r} cannot be read here") from None


@lru_cache(maxsize=1)
def _runner() -> Any:
    """Return a CEL runner class that charges work for each step."""
    from celpy import InterpretedRunner
    from celpy.evaluation import Evaluator

    class Metered(Evaluator):  # type: ignore[misc]
        steps = MAX_STEPS

        def visit(self, tree: Any) -> Any:
            meter().charge(10)
            Metered.steps -= 1
            if Metered.steps < 0:
                raise NotModelled("a selector of devices takes too many steps")
            return super().visit(tree)

        def sub_evaluator(self, ast: Any) -> Any:
            return Metered(ast, activation=self.activation)

    class Runner(InterpretedRunner):  # type: ignore[misc]
        def evaluate(self, context: Any) -> Any:
            Metered.steps = MAX_STEPS
            return Metered(ast=self.ast, activation=self.new_activation()).evaluate(context)

    return Runner


@dataclass(frozen=True)
class Quantity:
    """A Kubernetes quantity. `rank`: in billionths."""

    rank: int


@dataclass(frozen=True)
class Semver:
    """A semantic version. `rank`: its sort key, with the three numbers first."""

    rank: tuple[tuple[int, ...], bool, tuple[tuple[int, int, str], ...]]


def semver(text: str) -> Semver:
    """Return a version; a release sorts after its pre-releases. Raises ValueError."""
    core, _, before = text.partition("+")[0].partition("-")
    numbers = core.split(".")
    if len(numbers) != 3 or not all(n.isdigit() and (n == "0" or n[0] != "0") for n in numbers):
        raise ValueError(f"{text[:40]!r} is no semantic version")
    identifiers = [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in (before.split(".") if before else ())]
    return Semver((tuple(map(int, numbers)), not before, tuple(identifiers)))


def _device(driver: str, device: Device) -> Any:
    from celpy.celtypes import BoolType, MapType, StringType

    class Domains(MapType):  # type: ignore[misc]
        """Domain -> attributes; an empty map for a missing domain, as in upstream."""

        def __getitem__(self, key: Any) -> Any:
            return super().__getitem__(key) if key in self else MapType()

    attributes, capacity = Domains(), Domains()
    for name, value in device.attributes.items():
        domain, own = _qualified(name, driver)
        dict.setdefault(attributes, StringType(domain), MapType())[StringType(own)] = _value(value)
    for name, nano in device.capacity.items():
        domain, own = _qualified(name, driver)
        dict.setdefault(capacity, StringType(domain), MapType())[StringType(own)] = Quantity(nano)
    parts = {
        "driver": StringType(driver),
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": BoolType(device.shared),
    }
    return MapType({StringType(name): part for name, part in parts.items()})


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, own = name.partition("/")
    return (domain, own) if slash else (driver, name)


def _value(value: Attribute) -> Any:
    from celpy.celtypes import BoolType, IntType, StringType

    if isinstance(value, tuple):
        try:
            return semver(value[1])
        except ValueError as error:
            raise SelectorError(f"parse semantic version: {error}") from None
    if isinstance(value, bool):
        return BoolType(value)
    return IntType(value) if isinstance(value, int) else StringType(value)


def _functions() -> dict[str, Callable[..., Any]]:
    """Return Kubernetes' own CEL functions, and CEL's equality between values of any types."""
    from celpy.celtypes import BoolType, IntType

    def same(a: Any, b: Any) -> Any:
        for side in (a, b):
            if isinstance(side, Exception):
                return side
        numbers = (IntType, float, int)
        both = isinstance(a, numbers) and isinstance(b, numbers) and not isinstance(a, bool) and not isinstance(b, bool)
        return BoolType((both or type(a) is type(b)) and a == b)

    def different(a: Any, b: Any) -> Any:
        is_same = same(a, b)
        return is_same if isinstance(is_same, Exception) else BoolType(not is_same)

    def compare(a: Any, b: Any) -> Any:
        return IntType((a.rank > b.rank) - (a.rank < b.rank))

    return {
        "_==_": same,
        "_!=_": different,
        "quantity": _quantity,
        "semver": lambda text: semver(str(text)),
        "compareTo": compare,
        "isGreaterThan": lambda a, b: BoolType(a.rank > b.rank),
        "isLessThan": lambda a, b: BoolType(a.rank < b.rank),
        "isInteger": lambda a: BoolType(a.rank % NANO == 0),
        "asInteger": lambda a: IntType(a.rank // NANO),
        "major": lambda a: IntType(a.rank[0][0]),
        "minor": lambda a: IntType(a.rank[0][1]),
        "patch": lambda a: IntType(a.rank[0][2]),
        "lowerAscii": lambda text: type(text)("".join(c.lower() if c.isascii() else c for c in text)),
        "upperAscii": lambda text: type(text)("".join(c.upper() if c.isascii() else c for c in text)),
    }


def _quantity(text: Any) -> Quantity:
    try:
        return Quantity(parse_quantity(str(text)).nano)
    except InvalidQuantity as error:
        raise ValueError(str(error)) from None
