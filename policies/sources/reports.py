"""The result of writing OpenReports into the cluster of a source."""

from __future__ import annotations

from typing import NamedTuple


class Written(NamedTuple):
    """The result of writing reports.

    `namespaces`: number of namespaces with a Report. `omitted`: number of namespaces beyond the maximum. `denied`: the
    namespaces whose Report the API server denied, with the reason.
    """

    namespaces: int
    omitted: int
    denied: dict[str, str]
