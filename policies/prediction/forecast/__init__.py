"""The forecast: the new Pods of objects, the Pods that they preempt, and the replacements of those Pods."""
