"""Renders the updates of a collection's watch: member lines, JSON lines, progress."""

from typing import Any

from cli.exits import CommandError, Exit
from cli.render.collection_progress import progress_view_for
from cli.render.collection_state import ENDED, CollectionProjection, count_summary
from cli.render.messages import (
    as_dict,
    collection_state,
    failure_line,
    member_state,
    member_title,
)
from cli.render.screen import ConnectionNotice, Screen
from cli.render.text import for_terminal, to_json
from mesh.messages import enum_word
from ytcaption.v1 import collection_pb2 as pb
from ytcaption.v1 import collection_service_pb2 as service_pb

STATE_WIDTH = len("completed")


def member_line(member: pb.Member) -> str:
    """7 failed    A talk: the video is private (VIDEO_PRIVATE)."""
    late = " (late)" if member.late else ""
    failure = f": {failure_line(member.failure)}" if member.HasField("failure") else ""
    state = f"{member_state(member.state):<{STATE_WIDTH}}"
    return f"{member.number:>4} {state} {for_terminal(f'{member_title(member)}{late}{failure}')}"


def member_json(member: pb.Member) -> str:
    """The member as one line of JSON, its state without the prefix of the contract."""
    state = enum_word(pb.MemberState, member.state).upper()
    return to_json({"type": "member", **as_dict(member), "state": state})


class CollectionRenderer:
    """Renders the watch of one collection for one reader."""

    def __init__(self, screen: Screen, *, json_lines: bool = False) -> None:
        self.state = CollectionProjection()
        self.connection = ConnectionNotice(screen.line)
        self._screen = screen
        self._view = progress_view_for(screen)
        self._json = json_lines
        self._broken: set[str] = set()

    def close(self) -> None:
        """Leaves the last progress on the screen."""
        self._view.close()

    def render(
        self, update: service_pb.WatchCollectionResponse, *, print_member: bool = True
    ) -> pb.Member | None:
        """Renders one update, in order; returns the member whose state it changed, if any."""
        self.connection.restored()
        changed = self.state.apply(update)
        if update.HasField("collection"):
            self._print_broken_listings(update.collection)
        self._view.show(self.state)
        if changed is not None and print_member:
            self._print_member(changed)
        return changed

    def _print_member(self, member: pb.Member) -> None:
        if self._json:
            self._screen.out(member_json(member))
        elif member.state in ENDED:
            self._screen.out(member_line(member))

    def _print_broken_listings(self, collection: pb.Collection) -> None:
        for listing in collection.listings:
            if listing.HasField("failure") and listing.source not in self._broken:
                self._broken.add(listing.source)
                failure = failure_line(listing.failure)
                self._screen.line(f"the listing of {listing.source} broke off: {failure}")


def collection_exit(state: CollectionProjection) -> Exit:
    """The exit code of a complete collection; raises for a partial or cancelled one."""
    collection = state.collection
    if collection.state == pb.COLLECTION_STATE_COMPLETE:
        return Exit.OK
    if collection.state == pb.COLLECTION_STATE_CANCELLED:
        note = f": {collection.cancel_note}" if collection.cancel_note else ""
        raise CommandError(f"the collection was cancelled{note}", Exit.CANCELLED)
    missing = {name: count for name, count in state.counts.items() if name != "completed"}
    broken = sum(one.HasField("failure") for one in collection.listings)
    parts = [count_summary(missing)] if missing else []
    if broken:
        parts.append(f"{broken} of {len(collection.listings)} listings broke off")
    raise CommandError(f"the collection is partial: {', '.join(parts)}", Exit.PARTIAL)


def collection_result_json(state: CollectionProjection, **more: Any) -> str:
    """The last JSON line of `collect`."""
    collection = state.collection
    return to_json(
        {
            "type": "finished",
            "collection_id": collection.collection_id,
            "state": collection_state(collection).upper(),
            "members": len(state.members),
            "late": sum(member.late for member in state.members.values()),
            "counts": {name.upper().replace(" ", "_"): n for name, n in state.counts.items()},
            **more,
        }
    )
