"""What callers may ask a collection to be; what can never be is refused at the door."""

from collections.abc import Iterable

from google.protobuf.duration import to_timedelta

from mesh.errors import InvalidRequestError, MeshError
from mesh.period import wanted_days
from mesh.reasons import Reason
from mesh.searches import is_search
from orchestrator.options import check_turn, check_url, check_word, resolve
from orchestrator.settings import Settings
from orchestrator.webhooks.addresses import check_webhook
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1 import event_pb2

MAX_SOURCES = 20
MAX_IN_FLIGHT = 1000
MAX_TITLE = 200
MAX_DAYS = 30
"""As long as stories are kept."""
MAX_ADDRESS_BYTES = 8 * 1024
MAX_BYTES = 512 * 1024
"""All addresses together: they are one message of the story."""


def checked(request: pb.CreateCollectionRequest, settings: Settings) -> event_pb2.StartCollection:
    """The request with every default filled in, as its story begins with it."""
    turn = check_turn(request)
    sources = [_check_source(source) for source in _distinct(request.sources, "sources")]
    addresses = _distinct(request.addresses, "addresses")
    _check_amount(request, sources, addresses, settings)
    _check_days(request)
    check_word(request.request_id, "request_id")
    start = event_pb2.StartCollection(
        sources=sources,
        options=resolve(request.options),
        addresses=addresses,
        max_in_flight=request.max_in_flight or settings.max_in_flight,
        from_date=request.from_date,
        to_date=request.to_date,
        period=request.period,
        max_members=request.max_members,
        title=_check_title(request.title),
        webhook_url=check_webhook(request.webhook_url, settings),
        request_id=request.request_id,
        caller=turn.caller,
        priority=turn.priority,
        force=request.force,
    )
    if request.HasField("timeout"):
        _check_timeout(request)
        start.timeout.CopyFrom(request.timeout)
    return start


def _distinct(given: Iterable[str], field: str) -> list[str]:
    """The same one again is the same one."""
    found = list(dict.fromkeys(one.strip() for one in given))
    if "" in found:
        raise _invalid(f"one of {field} is empty")
    if any(len(one.encode()) > MAX_ADDRESS_BYTES for one in found):
        raise _invalid(f"one of {field} has more than {MAX_ADDRESS_BYTES} bytes")
    return found


def _check_source(source: str) -> str:
    """Whether there is anything behind it, only the downloader can say."""
    return source if is_search(source) else check_url(source)


def _check_amount(
    request: pb.CreateCollectionRequest,
    sources: list[str],
    addresses: list[str],
    settings: Settings,
) -> None:
    if not sources and not addresses:
        raise _invalid("nothing to collect: name sources or addresses")
    if len(sources) > MAX_SOURCES:
        raise _invalid(f"at most {MAX_SOURCES} sources")
    if not 0 <= request.max_in_flight <= MAX_IN_FLIGHT:
        raise _invalid(f"max_in_flight must be 1 to {MAX_IN_FLIGHT}, or 0 for the usual")
    if not 0 <= request.max_members <= settings.max_members:
        raise _invalid(f"max_members must be 1 to {settings.max_members}, or 0 for that")
    most = request.max_members or settings.max_members
    if len(addresses) > most:
        raise _invalid(f"{len(addresses)} addresses, but at most {most} members")
    if sum(len(one.encode()) for one in (*sources, *addresses)) > MAX_BYTES:
        raise _invalid(f"the addresses have more than {MAX_BYTES} bytes together")


def _check_days(request: pb.CreateCollectionRequest) -> None:
    days = wanted_days(request.from_date, request.to_date, request.period)
    if days and not request.sources:
        raise _invalid("days of publication choose among what sources list; there are none")


def _check_timeout(request: pb.CreateCollectionRequest) -> None:
    try:
        seconds = to_timedelta(request.timeout).total_seconds()
    except (OverflowError, ValueError) as error:
        raise _invalid("timeout is no duration") from error
    if not 0 < seconds <= MAX_DAYS * 86_400:
        raise _invalid(f"timeout must be more than nothing and at most {MAX_DAYS} days")


def _check_title(title: str) -> str:
    title = title.strip()
    if len(title) > MAX_TITLE or not title.isprintable():
        raise _invalid(f"title must be at most {MAX_TITLE} printable characters")
    return title


def refusal(address: str) -> MeshError | None:
    """Why an address can never be a job; None if it may be one."""
    try:
        check_url(address)
    except InvalidRequestError as error:
        return error
    return None


def _invalid(why: str) -> InvalidRequestError:
    return InvalidRequestError(why, reason=Reason.REQUEST_INVALID)
