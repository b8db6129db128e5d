"""Many recordings to captions, from the order to the report."""

import asyncio
import signal
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import grpc

from cli.aggregates import Reports
from cli.channel import UNARY_SECONDS, Server, as_command_error
from cli.embedded import mesh_at
from cli.exits import CommandError, Exit
from cli.grid import board_for
from cli.outputs import Output
from cli.reporting import as_dict
from cli.roster import Roster, in_words
from cli.saving import Saving
from cli.screen import Screen
from cli.telling import Telling, outcome, verdict
from cli.text import to_json
from mesh.correlation import call_metadata, current
from mesh.watching import follow_collection
from ytcaption.v1 import collection_pb2 as pb
from ytcaption.v1 import collection_service_pb2 as service_pb

CANCEL_SECONDS = 3.0
LAST_WORDS_SECONDS = 15.0
"""For everything that is still to be written after we were told to stop."""


@dataclass(frozen=True, slots=True)
class Task:
    """Everything `collect` was told."""

    request: service_pb.CreateCollectionRequest
    output: Output | None
    reports: Reports | None
    server: str | None
    """None means a mesh of our own."""

    late: bool = False
    """Wait for members that end after the deadline, too."""

    detach: bool = False
    as_json: bool = False
    quiet: bool = False


async def collect(task: Task) -> Exit:
    """Members on stdout as they end, their files as soon as they are heard, reports at the end."""
    if task.output is not None:
        task.output.prepare()
    with Screen(quiet=task.quiet) as screen:
        async with mesh_at(task.server, screen) as server:
            if task.detach:
                return await _detach(task, server, screen)
            return await _Gathering(task, server, screen).run()


async def _create(server: Server, task: Task) -> pb.Collection:
    task.request.correlation_id = current()
    created = await server.collections.CreateCollection(
        task.request, timeout=UNARY_SECONDS, metadata=call_metadata()
    )
    return created.collection


async def _detach(task: Task, server: Server, screen: Screen) -> Exit:
    collection = await _create(server, task)
    screen.out(to_json(as_dict(collection)) if task.as_json else collection.collection_id)
    return Exit.OK


class _Gathering:
    def __init__(self, task: Task, server: Server, screen: Screen) -> None:
        self._task = task
        self._server = server
        self._screen = screen
        self._board = board_for(screen)
        self._telling = Telling(screen, self._board, json_lines=task.as_json)
        self._saving = Saving(server, task.output, screen) if task.output is not None else None
        self._collection_id = ""

    @property
    def _roster(self) -> Roster:
        return self._telling.roster

    async def run(self) -> Exit:
        try:
            await self._to_the_end()
        except (asyncio.CancelledError, BrokenPipeError):
            self._board.close()
            await self._leave()
            raise
        except grpc.aio.AioRpcError:
            self._board.close()
            await self._give_up()
            raise
        self._board.close()
        return await self._conclude()

    async def _to_the_end(self) -> None:
        collection = await _create(self._server, self._task)
        self._collection_id = collection.collection_id
        self._tell_id()
        updates = follow_collection(
            self._server.collections, collection.collection_id, on_cut=self._telling.cut_off
        )
        async with aclosing(updates):
            async for update in updates:
                self._keep(self._telling.take(update))
                if self._roster.gathered and not self._task.late:
                    return

    def _tell_id(self) -> None:
        if self._task.as_json:
            accepted = {"type": "accepted", "collection_id": self._collection_id}
            self._screen.out(to_json(accepted))
        elif self._task.server is not None:
            self._screen.line(f"collection {self._collection_id}")

    def _keep(self, changed: pb.Member | None) -> None:
        if self._saving and changed and changed.state == pb.MEMBER_STATE_COMPLETED:
            wished = bool(self._task.request.options.language_out)
            self._saving.begin(changed, translated=wished)

    async def _conclude(self) -> Exit:
        failure = await self._saving.finish() if self._saving else None
        reports = await self._write_reports()
        roster = self._roster
        self._tell_files(reports)
        self._screen.line(f"collection {self._collection_id}: {in_words(roster.counts)}")
        self._tell_of_late_ones()
        if self._task.as_json:
            files = [str(path) for path in (self._saving.paths if self._saving else [])]
            written = [str(path) for path in reports]
            self._screen.out(outcome(roster, files=files, reports=written))
        if failure is not None:
            raise failure
        return verdict(roster)

    async def _write_reports(self) -> list[Path]:
        reports = self._task.reports
        return await reports.fetch(self._server, self._collection_id) if reports else []

    def _tell_files(self, reports: list[Path]) -> None:
        if self._saving and self._saving.paths:
            count = len(self._saving.paths)
            where = self._saving.paths[0].parent
            self._screen.line(
                f"wrote {count} caption {'file' if count == 1 else 'files'} to {where}"
            )
        for path in reports:
            self._screen.line(f"wrote {path}")

    def _tell_of_late_ones(self) -> None:
        if self._roster.collection.settled or not self._roster.counts.get("timed out"):
            return
        if self._task.server is None:
            self._screen.line("what still ran at the timeout is lost; --late waits for it")
        else:
            self._screen.line(
                f"what still runs is recorded when it ends: ytcaption watch {self._collection_id}"
            )

    async def _leave(self) -> None:
        """We were told to stop: so is the collection, and what is there is kept.

        Being told again, we leave at once.
        """
        if not self._collection_id:
            return
        told_again = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, told_again.set)
        last_words = asyncio.create_task(self._last_words())
        hurry = asyncio.create_task(told_again.wait())
        await asyncio.wait(
            {last_words, hurry}, timeout=LAST_WORDS_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if not last_words.done():
            self._screen.line("left before everything was written")
        last_words.cancel()
        hurry.cancel()
        await asyncio.gather(last_words, hurry, return_exceptions=True)
        if self._saving:
            await self._saving.abandon()

    async def _last_words(self) -> None:
        await self._cancel()
        failure = await self._saving.finish() if self._saving else None
        try:
            reports = await self._write_reports()
        except (grpc.aio.AioRpcError, CommandError) as error:
            if isinstance(error, grpc.aio.AioRpcError):
                error = as_command_error(error, self._server.address)
            self._screen.line(f"the report could not be written: {error}")
            reports = []
        self._tell_files(reports)
        if failure is not None:
            self._screen.line(str(failure))

    async def _cancel(self) -> None:
        what = f"collection {self._collection_id}"
        request = service_pb.CancelCollectionRequest(
            collection_id=self._collection_id, note="interrupted at the terminal"
        )
        try:
            await self._server.collections.CancelCollection(
                request, timeout=CANCEL_SECONDS, metadata=call_metadata()
            )
        except grpc.aio.AioRpcError:
            if self._task.server is not None:
                self._screen.line(f"{what} could not be cancelled and may still run")
        else:
            done, found = self._roster.counts.get("completed", 0), len(self._roster.members)
            self._screen.line(f"{what} was cancelled; {done} of {found} were completed")

    async def _give_up(self) -> None:
        if self._saving:
            await self._saving.abandon()
        if self._collection_id and self._task.server is not None:
            self._screen.line(
                f"collection {self._collection_id} may still run; follow it with: "
                f"ytcaption watch {self._collection_id}"
            )
