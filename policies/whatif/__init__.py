"""What becomes of a cluster if something happens to it: a question as arrivals of a simulation, and the two states."""
