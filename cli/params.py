"""Parameter types, and the source checks of `collect`; they run before anything is started."""

import re
import sys
from collections.abc import Sequence
from datetime import date, timedelta
from math import isnan
from pathlib import Path
from typing import Any

import click

from cli.exits import CommandError, Exit
from mesh.searches import is_search

MAX_SOURCES = 20
MAX_DURATION = timedelta(days=30)
# A thousand years: no job is older, and the date that long ago still exists.
MAX_AGE_HOURS = 24 * 366 * 1000
UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
PART = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*([smhd])(?:ec|in|ours?|ays?)?\s*", re.IGNORECASE)
ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)


class DurationParam(click.ParamType[timedelta]):
    """A duration with its units: 90s, 30m, 1h30m."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Parses the duration; fails with a usage error."""
        if isinstance(value, timedelta):
            return value
        text, found, at = str(value).strip(), timedelta(0), 0
        while part := PART.match(text, at):
            found += float(part[1]) * UNITS[part[2].lower()]
            at = part.end()
        if at != len(text) or not timedelta(0) < found <= MAX_DURATION:
            self.fail(f"{value!r} is not a duration such as 90s, 30m, 2h or 1h30m", param, ctx)
        return found


class AgeParam(click.FloatRange):
    """A number of hours, as a timedelta."""

    def __init__(self) -> None:
        super().__init__(0, MAX_AGE_HOURS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parses the hours; fails with a usage error."""
        hours = super().convert(value, param, ctx)
        if isnan(hours):  # passes both ends of a range
            self.fail(f"{value!r} is not a number of hours", param, ctx)
        return timedelta(hours=hours)


class DateParam(click.ParamType[str]):
    """A date, or the first part of one; passed on as it was written."""

    def __init__(self, name: str, pattern: str, expected: str) -> None:
        self.name = name
        self._pattern = re.compile(pattern, re.ASCII)
        self._expected = expected

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Checks the date; fails with a usage error."""
        text = str(value).strip()
        if not self._pattern.fullmatch(text) or not _is_date(f"{text}-01-01"[:10]):
            self.fail(f"{value!r} is not {self._expected}", param, ctx)
        return text


PERIOD = DateParam("period", r"\d{4}(-\d\d(-\d\d)?)?", "a year, month or day such as 2025-10")
DAY = DateParam("day", r"\d{4}-\d\d-\d\d", "a day such as 2025-10-31")


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def read_addresses(file: str) -> list[str]:
    """Reads one address a line and skips empty lines and # comments; "-" is stdin."""
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).expanduser().read_bytes()
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise click.UsageError(f"--from-file: {file} is not UTF-8 text") from None
    except OSError as error:
        raise click.UsageError(f"--from-file: cannot read {file}: {error.strerror}") from None
    texts = (line.strip() for line in lines)
    return [text for text in texts if text and not text.startswith("#")]


def check_number(sources: Sequence[str], *, each: bool) -> None:
    """Refuses an empty list, and more sources than a server lists for one collection."""
    if not sources:
        raise click.UsageError("nothing to collect: give a SOURCE or --from-file")
    if len(sources) > MAX_SOURCES and not each:
        raise click.UsageError(
            f"at most {MAX_SOURCES} sources can be listed, not {len(sources)}; "
            "if each is a single recording, use --each"
        )


def check_sources(sources: Sequence[str], *, each: bool) -> None:
    """Refuses sources that are neither addresses nor searches; the server checks the rest."""
    for source in sources:
        if ADDRESS.fullmatch(source) or (not each and is_search(source)):
            continue
        kinds = "an http(s) address" if each else 'an http(s) address or a search ("ytsearch5:…")'
        hint = "; `ytcaption transcribe` takes files" if Path(source).exists() else ""
        raise CommandError(f"{source[:200]!r} is not {kinds}{hint}", Exit.REFUSED)
