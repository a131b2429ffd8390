"""What the documentation says is true."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.cli.main import COMMANDS
from forewarn.policies.inputs.manifests.reading import read
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.kinds.registry import LINTED, POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.kube_apiserver.priority import admit_pod, resolved_spec
from forewarn.policies.kubernetes.objects.fields import group_kind
from forewarn.policies.linting.config.load import READERS, load_config, read_config
from forewarn.policies.linting.rules import RULES
from forewarn.policies.prediction.simulation.scenario import OPERATIONS
from forewarn.webhook.admission.endpoint import WarningLimiter
from forewarn.webhook.admission.review import Hook, parse_review
from forewarn.webhook.commands.review import answers
from tests.cases import each
from tests.in_process import forewarn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject


def test_the_configuration_page_shows_every_option_in_a_file_that_can_be_read() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", Path("docs/reference/configuration.md").read_text(), re.DOTALL)
    read_config(example, "docs/reference/configuration.md")
    for name in READERS:
        assert re.search(rf"^{name}:", example, re.MULTILINE), name


CONSOLE = re.compile(r"^```console\n\$ (.+)\n((?:.*\n)*?)```$", re.MULTILINE)
MAKE = {"make run": "forewarn demo"}
PAGES = sorted(str(path) for path in (Path("README.md"), *Path("docs").rglob("*.md")))


def _blocks() -> list[tuple[str, str, str]]:
    """(page, command, output) of every console block; `$ make …` stands for the command that it runs."""
    found = [(page, m[1], m[2]) for page in PAGES for m in CONSOLE.finditer(Path(page).read_text())]
    return [block for block in found if not block[1].startswith("kubectl ")]


@pytest.mark.parametrize(("page", "command", "shown"), _blocks(), ids=lambda value: str(value)[:60])
def test_what_a_page_shows_is_what_the_command_prints(page: str, command: str, shown: str) -> None:
    """`UPDATE=1` writes the real output into the page."""
    program, *arguments = shlex.split(MAKE.get(command, command))
    assert program == "forewarn"
    done = forewarn(*arguments, merged=True)
    _update(page, command, shown, done.stdout)
    assert done.stdout == shown


def _update(page: str, command: str, shown: str, real: str) -> None:
    if os.environ.get("UPDATE"):
        text = Path(page).read_text()
        Path(page).write_text(text.replace(f"$ {command}\n{shown}```", f"$ {command}\n{real}```"))


WHATIF = "--cluster docs/examples/whatif/cluster.yaml"
GROUPS = "--node-templates docs/examples/whatif/node-groups.yaml"
JSON_COMMANDS = {
    "lint": ("lint docs/examples/lint/web.yaml",),
    "predict": (f"predict -f docs/examples/test/till.yaml {WHATIF}",),
    "whatif": (
        f"whatif lose zone a --timeline {WHATIF}",
        f"whatif upgrade {WHATIF}",
        f"whatif class batch --value 5 {WHATIF}",
        f"whatif lose --each zone {WHATIF}",
        (
            "whatif pressure a-1 --signal memory --stats docs/examples/node-pressure/stats.json --shutdown 0=60 "
            "--cluster docs/examples/node-pressure/node.yaml"
        ),
    ),
    "headroom": (f"headroom -f docs/examples/headroom/cache.yaml --placeholders 8 {GROUPS} {WHATIF}",),
    "classes": (
        f"classes {WHATIF}",
        "classes plan -f docs/examples/classes/classes.yaml --cluster docs/examples/classes/cluster.yaml",
    ),
    "test": (f"test docs/examples/test/expectations.yaml {WHATIF}",),
    "why": ("why shop/web --cluster docs/examples/why/cluster.yaml",),
    "risk": (f"risk {WHATIF}",),
}


@pytest.mark.parametrize("section", JSON_COMMANDS)
def test_the_reference_has_every_key_of_json(section: str) -> None:
    """The keys of the object that each command prints."""
    page = Path("docs/reference/json.md").read_text()
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    listed = {"head", *re.findall(r"`[.]?([a-zA-Z]+)", text)}
    for command in JSON_COMMANDS[section]:
        printed = json.loads(forewarn(*shlex.split(command), "-o", "json").stdout)
        assert set(printed) - listed == set(), command


def test_the_demonstration_fits_on_a_screen() -> None:
    """About 24 lines of 120 characters: with the longest lines wrapped, a few more."""
    (shown,) = [shown for _, command, shown in _blocks() if command == "make run"]
    assert len(shown.splitlines()) <= 28
    assert sum(max(1, -(-len(line) // 120)) for line in shown.splitlines()) <= 33


LIMIT = "docs/guides/limit-a-priority-class.md"
CONFIG = "docs/examples/limit-a-priority-class/forewarn.yaml"


def test_what_kubectl_prints_on_the_page_on_limits_is_what_the_webhook_answers() -> None:
    """One cluster for the whole page, as its reader has it. `UPDATE=1` as above."""
    cache = Cache()
    for command, shown in CONSOLE.findall(Path(LIMIT).read_text()):
        if command.startswith("kubectl apply "):
            lines = "".join(f"{line}\n" for file in re.findall(r"-f (\S+)", command) for line in _applied(file, cache))
            _update(LIMIT, command, shown, lines)
            assert lines == shown


def _applied(file: str, cache: Cache) -> Iterator[str]:
    """What kubectl prints for a file; what the webhook lets in is in the cluster then, a quota with its status."""
    wanted = frozenset((*LINTED, *POD_TEMPLATE_PATHS))
    for subject in read(Path(file).read_bytes(), file, wanted).subjects:
        body, config = _review(subject, cache), load_config(CONFIG)
        decision = answers(body, Hook.VALIDATE, cache.snapshot(), config)[0]
        decision = WarningLimiter(lambda: 0.0).with_limited_warnings(parse_review(body), decision, config)
        yield from (f"Warning: {warning}" for warning in decision.response.warnings)
        if not decision.response.allowed:
            webhook = 'admission webhook "validate.forewarn.dev" denied the request'
            message = decision.response.message
            yield f'Error from server (Forbidden): error when creating "{file}": {webhook}: {message}'
            continue
        obj = dict(subject.object)
        if obj["kind"] == "ResourceQuota":
            hard = obj["spec"]["hard"]
            obj["status"] = {"hard": hard, "used": dict.fromkeys(hard, "0")}
        cache.add(obj)
        group = group_kind(obj).split("/")[0]
        yield f"{obj['kind'].lower()}{'.' + group if group else ''}/{subject.ref.name} created"


def _review(subject: ReviewedObject, cache: Cache) -> bytes:
    """The request as the webhook gets it: the Priority plugin has been there."""
    obj = subject.object
    if obj["kind"] == "Pod":
        resolved = admit_pod(obj["spec"], cache.snapshot().priority_classes)
        obj = {**obj, "spec": resolved_spec(obj["spec"], resolved)}
    group, kind = group_kind(obj).split("/")
    request = {
        "uid": "u",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "resource": {"group": group, "version": "v1", "resource": f"{kind.lower()}s"},
        "namespace": subject.ref.namespace,
        "name": subject.ref.name,
        "operation": "CREATE",
        "userInfo": {"username": "you"},
        "object": obj,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def test_the_page_on_limits_shows_its_files() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", Path(LIMIT).read_text(), re.DOTALL)
    assert blocks == [
        Path("docs/examples/limit-a-priority-class", name).read_text() for name in ("quota.yaml", "forewarn.yaml")
    ]


def test_every_command_flag_and_rule_is_documented() -> None:
    pages = "\n".join(Path(page).read_text() for page in PAGES)
    for command in COMMANDS:
        assert f"forewarn {command}" in pages, command
    for rule in RULES:
        assert f"# {rule.ID}\n" in pages, rule.ID


def test_every_module_stands_in_the_architecture() -> None:
    told = Path("docs/internals/architecture.md").read_text()
    parts = [p for package in ("policies", "webhook") for p in Path(package).iterdir() if not p.name.startswith("_")]
    names = [f"{p.name}/" if p.is_dir() else p.name for p in parts if p.is_dir() or p.suffix == ".py"]
    assert [name for name in names if name not in told] == []


def test_the_menu_of_the_site_lists_every_page() -> None:
    """`make site` checks it too; rules and decisions are added by .build/site.py."""
    menu = Path(".build/mkdocs.yml").read_text().partition("\nnav:\n")[2]
    pages = [page.removeprefix("docs/") for page in PAGES if page != "README.md"]
    listed = set(re.findall(r"[\w/-]+\.md", menu))
    generated = ("reference/rules/", "internals/decisions/")
    assert [page for page in pages if page not in listed and not page.startswith(generated)] == []


def test_pages_link_to_files_that_are_there() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", Path(page).read_text()):
            assert (Path(page).parent / target).exists(), f"{page}: {target}"


@each(lambda: ((page,) for page in PAGES))
def test_pages_link_to_headings_as_github_and_the_site_name_them(page: str) -> None:
    targets = re.findall(r"\]\(([^):#]*)#([^)]+)\)", Path(page).read_text())
    paths = [((Path(page).parent / file if file else Path(page)), anchor) for file, anchor in targets]
    assert [f"{path}#{anchor}" for path, anchor in paths if anchor not in _anchors(path)] == []


def _anchors(page: Path) -> set[str]:
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    on_github = {re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in plain}
    return {anchor for anchor in on_github if "--" not in anchor}


MAX_WORDS = {"docs/internals": 8_250, "user documentation": 30_000}


def test_the_documentation_stays_short() -> None:
    """Words of text and tables, without code blocks, addresses of links, generated pages of rules and cli.md."""
    counts = dict.fromkeys(MAX_WORDS, 0)
    for page in PAGES:
        if page.startswith("docs/reference/rules/") or page == "docs/reference/cli.md":
            continue
        text = re.sub(r"^```.*?^```$", "", Path(page).read_text(), flags=re.DOTALL | re.MULTILINE)
        words = re.sub(r"\]\([^)]*\)", "]", text).split()
        part = "docs/internals" if page.startswith("docs/internals/") else "user documentation"
        counts[part] += sum(any(map(str.isalnum, word)) for word in words)
    assert counts["user documentation"] > 10_000
    assert {part: count for part, count in counts.items() if count > MAX_WORDS[part]} == {}


def test_the_table_of_events_lists_every_operation() -> None:
    table = Path("docs/guides/what-if.md").read_text().partition("| event | value |\n")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines()[1:]]
    assert [name for cell in cells for name in re.findall(r"`(\w+)`", cell)] == [*OPERATIONS]
