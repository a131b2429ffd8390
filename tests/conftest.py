"""What holds for every test: where hypothesis gets its examples from."""

from __future__ import annotations

import os

from hypothesis import settings

# In CI the same examples every time: whether a commit is good must not depend on the dice. Elsewhere new ones, and a
# failure prints how to have it again. No deadline: a busy machine is no fault of the code.
settings.register_profile("ci", derandomize=True, print_blob=True, deadline=None)
settings.register_profile("dice", print_blob=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dice")
