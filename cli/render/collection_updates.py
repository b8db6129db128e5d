"""Turns the updates of a collection's watch into lines and bars."""

from typing import Any

from cli.exits import CommandError, Exit
from cli.grid import Board, name_of
from cli.reporting import as_dict, failure_line
from cli.roster import ENDED, Roster, in_words, member_state
from cli.screen import Screen
from cli.text import for_terminal, to_json
from ytcaption.v1 import collection_pb2 as pb
from ytcaption.v1 import collection_service_pb2 as service_pb

STATE_WIDTH = len("completed")


def member_line(member: pb.Member) -> str:
    """7 failed    A talk: the video is private (VIDEO_PRIVATE)."""
    late = " (late)" if member.late else ""
    why = f": {failure_line(member.failure)}" if member.HasField("failure") else ""
    state = f"{member_state(member.state):<{STATE_WIDTH}}"
    return f"{member.number:>4} {state} {for_terminal(f'{name_of(member)}{late}{why}')}"


def member_json(member: pb.Member) -> str:
    """The same for a program, states as in the contract but without their prefix."""
    plain = as_dict(member)
    plain["state"] = plain["state"].removeprefix("MEMBER_STATE_")
    return to_json({"type": "member", **plain})


class Telling:
    """What one person or program is told about one collection."""

    def __init__(self, screen: Screen, board: Board, *, json_lines: bool = False) -> None:
        self.roster = Roster()
        self._screen = screen
        self._board = board
        self._json = json_lines
        self._cut = False
        self._broken: set[str] = set()

    def cut_off(self) -> None:
        """The server went away; said once until it is back."""
        if not self._cut:
            self._screen.line("the connection was lost; trying to get it back")
        self._cut = True

    def take(
        self, update: service_pb.WatchCollectionResponse, *, aloud: bool = True
    ) -> pb.Member | None:
        """One update, in order; returns the member whose state it changed, if any."""
        if self._cut:
            self._screen.line("connected again")
            self._cut = False
        changed = self.roster.take(update)
        if update.HasField("collection"):
            self._tell_broken_listings(update.collection)
        self._board.show(self.roster)
        if changed is not None and aloud:
            self._tell(changed)
        return changed

    def _tell(self, member: pb.Member) -> None:
        if self._json:
            self._screen.out(member_json(member))
        elif member.state in ENDED:
            self._screen.out(member_line(member))

    def _tell_broken_listings(self, collection: pb.Collection) -> None:
        for listing in collection.listings:
            if listing.HasField("failure") and listing.source not in self._broken:
                self._broken.add(listing.source)
                why = failure_line(listing.failure)
                self._screen.line(f"{listing.source} could not be listed to its end: {why}")


def verdict(roster: Roster) -> Exit:
    """The code of a collection that was gathered; raises unless it is complete."""
    collection = roster.collection
    if collection.state == pb.COLLECTION_STATE_COMPLETE:
        return Exit.OK
    if collection.state == pb.COLLECTION_STATE_CANCELLED:
        note = f": {collection.cancel_note}" if collection.cancel_note else ""
        raise CommandError(f"the collection was cancelled{note}", Exit.CANCELLED)
    missing = {state: n for state, n in roster.counts.items() if state != "completed"}
    broken = sum(one.HasField("failure") for one in collection.listings)
    parts = [in_words(missing)] if missing else []
    if broken:
        parts.append(f"{broken} of {len(collection.listings)} listings broke off")
    raise CommandError(f"the collection is partial: {', '.join(parts)}", Exit.PARTIAL)


def outcome(roster: Roster, **more: Any) -> str:
    """The last line of JSON."""
    collection = roster.collection
    return to_json(
        {
            "type": "finished",
            "collection_id": collection.collection_id,
            "state": pb.CollectionState.Name(collection.state).removeprefix("COLLECTION_STATE_"),
            "members": len(roster.members),
            "late": sum(member.late for member in roster.members.values()),
            "counts": {name.upper().replace(" ", "_"): n for name, n in roster.counts.items()},
            **more,
        }
    )
