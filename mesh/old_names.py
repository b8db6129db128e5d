"""Environment variables of the earlier system: which of them mean something, and where."""

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

MEANINGLESS = {
    "REDIS_URL": "there is no Redis; the store is NATS (ORCHESTRATOR_NATS_URL)",
    "POLL_INTERVAL": "nothing is polled; services push events",
    "MAX_POLL_ATTEMPTS": "nothing is polled; ORCHESTRATOR_JOB_SECONDS limits an attempt",
}
"""Variables that change nothing here, and why."""
MAPPED: Mapping[str, str] = {
    "HOST": "GATEWAY_LISTEN",
    "PORT": "GATEWAY_LISTEN",
    "WORKERS": "ORCHESTRATOR_CONCURRENCY",
    "HTTP_MAX_RETRIES": "ORCHESTRATOR_MAX_ATTEMPTS",
    "RETRY_BACKOFF_BASE_SECONDS": "ORCHESTRATOR_RETRY_SECONDS",
    "CACHE_TTL_HOURS": "ORCHESTRATOR_CACHE_HOURS",
    "JOB_TIMEOUT_MINUTES": "ORCHESTRATOR_JOB_SECONDS",
    "VIDEO_DOWNLOADER_URL": "ORCHESTRATOR_DOWNLOADER",
    "AUDIO_NORMALIZATION_URL": "ORCHESTRATOR_NORMALIZER",
    "AUDIO_TRANSCRIBER_URL": "ORCHESTRATOR_TRANSCRIBER",
    "VIDEO_DOWNLOADER_TIMEOUT": "ORCHESTRATOR_DOWNLOAD_STALL_SECONDS",
    "AUDIO_NORMALIZATION_TIMEOUT": "ORCHESTRATOR_NORMALIZATION_STALL_SECONDS",
    "AUDIO_TRANSCRIBER_TIMEOUT": "ORCHESTRATOR_TRANSCRIPTION_STALL_SECONDS",
    "DEFAULT_LANGUAGE": "GATEWAY_DEFAULT_LANGUAGE",
    "DEFAULT_REMOVE_NOISE": "GATEWAY_DEFAULT_REMOVE_NOISE",
    "DEFAULT_CONVERT_MONO": "GATEWAY_DEFAULT_CONVERT_TO_MONO",
    "DEFAULT_SAMPLE_RATE_16K": "GATEWAY_DEFAULT_SET_SAMPLE_RATE_16K",
}
"""Variables that count where ours is not set."""


def meaningless(environ: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """The variables that are set and change nothing, with the reason of each."""
    return [(name, why) for name, why in MEANINGLESS.items() if environ.get(name)]


def overridden(environ: Mapping[str, str], ours: Iterable[str]) -> list[tuple[str, str]]:
    """The variables that are set and lose to ours, which has another source."""
    chosen = set(ours)
    return [(old, new) for old, new in MAPPED.items() if environ.get(old) and new in chosen]


SERVICE_URLS = {
    "VIDEO_DOWNLOADER_URL": ("downloader", 50052),
    "AUDIO_NORMALIZATION_URL": ("normalizer", 50053),
    "AUDIO_TRANSCRIBER_URL": ("transcriber", 50054),
}
"""The stage behind each URL, and the port it listens on unless the URL has another."""


def stage_addresses(environ: Mapping[str, str]) -> dict[str, str]:
    """The addresses of the stages by the URLs that are set."""
    return {
        name: _replica_of(environ[old], port)
        for old, (name, port) in SERVICE_URLS.items()
        if environ.get(old)
    }


def _replica_of(url: str, port: int) -> str:
    """Text that is no URL is returned as it is, for validation to refuse."""
    parts = urlsplit(url if "//" in url else f"//{url}")
    try:
        host, given = parts.hostname, parts.port
    except ValueError:
        return url
    if not host:
        return url
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{given or port}"


def attempts_of(retries: str) -> str:
    """The number of attempts: the earlier system tried as often as it named retries, once at
    least.
    """
    try:
        return str(max(1, int(retries)))
    except ValueError:
        return retries
