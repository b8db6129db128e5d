"""The transcriber over a real socket, with a scripted engine instead of Whisper."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import timedelta

import grpc
import pytest
from structlog.contextvars import get_contextvars

from mesh.status import reason_of
from tests.support.speech import serving
from transcriber.engine import (
    Event,
    Finished,
    ModelInfo,
    ModelState,
    Phase,
    Preparing,
    Progress,
    Request,
    Segment,
    Started,
    TimedWord,
    TranslationInfo,
)
from ytcaption.v1 import media_pb2
from ytcaption.v1 import transcriber_service_pb2 as pb
from ytcaption.v1 import transcriber_service_pb2_grpc as rpc

START = pb.TranscribeRequest(start=pb.TranscribeStart(job_id="j1"))
AUDIO = pb.TranscribeRequest(audio=b"\0\0" * 16_000)
NOTHING = pb.TranscribeRequest()
HUGE = pb.TranscribeRequest(audio=bytes(64 * 1024 + 2))
ONE, TWO = timedelta(seconds=1), timedelta(seconds=2)


class OneWordEngine:
    """Reads all samples, then returns "hello"."""

    def __init__(self) -> None:
        self.request = Request()
        self.job_id = ""

    async def transcribe(
        self, samples: AsyncIterator[bytes], request: Request
    ) -> AsyncGenerator[Event, None]:
        self.request, self.job_id = request, get_contextvars()["job_id"]
        yield Started("scripted", "cpu", "int8")
        length = timedelta(seconds=sum([len(chunk) async for chunk in samples]) / 32_000)
        word = TimedWord(timedelta(0), ONE, "hello", 0.5)
        yield Segment(7, timedelta(0), length, "hello", (word,), 0.25, "pt", TWO, "olá", True)
        yield Progress(length)
        yield Finished("pt", None, length, ONE, "en")

    def state(self) -> ModelState:
        return ModelState("base", False, Preparing("base", Phase.FETCHING, 45, 145))

    def translations(self) -> Sequence[TranslationInfo]:
        return [TranslationInfo("nllb", ("en", "pt"), ("de", "fr"))]

    async def models(self) -> Sequence[ModelInfo]:
        return [ModelInfo("base", ("en", "pt"), loaded=True, selected=True)]


@pytest.fixture
def engine() -> OneWordEngine:
    return OneWordEngine()


@pytest.fixture
async def transcriber(engine: OneWordEngine) -> AsyncIterator[rpc.TranscriberServiceStub]:
    async with serving(engine) as stub:
        yield stub


async def test_started_is_the_first_event_and_finished_the_last(
    transcriber: rpc.TranscriberServiceStub,
) -> None:
    events = [event async for event in transcriber.Transcribe(iter([START, AUDIO, AUDIO]))]

    kinds = [event.WhichOneof("event") for event in events]
    assert kinds == ["started", "segment", "progress", "finished"]
    assert events[0].started == pb.TranscribeStarted(
        model="scripted", device="cpu", compute_type="int8"
    )
    assert events[2].progress.done.ToTimedelta() == TWO
    assert events[3].finished.duration.ToTimedelta() == TWO


async def test_a_segment_message_has_every_field_of_the_segment(
    transcriber: rpc.TranscriberServiceStub,
) -> None:
    events = [event async for event in transcriber.Transcribe(iter([START, AUDIO]))]

    segment = events[1].segment
    assert (segment.index, segment.text, segment.language) == (7, "hello", "pt")
    assert (segment.confidence, segment.uncertain) == (0.25, True)
    assert (segment.translation, events[-1].finished.language_out) == ("olá", "en")
    assert segment.settled_offset.ToTimedelta() == TWO
    assert [(word.text, word.end_offset.ToTimedelta()) for word in segment.words] == [
        ("hello", ONE)
    ]


async def test_probability_is_unset_unless_the_language_was_detected(
    transcriber: rpc.TranscriberServiceStub,
) -> None:
    events = [event async for event in transcriber.Transcribe(iter([START, AUDIO]))]

    assert not events[-1].finished.HasField("language_probability")


async def test_the_engine_gets_every_option_and_logs_name_the_job(
    transcriber: rpc.TranscriberServiceStub, engine: OneWordEngine
) -> None:
    opening = pb.TranscribeStart(
        job_id="j42",
        language="pt-BR",
        language_out="en",
        word_timestamps=True,
        initial_prompt="Maria",
        beam_size=3,
        next_index=9,
        hotwords="Ana",
        mixed_languages=True,
        languages=["pt", "en"],
    )
    opening.settled_offset.FromTimedelta(TWO)

    await transcriber.Transcribe(iter([pb.TranscribeRequest(start=opening)])).read()

    assert engine.request == Request(
        "pt-BR", "en", True, "Maria", 3, TWO, 9, "Ana", True, ("pt", "en")
    )
    assert engine.job_id == "j42"


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([AUDIO], "START_MISSING"),
        ([], "START_MISSING"),
        ([NOTHING], "START_MISSING"),
        ([START, START], "START_REPEATED"),
        ([START, NOTHING], "FRAME_EMPTY"),
        ([START, HUGE], "FRAME_TOO_LARGE"),
    ],
)
async def test_broken_frames_are_refused(
    transcriber: rpc.TranscriberServiceStub, frames: list[pb.TranscribeRequest], reason: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        [event async for event in transcriber.Transcribe(iter(frames))]

    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert reason_of(caught.value) == reason


async def test_the_model_state_reports_fetched_bytes(
    transcriber: rpc.TranscriberServiceStub,
) -> None:
    state = await transcriber.GetModelState(pb.GetModelStateRequest())

    fetching = media_pb2.ModelPreparation(
        model="base",
        phase=media_pb2.PREPARATION_PHASE_FETCHING,
        fetched=media_pb2.ByteProgress(done_bytes=45, total_bytes=145),
    )
    assert state == pb.GetModelStateResponse(model="base", loaded=False, preparing=fetching)


async def test_models_are_listed_with_their_languages(
    transcriber: rpc.TranscriberServiceStub,
) -> None:
    listed = await transcriber.ListModels(pb.ListModelsRequest())

    expected = pb.Model(name="base", languages=["en", "pt"], loaded=True, selected=True)
    assert list(listed.models) == [expected]
    can = pb.Translation(model="nllb", source_languages=["en", "pt"], target_languages=["de", "fr"])
    assert list(listed.translations) == [can]


async def test_purge_removes_nothing_because_nothing_is_stored(
    transcriber: rpc.TranscriberServiceStub,
) -> None:
    answer = await transcriber.Purge(pb.TranscriberServicePurgeRequest())

    assert (answer.files_removed, answer.bytes_removed) == (0, 0)


class EndlessEngine(OneWordEngine):
    """Yields segments until it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = asyncio.Event()

    async def transcribe(
        self, samples: AsyncIterator[bytes], request: Request
    ) -> AsyncGenerator[Event, None]:
        try:
            while True:
                yield Segment(0, ONE, TWO, "x" * 10_000, (), 0.5, "en", ONE)
        finally:
            self.closed.set()


async def test_cancelling_the_call_stops_the_engine() -> None:
    engine = EndlessEngine()
    async with serving(engine) as transcriber:
        call = transcriber.Transcribe(iter([START]))
        await call.read()
        call.cancel()
        await asyncio.wait_for(engine.closed.wait(), timeout=60)
