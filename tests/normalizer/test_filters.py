"""Options do what `started` lists, to the output it names."""

import struct

import numpy as np
import pytest

from normalizer.engine import SAMPLE_RATE, Options, Request, Target
from normalizer.ffmpeg_engine import FfmpegEngine
from tests.normalizer.media import (
    SECONDS,
    TONE_HZ,
    Wave,
    decoded,
    ffmpeg,
    loudness,
    normalized,
    pitch,
    recording,
    strength,
    wave,
)

HISS = "anoisesrc=duration=8:seed=7:amplitude=0.02:color=white:sample_rate=48000"
BROADBAND = "anoisesrc=duration=4:seed=7:amplitude=0.5:color=white:sample_rate=48000"
RUMBLE = (
    f"aevalsrc='0.3*sin(2*PI*40*t)+0.3*sin(2*PI*{TONE_HZ}*t)':sample_rate=44100:duration={SECONDS}"
)


def keeping(**options: object) -> Request:
    return Request(Options(**options), keep_audio=True)  # type: ignore[arg-type]


def opus_head(webm: bytes) -> tuple[int, int]:
    """Channels and sample rate in the file's header."""
    at = webm.index(b"OpusHead")
    channels, _, rate = struct.unpack_from("<BHI", webm, at + 9)
    return channels, rate


@pytest.mark.parametrize(
    ("mono", "narrow", "head"),
    [
        (False, False, (2, 48_000)),
        (True, False, (1, 48_000)),
        (False, True, (2, 16_000)),
        (True, True, (1, 16_000)),
    ],
)
async def test_kept_audio_is_opus_in_webm_with_the_requested_channels_and_rate(
    engine: FfmpegEngine, mono: bool, narrow: bool, head: tuple[int, int]
) -> None:
    data = recording("wav", "-ac", "2", sound=BROADBAND)

    request = keeping(convert_to_mono=mono, set_sample_rate_16k=narrow)
    outcome = await normalized(engine, data, request)

    assert outcome.started[0].media_type == "audio/webm"
    assert outcome.kept.startswith(b"\x1a\x45\xdf\xa3")
    assert opus_head(outcome.kept) == head
    sound = decoded(outcome.kept, rate=48_000)
    assert len(sound) / 48_000 == pytest.approx(SECONDS, abs=0.05)
    above_8k = strength(sound, 10_000, rate=48_000) - strength(sound, 4_000, rate=48_000)
    assert (above_8k < -20) == narrow
    assert outcome.finished[0].kept_audio_bytes == len(outcome.kept)


@pytest.mark.parametrize("highpass", [False, True])
@pytest.mark.parametrize("kind", ["wav", "mp3"])
async def test_one_conversion_feeds_both_outputs_and_changes_no_sample(
    engine: FfmpegEngine, kind: str, highpass: bool
) -> None:
    data = recording(kind, "-ac", "2", sound=BROADBAND)
    shape = {"convert_to_mono": True, "set_sample_rate_16k": True}

    alone = await normalized(engine, data, Request(Options(apply_highpass_filter=highpass)))
    both = await normalized(engine, data, keeping(apply_highpass_filter=highpass, **shape))

    assert both.samples == alone.samples
    filters = both.started[0].filters[highpass:]
    assert [(each.parameters, each.target, each.option) for each in filters] == [
        ("channel_layouts=mono", Target.BOTH, "convert_to_mono"),
        ("sample_rates=16000", Target.BOTH, "set_sample_rate_16k"),
        ("sample_fmts=s16", Target.TRANSCRIBER, ""),
    ]


async def test_the_kept_audio_has_the_length_of_the_samples_and_their_sound(
    engine: FfmpegEngine,
) -> None:
    tone = f"sine=frequency={TONE_HZ}:sample_rate=44100:duration=3.21"  # ends within a packet
    data = recording("wav", "-ac", "2", sound=tone)

    outcome = await normalized(
        engine, data, keeping(convert_to_mono=True, set_sample_rate_16k=True)
    )

    sound, samples = decoded(outcome.kept), wave(outcome.samples)
    assert len(sound) == pytest.approx(len(samples), abs=16)
    assert abs(delay(samples, np.resize(sound, len(samples)))) <= 1
    assert pitch(sound) == pytest.approx(TONE_HZ, abs=2)
    assert loudness(sound) == pytest.approx(loudness(samples), abs=0.5)


async def test_a_mono_recording_stays_mono_and_surround_becomes_stereo(
    engine: FfmpegEngine,
) -> None:
    mono = await normalized(engine, recording("wav"), keeping())
    surround = await normalized(engine, recording("flac", "-ac", "6"), keeping())

    assert opus_head(mono.kept)[0] == 1
    assert opus_head(surround.kept)[0] == 2
    assert pitch(decoded(surround.kept)) == pytest.approx(TONE_HZ, abs=2)


