"""Ends with an error on versions of Python that are not tested; setup.cfg names the others.

Python 3.6 and newer can parse this module. action.yml and the Makefile run it as a script.
"""

import sys

if not (3, 11) <= sys.version_info[:2] <= (3, 14):
    fault = f"Python {sys.version_info[0]}.{sys.version_info[1]} is not supported ({sys.executable})"
    sys.stderr.write(f"forewarn: {fault}. Fix: use Python 3.11 to 3.14, or the container image\n")
    sys.exit(2)
