"""`python -m webhook`: the same as `forewarn serve`."""

from __future__ import annotations

import sys

from policies.cli import main

if __name__ == "__main__":
    sys.exit(main(["serve", *sys.argv[1:]]))
