"""Decides where a recording is cut for the model: at pauses, never twice, never with a gap.

Whisper hears up to 30 seconds at a time, and understands words better the more it hears around
them. So windows are as full as the speaker's pauses allow, except the first, which a viewer waits
for. Of long pauses only the edges are kept, so that speech on both sides fits into one window.

Every decision depends on the chunks alone, not on when they arrived, so a recording that is read
again is cut at the same places: that makes resuming exact.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

RATE = 16_000
CHUNK = 512
"""Samples the voice detector judges at once; every cut but the recording's end is on this grid."""


def chunks(seconds: float) -> int:
    """How many chunks last about that long."""
    return round(seconds * RATE / CHUNK)


ONSET, KEPT = 0.5, 0.35
"""Speech begins at the first probability and lasts while it stays above the second."""

PADDING = chunks(0.3)
"""Quiet left around speech: the detector is late for soft consonants."""

MIN_SPEECH = chunks(0.128)
"""A window with less speech than this is a click."""

MIN_REST = chunks(0.5)
"""Least rest after a cut in speech: a shorter one cannot be decoded."""

PAUSE = chunks(0.8)
"""The most the model hears of a pause: silence is not worth its time, but words on both sides are
understood better together."""

SPLITS = RATE
"""If so many samples of a pause are left out, no phrase may go across it: its end would be seen
too soon."""

SILENCE = chunks(6.0)
"""A pause this long ends any window, so that its captions do not wait for more speech."""

LONGEST = chunks(60)
"""A window that began this long ago ends at the next pause, however little was said."""

WANTED_PAUSE, ACCEPTED_PAUSE = chunks(0.5), chunks(0.1)
"""What ends a window that has just become full enough, and one that is about to overflow."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Speech probability and loudness of one chunk."""

    probability: float
    loudness: float

    def is_speech(self, *, after_speech: bool) -> bool:
        """Whether speech begins here, or lasts."""
        return self.probability >= (KEPT if after_speech else ONSET)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A contiguous range of samples."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """Number of samples."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Window:
    """Input of one decode, in samples: all of it but the middle of long pauses."""

    stretches: tuple[Stretch, ...]
    """In order; the silence between them is cut out."""

    voiced: tuple[Stretch, ...]
    """Where there is speech, in order; at least once."""

    @property
    def speech(self) -> int:
        """How many of its samples are speech."""
        return sum(stretch.length for stretch in self.voiced)

    @property
    def start(self) -> int:
        """Its first sample."""
        return self.stretches[0].start

    @property
    def end(self) -> int:
        """The first sample after it."""
        return self.stretches[-1].end

    @property
    def length(self) -> int:
        """How many samples the model gets."""
        return sum(stretch.length for stretch in self.stretches)

    @property
    def joints(self) -> tuple[int, ...]:
        """Sample offsets in the window where a pause too long for one phrase was cut out."""
        ends = accumulate(stretch.length for stretch in self.stretches)
        pauses = (after.start - before.end for before, after in pairwise(self.stretches))
        return tuple(at for at, left_out in zip(ends, pauses, strict=False) if left_out >= SPLITS)

    @property
    def speech_spans(self) -> tuple[tuple[float, float], ...]:
        """Begin and end of each stretch of speech, in seconds from the beginning of the window."""
        return tuple(
            (self._offset(stretch.start) / RATE, self._offset(stretch.end) / RATE)
            for stretch in self.voiced
        )

    def _offset(self, sample: int) -> int:
        """The reverse of `place`."""
        return sum(min(max(0, sample - one.start), one.length) for one in self.stretches)

    def place(self, offset: int, *, is_end: bool) -> int:
        """Maps an offset in the window to a sample; at a cut, to the pause's end or beginning."""
        for stretch in self.stretches:
            if offset < stretch.length or (is_end and offset == stretch.length):
                return stretch.start + offset
            offset -= stretch.length
        return self.end


@dataclass(frozen=True, slots=True)
class _Plan:
    enough: int
    """From this length on a window waits for a pause to end it."""

    limit: int
    """At this length it ends, pause or not."""

    def pause_needed(self, length: int) -> int:
        if length < self.enough:
            return SILENCE
        fullness = (length - self.enough) / (self.limit - self.enough)
        return round(WANTED_PAUSE - fullness * (WANTED_PAUSE - ACCEPTED_PAUSE))


_PLANS = (
    _Plan(chunks(2.5), chunks(10)),
    _Plan(chunks(8), chunks(20)),
    _Plan(chunks(22), chunks(28)),
)
"""For the first window, the second, and all others."""


WHOLE_SECONDS = 30
"""A recording no longer than this is heard in one window: all of the encoder's context."""

WHOLE_PADDING, WHOLE_PAUSE = 2 * RATE // 5, 2 * RATE
"""Samples kept around speech there, and the longest pause that stays: as much as faster-whisper
leaves, whose voice detection the model's users tuned."""


def whole(moments: Sequence[Moment], samples: int) -> Window | None:
    """All of a short recording as one window, without long pauses; None if it has no speech."""
    speech = list(_speech(moments))
    if len(speech) < MIN_SPEECH:
        return None
    voiced = tuple(_runs(speech, samples))
    starts = [max(0, voiced[0].start - WHOLE_PADDING)]
    ends = []
    for before, after in pairwise(voiced):
        if after.start - before.end > WHOLE_PAUSE:
            ends.append(before.end + WHOLE_PADDING)
            starts.append(after.start - WHOLE_PADDING)
    last = voiced[-1].end
    ends.append(samples if samples - last <= WHOLE_PAUSE else last + WHOLE_PADDING)
    return Window(tuple(map(Stretch, starts, ends)), voiced)


