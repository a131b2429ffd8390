"""The questions of the pages, their addresses, and the commands that answer them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from forewarn.policies.base.findings import brief
from forewarn.policies.cli.render.html.elements import display_text, element

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from xml.etree.ElementTree import Element

MAX_NAMES: Final = 200
_MAX_LENGTH: Final = 20_000


class Field(NamedTuple):
    """An input of a question. `key`: its name in the address. `option`: of the command; "" for an argument.

    `kind`: `word`, `words`, `number`, `flag`, `policy`, `class`, `object` or `text`. `names`: the list of suggestions.
    """

    key: str
    label: str
    option: str = ""
    kind: str = "word"
    names: str = ""
    hint: str = ""
    least: int = 0
    most: int = 10_000
    required: bool = False

    def read(self, text: str) -> list[str]:
        """The words of the command, with - for a text. Raises BadLink."""
        if self.kind == "text":
            return [self.option, "-"]
        words = text.split()[:MAX_NAMES] if self.kind == "words" else [text.strip()]
        for word in words:
            _check(word)
        if self.kind == "flag":
            return [self.option]
        if self.kind == "policy" and text not in POLICIES:
            raise BadLink(f"{self.label} must be one of {', '.join(POLICIES)}")
        if self.kind in ("number", "policy"):
            value = self._number(words[0]) if self.kind == "number" else text
            return [f"{self.option}={value}" if self.option else f"{value}"]
        return [part for word in words for part in ((self.option, word) if self.option else (word,))]

    def _number(self, word: str) -> int:
        digits = word.removeprefix("-")
        is_number = digits.isascii() and digits.isdecimal() and len(digits) <= 11
        if not is_number or not self.least <= int(word) <= self.most:
            raise BadLink(f"{self.label} must be a whole number from {self.least} to {self.most}")
        return int(word)


class Question(NamedTuple):
    """A question of the pages: its name, the words of its command, the inputs, and how many must be filled in."""

    name: str
    words: str
    fields: Sequence[Field] = ()
    least: int = 0


POLICIES: Final = ("PreemptLowerPriority", "Never")
_ZONE: Final = Field("name", "Zone", names="zones", required=True)
_NODE: Final = Field("name", "Node", names="nodes", required=True)
_NODES: Final = Field("name", "Nodes", kind="words", names="nodes", required=True)
_POOL: Final = Field("name", "Pool", names="pools", hint="LABEL=VALUE", required=True)
_CLASS: Final = Field("name", "PriorityClass", names="classes", required=True)
_WORKLOAD: Final = Field("name", "Workload", names="workloads", hint="NAMESPACE/NAME", required=True)
_NAMESPACE: Final = Field("namespace", "Namespace", "-n", hint="default")
_COUNT: Final = Field("number", "Number", "--count", "number", hint="1", least=1)
_REMOVED: Final = Field("number", "Number", kind="number", least=1, required=True)
_ENOUGH: Final = Field("enough", "As many as Pods need", "--until-scheduled", "flag")
_NEW_VALUE: Final = Field("value", "Value", "--value", "number", least=-(2**31), most=2**31 - 1)
_MANIFEST: Final = Field("manifest", "Manifest", "-f", "text", hint="YAML or JSON", required=True)
_POLICY: Final = Field("policy", "Policy", "--preemption-policy", "policy")
_UNAVAILABLE: Final = Field("number", "At once", "--max-unavailable", "number", hint="1", least=1)
_SURGE: Final = Field("surge", "Surge", "--max-surge", "number", hint="0")
_SHUTDOWN: Final = Field("shutdown", "Priority=seconds", "--shutdown", hint="0=30,100000=10")
_ADMIT: Final = Field("manifest", "Critical Pod", "--admit", "text", hint="manifest of the Pod")
_POD: Final = Field("name", "Pod or workload", names="pods", hint="NAMESPACE/NAME", required=True)
_REPLICAS: Final = Field("number", "Replicas", kind="number", hint="new number", required=True)
_PLACEHOLDERS: Final = Field("number", "Replicas", "--placeholders", "number", least=1, required=True)
_DEFAULT: Final = Field("default", "Global default", "--default", "flag")
_DELETE: Final = Field("delete", "Delete", "--delete", "flag")
_ITS_WORKLOADS: Final = Field("workloads", "Its workloads", "--workloads", "words", "workloads", "NAMESPACE/NAME")
_NEW_CLASS: Final = Field("name", "New PriorityClass", required=True)
_REPLACED: Final = Field("replaced", "Delete class", "--delete", "words", "classes")
_PLANNED_VALUE: Final = _NEW_VALUE._replace(required=True)
_PLANNED_WORKLOADS: Final = _ITS_WORKLOADS._replace(option="")
_OF_CLASS: Final = Field("class", "PriorityClass", "--class", names="classes")
_MOST: Final = Field("most", "Zones and nodes to simulate", "--most", "number", hint="100", most=100_000)
_PROTECT: Final = Field("protect", "Protected classes", "--protect", "words", "classes", "all above 0")
_LIKE: Final = Field("like", "Nodes like", "--like", hint="node, pool or node group")
_IN_POOL: Final = _POOL._replace(option="--pool", required=False, hint="all nodes")


def _survive(scope: str, lost: str, *fields: Field) -> Question:
    text = f"Add nodes to survive the loss of {lost}"
    return Question(text, f"headroom --survive {scope}", (*fields, _PROTECT, _LIKE))


GROUPS: Final = {
    "Cluster": {
        "overview": Question("What is at risk?", "overview"),
        "preempted": Question("Which Pods are Pending, or were preempted?", "why"),
    },
    "Nodes": {
        "lose-zone": Question("Lose a zone (outage)", "whatif lose zone", (_ZONE,)),
        "each-zone": Question("Lose each zone in turn", "whatif lose --each zone"),
        "each-node": Question("Lose each node in turn", "whatif lose --each node"),
        "lose-node": Question("Lose nodes", "whatif lose node", (_NODES,)),
        "lose-pool": Question("Lose a pool", "whatif lose pool", (_POOL,)),
        "drain": Question("Drain nodes", "whatif drain", (_NODES,)),
        "remove": Question("Remove nodes that no Pod needs", "whatif remove", (_REMOVED, _IN_POOL)),
        "survive-zone": _survive("zone", "any zone"),
        "survive-node": _survive("node", "any node"),
        "survive-pool": _survive("pool", "a pool", _POOL),
        "upgrade": Question("Upgrade nodes, one after another", "whatif upgrade", (_IN_POOL, _UNAVAILABLE, _SURGE)),
        "add-node": Question("Add nodes like a node", "whatif add node", (_NODE, _COUNT)),
        "add-pool": Question("Add nodes to a pool", "whatif add pool", (_POOL, _COUNT, _ENOUGH)),
        "pressure": Question(
            "Shut down a node, or admit a critical Pod",
            "whatif pressure",
            (_NODE, _SHUTDOWN, _ADMIT, _NAMESPACE),
            least=2,
        ),
    },
    "Workloads": {
        "why": Question("Why is a Pod Pending, or did it end?", "why", (_POD, _NAMESPACE)),
        "headroom": Question("How many more replicas fit?", "headroom", (_WORKLOAD, _NAMESPACE)),
        "placeholders": Question(
            "Which placeholder Pods let replicas start at once?",
            "headroom",
            (_WORKLOAD, _PLACEHOLDERS, _NAMESPACE),
        ),
        "scale": Question("Scale a workload", "whatif scale", (_WORKLOAD, _REPLICAS, _NAMESPACE)),
        "restart": Question("Restart a workload", "whatif restart", (_WORKLOAD, _NAMESPACE)),
        "apply": Question("Apply manifests", "whatif apply", (_MANIFEST, _NAMESPACE)),
        "delete": Question("Delete the objects of manifests", "whatif delete", (_MANIFEST, _NAMESPACE)),
        "hpa": Question("Scale all HPAs to maxReplicas", "whatif hpa", ()),
    },
    "PriorityClasses": {
        "class": Question(
            "Create, change or delete a PriorityClass",
            "whatif class",
            (_CLASS, _NEW_VALUE, _POLICY, _DEFAULT, _DELETE, _ITS_WORKLOADS, _NAMESPACE),
            least=2,
        ),
        "suggest": Question("Suggest a class for workloads without one", "classes suggest"),
        "class-plan": Question(
            "Plan the replacement of a PriorityClass",
            "classes plan",
            (_NEW_CLASS, _PLANNED_VALUE, _POLICY, _PLANNED_WORKLOADS, _REPLACED, _NAMESPACE),
        ),
    },
}
"""Heading in the list of questions -> value of `change` -> the question."""
QUESTIONS: Final = {key: question for group in GROUPS.values() for key, question in group.items()}
"""Value of `change` -> the question."""
OTHERS: Final = {
    "risk": Question("Risk", "risk", (_NAMESPACE._replace(hint="all"), _OF_CLASS, _MOST)),
    "audit": Question("Audit", "audit"),
}
"""Page of one question -> the question."""
FORM: Final = {"groups": GROUPS, "questions": QUESTIONS, "others": OTHERS, "policies": POLICIES}
"""The values in the template of the form of questions."""


class BadLink(Exception):
    """An address is invalid; the message gives the problem."""


class CommandLine(NamedTuple):
    """A question of a page, as a command without its options about the cluster. `text`: its standard input, for an
    argument -. `query`: of the address.
    """

    command: str
    arguments: tuple[str, ...] = ()
    text: str = ""
    query: str = ""

    def line(self, cluster: Sequence[str]) -> str:
        """Return the command line with shell quoting, and the text as a here-document. `cluster`: the options about the
        cluster and the release.

        If a shell could misread the text, the command reads the file manifest.yaml instead.
        """
        is_safe = all(line.isprintable() for line in self.text.replace("\t", " ").split("\n"))
        if not self.text or not is_safe or len(self.text) > _MAX_LENGTH:
            arguments = ("manifest.yaml" if word == "-" else word for word in self.arguments)
            return shlex.join(["forewarn", self.command, *arguments, *cluster])
        end = "EOF"
        while end in self.text:
            end += "_"
        line = shlex.join(["forewarn", self.command, *self.arguments, *cluster])
        return f"{line} <<'{end}'\n{self.text.rstrip()}\n{end}"


def command_line_of(page: str, query: Mapping[str, str]) -> CommandLine | None:
    """The question of an address; None if it has none. Raises BadLink."""
    if sum(map(len, query.values())) > _MAX_LENGTH:
        raise BadLink("the address is too long")
    question = OTHERS.get(page) or QUESTIONS.get(query.get("change", ""))
    if question is None:
        if key := query.get("change"):
            raise BadLink(f"{brief(key, 40)} is not a change that can be simulated here")
        return None
    return _asked(question, _with_namespace(question, query), "" if page in OTHERS else query["change"])


def _asked(question: Question, query: Mapping[str, str], key: str) -> CommandLine | None:
    arguments, options, text = list[str](), list[str](), ""
    used = {"change": key} if key else {}
    for field in question.fields:
        value = query.get(field.key, "")
        if value.strip():
            used[field.key] = value
            (options if field.option else arguments).extend(field.read(value))
            text = value if field.kind == "text" else text
        elif field.required:
            return None
    if len([name for name in used if name not in ("change", "namespace")]) < question.least:
        others = (field.label for field in question.fields[1:] if field is not _NAMESPACE)
        raise BadLink(f"fill in one more of {', '.join(others)}")
    command, *words = question.words.split()
    return CommandLine(command, (*words, *arguments, *options), text, urlencode(used) if key else "")


def _with_namespace(question: Question, query: Mapping[str, str]) -> Mapping[str, str]:
    """Return the inputs; a name `NAMESPACE/KIND/NAME` is split, so that its namespace is a separate input."""
    namespace, slash, name = query.get("name", "").strip().partition("/")
    if _NAMESPACE in question.fields and slash and "/" in name:
        return {**query, "namespace": namespace, "name": name}
    return query


def links(about: str, questions: Mapping[str, Mapping[str, Any]]) -> Element:
    """Links to questions about an object. `questions`: text -> address."""
    asked = ((display_text(text), f"/whatif?{urlencode(query)}") for text, query in questions.items())
    shown = (element("a", text, href=path, aria_label=f"{text}: {display_text(about)}") for text, path in asked)
    return element("span", *shown, class_="links")


def is_name(word: str) -> bool:
    """Report whether a word can be a name in an address; all names of API objects can."""
    return bool(word) and word.isprintable() and not word.startswith("-")


def _check(word: str) -> None:
    """Check a word of an address. Raises BadLink for a word that a command would read as an option."""
    if word.startswith("-") and not word[1:].isdecimal():
        raise BadLink(f"{brief(word, 40)}: a name does not begin with -")
    if not word.isprintable():
        raise BadLink("a name contains a control character")
