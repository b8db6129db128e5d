"""Looking at the collections of a mesh, following and ending them."""

from collections.abc import Sequence
from contextlib import aclosing

import click

from cli.channel import UNARY_SECONDS, Server, connected
from cli.exits import Exit
from cli.grid import board_for, name_of
from cli.listing import pages, print_list, read_list
from cli.live_listing import Kind, watch_list
from cli.reporting import as_dict, failure_line
from cli.roster import collection_state, counts_of, in_words, member_state
from cli.screen import Screen
from cli.tables import minute, print_facts, print_table
from cli.telling import Telling, verdict
from cli.text import short_clock, to_json
from mesh.correlation import call_metadata
from mesh.watching import follow_collection
from ytcaption.v1 import collection_pb2 as pb
from ytcaption.v1 import collection_service_pb2 as service_pb


async def watch_collection(
    server: Server, screen: Screen, collection_id: str, after: int, *, as_json: bool
) -> Exit:
    """Members as they end, or every update, on stdout; until no member can change any more."""
    board = board_for(screen)
    telling = Telling(screen, board)
    # Counts need the whole story; what was told before is only not told again.
    start = after if as_json else 0
    updates = follow_collection(server.collections, collection_id, start, on_cut=telling.cut_off)
    try:
        async with aclosing(updates):
            async for update in updates:
                telling.take(update, aloud=not as_json and update.sequence > after)
                if as_json:
                    screen.out(to_json(as_dict(update)))
    finally:
        board.close()
    if not as_json:
        screen.line(f"collection {collection_id}: {in_words(telling.roster.counts)}")
    return verdict(telling.roster)


async def list_collections(address: str, limit: int, *, as_json: bool) -> Exit:
    """A table, or one JSON object a line."""
    request = service_pb.ListCollectionsRequest()
    async with connected(address) as server:
        call = server.collections.ListCollections
        found = await read_list(call, request, COLLECTIONS.items, limit)
    print_list(found, COLLECTIONS.heads, COLLECTIONS.row, as_json=as_json)
    return Exit.OK


async def watch_collections(address: str, limit: int, *, as_json: bool) -> Exit:
    """The same for as long as somebody looks."""
    request = service_pb.WatchCollectionsRequest()
    async with connected(address) as server:
        call = server.collections.WatchCollections
        await watch_list(call, request, COLLECTIONS, limit, as_json=as_json)
    return Exit.OK


def _row(collection: pb.Collection) -> Sequence[str]:
    listing = "" if collection.discovery_complete else ", listing"
    return (
        collection.collection_id,
        collection_state(collection),
        f"{in_words(counts_of(collection))}{listing}",
        minute(collection.create_time),
        collection.title or ", ".join(collection.sources),
    )


COLLECTIONS: Kind[pb.Collection] = Kind(
    id_field="collection_id",
    heads=("collection", "state", "members", "accepted", "what"),
    row=_row,
    items=lambda page: page.collections,
)


async def show_collection(address: str, collection_id: str, limit: int, *, as_json: bool) -> Exit:
    """Everything worth knowing about one collection, and its first members."""
    request = service_pb.GetCollectionRequest(collection_id=collection_id)
    async with connected(address) as server:
        call = server.collections.GetCollection
        read = [page async for page in pages(call, request, lambda page: page.members, limit)]
    collection, members = read[0].collection, [one for page in read for one in page.members]
    if as_json:
        plain = [as_dict(member) for member in members[:limit]]
        click.echo(to_json({"collection": as_dict(collection), "members": plain}))
        return Exit.OK
    print_facts(_facts(collection))
    if members:
        heads = ("no", "state", "heard", "length", "lang", "job", "what")
        print_table(heads, [_member_row(member) for member in members[:limit]], whole=5)
    if collection.member_count > len(members[:limit]):
        left = collection.member_count - len(members[:limit])
        click.echo(f"{left} more members; --limit shows more, --all shows them all", err=True)
    return Exit.OK


def _facts(collection: pb.Collection) -> list[tuple[str, str]]:
    days = (collection.from_date, collection.to_date)
    return [
        ("collection", collection.collection_id),
        ("title", collection.title),
        ("state", collection_state(collection) + ("" if collection.settled else ", not settled")),
        ("members", in_words(counts_of(collection))),
        ("late", str(collection.late_count or "")),
        *(("source", _listing(one)) for one in collection.listings),
        ("published", " to ".join(day or "…" for day in days) if any(days) else ""),
        ("accepted", minute(collection.create_time)),
        ("deadline", minute(collection.deadline)),
        ("gathered", minute(collection.end_time)),
        ("in flight", f"at most {collection.max_in_flight}" if collection.max_in_flight else ""),
        ("cancelled", collection.cancel_note),
        ("webhook", collection.webhook_url),
        ("caller", collection.caller),
        ("correlation", collection.correlation_id),
    ]


def _listing(listing: pb.Listing) -> str:
    if listing.HasField("failure"):
        how = f"broke off: {failure_line(listing.failure)}"
    else:
        how = "listed" if listing.complete else "being listed"
    return f"{listing.source} ({listing.found} found, {how})"


def _member_row(member: pb.Member) -> Sequence[str]:
    why = f": {failure_line(member.failure)}" if member.HasField("failure") else ""
    return (
        str(member.number),
        member_state(member.state) + (" (late)" if member.late else ""),
        f"{member.progress:.0%}" if member.HasField("progress") else "",
        short_clock(member.duration.ToTimedelta()) if member.HasField("duration") else "",
        member.language,
        member.job_id,
        f"{name_of(member)}{why}",
    )


async def cancel_collection(server: Server, collection_id: str, note: str) -> pb.Collection:
    """As it stands afterwards: it may have ended by itself."""
    request = service_pb.CancelCollectionRequest(collection_id=collection_id, note=note)
    done = await server.collections.CancelCollection(
        request, timeout=UNARY_SECONDS, metadata=call_metadata()
    )
    return done.collection


async def delete_collection(server: Server, collection_id: str) -> int:
    """How many jobs went with it."""
    request = service_pb.DeleteCollectionRequest(collection_id=collection_id)
    done = await server.collections.DeleteCollection(request, metadata=call_metadata())
    return done.jobs_removed
