"""Maps yt-dlp's failures to reasons and error types; the reason decides whether to retry."""

import re
from dataclasses import dataclass

from mesh.errors import (
    InvalidRequestError,
    LimitExceededError,
    MeshError,
    SourceRefusedError,
    UnavailableError,
    UnsupportedError,
    UnusableMediaError,
)
from mesh.reasons import Reason

MAX_MESSAGE = 400


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed task, as the child reports it."""

    message: str
    """yt-dlp's message, or ours if our own code refused."""

    exceptions: tuple[str, ...] = ()
    """Class names of the exception and of its causes, outermost first."""

    status: int | None = None
    """HTTP status of the site's answer, if that was the cause."""

    reason: str = ""
    """The reason, if the child already determined it."""

    retry_after: float | None = None
    """Seconds the site asked us to wait."""


ERROR_TYPES: dict[Reason, type[MeshError]] = {
    Reason.UNSUPPORTED_URL: InvalidRequestError,
    Reason.ADDRESS_FORBIDDEN: SourceRefusedError,
    Reason.HOST_UNREACHABLE: UnavailableError,
    Reason.NETWORK_ERROR: UnavailableError,
    Reason.SOURCE_TOO_SLOW: UnavailableError,
    Reason.VIDEO_NOT_FOUND: SourceRefusedError,
    Reason.VIDEO_PRIVATE: SourceRefusedError,
    Reason.VIDEO_REMOVED: SourceRefusedError,
    Reason.MEMBERS_ONLY: SourceRefusedError,
    Reason.AGE_RESTRICTED: SourceRefusedError,
    Reason.LOGIN_REQUIRED: SourceRefusedError,
    Reason.GEO_BLOCKED: SourceRefusedError,
    Reason.BOT_CHECK: SourceRefusedError,
    Reason.COOKIES_INVALID: SourceRefusedError,
    Reason.RATE_LIMITED: UnavailableError,
    Reason.SITE_ERROR: UnavailableError,
    Reason.DRM_PROTECTED: SourceRefusedError,
    Reason.LIVE_STREAM: SourceRefusedError,
    Reason.NOT_YET_AVAILABLE: SourceRefusedError,
    Reason.NO_AUDIO: UnusableMediaError,
    Reason.EMPTY_MEDIA: UnusableMediaError,
    Reason.CORRUPT_MEDIA: UnusableMediaError,
    Reason.TOO_LONG: LimitExceededError,
    Reason.TOO_LARGE: LimitExceededError,
    Reason.TOOL_MISSING: UnsupportedError,
    Reason.STORAGE_FULL: LimitExceededError,
    Reason.INTERNAL: UnavailableError,
}
"""Every reason this service gives, and its error type."""

# The first match wins, so narrow patterns come before wide ones. Apostrophes may be curly.
MESSAGE_PATTERNS: tuple[tuple[str, Reason], ...] = (
    (r"No space left on device|Disk quota exceeded", Reason.STORAGE_FULL),
    (r"Errno 27\b|File too large", Reason.TOO_LARGE),
    (r"Did not get any data blocks|downloaded file is empty", Reason.EMPTY_MEDIA),
    (
        r"rate.?limit|too many requests|reached your play limit"
        r"|blocked by server .*please wait and try later",
        Reason.RATE_LIMITED,
    ),
    (
        r"confirm you.re not a bot|captcha|unusual traffic|are you a robot|suspected as a bot"
        r"|TLS fingerprint|Your IP (address )?is (likely being blocked|blocked|unable)"
        r"|rejected by server|requests automated",
        Reason.BOT_CHECK,
    ),
    (r"\bDRM\b", Reason.DRM_PROTECTED),
    (
        r"confirm your age|age.?(restricted|limit|verif|gate)|inappropriate for some users"
        r"|only available to adults|adult verification|older than \d|sensitive content|NSFW",
        Reason.AGE_RESTRICTED,
    ),
    (
        r"members.?only|for (\w+ )?members|channel.s members|premium|supporter-only"
        r"|requires? (a |active )?(payment|subscription)|not subscribed|\bsubscri(be|bers|ption)\b"
        r"|only available (to|for) (paying|paid)|purchase|is not free|VIP accounts?\b|is paid\b"
        r"|TV providers?|not have (access|tickets)",
        Reason.MEMBERS_ONLY,
    ),
    (
        r"private (video|show|subreddit|track)|(is|set to|marked as) (set to )?private",
        Reason.VIDEO_PRIVATE,
    ),
    (
        r"geo.?(restrict|block)|(in|from) (your|this) (country|region|location)|VPN or a proxy"
        r"|available in \w+ only|by decision of the|try using proxy",
        Reason.GEO_BLOCKED,
    ),
    (
        r"Premieres? (in|will)|will (begin|start|premiere|be available)|not (yet )?started( yet)?"
        r"|is scheduled (for|to)|is upcoming|not yet available|available yet|downloadable yet"
        r"|is processing|uploading or processing|only available after",
        Reason.NOT_YET_AVAILABLE,
    ),
    (
        r"is offline|not (currently )?live\b|live ?streams? (is|are) not|no active streams"
        r"|auto-playing VODs|on-air .*channel|livestream is now offline",
        Reason.LIVE_STREAM,
    ),
    (r"tokens?\b.* (invalid|expired)|expired token", Reason.LOGIN_REQUIRED),
    (
        r"been (removed|deleted|terminated|taken down)|(removed|deleted) by|copyright"
        r"|no longer (available|exists)|was (removed|deleted)|(has|was|Space) ended|expired",
        Reason.VIDEO_REMOVED,
    ),
    (
        r"registered users|sign in|log ?in|logged.in|--cookies|authenticat|requires? an account"
        r"|account (credentials|is needed|that has)|password|passcode|(video|contents|is) locked"
        r"|not authorized|authorization lost|username|forbidden|to access this video",
        Reason.LOGIN_REQUIRED,
    ),
    (
        # yt-dlp adds the last one when a site's pages have changed.
        r"temporarily unavailable|server-side|network error|receiving data|please report this",
        Reason.SITE_ERROR,
    ),
    (r"not contain audio|no audio\b", Reason.NO_AUDIO),
    (
        r"not a (video|file)|no (valid )?(videos?|media|formats?|supported|downloads)\b"
        r"|(not|n.t) (contain|have) (a|any) videos?|find any video|not supported|unsupported"
        r"|invalid URL|looks truncated|blob URL|plain image|primarily used for piracy|PhantomJS"
        r"|embed-only|only extracted from the webpage",
        Reason.UNSUPPORTED_URL,
    ),
    (
        r"unavailable|(not|n.t) available|(not|n.t) exist|not found|no such|\bexists$|inaccessible"
        r"|unplayable|not archived|not have any|can.t be accessed",
        Reason.VIDEO_NOT_FOUND,
    ),
)

