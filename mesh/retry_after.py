"""The one parser of the HTTP Retry-After header: a number of seconds, or an HTTP date."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_SECONDS = 86_400.0
"""No server makes us wait longer than a day."""

MAX_LENGTH = 100
_SECONDS = re.compile(r"[+-]?\d+(\.\d*)?", re.ASCII)


def retry_after_seconds(header: str | None) -> float | None:
    """Seconds to wait, from 0 to MAX_SECONDS; None if the header is absent or unreadable.

    The header is untrusted text: it never raises. A negative number or a past date means 0.
    """
    text = (header or "").strip()[:MAX_LENGTH]
    if _SECONDS.fullmatch(text):
        seconds = float(text)
    else:
        try:
            moment = parsedate_to_datetime(text)
            # A date without a zone is in UTC, as RFC 9110 has it.
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            seconds = (moment - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    return min(max(seconds, 0.0), MAX_SECONDS)
