"""What the API server does to an object before it stores it: decode, default, validate. Upstream's `pkg/apis`."""
