"""What watchers of a collection see: each member as it stands, then what happens."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import partial

from mesh.bus import Bus
from orchestrator.collections.ledger import ENDED, RUNNING, Ledger
from orchestrator.following import FeedPool, StoryFeed
from ytcaption.v1 import collection_pb2, event_pb2
from ytcaption.v1 import collection_service_pb2 as pb

Response = pb.WatchCollectionResponse
ProgressOf = Callable[[str], float | None]
"""How far a job was when anybody last looked."""


@dataclass(frozen=True, slots=True)
class Change:
    """One stored change as it goes out; made once for all watchers."""

    response: Response

    count = 1

    @property
    def sequence(self) -> int:
        """Its place in the story."""
        return self.response.sequence

    @property
    def about(self) -> int:
        """The number of the member; 0 for the collection itself."""
        return self.response.member.number


class CollectionFeed(StoryFeed[Change, collection_pb2.MemberProgress]):
    """The story of one collection."""

    last_word = event_pb2.EVENT_TYPE_COLLECTION_SETTLED
    news = frozenset(
        {
            event_pb2.EVENT_TYPE_MEMBER_CHANGED,
            event_pb2.EVENT_TYPE_COLLECTION_GATHERED,
            event_pb2.EVENT_TYPE_COLLECTION_SETTLED,
        }
    )

    def __init__(self, bus: Bus, progress_of: ProgressOf, collection_id: str) -> None:
        super().__init__(bus, collection_id)
        self._progress_of = progress_of
        self._ledger = Ledger()

    @property
    def empty(self) -> bool:
        """Whether nothing is stored of it, or not from its beginning."""
        return not self._ledger.sequence

    @property
    def collection(self) -> collection_pb2.Collection:
        """As far as the story has been read."""
        return self._ledger.collection

    def _hold(self, sequence: int, event: event_pb2.Event) -> None:
        self._ledger.apply(sequence, event)
        if not self._ledger.sequence:
            return
        match event.WhichOneof("payload"):
            case "start_collection":
                self._ledger.request.Clear()  # with all its addresses
            case "member_changed":
                member = event.member_changed.member
                self._told.append(Change(Response(sequence=sequence, member=member)))
                if member.state in ENDED:
                    self._figures.pop(member.number, None)
            case "collection_changed":
                collection = self._ledger.collection
                self._told.append(Change(Response(sequence=sequence, collection=collection)))

    def _figure(self, data: bytes) -> tuple[int, collection_pb2.MemberProgress]:
        progress = collection_pb2.MemberProgress.FromString(data)
        return progress.number, progress

    async def watch(
        self, after: int, *, follow: bool = True
    ) -> AsyncGenerator[Change | collection_pb2.MemberProgress, None]:
        """The newest of whatever changed after a sequence, then every change."""
        position = len(self._told)
        for change in self._newest(after):
            yield change
        self._look_up_figures()
        following = self._follow(position, self._told.__getitem__, follow=follow)
        try:
            async for update in following:
                yield update
        finally:
            await following.aclose()

    def _look_up_figures(self) -> None:
        """A member that stands still tells nobody how far it is."""
        for member in self._ledger.members:
            if member.state == RUNNING and member.number not in self._figures:
                progress = self._progress_of(member.job_id)
                if progress is not None:
                    self._figures[member.number] = collection_pb2.MemberProgress(
                        number=member.number, job_id=member.job_id, progress=progress
                    )

    def _newest(self, after: int) -> list[Change]:
        """In the order in which they happened."""
        found: dict[int, Change] = {}
        for change in reversed(self._told):
            if change.sequence <= after:
                break
            found.setdefault(change.about, change)
        return list(found.values())[::-1]


class CollectionFeeds(FeedPool[CollectionFeed]):
    """Feeds of the collections that are being watched here."""

    def __init__(self, bus: Bus, progress_of: ProgressOf) -> None:
        super().__init__(partial(CollectionFeed, bus, progress_of))
