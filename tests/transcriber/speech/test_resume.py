"""A resumed job gives the same text as an uninterrupted one."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.support.speech import SECOND, ScriptedDecoder, engine_with, events_of, recording
from transcriber.decoder import Audio, Decoder
from transcriber.engine import Event, Finished, Request, Segment
from transcriber.speech.whisper import WhisperDecoder


def segments(events: list[Event]) -> list[Segment]:
    return [event for event in events if isinstance(event, Segment)]


async def check_every_boundary(decoder: Decoder, data: bytes, language: str) -> int:
    engine = await engine_with(decoder)
    undisturbed = await events_of(engine, data, Request(language, live=True))
    whole = segments(undisturbed)
    boundaries = sorted({piece.settled_offset for piece in whole} - {timedelta(0)})
    for boundary in boundaries:
        kept = [piece for piece in whole if piece.end <= boundary]
        request = Request(language, settled_offset=boundary, next_index=len(kept), live=True)
        resumed = await events_of(engine, data, request)
        assert [*kept, *segments(resumed)] == whole
        assert resumed[-1] == undisturbed[-1]
    return len(boundaries)


@pytest.mark.parametrize("language", ["", "en"])
@pytest.mark.parametrize("doubts", [0, 2])
async def test_resuming_at_any_boundary_gives_the_same_transcript(
    language: str, doubts: int
) -> None:
    class HesitantDecoder(ScriptedDecoder):
        def detect(self, audio: Audio, abandoned: Callable[[], bool]) -> dict[str, float]:
            # More audio makes it more certain, as with real models.
            self.detected += 1
            return {"pt": 0.9 if len(audio) > doubts * 5 * 16_000 else 0.3, "en": 0.1}

    data = recording("sample") + bytes(7 * SECOND) + recording("sample") * 3

    assert await check_every_boundary(HesitantDecoder(), data, language) >= 6


async def test_resuming_whisper_gives_the_same_transcript(base: WhisperDecoder) -> None:
    two_windows = recording("sample")[: 12 * SECOND]

    assert await check_every_boundary(base, two_windows, "") == 2


async def test_settled_windows_are_not_decoded_again() -> None:
    decoder = ScriptedDecoder()
    engine = await engine_with(decoder)
    whole = segments(await events_of(engine, recording("sample"), Request()))
    decoder.decoded.clear()
    decoder.detected = 0

    last = whole[-1].settled_offset
    events = await events_of(
        engine, recording("sample"), Request(settled_offset=last, next_index=len(whole))
    )

    assert segments(events) == []
    assert decoder.decoded == []
    assert decoder.detected == 1
    assert isinstance(events[-1], Finished)
    assert events[-1].language == "pt"


async def test_only_the_last_segment_of_a_window_settles_it() -> None:
    engine = await engine_with(ScriptedDecoder())

    whole = segments(await events_of(engine, recording("sample"), Request()))

    pairs = list(zip(whole[::2], whole[1::2], strict=True))
    assert [first.settled_offset for first, _ in pairs] == [
        timedelta(0),
        *(second.settled_offset for _, second in pairs[:-1]),
    ]
    assert all(second.settled_offset >= second.end for _, second in pairs)
