"""Samples are placed at their timestamps, however the bytes arrive."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mesh.errors import LimitExceededError
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason
from normalizer.timeline import MatroskaBlocks, Timeline, framed
from tests.normalizer.media import recording

MATROSKA = recording("mka", "-ac", "1", "-ar", "16000", "-c:a", "pcm_s16le")
WHOLE = list(MatroskaBlocks().feed(MATROSKA))


def laid(*blocks: tuple[int, bytes]) -> bytes:
    timeline = Timeline(600)
    return b"".join(piece for block in blocks for piece in timeline.place(*block))


def test_the_blocks_of_a_real_file_are_its_samples() -> None:
    wav = recording("wav", "-ac", "1", "-ar", "16000", "-bitexact")

    assert b"".join(samples for _, samples in WHOLE) == wav[44:]
    assert [time for time, _ in WHOLE] == sorted(time for time, _ in WHOLE)


@settings(max_examples=30)
@given(st.lists(st.integers(1, 9_000), min_size=1, max_size=60))
def test_blocks_do_not_depend_on_how_the_stream_is_split(sizes: list[int]) -> None:
    blocks, position = MatroskaBlocks(), 0
    found: list[tuple[int, bytes]] = []
    for size in [*sizes, len(MATROSKA)]:
        found += blocks.feed(MATROSKA[position : position + size])
        position += size

    assert found == WHOLE


def test_late_samples_are_preceded_by_silence() -> None:
    tone = b"\1\0" * 1600

    assert laid((500, tone), (1100, tone)) == bytes(16_000) + tone + bytes(16_000) + tone


def test_overlapping_samples_are_shortened() -> None:
    first, second = b"\1\0" * 16_000, b"\2\0" * 16_000

    assert laid((0, first), (500, second)) == first + second[16_000:]
    assert laid((0, first), (0, second[:100])) == first


def test_small_timestamp_errors_are_ignored() -> None:
    tone = b"\1\0" * 1600

    assert laid((7, tone), (93, tone), (215, tone)) == tone * 3


def test_a_long_gap_is_filled_a_frame_at_a_time() -> None:
    pieces = Timeline(3600).place(3_600_000, b"\1\0")

    sizes = [len(piece) for piece in pieces]

    assert max(sizes) <= MAX_FRAME_BYTES
    assert sum(sizes) == 3_600 * 32_000 + 2


def test_gaps_may_last_as_long_as_the_sound_and_the_limit() -> None:
    second = b"\1\0" * 16_000

    assert len(laid((0, second), (602_000, second))) == 603 * 32_000
    with pytest.raises(LimitExceededError) as caught:
        laid((0, second), (602_100, second))
    assert caught.value.reason is Reason.TOO_LONG


def test_many_short_gaps_count_like_a_long_one() -> None:
    blip = b"\1\0" * 16

    with pytest.raises(LimitExceededError):
        laid(*((minute * 60_000, blip) for minute in range(12)))


@given(st.lists(st.binary(max_size=90_000), max_size=5))
def test_frames_hold_the_same_bytes_and_fit(pieces: list[bytes]) -> None:
    frames = list(framed(pieces))

    assert b"".join(frames) == b"".join(pieces)
    assert all(len(frame) == MAX_FRAME_BYTES for frame in frames[:-1])
    assert all(0 < len(frame) <= MAX_FRAME_BYTES for frame in frames)
