"""watch, cancel and delete, which take the id of a job or of a collection.

The two kinds of id look alike: one that is not a job's is tried as a collection's.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing, closing
from typing import TypeVar

import click
import grpc

from cli.channel import Server, call
from cli.exits import CommandError, Exit
from cli.render.collection_state import count_summary
from cli.render.collection_updates import CollectionRenderer, collection_exit
from cli.render.job_updates import JobRenderer, job_exit
from cli.render.messages import collection_state, job_state, message_json
from cli.render.screen import Screen
from cli.render.text import for_terminal, to_json
from mesh.watching import follow, follow_collection
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import pipeline_service_pb2 as pb

T = TypeVar("T")

NOT_THERE = frozenset({grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED})
"""An older server has no collections at all."""


async def _job_or_collection(
    wanted: str, job: Callable[[], Awaitable[T]], collection: Callable[[], Awaitable[T]]
) -> T:
    """Calls `job`, and if there is no such job `collection`; one clear error if neither exists."""
    try:
        return await job()
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
    try:
        return await collection()
    except grpc.aio.AioRpcError as error:
        if error.code() not in NOT_THERE:
            raise
        message = f"there is no job and no collection {for_terminal(wanted)}"
        raise CommandError(message, Exit.REFUSED, "NOT_FOUND") from error


async def watch(server: Server, wanted: str, after: int, *, as_json: bool, quiet: bool) -> Exit:
    """Prints captions of a job, members of a collection, or every update as JSON."""
    with Screen(quiet=quiet) as screen:
        return await _job_or_collection(
            wanted,
            lambda: _watch_job(server, screen, wanted, after, as_json=as_json),
            lambda: _watch_collection(server, screen, wanted, after, as_json=as_json),
        )


async def _watch_job(
    server: Server, screen: Screen, job_id: str, after: int, *, as_json: bool
) -> Exit:
    with closing(JobRenderer(screen, captions=not as_json)) as renderer:
        updates = follow(server.pipeline, job_id, after, on_cut=renderer.connection.lost)
        async with aclosing(updates):
            async for update in updates:
                renderer.render(update)
                if as_json:
                    screen.out(message_json(update))
    return job_exit(renderer.job)


async def _watch_collection(
    server: Server, screen: Screen, collection_id: str, after: int, *, as_json: bool
) -> Exit:
    # Counts need the whole event log; members up to `after` are counted but not printed.
    start = after if as_json else 0
    with closing(CollectionRenderer(screen)) as renderer:
        updates = follow_collection(
            server.collections, collection_id, start, on_cut=renderer.connection.lost
        )
        async with aclosing(updates):
            async for update in updates:
                renderer.render(update, print_member=not as_json and update.sequence > after)
                if as_json:
                    screen.out(message_json(update))
    if not as_json:
        screen.line(f"collection {collection_id}: {count_summary(renderer.state.counts)}")
    return collection_exit(renderer.state)


async def cancel(server: Server, wanted: str, note: str, *, as_json: bool) -> None:
    """Prints the state afterwards, which may be another end that came first."""

    async def cancel_job() -> tuple[str, str]:
        request = pb.CancelJobRequest(job_id=wanted, note=note)
        job = (await call(server.pipeline.CancelJob, request)).job
        return job_state(job), message_json(job)

    async def cancel_collection() -> tuple[str, str]:
        request = collection_pb.CancelCollectionRequest(collection_id=wanted, note=note)
        done = await call(server.collections.CancelCollection, request)
        return collection_state(done.collection), message_json(done.collection)

    state, plain = await _job_or_collection(wanted, cancel_job, cancel_collection)
    click.echo(plain if as_json else f"{wanted} {state}")


async def delete(server: Server, wanted: str, *, as_json: bool) -> None:
    """Prints what was removed."""

    async def delete_job() -> tuple[str, dict[str, object]]:
        done = await call(server.pipeline.DeleteJob, pb.DeleteJobRequest(job_id=wanted))
        events, files = done.events_removed, done.artifacts_removed
        removed = {"job_id": wanted, "events_removed": events, "artifacts_removed": files}
        return f"{events} events, {files} files", removed

    async def delete_collection() -> tuple[str, dict[str, object]]:
        request = collection_pb.DeleteCollectionRequest(collection_id=wanted)
        jobs = (await call(server.collections.DeleteCollection, request, None)).jobs_removed
        return f"{jobs} jobs", {"collection_id": wanted, "jobs_removed": jobs}

    words, removed = await _job_or_collection(wanted, delete_job, delete_collection)
    click.echo(to_json(removed) if as_json else f"{wanted} deleted: {words}")
