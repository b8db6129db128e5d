"""Reads the first bytes of a file: whether it is media, how to read it, and its duration."""

import struct
from datetime import timedelta
from enum import Enum, auto

LAYOUT_BYTES = 256 * 1024
"""A file whose layout is unknown after this many bytes counts as INDEX_LAST."""

_BOX_HEADER = 8
_LARGE_BOX_HEADER = 16
_SIGNATURES = (
    *(b"fLaC", b"OggS", b"RIFF", b"FORM", b"caff", b"FLV", b"#!AMR", b"MAC ", b"wvpk", b"TTA1"),
    *(b"\x1a\x45\xdf\xa3", b"\x30\x26\xb2\x75", b".RMF", b".snd", b"riff"),
)
_FIRST_BOXES = {b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp", b"uuid"}
DURATION_BYTES = 4096
"""Bytes that hold the headers with a duration, unless an embedded picture comes first."""

_UNKNOWN_SIZE = 0x7FFF0000
"""Encoders that stream write a size from here on, because they do not know it yet."""

_MP3_RATES = (44_100, 48_000, 32_000)
_MPEG_1, _MPEG_2, _MPEG_25 = 3, 2, 0
_LAYER_3 = 1
_MONO = 3


class Layout(Enum):
    """How a file must be read."""

    FORWARD = auto()
    """From the first byte to the last: a pipe will do."""
    INDEX_LAST = auto()
    """MP4 and related formats with `mdat` before `moov`: the whole file must be on disk first."""
    UNKNOWN = auto()
    """More bytes are needed to tell."""


def has_signature(head: bytes) -> bool:
    """Whether the file starts like media: then a failure means damage, not a wrong file type."""
    return head.startswith(_SIGNATURES) or head[4:8] in _FIRST_BOXES


def layout(head: bytes | bytearray) -> Layout:
    """Only MP4 and related formats may have their index at the end; the rest is read forward."""
    if len(head) < _BOX_HEADER:
        return Layout.UNKNOWN
    if bytes(head[4:8]) not in _FIRST_BOXES:
        return Layout.FORWARD
    position = 0
    while position + _BOX_HEADER <= len(head):
        kind = head[position + 4 : position + 8]
        if kind in (b"moov", b"moof"):
            return Layout.FORWARD
        if kind == b"mdat":
            return Layout.INDEX_LAST
        size = _box_size(head, position)
        if size is None:
            break
        if size < _BOX_HEADER:  # broken, or the last box of the file: no index will come
            return Layout.FORWARD
        position += size
    return Layout.INDEX_LAST if len(head) >= LAYOUT_BYTES else Layout.UNKNOWN


def _box_size(head: bytes | bytearray, position: int) -> int | None:
    size = int.from_bytes(head[position : position + 4], "big")
    if size != 1:
        return size
    large = head[position + _BOX_HEADER : position + _LARGE_BOX_HEADER]
    return int.from_bytes(large, "big") if len(large) == _BOX_HEADER else None


def header_duration(head: bytes) -> timedelta | None:
    """The duration a WAV or MP3 header declares; None if it declares none that can be trusted.

    On a pipe ffmpeg knows no duration for these formats.
    """
    seconds = _wav(head) if head[:4] == b"RIFF" and head[8:12] == b"WAVE" else _mp3(head)
    return None if seconds is None else timedelta(seconds=seconds)


def _wav(head: bytes) -> float | None:
    byte_rate = 0
    position = 12
    while position + 8 <= len(head):
        kind, size = struct.unpack_from("<4sI", head, position)
        if kind == b"fmt " and position + 20 <= len(head):
            (byte_rate,) = struct.unpack_from("<I", head, position + 16)
        if kind == b"data":
            return size / byte_rate if byte_rate and 0 < size < _UNKNOWN_SIZE else None
        position += 8 + size + size % 2
    return None


def _mp3(head: bytes) -> float | None:
    """From the frame count that encoders put into a silent first frame."""
    frame = head[_id3_size(head) :][:64]
    if len(frame) < 64 or frame[0] != 0xFF or frame[1] & 0xE0 != 0xE0:
        return None
    version, layer = frame[1] >> 3 & 3, frame[1] >> 1 & 3
    rate_index, channels = frame[2] >> 2 & 3, frame[3] >> 6
    if layer != _LAYER_3 or version == 1 or rate_index == len(_MP3_RATES):
        return None
    if version == _MPEG_1:
        side_info, samples = (17 if channels == _MONO else 32), 1152
    else:
        side_info, samples = (9 if channels == _MONO else 17), 576
    rate = _MP3_RATES[rate_index] // {_MPEG_1: 1, _MPEG_2: 2, _MPEG_25: 4}[version]
    tag, flags, frames = struct.unpack_from(">4sII", frame, 4 + side_info)
    if tag not in (b"Xing", b"Info") or not flags & 1 or not frames:
        return None
    return float(frames * samples / rate)


def _id3_size(head: bytes) -> int:
    if head[:3] != b"ID3" or len(head) < 10:
        return 0
    size = 0
    for byte in head[6:10]:  # seven bits each
        size = size << 7 | byte & 0x7F
    return 10 + size
