"""The parser of every command: what it objects to is printed in one line, whatever an argument holds."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from policies.findings import no_command, one_line


class Parser(argparse.ArgumentParser):
    """argparse's, for arguments that a shell has made of the names of files."""

    def error(self, message: str) -> NoReturn:
        """End the program with status 2."""
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {no_command(one_line(message))}\n")
