"""New objects of the kinds that forewarn validates: kube-apiserver's answers to dry runs, and forewarn's.

OBJECTS says how many of each kind, SEED which ones. RECORD=1 also writes a selection of them with the answers of this
minor to RECORDED, which tests/policies/kube_apiserver/test_recorded_validation.py replays.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from forewarn.policies.kubernetes.releases.release import known_minor
from forewarn.policies.kubernetes.releases.semantics import Semantics
from tests.e2e.api import path_of
from tests.e2e.build import MINOR, binaries, control_plane
from tests.e2e.conftest import run_directory
from tests.e2e.control_plane import boot
from tests.e2e.random_objects import SHAPES, random_object
from tests.policies.kube_apiserver.verdicts import OTHER_TYPE, RECORDED, Recorded, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Api, Obj

pytestmark = pytest.mark.e2e

OBJECTS: Final = int(os.environ.get("OBJECTS", "50"))
SEED: Final = os.environ.get("SEED", "1")
_PLUGINS: Final = (
    "NamespaceLifecycle,LimitRanger,Priority,RuntimeClass,DefaultTolerationSeconds,PodSecurity,TaintNodesByCondition,"
    "ResourceQuota,ServiceAccount,StorageObjectInUseProtection,PodTopologyLabels"
)
"""Admission plugins that reject or change what validation is about."""
_KEPT: Final = 24
"""Recorded objects of each kind."""
_MAX_LENGTH: Final = 2_000
PANIC: Final = None
"""The answer of a request that makes kube-apiserver panic: it closes the connection."""


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """A client of an API server without these plugins."""
    programs = binaries(control_plane(MINOR, "etcd", "kube-apiserver"))
    plane = boot(programs, run_directory(), f"--disable-admission-plugins={_PLUGINS}", has_scheduler=False)
    try:
        with closing(plane.api()) as client:
            yield client
    finally:
        plane.processes.stop_all()


def answer_of(api: Api, obj: Obj) -> list[str] | None:
    """The fields that kube-apiserver rejects."""
    named = obj if isinstance(obj.get("metadata"), dict) else {**obj, "metadata": {}}
    path = path_of(named, name="", dryRun="All")
    if obj["apiVersion"] == "autoscaling/v1":
        path = path.replace("autoscaling/v2", "autoscaling/v1")
    try:
        answer = api.ask("POST", path, obj)
    except ConnectionError:
        return PANIC
    if answer.code == 400:
        return [OTHER_TYPE]
    assert answer.code in (201, 422), answer.body
    causes = [] if answer.code == 201 else answer.body["details"]["causes"]
    return sorted({cause["field"] for cause in causes})


@pytest.mark.parametrize("kind", SHAPES)
def test_verdicts_and_fields_are_equal(api: Api, kind: str) -> None:
    random, semantics = Random(f"{kind} {SEED}"), Semantics(known_minor(MINOR))
    objects = [random_object(random, kind) for _ in range(OBJECTS)]
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda obj: answer_of(api, obj), objects))
    wrong = []
    for obj, theirs in zip(objects, answers, strict=True):
        ours = fields_of(obj, semantics)
        if (not ours) if theirs is PANIC else ours != theirs:
            wrong.append(f"kube-apiserver: {theirs}\nforewarn: {ours}\n{json.dumps(obj)[:_MAX_LENGTH]}")
    assert not wrong, "\n".join([f"{len(wrong)} of {len(objects)} differ", *wrong[:10]])
    assert any(answers), "all are accepted"
    assert [] in answers, "all are rejected"
    if os.environ.get("RECORD"):
        record(kind, list(zip(objects, answers, strict=True)))


def record(kind: str, answered: list[tuple[Obj, list[str] | None]]) -> None:
    """Write those that differ most in their answers; if the file has the kind, only the answers of this minor."""
    recorded = Recorded.read(RECORDED)
    by_text = {json.dumps(obj): answer for obj, answer in answered if answer is not PANIC}
    if kind not in recorded.objects:
        distinct = {json.dumps(answer): text for text, answer in by_text.items() if len(text) < _MAX_LENGTH}
        accepted = [text for text, answer in by_text.items() if not answer and len(text) < _MAX_LENGTH]
        recorded.objects[kind] = [*distinct.values()][: _KEPT - _KEPT // 4] + accepted[: _KEPT // 4]
    for text in recorded.objects[kind]:
        recorded.answers.setdefault(text, {})[MINOR] = by_text[text] or []
    recorded.write(RECORDED)
