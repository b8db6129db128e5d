"""What may be typed for a collection, checked before anything is started for it."""

import re
import sys
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import click

from cli.exits import CommandError, Exit
from mesh.searches import is_search

MOST_SOURCES = 20
LONGEST_TIMEOUT = timedelta(days=30)
UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
PART = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*([smhd])(?:ec|in|ours?|ays?)?\s*", re.IGNORECASE)
ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
PERIOD = re.compile(r"\d{4}(-\d\d(-\d\d)?)?", re.ASCII)
DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


class Span(click.ParamType[timedelta]):
    """A length of time with its unit: 90s, 30m, 1h30m."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """The time, or click's own complaint."""
        if isinstance(value, timedelta):
            return value
        text, found, at = str(value).strip(), timedelta(0), 0
        while part := PART.match(text, at):
            found += float(part[1]) * UNITS[part[2].lower()]
            at = part.end()
        if at != len(text) or not timedelta(0) < found <= LONGEST_TIMEOUT:
            self.fail(f"{value!r} is no time such as 90s, 30m, 2h or 1h30m", param, ctx)
        return found


class Period(click.ParamType[str]):
    """A year, a month or a day."""

    name = "period"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The period as it was written, or click's own complaint."""
        text = str(value).strip()
        if not PERIOD.fullmatch(text) or not _is_day(f"{text}-01-01"[:10]):
            self.fail(f"{value!r} is no year, month or day, such as 2025-10", param, ctx)
        return text


class Day(click.ParamType[str]):
    """One day."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The day as YYYY-MM-DD, or click's own complaint."""
        text = str(value).strip()
        if not DAY.fullmatch(text) or not _is_day(text):
            self.fail(f"{value!r} is no day such as 2025-10-31", param, ctx)
        return text


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def read_addresses(file: str) -> list[str]:
    """One a line; empty lines and those that begin with # are none. "-" is stdin."""
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).expanduser().read_bytes()
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise click.UsageError(f"--from-file: {file} is not text in UTF-8") from None
    except OSError as error:
        raise click.UsageError(f"--from-file: cannot read {file}: {error.strerror}") from None
    texts = (line.strip() for line in lines)
    return [text for text in texts if text and not text.startswith("#")]


def check_number(sources: Sequence[str], *, each: bool) -> None:
    """Refuses too few and too many."""
    if not sources:
        raise click.UsageError("nothing to collect: give a SOURCE or --from-file")
    if len(sources) > MOST_SOURCES and not each:
        raise click.UsageError(
            f"at most {MOST_SOURCES} sources can be listed, not {len(sources)}; "
            "if each is a single recording, say --each"
        )


def check_sources(sources: Sequence[str], *, each: bool) -> None:
    """Refuses what can never be collected; the server knows the rest."""
    for source in sources:
        if ADDRESS.fullmatch(source) or (not each and is_search(source)):
            continue
        kinds = "an http(s) address" if each else 'an http(s) address or a search ("ytsearch5:…")'
        hint = "; `ytcaption transcribe` takes files" if Path(source).exists() else ""
        raise CommandError(f"{source[:200]!r} is not {kinds}{hint}", Exit.REFUSED)
