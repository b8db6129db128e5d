"""The `ytcaption` command: a gRPC client of the orchestrator, and a supervisor for a local mesh."""
