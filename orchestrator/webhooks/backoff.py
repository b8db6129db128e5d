"""When a webhook that nobody took is sent again."""

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_SECONDS = 86_400.0
"""However long a receiver asks us to wait."""
JITTER = 0.2
MAX_WAITS = 50


def waits(text: str) -> tuple[float, ...]:
    """The seconds a setting lists; ValueError if it is no such list."""
    found = tuple(float(word) for word in text.split(",")) if text.strip() else ()
    if len(found) > MAX_WAITS or not all(0 < wait <= LONGEST_SECONDS for wait in found):
        raise ValueError(f"at most {MAX_WAITS} waits of more than 0 and at most a day each")
    return found


class Backoff:
    """The schedule: each wait a little longer by chance, so that many do not come at once."""

    def __init__(self, schedule: tuple[float, ...]) -> None:
        self._schedule = schedule

    def after(self, failures: int, asked: float = 0) -> float | None:
        """Seconds until the next attempt, no fewer than the receiver asked for; None: no more."""
        if failures > len(self._schedule):
            return None
        wait = self._schedule[failures - 1]
        wait *= 1 + random.uniform(0, JITTER)  # noqa: S311 # spreads, hides nothing
        return max(wait, min(asked, LONGEST_SECONDS))


def retry_after(value: str) -> float:
    """The seconds a Retry-After header asks for; 0 if it is none we can read."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:10])
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):  # a stranger's text
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
