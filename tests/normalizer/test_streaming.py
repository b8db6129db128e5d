"""Over a real socket events flow while bytes arrive, at the pace of the slower side."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mesh.frames import MAX_FRAME_BYTES
from normalizer.engine import Options, Request, Samples, Started
from normalizer.ffmpeg_engine import FfmpegEngine
from tests.normalizer.conftest import EngineMaker, ScriptMaker
from tests.normalizer.media import SECONDS, endless_wav, normalized, recording, sent
from tests.support.polling import still, until
from tests.support.processes import Newborn
from ytcaption.v1 import normalizer_service_pb2 as pb
from ytcaption.v1 import normalizer_service_pb2_grpc as rpc

MEGABYTE = 1024 * 1024


def start(**fields: object) -> pb.NormalizeRequest:
    return pb.NormalizeRequest(start=pb.NormalizeStart(job_id="j1", **fields))  # type: ignore[arg-type]


async def frames(data: bytes, **fields: object) -> AsyncIterator[pb.NormalizeRequest]:
    yield start(**fields)
    async for chunk in sent(data):
        yield pb.NormalizeRequest(chunk=chunk)


async def test_started_is_first_finished_last_and_every_frame_fits(
    stub: rpc.NormalizerServiceStub,
) -> None:
    call = stub.Normalize(frames(recording("wav"), keep_audio=True))
    events = [event async for event in call]

    kinds = [event.WhichOneof("event") for event in events]
    assert kinds[0] == "started"
    assert kinds[-1] == "finished"
    assert set(kinds[1:-1]) == {"samples", "kept_audio", "progress"}
    assert all(len(event.samples) <= MAX_FRAME_BYTES for event in events)
    assert all(len(event.samples) % 2 == 0 for event in events)
    assert all(len(event.kept_audio) <= MAX_FRAME_BYTES for event in events)
    finished = events[-1].finished
    assert finished.duration.ToTimedelta().total_seconds() == pytest.approx(SECONDS, abs=0.05)
    assert finished.kept_audio_bytes == sum(len(event.kept_audio) for event in events)


@pytest.mark.parametrize("suffix", ["mp3", "flac", "wav", "opus", "mkv"])
async def test_first_samples_arrive_before_everything_was_sent(
    stub: rpc.NormalizerServiceStub, suffix: str
) -> None:
    data = recording(suffix, sound="anoisesrc=duration=60:seed=7:amplitude=0.3:sample_rate=44100")
    first_samples = asyncio.Event()

    async def sending() -> AsyncIterator[pb.NormalizeRequest]:
        yield start()
        async for chunk in sent(data[: len(data) // 2]):
            yield pb.NormalizeRequest(chunk=chunk)
        await (
            first_samples.wait()
        )  # the second half is sent only after samples of the first arrived
        async for chunk in sent(data[len(data) // 2 :]):
            yield pb.NormalizeRequest(chunk=chunk)

    size = 0
    async for event in stub.Normalize(sending()):
        size += len(event.samples)
        if event.samples:
            first_samples.set()

    assert size / 32_000 == pytest.approx(60, abs=0.05)


async def test_few_seconds_of_sound_suffice_for_the_first_samples(engine: FfmpegEngine) -> None:
    data = recording("mp3", "-b:a", "128k", sound="sine=duration=60:sample_rate=44100")
    first_samples = asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        begin = 5 * 128_000 // 8
        yield data[:begin]
        async with asyncio.timeout(60):
            await first_samples.wait()
        yield data[begin:]

    options = Options(convert_to_mono=True, set_sample_rate_16k=True)
    async for event in engine.normalize(chunks(), Request(options, keep_audio=True)):
        if isinstance(event, Samples):
            first_samples.set()

    assert first_samples.is_set()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has batch scheduling")
async def test_every_thread_of_ffmpeg_is_batch_work(engine: FfmpegEngine, newborn: Newborn) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for chunk in endless_wav(50 * MEGABYTE):
            yield chunk

    events = engine.normalize(chunks(), Request(keep_audio=True))
    async for event in events:
        if isinstance(event, Samples):
            break
    (ffmpeg,) = newborn()
    policies = [os.sched_getscheduler(thread.id) for thread in ffmpeg.threads()]
    await events.aclose()

    assert len(policies) > 1
    assert set(policies) == {os.SCHED_BATCH}


async def test_an_engine_whose_events_are_not_read_stops_reading(engine: FfmpegEngine) -> None:
    taken = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal taken
        for chunk in endless_wav(200 * MEGABYTE):
            taken += len(chunk)
            yield chunk

    events = engine.normalize(chunks(), Request(keep_audio=True))
    async for event in events:
        if isinstance(event, Samples):
            break

    await until(lambda: taken > 0)
    assert await still(lambda: taken) < 16 * MEGABYTE
    await events.aclose()


async def test_backpressure_reaches_a_caller_that_does_not_read(
    stub: rpc.NormalizerServiceStub,
) -> None:
    taken = 0

    async def sending() -> AsyncIterator[pb.NormalizeRequest]:
        nonlocal taken
        yield start()
        for chunk in endless_wav(400 * MEGABYTE):
            taken += len(chunk)
            yield pb.NormalizeRequest(chunk=chunk)

    call = stub.Normalize(sending())
    await call.read()

    await until(lambda: taken > 0)
    assert await still(lambda: taken) < 64 * MEGABYTE
    call.cancel()


async def test_the_call_ends_only_when_the_caller_has_sent_everything(
    make_engine: EngineMaker,
    script: ScriptMaker,
    newborn: Newborn,
    tmp_path: Path,
) -> None:
    samples = tmp_path / "samples.mka"
    samples.write_bytes(recording("mka", "-ac", "1", "-ar", "16000", "-c:a", "pcm_s16le"))
    satisfied = make_engine(script(f"head -c 9000 >/dev/null; cat {samples}"))
    everything_sent = False

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal everything_sent
        yield bytes(9000)
        await until(lambda: not newborn())
        yield bytes(9000)
        yield b"and more that is not needed"
        everything_sent = True

    outcome = await normalized(satisfied, chunks())

    assert outcome.finished
    assert outcome.seconds == pytest.approx(SECONDS)
    assert everything_sent


async def test_recordings_over_the_limit_wait_for_a_slot(make_engine: EngineMaker) -> None:
    engine = make_engine(max_recordings=1)
    first = engine.normalize(sent(recording("wav")), Request())
    while not isinstance(await anext(first), Samples):
        pass
    second = engine.normalize(sent(recording("wav")), Request())
    assert isinstance(await anext(second), Started)
    waiting = asyncio.ensure_future(anext(second))

    async for _ in first:
        assert not waiting.done()

    await waiting
    await second.aclose()
