"""What kube-apiserver does with an object, in its words: validation, priority, quota, and all of it as a dry run."""
