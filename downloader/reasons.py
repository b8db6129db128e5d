"""From what yt-dlp says to what we say: the one table that decides who may retry."""

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
    """How a download ended badly, as the child tells it."""

    message: str
    """The words of yt-dlp, or ours if we gave up ourselves."""

    kinds: tuple[str, ...] = ()
    """Class names of the exception and of all it was caused by, outermost first."""

    status: int | None = None
    """HTTP status the site answered with, if that was the trouble."""

    verdict: str = ""
    """The reason, if the child knew it by itself."""

    retry_after: float | None = None
    """Seconds the site asked us to wait."""


KINDS: dict[Reason, type[MeshError]] = {
    Reason.UNSUPPORTED_URL: InvalidRequestError,
    Reason.ADDRESS_FORBIDDEN: SourceRefusedError,
    Reason.HOST_UNREACHABLE: UnavailableError,
    Reason.NETWORK_ERROR: UnavailableError,
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
"""Every reason this service gives, and the error it travels in."""

# The first that matches wins, so the narrow come before the wide. Apostrophes may be curly.
SAYINGS: tuple[tuple[str, Reason], ...] = (
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
        # The last is what yt-dlp adds when it no longer understands a site.
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

# Said whatever the site is, and never in a site's own words: these come before SAYINGS.
FIXED: tuple[tuple[str, Reason], ...] = (
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

STATUSES = {
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

CLASSES = {
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
    inside = reason is Reason.INTERNAL  # words of our own code help nobody outside
    message = "the download failed inside the service" if inside else _for_people(failure.message)
    wait = failure.retry_after if reason is Reason.RATE_LIMITED else None
    return KINDS[reason](message, reason=reason, retry_after_seconds=wait)


def reason_for(failure: Failure) -> Reason:
    """Reads the surest sign first; a site's own words, which hold any word at all, come late."""
    if failure.verdict:
        return Reason(failure.verdict)
    return (
        next((CLASSES[kind] for kind in failure.kinds if kind in CLASSES), None)
        or _said(FIXED, failure.message)
        or _answered(_status_in(failure.message))
        or (NETWORK_CLASSES.intersection(failure.kinds) and Reason.NETWORK_ERROR)
        or _said(SAYINGS, failure.message)
        or _answered(failure.status)
        or (SITE_CLASSES.intersection(failure.kinds) and Reason.SITE_ERROR)
        or Reason.INTERNAL
    )


def _said(sayings: tuple[tuple[str, Reason], ...], message: str) -> Reason | None:
    for pattern, reason in sayings:
        if re.search(pattern, message, re.IGNORECASE):
            return reason
    return None


def _status_in(message: str) -> int | None:
    """yt-dlp forgets the exception when it gives up retrying, but not its text."""
    found = re.search(r"HTTP Error (\d{3})\b", message)
    return int(found[1]) if found else None


def _answered(status: int | None) -> Reason | None:
    if status is None or status < 400:
        return None
    if status >= 500:
        return Reason.SITE_ERROR
    # Some other 4xx: asking again will not help.
    return STATUSES.get(status, Reason.VIDEO_NOT_FOUND)


NOISE = (
    r"\x1b\[[0-9;]*m",  # colours
    r"^\s*ERROR:\s*",
    r"^\[[\w:]+\] ([^\s:]+: )?",  # extractor and identifier
    r"\s*\(caused by .*\)",
    r";? *please report this issue on .*",
    r"[^.\n]* --[a-z].*",  # advice about options our caller does not have
    r"\s*You might want to use a VPN .*",
)


def _for_people(message: str) -> str:
    """One clean line: no colours, no class names, no advice for the command line."""
    for pattern in NOISE:
        message = re.sub(pattern, "", message, flags=re.DOTALL)
    line = " ".join(message.split())
    return line[:MAX_MESSAGE] or "the source could not be fetched"
