"""Everything stored of jobs, as one bundle: built once in wiring and passed down."""

from dataclasses import dataclass
from typing import Self

from mesh.bus import Bus
from orchestrator.jobs.artifacts import Artifacts
from orchestrator.jobs.dead_letters import DeadLetters
from orchestrator.jobs.event_log import EventLogReader
from orchestrator.jobs.store import JobStore

PATIENCE_SECONDS = 60.0
"""A broker outage shorter than this costs a running attempt nothing but time."""


@dataclass(frozen=True, slots=True)
class JobStorage:
    """The stores of jobs on one broker connection."""

    bus: Bus
    jobs: JobStore
    event_logs: EventLogReader
    artifacts: Artifacts
    patient_artifacts: Artifacts
    """The same store for attempts: waits out a broker outage."""
    dead_letters: DeadLetters

    @classmethod
    def on(cls, bus: Bus) -> Self:
        """Opens every store on this connection."""
        jobs = JobStore(bus)
        return cls(
            bus=bus,
            jobs=jobs,
            event_logs=EventLogReader(bus),
            artifacts=Artifacts(bus),
            patient_artifacts=Artifacts(bus, patience_seconds=PATIENCE_SECONDS),
            dead_letters=DeadLetters(bus, jobs),
        )
