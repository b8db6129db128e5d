"""Caption files of a collection's members, written while others are still heard."""

import asyncio
from pathlib import Path

import grpc

from cli.channel import UNARY_SECONDS, Server, as_command_error
from cli.exits import CommandError
from cli.outputs import Output
from cli.screen import Screen
from cli.text import file_stem
from mesh.correlation import call_metadata
from mesh.watching import CUT_OFF
from ytcaption.v1 import collection_pb2 as pb
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import pipeline_service_pb2 as pipeline_pb

AT_ONCE = 4
PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""A server that restarts gets this long to come back."""


def stem_of(member: pb.Member) -> str:
    """001 A talk: sorted like the collection, and never twice the same."""
    return f"{member.number:03} {file_stem(member.title, member.job_id)}"


class Saving:
    """Fetches each member's captions once, a few members at a time."""

    def __init__(self, server: Server, output: Output, screen: Screen) -> None:
        self.paths: list[Path] = []
        self._server = server
        self._output = output
        self._screen = screen
        self._places = asyncio.Semaphore(AT_ONCE)
        self._errands: dict[int, asyncio.Task[None]] = {}
        self._failures: list[CommandError] = []

    def begin(self, member: pb.Member, *, translated: bool) -> None:
        """Returns at once."""
        if member.number not in self._errands:
            errand = self._save(member, translated=translated)
            self._errands[member.number] = asyncio.create_task(errand)

    async def finish(self) -> CommandError | None:
        """Waits for all of them; why some could not be written, if so."""
        await asyncio.gather(*self._errands.values())
        self.paths.sort()
        if not self._failures:
            return None
        first, count = self._failures[0], len(self._failures)
        what = f"the captions of {count} members could not be written; the first: {first}"
        return first if count == 1 else CommandError(what, first.code, first.reason)

    async def abandon(self) -> None:
        """What is not written by now will not be."""
        for errand in self._errands.values():
            errand.cancel()
        await asyncio.gather(*self._errands.values(), return_exceptions=True)
        self.paths.sort()

    async def _save(self, member: pb.Member, *, translated: bool) -> None:
        async with self._places:
            try:
                paths = await self._through_cuts(member, translated)
            except CommandError as error:
                self._failures.append(error)
                if len(self._failures) == 1:  # a full disk is not told a thousand times
                    self._screen.line(f"member {member.number}: {error}")
            else:
                self.paths.extend(paths)

    async def _through_cuts(self, member: pb.Member, translated: bool) -> list[Path]:
        for pause in PAUSES_SECONDS:
            try:
                return await self._fetch(member, translated)
            except grpc.aio.AioRpcError as error:
                if error.code() not in CUT_OFF:
                    raise as_command_error(error, self._server.address) from error
            await asyncio.sleep(pause)
        try:
            return await self._fetch(member, translated)
        except grpc.aio.AioRpcError as error:
            raise as_command_error(error, self._server.address) from error

    async def _fetch(self, member: pb.Member, translated: bool) -> list[Path]:
        job = job_pb.Job(job_id=member.job_id)
        if translated:  # only the job knows whether it really was
            request = pipeline_pb.GetJobRequest(job_id=member.job_id)
            found = await self._server.pipeline.GetJob(
                request, timeout=UNARY_SECONDS, metadata=call_metadata()
            )
            job = found.job
        return await self._output.fetch(self._server, job, stem_of(member))
