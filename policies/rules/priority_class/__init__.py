"""Rules about PriorityClasses."""
