"""What the first bytes of a file tell."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normalizer.announced import announced
from normalizer.sniff import ENOUGH, Layout, layout
from tests.normalizer.media import SECONDS, fast_m4a, recording, slow_m4a


def box(kind: bytes, size: int) -> bytes:
    return size.to_bytes(4, "big") + kind + bytes(size - 8)


FTYP = box(b"ftyp", 32)


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
        (FTYP + (2 * ENOUGH).to_bytes(4, "big") + b"free", Layout.UNKNOWN),
        (FTYP + (2 * ENOUGH).to_bytes(4, "big") + b"free" + bytes(ENOUGH), Layout.INDEX_LAST),
        (FTYP + b"\0\0\0\0free", Layout.FORWARD),
        (b"RIFF\0\0\0\0WAVE", Layout.FORWARD),
        (b"OggS", Layout.UNKNOWN),
        (b"", Layout.UNKNOWN),
    ],
)
def test_only_an_index_at_the_end_needs_a_file(head: bytes, expected: Layout) -> None:
    assert layout(head) is expected


def test_real_files_are_told_apart() -> None:
    assert layout(fast_m4a()) is Layout.FORWARD
    assert layout(slow_m4a()) is Layout.INDEX_LAST
    fragmented = recording("m4a", "-movflags", "frag_keyframe+empty_moov")
    assert layout(fragmented) is Layout.FORWARD


@given(st.binary(max_size=400))
def test_no_bytes_confuse_the_readers_of_headers(junk: bytes) -> None:
    for head in (junk, FTYP + junk, b"RIFF\0\0\0\0WAVE" + junk, b"ID3" + junk, b"\xff\xfb" + junk):
        assert layout(head) in Layout
        announced(head)


@pytest.mark.parametrize(
    "options",
    [("-ar", "44100"), ("-ar", "44100", "-ac", "2"), ("-ar", "22050"), ("-ar", "8000")],
)
def test_mp3_announces_its_length(options: tuple[str, ...]) -> None:
    length = announced(recording("mp3", *options))

    assert length is not None
    assert length.total_seconds() == pytest.approx(SECONDS, abs=0.2)


def test_wav_announces_its_length_unless_it_was_streamed() -> None:
    wav = recording("wav")
    length = announced(wav)
    at = wav.index(b"data") + 4

    assert length is not None
    assert length.total_seconds() == pytest.approx(SECONDS)
    assert announced(wav[:at] + b"\xff\xff\xff\xff" + wav[at + 4 :]) is None
    assert announced(wav[: at - 4]) is None
