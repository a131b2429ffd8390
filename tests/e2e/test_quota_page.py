"""The page docs/guides/limit-a-priority-class.md, as somebody reads it who has a cluster.

What is not as on the page: the status of the quotas is written here, as there is no controller-manager; forewarn's
configuration is a file instead of a ConfigMap; and the linter reads this cluster, which has more in it, instead of
the file with a part of it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.e2e.api import Refused, identity, path_of
from tests.e2e.objects import deployment
from tests.e2e.quotas import set_used
from tests.e2e.truth import wait_until
from tests.e2e.webhook import QUICK, Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane, Told
    from tests.e2e.installation import Installation
    from tests.e2e.quotas import Limiting

pytestmark = pytest.mark.e2e

PAGE = Path("docs/guides/limit-a-priority-class.md")
FILES = Path("docs/examples/limit-a-priority-class")
HEAD = re.compile(r"^Input: .*\n", re.MULTILINE)
CONSOLE = re.compile(r"^```console\n\$ (.+)\n((?:.*\n)*?)```$", re.MULTILINE)
SNAPSHOT = str(FILES / "cluster.yaml")
LISTED = "priorityclasses,namespaces,resourcequotas,deployments,pods"
"""What the page lets kubectl list for the linter."""


class Reader:
    """Somebody who follows the page."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.blocks = [(shlex.split(command)[1:], shown) for command, shown in CONSOLE.findall(PAGE.read_text())]

    def apply(self, *files: str) -> Told:
        """Apply files of the page."""
        return self.plane.kubectl("apply", *(argument for file in files for argument in ("-f", str(FILES / file))))

    def rehearse(self, obj: Obj) -> Told:
        """Apply an object by a server dry run."""
        return self.plane.kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(obj))

    def forewarn(self, *arguments: str) -> str:
        """Run forewarn on this cluster; both of its outputs."""
        environment = {**os.environ, "KUBECONFIG": str(self.plane.kubeconfig("forewarn"))}
        command = [sys.executable, "-m", "forewarn", *arguments]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False
        )
        return done.stdout


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The configuration of the page, where the test may change it."""
    copied = tmp_path / "forewarn.yaml"
    copied.write_text((FILES / "forewarn.yaml").read_text())
    return copied


@pytest.fixture
def reader(plane: ControlPlane, installed: Installation, api: Api, config: Path) -> Iterator[Reader]:
    """On a cluster with forewarn, and nothing of the page on it."""
    webhook = Webhook(plane, installed, flags=(*QUICK, "--config", str(config)))
    try:
        webhook.begin(api, strict=True)
        yield Reader(plane)
    finally:
        webhook.end(api)
        for kind, name, namespace in LEFT:
            with suppress(Refused):
                api.delete(identity(kind, name, namespace))


LEFT = [
    ("Deployment", "web", "shop"),
    ("ResourceQuota", "gold-quota", "shop"),
    ("ResourceQuota", "everything-else", "lab"),
    ("PriorityClass", "gold", ""),
]
"""What the page makes, but for its namespaces: only a controller could take these away."""


def test_what_the_page_shows_is_what_happens(reader: Reader, api: Api, tmp_path: Path) -> None:
    """Block by block; of kubectl, the warnings come before what it did. The linter is asked with three clusters."""
    web = yaml.safe_load((FILES / "web.yaml").read_text())
    clusters = [SNAPSHOT]
    for arguments, shown in reader.blocks:
        if arguments[0] == "lint":
            for file in clusters:
                printed = reader.forewarn(*(file if argument == SNAPSHOT else argument for argument in arguments))
                assert HEAD.sub("", printed) == HEAD.sub("", shown)
            continue
        told = reader.plane.kubectl(*arguments)
        assert told.err + told.out == shown
        if arguments[-1].endswith("/quota.yaml"):
            set_used(api, "gold-quota", "shop", 0)
            wait_until(lambda: ROOM in reader.rehearse(web).err, 10, "forewarn knows of class, quota and status")
            clusters += written(reader, tmp_path)
    assert len(clusters) == 3


def written(reader: Reader, directory: Path) -> list[str]:
    """What the page has people write of their cluster before they apply anything, in both ways."""
    listed, snapshot = directory / "listed.yaml", directory / "snapshot.yaml"
    told = reader.plane.kubectl("get", LISTED, "-A", "-o", "yaml")
    listed.write_text(told.out)
    reader.forewarn("snapshot", "-o", str(snapshot))
    return [str(listed), str(snapshot)]


def test_workloads_are_stopped_as_well_once_the_actions_say_so(reader: Reader, config: Path) -> None:
    """The line of the page is added to the configuration while the webhook runs."""
    reader.apply("classes.yaml", "namespaces.yaml")
    wait_until(lambda: "quota" in reader.rehearse(WORKLOAD).err, 10, "forewarn knows of the class")
    assert reader.rehearse(WORKLOAD) == (0, CREATED, WARNINGS)
    (actions,) = re.findall(r"set `(actions: {.+})`", PAGE.read_text())
    config.write_text(f"{config.read_text()}{actions}\n")
    wait_until(lambda: reader.rehearse(WORKLOAD).status == 1, 20, "the configuration is read again")
    assert reader.rehearse(WORKLOAD) == (1, "", REFUSAL)


def test_the_loophole_is_in_the_flag_too_and_not_in_allowed_classes(
    reader: Reader, api: Api, limiting: Limiting
) -> None:
    reader.apply("classes.yaml", "namespaces.yaml")
    experiment = yaml.safe_load((FILES / "experiment.yaml").read_text())
    wait_until(lambda: verdict(limiting.api, experiment).startswith("insufficient quota"), 10, "the flag refuses")
    assert reader.apply("everything-else.yaml") == (0, "resourcequota/everything-else created\n", LOOPHOLE)
    set_used(api, "everything-else", "lab", 0)
    wait_until(lambda: not verdict(limiting.api, experiment), 10, "the flag lets it in")
    wait_until(lambda: "insufficient" not in verdict(api, experiment), 10, "forewarn knows of the quota")
    assert verdict(api, experiment) == f"{DENIED}{NOT_ALLOWED}. Fix: {OTHER_CLASS} [class-not-allowed]"


def verdict(api: Api, obj: Obj) -> str:
    """Why it is refused; empty where it is not."""
    answer = api.ask("POST", path_of(obj, name="", dryRun="All"), obj)
    return "" if answer.code == 201 else str(answer.body["message"])


ROOM = "ResourceQuota gold-quota (pods: 10, used: 0) admits 10 of 12 replicas"
WORKLOAD = deployment("work", "gold")
WORKLOAD["metadata"]["namespace"] = "lab"
CREATED = "deployment.apps/work created (server dry run)\n"
NOT_ALLOWED = 'class "gold" is not allowed in namespace lab'
OTHER_CLASS = "use another class, or ask for an entry in allowedClasses"
WARNINGS = (
    'Warning: Deployment lab/work: class "gold" is not allowed in namespace lab. Fix: use another class… '
    "[class-not-allowed]\n"
    'Warning: Deployment lab/work: Pods will be rejected: no ResourceQuota in lab covers class "gold" '
    "[limited-class-without-quota]\n"
)
DENIED = 'admission webhook "validate.forewarn.dev" denied the request: '
REFUSAL = (
    f'Error from server (Forbidden): error when creating "STDIN": {DENIED}{NOT_ALLOWED}. Fix: {OTHER_CLASS} '
    "[class-not-allowed, limited-class-without-quota]\n"
)
LOOPHOLE = (
    'Warning: ResourceQuota lab/everything-else: allows class "gold" under limitedResources without naming it '
    "(NotIn [batch]) [limited-resources-loophole]\n"
)
