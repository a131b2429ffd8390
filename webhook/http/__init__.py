"""HTTP over TLS: the server, its limits, and the routes."""
