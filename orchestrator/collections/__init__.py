"""Many recordings under one request."""
