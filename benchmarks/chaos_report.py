"""What became of every job, and of the collection, counted and judged."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.chaos_caller import Seen
from benchmarks.chaos_gathered import Gathered
from benchmarks.chaos_subtasks import Tasked
from benchmarks.processes import SERVICES
from ytcaption.v1 import event_pb2, job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one accepted job."""

    job_id: str
    source: str
    state: str
    """UNKNOWN if the server does not know the job."""
    attempts: int
    cuts: int
    """How often its watcher was cut off."""
    results: int
    """Good results in its event log."""
    ends: int
    differs: bool
    repeated: int
    missed: int

    @property
    def lost(self) -> bool:
        """Accepted, but not seen through."""
        return self.state != "SUCCEEDED"

    @property
    def ran_twice(self) -> bool:
        """More than one result."""
        return self.results > 1 or self.ends > 1


def judge(  # noqa: PLR0913 # everything that is known about a job
    job_id: str,
    source: str,
    job: job_pb2.Job | None,
    event_log: Sequence[pb.WatchJobResponse],
    seen: Seen,
    *,
    differs: bool,
) -> Outcome:
    """Compares what the watcher saw with what is stored."""
    events = [update.event for update in event_log]
    stored = {update.sequence for update in event_log}
    settled = [e.segment_settled.segment.index for e in events if e.HasField("segment_settled")]
    results = [
        event
        for event in events
        if event.HasField("execution_result")
        and event.execution_result.state == job_pb2.STAGE_STATE_COMPLETED
    ]
    return Outcome(
        job_id=job_id,
        source=source,
        state=_state(job),
        attempts=job.attempt if job else 0,
        cuts=seen.cuts,
        results=len(results),
        ends=sum(event.type == event_pb2.EVENT_TYPE_JOB_FINISHED for event in events),
        differs=differs,
        repeated=_repeated(seen.sequences) + max(_repeated(seen.segments), _repeated(settled)),
        missed=len(stored - set(seen.sequences)),
    )


def _state(job: job_pb2.Job | None) -> str:
    return job_pb2.JobState.Name(job.state).removeprefix("JOB_STATE_") if job else "UNKNOWN"


def _repeated(numbers: Sequence[int]) -> int:
    return len(numbers) - len(set(numbers))


@dataclass(slots=True)
class Run:
    """One chaos from its first job to its last."""

    seed: int
    jobs: int
    outcomes: list[Outcome] = field(default_factory=list)
    kills: Mapping[str, int] = field(default_factory=dict)
    not_accepted: int = 0
    """Asked for, but never accepted before the time was up."""
    surplus: int = 0
    """Surplus jobs: a repeated request created a second one."""
    wall_seconds: float = 0
    collection: Gathered | None = None
    """None if there was none."""
    tasks: Tasked | None = None
    """The collection with collectors and executors; None if there was none."""

    def figures(self) -> dict[str, int]:
        """All that is counted; everything but the first two must be 0."""
        found = self.outcomes
        return {
            "jobs accepted": len(found),
            "kills": sum(self.kills.values()),
            "jobs not accepted in time": self.not_accepted,
            "jobs lost": sum(outcome.lost for outcome in found),
            "surplus jobs": self.surplus,
            "jobs with a second result": sum(outcome.ran_twice for outcome in found),
            "transcripts that differ": sum(outcome.differs for outcome in found),
            "events a watcher saw twice": sum(outcome.repeated for outcome in found),
            "events a watcher missed": sum(outcome.missed for outcome in found),
            **(self.collection.figures() if self.collection else {}),
            **(self.tasks.figures() if self.tasks else {}),
        }

    def fault(self) -> str:
        """Why the run fails; empty if it passes."""
        bad = list(self.figures().items())[2:]
        return ", ".join(f"{count} {name}" for name, count in bad if count)


def table(run: Run) -> str:
    """A line for each figure."""
    attempts = [outcome.attempts for outcome in run.outcomes]
    kinds = [*SERVICES, *(name for name in run.kills if name not in SERVICES)]
    kills = ", ".join(f"{name} {run.kills.get(name, 0)}" for name in kinds)
    rows: list[tuple[str, object]] = [
        *run.figures().items(),
        ("kills by process", kills),
        ("attempts a job, mean", f"{sum(attempts) / max(1, len(attempts)):.1f}"),
        ("attempts a job, most", max(attempts, default=0)),
        ("watches begun again", sum(outcome.cuts for outcome in run.outcomes)),
        *_rows(run.collection),
        *_task_rows(run.tasks),
        ("wall time", f"{run.wall_seconds:.0f} s"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in rows)


def _rows(collection: Gathered | None) -> list[tuple[str, object]]:
    if collection is None:
        return []
    return [
        ("members of the collection", collection.members),
        ("kills while it ran", collection.kills),
        ("watches of it begun again", collection.cuts),
    ]


def _task_rows(tasks: Tasked | None) -> list[tuple[str, object]]:
    if tasks is None:
        return []
    return [
        ("subtasks of collectors and executors", tasks.subtasks),
        ("documents and recordings they found", f"{tasks.documents}, {tasks.recordings}"),
        ("attempts a subtask, most", tasks.attempts),
        ("subtasks and recordings that ended late", tasks.late),
        ("kills while these ran", tasks.kills),
        ("watches of these begun again", tasks.cuts),
    ]


def to_json(run: Run) -> dict[str, Any]:
    """Everything that was counted."""
    return {**asdict(run), "figures": run.figures(), "fault": run.fault()}
