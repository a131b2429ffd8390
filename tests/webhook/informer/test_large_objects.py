"""What large stored objects cost a replica: while they are listed, and as long as they are there."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.kubernetes.objects.extent import is_omitted, retained_part
from forewarn.webhook.apiserver.client import ApiServer, NoList, NoObject, connect, read_list
from tests.policies.objects.test_bounded import deployment, terms
from tests.webhook.scripted_api import QUICK, ScriptedApi, kubeconfig, scripted_api

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MIB = 1 << 20
FOLLOW = """
import sys
from pathlib import Path
from forewarn.policies.kubernetes.objects.extent import retained_part
from forewarn.webhook.apiserver.client import ApiServer, connect
from forewarn.webhook.informer.informer import Informer

def peak():
    return int(next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line).split()[1])

informer = Informer(ApiServer(connect, keep=retained_part))
before = peak()
informer.start()
assert informer.wait(100), informer.fault(0)
print(len(informer.cluster().workloads), (peak() - before) // 1024)
"""


def large(number: int, kind: str = "Deployment", empty: int = 700_000) -> bytes:
    """As an API server sends it: 1.4 MB in etcd, as protobuf."""
    obj = deployment(affinity=terms(1))
    obj |= {"kind": kind, "metadata": {"name": f"d{number}", "namespace": "team"}}
    return json.dumps(obj, separators=(",", ":")).replace("[{}]", f"[{{}}{',{}' * (empty - 1)}]").encode()


def listed(*objects: bytes, **metadata: Any) -> bytes:
    head = {"kind": "DeploymentList", "metadata": {"resourceVersion": "7", **metadata}, "items": []}
    return json.dumps(head).encode()[:-2] + b",".join(objects) + b"]}"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_fifteen_large_deployments_cost_a_replica_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(config))
    body = listed(*map(large, range(15)))
    with scripted_api() as api:
        kubeconfig(config, api.url)
        api.script("list", "deployments", lambda handler: handler.answer(200, body))
        done = subprocess.run([sys.executable, "-c", FOLLOW], check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    workloads, peak = map(int, done.stdout.split())
    print(f"peak of a list of {len(body) // MIB} MiB: {peak} MiB")
    assert workloads == 15
    assert peak < 200


def test_a_page_that_is_too_large_is_asked_for_again_in_smaller_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.webhook.apiserver.client._MAX_PAGE_BYTES", 3 * MIB)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with scripted_api() as api:
        kubeconfig(tmp_path / "config", api.url)
        for number in range(40):
            api.put(json.loads(large(number, empty=40_000)))
        pages = list(ApiServer(connect, QUICK, keep=retained_part).pages(_kind(api), 500))
        limits = [query["limit"] for query in api.asked("list", "deployments")]
    assert sorted(obj["metadata"]["name"] for page in pages for obj in page.objects) == sorted(
        f"d{n}" for n in range(40)
    )
    assert limits == ["500", "62", *["7"] * 6]


def test_what_a_watch_brings_is_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with scripted_api() as api:
        kubeconfig(tmp_path / "config", api.url)
        watch = iter(ApiServer(connect, QUICK, keep=retained_part).watch(_kind(api), "7", 60, 5))
        stream = api.stream("deployments")
        stream.send("ADDED", json.loads(large(0, empty=40_000)))
        (event,) = [next(watch)]
        stream.end()
    affinity: Any = event.object["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (required,) = affinity.values()
    assert is_omitted(required["nodeSelectorTerms"])


def _kind(_: ScriptedApi) -> Any:
    from tests.webhook.scripted_api import BY_NAME

    return BY_NAME["deployments"]


def cut_into(size: int) -> Callable[[bytes], Any]:
    return lambda text: iter([text[at : at + size] for at in range(0, len(text), size)])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
@pytest.mark.parametrize(
    "text",
    [
        {"kind": "PodList", "metadata": {"resourceVersion": "5"},
         "items": [{"a": "\u00e9\U0001f600\\\"]}{["}, {"b": [1, {}]}]},
        {"items": [], "metadata": {"n": 12.5e3}},
        {"items": [{"x": -1}], "after": [True, None, "s"]},
        {"metadata": None, "items": None},
    ],
)  # fmt: skip
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_list_is_read_whatever_its_blocks_are(text: dict[str, Any], size: int, ascii_only: bool) -> None:
    data = f" {json.dumps(text, indent=1, ensure_ascii=ascii_only)}\n".encode(errors="surrogatepass")
    objects, fields = read_list(cut_into(size)(data), lambda obj, _: obj)
    assert objects == (text["items"] or [])
    assert {key: value for key, value in fields.items() if key != "items"} == {
        key: value for key, value in text.items() if key != "items"
    }


@pytest.mark.parametrize("size", [1, 5, 10_000])
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", ValueError), ("{", ValueError), ('{"items":[', ValueError), ('{"items":[{}', ValueError),
        ('{"items":[{}]', ValueError), ('{"items":[{},]}', ValueError), ('{"items":[{}]} x', ValueError),
        ('{"items" [{}]}', ValueError), ("{1:2}", ValueError), ('{"a":}', ValueError), ("[]", NoObject),
        ("5", NoObject), ("{}", NoList), ('{"items":{}}', NoList), ('{"items":[5]}', NoList),
        ('{"items":[{}]}{', ValueError),
    ],
)  # fmt: skip
def test_what_is_no_list_is_an_error(text: str, error: type[ValueError], size: int) -> None:
    with pytest.raises(error):
        read_list(cut_into(size)(text.encode()), lambda obj, _: obj)