async def test_no_audio_is_kept_unless_requested(engine: FfmpegEngine) -> None:
    request = Request(Options(remove_noise=True, loudness_lufs=-16))
    outcome = await normalized(engine, recording("wav"), request)

    assert outcome.kept == b""
    assert outcome.started[0].media_type == ""
    assert [each.name for each in outcome.started[0].filters] == ["aformat"]


async def test_highpass_removes_rumble_from_both_outputs(engine: FfmpegEngine) -> None:
    data = recording("wav", sound=RUMBLE)

    plain = await normalized(engine, data, keeping())
    cut = await normalized(engine, data, keeping(apply_highpass_filter=True))

    for before, after in (
        (wave(plain.samples), wave(cut.samples)),
        (decoded(plain.kept), decoded(cut.kept)),
    ):
        assert strength(after, 40) < strength(before, 40) - 6
        assert strength(after, TONE_HZ) == pytest.approx(strength(before, TONE_HZ), abs=1)


async def test_remove_noise_lowers_the_floor_of_the_kept_audio_only(
    engine: FfmpegEngine,
) -> None:
    data = recording("wav", sound=HISS)

    plain = await normalized(engine, data, keeping())
    clean = await normalized(engine, data, keeping(remove_noise=True))

    assert loudness(decoded(clean.kept)) < loudness(decoded(plain.kept)) - 6
    assert clean.samples == plain.samples


@pytest.mark.parametrize("target", [-23.0, -14.0])
async def test_the_kept_audio_has_the_requested_loudness(
    engine: FfmpegEngine, target: float
) -> None:
    quiet = recording("wav", "-af", "tremolo=f=3:d=0.5,volume=0.3")

    plain = await normalized(engine, quiet, keeping())
    loud = await normalized(engine, quiet, keeping(loudness_lufs=target))

    assert integrated_loudness(loud.kept) == pytest.approx(target, abs=1)
    assert loud.samples == plain.samples
    assert len(decoded(loud.kept)) / 16_000 == pytest.approx(SECONDS, abs=0.05)


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000])
async def test_no_option_delays_the_kept_audio(engine: FfmpegEngine, rate: int) -> None:
    clicks = f"aevalsrc='0.5*sin(2*PI*700*t)*lt(mod(t,1),0.05)':sample_rate={rate}:duration=4"
    data = recording("wav", sound=clicks)

    plain = await normalized(engine, data, keeping())
    request = keeping(remove_noise=True, apply_highpass_filter=True, loudness_lufs=-20)
    treated = await normalized(engine, data, request)

    before, after = decoded(plain.kept), decoded(treated.kept)
    assert len(after) == pytest.approx(len(before), abs=SAMPLE_RATE // 100)
    assert abs(delay(before, after)) < SAMPLE_RATE // 200


def delay(before: Wave, after: Wave) -> int:
    """Delay of the same sound, in samples."""
    size = 2 * len(before)
    both = np.fft.rfft(after, size) * np.conj(np.fft.rfft(before, size))
    found = int(np.argmax(np.fft.irfft(both, size)))
    return found if found < size // 2 else found - size


def integrated_loudness(audio: bytes) -> float:
    measured = "ebur128=metadata=1,ametadata=print:key=lavfi.r128.I:file=-"
    output = ffmpeg("-i", "pipe:0", "-af", measured, "-f", "null", "-", stdin=audio).decode()
    return float(output.strip().splitlines()[-1].partition("=")[2])


async def test_started_lists_filters_in_order_with_target_and_option(
    engine: FfmpegEngine,
) -> None:
    request = keeping(
        remove_noise=True,
        convert_to_mono=True,
        apply_highpass_filter=True,
        set_sample_rate_16k=True,
        loudness_lufs=-16.5,
    )
    outcome = await normalized(engine, recording("wav"), request)

    filters = outcome.started[0].filters
    applied = [(each.name, each.parameters, each.target, each.option) for each in filters]
    shape = "channel_layouts=mono:sample_fmts=s16:sample_rates=16000"
    kept = Target.KEPT_AUDIO
    assert applied == [
        ("highpass", "f=80", Target.BOTH, "apply_highpass_filter"),
        ("aformat", shape, Target.TRANSCRIBER, ""),
        ("aformat", "channel_layouts=mono", kept, "convert_to_mono"),
        ("apad", "pad_dur=0.025", kept, "remove_noise"),
        ("afftdn", "nf=-25:nr=12", kept, "remove_noise"),
        ("atrim", "start=0.025", kept, "remove_noise"),
        ("asetpts", "expr=PTS-0.025/TB", kept, "remove_noise"),
        ("loudnorm", "I=-16.5:LRA=11:TP=-1.5", kept, "loudness_lufs"),
        ("aformat", "sample_rates=16000", kept, "set_sample_rate_16k"),
    ]
