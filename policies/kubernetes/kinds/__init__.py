"""The kinds that forewarn reads, and the fields of custom resources that name PriorityClasses."""
