"""kube-scheduler's queue: the order of Pods, and the events that retry a rejected Pod.

Source: kubernetes `pkg/scheduler/backend/queue`. No function here blocks or reads a clock: callers pass the time.
"""
