"""The orchestrator: the only service a client needs."""
