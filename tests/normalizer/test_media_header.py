"""The first bytes of a file give its layout and duration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normalizer.media_header import LAYOUT_BYTES, Layout, header_duration, layout
from tests.normalizer.media import SECONDS, fast_m4a, recording, slow_m4a


def box(kind: bytes, size: int) -> bytes:
    return size.to_bytes(4, "big") + kind + bytes(size - 8)


FTYP = box(b"ftyp", 32)
HUGE_BOX = FTYP + (2 * LAYOUT_BYTES).to_bytes(4, "big") + b"free"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (FTYP + box(b"moov", 100), Layout.FORWARD),
        (FTYP + box(b"free", 8) + box(b"mdat", 100), Layout.INDEX_LAST),
        (box(b"wide", 8) + box(b"mdat", 100), Layout.INDEX_LAST),
        (FTYP + b"\0\0\0\1mdat" + (2**33).to_bytes(8, "big"), Layout.INDEX_LAST),
        (
            FTYP + b"\0\0\0\1free" + (24).to_bytes(8, "big") + bytes(8) + b"\0\0\0\x09moov",
            Layout.FORWARD,
        ),
        (FTYP, Layout.UNKNOWN),
        (FTYP + b"\0\0\0\1free\0\0", Layout.UNKNOWN),
        (HUGE_BOX, Layout.UNKNOWN),
        (
            FTYP + (2 * LAYOUT_BYTES).to_bytes(4, "big") + b"free" + bytes(LAYOUT_BYTES),
            Layout.INDEX_LAST,
        ),
        (FTYP + b"\0\0\0\0free", Layout.FORWARD),
        (b"RIFF\0\0\0\0WAVE", Layout.FORWARD),
        (b"OggS", Layout.UNKNOWN),
        (b"", Layout.UNKNOWN),
    ],
)
def test_only_an_index_at_the_end_needs_the_whole_file(head: bytes, expected: Layout) -> None:
    assert layout(head) is expected


def test_layouts_of_real_files_are_recognised() -> None:
    assert layout(fast_m4a()) is Layout.FORWARD
    assert layout(slow_m4a()) is Layout.INDEX_LAST
    fragmented = recording("m4a", "-movflags", "frag_keyframe+empty_moov")
    assert layout(fragmented) is Layout.FORWARD


@given(st.binary(max_size=400))
def test_no_input_makes_the_header_parsers_raise(junk: bytes) -> None:
    for head in (junk, FTYP + junk, b"RIFF\0\0\0\0WAVE" + junk, b"ID3" + junk, b"\xff\xfb" + junk):
        assert layout(head) in Layout
        header_duration(head)


@pytest.mark.parametrize(
    "options",
    [("-ar", "44100"), ("-ar", "44100", "-ac", "2"), ("-ar", "22050"), ("-ar", "8000")],
)
def test_the_duration_of_an_mp3_is_in_its_header(options: tuple[str, ...]) -> None:
    length = header_duration(recording("mp3", *options))

    assert length is not None
    assert length.total_seconds() == pytest.approx(SECONDS, abs=0.2)


def test_the_duration_of_a_wav_is_in_its_header_unless_it_was_streamed() -> None:
    wav = recording("wav")
    length = header_duration(wav)
    at = wav.index(b"data") + 4

    assert length is not None
    assert length.total_seconds() == pytest.approx(SECONDS)
    assert header_duration(wav[:at] + b"\xff\xff\xff\xff" + wav[at + 4 :]) is None
    assert header_duration(wav[: at - 4]) is None
