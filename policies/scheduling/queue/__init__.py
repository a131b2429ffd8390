"""kube-scheduler's queue: which pod is tried next, and what makes a rejected pod worth another try.

Source: kubernetes `pkg/scheduler/backend/queue`. Nothing here waits or knows a clock: who asks says what time it is.
"""
