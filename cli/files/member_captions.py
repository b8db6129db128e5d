"""Caption files of a collection's members, written while other members still run."""

import asyncio
from pathlib import Path

import grpc

from cli.channel import Server, as_command_error, call
from cli.exits import CommandError
from cli.files.captions import CaptionOutput
from cli.render.screen import Screen
from cli.render.text import file_stem
from mesh.watching import CUT_OFF
from ytcaption.v1 import collection_pb2 as pb
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import pipeline_service_pb2 as pipeline_pb

CONCURRENCY = 4
BACKOFF_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Pauses between the tries of one member, so that a server may restart meanwhile."""


def stem_of(member: pb.Member) -> str:
    """001 A talk: sorts like the collection, and is unique in it."""
    return f"{member.number:03} {file_stem(member.title, member.job_id)}"


class MemberCaptionWriter:
    """Writes each member's captions once, a few members at a time."""

    def __init__(self, server: Server, output: CaptionOutput, screen: Screen) -> None:
        self.paths: list[Path] = []
        self._server = server
        self._output = output
        self._screen = screen
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._failures: list[CommandError] = []

    def start(self, member: pb.Member, *, translated: bool) -> None:
        """Starts a task for the member, unless it has one."""
        if member.number not in self._tasks:
            write = self._write(member, translated=translated)
            self._tasks[member.number] = asyncio.create_task(write)

    async def finish(self) -> CommandError | None:
        """Waits for all tasks; returns an error if some files could not be written."""
        await asyncio.gather(*self._tasks.values())
        self.paths.sort()
        if not self._failures:
            return None
        first, count = self._failures[0], len(self._failures)
        message = f"the captions of {count} members could not be written; the first: {first}"
        return first if count == 1 else CommandError(message, first.code, first.reason)

    async def abandon(self) -> None:
        """Cancels what is not written yet."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self.paths.sort()

    async def _write(self, member: pb.Member, *, translated: bool) -> None:
        async with self._slots:
            try:
                paths = await self._fetch_with_retries(member, translated)
            except CommandError as error:
                self._failures.append(error)
                if len(self._failures) == 1:  # a full disk is reported once, not for each member
                    self._screen.line(f"member {member.number}: {error}")
            else:
                self.paths.extend(paths)

    async def _fetch_with_retries(self, member: pb.Member, translated: bool) -> list[Path]:
        for pause in (*BACKOFF_SECONDS, None):
            try:
                return await self._fetch(member, translated)
            except grpc.aio.AioRpcError as error:
                if pause is None or error.code() not in CUT_OFF:
                    raise as_command_error(error, self._server.address) from error
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    async def _fetch(self, member: pb.Member, translated: bool) -> list[Path]:
        job = job_pb.Job(job_id=member.job_id)
        if translated:  # only the job says whether speech was in another language at all
            request = pipeline_pb.GetJobRequest(job_id=member.job_id)
            job = (await call(self._server.pipeline.GetJob, request)).job
        return await self._output.fetch(self._server, job, stem_of(member))
