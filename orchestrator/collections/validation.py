"""Validates requests for collections, and refuses those that can never succeed."""

from collections.abc import Iterable

from mesh.errors import InvalidRequestError
from mesh.messages import copy_shared
from mesh.period import wanted_days
from mesh.searches import is_search
from orchestrator.jobs.validation import (
    check_duration,
    check_scheduling,
    check_url,
    check_word,
    resolve,
)
from orchestrator.settings import Settings
from orchestrator.webhooks.addresses import check_webhook
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1 import event_pb2

MAX_SOURCES = 20
MAX_IN_FLIGHT = 1000
MAX_TITLE = 200
MAX_DAYS = 30
"""Retention removes event logs after this."""
MAX_ADDRESS_BYTES = 8 * 1024
MAX_BYTES = 512 * 1024
"""All addresses together: they are one message of the event log."""


def checked(request: pb.CreateCollectionRequest, settings: Settings) -> event_pb2.StartCollection:
    """The first event of the collection's log: the request with every default filled in."""
    scheduling = check_scheduling(request)
    sources = [_check_source(source) for source in _distinct(request.sources, "sources")]
    addresses = _distinct(request.addresses, "addresses")
    _check_amount(request, sources, addresses, settings)
    _check_days(request)
    check_word(request.request_id, "request_id")
    start = event_pb2.StartCollection()
    copy_shared(request, start)
    start.sources[:] = sources
    start.addresses[:] = addresses
    start.options.CopyFrom(resolve(request.options))
    start.max_in_flight = request.max_in_flight or settings.max_in_flight
    start.title = _check_title(request.title)
    start.webhook_url = check_webhook(request.webhook_url, settings)
    start.caller, start.priority = scheduling.caller, scheduling.priority
    if request.HasField("timeout"):
        _check_timeout(request)
    return start


def _distinct(given: Iterable[str], field: str) -> list[str]:
    """The stripped values without duplicates, in their order."""
    found = list(dict.fromkeys(one.strip() for one in given))
    if "" in found:
        raise InvalidRequestError(f"one of {field} is empty")
    if any(len(one.encode()) > MAX_ADDRESS_BYTES for one in found):
        raise InvalidRequestError(f"one of {field} has more than {MAX_ADDRESS_BYTES} bytes")
    return found


def _check_source(source: str) -> str:
    """Checks the form alone; whether the source exists, only the downloader knows."""
    return source if is_search(source) else check_url(source)


def _check_amount(
    request: pb.CreateCollectionRequest,
    sources: list[str],
    addresses: list[str],
    settings: Settings,
) -> None:
    if not sources and not addresses:
        raise InvalidRequestError("nothing to collect: name sources or addresses")
    if len(sources) > MAX_SOURCES:
        raise InvalidRequestError(f"at most {MAX_SOURCES} sources")
    if not 0 <= request.max_in_flight <= MAX_IN_FLIGHT:
        raise InvalidRequestError(
            f"max_in_flight must be 1 to {MAX_IN_FLIGHT}, or 0 for the default"
        )
    if not 0 <= request.max_members <= settings.max_members:
        raise InvalidRequestError(f"max_members must be 1 to {settings.max_members}, or 0 for that")
    most = request.max_members or settings.max_members
    if len(addresses) > most:
        raise InvalidRequestError(f"{len(addresses)} addresses, but at most {most} members")
    if sum(len(one.encode()) for one in (*sources, *addresses)) > MAX_BYTES:
        raise InvalidRequestError(f"the addresses have more than {MAX_BYTES} bytes together")


def _check_days(request: pb.CreateCollectionRequest) -> None:
    days = wanted_days(request.from_date, request.to_date, request.period)
    if days and not request.sources:
        raise InvalidRequestError(
            "from_date, to_date and period need sources: they select what these list"
        )


def _check_timeout(request: pb.CreateCollectionRequest) -> None:
    seconds = check_duration(request.timeout, "timeout").total_seconds()
    if not 0 < seconds <= MAX_DAYS * 86_400:
        raise InvalidRequestError(f"timeout must be above 0 and at most {MAX_DAYS} days")


def _check_title(title: str) -> str:
    title = title.strip()
    if len(title) > MAX_TITLE or not title.isprintable():
        raise InvalidRequestError(f"title must be at most {MAX_TITLE} printable characters")
    return title
