"""Plain text in paragraphs."""

import itertools
from collections.abc import Iterator, Sequence

from captions.boundaries import ends_sentence
from captions.model import Segment
from captions.text import clean, run_on

PAUSE_MS = 2000
"""A sentence followed by such a silence ends its paragraph."""
LONG_PAUSE_MS = 4000
"""Such a silence ends the paragraph anywhere."""
LONG = 500
"""Characters after which a paragraph ends with the next sentence."""
TOO_LONG = 1000
"""Characters after which it ends anywhere: some transcripts have no full stops."""


def txt(segments: Sequence[Segment]) -> str:
    """Paragraphs, each on one line, an empty line between them."""
    return "\n\n".join(map(run_on, _paragraphs(segments))) + "\n" if segments else ""


def _paragraphs(segments: Sequence[Segment]) -> Iterator[list[str]]:
    spoken = [(segment, text) for segment in segments if (text := clean(segment.text))]
    paragraph: list[str] = []
    for (segment, text), (after, following) in itertools.pairwise(spoken):
        paragraph.append(text)
        length = sum(map(len, paragraph))
        silence = after.start - segment.end
        ended = ends_sentence(text.rpartition(" ")[2], following)
        enough = silence >= PAUSE_MS or length >= LONG
        if (ended and enough) or silence >= LONG_PAUSE_MS or length >= TOO_LONG:
            yield paragraph
            paragraph = []
    yield [*paragraph, *(text for _, text in spoken[-1:])]
