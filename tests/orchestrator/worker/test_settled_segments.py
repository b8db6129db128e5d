"""A transcript has every segment that was settled."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from orchestrator.jobs.event_log import EventLogReader
from tests.orchestrator.conftest import Start
from tests.support.client import Client
from tests.support.dead_letters import busy
from tests.support.polling import until
from tests.support.scripted import Script
from tests.support.segments import TEXT
from ytcaption.v1 import event_pb2, job_pb2

BOUND = 120


async def test_the_transcript_of_one_attempt_is_not_read_back(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the attempt stored itself is known without a search through the stream."""

    def unreadable(*_: Any, **__: Any) -> Any:
        raise AssertionError("the event log was read")

    async with start() as client:
        monkeypatch.setattr(EventLogReader, "events", unreadable)
        job = await client.create()
        await _until_ended(client, job.job_id)
        monkeypatch.undo()
        text = await client.text(job.job_id)
        events = await client.events(job.job_id)

    settled = [event.segment_settled for event in events if event.HasField("segment_settled")]
    assert text == "".join(f"{one.segment.text}\n" for one in settled) == TEXT


async def test_a_transcript_shorter_than_what_was_settled_is_not_stored(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first reads back lack the last segment, as those of a replica that lags may."""
    script.segment_failures[3] = [busy()]  # so that a second attempt settles the rest
    events, short = EventLogReader.events, 0

    async def lagging(
        self: EventLogReader, owner_id: str, *given: Any, **named: Any
    ) -> AsyncIterator[tuple[int, event_pb2.Event]]:
        nonlocal short
        found = [one async for one in events(self, owner_id, *given, **named)]
        segments = [event for _, event in found if event.HasField("segment_settled")]
        if len(segments) == 6 and short < 2:
            short += 1
            found = [one for one in found if one[1] is not segments[-1]]
        for one in found:
            yield one

    async with start() as client:
        monkeypatch.setattr(EventLogReader, "events", lagging)
        job = await client.create()
        await _until_ended(client, job.job_id)
        monkeypatch.undo()
        text = await client.text(job.job_id)

    assert short == 2
    assert text == TEXT


async def _until_ended(client: Client, job_id: str) -> None:
    """Asks for the record: watching would read the event log, too."""

    async def ended() -> bool:
        return bool((await client.job(job_id)).state == job_pb2.JOB_STATE_SUCCEEDED)

    await until(ended, BOUND)
