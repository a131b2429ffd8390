"""The pages of `forewarn ui` in the process of the test, without a server: questions are answered at once."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NamedTuple

from flask.testing import FlaskClient

from forewarn.policies.cli.commands.cluster_command import options_with_cluster
from forewarn.policies.cli.commands.release import release_of
from forewarn.policies.cli.ui.answers import State
from forewarn.policies.cli.ui.app import Cluster, Shown, create_ui_app
from forewarn.policies.cli.ui.command import argument_parser, shown_of, state_of
from forewarn.policies.cli.ui.processes import Step, Unanswered
from forewarn.policies.cli.ui.server import Access

if TYPE_CHECKING:
    from werkzeug.test import TestResponse

PORT = 8123
HOST = f"127.0.0.1:{PORT}"
CLUSTER = "docs/examples/whatif/cluster.yaml"


class Here:
    """As Processes, but the answers are of this process; changes of the cache stay."""

    def __init__(self, state: State, about: Shown) -> None:
        self.state, self.about, self.fault = state, about, ""

    def load(self) -> dict[str, Any]:
        if self.fault:
            raise Unanswered(self.fault)
        return self.about._asdict()

    def ask(self, question: dict[str, Any], seconds: float) -> Generator[Step, None, None]:
        said: list[str] = []
        yield Step("started")
        answer = self.state.answer(question, said.append)
        yield Step(answer=json.loads(json.dumps(answer)))


class Desk(NamedTuple):
    """The pages, and a browser that has the cookie."""

    access: Access
    client: FlaskClient
    here: Here

    def get(self, path: str, **more: Any) -> TestResponse:
        return self.client.get(path, **{"base_url": f"http://{HOST}", **more})

    def post(self, path: str, body: Any, **more: Any) -> TestResponse:
        return self.client.post(path, json=body, **{"base_url": f"http://{HOST}", **more})


def desk(cluster: str = CLUSTER, *, entered: bool = True) -> Desk:
    """The pages about a cluster. `entered`: the first address has been opened."""
    parser = argument_parser()
    options, run = options_with_cluster(parser, ["--cluster", cluster])
    state = state_of(run, release_of(options, parser), ["--cluster", cluster])
    access = Access(PORT)
    here: Any = Here(state, shown_of(state, cluster))
    client = create_ui_app(Cluster(here, here.about), here, access).test_client()
    made = Desk(access, client, here)
    if entered:
        assert made.get(f"/?token={access.token}").status_code == 200
    return made
