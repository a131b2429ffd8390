"""`python -m webhook`: an alias of `forewarn webhook serve`."""

from __future__ import annotations

import sys

from forewarn.policies.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["webhook", "serve", *sys.argv[1:]]))
