"""KubeSchedulerConfigurations that are made to cost much: refused with their place, or read in time that is bounded."""

from __future__ import annotations

import re
import time

import pytest

from forewarn.policies.kubernetes.releases.semantics import DEFAULT
from forewarn.policies.linting.config.model import ConfigError
from forewarn.policies.linting.config.scheduler import read_scheduler

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PROFILE = HEADER + "profiles:\n- schedulerName: a\n"
SECONDS = 2.0
"""Of CPU time, on a machine that is busy; they take a tenth of it."""


def many(before: str, entry: str, count: int) -> str:
    return before + "".join(entry.replace("#", str(number)) for number in range(count))


def arguments(plugin: str, lines: str, entry: str, count: int) -> str:
    return many(PROFILE + f"  pluginConfig:\n  - name: {plugin}\n    args:\n{lines}", entry, count)


FIT = "      scoringStrategy:\n        type: MostAllocated\n        resources:\n"
RATIO = (
    "      scoringStrategy:\n        type: RequestedToCapacityRatio\n"
    "        requestedToCapacityRatio:\n          shape:\n"
)
SPREAD = "      defaultingType: List\n      defaultConstraints:\n"
TERMS = "      addedAffinity:\n        requiredDuringSchedulingIgnoredDuringExecution:\n          nodeSelectorTerms:\n"
REFUSED = {
    "profiles": (many(HEADER + "profiles:\n", "- {schedulerName: a#}\n", 6_000), "profiles: "),
    "plugins of a point": (
        many(PROFILE + "  plugins:\n    filter:\n      enabled:\n", "      - {name: A#}\n", 4_000),
        "enabled: ",
    ),
    "one plugin again and again": (
        many(PROFILE + "  plugins:\n    multiPoint:\n      enabled:\n", "      - {name: A}\n", 4_000),
        "enabled: ",
    ),
    "disabled plugins": (
        many(PROFILE + "  plugins:\n    score:\n      disabled:\n", "      - {name: A#}\n", 4_000),
        "disabled: ",
    ),
    "arguments": (many(PROFILE + "  pluginConfig:\n", "  - {name: A#}\n", 4_000), "pluginConfig: "),
    "resources": (arguments("NodeResourcesFit", FIT, "        - {name: a#}\n", 4_000), "resources: "),
    "a shape": (arguments("NodeResourcesFit", RATIO, "          - {utilization: 1}\n", 4_000), "shape: "),
    "constraints": (
        arguments("PodTopologySpread", SPREAD, "      - {topologyKey: a#}\n", 4_000),
        "defaultConstraints: ",
    ),
    "terms": (arguments("NodeAffinity", TERMS, "          - {matchExpressions: []}\n", 4_000), "nodeSelectorTerms: "),
    "extenders": (many(HEADER + "extenders:\n", "- {urlPrefix: a#}\n", 4_000), "extenders: "),
    "values": (
        arguments(
            "NodeAffinity",
            f"{TERMS}          - matchExpressions:\n"
            "            - key: a\n              operator: In\n              values:\n",
            "              - a#\n",
            30_000,
        ),
        "values: ",
    ),
    "fields that there are not": (many(HEADER, "a#: 1\n", 4_000), "unknown field"),
    "a number of many digits": (HEADER + f"parallelism: {'9' * 100_000}\n", "parallelism"),
    "a number beyond 32 bits": (PROFILE + "  percentageOfNodesToScore: 4294967346\n", "percentageOfNodesToScore"),
    "a weight beyond 32 bits": (
        PROFILE + "  plugins:\n    score:\n      enabled:\n      - {name: NodeName, weight: 9223372036854775807}\n",
        "weight",
    ),
    "infinity": (HEADER + "percentageOfNodesToScore: .inf\n", "scheduler.yaml:3:27: inf is not a JSON number"),
    "a number with an exponent": (HEADER + "parallelism: 1e400\n", "parallelism"),
    "flow that nests": (HEADER + "profiles: " + "[" * 100_000 + "]" * 100_000 + "\n", "scheduler.yaml:"),
    "blocks that nest": (HEADER + "profiles:\n" + "- " * 10_000 + "a\n", "scheduler.yaml:"),
    "JSON that nests": ('{"profiles":' * 10_000 + "1" + "}" * 10_000, "scheduler.yaml:"),
    "aliases that multiply": (
        HEADER
        + "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 20)),
        "scheduler.yaml:",
    ),
    "an alias of itself": (HEADER + "profiles: &a [*a]\n", "scheduler.yaml:"),
    "a key of a megabyte": (HEADER + f"? {'x' * 900_000}\n: 1\n", "unknown field"),
    "a duration of a megabyte": (
        PROFILE + f"  pluginConfig:\n  - name: DynamicResources\n    args: {{filterTimeout: {'1h' * 400_000}}}\n",
        "more than any valid value",
    ),
    "a key that is asked for at length": (
        arguments("NodeResourcesFit", "      ignoredResources:\n", "      - " + "a." * 400_000 + "\n", 1),
        "ignoredResources",
    ),
}


@pytest.mark.parametrize(("text", "told"), REFUSED.values(), ids=REFUSED)
def test_what_is_made_to_cost_much_is_refused_with_its_place(text: str, told: str) -> None:
    began = time.process_time()
    with pytest.raises(ConfigError) as rejected:
        read_scheduler(text.encode(), "scheduler.yaml")(DEFAULT)
    assert time.process_time() - began < SECONDS
    message = str(rejected.value)
    assert told in message
    assert re.match(r"scheduler\.yaml:\d+:\d+: ", message), message[:200]
    assert len(message) < 20_000
