"""Several recordings share one model."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mesh import slots
from mesh.errors import UnavailableError
from mesh.reasons import Reason
from tests.support.polling import until
from tests.support.speech import (
    SECOND,
    AlwaysSpeech,
    ScriptedDecoder,
    audio_frames,
    engine_with,
    events_of,
    recording,
    serving,
    start,
    stream,
)
from transcriber.decoder import Audio, DecodeOptions, Phrase
from transcriber.engine import (
    Event,
    Finished,
    ModelState,
    Phase,
    Preparing,
    Progress,
    Request,
    Segment,
    Started,
    Waiting,
)
from transcriber.model.weights import locate
from transcriber.speech.streaming import Preparation, StreamingEngine
from transcriber.speech.whisper import CACHED_ENCODINGS, WhisperDecoder
from transcriber.translation.translator import Models

ENGLISH = Request(language="en")
READY = Started("scripted", "cpu", "int8")


def tone(level: int, seconds: int) -> bytes:
    """Samples whose level identifies the recording."""
    return np.full(seconds * 16_000, level, "<i2").tobytes()


async def without_end() -> AsyncIterator[bytes]:
    """A caller that is connected and sends nothing."""
    await asyncio.Event().wait()
    yield b""


async def test_silence_is_never_fed_to_the_model() -> None:
    decoder = ScriptedDecoder()
    engine = await engine_with(decoder)

    events = await events_of(engine, bytes(60 * SECOND))

    assert decoder.decoded == []
    assert decoder.detected == 0
    assert isinstance(events[-1], Finished)
    assert (events[-1].language, events[-1].language_probability) == ("", None)
    assert events[-1].duration.total_seconds() == 60
    assert events[-1].speech_duration.total_seconds() == 0
    assert any(isinstance(event, Progress) for event in events)


async def test_an_uncertain_language_waits_for_more_speech() -> None:
    decoder = ScriptedDecoder()
    decoder.certainty = [0.2, 0.79]
    engine = await engine_with(decoder)

    events = await events_of(engine, recording("sample"), Request(live=True))

    assert decoder.detected == 3
    assert len(decoder.decoded) == 3
    assert [event.index for event in events if isinstance(event, Segment)] == list(range(6))


async def test_every_recording_has_as_many_windows_at_the_decoder_as_keep_it_busy() -> None:
    decoder = ScriptedDecoder()
    decoder.concurrency = 2
    decoder.go.clear()
    engine = await engine_with(decoder, new_detector=AlwaysSpeech)

    def levels() -> list[int]:
        return sorted(round(float(audio.mean())) for audio in decoder.decoded)

    recordings = [
        asyncio.ensure_future(events_of(engine, tone(level, 100), ENGLISH))
        for level in (1000, 2000)
    ]
    await until(lambda: len(decoder.decoded) == 4)
    first = levels()
    decoder.go.set()
    await asyncio.gather(*recordings)

    assert first == [1000, 1000, 2000, 2000]
    assert levels().count(1000) == levels().count(2000) > 2


async def test_a_cancelled_call_frees_its_place_and_decodes_no_further_window() -> None:
    decoder = ScriptedDecoder()
    decoder.go.clear()
    engine = await engine_with(decoder, max_recordings=1, new_detector=AlwaysSpeech)
    async with serving(engine) as transcriber:
        frames = [start(language="en"), *audio_frames(tone(1000, 120))]
        call = transcriber.Transcribe(iter(frames))
        await until(decoder.busy.is_set)
        call.cancel()

        # The model is still inside the abandoned window, yet the next call is let in.
        frames = [start(language="en"), *audio_frames(tone(2000, 5))]
        following = aiter(transcriber.Transcribe(iter(frames)))
        assert (await asyncio.wait_for(anext(following), 60)).HasField("started")
        decoder.go.set()
        events = [event async for event in following]

    assert events[-1].HasField("finished")
    assert [round(float(audio.mean())) for audio in decoder.decoded] == [1000, 2000]
    assert decoder.abandoned == [True, False]


async def test_whisper_serves_the_next_call_after_a_cancelled_one(base: WhisperDecoder) -> None:
    engine = await engine_with(base, max_recordings=1)
    async with aclosing(engine.transcribe(stream(recording("sample")), ENGLISH)) as events:
        async for event in events:
            if isinstance(event, Segment):
                break

    found = await events_of(engine, recording("short"), ENGLISH)

    assert [event.text for event in found if isinstance(event, Segment)]


def test_a_window_is_encoded_once_whatever_other_windows_do_meanwhile(weights_cache: Path) -> None:
    decoder = CountingDecoder(locate("tiny.en", weights_cache, "cpu"), "cpu", "int8", 1)
    audio = np.frombuffer(recording("sample"), "<i2")
    windows = [audio[second * 16_000 :][: 5 * 16_000] for second in range(6)]
    # Greedy, then wide where that is unsure, then the times of words: three uses of an encoding.
    options = DecodeOptions(5, greedy_first=True, word_timestamps=True)

    def decode(window: Audio) -> list[Phrase]:
        return decoder.decode(window, "en", options, lambda: False)

    with ThreadPoolExecutor(len(windows)) as pool:
        found = list(pool.map(decode, windows))
    decoder.close()

    assert all(phrase.words for phrases in found for phrase in phrases)
    assert len(decoder.encoded) >= len(windows) > CACHED_ENCODINGS
    assert set(decoder.encoded.values()) == {1}


class CountingDecoder(WhisperDecoder):
    """Counts how often each window was encoded."""

    def __init__(self, *arguments: Any) -> None:
        self.encoded: Counter[Any] = Counter()
        super().__init__(*arguments)

    def _encode_uncached(self, features: Any, length: int) -> Any:
        self.encoded[features, length] += 1
        return super()._encode_uncached(features, length)


async def test_a_recording_beyond_the_limit_waits_for_a_slot() -> None:
    engine = await engine_with(ScriptedDecoder(), max_recordings=1)
    holding = engine.transcribe(stream(tone(1000, 120)), ENGLISH)
    while not isinstance(await anext(holding), Progress):
        pass
    waiting = asyncio.ensure_future(events_of(engine, tone(1000, 5), ENGLISH))
    done, _ = await asyncio.wait({waiting}, timeout=0.2)
    assert not done

    await holding.aclose()

    assert isinstance((await asyncio.wait_for(waiting, 60))[-1], Finished)


async def test_a_caller_that_sends_no_audio_holds_no_slot() -> None:
    engine = await engine_with(ScriptedDecoder(), max_recordings=1)
    silent = engine.transcribe(without_end(), ENGLISH)
    assert isinstance(await anext(silent), Started)
    waiting = asyncio.ensure_future(anext(silent))

    events = await asyncio.wait_for(events_of(engine, tone(1000, 5), ENGLISH), 60)

    assert isinstance(events[-1], Finished)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait({waiting})


async def test_a_live_stream_takes_no_slot_of_a_job() -> None:
    engine = await engine_with(ScriptedDecoder(), max_recordings=1, max_live_streams=1)
    live = engine.transcribe(stream(tone(1000, 120)), replace(ENGLISH, live_stream=True))
    while not isinstance(await anext(live), Progress):
        pass

    events = await asyncio.wait_for(events_of(engine, tone(1000, 5), ENGLISH), 60)

    assert isinstance(events[-1], Finished)
    await live.aclose()


async def test_an_idle_live_stream_keeps_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "IDLE_SECONDS", 0.001)
    monkeypatch.setattr(slots, "REPORT_SECONDS", 0.01)
    engine = await engine_with(ScriptedDecoder(), max_live_streams=1)

    async def idle_after(sound: bytes) -> AsyncIterator[bytes]:
        yield sound
        await asyncio.Event().wait()

    live = replace(ENGLISH, live_stream=True)
    async with (
        aclosing(engine.transcribe(idle_after(tone(1000, 120)), live)) as idle,
        aclosing(engine.transcribe(stream(tone(1000, 5)), live)) as second,
    ):
        while not isinstance(await anext(idle), Progress):
            pass
        reading = asyncio.ensure_future(events_until_cancelled(idle))
        assert isinstance(await anext(second), Started)
        assert [await anext(second) for _ in range(20)] == [Waiting()] * 20
        reading.cancel()
        await asyncio.wait({reading})
        assert isinstance([event async for event in second][-1], Finished)


async def events_until_cancelled(events: AsyncIterator[Event]) -> None:
    async for _ in events:
        pass


async def test_a_call_before_the_model_is_loaded_waits_for_it() -> None:
    engine = StreamingEngine(lambda _: Models(ScriptedDecoder()), lambda _: [])
    early = asyncio.ensure_future(events_of(engine, b"", ENGLISH))
    done, _ = await asyncio.wait({early}, timeout=0.2)
    assert not done

    await engine.get_ready()

    events = await asyncio.wait_for(early, 60)
    assert events[0] == Preparing("", Phase.LOADING)
    assert isinstance(events[1], Started)


async def test_a_call_before_the_model_is_loaded_gets_its_progress() -> None:
    go_on = threading.Event()

    def load(preparation: Preparation) -> Models:
        preparation.fetching("base", 45, 145)
        go_on.wait(240)
        preparation.loading("base")
        return Models(ScriptedDecoder())

    engine = StreamingEngine(load, lambda _: [])
    loading = asyncio.ensure_future(engine.get_ready())
    events = engine.transcribe(stream(b""), ENGLISH)
    fetching = Preparing("base", Phase.FETCHING, 45, 145)
    await until(lambda: engine.state().preparing == fetching)
    first = await anext(events)
    go_on.set()
    rest = [event async for event in events]
    await loading

    assert first == fetching
    assert Preparing("base", Phase.LOADING) not in rest[rest.index(READY) :]
    assert engine.state() == ModelState("scripted", True, None)


async def test_calls_to_a_freed_model_get_preparing_and_share_one_load() -> None:
    decoder = UnloadedDecoder()
    engine = await engine_with(decoder)
    recordings = [engine.transcribe(stream(b""), ENGLISH) for _ in range(3)]

    firsts = [await anext(events) for events in recordings]
    nexts = [asyncio.ensure_future(anext(events)) for events in recordings]
    await until(lambda: decoder.loads == 1)
    state = engine.state()
    decoder.go.set()
    seconds = await asyncio.gather(*nexts)

    loading = Preparing("scripted", Phase.LOADING)
    assert firsts == [loading] * 3
    assert state == ModelState("scripted", False, loading)
    assert seconds == [READY] * 3
    assert decoder.loads == 1
    assert engine.state() == ModelState("scripted", True, None)
    for events in recordings:
        await events.aclose()


async def test_a_failed_reload_fails_the_waiting_call_and_is_retried_by_the_next() -> None:
    decoder = UnloadedDecoder()
    decoder.go.set()
    decoder.fails = 1
    engine = await engine_with(decoder)

    with pytest.raises(UnavailableError, match="no memory"):
        await events_of(engine, b"", ENGLISH)
    events = await events_of(engine, b"", ENGLISH)

    assert events[:2] == [Preparing("scripted", Phase.LOADING), READY]


class UnloadedDecoder(ScriptedDecoder):
    """A freed model that loads once `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.is_loaded = False
        self.loads = self.fails = 0
        self.go.clear()

    def ensure_loaded(self) -> None:
        self.loads += 1
        self.go.wait(240)
        if self.fails:
            self.fails -= 1
            raise UnavailableError("no memory", reason=Reason.MODEL_UNAVAILABLE)
        super().ensure_loaded()


async def test_a_model_that_does_not_load_fails_the_calls_that_waited() -> None:
    def fail(_: Preparation) -> Models:
        raise UnavailableError("no weights", reason=Reason.MODEL_UNAVAILABLE)

    engine = StreamingEngine(fail, lambda _: [])
    early = asyncio.ensure_future(events_of(engine, b"", ENGLISH))
    await asyncio.sleep(0)

    with pytest.raises(UnavailableError):
        await engine.get_ready()
    with pytest.raises(UnavailableError, match="no weights"):
        await early
