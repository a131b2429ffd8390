"""Where text and cluster state come from: which files are read, and what a dump amounts to."""

from __future__ import annotations

import gc
import gzip
import io
import json
import os
import subprocess
import sys
import tracemalloc
from importlib.metadata import EntryPoint, EntryPoints
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.inputs.sources.cluster import load_cluster
from forewarn.policies.inputs.sources.files import SourceError, find_files, read_file
from forewarn.policies.inputs.sources.json_stream import JsonFault, json_objects
from forewarn.policies.kubernetes.cluster.cache import head_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from forewarn.policies.kubernetes.cluster.cache import Cache


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team"}, "spec": spec}


def _list(*items: dict[str, Any]) -> dict[str, Any]:
    """As kubectl prints it: the kind comes behind the items."""
    return {"apiVersion": "v1", "items": list(items), "kind": "List", "metadata": {"resourceVersion": ""}}


def _pods(cache: Cache) -> dict[str, str]:
    return {pod.name: pod.node_name for pod in cache.snapshot().pods.values()}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("b.yaml", "a.yml", "c/d.json", "c/A.YAML", "c.txt", ".hidden/e.yaml", "c/.f.yaml", "kustomization"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("a: 1\n")
    return tmp_path


def _below(directory: Path, *more: str) -> list[str]:
    return [os.path.relpath(file.path, directory) for file in find_files([str(directory), *more])]


HIDDEN = ".hidden/e.yaml"


def test_a_directory_gives_its_manifests_sorted(tree: Path) -> None:
    assert _below(tree) == [HIDDEN, "a.yml", "b.yaml", "c/.f.yaml", "c/A.YAML", "c/d.json"]


def test_a_file_of_a_config_map_volume_has_the_name_of_its_link(tree: Path) -> None:
    (tree / "..2026").mkdir()
    (tree / "..2026" / "z.yaml").write_text("")
    (tree / "..data").symlink_to("..2026")
    (tree / "z.yaml").symlink_to("..data/z.yaml")
    assert [path for path in _below(tree) if path.endswith("z.yaml")] == ["z.yaml"]


@pytest.mark.parametrize(
    ("beside", "directory", "what"),
    [
        ("x_test.go", "testdata", "testdata directory"),
        ("go.mod", "testdata", "testdata directory"),
        ("x.py", "testdata", ""),
        (".t/chainsaw-test.yaml", ".t", ""),
        ("t/chainsaw-test.yaml", "t", ""),
        ("chainsaw-test.yaml", ".t", ""),
    ],
)
def test_fixtures_are_left_out_only_where_a_test_is(tmp_path: Path, beside: str, directory: str, what: str) -> None:
    for name in (beside, f"{directory}/a.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    omitted: list[tuple[str, str]] = []
    found = [file.path for file in find_files([str(tmp_path)], (".yaml",), lambda *which: omitted.append(which))]
    assert omitted == ([(str(tmp_path / directory), what)] if what else [])
    assert (str(tmp_path / directory / "a.yaml") in found) == (not what)
    deployed = find_files([str(tmp_path)], (".yaml",), deployed=True)
    assert str(tmp_path / directory / "a.yaml") in [file.path for file in deployed]


def test_what_is_named_is_read_whatever_its_name(tree: Path) -> None:
    paths = ["-", str(tree / "c.txt"), str(tree / ".hidden"), str(tree / "absent.yaml")]
    assert [file.path for file in find_files(paths)] == [*paths[:2], str(tree / ".hidden" / "e.yaml"), paths[3]]


def test_links_are_followed_and_loops_end(tree: Path) -> None:
    (tree / "c" / "up").symlink_to(tree)
    (tree / "c" / "z.yaml").symlink_to(tree / "b.yaml")
    (tree / "c" / "broken.yaml").symlink_to(tree / "nowhere")
    assert _below(tree) == [HIDDEN, "a.yml", "b.yaml", "c/.f.yaml", "c/A.YAML", "c/broken.yaml", "c/d.json"]


def test_a_pipe_in_a_directory_is_no_manifest_but_one_that_is_named_is_read(tree: Path) -> None:
    os.mkfifo(tree / "pipe.yaml")
    assert "pipe.yaml" not in _below(tree)
    assert [file.path for file in find_files([str(tree / "pipe.yaml")])] == [str(tree / "pipe.yaml")]


def test_a_file_comes_once_however_many_paths_lead_to_it(tree: Path) -> None:
    paths = [str(tree / "c" / ".." / "b.yaml"), "-", str(tree), str(tree / "c"), str(tree / "a.yml"), "-"]
    assert [os.path.basename(file.path) for file in find_files(paths)] == [
        "b.yaml", "-", "e.yaml", "a.yml", ".f.yaml", "A.YAML", "d.json",
    ]  # fmt: skip


def test_a_directory_that_cannot_be_opened_is_named_and_reading_it_says_why(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def reject(path: str) -> Any:
        if str(path).endswith("/c"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", reject)
    assert _below(tree) == [HIDDEN, "a.yml", "b.yaml", "c"]
    with pytest.raises(SourceError, match="is a directory"):
        read_file(str(tree / "c"))


def test_a_file_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"absent\.yaml: no such file or directory"):
        read_file(str(tmp_path / "absent.yaml"))
    with pytest.raises(SourceError, match="null"):
        read_file("a\0b")


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: 1\n")))
    assert read_file("-") == b"a: 1\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(_list(_pod("a"))).encode())))
    assert _pods(load_cluster("-")) == {"a": ""}


DUMPS = {
    "list.json": json.dumps(_list(_pod("a"), _pod("b"))),
    "indented.json": json.dumps(_list(_pod("a"), _pod("b")), indent=4) + "\n",
    "stream.json": json.dumps(_pod("a")) + "\n" + json.dumps(_pod("b")),
    "array.json": json.dumps([_pod("a"), _pod("b")]),
    "nested.json": json.dumps(_list(_pod("a"), _list(_pod("b")))),
    "typed.json": json.dumps(
        {"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": _pod(n)["metadata"]} for n in "ab"]}
    ),
    "typed-sorted.json": json.dumps(
        {"apiVersion": "v1", "items": [{"metadata": _pod(n)["metadata"]} for n in "ab"], "kind": "PodList"}
    ),
    "list.yaml": yaml.safe_dump(_list(_pod("a"), _pod("b"))),
    "documents.yaml": yaml.safe_dump_all([_pod("a"), _pod("b")]),
    "both.yaml": json.dumps(_pod("a")) + "\n" + json.dumps(_pod("b")),
}


@pytest.mark.parametrize("name", DUMPS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("packed", [False, True])
def test_every_form_of_a_dump_is_the_same_cluster(tmp_path: Path, name: str, encoding: str, packed: bool) -> None:
    data = DUMPS[name].encode(encoding)
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(data) if packed else data)
    assert _pods(load_cluster(str(path))) == {"a": "", "b": ""}
    assert _pods(load_cluster(str(tmp_path))) == {"a": "", "b": ""}


@pytest.mark.parametrize(
    "text",
    [
        "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: team}, spec: {}}\n",
        "\n { 'apiVersion': v1, kind: Pod, metadata: {name: a, namespace: team}, spec: {}}\n",
    ],
)
def test_yaml_in_flow_style_is_not_taken_for_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "dump.yaml").write_text(text)
    assert _pods(load_cluster(str(tmp_path))) == {"a": ""}


