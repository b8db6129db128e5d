"""The table of job options: one row for every value of JobOptions, CueRules and DownloadOptions.

Defaults, ranges, help texts and other names stand here once. The orchestrator's validation, the
JSON models of the gateway and of events, and the flags of the command are derived from the table; a
test holds it against the contract. Imports nothing but the standard library: the command reads it
for `--help`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from typing import Any


class Kind(Enum):
    """What an option's value is."""

    BOOL = auto()
    TEXT = auto()
    TEXTS = auto()
    """A list of texts; empty if it is left out."""
    INT = auto()
    INT64 = auto()
    NUMBER = auto()
    SECONDS = auto()
    CHOICE = auto()


@dataclass(frozen=True, slots=True)
class Option:
    """One option. Its name is that of its field in the contract, and its key in JSON."""

    name: str
    kind: Kind
    help: str
    default: bool | str | None = None
    """What is in force if callers leave it out; None: a stage decides."""
    minimum: float | None = None
    maximum: float | None = None
    max_length: int | None = None
    """Of a text, and of each text of a list."""
    max_items: int | None = None
    """Of a list."""
    choices: tuple[str, ...] = ()
    portuguese: str = ""
    """Its other key in the JSON form of events."""
    flags: tuple[str, ...] | None = None
    """Its flags in the command; None: made of its name. Empty: the command has none."""
    flag_value: str | None = None
    """The value its flag stands for, if the flag takes none."""
    metavar: str | None = None

    def fault(self, value: Any) -> str | None:
        """Why a value is refused; None if it is not."""
        if self.max_items is not None and len(value) > self.max_items:
            return f"{self.name} has over {self.max_items} entries"
        texts = value if self.kind is Kind.TEXTS else (value,)
        if self.max_length is not None and any(len(text) > self.max_length for text in texts):
            return f"{self.name} is over {self.max_length} characters"
        if self.minimum is None and self.maximum is None:
            return None
        low = -inf if self.minimum is None else self.minimum
        high = inf if self.maximum is None else self.maximum
        return None if low <= value <= high else f"{self.name} must be {low:g} to {high:g}"


@dataclass(frozen=True, slots=True)
class Group:
    """Options that are a message of their own in the contract, and an object in JSON."""

    name: str
    options: tuple[Option, ...]
    help: str


MAX_TEXT = 1000
MAX_TAG = 64
MAX_URL = 8000
MAX_URL_BYTES = 8 * 1024
"""Of a source's address, wherever one comes from."""
MAX_SECONDS = 3600


def _switch(name: str, help: str, *, default: bool) -> Option:
    return Option(name, Kind.BOOL, help, default)


def _text(name: str, metavar: str, help: str, max_length: int = MAX_TEXT, **more: Any) -> Option:
    return Option(name, Kind.TEXT, help, metavar=metavar, max_length=max_length, **more)


def _language(name: str, help: str, portuguese: str, **more: Any) -> Option:
    return _text(name, "TAG", help, MAX_TAG, portuguese=portuguese, **more)


def _within(low: float, high: float, kind: Kind, name: str, help: str, **more: Any) -> Option:
    return Option(name, kind, help, minimum=low, maximum=high, **more)


def _seconds(name: str, help: str, **more: Any) -> Option:
    return _within(0, MAX_SECONDS, Kind.SECONDS, name, help, metavar="S", **more)


CUE_RULES = Group(
    "cue_rules",
    (
        _within(1, 4, Kind.INT, "max_lines", "Lines of a cue.", metavar="N"),
        _within(8, 100, Kind.INT, "max_line_length", "Characters of a line.", metavar="N"),
        _within(
            1,
            100,
            Kind.NUMBER,
            "max_characters_per_second",
            "Characters a second, where the speech allows.",
            flags=("--max-cps",),
            metavar="N",
        ),
        _seconds("min_duration", "Seconds a cue stays at least."),
        _seconds("max_duration", "Seconds it stays at most."),
        _seconds("min_gap", "Seconds between two cues at least."),
    ),
    "Limits of cues; those left out are the usual ones of the language.",
)
"""Durations have narrower ranges, which `captions.rules` checks."""

DOWNLOAD = Group(
    "download",
    (
        _text("user_agent", "TEXT", "User agent shown to the site."),
        Option("max_bytes_per_second", Kind.INT64, "Download no faster.", minimum=1, metavar="N"),
        _seconds(
            "request_interval", "Seconds between two requests to the site at least.", flags=()
        ),
        _text(
            "proxy", "URL", "Proxy to download through, if the mesh lets callers choose.", MAX_URL
        ),
    ),
    "How the site is asked.",
)

JOB_OPTIONS: tuple[Option | Group, ...] = (
    _language(
        "language", "Language of the speech, such as en or pt; or auto.", "idioma", default="auto"
    ),
    _language(
        "language_out",
        "Language to translate into, beside the original: en, or what the server can.",
        "traduzir_para",
        flags=("--language-out", "--translate-to"),
    ),
    _switch("remove_noise", "Take steady noise out of the kept audio.", default=True),
    _switch("convert_to_mono", "Keep one channel.", default=True),
    _switch("apply_highpass_filter", "Cut rumble below speech.", default=False),
    _switch("set_sample_rate_16k", "Keep the audio at 16 kHz.", default=True),
    _switch("isolate_vocals", "Lift speech out of music.", default=False),
    _switch("word_timestamps", "Give each word its time.", default=False),
    _text("initial_prompt", "TEXT", "Names and terms to expect."),
    _within(1, 10, Kind.INT, "beam_size", "Width of the beam search."),
    Option(
        "captions_policy",
        Kind.CHOICE,
        "Take captions a human made for the video, if there are any, instead of listening.",
        "transcribe",
        choices=("transcribe", "prefer_human"),
        flags=("--prefer-human-captions",),
        flag_value="prefer_human",
    ),
    _within(-70, -5, Kind.NUMBER, "loudness_lufs", "Loudness of the kept audio in LUFS.", flags=()),
    CUE_RULES,
    _text("hotwords", "WORDS", "Words to prefer where the model is in doubt."),
    _switch("mixed_languages", "Tell the language of every stretch anew.", default=False),
    DOWNLOAD,
    Option(
        "languages",
        Kind.TEXTS,
        "Languages the speech can be in, such as pt,en,es: the most probable of these is taken.",
        max_length=MAX_TAG,
        max_items=20,
        portuguese="idiomas",
        metavar="TAG,TAG",
    ),
)
"""In the order of the contract."""

GROUPS = tuple(entry for entry in JOB_OPTIONS if isinstance(entry, Group))
UNGROUPED = tuple(entry for entry in JOB_OPTIONS if isinstance(entry, Option))
"""The options that are fields of JobOptions itself: values and lists, not messages."""
NAMES = frozenset(
    entry.name
    for entries in (JOB_OPTIONS, *(group.options for group in GROUPS))
    for entry in entries
)


def grouped(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values that stand side by side, as in a query, each in the group its option belongs to."""
    found = dict(values)
    for group in GROUPS:
        own = [option.name for option in group.options if option.name in found]
        if own:
            found[group.name] = {name: found.pop(name) for name in own}
    return found
