"""For every container the samples have the recording's length and timing."""

from collections.abc import Callable

import imageio_ffmpeg
import numpy as np
import pytest

from normalizer.engine import BYTES_PER_SECOND, SAMPLE_RATE, Request
from normalizer.ffmpeg_engine import FfmpegEngine
from tests.normalizer.conftest import EngineMaker
from tests.normalizer.media import (
    PICTURE,
    SECONDS,
    TONE_HZ,
    decoded,
    fast_m4a,
    holed_mkv,
    late_mkv,
    loudness,
    normalized,
    pitch,
    recording,
    sent,
    slow_m4a,
    wave,
)

VARYING = ("-vf", "select='not(mod(n,7))+lt(n,9)'", "-fps_mode", "vfr")

FORMATS: dict[str, Callable[[], bytes]] = {
    "wav": lambda: recording("wav"),
    "stereo wav": lambda: recording("wav", "-ac", "2"),
    "flac": lambda: recording("flac"),
    "mp3": lambda: recording("mp3"),
    "aac": lambda: recording("aac"),
    "m4a, index first": fast_m4a,
    "m4a, index last": slow_m4a,
    "m4a, fragmented": lambda: recording("m4a", "-movflags", "frag_keyframe+empty_moov"),
    "mov, index last": lambda: recording("mov", picture=PICTURE),
    "ogg vorbis": lambda: recording("ogg", "-c:a", "libvorbis"),
    "ogg opus": lambda: recording("opus", "-c:a", "libopus"),
    "webm": lambda: recording("webm", "-c:a", "libopus"),
    "mkv": lambda: recording("mkv", "-c:a", "aac"),
    "mp4 with picture": lambda: recording("mp4", "-movflags", "+faststart", picture=PICTURE),
    "webm with picture": lambda: recording("webm", "-cpu-used", "8", picture=PICTURE),
    "avi": lambda: recording("avi", picture=PICTURE),
    "mpeg-ts": lambda: recording("ts", picture=PICTURE),
    "flv": lambda: recording("flv"),
    "5.1 flac": lambda: recording("flac", "-ac", "6"),
    "5.1 ac3 in mkv": lambda: recording("mkv", "-ac", "6", "-c:a", "ac3", picture=PICTURE),
    "8-bit wav": lambda: recording("wav", "-c:a", "pcm_u8", "-ar", "8000"),
    "mu-law au": lambda: recording("au", "-c:a", "pcm_mulaw", "-ar", "8000"),
    "24-bit wav at 96 kHz": lambda: recording("wav", "-c:a", "pcm_s24le", "-ar", "96000"),
    "wav at 11,025 Hz": lambda: recording("wav", "-ar", "11025"),
    "wav at 22,222 Hz": lambda: recording("wav", "-ar", "22222"),
    "flac at 37,800 Hz": lambda: recording("flac", "-ar", "37800"),
    "mp3 at 24 kHz": lambda: recording("mp3", "-ar", "24000"),
    "mp4 with picture, index last": lambda: recording("mp4", picture=PICTURE),
    "mp4 of variable frame rate": lambda: recording("mp4", *VARYING, picture=PICTURE),
    "mkv of variable frame rate": lambda: recording("mkv", *VARYING, picture=PICTURE),
}


@pytest.mark.parametrize("kind", FORMATS)
async def test_both_outputs_are_as_long_as_the_recording(engine: FfmpegEngine, kind: str) -> None:
    outcome = await normalized(engine, FORMATS[kind](), Request(keep_audio=True))

    assert outcome.seconds == pytest.approx(SECONDS, abs=0.05)
    assert len(decoded(outcome.kept)) / SAMPLE_RATE == pytest.approx(SECONDS, abs=0.05)
    assert pitch(wave(outcome.samples)) == pytest.approx(TONE_HZ, abs=2)
    assert outcome.finished[0].duration.total_seconds() == pytest.approx(outcome.seconds)
    assert outcome.finished[0].warnings == ()


async def test_audio_that_begins_late_is_preceded_by_silence(engine: FfmpegEngine) -> None:
    outcome = await normalized(engine, late_mkv(1.5))

    sound = wave(outcome.samples)
    begin = round(1.5 * SAMPLE_RATE)
    assert outcome.seconds == pytest.approx(1.5 + SECONDS, abs=0.05)
    assert not sound[: begin - 100].any()
    assert loudness(sound[begin + 100 : begin + 1700]) > -30


async def test_a_gap_in_the_recording_becomes_silence_of_its_length(engine: FfmpegEngine) -> None:
    outcome = await normalized(engine, holed_mkv(600))

    sound = wave(outcome.samples)
    assert outcome.seconds == pytest.approx(600 + SECONDS, abs=0.1)
    assert not sound[3 * SAMPLE_RATE : 600 * SAMPLE_RATE].any()
    assert loudness(sound[603 * SAMPLE_RATE :]) > -30


async def test_sound_next_to_a_gap_is_off_by_at_most_50_ms(engine: FfmpegEngine) -> None:
    jump = "asetpts='PTS+gte(T,2.03)*5/TB'"  # within a block
    data = recording("mkv", "-af", f"asetnsamples=n=333:p=0,{jump}", "-c:a", "pcm_s16le")

    outcome = await normalized(engine, data)

    sound = np.flatnonzero(wave(outcome.samples))
    widest = int(np.argmax(np.diff(sound)))
    tolerance = round(0.06 * SAMPLE_RATE)  # with the frame at which the timestamps jump
    assert sound[widest] == pytest.approx(2.03 * SAMPLE_RATE, abs=tolerance)
    assert sound[widest + 1] == pytest.approx(7.03 * SAMPLE_RATE, abs=tolerance)
    assert outcome.seconds == pytest.approx(SECONDS + 5, abs=0.05)


@pytest.mark.parametrize("make", [fast_m4a, slow_m4a], ids=["index first", "index last"])
async def test_the_padding_of_the_last_aac_frame_is_not_sound(
    make_engine: EngineMaker, make: Callable[[], bytes]
) -> None:
    installed = make_engine(imageio_ffmpeg.get_ffmpeg_exe())  # others may leave the padding in
    outcome = await normalized(installed, make())

    assert len(outcome.samples) == SECONDS * BYTES_PER_SECOND


async def test_a_change_of_sample_rate_midway_shifts_nothing(engine: FfmpegEngine) -> None:
    both = recording("mp3") + recording("mp3", "-ar", "22050", "-ac", "2")

    outcome = await normalized(engine, both)

    sound = wave(outcome.samples)
    assert outcome.seconds == pytest.approx(2 * SECONDS, abs=0.15)
    for second in range(2 * SECONDS - 1):
        part = sound[second * SAMPLE_RATE : (second + 1) * SAMPLE_RATE]
        assert pitch(part) == pytest.approx(TONE_HZ, abs=3)


async def test_every_chunk_size_gives_the_same_samples(engine: FfmpegEngine) -> None:
    whole = await normalized(engine, sent(slow_m4a(), size=64 * 1024))
    crumbs = await normalized(engine, sent(slow_m4a(), size=7))

    assert crumbs.samples == whole.samples


async def test_progress_reaches_the_end_and_never_falls(engine: FfmpegEngine) -> None:
    outcome = await normalized(engine, recording("flac"))

    done = [progress.done for progress in outcome.progress]
    assert done == sorted(done)
    assert done[-1] == outcome.finished[0].duration
    assert outcome.progress[-1].total is not None
    assert outcome.progress[-1].total.total_seconds() == pytest.approx(SECONDS, abs=0.05)
