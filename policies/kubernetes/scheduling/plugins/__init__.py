"""kube-scheduler's plugins, and their registry."""
