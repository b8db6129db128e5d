"""Professional subtitling rules by language."""

from dataclasses import dataclass, replace

FRAME_MS = 40
"""At 25 frames a second."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits of cues. All are guaranteed except the reading speed."""

    max_lines: int = 2
    max_line_length: int = 42
    """Characters; where letters are full-width, a half-width one counts half."""
    max_characters_per_second: float = 20
    """Characters a second, where the speech allows it."""
    min_duration: int = 834
    """5/6 of a second, rounded up."""
    max_duration: int = 7000
    min_gap: int = 2 * FRAME_MS
    full_width: bool = False
    """Whether a character is two columns wide."""

    @property
    def columns(self) -> int:
        """Columns on a line."""
        return self.max_line_length * (2 if self.full_width else 1)

    @property
    def columns_per_ms(self) -> float:
        """The reading speed in columns."""
        return self.max_characters_per_second * (2 if self.full_width else 1) / 1000


_BY_LANGUAGE = {
    "zh": Rules(max_line_length=16, max_characters_per_second=11, full_width=True),
    "yue": Rules(max_line_length=16, max_characters_per_second=11, full_width=True),
    "ja": Rules(max_line_length=16, max_characters_per_second=7, full_width=True),
    "ko": Rules(max_line_length=16, max_characters_per_second=14, full_width=True),
    "th": Rules(max_line_length=35),
}


def rules_for(language: str) -> Rules:
    """The usual limits of a language, given as a BCP-47 tag; empty means unknown."""
    return _BY_LANGUAGE.get(language.lower().replace("_", "-").partition("-")[0], Rules())


LIMITS: dict[str, tuple[float, float]] = {
    "max_lines": (1, 4),
    "max_line_length": (8, 100),
    "max_characters_per_second": (1, 100),
    "min_duration": (100, 5000),
    "max_duration": (1000, 30000),
    "min_gap": (0, 1000),
}
"""Allowed range of each limit a caller may set; durations in milliseconds."""
DURATIONS = ("min_duration", "max_duration", "min_gap")


def changed(rules: Rules, **limits: float | None) -> Rules:
    """The rules with the given limits changed; raises ValueError if one is out of range."""
    given = {name: value for name, value in limits.items() if value is not None}
    for name, value in given.items():
        low, high = LIMITS[name]
        if not low <= value <= high:
            unit = " ms" if name in DURATIONS else ""
            raise ValueError(f"{name} must be {low:g} to {high:g}{unit}")
    found = replace(rules, **given)  # type: ignore[arg-type]
    if found.max_duration < found.min_duration:
        raise ValueError("max_duration must be at least min_duration")
    return found