def test_later_objects_replace_earlier_ones(tmp_path: Path) -> None:
    for name, node in (("1.json", "n1"), ("2.json", "n2"), ("3.json", "n3")):
        (tmp_path / name).write_text(json.dumps(_list(_pod("a", nodeName=node))))
    assert _pods(load_cluster(str(tmp_path))) == {"a": "n3"}
    assert _pods(load_cluster(*(str(tmp_path / f"{n}.json") for n in "321"))) == {"a": "n1"}


def test_kinds_that_play_no_part_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(_list({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}, _pod("a"))))
    cache = load_cluster(str(path))
    assert (cache.skipped["Secret"], len(_pods(cache))) == (1, 1)


def _named(kind: str, uid: str, **more: Any) -> dict[str, Any]:
    version = {"Deployment": "apps/v1", "PriorityClass": "scheduling.k8s.io/v1"}.get(kind, "v1")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "kube-system", "uid": uid}, **more}


def _node(cpu: Any, uid: str = "") -> dict[str, Any]:
    return _named("Node", uid, status={"allocatable": {"cpu": cpu}})


TEMPLATE: dict[str, Any] = {"spec": {"template": {"spec": {}}}}


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        (_named("Namespace", "1"), _named("Namespace", "2"), "Namespace kube-system has another UID"),
        (_named("Deployment", "1", **TEMPLATE), _named("Deployment", "2", **TEMPLATE), "has another UID"),
        (_named("PriorityClass", "1", value=1), _named("PriorityClass", "2", value=1), "has another UID"),
        (_node("4"), _node("8"), "Node kube-system has other allocatable resources"),
        (_node("4", "1"), _node("8", "1"), "has other allocatable resources"),
        (_node("4", "1"), _node("4000m"), ""),
        (_named("Namespace", "1"), _named("Namespace", "1"), ""),
        (_named("Namespace", "1"), _named("Namespace", ""), ""),
        (_named("Namespace", "1"), _named("Secret", "2"), ""),
    ],
)
def test_two_clusters_in_a_directory_are_an_error(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], problem: str
) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(first))
    (tmp_path / "b.json").write_text(json.dumps(_list(second)))
    if not problem:
        load_cluster(str(tmp_path))
        return
    with pytest.raises(SourceError) as caught:
        load_cluster(str(tmp_path))
    message = str(caught.value)
    assert problem in message
    assert message.startswith(f"{tmp_path}/b.json:1: ")
    assert f"than in {tmp_path}/a.yaml:1: these are two clusters. Fix: " in message


