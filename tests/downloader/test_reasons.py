"""Failures of yt-dlp become the right reason, error type and message."""

import pytest

from downloader.reasons import ERROR_TYPES, Failure, reason_for, to_error
from mesh.errors import SourceRefusedError
from mesh.reasons import Reason

EXTRACTOR = ("DownloadError", "ExtractorError")

MESSAGES = [
    ("[youtube] x: Private video. Sign in if you've been granted access", "VIDEO_PRIVATE"),
    ("[vk] x: This video is private", "VIDEO_PRIVATE"),
    ("Video unavailable, set to private", "VIDEO_PRIVATE"),
    (
        "[youtube] x: Video unavailable. This video has been removed by the uploader",
        "VIDEO_REMOVED",
    ),
    (
        "[youtube] x: This video has been removed for violating YouTube's Terms of Service",
        "VIDEO_REMOVED",
    ),
    (
        "[youtube] x: Video unavailable. This video is no longer available because the YouTube "
        "account associated with this video has been terminated.",
        "VIDEO_REMOVED",
    ),
    ("[youtube] x: Video unavailable. This video is not available", "VIDEO_NOT_FOUND"),
    ("[youtube] x: Video unavailable", "VIDEO_NOT_FOUND"),
    ("[vimeo] x: The video does not exist", "VIDEO_NOT_FOUND"),
    (
        "[youtube] x: Join this channel to get access to members-only content like this video, "
        "and other exclusive perks.",
        "MEMBERS_ONLY",
    ),
    (
        "[youtube] x: This video is available to this channel's members on level: Fan (or any "
        "higher level). Join this channel to get access to members-only content.",
        "MEMBERS_ONLY",
    ),
    ("[youtube] x: This video requires payment to watch.", "MEMBERS_ONLY"),
    ("[youtube] x: This video is only available to Music Premium members", "MEMBERS_ONLY"),
    (
        "[youtube] x: Sign in to confirm your age. This video may be inappropriate for some "
        "users. Use --cookies-from-browser or --cookies for the authentication.",
        "AGE_RESTRICTED",
    ),
    (
        "[youtube] x: This video is age-restricted and YouTube is requiring age-verification",
        "AGE_RESTRICTED",
    ),
    (
        "[youtube] x: Sign in to confirm you’re not a bot. Use --cookies-from-browser or "  # noqa: RUF001
        "--cookies for the authentication.",
        "BOT_CHECK",
    ),
    ("[youtube] x: Sign in to confirm you're not a bot", "BOT_CHECK"),
    (
        "[youtube] x: Error. YouTube is requiring a captcha challenge before playback",
        "BOT_CHECK",
    ),
    (
        "[generic] Got HTTP Error 403 caused by Cloudflare anti-bot challenge; try again with  "
        '--extractor-args "generic:impersonate"',
        "BOT_CHECK",
    ),
    (
        "[youtube] x: Video unavailable. This content isn’t available, try again later. The "  # noqa: RUF001
        "current session has been rate-limited by YouTube for up to an hour. It is recommended "
        "to use `-t sleep` to add a delay between video requests.",
        "RATE_LIMITED",
    ),
    (
        "[youtube] x: The uploader has not made this video available in your country\n"
        "You might want to use a VPN or a proxy server (with --proxy) to workaround.",
        "GEO_BLOCKED",
    ),
    (
        "[youtube] x: Video unavailable. This video contains content from SME, who has blocked it "
        "in your country on copyright grounds",
        "GEO_BLOCKED",
    ),
    (
        "[bbc] x: This video is not available from your location due to geo restriction",
        "GEO_BLOCKED",
    ),
    ("[x] x: This video is geo-restricted", "GEO_BLOCKED"),
    (
        "[youtube] x: Video unavailable. This video contains content from WMG, who has blocked it "
        "on copyright grounds",
        "VIDEO_REMOVED",
    ),
    ("[x] x: This video is DRM protected", "DRM_PROTECTED"),
    (
        "[DRM] The requested site is known to use DRM protection. It will NOT be supported.",
        "DRM_PROTECTED",
    ),
    ("[youtube] x: Premieres in 5 hours", "NOT_YET_AVAILABLE"),
    ("[youtube] x: Premiere will begin shortly", "NOT_YET_AVAILABLE"),
    ("[youtube] x: This live event will begin in 3 days.", "NOT_YET_AVAILABLE"),
    ("[x] x: This live event has not yet started", "NOT_YET_AVAILABLE"),
    ("[x] x: This live event is scheduled for 2027-01-01", "NOT_YET_AVAILABLE"),
    ("[twitch] x: The channel is not currently live", "LIVE_STREAM"),
    ("[picarto] x: Stream is offline", "LIVE_STREAM"),
    (
        "[x] x: This video is only available for registered users. Use --cookies, "
        "--cookies-from-browser, --username and --password, --netrc-cmd, or --netrc (x) to provide "
        "account credentials.",
        "LOGIN_REQUIRED",
    ),
    ("[instagram] x: Requested content is not available, login required", "LOGIN_REQUIRED"),
    ("Unsupported URL: https://example.com/login", "UNSUPPORTED_URL"),
    ("[x] x: No video formats found!; please report this issue on  https://x", "UNSUPPORTED_URL"),
    (
        "[x] x: Requested format is not available. Use --list-formats for a list of them",
        "UNSUPPORTED_URL",
    ),
    ("Did not get any data blocks", "EMPTY_MEDIA"),
    ("The downloaded file is empty", "EMPTY_MEDIA"),
    ("unable to write data: [Errno 28] No space left on device", "STORAGE_FULL"),
    ("unable to write data: [Errno 27] File too large", "TOO_LARGE"),
    (
        "[x] x: Unable to extract title; please report this issue on  https://github.com/x",
        "SITE_ERROR",
    ),
    ("[youtube] x: The page needs to be reloaded.", "SITE_ERROR"),
]


