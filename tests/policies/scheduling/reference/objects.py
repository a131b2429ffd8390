"""Reading API objects that are plain dicts: absent means what Go's zero value means."""

from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

Obj: TypeAlias = dict[str, Any]


class Status(NamedTuple):
    """A framework.Status: SUCCESS has no reasons; plugin is the one that failed."""

    code: str
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def ok(self) -> bool:
        return self.code == "Success"


SUCCESS = Status("Success")
SKIP = Status("Skip")


def unschedulable(*reasons: str) -> Status:
    return Status("Unschedulable", reasons)


def unresolvable(*reasons: str) -> Status:
    return Status("UnschedulableAndUnresolvable", reasons)


def error(reason: str) -> Status:
    return Status("Error", (reason,))


def meta(obj: Obj) -> Obj:
    return obj.get("metadata") or {}


def spec(obj: Obj) -> Obj:
    return obj.get("spec") or {}


def status(obj: Obj) -> Obj:
    return obj.get("status") or {}


def name(obj: Obj) -> str:
    return str(meta(obj).get("name", ""))


def namespace(obj: Obj) -> str:
    return str(meta(obj).get("namespace", ""))


def labels(obj: Obj) -> dict[str, str]:
    return meta(obj).get("labels") or {}


def uid(obj: Obj) -> str:
    return str(meta(obj).get("uid", ""))


def annotations(obj: Obj) -> dict[str, str]:
    return meta(obj).get("annotations") or {}


def key(obj: Obj) -> str:
    return f"{namespace(obj)}/{name(obj)}"


def priority(pod: Obj) -> int:
    """PodPriority: a pod without a number has 0."""
    return int(spec(pod).get("priority") or 0)


def terminating(pod: Obj) -> bool:
    return meta(pod).get("deletionTimestamp") is not None


def volumes(pod: Obj) -> list[Obj]:
    return spec(pod).get("volumes") or []


def containers(pod: Obj) -> list[Obj]:
    return spec(pod).get("containers") or []


def init_containers(pod: Obj) -> list[Obj]:
    return spec(pod).get("initContainers") or []


def restartable(container: Obj) -> bool:
    return container.get("restartPolicy") == "Always"


def affinity(pod: Obj, kind: str, strength: str) -> list[Obj] | None:
    """The terms of spec.affinity.KIND.STRENGTHDuringSchedulingIgnoredDuringExecution, or None."""
    group = (spec(pod).get("affinity") or {}).get(kind) or {}
    return group.get(f"{strength}DuringSchedulingIgnoredDuringExecution")


def controller_of(obj: Obj) -> Obj | None:
    for owner in meta(obj).get("ownerReferences") or []:
        if owner.get("controller"):
            return owner  # type: ignore[no-any-return]
    return None


_SUFFIXES = {
    "": Fraction(1),
    **{suffix: Fraction(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{suffix: Fraction(10) ** power for suffix, power in zip("kMGTPE", range(3, 21, 3), strict=True)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def quantity(value: str | int | float) -> Fraction:
    """The exact value of a resource.Quantity, rounded up to a billionth as upstream's parser does."""
    text = str(value)
    digits = text.rstrip("numkKMGTPEi") if not text[-1:].isdigit() else text
    number = Fraction(digits) * _SUFFIXES[text[len(digits) :]]
    return Fraction(ceil(number * 10**9), 10**9)


def ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


def whole(value: Fraction) -> int:
    """Quantity.Value: rounded up to a whole number."""
    return ceil(value)


def milli(value: Fraction) -> int:
    """Quantity.MilliValue: thousandths, rounded up."""
    return ceil(value * 1000)
