"""Check the form of the answers of all commands about clusters of any size: `python -m tests.forms CLUSTER.json…`.

Each answer has at most MAX_LINES lines of WIDTH columns and begins with a status; its first two lines do not name the
path of the cluster; and its counters in text, Markdown and HTML are those of the JSON document. Prints a line for each
answer; ends with 1 if one is wrong. The clusters have zones, Deployments and PriorityClasses.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.documents import key_of
from forewarn.policies.base.documents.answer import AnswerStatus, Effects
from forewarn.policies.base.findings import grouped
from forewarn.policies.cli.render.answer import MAX_LINES, WIDTH
from tests.policies.commands.test_one_counter import in_html, in_text, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUPS: Final = "docs/examples/whatif/node-groups.yaml"
SECONDS: Final = 1800
"""Maximum seconds of a command."""
ONE_FORMAT: Final = {("diff", "html"), ("suggest", "json"), ("suggest", "markdown"), ("suggest", "html")}
"""Commands, by their last word without options, without a format."""


def commands(path: Path, directory: Path) -> Iterator[list[str]]:
    """Yield the words of each command, with names of the cluster, and write the files that they read."""
    kinds: dict[str, list[Any]] = grouped((each["kind"], each) for each in json.loads(path.read_text())["items"])
    nodes = [each["metadata"]["name"] for each in kinds["Node"]]
    zone = kinds["Node"][0]["metadata"]["labels"]["topology.kubernetes.io/zone"]
    largest = max(kinds["Deployment"], key=lambda each: each["spec"].get("replicas", 1))
    classes = [each for each in kinds["PriorityClass"] if not each["metadata"]["name"].startswith("system-")]
    top = max(classes, key=lambda each: int(each["value"]))["metadata"]["name"]
    name, namespace = largest["metadata"]["name"], largest["metadata"]["namespace"]
    for each in ("old", "new"):
        (directory / each).mkdir()
    manifest, expectations = directory / "new" / "workload.json", directory / "expectations.json"
    template = {**largest["spec"]["template"]}
    template["spec"] = {**template["spec"], "priorityClassName": top}
    spec = {**largest["spec"], "replicas": largest["spec"].get("replicas", 1) + 20, "template": template}
    manifest.write_text(json.dumps({**{key: largest[key] for key in ("apiVersion", "kind", "metadata")}, "spec": spec}))
    lost = {"name": "no Pod is Pending", "when": {"lost": {"node": nodes[0]}}, "expect": {"noPending": {}}}
    expectations.write_text(json.dumps([lost]))
    waiting = [each["metadata"] for each in kinds["Pod"] if not each["spec"].get("nodeName")]
    for words in (
        "",
        f"whatif lose zone {zone}",
        f"whatif lose zone {zone} --node-templates {GROUPS}",
        f"whatif lose node {nodes[-1]}",
        "whatif lose --each zone",
        f"whatif drain {nodes[-1]}",
        f"whatif scale {namespace}/{name} 40",
        f"whatif restart {namespace}/{name}",
        f"whatif class {top} --delete",
        f"whatif apply -f {manifest}",
        f"predict -f {manifest}",
        "whatif upgrade",
        "whatif remove 2",
        "whatif hpa",
        f"whatif pressure {nodes[-1]} --shutdown 0=9",
        "headroom",
        f"headroom deployment/{name} -n {namespace}",
        f"test {expectations}",
        "classes",
        f"classes plan --delete {top}",
        "classes suggest",
        "why",
        f"why deployment/{name} -n {namespace}",
        "why --since 24h",
        *(f"why {each['namespace']}/{each['name']}" for each in waiting[:1]),
        "audit",
        f"diff {directory / 'old'} {directory / 'new'}",
        "risk --most 3",
    ):
        yield words.split()


def faults(words: list[str], path: Path, directory: Path) -> Iterator[str]:
    """Yield what is wrong with an answer."""
    command = [each for each in words if each.isalpha()][:2]
    files = {form: directory / f"answer.{form}" for form in ("json", "markdown", "html")}
    files = {form: file for form, file in files.items() if not any((each, form) in ONE_FORMAT for each in command)}
    outputs = [word for form, file in files.items() for word in ("-o", f"{form}={file}")]
    arguments = [
        sys.executable,
        "-m",
        "forewarn",
        *words,
        "--cluster",
        str(path),
        *(outputs and ["-o", "text"]),
        *outputs,
    ]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=SECONDS, check=False)
    lines = done.stdout.splitlines()
    if not lines:
        yield f"no answer: {done.stderr.strip()}"
        return
    if len(lines) > MAX_LINES or max(map(len, lines)) > WIDTH:
        yield f"{len(lines)} lines of up to {max(map(len, lines))} columns"
    if not lines[0].startswith(tuple(f"{each}  " for each in AnswerStatus)):
        yield f"no status: {lines[0]}"
    if any(str(path.parent) in line for line in lines[:2]):
        yield "the first lines have the path of the cluster"
    document = json.loads(files["json"].read_text()) if "json" in files else {}
    counters = document.get("countersWithNewNodes") or document.get("counters") or {}
    forms = {"text": in_text(done.stdout)}
    if "markdown" in files:
        forms["markdown"] = shown(files["markdown"].read_text().split("\n\n")[1])
    if "html" in files:
        forms["html"] = in_html(files["html"].read_text())
    for form, found in forms.items() if counters else ():
        own = {name: counters[key_of(name)] for name in Effects._fields}
        yield from (f"{form}: {name} {value}, not {own[name]}" for name, value in found.items() if value != own[name])


def main(paths: list[str]) -> int:
    is_wrong = False
    for path in map(Path, paths):
        with tempfile.TemporaryDirectory() as made:
            for words in commands(path.resolve(), Path(made)):
                found = [*faults(words, path.resolve(), Path(made))]
                is_wrong = is_wrong or bool(found)
                print(path.name, *words[:4], "; ".join(found) or "ok", flush=True)
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
