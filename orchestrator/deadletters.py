"""The dead-letter queue: one letter for each job that will not be tried again."""

from nats.js.errors import APIError

from mesh.bus import WRONG_LAST_SEQUENCE, Bus
from ytcaption.v1 import job_pb2


class DeadLetters:
    """Writes letters."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def bury(self, job: job_pb2.Job) -> None:
        """Writes the job's letter unless it is there already."""
        letter = job_pb2.DeadLetter(
            job_id=job.job_id,
            correlation_id=job.correlation_id,
            work_item=job_pb2.WorkItem(
                job_id=job.job_id,
                correlation_id=job.correlation_id,
                enqueue_time=job.create_time,
            ),
            failure=job.failure,
            attempts=job.attempt,
            first_attempt_time=job.start_time,
            dead_time=job.end_time,
        )
        fence = {"Nats-Expected-Last-Subject-Sequence": "0"}
        subject = self._bus.names.dead_letter(job.job_id)
        try:
            await self._bus.publish(subject, letter.SerializeToString(), fence)
        except APIError as error:
            if error.err_code not in WRONG_LAST_SEQUENCE:  # else it is there already
                raise
