"""The type of the key `shard` in the parts of a divided run."""

from typing import Any, TypedDict


class Shard(TypedDict):
    """The part of a divided run, for `forewarn whatif merge`.

    `of`: number of questions of the whole run; `cluster`: digest of the cluster; `asked`: the other options that
    identify the run.
    """

    index: int
    count: int
    of: int
    cluster: str
    asked: dict[str, Any]
