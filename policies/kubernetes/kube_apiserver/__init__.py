"""Parts of kube-apiserver with upstream's messages: validation, priority, quota, and dry runs of requests."""
