"""Places decoded samples at their timestamps, and fills gaps with silence.

ffmpeg writes the samples as Matroska, so each block has a timestamp. Recordings whose audio starts
late or has gaps keep their times: gaps are filled with silence here, a frame at a time. ffmpeg's
aresample=async holds a whole gap in memory, and restarts from zero when the sample rate changes.
"""

from collections.abc import Iterable, Iterator

from mesh.errors import LimitExceededError
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason
from normalizer.engine import SAMPLE_BYTES, SAMPLE_RATE

_TOLERANCE_SECONDS = 0.05
"""A timestamp may be off by this much before it counts as a gap or an overlap."""

_SEGMENT, _CLUSTER = 0x18538067, 0x1F43B675
_CLUSTER_TIME, _SIMPLE_BLOCK = 0xE7, 0xA3
_BLOCK_HEADER = 4
_LONGEST_ELEMENT_HEADER = 12


class MatroskaBlocks:
    """Reads the one audio track of a Matroska stream as it arrives."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._cluster_ms = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Every block now complete: its timestamp in milliseconds, and its samples."""
        self._pending += data
        position = 0
        while (header := self._header(position)) is not None:
            kind, size, begin = header
            if kind in (_SEGMENT, _CLUSTER):  # containers: their children follow
                position = begin
                continue
            if begin + size > len(self._pending):
                break
            body = bytes(self._pending[begin : begin + size])
            position = begin + size
            if kind == _CLUSTER_TIME:
                self._cluster_ms = int.from_bytes(body, "big")
            elif kind == _SIMPLE_BLOCK:
                offset = int.from_bytes(body[1:3], "big", signed=True)
                yield self._cluster_ms + offset, body[_BLOCK_HEADER:]
        del self._pending[:position]

    def _header(self, position: int) -> tuple[int, int, int] | None:
        """Element id, body size and body position; None if the header is incomplete."""
        head = self._pending[position : position + _LONGEST_ELEMENT_HEADER]
        if not head:
            return None
        id_length = _length(head[0])
        if len(head) <= id_length:
            return None
        size_length = _length(head[id_length])
        if len(head) < id_length + size_length:
            return None
        kind = int.from_bytes(head[:id_length], "big")
        size = int.from_bytes(head[id_length : id_length + size_length], "big")
        marker = 1 << (7 * size_length)
        return kind, size & (marker - 1), position + id_length + size_length


def _length(first: int) -> int:
    """Length in bytes of an EBML number, from its first byte."""
    return 9 - first.bit_length()


class Timeline:
    """Lays blocks end to end from the start of the recording.

    Gaps cost the stages after this one as much as sound does, and a file of a few bytes can declare
    hours of them. All gaps together may last as long as the sound so far, and `max_gap_seconds`.
    """

    def __init__(self, max_gap_seconds: float, rate: int = SAMPLE_RATE) -> None:
        self._rate = rate
        self._tolerance = round(rate * _TOLERANCE_SECONDS)
        self._max_gap_seconds = max_gap_seconds
        self._sound = self._gaps = 0
        """Samples so far of each."""

    def place(self, milliseconds: int, samples: bytes) -> Iterator[bytes]:
        """The samples, preceded by silence after a gap, shortened if they overlap."""
        late = milliseconds * self._rate // 1000 - self._sound - self._gaps
        if late > self._tolerance:
            self._gaps += late
            self._check_gaps()
            yield from _silence(late)
        elif late < -self._tolerance:
            samples = samples[-late * SAMPLE_BYTES :]
        self._sound += len(samples) // SAMPLE_BYTES
        yield samples

    def _check_gaps(self) -> None:
        gaps = self._gaps / self._rate
        if gaps > self._max_gap_seconds + self._sound / self._rate:
            raise LimitExceededError(
                f"the recording has {gaps:.0f} s of gaps, "
                f"more than its sound and the {self._max_gap_seconds:g} s allowed",
                reason=Reason.TOO_LONG,
            )


def _silence(samples: int) -> Iterator[bytes]:
    step = MAX_FRAME_BYTES // SAMPLE_BYTES
    for begin in range(0, samples, step):
        yield bytes(min(step, samples - begin) * SAMPLE_BYTES)


def framed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in as few frames of at most MAX_FRAME_BYTES as possible."""
    frame = bytearray()
    for piece in pieces:
        frame += piece
        while len(frame) >= MAX_FRAME_BYTES:
            yield bytes(frame[:MAX_FRAME_BYTES])
            del frame[:MAX_FRAME_BYTES]
    if frame:
        yield bytes(frame)
