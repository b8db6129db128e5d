"""The filter benchmark in small: that it measures, not how well anything is heard."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.denoise import PAUSE, STRENGTH, joined
from benchmarks.mixing import RATE, babble, mixed, music, pink, speech_ratio, white

ROOT = Path(__file__).parents[2]
TONE = 0.2 * np.sin(2 * np.pi * 300 * np.arange(RATE) / RATE)
NOISES = {
    "white": white(RATE),
    "pink": pink(RATE),
    "music": music(RATE),
    "babble": babble(RATE, white(RATE, seed=2)),
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("level", [20, 0, -5])
def test_speech_stands_out_of_a_mix_by_the_level_asked_for(noise: str, level: float) -> None:
    both = mixed(TONE, NOISES[noise], level)

    assert speech_ratio(both, TONE) == pytest.approx(level, abs=1.5)
    assert np.abs(both).max() <= 1


def test_noises_are_the_same_for_the_same_seed() -> None:
    assert np.array_equal(music(RATE, seed=5), music(RATE, seed=5))
    assert not np.array_equal(music(RATE, seed=5), music(RATE, seed=6))


def test_pink_noise_falls_by_three_decibels_an_octave() -> None:
    power = np.abs(np.fft.rfft(pink(8 * RATE))) ** 2
    low, high = power[8 * 400 : 8 * 800].mean(), power[8 * 3200 : 8 * 6400].mean()

    assert 10 * np.log10(low / high) == pytest.approx(9, abs=1)


def test_recordings_are_joined_equally_strong_with_a_pause_between() -> None:
    whole = joined([TONE, 0.1 * TONE])

    assert len(whole) == 2 * len(TONE) + len(PAUSE)
    for part in (whole[: len(TONE)], whole[-len(TONE) :]):
        assert np.sqrt(np.mean(part**2)) == pytest.approx(STRENGTH)
    assert not whole[len(TONE) : -len(TONE)].any()


def test_a_small_run_gives_a_row_for_every_option(tmp_path: Path) -> None:
    for name in ("short.ogg", "short.txt"):
        (tmp_path / name).write_bytes((ROOT / "tests" / "data" / name).read_bytes())
    asked = ["--noise", "white", "--level", "0", "--option", "nothing", "--option", "remove_noise"]
    asked += ["--language", "en"]
    command = [sys.executable, "-m", "benchmarks.denoise", str(tmp_path), "--out", str(tmp_path)]
    subprocess.run([*command, *asked], check=True, timeout=280, cwd=ROOT, capture_output=True)

    result = json.loads((tmp_path / "denoise.json").read_text())
    rows = result["rows"]
    listed = [(row["noise"], row["decibels"], row["treatment"]) for row in rows]
    assert listed == [
        ("clean", None, "nothing"),
        ("clean", None, "remove_noise"),
        ("white", 0.0, "nothing"),
        ("white", 0.0, "remove_noise"),
    ]
    assert rows[2]["samples_wer"] == rows[3]["samples_wer"]  # the transcriber hears it undenoised
    assert rows[3]["kept_gain"] > 1
    assert result["words"] == len((tmp_path / "short.txt").read_text().split())
