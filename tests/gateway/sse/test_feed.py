"""Job feeds: one WatchJob call for all streams of a job, and every event once for each of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from gateway.sse.stream import HEARTBEAT, encode
from mesh.errors import NotFoundError
from mesh.reasons import Reason
from tests.support.busy_orchestrator import BusyJob, serving
from tests.support.http import all_events, events, following, ids, running_gateway
from tests.support.polling import still, until
from ytcaption.v1 import event_pb2, job_pb2, media_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import pipeline_service_pb2_grpc as rpc

if TYPE_CHECKING:  # to mypy a servicer without all its rpcs is abstract; at run time it is not
    Servicer = object
else:
    Servicer = rpc.PipelineServiceServicer

PATH = "/jobs/one"
STREAMS = 50


class LiveJob(Servicer):
    """A running job whose event log grows as the test says."""

    def __init__(self, events: int = 0) -> None:
        self.job = job_pb2.Job(job_id="one", state=job_pb2.JOB_STATE_RUNNING)
        self.deleted = False
        self.watches: list[int] = []
        """The position of each WatchJob call."""
        self.watching = 0
        self._log: list[event_pb2.Event] = []
        self._grown = asyncio.Event()
        self.grow(events)

    def grow(self, count: int) -> None:
        for _ in range(count):
            segment = media_pb2.Segment(index=len(self._log), text="word")
            self._add(event_pb2.Event(segment_settled=event_pb2.SegmentSettled(segment=segment)))

    def end(self) -> None:
        job = job_pb2.Job(job_id="one", state=job_pb2.JOB_STATE_CANCELLED)
        finished = event_pb2.JobFinished(job=job)
        kind = event_pb2.EVENT_TYPE_JOB_FINISHED
        self._add(event_pb2.Event(type=kind, job_finished=finished))

    def _add(self, event: event_pb2.Event) -> None:
        self._log.append(event)
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    async def GetJob(self, request: pb.GetJobRequest, context: Any) -> pb.GetJobResponse:  # noqa: N802
        return pb.GetJobResponse(job=self.job)

    async def WatchJob(  # noqa: N802
        self, request: pb.WatchJobRequest, context: Any
    ) -> AsyncIterator[pb.WatchJobResponse]:
        if self.deleted:
            raise NotFoundError("no job", reason=Reason.JOB_NOT_FOUND)
        self.watches.append(request.after_sequence)
        self.watching += 1
        sequence = request.after_sequence
        try:
            yield pb.WatchJobResponse(job=self.job)
            while True:
                grown = self._grown
                while sequence < len(self._log):
                    event = self._log[sequence]
                    sequence += 1
                    yield pb.WatchJobResponse(sequence=sequence, event=event)
                    if event.HasField("job_finished"):
                        return
                await grown.wait()
        finally:
            self.watching -= 1


@asynccontextmanager
async def gateway_of(job: LiveJob) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        serving(job) as address,
        running_gateway(orchestrator=address) as http,
    ):
        yield http


@pytest.mark.parametrize("resuming", [False, True])
async def test_many_streams_share_one_watch_and_get_every_event_once(resuming: bool) -> None:
    job = LiveJob(events=40)
    positions = [number if resuming else 0 for number in range(STREAMS)]  # some are ahead of it
    async with gateway_of(job) as http, AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(following(http, PATH, position or None))
            for position in positions
        ]
        firsts = [await anext(stream) for stream in streams]
        job.grow(20)
        job.end()
        rests = [[event async for event in stream] for stream in streams]
        watches = list(job.watches)

    assert watches == [0]
    assert {first.name for first in firsts} == {"job"}
    for position, rest in zip(positions, rests, strict=True):
        assert ids(rest) == list(range(position + 1, 62))
        assert rest[-1].name == "finished"


async def test_an_event_is_encoded_once_for_all_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []

    def counting(*args: Any, sequence: int = 0, **more: Any) -> bytes:
        encoded.extend([sequence] if sequence else [])
        return encode(*args, sequence=sequence, **more)

    monkeypatch.setattr("gateway.sse.jobs.encode", counting)
    job = LiveJob(events=40)
    async with gateway_of(job) as http, AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(following(http, PATH)) for _ in range(STREAMS)]
        firsts = [await anext(stream) for stream in streams]
        job.grow(20)
        before_end = [[await anext(stream) for _ in range(60)] for stream in streams]

    assert len(firsts) == STREAMS
    assert all(ids(events) == list(range(1, 61)) for events in before_end)
    assert encoded == list(range(1, 61))


async def test_a_stream_that_resumes_far_ahead_sends_nothing_while_the_log_is_read() -> None:
    job = LiveJob(events=500)
    request = {"Last-Event-ID": "498"}
    async with (
        gateway_of(job) as http,
        http.stream("GET", f"{PATH}/events", headers=request) as answer,
    ):
        lines = answer.aiter_lines()
        received = [await anext(lines)]
        while "id: 500" not in received:
            received.append(await anext(lines))

    assert HEARTBEAT.decode().strip() not in received
    assert [line for line in received if line.startswith("id: ")] == ["id: 499", "id: 500"]


async def test_a_late_stream_gets_the_job_as_it_is_now_and_the_log_from_its_start() -> None:
    job = LiveJob(events=100)
    async with gateway_of(job) as http, following(http, PATH) as early:
        await anext(early)
        job.job.progress = 0.5
        async with following(http, PATH) as late:
            first = await anext(late)
            job.end()
            rest = [event async for event in late]

    assert (first.name, first.data["overall_progress"]) == ("job", 50.0)
    assert [event.name for event in rest].count("job") == 0
    assert ids(rest) == list(range(1, 102))
    assert job.watches == [0]


async def test_a_stream_that_is_not_read_does_not_hold_the_others() -> None:
    job = BusyJob(events=2000)
    async with (
        serving(job) as address,
        running_gateway(orchestrator=address) as http,
        http.stream("GET", f"{PATH}/events") as slow,
    ):
        await until(lambda: job.sent > 0)
        await still(lambda: job.sent)
        quick = await all_events(http, PATH)
        received = [event async for event in events(slow)]

    assert ids(quick) == ids(received) == list(range(1, 2001))
    assert job.watches == 1


async def test_the_watch_ends_with_the_last_stream_and_the_next_one_opens_another() -> None:
    job = LiveJob(events=3)
    async with gateway_of(job) as http:
        async with following(http, PATH) as first:
            await anext(first)
            async with following(http, PATH) as second:
                await anext(second)
            job.grow(1)
            while (await anext(first)).id != 4:  # the other has left, and this one goes on
                pass
            assert job.watching == 1
        await until(lambda: not job.watching)
        job.end()
        again = await all_events(http, PATH)

    assert ids(again) == [1, 2, 3, 4, 5]
    assert job.watches == [0, 0]


async def test_all_streams_resume_after_a_crash_of_the_orchestrator() -> None:
    job = LiveJob(events=5)
    async with AsyncExitStack() as stack:
        async with serving(job) as address:
            http = await stack.enter_async_context(running_gateway(orchestrator=address))
            streams = [await stack.enter_async_context(following(http, PATH)) for _ in range(3)]
            received = [[await anext(stream)] for stream in streams]
            for stream, got in zip(streams, received, strict=True):
                while got[-1].id != 5:
                    got.append(await anext(stream))
        job.grow(5)
        job.end()
        await stack.enter_async_context(serving(job, listen=address))
        for stream, got in zip(streams, received, strict=True):
            got += [event async for event in stream]

    assert job.watches == [0, 5]
    for got in received:
        assert ids(got) == list(range(1, 12))
        assert got[-1].name == "finished"


async def test_a_job_that_is_deleted_meanwhile_ends_its_streams_without_a_final_event() -> None:
    job = LiveJob(events=2)
    async with AsyncExitStack() as stack:
        async with serving(job) as address:
            http = await stack.enter_async_context(running_gateway(orchestrator=address))
            stream = await stack.enter_async_context(following(http, PATH))
            await anext(stream)
        job.deleted = True
        await stack.enter_async_context(serving(job, listen=address))
        rest = [event async for event in stream]

    assert ids(rest) == [1, 2]
    assert "finished" not in [event.name for event in rest]
