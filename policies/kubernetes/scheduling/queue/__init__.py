"""kube-scheduler's queue: the order of Pods and PodGroups, and the events that retry rejected ones.

Source: kubernetes `pkg/scheduler/backend/queue`. No function here blocks or reads a clock: callers pass the time.
"""
