"""Ensures that only one PriorityClass becomes the global default: reservation by Lease, and a monitor."""
