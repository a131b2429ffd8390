"""The admission webhook: receives admission requests and cluster state, and sends responses."""
