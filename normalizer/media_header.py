"""The length a file announces in its first bytes, where ffmpeg would need the file's end to say.

On a pipe ffmpeg knows no length for WAV and MP3, though their headers hold one.
"""

import struct
from datetime import timedelta

ENOUGH = 4096
"""Bytes in which these headers fit, unless a picture comes first."""

_STREAMED = 0x7FFF0000
"""Sizes from here on were written by somebody who did not know the size yet."""

_MP3_RATES = (44_100, 48_000, 32_000)
_MPEG_1, _MPEG_2, _MPEG_25 = 3, 2, 0
_LAYER_3 = 1
_MONO = 3


def announced(head: bytes) -> timedelta | None:
    """None if it says nothing, or nothing that can be trusted."""
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
            return size / byte_rate if byte_rate and 0 < size < _STREAMED else None
        position += 8 + size + size % 2
    return None


def _mp3(head: bytes) -> float | None:
    """From the count of frames which encoders put into a silent first frame."""
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
