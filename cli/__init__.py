"""The ytcaption command: a gRPC client, and the local supervisor."""
