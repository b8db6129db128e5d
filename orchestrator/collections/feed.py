"""The event feed of a collection: every member as it is, then each change."""

from collections.abc import AsyncGenerator, Callable

from mesh.bus import Bus
from orchestrator.collections.members import ENDED, RUNNING
from orchestrator.collections.projection import Projection
from orchestrator.jobs.event_log import EventLogReader
from orchestrator.watch.event_feed import EventFeed
from ytcaption.v1 import collection_pb2, event_pb2
from ytcaption.v1 import collection_service_pb2 as pb

Response = pb.WatchCollectionResponse
ProgressOf = Callable[[str], float | None]
"""The progress of a job as last read."""


class CollectionFeed(EventFeed[Response, collection_pb2.MemberProgress]):
    """The event log of one collection; a change is built once for all its watchers."""

    final = event_pb2.EVENT_TYPE_COLLECTION_SETTLED
    urgent = frozenset(
        {
            event_pb2.EVENT_TYPE_MEMBER_CHANGED,
            event_pb2.EVENT_TYPE_SUBTASK_CHANGED,
            event_pb2.EVENT_TYPE_DOCUMENT_FOUND,
            event_pb2.EVENT_TYPE_COLLECTION_GATHERED,
            event_pb2.EVENT_TYPE_COLLECTION_SETTLED,
        }
    )

    def __init__(
        self, bus: Bus, event_logs: EventLogReader, progress_of: ProgressOf, collection_id: str
    ) -> None:
        super().__init__(bus, event_logs, collection_id)
        self._progress_of = progress_of
        self._projection = Projection()

    @property
    def empty(self) -> bool:
        """Whether the event log is missing, or its beginning is."""
        return not self._projection.sequence

    @property
    def collection(self) -> collection_pb2.Collection:
        """The collection as far as the event log was read."""
        return self._projection.collection

    def _keep(self, sequence: int, event: event_pb2.Event) -> None:
        self._projection.apply(sequence, event)
        if not self._projection.sequence:
            return
        match event.WhichOneof("payload"):
            case "start_collection":
                self._projection.request.Clear()  # with all its addresses
            case "member_changed":
                member = event.member_changed.member
                self._entries.append(Response(sequence=sequence, member=member))
                if member.state in ENDED:
                    self._progress.pop(member.number, None)
            case "subtask_changed":
                subtask = event.subtask_changed.subtask
                self._entries.append(Response(sequence=sequence, subtask=subtask))
            case "document_found":
                document = event.document_found.document
                self._entries.append(Response(sequence=sequence, document=document))
            case "collection_changed":
                collection = self._projection.collection
                self._entries.append(Response(sequence=sequence, collection=collection))

    def _decode_progress(self, data: bytes) -> tuple[int, collection_pb2.MemberProgress]:
        progress = collection_pb2.MemberProgress.FromString(data)
        return progress.number, progress

    async def watch(
        self, after: int, *, follow: bool = True
    ) -> AsyncGenerator[Response | collection_pb2.MemberProgress, None]:
        """The newest state of everything that changed after a sequence, then every change."""
        position = len(self._entries)
        for change in self._newest(after):
            yield change
        self._look_up_figures()
        following = self._follow(position, lambda one: (self._entries[one], 1), follow=follow)
        try:
            async for update in following:
                yield update
        finally:
            await following.aclose()

    def _look_up_figures(self) -> None:
        """Looks up running members' progress: one that stands still publishes none."""
        for member in self._projection.members:
            if member.state == RUNNING and member.number not in self._progress:
                progress = self._progress_of(member.job_id)
                if progress is not None:
                    self._progress[member.number] = collection_pb2.MemberProgress(
                        number=member.number, job_id=member.job_id, progress=progress
                    )

    def _newest(self, after: int) -> list[Response]:
        """The last change of each part, and of the collection, in order of their sequence."""
        found: dict[tuple[str | None, int], Response] = {}
        for change in reversed(self._entries):
            if change.sequence <= after:
                break
            found.setdefault(_part_of(change), change)
        return list(found.values())[::-1]


def _part_of(change: Response) -> tuple[str | None, int]:
    """What a change is about; 0: the collection itself."""
    kind = change.WhichOneof("update")
    return kind, 0 if kind == "collection" else getattr(change, str(kind)).number
