"""What the documentation says is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from policies.config.load import OPTION_NAMES, read_config


def test_what_is_made_from_the_code_is_fresh() -> None:
    done = subprocess.run([sys.executable, "docs/generate.py", "--check"], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


def test_the_configuration_page_shows_every_option_in_a_file_that_can_be_read() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", Path("docs/configuration.md").read_text(), re.DOTALL)
    read_config(example, "docs/configuration.md")
    for name in OPTION_NAMES:
        assert re.search(rf"^{name}:", example, re.MULTILINE), name
