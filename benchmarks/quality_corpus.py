"""The corpus of the quality benchmark: recordings in folders, with language and reference.

A reference is the .txt beside a recording. INDEX.tsv in the corpus folder is optional: its columns
`file`, `language` and `words` name the recordings, their languages ("none": no speech) and
whether a reference exists ("-": no reference). Without it, every media file counts, and its
folder's name is its language if it is a language tag, such as "pt" or "en-libri".
"""

import csv
import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from benchmarks.asr_recordings import RATE
from benchmarks.recording import piped_ffmpeg
from mesh.errors import InvalidRequestError
from mesh.languages import primary

Samples = npt.NDArray[np.int16]
INDEX = "INDEX.tsv"
NO_SPEECH = "none"
NO_REFERENCE = "-"


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """One recording of the corpus."""

    name: str
    """Its path below the corpus folder."""
    language: str
    """Whisper's code, "none" without speech, empty if unknown."""
    reference: str | None
    """What is said; empty if nothing is, None if unknown."""
    samples: Samples
    """16 kHz mono."""
    is_language_known: bool = True
    """Whether the corpus names the language; False if a model detected it."""

    @property
    def seconds(self) -> float:
        """Its length."""
        return len(self.samples) / RATE


@dataclass(frozen=True, slots=True)
class Entry:
    """A recording that is not decoded yet."""

    path: Path
    name: str
    language: str
    reference: str | None


EntryT = TypeVar("EntryT", Entry, Clip)


def read_corpus(folder: Path) -> list[Entry]:
    """Every recording, sorted by name; raises ValueError if INDEX.tsv contradicts the files."""
    index = folder / INDEX
    found = _indexed(folder, index) if index.is_file() else _unindexed(folder)
    return sorted(found, key=lambda entry: entry.name)


def select(entries: Sequence[EntryT], language: str, limit: int) -> list[EntryT]:
    """The entries or clips of a language, or all; with a limit, so many, evenly spread."""
    chosen = [entry for entry in entries if language in ("", entry.language)]
    if not limit or limit >= len(chosen):
        return chosen
    return [chosen[number * len(chosen) // limit] for number in range(limit)]


def decode(entry: Entry) -> Clip:
    """Decodes a recording to samples."""
    raw = ("-vn", "-ac", "1", "-ar", str(RATE), "-f", "s16le", "pipe:1")
    data = piped_ffmpeg(b"", "-i", entry.path, *raw)
    samples = np.frombuffer(data, np.int16)
    return Clip(entry.name, entry.language, entry.reference, samples, bool(entry.language))


def _indexed(folder: Path, index: Path) -> list[Entry]:
    with index.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [_entry_of(folder, row) for row in rows]


def _entry_of(folder: Path, row: dict[str, str]) -> Entry:
    name, language = row["file"], row["language"]
    path = folder / name
    if not path.is_file():
        raise ValueError(f"{INDEX} names {name}, which does not exist")
    if language == NO_SPEECH:
        return Entry(path, name, NO_SPEECH, "")
    reference = None if row.get("words") == NO_REFERENCE else _reference(path)
    if reference is None and row.get("words") != NO_REFERENCE:
        raise ValueError(f"{name} has no .txt beside it, and {INDEX} does not mark that with '-'")
    return Entry(path, name, _code(language), reference)


def _unindexed(folder: Path) -> list[Entry]:
    found = []
    for path in folder.rglob("*"):
        kind = mimetypes.guess_type(path.name)[0] or ""
        if kind.startswith(("audio/", "video/")):
            reference = _reference(path)
            language = NO_SPEECH if reference == "" else _language_of(path.parent.name)
            found.append(Entry(path, str(path.relative_to(folder)), language, reference))
    return found


def _reference(media: Path) -> str | None:
    path = media.with_suffix(".txt")
    return path.read_text(encoding="utf-8").strip() if path.is_file() else None


def _code(tag: str) -> str:
    try:
        return primary(tag)
    except InvalidRequestError as error:
        raise ValueError(f"{INDEX}: {error}") from error


def _language_of(folder: str) -> str:
    if folder == NO_SPEECH:
        return NO_SPEECH
    try:
        return primary(folder)
    except InvalidRequestError:
        return ""
