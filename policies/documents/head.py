"""The type of the head of every answer about a cluster."""

from typing import Annotated, Literal, TypedDict


class Head(TypedDict):
    """The head of an answer about a cluster."""

    cluster: Annotated[str, "kubeconfig context, or the files; empty without a cluster"]
    time: Annotated[str, "time of the cluster state; empty if unknown"]
    timeOf: Annotated[
        Literal["read", "newest object", ""],
        "whether `time` is the time of the read, or the newest timestamp in a state without such a time",
    ]
    release: Annotated[str, "Kubernetes release of the predictions, such as 1.36"]
    profile: Annotated[str, "profiles of kube-scheduler"]
    assumes: Annotated[
        list[str], "what the answer assumes because the cluster state lacks it, such as `no LimitRanges`"
    ]
