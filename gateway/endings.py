"""The last words of a story, written once however many wait for them."""

import asyncio

from gateway import telling
from gateway.backend import Orchestrator
from gateway.heard import has_text, text_of
from gateway.story_events import finished
from ytcaption.v1 import job_pb2


class Endings:
    """All who follow a job hear its end at the same moment: they share the work of telling it."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self._written: dict[tuple[str, int], asyncio.Task[bytes]] = {}

    async def of(self, job: job_pb2.Job, sequence: int) -> bytes:
        """The last event of a stream; a job that has outlived its story ends without a place."""
        key = job.job_id, sequence
        writing = self._written.get(key)
        if writing is None:
            writing = self._written[key] = asyncio.create_task(self._write(job, sequence))
            writing.add_done_callback(lambda _: self._written.pop(key, None))
        # Whoever goes away must not take the others' answer along.
        return await asyncio.shield(writing)

    async def _write(self, job: job_pb2.Job, sequence: int) -> bytes:
        detail = telling.detail(job)
        if has_text(job):
            detail.transcription_text = await text_of(self._orchestrator, job.job_id)
        return finished(sequence, detail)