def test_a_later_source_replaces_a_node_but_no_object_of_another_uid(tmp_path: Path) -> None:
    given = {"a": _node("4", "1"), "b": _node("8"), "c": _node("8", "2")}
    for name, node in given.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(node))
    a, b, c = (str(tmp_path / f"{name}.json") for name in given)
    (stored,) = load_cluster(a, b).snapshot().objects.nodes.values()
    assert stored.allocatable.milli_cpu == 8000
    with pytest.raises(SourceError, match="has another UID"):
        load_cluster(a, b, c)


@pytest.mark.parametrize(("second", "third", "more"), [(1, 1, ""), (2, 1, ""), (2, 5, ", and 1 more such object")])
def test_objects_that_several_sources_define_differently_are_assumed(
    tmp_path: Path, second: int, third: int, more: str
) -> None:
    classes = [_named("PriorityClass", uid, value=value) for uid, value in (("1", 1), ("", second), ("", third))]
    sources = [tmp_path / f"{number}.json" for number in range(3)]
    for source, made in zip(sources, classes, strict=True):
        source.write_text(json.dumps(made))
    a, b, _ = map(str, sources)
    assumed = head_of(load_cluster(*map(str, sources)).snapshot()).assumes
    found = [clause for clause in assumed if "PriorityClass" in clause]
    differs = (
        f"PriorityClass kube-system as in {b}, not as in {a}{more} (--cluster combines its sources into one cluster)"
    )
    assert found == [differs] * (second != 1)
    assert not load_cluster(str(tmp_path)).origin.replaced


PARTS = [{"continue": "abc"}, {"remainingItemCount": 7}, {"continue": "abc", "remainingItemCount": 7}]