def _speech(moments: Iterable[Moment]) -> Iterator[int]:
    """Numbers of the chunks with speech."""
    speaking = False
    for number, moment in enumerate(moments):
        speaking = moment.is_speech(after_speech=speaking)
        if speaking:
            yield number


@dataclass(frozen=True, slots=True)
class _Chunk:
    speech: bool
    loudness: float


class Windower:
    """Takes one chunk after the other and returns completed windows."""

    def __init__(self) -> None:
        self._seen = 0
        self._speaking = False
        self._closed_at = 0
        self._closed = 0
        self._start = 0
        self._open: list[_Chunk] = []
        """Chunks of the open window from its first speech on; empty during silence."""
        self._pause = 0
        self._left_out = 0
        """Chunks of earlier pauses that are cut out."""
        self._cut_in_speech = False
        """Whether the open window began in the middle of speech."""

    @property
    def needed_from(self) -> int:
        """First sample a later window may contain."""
        start = self._start if self._open else self._padded(self._seen)
        return start * CHUNK

    def push(self, moment: Moment) -> Window | None:
        """Takes the next chunk; returns the window it completes, if any."""
        self._speaking = moment.is_speech(after_speech=self._speaking)
        if self._speaking and not self._open:
            self._start = self._padded(self._seen)
        if self._speaking or self._open:
            self._append(_Chunk(self._speaking, moment.loudness))
        self._seen += 1
        return self._complete() if self._open else None

    def finish(self, samples: int) -> Window | None:
        """Ends the recording after so many samples; returns the open window, if any."""
        return self._end_in_pause(samples) if self._open else None

    def _padded(self, onset: int) -> int:
        return max(self._closed_at, onset - PADDING)

    def _append(self, chunk: _Chunk) -> None:
        self._open.append(chunk)
        if not chunk.speech:
            self._pause += 1
        else:
            self._left_out += _excess(self._pause)
            self._pause = 0

    def _complete(self) -> Window | None:
        since = self._seen - self._start
        length = since - self._left_out - _excess(self._pause)
        plan = _PLANS[min(self._closed, len(_PLANS) - 1)]
        wanted = WANTED_PAUSE if since >= LONGEST else plan.pause_needed(length)
        if self._pause >= wanted:
            return self._end_in_pause(self._seen * CHUNK)
        if length >= plan.limit:
            return self._end_in_speech(length // 5)
        return None

    def _end_in_pause(self, samples: int) -> Window | None:
        speech_end = self._seen - self._pause
        # At most half of a short pause: the other half pads what comes next.
        padding = min(PADDING, max(self._pause // 2, 1))
        return self._close(self._open, speech_end + padding, samples)

    def _end_in_speech(self, last: int) -> Window | None:
        """No pause: cuts at the quietest recent chunk and continues from there."""
        first = max(len(self._open) - last, 1)
        at = min(range(first, len(self._open) - MIN_REST), key=self._noise_before)
        rest = self._open[at:]
        cut = self._seen - len(rest)
        window = self._close(self._open[:at], cut, cut * CHUNK)
        self._reopen(rest)
        return window

    def _noise_before(self, at: int) -> tuple[int, float]:
        left, right = self._open[at - 1], self._open[at]
        return left.speech + right.speech, left.loudness + right.loudness

    def _reopen(self, rest: Sequence[_Chunk]) -> None:
        speech = [number for number, chunk in enumerate(rest) if chunk.speech]
        if speech:
            self._start = self._padded(self._seen - len(rest) + speech[0])
            self._cut_in_speech = speech[0] == 0
            for chunk in rest[speech[0] :]:
                self._append(chunk)

    def _close(self, chunks: Sequence[_Chunk], end: int, samples: int) -> Window | None:
        speech = [number for number, chunk in enumerate(chunks) if chunk.speech]
        onset = self._seen - len(self._open)
        start, self._closed_at = self._start, end
        is_click = len(speech) < MIN_SPEECH and not self._cut_in_speech
        self._open, self._pause, self._left_out, self._cut_in_speech = [], 0, 0, False
        if is_click:
            return None
        self._closed += 1
        return Window(
            stretches=_stretches(start, [onset + number for number in speech], end, samples),
            voiced=tuple(_runs([onset + number for number in speech], samples)),
        )


def _runs(chunks: Sequence[int], samples: int) -> Iterator[Stretch]:
    """Stretches of adjacent chunks; the last one may be cut off by the end of the recording."""
    first = chunks[0]
    for before, after in pairwise([*chunks, -1]):
        if after != before + 1:
            yield Stretch(first * CHUNK, min((before + 1) * CHUNK, samples))
            first = after


def _excess(pause: int) -> int:
    return max(0, pause - PAUSE)


def _stretches(start: int, speech: Sequence[int], end: int, samples: int) -> tuple[Stretch, ...]:
    """From start to end, in chunks, without the middle of pauses that are too long."""
    edge = PAUSE // 2
    found: list[Stretch] = []
    for before, after in pairwise(speech):
        if _excess(after - before - 1):
            found.append(Stretch(start * CHUNK, (before + 1 + edge) * CHUNK))
            start = after - (PAUSE - edge)
    return (*found, Stretch(start * CHUNK, min(end * CHUNK, samples)))
