"""The types of arrays. A docstring gives the meaning of their axes: [node], [resource, node]."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]
"""Row numbers of nodes, or other indices."""
