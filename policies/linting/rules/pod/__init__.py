"""Rules about the priority of Pods and Pod templates, and about preemption by these Pods."""
