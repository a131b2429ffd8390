"""The steps of the API server before it stores an object: decode, default, validate. Upstream's `pkg/apis`."""
