"""`python -m forewarn`: the command, wherever forewarn was installed."""

from __future__ import annotations

import sys

from forewarn.policies.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
