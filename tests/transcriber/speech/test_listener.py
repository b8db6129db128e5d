"""Samples to windows, independent of how the samples arrive."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import numpy as np
import pytest
from faster_whisper.vad import get_vad_model

from mesh.errors import InvalidRequestError
from tests.support.polling import until
from tests.support.speech import SECOND, AlwaysSpeech, ScriptedDecoder, engine_with, recording
from transcriber.engine import Request, Segment, Started
from transcriber.speech.listener import AudioWindow, Listener
from transcriber.speech.vad import BATCH, SileroDetector


def windows_of(data: bytes, sizes: list[int], *, is_live: bool = False) -> list[AudioWindow]:
    """Feeds chunks of these sizes in turn."""
    listener = Listener(SileroDetector(), wait_for_short=not is_live)
    found, position, turn = [], 0, 0
    while position < len(data):
        size = sizes[turn % len(sizes)]
        found += listener.hear(data[position : position + size])
        position, turn = position + size, turn + 1
    return [*found, *listener.finish()[0]]


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("sizes", [[1001], [3, 64 * 1024], [7919, 12], [32_768]])
def test_windows_do_not_depend_on_how_the_audio_arrives(sizes: list[int], times: int) -> None:
    data = recording("sample") * times

    assert windows_of(data, sizes) == windows_of(data, [len(data)])


def test_a_recording_of_half_a_minute_is_one_window_unless_it_is_live() -> None:
    data = recording("sample")
    assert 10 * SECOND < len(data) < 30 * SECOND

    live = windows_of(data, [65_536], is_live=True)
    assert [window.is_whole for window in windows_of(data, [65_536])] == [True]
    assert len(live) > 1
    assert not any(window.is_whole for window in live)


def test_a_longer_recording_is_cut_as_if_it_were_live() -> None:
    data = recording("sample") * 4
    assert len(data) > 30 * SECOND

    assert windows_of(data, [65_536]) == windows_of(data, [65_536], is_live=True)


def test_a_window_has_the_samples_of_its_ranges() -> None:
    data = recording("sample")

    for window in windows_of(data, [5000]):
        places = [data[2 * one.start : 2 * one.end] for one in window.span.stretches]
        assert window.data == b"".join(places)


def test_silence_and_noise_are_no_speech() -> None:
    noise = np.random.default_rng(1).normal(0, 1000, 60 * 16_000).astype("<i2").tobytes()

    assert windows_of(bytes(60 * SECOND), [65_536]) == []
    assert windows_of(noise, [65_536]) == []


def test_streaming_detection_equals_detection_on_the_whole() -> None:
    samples = np.frombuffer(recording("sample"), "<i2")[: 20 * BATCH]
    audio = samples.astype(np.float32) / np.float32(32_768)
    detector = SileroDetector()

    streamed = np.concatenate([detector.judge(batch) for batch in audio.reshape(-1, BATCH)])

    whole = get_vad_model()(audio.copy()).reshape(-1)
    # Upstream hears the last chunk with its end cut off.
    assert np.allclose(streamed[:-1], whole[:-1], atol=1e-3)


def test_a_soft_voice_is_detected_after_a_loud_one_and_a_pause() -> None:
    loud = np.frombuffer(recording("sample"), "<i2")
    soft = (loud[: 3 * 16_000] // 40).astype("<i2").tobytes()
    room = np.random.default_rng(1).normal(0, 20, 6 * 16_000).astype("<i2").tobytes()
    alone = windows_of(room + soft, [65_536])

    after = windows_of(loud.tobytes() + room + soft, [65_536])

    assert alone
    begins = len(loud) + len(room) // 2
    assert any(window.span.start >= begins - 16_000 for window in after)


def test_silence_is_not_buffered() -> None:
    listener = Listener(SileroDetector(), wait_for_short=False)
    for _ in range(60):
        listener.hear(bytes(SECOND))

    assert len(listener._data) < SECOND


def test_audio_that_ends_within_a_sample_is_refused() -> None:
    listener = Listener(SileroDetector(), wait_for_short=False)
    listener.hear(bytes(SECOND + 1))

    with pytest.raises(InvalidRequestError, match="middle of a sample"):
        listener.finish()


def test_an_empty_recording_has_no_windows_and_no_duration() -> None:
    windows, ended = Listener(SileroDetector(), wait_for_short=False).finish()

    assert windows == []
    assert ended.duration.total_seconds() == 0


async def test_reading_stops_while_the_model_is_behind() -> None:
    decoder = ScriptedDecoder()
    decoder.go.clear()
    engine = await engine_with(decoder, new_detector=AlwaysSpeech)
    pulled, exhausted = 0, asyncio.Event()

    async def ten_minutes() -> AsyncIterator[bytes]:
        nonlocal pulled
        for _ in range(600):
            pulled += 1
            yield bytes(SECOND)
        exhausted.set()

    async with aclosing(engine.transcribe(ten_minutes(), Request(language="en"))) as events:
        assert isinstance(await anext(events), Started)
        first = asyncio.ensure_future(anext(events))
        await until(decoder.busy.is_set)
        # That something does not happen can only be shown by waiting for it.
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(exhausted.wait(), 1)
        assert pulled < 5 * 30
        decoder.go.set()
        assert isinstance(await first, Segment)
        async for _ in events:
            pass
    assert pulled == 600
