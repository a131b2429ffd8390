"""Only one PriorityClass becomes the global default: reservation by Lease, and a count of what is there."""
