"""Makes a transcript of the translated text."""

from collections.abc import Iterator
from dataclasses import replace

from captions.model import Segment, Transcript


def translated(transcript: Transcript) -> Transcript:
    """The transcript in the other language; speech already in that language is unchanged."""
    segments = tuple(_segments(transcript))
    return replace(transcript, segments=segments, language=transcript.language_out)


def _segments(transcript: Transcript) -> Iterator[Segment]:
    """A segment without a translation was translated with a neighbour, which gets its time too."""
    waiting: Segment | None = None
    start: int | None = None
    for segment in transcript.segments:
        unchanged = segment.text if segment.language == transcript.language_out else ""
        text = segment.translation or unchanged
        if text:
            if waiting is not None:
                yield waiting
            begin = segment.start if start is None else start
            waiting, start = Segment(begin, segment.end, text), None
        elif waiting is not None:
            waiting = replace(waiting, end=max(waiting.end, segment.end))
        else:
            start = segment.start if start is None else start
    if waiting is not None:
        yield waiting
