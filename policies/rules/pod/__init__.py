"""Rules about the priority of pods and pod templates, and about what their pods would preempt."""
