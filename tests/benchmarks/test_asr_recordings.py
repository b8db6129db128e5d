"""The recordings of the speech benchmark: taken with their texts, and joined."""

from pathlib import Path

import pytest

from benchmarks.asr_recordings import (
    BYTES_A_SECOND,
    PAUSE_SECONDS,
    Recording,
    decode_folder,
    join,
    order_of,
    write_wav,
)
from benchmarks.recording import piped_ffmpeg
from tests.benchmarks.samples import SAMPLE


def _samples(folder: Path, name: str, seconds: float, byte: bytes) -> Recording:
    path = folder / f"{name}.s16le"
    path.write_bytes(byte * round(seconds * BYTES_A_SECOND))
    return Recording.of(path, name, f"text of {name}", "en")


def test_joining_goes_on_until_there_is_enough_and_uses_each_as_often() -> None:
    order = order_of([10.0, 20.0, 30.0], 200.0, seed=3)

    def seconds(numbers: list[int]) -> float:
        return sum((10.0, 20.0, 30.0)[n] for n in numbers) + PAUSE_SECONDS * (len(numbers) - 1)

    assert seconds(order[:-1]) < 200.0 <= seconds(order)
    assert sorted(order[:3]) == sorted(order[3:6]) == [0, 1, 2]


def test_the_order_of_joining_depends_on_the_seed_alone() -> None:
    lengths = [1.0] * 9

    assert order_of(lengths, 60, seed=1) == order_of(lengths, 60, seed=1)
    assert order_of(lengths, 60, seed=1) != order_of(lengths, 60, seed=2)


def test_a_joined_recording_has_whole_parts_pauses_and_their_texts(tmp_path: Path) -> None:
    parts = [_samples(tmp_path, "a", 1.0, b"\1"), _samples(tmp_path, "b", 2.0, b"\2")]

    joined = join(parts, tmp_path / "joined.s16le", seconds=3.5, seed=1)

    data = joined.path.read_bytes()
    assert joined.seconds == pytest.approx(3.0 + PAUSE_SECONDS)
    assert data.count(b"\1") == BYTES_A_SECOND
    assert data.count(b"\2") == 2 * BYTES_A_SECOND
    assert data.count(b"\0") == round(PAUSE_SECONDS * BYTES_A_SECOND)
    assert joined.reference in ("text of a text of b", "text of b text of a")
    assert joined.language == "en"


def test_samples_are_the_same_in_a_wav_file(tmp_path: Path) -> None:
    recording = _samples(tmp_path, "a", 1.5, b"\1")

    target = write_wav(recording.path)

    assert target == tmp_path / "a.wav"
    assert piped_ffmpeg(b"", "-i", target, "-f", "s16le", "pipe:1") == recording.path.read_bytes()


def test_only_recordings_with_a_reference_are_taken(tmp_path: Path) -> None:
    folder, work = tmp_path / "folder", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    for name in ("with.ogg", "without.ogg"):
        (folder / name).write_bytes(SAMPLE.read_bytes())
    (folder / "with.txt").write_text(" what is said \n", encoding="utf-8")

    (found,) = decode_folder(folder, work)

    assert (found.name, found.reference) == ("with.ogg", "what is said")
    assert found.seconds > 1


def test_an_empty_reference_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ogg").write_bytes(SAMPLE.read_bytes())
    (tmp_path / "a.txt").write_text("\n", encoding="utf-8")

    with pytest.raises(ValueError, match=r"a\.txt is empty"):
        decode_folder(tmp_path, tmp_path)
