"""Through time: what becomes of a cluster, one event after the other. Nothing here waits: time is a number."""
