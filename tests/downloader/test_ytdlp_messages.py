"""Error messages of the installed yt-dlp, and the reason for each."""

import pytest

from downloader.reasons import Failure, reason_for
from tests.downloader.ytdlp_messages import COOKIES_HINT, error_messages

REAL: dict[str, list[str]] = {
    "VIDEO_PRIVATE": [
        "Model is in a private show",
        "Model is in private show.",
        "Private subreddit; an account that has been approved is required",
        "Private video. Login if you have permissions to watch",
        "This VOD is private",
        "This user's account is private. Log into an account that has access",
        "Youku said: Sorry, this video is private",
    ],
    "VIDEO_REMOVED": [
        "Broadcast no longer exists",
        "Content not found: expired?",
        "Expired or no episode on this date",
        "Livestream has ended and downloadable VOD is not available",
        "Livestream has ended.",
        "Stream not found; it has most likely expired",
        "The link is expired",
        "The video is no longer available",
        "This content is no longer available",
        "This live has ended.",
        "This livestream has ended",
        "This stream has expired",
        "This video is no longer available",
        "Twitter Space ended and replay is disabled",
        "Video X is no longer available",
        "Video was deleted",
    ],
    "VIDEO_NOT_FOUND": [
        "Channel not found",
        "No such audition",
        "The requested video is not archived or indexed",
        "This content is currently unavailable",
        "This video does not exist",
        "Track not found",
        "Video X does not exist",
        "Video not available, status code X",
        "X said: Clip not available",
    ],
    "GEO_BLOCKED": [
        "No media links found; possibly due to geo restriction",
        "This content might not be available in your country due to copyright reasons",
        "This song is blocked in this region",
        "This video is available in Taiwan only",
        "This video is not available due to geoblocking",
        "This video is only available in Sweden",
        "Track unavailable in your country due to licensing restrictions",
        "X said: The video is only licensed to users in Mainland China.",
        "X said: This page is currently unavailable in your region",
        "X: No songs found, try using proxy",
        "Youku said: Sorry, this video is available in China only",
    ],
    "AGE_RESTRICTED": [
        "Adult verification is required for this stream",
        "Login is required to access age-restricted content",
        "NSFW tweet requires authentication",
        "Only users older than 19 are able to watch this video",
        "Sensitive content setting must be enabled",
        "This video is only available for age verified users or after 22:00",
        "Unverified account cannot access NSFW/NSFL (X)",
    ],
    "MEMBERS_ONLY": [
        "Coin purchase is required for this stream",
        "Premium videos cannot be downloaded yet.",
        "This VOD is for subscribers only",
        "This account is not subscribed to this content",
        "This content is only available for subscribers",
        "This is a supporter-only video: X",
        "This post requires a subscription",
        "This video is for premium members only",
        "This video is only available for registered users with the appropriate subscription",
        "This video is only available for subscribers.",
        "This video is paid, subscribe to download it",
        "This video/podcast is for members only",
        "Video requires CDA Premium - subscription needed",
        "X is only available for FIRST members",
        "You do not have access to this class",
        "You need to purchase the course to download this episode",
    ],
    "LOGIN_REQUIRED": [
        "Access to stream infos forbidden",
        "Cannot refresh access token, login with yt-dlp or refresh cookies in browser",
        "Fresh cookies (not necessarily logged in) are needed",
        "Login failed",
        "Login failed: X",
        "Login required. X",
        "Redirection detected; the video may be deleted or require login",
        "This content is only available for registered users who follow this account",
        "This video is locked",
        "This video is protected by a passcode, use the --video-password option",
        "Unable to log in: The provided email has not registered yet.",
        "Unable to login, incorrect username and/or password",
        "Unable to login: X said: X",
        "We're sorry, but either the User ID or Password entered is not correct.",
        "You do not have permission to view this post. Log into an account that has access",
        "Your login region is unspecified or incorrect. X",
    ],
    "BOT_CHECK": [
        "All player responses are invalid. Your IP is likely being blocked by Youtube",
        "Request is rejected by server (352)",
        "X asks you to solve a CAPTCHA. Solve CAPTCHA in browser and",
        "You are suspected as a bot. Wait, or pass the captcha on the site and provide cookies. X",
        "Your IP address is blocked from accessing this post",
        "Your IP address is unable to access the Reddit API",
    ],
    "RATE_LIMITED": [
        "Request is blocked by server (401), please wait and try later.",
        "Request is blocked by server (412), please wait and try later.",
        "You are rate-limited. Try again later.",
        "You have exceeded the rate limit. Try again later",
        "You have reached your play limit for this track",
    ],
    "DRM_PROTECTED": [
        "This video is DRM protected",
        "This video is either unavailable in your region or is DRM protected",
    ],
    "LIVE_STREAM": [
        "Cannot find on-air X channel.",
        "Couldn't find video metadata, maybe this livestream is now offline",
        "Livestream is not available",
        "Model is offline.",
        "No active streams found",
        "Stream is offline",
        "Stream is offline.",
        "Stream is offline; scheduled for X",
        "Streamer is not live",
        "This radio is offline.",
        "This stream is not live",
        "User is offline",
        "Video is offline",
    ],
    "NOT_YET_AVAILABLE": [
        "Could not find the playlist URL. This live event will begin at X JST",
        "Live event has not yet started",
        "Livestream has not yet started",
        "Next livestream is scheduled to start at X",
        "The video will be available after X",
        "This course episode is not yet available.",
        "This event has ended, and the archive will be available shortly",
        "This live broadcast has not yet started",
        "This live event is scheduled for X",
        "This live event will begin at X JST",
        "This livestream is scheduled to start at X",
        "This program is scheduled to start at X JST",
        "This video is currently unavailable. It may still be uploading or processing.",
        "This video is only available after 20:00",
        "This video is processing",
        "Twitter Space ended but not downloadable yet",
    ],
    "NO_AUDIO": [
        "The URL does not contain audio.",
    ],
    "UNSUPPORTED_URL": [
        "Incomplete YouTube ID X. URL X looks truncated.",
        "No formats are available",
        "No media links available for X",
        "No valid video URL found",
        "No video could be found in this tweet",
        "No video metadata found in webpage",
        "No videos found",
        "Requested format is not available. Use --list-formats for a list of available formats",
        "The relinker returned no media url",
        "There is no video.",
        "This article does not have a video.",
        "VR SQUARE app-only videos are not supported",
        "X is not a valid URL",
        "no video on the webpage",
    ],
    "SITE_ERROR": [
        "A network error has occurred.",
        "An error occurred while receiving data. Try again",
        "Incomplete data received",
        "Service temporarily unavailable",
        "There is an error on server-side. Try again later.",
    ],
}


CASES = [(template, reason) for reason, templates in REAL.items() for template in templates]


@pytest.mark.parametrize(("template", "reason"), CASES)
def test_a_message_of_yt_dlp_has_its_reason(template: str, reason: str) -> None:
    raiser = error_messages()[template]  # fails if yt-dlp no longer has this message
    message = f"ERROR: [site] abc: {template}"
    if raiser == "raise_login_required":
        message += f". {COOKIES_HINT}"
    special = "GeoRestrictedError" if raiser == "raise_geo_restricted" else "ExtractorError"

    assert reason_for(Failure(message, ("DownloadError", special))) == reason


def test_a_page_yt_dlp_cannot_parse_is_a_retryable_site_error() -> None:
    message = (
        "ERROR: [site] abc: Video data not found in the page; please report this issue on  "
        "https://github.com/yt-dlp/yt-dlp/issues?q= , filling out the appropriate issue template."
    )

    assert reason_for(Failure(message, ("DownloadError", "ExtractorError"))) == "SITE_ERROR"
