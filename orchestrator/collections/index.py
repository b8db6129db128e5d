"""Members a page at a time, with live figures of those under way."""

from contextlib import suppress
from dataclasses import dataclass

from nats.js.errors import NotFoundError

from mesh.bus import Bus, storing
from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from orchestrator.collections.ledger import RUNNING, Ledgers
from orchestrator.collections.members import copy_of
from orchestrator.collections.records import CollectionRecords, KeptCollection
from orchestrator.index import JobIndex
from orchestrator.paging import MAX_PAGE
from ytcaption.v1 import collection_pb2


@dataclass(frozen=True, slots=True)
class MemberPage:
    """A collection, some of its members, and where the next ones begin."""

    collection: collection_pb2.Collection
    members: list[collection_pb2.Member]
    next_token: str


class CollectionReading:
    """Reads the record if that is enough, else the whole ledger."""

    def __init__(
        self, bus: Bus, records: CollectionRecords, ledgers: Ledgers, index: JobIndex
    ) -> None:
        self._bus = bus
        self._records = records
        self._ledgers = ledgers
        self._index = index

    async def page(self, collection_id: str, size: int, token: str) -> MemberPage:
        """Members in the order in which they were found; a token is the last number seen."""
        if size < 0 or not (token == "" or token.isdecimal()):
            raise InvalidRequestError(
                "page_size must not be negative, and page_token one of ours",
                reason=Reason.REQUEST_INVALID,
            )
        if not size:
            kept = await self._records.get(collection_id)
            if not await self._is_behind(kept):
                return MemberPage(kept.collection, [], "")
        ledger = await self._ledgers.read(collection_id)
        begin = int(token or 0)
        end = begin + min(size, MAX_PAGE)
        members = [self._with_figures(member) for member in ledger.members[begin:end]]
        more = bool(size) and end < len(ledger.members)
        return MemberPage(ledger.collection, members, str(end) if more else "")

    async def _is_behind(self, kept: KeptCollection) -> bool:
        """Whether the story tells more of the collection itself; whoever heard that may ask."""
        if kept.collection.settled:
            return False
        names, jetstream = self._bus.names, self._bus.jetstream
        async with storing():
            for kind in ("collection_changed", "collection_gathered", "collection_settled"):
                with suppress(NotFoundError):
                    last = await jetstream.get_last_msg(
                        names.events_stream, names.event(kept.id, kind), direct=True
                    )
                    if (last.seq or 0) > kept.record.sequence:
                        return True
        return False

    def _with_figures(self, member: collection_pb2.Member) -> collection_pb2.Member:
        progress = self._index.progress(member.job_id) if member.state == RUNNING else None
        if progress is None:
            return member
        shown = copy_of(member)
        shown.progress = progress
        return shown