@pytest.mark.parametrize(("message", "reason"), MESSAGES)
def test_each_message_of_yt_dlp_has_its_reason(message: str, reason: str) -> None:
    assert reason_for(Failure(f"ERROR: {message}", EXTRACTOR)) == reason


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (
            Failure("unable to download video data: HTTP Error 416: x", EXTRACTOR, 416),
            "VIDEO_NOT_FOUND",
        ),
        (Failure("HTTP Error 503: Service Unavailable", EXTRACTOR, 503), "SITE_ERROR"),
        (Failure("HTTP Error 502: login", EXTRACTOR, 502), "SITE_ERROR"),
        (Failure("Got error: HTTP Error 503: x. Giving up after 2 retries"), "SITE_ERROR"),
        (Failure("Got error: 9 bytes read, 9 more expected. Giving up"), "NETWORK_ERROR"),
        (Failure("Said no", EXTRACTOR, 403), "LOGIN_REQUIRED"),
        (Failure("Not in your area", ("DownloadError", "GeoRestrictedError")), "GEO_BLOCKED"),
        (
            Failure("12 bytes read, 34 more expected", ("DownloadError", "IncompleteRead")),
            "NETWORK_ERROR",
        ),
        (
            Failure("HTTPSConnectionPool(host='login.x'): Read timed out.", ("TransportError",)),
            "NETWORK_ERROR",
        ),
        (
            Failure("Failed to resolve 'private.x' ([Errno -3]", ("TransportError",)),
            "HOST_UNREACHABLE",
        ),
        (Failure("certificate has expired", ("CertificateVerifyError",)), "SITE_ERROR"),
        (Failure("list index out of range", ("IndexError",)), "INTERNAL"),
        (Failure("video unavailable", EXTRACTOR, 500, reason="TOO_LONG"), "TOO_LONG"),
    ],
)
def test_reliable_evidence_comes_before_message_text(failure: Failure, reason: str) -> None:
    assert reason_for(failure) == reason


def test_every_reason_has_an_error_type() -> None:
    assert {reason for _, reason in MESSAGES} <= {str(reason) for reason in ERROR_TYPES}


def test_internal_errors_reveal_no_details() -> None:
    error = to_error(Failure("list index out of range at /srv/x.py", ("IndexError",)))

    assert str(error) == "the download failed inside the service"


def test_permanent_reasons_are_not_retryable() -> None:
    for reason in ("VIDEO_PRIVATE", "BOT_CHECK", "ADDRESS_FORBIDDEN", "LIVE_STREAM"):
        assert not to_error(Failure("x", reason=reason)).retryable
    for reason in ("RATE_LIMITED", "HOST_UNREACHABLE", "NETWORK_ERROR", "SITE_ERROR"):
        assert to_error(Failure("x", reason=reason)).retryable


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (
            "\x1b[0;31mERROR:\x1b[0m [youtube] abc: Sign in to confirm you're not a bot. Use "
            "--cookies-from-browser or --cookies for the authentication. See  https://x  for how",
            "Sign in to confirm you're not a bot.",
        ),
        (
            "ERROR: [generic] a: Unable to download webpage: HTTP Error 404: Not Found "
            "(caused by <HTTPError 404: Not Found>)",
            "Unable to download webpage: HTTP Error 404: Not Found",
        ),
        ("Unable to extract x; please report this issue on  https://x , y", "Unable to extract x"),
        ("", "the source could not be fetched"),
    ],
)
def test_callers_see_one_clean_sentence(raw: str, shown: str) -> None:
    error = to_error(Failure(raw, reason=Reason.BOT_CHECK))

    assert isinstance(error, SourceRefusedError)
    assert str(error) == shown