# Messages of yt-dlp itself, never quoted from a site: matched before MESSAGE_PATTERNS.
FIXED_PATTERNS: tuple[tuple[str, Reason], ...] = (
    (
        r"Unsupported URL|is not a valid URL|No video formats found"
        r"|Requested format is not available",
        Reason.UNSUPPORTED_URL,
    ),
    (r"anti-bot challenge", Reason.BOT_CHECK),
    (
        r"Failed to resolve|Name or service not known|nodename nor servname|No address associated"
        r"|name resolution|Connection refused|No route to host|(Network|Host) is unreachable"
        r"|connect timeout|Unable to connect to proxy",
        Reason.HOST_UNREACHABLE,
    ),
    (
        r"bytes read, |timed out|Connection (reset|aborted|broken)|Remote end closed|EOF occurred",
        Reason.NETWORK_ERROR,
    ),
)

REASON_BY_STATUS = {
    401: Reason.LOGIN_REQUIRED,
    402: Reason.MEMBERS_ONLY,
    403: Reason.LOGIN_REQUIRED,
    404: Reason.VIDEO_NOT_FOUND,
    407: Reason.HOST_UNREACHABLE,
    408: Reason.SITE_ERROR,
    410: Reason.VIDEO_REMOVED,
    425: Reason.SITE_ERROR,
    429: Reason.RATE_LIMITED,
    451: Reason.GEO_BLOCKED,
}

REASON_BY_CLASS = {
    "GeoRestrictedError": Reason.GEO_BLOCKED,
    "UnsupportedError": Reason.UNSUPPORTED_URL,
    "ContentTooShortError": Reason.NETWORK_ERROR,
    "IncompleteRead": Reason.NETWORK_ERROR,
    "CertificateVerifyError": Reason.SITE_ERROR,
}

NETWORK_CLASSES = frozenset(
    {"TransportError", "SSLError", "ProxyError", "ConnectionResetError", "TimeoutError"}
)
SITE_CLASSES = frozenset({"ExtractorError", "DownloadError"})


def to_error(failure: Failure) -> MeshError:
    """The error a caller sees."""
    reason = reason_for(failure)
    # Messages of our own exceptions stay internal.
    internal = reason is Reason.INTERNAL
    message = "the download failed inside the service" if internal else _readable(failure.message)
    wait = failure.retry_after if reason is Reason.RATE_LIMITED else None
    return ERROR_TYPES[reason](message, reason=reason, retry_after_seconds=wait)


def reason_for(failure: Failure) -> Reason:
    """The most reliable evidence decides; free text from the site, which may say anything, last."""
    if failure.reason:
        return Reason(failure.reason)
    by_class = (REASON_BY_CLASS[each] for each in failure.exceptions if each in REASON_BY_CLASS)
    return (
        next(by_class, None)
        or _matching(FIXED_PATTERNS, failure.message)
        or _for_status(_status_in(failure.message))
        or (NETWORK_CLASSES.intersection(failure.exceptions) and Reason.NETWORK_ERROR)
        or _matching(MESSAGE_PATTERNS, failure.message)
        or _for_status(failure.status)
        or (SITE_CLASSES.intersection(failure.exceptions) and Reason.SITE_ERROR)
        or Reason.INTERNAL
    )


def _matching(patterns: tuple[tuple[str, Reason], ...], message: str) -> Reason | None:
    for pattern, reason in patterns:
        if re.search(pattern, message, re.IGNORECASE):
            return reason
    return None


def _status_in(message: str) -> int | None:
    """yt-dlp drops the exception when it gives up retrying, but keeps its text."""
    found = re.search(r"HTTP Error (\d{3})\b", message)
    return int(found[1]) if found else None


def _for_status(status: int | None) -> Reason | None:
    if status is None or status < 400:
        return None
    if status >= 500:
        return Reason.SITE_ERROR
    # Any other 4xx: a retry would not help.
    return REASON_BY_STATUS.get(status, Reason.VIDEO_NOT_FOUND)


NOISE = (
    r"\x1b\[[0-9;]*m",  # colours
    r"^\s*ERROR:\s*",
    r"^\[[\w:]+\] ([^\s:]+: )?",  # extractor and media id
    r"\s*\(caused by .*\)",
    r";? *please report this issue on .*",
    r"[^.\n]* --[a-z].*",  # hints at command-line options callers do not have
    r"\s*You might want to use a VPN .*",
)


def _readable(message: str) -> str:
    """One clean line: no colours, no class names, no command-line hints."""
    for pattern in NOISE:
        message = re.sub(pattern, "", message, flags=re.DOTALL)
    line = " ".join(message.split())
    return line[:MAX_MESSAGE] or "the source could not be fetched"
