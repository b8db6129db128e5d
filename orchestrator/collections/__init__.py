"""Many recordings under one request: found, begun, gathered and told of."""