@pytest.mark.parametrize("form", ["json", "sorted", "yaml", "nested", "nested.yaml", "long"])
@pytest.mark.parametrize("metadata", PARTS)
def test_one_page_of_a_list_is_an_error(tmp_path: Path, metadata: dict[str, Any], form: str) -> None:
    page = {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": [_pod("a")]}
    if form == "long":
        page["items"] = [{**_pod(f"p{number}"), "status": {"message": "x" * 6_000}} for number in range(200)]
    listed = _list(page) if form.startswith("nested") else page
    is_yaml = form in ("yaml", "nested.yaml", "long")
    text = yaml.dump(listed, Dumper=yaml.CSafeDumper) if is_yaml else json.dumps(listed, sort_keys=form == "sorted")
    assert (len(text) > 1 << 20) == (form == "long")
    (tmp_path / "page").write_text(text)
    with pytest.raises(SourceError, match=f"page:1: incomplete list: metadata.{next(iter(metadata))} is set. Fix: "):
        load_cluster(str(tmp_path / "page"))


def test_the_last_page_of_a_list_is_a_list(tmp_path: Path) -> None:
    page = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7", "continue": ""}, "items": []}
    for text in (json.dumps(page), yaml.safe_dump(page)):
        (tmp_path / "page").write_text(text)
        assert load_cluster(str(tmp_path / "page")).listed == {"/Pod"}


def test_an_empty_list_is_an_empty_cluster(tmp_path: Path) -> None:
    for text in (json.dumps(_list()), "apiVersion: v1\nkind: List\nitems: []\n"):
        (tmp_path / "a.json").write_text(text)
        assert not load_cluster(str(tmp_path / "a.json")).snapshot().pods


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no Kubernetes objects"),
        ("just words\n", "no Kubernetes objects"),
        (f'{{"kind": "A", "n": {"9" * 5000}}}', ":1: Exceeds the limit (4300 digits)"),
        ("a: [\n", ":2: "),
        ("a: 1\n---\nb: c: d\n", ":3: "),
        ('{"a": 1\n"b": 2}', ":2: expected ,"),
        ('{"kind": "List", "items": [\n{"kind": "Pod"},\n{"kind": nope}]}', ":3: "),
        ('{"items": [{},]}', "comma"),
        ('{"items": [1', "expected ,"),
        ('{"a": "x', "unterminated"),
        ('{"a": "x\ty"}', "control character"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1, 1: 2}', "string"),
        ('{"a": ' + "[" * 100_000, "deep"),
        (json.dumps(_list(_pod("a"), _pod("b", nodeName=7)), indent=1), ":13: Pod team/b: spec.nodeName"),
        (yaml.safe_dump_all([_pod("a"), _pod("b", priority="x")]), ":8: Pod team/b: spec.priority"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_file_and_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "dump"
    path.write_text(text)
    with pytest.raises(SourceError) as caught:
        load_cluster(str(path))
    assert str(caught.value).startswith(str(path))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not str(caught.value).endswith(" at")
    assert "sys." not in str(caught.value)


@pytest.mark.parametrize(
    "data", [b"\xff{", b'{"a": "\xff"}', b"a: \xff\n", gzip.compress(b"{}" * 999, mtime=0)[:-12], b"\x1f\x8bxx"]
)
def test_bytes_that_are_no_text_are_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "dump").write_bytes(data)
    with pytest.raises(SourceError, match="dump"):
        load_cluster(str(tmp_path / "dump"))


def test_a_directory_without_manifests_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("{}")
    with pytest.raises(SourceError, match="no Kubernetes objects found"):
        load_cluster(str(tmp_path))
    with pytest.raises(SourceError, match="no such file"):
        load_cluster(str(tmp_path / "absent"))


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ("[]", ""),
        ('{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}', ", found only AdmissionReview"),
        ('{"version": 1, "findings": []}', ", found only objects without a kind"),
    ],
)
def test_a_file_without_objects_of_a_cluster_is_an_error(tmp_path: Path, data: str, found: str) -> None:
    (tmp_path / "other").write_text(data)
    with pytest.raises(SourceError, match=f"no objects of a cluster, such as Nodes and Pods{found}. Fix: "):
        load_cluster(str(tmp_path / "other"))
    (tmp_path / "pods").write_text('{"apiVersion": "v1", "kind": "PodList", "items": []}')
    assert load_cluster(str(tmp_path / "other"), str(tmp_path / "pods")).listed


def test_other_sources_come_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(*, group: str, name: str) -> EntryPoints:
        point = EntryPoint("live", f"{__name__}:_live", group)
        return EntryPoints([point]).select(name=name)

    monkeypatch.setattr("importlib.metadata.entry_points", found)
    monkeypatch.setattr(EntryPoint, "load", lambda self: _live)
    assert _pods(load_cluster("live:prod")) == {"prod": ""}
    assert _pods(load_cluster("live")) == {"": ""}
    with pytest.raises(SourceError, match=r"dead:prod: no such file"):
        load_cluster("dead:prod")


def _live(argument: str) -> Iterator[dict[str, Any]]:
    yield _pod(argument)


def test_progress_is_told_and_the_collector_comes_back(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(_list(*(_pod(f"p{i}") for i in range(2500)))))
    told: list[int] = []
    load_cluster(str(tmp_path), progress=told.append)
    assert told == [1000, 2000, 2500]
    assert gc.isenabled()


