"""The API server's steps before it stores an object: decode, default, validate. Source: upstream's `pkg/apis`."""
