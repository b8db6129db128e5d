"""collect: sources become a collection, its members become caption files and reports."""

import asyncio
from contextlib import aclosing, closing
from dataclasses import dataclass
from pathlib import Path

import grpc

from cli.channel import CANCEL_SECONDS, Server, as_command_error, call
from cli.client.collections import ReportOutput, fetch_result_files
from cli.execution import clean_up
from cli.exits import CommandError, Exit
from cli.files.captions import CaptionOutput, MemberCaptionWriter
from cli.local.mesh import server_or_embedded
from cli.render.collection_state import count_summary
from cli.render.collection_updates import (
    CollectionRenderer,
    collection_exit,
    collection_result_json,
)
from cli.render.messages import message_json
from cli.render.screen import Screen
from cli.render.text import to_json
from mesh.correlation import current
from mesh.watching import follow_collection
from ytcaption.v1 import collection_pb2 as pb
from ytcaption.v1 import collection_service_pb2 as service_pb


@dataclass(frozen=True, slots=True)
class CollectOptions:
    """The command line of `collect`."""

    request: service_pb.CreateCollectionRequest
    output: CaptionOutput
    reports: ReportOutput
    server: str | None
    """None starts a mesh for this command."""

    late: bool = False
    """Also wait for members that end after the deadline."""

    detach: bool = False
    as_json: bool = False
    quiet: bool = False


async def collect(options: CollectOptions) -> Exit:
    """Prints and writes members as they end, and reports at the end."""
    options.output.prepare()
    with Screen(quiet=options.quiet) as screen:
        async with server_or_embedded(options.server, screen) as server:
            if options.detach:
                return await _detach(options, server, screen)
            return await _Gathering(options, server, screen).run()


async def _create(server: Server, options: CollectOptions) -> pb.Collection:
    options.request.correlation_id = current()
    return (await call(server.collections.CreateCollection, options.request)).collection


async def _detach(options: CollectOptions, server: Server, screen: Screen) -> Exit:
    collection = await _create(server, options)
    screen.out(message_json(collection) if options.as_json else collection.collection_id)
    return Exit.OK


class _Gathering:
    def __init__(self, options: CollectOptions, server: Server, screen: Screen) -> None:
        self._options = options
        self._server = server
        self._screen = screen
        self._renderer = CollectionRenderer(screen, json_lines=options.as_json)
        self._state = self._renderer.state
        self._captions = MemberCaptionWriter(
            server, options.output, screen, translated=bool(options.request.options.language_out)
        )
        self._collection_id = ""

    async def run(self) -> Exit:
        try:
            with closing(self._renderer):
                await self._follow()
        except (asyncio.CancelledError, BrokenPipeError):
            await self._interrupt()
            raise
        except grpc.aio.AioRpcError:
            await self._give_up()
            raise
        return await self._conclude()

    async def _follow(self) -> None:
        self._collection_id = (await _create(self._server, self._options)).collection_id
        if self._options.as_json:
            accepted = {"type": "accepted", "collection_id": self._collection_id}
            self._screen.out(to_json(accepted))
        elif self._options.server is not None:
            self._screen.line(f"collection {self._collection_id}")
        updates = follow_collection(
            self._server.collections, self._collection_id, on_cut=self._renderer.connection.lost
        )
        async with aclosing(updates):
            async for update in updates:
                changed = self._renderer.render(update)
                if changed and changed.state == pb.MEMBER_STATE_COMPLETED:
                    self._captions.start(changed)
                if self._state.gathered and not self._options.late:
                    return

    async def _conclude(self) -> Exit:
        failure = await self._captions.finish()
        reports = await self._write_reports()
        state = self._state
        results = await self._write_results()
        self._print_files([*results, *reports])
        self._screen.line(f"collection {self._collection_id}: {count_summary(state.counts)}")
        self._print_late_hint()
        if self._options.as_json:
            files = [str(path) for path in (*self._captions.paths, *results)]
            written = [str(path) for path in reports]
            self._screen.out(collection_result_json(state, files=files, reports=written))
        if failure is not None:
            raise failure
        return collection_exit(state)

    async def _write_reports(self) -> list[Path]:
        return await self._options.reports.fetch(self._server, self._collection_id)

    async def _write_results(self) -> list[Path]:
        """The files that executors made, where caption files are written, too."""
        output, subtasks = self._options.output, self._state.subtasks
        if not output.formats:
            return []
        made = [subtasks[number] for number in sorted(subtasks)]
        return await fetch_result_files(self._server, self._collection_id, made, output.directory)

    def _print_files(self, reports: list[Path]) -> None:
        if paths := self._captions.paths:
            count, where = len(paths), paths[0].parent
            self._screen.line(
                f"wrote {count} caption {'file' if count == 1 else 'files'} to {where}"
            )
        for path in reports:
            self._screen.line(f"wrote {path}")

    def _print_late_hint(self) -> None:
        if self._state.collection.settled or not self._state.counts.get("timed out"):
            return
        if self._options.server is None:
            self._screen.line(
                "members still running at the timeout are lost; --late waits for them"
            )
        else:
            self._screen.line(
                "members that still run are recorded when they end: "
                f"ytcaption watch {self._collection_id}"
            )

    async def _interrupt(self) -> None:
        """Cancels the collection and keeps its files so far; a second signal skips that."""
        if not self._collection_id:
            return
        await clean_up(self._clean_up(), self._screen.line)
        await self._captions.abandon()

    async def _clean_up(self) -> None:
        await self._cancel()
        failure = await self._captions.finish()
        try:
            reports = await self._write_reports()
        except (grpc.aio.AioRpcError, CommandError) as error:
            if isinstance(error, grpc.aio.AioRpcError):
                error = as_command_error(error, self._server.address)
            self._screen.line(f"the report could not be written: {error}")
            reports = []
        self._print_files(reports)
        if failure is not None:
            self._screen.line(str(failure))

    async def _cancel(self) -> None:
        what = f"collection {self._collection_id}"
        request = service_pb.CancelCollectionRequest(
            collection_id=self._collection_id, note="interrupted at the terminal"
        )
        try:
            await call(self._server.collections.CancelCollection, request, CANCEL_SECONDS)
        except grpc.aio.AioRpcError:
            if self._options.server is not None:
                self._screen.line(f"{what} could not be cancelled and may still run")
        else:
            done, found = self._state.counts.get("completed", 0), len(self._state.members)
            self._screen.line(f"{what} was cancelled; {done} of {found} were completed")

    async def _give_up(self) -> None:
        await self._captions.abandon()
        if self._collection_id and self._options.server is not None:
            self._screen.line(
                f"collection {self._collection_id} may still run; follow it with: "
                f"ytcaption watch {self._collection_id}"
            )
