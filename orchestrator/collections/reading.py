"""Members a page at a time, with live figures of those under way."""

from dataclasses import dataclass

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from orchestrator.collections.ledger import RUNNING, Ledgers
from orchestrator.collections.members import copy_of
from orchestrator.collections.records import CollectionRecords
from orchestrator.index import MAX_PAGE, JobIndex
from ytcaption.v1 import collection_pb2, job_pb2


@dataclass(frozen=True, slots=True)
class MemberPage:
    """A collection, some of its members, and where the next ones begin."""

    collection: collection_pb2.Collection
    members: list[collection_pb2.Member]
    next_token: str


class CollectionReading:
    """Reads the record if that is enough, else the whole ledger."""

    def __init__(self, records: CollectionRecords, ledgers: Ledgers, index: JobIndex) -> None:
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
            return MemberPage(kept.collection, [], "")
        ledger = await self._ledgers.read(collection_id)
        begin = int(token or 0)
        end = begin + min(size, MAX_PAGE)
        members = [self._with_figures(member) for member in ledger.members[begin:end]]
        more = end < len(ledger.members)
        return MemberPage(ledger.collection, members, str(end) if more else "")

    def _with_figures(self, member: collection_pb2.Member) -> collection_pb2.Member:
        stored = self._index.stored(member.job_id) if member.state == RUNNING else None
        if stored is None:
            return member
        job = job_pb2.JobRecord.FromString(stored).job
        shown = copy_of(member)
        if job.HasField("progress"):
            shown.progress = job.progress
        return shown
