#!/usr/bin/env python3
"""Print random preemption cases, or scenarios, one JSON object a line; the seed goes to stderr.

generate.py --seed 1 --count 3000 [--scenarios] [--kinds fit,pdb] > cases.jsonl
generate.py --list-kinds
"""

import argparse
import json
import secrets
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.oracle.generator import scenarios
from tests.oracle.generator.claims import EVERY_KIND, make_scenario_of_every_kind
from tests.oracle.generator.kinds import KINDS, make_case


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="default: drawn")
    parser.add_argument("--count", type=int, default=100, help="number of cases (default 100)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case (default 0)")
    parser.add_argument("--scenarios", action="store_true", help="what happens over time, for `oracle scenarios`")
    parser.add_argument("--kinds", help="kinds to print, separated by commas (default: the first ones)")
    parser.add_argument("--configured", action="store_true", help="give each case a scheduler configuration of its own")
    parser.add_argument("--list-kinds", action="store_true", help="print the kinds and stop")
    options = parser.parse_args(arguments)
    usual, known = (scenarios.KINDS, EVERY_KIND) if options.scenarios else (KINDS, KINDS)
    if options.kinds:
        options.kinds = options.kinds.split(",")
    else:
        options.kinds = list(known if options.list_kinds else usual)
    if unknown := set(options.kinds) - set(known):
        parser.error(f"unknown kinds: {', '.join(sorted(unknown))} (--list-kinds prints those there are)")
    return options


def main(arguments: list[str]) -> int:
    options = parse_arguments(arguments)
    if options.list_kinds:
        print("\n".join(options.kinds))
        return 0
    print(f"seed {options.seed}", file=sys.stderr)
    for number in range(options.first, options.first + options.count):
        kind = options.kinds[number % len(options.kinds)]
        if options.scenarios:
            case = make_scenario_of_every_kind(options.seed, number, kind)
        else:
            case = make_case(options.seed, number, kind, configured=options.configured)
        print(json.dumps(case, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