class _Endless(io.StringIO):
    """A List of so many items, made while it is read."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count, self._text = count, '{"items": ['

    def read(self, size: int | None = -1, /) -> str:
        while self._count and size is not None and len(self._text) < size:
            self._count -= 1
            self._text += json.dumps(_pod("x" * 3000)) + (", " if self._count else '], "kind": "List"}')
        start, self._text = self._text[:size], self._text[size:]
        return start


def test_a_long_list_is_never_held_in_memory() -> None:
    tracemalloc.start()
    try:
        assert sum(1 for _ in json_objects(_Endless(10_000))) == 10_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12_000_000


class _Drip:
    """Text in pieces of one length."""

    def __init__(self, text: str, size: int) -> None:
        self._text, self._size = text, size

    def read(self, size: int, /) -> str:
        start, self._text = self._text[: self._size], self._text[self._size :]
        return start


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), max_size=4), st.integers(1, 9), st.booleans())
def test_where_the_text_is_cut_into_pieces_makes_no_difference(items: list[Any], size: int, ascii_only: bool) -> None:
    text = json.dumps({"items": items, "kind": "List", "n": 12}, indent=1, ensure_ascii=ascii_only)
    assert [value for value, _ in json_objects(_Drip(text, size))] == items


@given(st.lists(VALUES, max_size=3), st.integers(0, 200), st.integers(1, 9))
def test_a_text_that_ends_too_early_is_a_fault_wherever_it_ends(items: list[Any], end: int, size: int) -> None:
    text = json.dumps({"items": items, "kind": "List"})
    cut = text[: min(end, len(text) - 1)]
    if not cut.strip():
        return
    with pytest.raises(JsonFault):
        list(json_objects(_Drip(cut, size)))


def test_lines_are_those_of_the_file_however_it_is_cut() -> None:
    text = json.dumps(_list(*(_pod(f"p{i}") for i in range(50))), indent=2)
    starts = [line for line, content in enumerate(text.split("\n"), 1) if content == "    {"]
    for size in (1, 7, 100, 10**6):
        assert [line for _, line in json_objects(_Drip(text, size))] == starts


def test_a_long_yaml_list_is_read_item_by_item_with_its_lines(tmp_path: Path) -> None:
    items = [_pod(f"p{i}", nodeName="node", text="- a\n\n# b\n", pad="x" * 900) for i in range(1200)]
    text = yaml.dump(_list(*items), Dumper=yaml.CSafeDumper)
    assert len(text) > 1 << 20
    path = tmp_path / "dump.yaml"
    path.write_text(text)
    assert len(load_cluster(str(path)).snapshot().pods) == 1200
    path.write_text(text.replace("name: p1199\n", "name: p1199\n    namespace: [\n"))
    with pytest.raises(SourceError, match=r"dump\.yaml:\d{5}"):
        load_cluster(str(path))


def test_anchors_across_items_of_a_long_list_are_found(tmp_path: Path) -> None:
    items = [_pod(f"p{i}", nodeName="node", pad="x" * 900) for i in range(1200)]
    text = yaml.dump(_list(*items), Dumper=yaml.CSafeDumper).replace("nodeName: node", "nodeName: &n node", 1)
    text = text.replace("name: p1199", "name: *n")
    path = tmp_path / "dump.yaml"
    path.write_text(text)
    assert {"node", "p1198"} <= set(_pods(load_cluster(str(path))))


_ORDER = """
import sys
from forewarn.policies.inputs.sources.cluster import load_cluster
snapshot = load_cluster(sys.argv[1]).snapshot()
assert all(pod.owner for pod in snapshot.pods.values())
print([pod.name for pod in snapshot.objects.pods_by_node["n1"]])
"""


def test_the_order_of_pods_without_owners_does_not_depend_on_the_hashes_of_strings(tmp_path: Path) -> None:
    """The order of a node's Pods decides between equal victims."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "web"}]}}
    metadata, spec = {"name": "web", "namespace": "team"}, {"selector": {"matchLabels": labels}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec | {"replicas": 20}}
    pods = [_pod(f"web-{i}", nodeName="n1", containers=[{"name": "c", "image": "web"}]) for i in range(20)]
    for pod in pods:
        pod["metadata"]["labels"] = labels
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(_list(deployment, *pods)))
    orders = {
        subprocess.run(
            [sys.executable, "-c", _ORDER, str(path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            timeout=60,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(orders) == 1
