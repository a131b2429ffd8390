"""`-o html`: one file, nothing from elsewhere, whatever names there are; and what it shows is true."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.cli.render.html import elements
from forewarn.policies.cli.render.html.nodes import node_data
from forewarn.policies.prediction.simulation.scenario import read_node
from forewarn.policies.questions.whatif.node_bands import MAX_BANDS, WHOLE, NodeBands
from forewarn.policies.questions.whatif.occupancy import (
    BEFORE,
    REMOVED,
    SCHEDULABLE,
    NodeChange,
    Occupancy,
    PodInterval,
)
from tests.builders import Made, cluster_text, make_node, make_pod, make_priority_class

SHOWN = "docs/examples/whatif/cluster.yaml"
VOID = {"meta", "input", "br"}
HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a'b&lt;c\u202edaer",
    "https://example.com/x",
    "\x00\x1b[31m\nline",
)


def page(capsys: pytest.CaptureFixture[str], *arguments: str, command: str = "whatif") -> str:
    assert main([command, *arguments, "-o", "html"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


class Elements(HTMLParser):
    """Every start tag with its attributes, and texts by tag; raises where an element is not closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))


def drawn(text: str) -> Any:
    return json.loads(text.partition('id="nodes-data">')[2].partition("</script>")[0])


def bytes_of(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def last_of(data: Any) -> tuple[list[int], list[int]]:
    """Shares and states after all frames, as the script comes to them."""
    row = len(data["bands"]) * 4
    shares, states = list(bytes_of(data["start"]["shares"])), list(bytes_of(data["start"]["states"]))
    for frame in data["frames"]:
        new, how = bytes_of(frame["shares"]), bytes_of(frame["states"])
        for place, node in enumerate(np.frombuffer(bytes_of(frame["where"]), "<u4").tolist()):
            shares[node * row : (node + 1) * row] = new[place * row : (place + 1) * row]
            states[node] = how[place]
    return shares, states


def test_what_is_drawn_is_the_state_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    data = drawn(page(capsys, "lose", "zone", "a", "--cluster", SHOWN))
    assert data["names"] == ["a-1", "a-2", "b-1", "b-2"]
    assert data["titles"] == ["zone a", "zone b"]
    assert data["title"] == [0, 0, 1, 1]
    assert data["bands"] == ["batch · 100", "gold · 100000"]
    lasts = [75, 0, 0, 0, 100, 0, 0, 0]
    doomed = [0, 0, 75, 0, 100, 0, 0, 0]
    assert list(bytes_of(data["start"]["shares"])) == lasts * 2 + doomed * 2
    shares, states = last_of(data)
    assert states == [REMOVED, REMOVED, SCHEDULABLE, SCHEDULABLE]
    assert shares[16:] == [0, 0, 0, 0, WHOLE, 0, 0, 0] * 2
    assert shares[:16] == [0] * 16
    assert data["groups"] == ["shop/web", "reports/nightly"]
    web, nightly = 0, 1
    assert data["pods"][2] == [[nightly, 1, web, 1], [nightly, -1, web, 1]]
    assert data["pushes"] == {"2": ["shop/web", "reports/nightly", 1], "3": ["shop/web", "reports/nightly", 1]}
    assert data["frames"][-1]["label"] == "after"


def check_alone(text: str) -> Elements:
    """Nothing from elsewhere, and only what the policy names."""
    read = Elements(text)
    policies = [tag["content"] for name, tag in read.tags if tag.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    policy = policies[0] or ""
    assert policy.startswith("default-src 'none'; ")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert len(scripts) == len(styles) == 1
    for kind, body in (("script", scripts[0]), ("style", styles[0])):
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
        assert "http" not in body
    assert "url(" not in styles[0]
    assert "innerHTML" not in scripts[0]
    for name, attributes in read.tags:
        assert name not in {"img", "link", "iframe", "object", "embed", "base", "form"}
        assert not {key for key in attributes if key.startswith("on") or key in {"src", "style", "action"}}
        assert (attributes.get("href") or "#").startswith("#")
    return read


def test_the_page_needs_nothing_from_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    read = check_alone(page(capsys, "lose", "zone", "a", "--cluster", SHOWN))
    ids = [tag["id"] for _, tag in read.tags if "id" in tag]
    assert len(ids) == len(set(ids))
    for _, tag in read.tags:
        for reference in ("aria-labelledby", "aria-describedby", "for"):
            assert tag.get(reference, ids[0]) in ids


def test_the_first_line_and_a_table_summarize_the_change(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [text for _, text in Elements(page(capsys, "lose", "zone", "a", "--cluster", SHOWN)).texts]
    assert "2 Pods preempted, 4 stay Pending" in texts
    assert {"HARM", "zone a lost (2 of 4 nodes)"} <= {text.strip() for text in texts}
    start = texts.index("reports/nightly")
    assert texts[start : start + 7] == ["reports/nightly", "batch", "100", "4 → 0", "4", "4", "2"]


def test_bands_of_priorities_stand_out_against_the_background_in_the_dark() -> None:
    """A contrast of 2 to free capacity, and of 1.25 to the next band."""
    dark = Path("policies/cli/render/html/page.css").read_text().partition("scheme")[2]
    found = re.findall(r"--(?:free|b\d): (#[0-9a-f]{6})", dark)
    lights = [_luminance(color) + 0.05 for color in found]
    assert len(lights) == 9
    assert lights[1] / lights[0] > 2
    assert all(after / before > 1.25 for before, after in pairwise(lights[1:]))


def _luminance(color: str) -> float:
    """The relative luminance of WCAG 2."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(
    ("command", "most", "tile"),
    [
        ("drain a-1 a-2", 0, "blocked 2"),
        ("drain a-1 a-2", 0, "PDBs blocking 1"),
        ("drain b-1", 1, "lost 2 of 8"),
        ("lose node node-a", None, "lost 2 of 9"),
    ],
)
def test_the_tiles_have_the_counters(
    command: str, most: int | None, tile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`most`: maxUnavailable of the PDB; None for the cluster of the demo, which has a DaemonSet."""
    text = Path(SHOWN if most is not None else "webhook/sample/cluster.yaml").read_text()
    (tmp_path / "cluster.yaml").write_text(text.replace("maxUnavailable: 1", f"maxUnavailable: {most}"))
    markup = page(capsys, *command.split(), "--cluster", str(tmp_path / "cluster.yaml"))
    tiles = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", markup)
    assert tile in [re.sub(r"<.*?>", "", f"{name} {value}") for name, value in tiles]


@pytest.mark.parametrize(("pools", "first"), [(2, "pool p-0 · zone a"), (1, "zone a"), (61, "zone a")])
def test_nodes_are_grouped_by_pool_if_there_are_several_but_not_too_many(pools: int, first: str) -> None:
    watched = Watched([f"n{number}" for number in range(61)], [])
    for number, node in enumerate([*watched.nodes.values()]):
        labels = {"pool": f"p-{number % pools}", "topology.kubernetes.io/zone": "a"}
        watched.nodes[node.name] = replace(node, labels=labels)
    data = node_data(NodeBands(watched, []), [])
    assert data["titles"][0] == first
    assert len(data["titles"]) == (pools if pools == 2 else 1)
    assert data["title"] == sorted(data["title"])


def test_tables_of_single_pods_and_the_timeline_are_folded(capsys: pytest.CaptureFixture[str]) -> None:
    texts = Elements(page(capsys, "lose", "zone", "a", "--cluster", SHOWN)).texts
    assert [text for tag, text in texts if tag == "summary"] == ["Preemptor: 1", "After: 2", "Events: 6"]


def test_pods_without_a_class_and_placeholders_have_colours_of_their_own() -> None:
    stays = [stay(number, "a", priority) for number, priority in enumerate((-5, 0, 100, 1000, 2000))]
    data = node_data(NodeBands(Watched(["a"], stays), []), [])
    assert data["colors"] == ["negative", "zero", "b0", "b4", "b7"]


def test_hostile_names_stay_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [make_node(f"n{name}").label("topology.kubernetes.io/zone", name).obj for name in HOSTILE]
    for name in HOSTILE:
        pod = make_pod(f"p{name}").priority(5).request(cpu="3").on(f"n{name}").metadata(namespace=name)
        pod.obj["spec"]["priorityClassName"] = name
        items.append(pod.obj)
    items.append(make_priority_class(50).obj)
    push = [make_pod(f"q{number}").of_class(50).request(cpu="3").obj for number in range(len(HOSTILE))]
    (tmp_path / "cluster.json").write_text(cluster_text(items))
    events = json.dumps([{"create": pod} for pod in push])
    (tmp_path / "events.json").write_text(events)
    arguments = ("--events", str(tmp_path / "events.json"), "--cluster", str(tmp_path / "cluster.json"))
    text = page(capsys, "events", *arguments)
    read = check_alone(text)
    assert sum(name == "script" for name, _ in read.tags) == 2
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", text)
    data = drawn(text)
    assert len(data["names"]) == len(HOSTILE)
    assert any(HOSTILE[0] in name for name in data["names"])
    assert sum(sum(flat[2::3]) for flat in data["pushes"].values()) == len(HOSTILE)
    assert any(tag == "th" and "<script>" in told for tag, told in read.texts)


class Watched(Occupancy):
    """An occupancy that somebody made up."""

    def __init__(self, names: list[str], stays: list[PodInterval]) -> None:
        self.nodes = {name: read_node(make_node(name).obj) for name in names}
        self.node_changes = [NodeChange(BEFORE, name, SCHEDULABLE) for name in names]
        self._made = stays

    @property
    def intervals(self) -> list[PodInterval]:
        return self._made


def stay(number: int, node: str, priority: int, start: float = BEFORE, end: float = inf) -> PodInterval:
    group = f"team-{number % 20}/a-workload-of-usual-length-{number % 600}"
    return PodInterval(f"x/p-{number}", node, group, "x", priority, f"c{priority}", 100, 2**28, start, end)


@pytest.mark.parametrize("priorities", [1, 6, 13, 14, 1000])
def test_however_many_priorities_there_are_a_few_bands_hold_them_in_order(priorities: int) -> None:
    stays = [stay(number, "a", number % priorities - 5) for number in range(3000)]
    bands = NodeBands(Watched(["a"], stays), []).bands
    assert len(bands) == 1 + (priorities > 5) + min(max(priorities - 6, 0), MAX_BANDS)
    assert bands[0].least == -5
    assert bands[-1].highest == priorities - 6
    assert all(one.highest < other.least for one, other in pairwise(bands))


def large(nodes: int, pods: int) -> dict[str, Any]:
    """Full nodes; of a third of the pods each goes, to another node."""
    names = [f"ip-10-{number // 250}-{number % 250}.eu-west-1.compute.internal" for number in range(nodes)]
    stays = []
    for number in range(pods):
        node, other = names[number % nodes], names[(number * 7) % nodes]
        moves = number % 3 == 0
        until = float(number % 90) if moves else inf
        stays.append(stay(number, node, number % 5 * 100, end=until))
        if moves:
            stays.append(stay(number, other, number % 5 * 100, start=until))
    return node_data(NodeBands(Watched(names, stays), []), [])


def test_a_large_cluster_is_told_in_two_megabytes() -> None:
    data = large(5000, 150_000)
    assert len(json.dumps(data, separators=(",", ":"))) < 1.8e6
    assert len(data["names"]) == 5000
    assert data["frames"][-1]["label"] == "after"
    assert sum(map(len, (frame["shares"] for frame in data["frames"]))) < 1e6


def test_what_headroom_draws_is_the_cluster_as_it_is_and_filled_up(capsys: pytest.CaptureFixture[str]) -> None:
    text = page(capsys, "-f", "docs/examples/headroom/cache.yaml", "--cluster", SHOWN, command="headroom")
    check_alone(text)
    data = drawn(text)
    assert data["names"] == ["a-1", "a-2", "b-1", "b-2"]
    assert [frame["label"] for frame in data["frames"]] == ["after"]
    new = data["groups"].index("shop/cache (new)")
    assert all([new, 1] == flat[1] for flat in data["pods"])
    assert data["pushes"] == {}
    assert "4 more Pods" in text
    assert "insufficient cpu" in text


def test_what_preempt_draws_is_who_goes_and_who_comes(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("-f", "docs/examples/headroom/cache.yaml", "--replicas", "6", "--cluster", SHOWN)
    text = page(capsys, *arguments, command="predict")
    check_alone(text)
    data = drawn(text)
    preemptions = {data["names"][int(place)]: flat for place, flat in data["pushes"].items()}
    assert {flat[0] for flat in preemptions.values()} == {"shop/cache"}
    assert {(node, flat[1]) for node, flat in preemptions.items()} == {
        ("b-1", "reports/nightly"),
        ("b-2", "reports/nightly"),
    }
    new = data["groups"].index("shop/cache (new)")
    come = [
        sum(n for group, n in zip(flat[1][::2], flat[1][1::2], strict=True) if group == new) for flat in data["pods"]
    ]
    assert come == [1, 1, 2, 2]


def test_victims_of_a_pod_group_are_on_its_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = {"priorityClassName": "gold", "schedulingPolicy": {"gang": {"minCount": 2}}}
    group = Made("scheduling.k8s.io/v1beta1", "PodGroup", "g", "default").spec(**spec)
    pods = [make_pod(name).request(cpu="2").spec(schedulingGroup={"podGroupName": "g"}) for name in "ab"]
    for pod in pods:
        pod.obj["spec"] |= {"priorityClassName": "gold", "priority": None}
    (tmp_path / "group.json").write_text(cluster_text([group, *pods]))
    release = ("--kubernetes-version", "1.37", "--feature-gates", "GenericWorkload=true")
    text = page(capsys, "-f", str(tmp_path / "group.json"), "--cluster", SHOWN, *release, command="predict")
    tiles = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", text))
    assert (tiles["preempt"], tiles["victims"]) == ("2", "2")
    pushes = drawn(text)["pushes"].values()
    assert ({flat[0] for flat in pushes}, sum(flat[2] for flat in pushes)) == ({"default/g"}, 2)


@pytest.mark.parametrize("command", ["predict", "headroom"])
def test_names_in_these_stay_text_too(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [make_node(f"n{name}").label("topology.kubernetes.io/zone", name).obj for name in HOSTILE]
    items += [make_pod(f"p{name}").on(f"n{name}").obj for name in HOSTILE]
    (tmp_path / "cluster.json").write_text(cluster_text(items))
    (tmp_path / "pod.json").write_text(json.dumps(make_pod("x").obj))
    text = page(capsys, "-f", str(tmp_path / "pod.json"), "--cluster", str(tmp_path / "cluster.json"), command=command)
    check_alone(text)
    assert any(HOSTILE[0] in name for name in drawn(text)["names"])


def test_a_page_of_headroom_about_several_objects_has_no_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):
        (tmp_path / f"{number}.json").write_text(json.dumps(make_pod(f"p{number}").obj))
    text = page(capsys, "-f", str(tmp_path), "--cluster", SHOWN, command="headroom")
    assert ("least of 2 objects" in text, "nodes-data" in text.partition("<script")[0]) == (True, False)


def test_what_is_too_large_to_draw_is_said() -> None:
    data = large(20_100, 21_000)
    assert (len(data["names"]), data["notDrawn"]) == (20_000, 100)


@pytest.mark.parametrize(("rows", "said"), [(elements.MAX_ROWS, False), (elements.MAX_ROWS + 1, True)])
def test_rows_that_a_table_leaves_out_are_said_to_be(rows: int, said: bool) -> None:
    """To those who see it too: its caption is for screen readers."""
    made = elements.table("Losses", ["node"], ([f"n{number}"] for number in range(rows)), rows)
    notes = [note.text for note in made.iter("p")]
    assert notes == ([f"The first {elements.MAX_ROWS} of {rows} rows. Use -o json for all."] if said else [])
    assert len(list(made.iter("tr"))) == elements.MAX_ROWS + 1
