"""`python -m webhook`: the same as `forewarn serve`."""

from __future__ import annotations

import sys

from webhook.commands.serve import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
