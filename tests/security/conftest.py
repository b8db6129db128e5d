"""Attacks from outside on a real orchestrator, and on the real stages they aim at."""

from tests.orchestrator.conftest import broker, grpc_core, patient, script, start

__all__ = ["broker", "grpc_core", "patient", "script", "start"]
