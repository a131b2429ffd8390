"""The scheduling core: what kube-scheduler would do with a pod. Names and structure are upstream's."""
