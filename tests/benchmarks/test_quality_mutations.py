"""Mutations of the quality benchmark: repeatable, of the right length and loudness."""

import zlib

import numpy as np
import pytest

from benchmarks.asr_recordings import RATE
from benchmarks.quality_corpus import Clip, Samples
from benchmarks.quality_mutations import (
    CUT,
    FULL_SCALE,
    JOIN_SECONDS,
    JOINED,
    MUTATIONS,
    PLAIN,
    SILENCES,
    cut_place,
    make_variant,
    partner_of,
    plan,
)


def _tone(seconds: float, hertz: float = 440.0, peak: float = 0.25) -> Samples:
    wave = peak * np.sin(2 * np.pi * hertz * np.arange(round(seconds * RATE)) / RATE)
    return (wave * FULL_SCALE).astype(np.int16)


def _clip(name: str = "a", language: str = "en", reference: str | None = "blue sky") -> Clip:
    return Clip(name, language, reference, _tone(2.0))


def _mutated(mutation: str, samples: Samples) -> Samples:
    clip = Clip("a", "en", "blue sky", samples)
    return make_variant(clip, mutation, clip).samples


def _power(samples: Samples, low: float = 0.0, high: float = RATE / 2) -> float:
    spectrum = np.abs(np.fft.rfft(samples.astype(np.float64))) ** 2
    hertz = np.fft.rfftfreq(len(samples), 1 / RATE)
    return float(spectrum[(hertz >= low) & (hertz < high)].sum())


def test_every_clip_has_at_least_fourteen_variants_and_itself() -> None:
    clips = [_clip("a"), _clip("b")]

    planned = [make() for make in plan(clips, MUTATIONS)]

    assert len(MUTATIONS) >= 14
    assert [(one.clip, one.mutation) for one in planned] == [
        (clip.name, mutation) for clip in clips for mutation in (PLAIN, *MUTATIONS)
    ]
    assert np.array_equal(planned[0].samples, clips[0].samples)


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_the_same_samples_give_the_same_variant_and_never_the_clip_itself(mutation: str) -> None:
    first, again = _mutated(mutation, _tone(2.0)), _mutated(mutation, _tone(2.0))

    assert zlib.crc32(first.tobytes()) == zlib.crc32(again.tobytes())
    assert not np.array_equal(first, _tone(2.0))


@pytest.mark.parametrize("seconds", SILENCES)
def test_silence_stands_before_or_behind_and_the_clip_stays_whole(seconds: float) -> None:
    tone, length = _tone(2.0), round(seconds * RATE)

    before = _mutated(f"silence-before-{seconds:g}", tone)
    after = _mutated(f"silence-after-{seconds:g}", tone)

    assert np.array_equal(before[length:], tone)
    assert np.array_equal(after[: len(tone)], tone)
    assert len(before) == len(after) == len(tone) + length
    assert not before[:length].any()
    assert not after[len(tone) :].any()


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_tempo_changes_the_length_and_keeps_the_pitch(factor: float) -> None:
    changed = _mutated(f"tempo-{factor:g}", _tone(4.0))

    assert len(changed) == pytest.approx(4 * RATE / factor, rel=0.02)
    assert _power(changed, 420, 460) > 0.9 * _power(changed)


def test_gain_takes_twenty_decibels() -> None:
    tone = _tone(1.0)

    quiet = _mutated("gain-20dB", tone)

    assert len(quiet) == len(tone)
    assert 10 * np.log10(_power(tone) / _power(quiet)) == pytest.approx(20, abs=0.1)


@pytest.mark.parametrize(("hertz", "passes"), [(1000, True), (100, False), (6000, False)])
def test_a_telephone_passes_its_band_alone(hertz: float, passes: bool) -> None:
    tone = _tone(1.0, hertz)

    heard = _mutated("telephone", tone)

    assert len(heard) == pytest.approx(len(tone), abs=32)
    assert (_power(heard) > 0.5 * _power(tone)) is passes


def test_mp3_keeps_length_and_place_but_not_every_sample() -> None:
    tone = np.concatenate([np.zeros(RATE, np.int16), _tone(1.0)])

    heard = _mutated("mp3-32k", tone)

    assert len(heard) == pytest.approx(len(tone), abs=2304)
    assert abs(int(np.argmax(np.abs(heard) > 2000)) - RATE) < RATE // 50


@pytest.mark.parametrize("mutation", ["white-10dB", "pink-10dB"])
def test_noise_is_ten_decibels_below_the_clip(mutation: str) -> None:
    tone = _tone(4.0)

    noise = _mutated(mutation, tone).astype(np.float64) - tone

    ratio = 10 * np.log10(_power(tone) / float(np.sum(np.abs(np.fft.rfft(noise)) ** 2)))
    assert ratio == pytest.approx(10, abs=0.2)


def test_two_clips_get_different_noise() -> None:
    one, other = _tone(1.0, 440), _tone(1.0, 441)

    first, second = (_mutated("white-10dB", tone).astype(float) - tone for tone in (one, other))

    assert np.corrcoef(first, second)[0, 1] == pytest.approx(0, abs=0.1)


def test_noise_on_digital_silence_stays_silent() -> None:
    assert not _mutated("white-10dB", np.zeros(RATE, np.int16)).any()


def test_a_cut_is_inside_speech_as_near_to_65_percent_as_it_can_be() -> None:
    def with_pause(begin: int, end: int) -> Samples:
        pause = np.zeros((end - begin) * RATE, np.int16)
        return np.concatenate([_tone(begin), pause, _tone(10 - end)])

    assert cut_place(_tone(10.0)) / RATE == pytest.approx(6.5, abs=0.02)
    assert cut_place(with_pause(5, 9)) / RATE == pytest.approx(5.0, abs=0.05)
    assert cut_place(with_pause(4, 8)) / RATE == pytest.approx(8.0, abs=0.05)


def test_a_cut_says_how_much_it_kept_and_keeps_the_whole_reference() -> None:
    variant = make_variant(_clip(), CUT, _clip())

    assert variant.kept == pytest.approx(0.65, abs=0.01)
    assert len(variant.samples) == round(variant.kept * 2 * RATE)
    assert variant.reference == "blue sky"


def test_clips_without_samples_can_be_mutated_by_cutting() -> None:
    clip = Clip("a", "none", "", np.zeros(0, np.int16))

    assert len(make_variant(clip, CUT, clip).samples) == 0


def test_a_clip_is_joined_with_the_next_of_its_language_after_a_pause() -> None:
    clips = [_clip("a"), _clip("b", "pt"), _clip("c", reference="green grass")]

    variant = make_variant(clips[0], JOINED, partner_of(clips[0], clips))

    assert [partner_of(clip, clips).name for clip in clips] == ["c", "b", "a"]
    assert len(variant.samples) == round((2 + JOIN_SECONDS + 2) * RATE)
    assert variant.reference == "blue sky green grass"


def test_joining_with_an_unknown_text_gives_an_unknown_text_and_silence_stays_silence() -> None:
    known, unknown, silent = _clip(), _clip(reference=None), _clip(reference="")

    assert make_variant(known, JOINED, unknown).reference is None
    assert make_variant(unknown, JOINED, known).reference is None
    assert make_variant(silent, JOINED, silent).reference == ""
