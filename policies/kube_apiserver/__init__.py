"""kube-apiserver: validation, priority, quota, and all of them as a dry run, with upstream's messages."""
