"""kube-scheduler's plugins, one in each module, and their registry."""
