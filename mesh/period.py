"""Parses and matches days of publication: a period, or a first and a last day."""

import calendar
import re
from dataclasses import dataclass
from datetime import date, timedelta

from mesh.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class Days:
    """From one day to another, both included; an empty one is no limit. YYYY-MM-DD sorts."""

    first: str = ""
    last: str = ""

    def __bool__(self) -> bool:
        return bool(self.first or self.last)

    def __contains__(self, day: str) -> bool:
        return bool(day) and (self.first or day) <= day <= (self.last or day)

    def may_hold(self, day: str, earlier: timedelta) -> bool:
        """Whether an approximate day, which may be this much too late, can fall in the range."""
        if not day:
            return True
        guess = date.fromisoformat(day)
        latest = (guess + timedelta(days=1)).isoformat()
        earliest = (guess - earlier).isoformat()
        return (self.first or latest) <= latest and earliest <= (self.last or earliest)


def wanted_days(from_date: str, to_date: str, period: str) -> Days:
    """The days of a request; raises if they are invalid."""
    if period:
        if from_date or to_date:
            raise InvalidRequestError("give a period or two days, not both")
        return _period(period)
    days = Days(_checked(from_date), _checked(to_date))
    if days.first and days.last and days.first > days.last:
        raise InvalidRequestError("the last day is before the first")
    return days


def _period(text: str) -> Days:
    """The days of a year, a month or a day, or from one of them to another: 2025-10/2025-12."""
    begin, separator, end = text.partition("/")
    if not separator:
        return _one_period(text)
    days = Days(_one_period(begin).first, _one_period(end).last)
    if days.first > days.last:
        raise InvalidRequestError("the period ends before it begins")
    return days


def _one_period(text: str) -> Days:
    found = re.fullmatch(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?", text, re.ASCII)
    if not found:
        raise InvalidRequestError(
            "a period is a year, a month or a day, such as 2025-10, or two of them: 2025-10/2025-12"
        )
    year, month, day = found.groups()
    if day:
        return Days(_checked(text), _checked(text))
    first = _checked(f"{year}-{month or '01'}-01")
    closing = int(month or 12)
    end = calendar.monthrange(int(year), closing)[1]
    return Days(first, f"{year}-{closing:02}-{end:02}")


def _checked(day: str) -> str:
    if day:
        try:
            is_day = date.fromisoformat(day).isoformat() == day
        except ValueError:
            is_day = False
        if not is_day:
            raise InvalidRequestError("a day is written YYYY-MM-DD")
    return day
