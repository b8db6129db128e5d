"""Real speech, a real model, a real socket."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import grpc
import jiwer
import pytest

from mesh.status import reason_of
from tests.support.speech import (
    SECOND,
    audio_frames,
    engine_with,
    recording,
    reference,
    serving,
    start,
    words,
)
from transcriber.speech.whisper import WhisperDecoder
from ytcaption.v1 import transcriber_service_pb2 as pb
from ytcaption.v1 import transcriber_service_pb2_grpc as rpc

PORTUGUESE = {"não", "que", "uma", "um", "e", "da", "os", "para", "com"}
ENGLISH = {"the", "a", "of", "and", "is", "to"}


@pytest.fixture
async def transcriber(base: WhisperDecoder) -> AsyncIterator[rpc.TranscriberServiceStub]:
    async with serving(await engine_with(base)) as stub:
        yield stub


async def hear(
    transcriber: rpc.TranscriberServiceStub, data: bytes, opening: pb.TranscribeRequest
) -> list[pb.TranscribeResponse]:
    frames = iter([opening, *audio_frames(data)])
    return [event async for event in transcriber.Transcribe(frames)]


def text_of(events: list[pb.TranscribeResponse]) -> str:
    return words(" ".join(event.segment.text for event in events if event.HasField("segment")))


def wer(name: str, events: list[pb.TranscribeResponse]) -> float:
    return float(jiwer.wer(reference(name), text_of(events)))


async def test_english_is_transcribed_in_time_order(
    transcriber: rpc.TranscriberServiceStub,
) -> None:
    data = recording("sample")
    events = await hear(transcriber, data, start())

    segments = [event.segment for event in events if event.HasField("segment")]
    assert wer("sample", events) < 0.1
    assert [segment.index for segment in segments] == list(range(len(segments)))
    moments = [
        offset.ToTimedelta()
        for segment in segments
        for offset in (segment.start_offset, segment.end_offset)
    ]
    assert moments == sorted(moments)
    finished = events[-1].finished
    assert finished.duration.ToTimedelta() == timedelta(seconds=len(data) / SECOND)
    assert moments[-1] <= finished.duration.ToTimedelta()
    assert finished.language == "en"
    assert finished.language_probability > 0.5


async def test_progress_never_goes_back_and_ends_at_the_end(
    transcriber: rpc.TranscriberServiceStub,
) -> None:
    events = await hear(transcriber, recording("short"), start(language="en"))

    reached = [event.progress.done.ToTimedelta() for event in events if event.HasField("progress")]
    assert reached == sorted(reached)
    assert reached[-1] == events[-1].finished.duration.ToTimedelta()


async def test_portuguese_is_detected_and_transcribed(
    transcriber: rpc.TranscriberServiceStub,
) -> None:
    events = await hear(transcriber, recording("portuguese"), start())

    assert events[-1].finished.language == "pt"
    assert wer("portuguese", events) < 0.25


@pytest.mark.parametrize("option", ["hotwords", "initial_prompt"])
async def test_words_to_expect_are_preferred_only_where_they_fit(
    transcriber: rpc.TranscriberServiceStub, option: str
) -> None:
    for expected, transcribed in [("Wether Mourning", "wether"), ("Lovelee", "weather")]:
        opening = start(language="en", **{option: expected})
        events = await hear(transcriber, recording("short"), opening)
        assert transcribed in text_of(events).split()


async def test_a_translation_is_english_and_the_original_is_kept(
    transcriber: rpc.TranscriberServiceStub,
) -> None:
    plain = await hear(transcriber, recording("portuguese"), start(language="pt"))
    events = await hear(transcriber, recording("portuguese"), start(language_out="en"))

    segments = [event.segment for event in events if event.HasField("segment")]
    assert text_of(events) == text_of(plain)
    translation = words(" ".join(segment.translation for segment in segments))
    assert not set(translation.split()) & PORTUGUESE
    assert set(translation.split()) & ENGLISH
    assert events[-1].finished.language_out == "en"
    assert plain[-1].finished.language_out == ""
    assert not any(event.segment.translation for event in plain)


async def test_english_is_not_translated_into_english(
    transcriber: rpc.TranscriberServiceStub,
) -> None:
    events = await hear(transcriber, recording("short"), start(language_out="en-GB"))

    assert text_of(events) == reference("short")
    assert not any(event.segment.translation for event in events)
    assert events[-1].finished.language_out == ""


async def test_in_mixed_languages_each_window_is_transcribed_in_its_own(
    transcriber: rpc.TranscriberServiceStub,
) -> None:
    data = recording("portuguese") + bytes(4 * SECOND) + recording("short")
    events = await hear(transcriber, data, start(mixed_languages=True))

    segments = [event.segment for event in events if event.HasField("segment")]
    assert [segments[0].language, segments[-1].language] == ["pt", "en"]
    assert words(segments[-1].text) == reference("short")
    assert events[-1].finished.language == "pt"  # most of it
    assert not events[-1].finished.HasField("language_probability")


async def test_a_regional_tag_names_the_language(transcriber: rpc.TranscriberServiceStub) -> None:
    events = await hear(transcriber, recording("portuguese"), start(language="pt-BR"))

    assert {event.segment.language for event in events if event.HasField("segment")} == {"pt"}
    assert not events[-1].finished.HasField("language_probability")


async def test_the_first_segment_leaves_while_audio_still_arrives(
    transcriber: rpc.TranscriberServiceStub,
) -> None:
    data = recording("sample")[: 12 * SECOND]
    somebody_read_it = asyncio.Event()

    async def half_then_the_rest() -> AsyncIterator[pb.TranscribeRequest]:
        yield start(language="en", live=True)
        for frame in audio_frames(data[: 8 * SECOND]):
            yield frame
        await somebody_read_it.wait()
        for frame in audio_frames(data[8 * SECOND :]):
            yield frame

    events = []
    async with asyncio.timeout(60):
        async for event in transcriber.Transcribe(half_then_the_rest()):
            events.append(event)
            if event.HasField("segment"):
                somebody_read_it.set()

    assert text_of(events).endswith("while the video is still arriving")


async def test_words_lie_within_their_segment_wherever_that_is(
    transcriber: rpc.TranscriberServiceStub,
) -> None:
    quiet = 20 * SECOND
    data = bytes(quiet) + recording("short")
    events = await hear(transcriber, data, start(language="en", word_timestamps=True))

    (segment,) = [event.segment for event in events if event.HasField("segment")]
    assert words(" ".join(word.text for word in segment.words)) == reference("short")
    moments = [
        offset.ToTimedelta()
        for word in segment.words
        for offset in (word.start_offset, word.end_offset)
    ]
    assert moments == sorted(moments)
    assert moments[0] >= timedelta(seconds=19.5)
    assert moments[-1] <= timedelta(seconds=len(data) / SECOND)


@pytest.mark.parametrize(
    ("opening", "code", "reason"),
    [
        (start(language="xx"), grpc.StatusCode.INVALID_ARGUMENT, "LANGUAGE_UNKNOWN"),
        (start(language="pt-BR!"), grpc.StatusCode.INVALID_ARGUMENT, "LANGUAGE_UNKNOWN"),
        # Only large-v3 hears Cantonese.
        (start(language="yue"), grpc.StatusCode.INVALID_ARGUMENT, "LANGUAGE_UNSUPPORTED"),
        (start(beam_size=11), grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_INVALID"),
        (start(beam_size=-1), grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_INVALID"),
        (start(language_out="fr"), grpc.StatusCode.UNIMPLEMENTED, "TRANSLATION_UNSUPPORTED"),
        (start(language_out="xx"), grpc.StatusCode.INVALID_ARGUMENT, "LANGUAGE_UNKNOWN"),
        (
            start(language="pt", mixed_languages=True),
            grpc.StatusCode.INVALID_ARGUMENT,
            "REQUEST_INVALID",
        ),
    ],
)
async def test_unsupported_requests_are_refused_before_any_audio(
    transcriber: rpc.TranscriberServiceStub,
    opening: pb.TranscribeRequest,
    code: grpc.StatusCode,
    reason: str,
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await transcriber.Transcribe(iter([opening])).read()

    assert caught.value.code() is code
    assert reason_of(caught.value) == reason


async def test_half_a_sample_is_refused(transcriber: rpc.TranscriberServiceStub) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await hear(transcriber, bytes(SECOND + 1), start())

    assert reason_of(caught.value) == "REQUEST_INVALID"


async def test_an_english_model_refuses_portuguese_but_transcribes_english(
    tiny_en: WhisperDecoder,
) -> None:
    async with serving(await engine_with(tiny_en)) as transcriber:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await transcriber.Transcribe(iter([start(language="pt")])).read()
        assert reason_of(caught.value) == "LANGUAGE_UNSUPPORTED"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await transcriber.Transcribe(iter([start(language_out="en")])).read()
        assert reason_of(caught.value) == "TRANSLATION_UNSUPPORTED"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await transcriber.Transcribe(iter([start(mixed_languages=True)])).read()
        assert reason_of(caught.value) == "LANGUAGE_UNSUPPORTED"

        events = await hear(transcriber, recording("sample"), start())
        assert wer("sample", events) < 0.1
        assert events[-1].finished.language == "en"
        assert not events[-1].finished.HasField("language_probability")
