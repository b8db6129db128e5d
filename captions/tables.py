"""TSV and LRC: one line per cue."""

import csv
import re
from collections.abc import Sequence
from io import StringIO
from itertools import zip_longest

from captions.model import Cue

SILENCE_MS = 1000
"""Players show a lyric until the next line: after a longer silence an empty line clears it."""
_STAMP = re.compile(r"[\[<](\s*\d+:[^\]>]*)[\]>]")


def tsv(cues: Sequence[Cue]) -> str:
    """Start and end in milliseconds, and the text, under a header."""
    file = StringIO()
    table = csv.writer(file, dialect="excel-tab", lineterminator="\n")
    table.writerow(("start", "end", "text"))
    table.writerows((cue.start, cue.end, cue.text) for cue in cues)
    return file.getvalue()


def lrc(cues: Sequence[Cue]) -> str:
    """LRC lyrics: a timestamp, then the text."""
    found = []
    for cue, after in zip_longest(cues, cues[1:]):
        # Text that looks like a timestamp would be read as one.
        text = _STAMP.sub(r"(\1)", cue.text)
        found.append(f"{_stamp(cue.start)}{text}\n")
        if after is None or after.start - cue.end > SILENCE_MS:
            found.append(f"{_stamp(cue.end)}\n")
    return "".join(found)


def _stamp(ms: int) -> str:
    minutes, rest = divmod(ms // 10, 6000)
    return f"[{minutes:02}:{rest // 100:02}.{rest % 100:02}]"
