"""Parameter types, and the source checks of `collect`; they run before anything is started."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from math import isnan
from pathlib import Path
from typing import Any

import click

from cli.exits import CommandError, Exit
from mesh.errors import InvalidRequestError
from mesh.period import Days, wanted_days
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
AMOUNT = re.compile(r"(\d{1,16}(?:\.\d{1,6})?)\s*([kMGT]?B|)", re.IGNORECASE)
BYTES = {"": 1, "B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4}
TASK_TYPE = re.compile(r"[\w-]{1,40}", re.ASCII)
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


class QuotaParam(click.ParamType[tuple[str, float | None]]):
    """A limit and its value: queued_jobs=20, stored_bytes=20GB, audio_hours=none; None: default."""

    name = "limit"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float | None]:
        """Parses name and value; fails with a usage error."""
        if isinstance(value, tuple):
            return value
        name, _, text = (part.strip() for part in str(value).partition("="))
        if text in ("none", "default"):
            return name, 0 if text == "none" else None
        amount = AMOUNT.fullmatch(text)
        if not name or amount is None:
            self.fail(
                f"{value!r} is not NAME=VALUE with a number, none or default as its value",
                param,
                ctx,
            )
        return name, float(amount[1]) * BYTES[amount[2].upper()]


class NumberParam(click.FloatRange):
    """A number within limits; FloatRange alone accepts "nan"."""

    expected = "a number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parses the number; fails with a usage error."""
        found = super().convert(value, param, ctx)
        if isnan(found):
            self.fail(f"{value!r} is not {self.expected}", param, ctx)
        return found


class AgeParam(NumberParam):
    """A number of hours, as a timedelta."""

    expected = "a number of hours"

    def __init__(self) -> None:
        super().__init__(0, MAX_AGE_HOURS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parses the hours; fails with a usage error."""
        return timedelta(hours=super().convert(value, param, ctx))


class DateParam(click.ParamType[str]):
    """A date, or the first part of one; passed on as it was written."""

    def __init__(self, name: str, days_of: Callable[[str], Days], expected: str) -> None:
        self.name = name
        self._days_of = days_of
        self._expected = expected

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Checks the date; fails with a usage error."""
        text = str(value).strip()
        days = Days()
        with suppress(InvalidRequestError):
            days = self._days_of(text)
        if not days:
            self.fail(f"{value!r} is not {self._expected}", param, ctx)
        return text


PERIOD = DateParam(
    "period", lambda text: wanted_days("", "", text), "a year, month or day such as 2025-10"
)
DAY = DateParam("day", lambda text: wanted_days(text, "", ""), "a day such as 2025-10-31")


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


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A registered type, the parameters for it, and what one call of an executor gets."""

    type: str
    parameters: dict[str, Any]
    scope: str = ""


class TaskParam(click.ParamType[TaskSpec]):
    """TYPE, TYPE:key=value,key=value or TYPE:{"key": "value"}; of an executor also TYPE@item."""

    name = "type"

    def __init__(self, *, scoped: bool = False) -> None:
        self._scoped = scoped

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> TaskSpec:
        """Parses the text."""
        if isinstance(value, TaskSpec):
            return value
        type_, _, given = value.partition(":")
        type_, _, scope = type_.partition("@") if self._scoped else (type_, "", "")
        if not TASK_TYPE.fullmatch(type_) or scope not in ("", "item", "collection"):
            self.fail(f"{value!r} does not begin with a type", param, ctx)
        try:
            parameters = json.loads(given) if given.startswith("{") else _pairs(given)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        return TaskSpec(type_, parameters, scope)


def _pairs(given: str) -> dict[str, Any]:
    """key=value, separated by commas; a value that is JSON, such as 3 or true, is taken as that."""
    found: dict[str, Any] = {}
    for pair in given.split(",") if given else ():
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise ValueError(f"{pair!r} is not key=value; write a value with a comma as JSON")
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
    return found


def check_number(sources: Sequence[str], *, each: bool, others: bool = False) -> None:
    """Refuses an empty list, and more sources than a server lists for one collection."""
    if not sources and not others:
        raise click.UsageError("nothing to collect: give a SOURCE, --source or --from-file")
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
