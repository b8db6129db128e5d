"""One source to captions, from the order to the files."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import grpc

from cli.bars import bars_for
from cli.channel import Server
from cli.embedded import mesh_at
from cli.exits import CommandError, Exit
from cli.following import verdict
from cli.outputs import Output
from cli.reporting import Report
from cli.screen import Screen
from cli.sources import LocalFile, Order, create_job
from cli.text import file_stem, to_json
from mesh.correlation import call_metadata
from mesh.watching import follow
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import pipeline_service_pb2 as pb

LAST_WORDS_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Task:
    """Everything `transcribe` was told."""

    order: Order
    output: Output | None
    server: str | None
    """None means a mesh of our own."""

    json_lines: bool = False
    quiet: bool = False


async def transcribe(task: Task) -> Exit:
    """Captions on stdout while they are heard, files at the end."""
    if task.output is not None:
        task.output.prepare()
    with Screen(quiet=task.quiet) as screen:
        async with mesh_at(task.server, screen) as server:
            return await _Transcription(task, server, screen).run()


class _Transcription:
    def __init__(self, task: Task, server: Server, screen: Screen) -> None:
        self._task = task
        self._server = server
        self._screen = screen
        self._bars = bars_for(screen)
        self._report = Report(screen, self._bars, json_lines=task.json_lines)

    async def run(self) -> Exit:
        try:
            await self._to_the_end()
        except (asyncio.CancelledError, BrokenPipeError):
            self._bars.close()
            await self._leave()
            raise
        except grpc.aio.AioRpcError:
            self._bars.close()
            self._tell_where_it_was()
            raise
        self._bars.close()
        return await self._conclude()

    async def _to_the_end(self) -> None:
        report = self._report
        job = await create_job(self._server, self._task.order, report.sent)
        report.job.CopyFrom(job)
        updates = follow(self._server.pipeline, job.job_id, on_cut=report.cut_off)
        async with aclosing(updates):
            async for update in updates:
                report.take(update)

    async def _conclude(self) -> Exit:
        job = self._report.job
        for warning in job.warnings:
            self._screen.line(f"warning: {warning.message} ({warning.reason})")
        if job.state == job_pb.JOB_STATE_SUCCEEDED:
            self._finish(await self._write())
            return Exit.OK
        self._finish(await self._write_what_was_heard())
        return verdict(job)

    def _finish(self, paths: list[Path]) -> None:
        for path in paths:
            self._screen.line(f"wrote {path}")
        if self._task.json_lines:
            self._screen.out(to_json(self._result(paths)))

    def _result(self, paths: list[Path]) -> dict[str, object]:
        job = self._report.job
        failure = {"reason": job.failure.reason, "message": job.failure.message}
        return {
            "type": "finished",
            "job_id": job.job_id,
            "state": job_pb.JobState.Name(job.state).removeprefix("JOB_STATE_"),
            "language": job.language,
            "model": job.model,
            **({"language_out": job.language_out} if job.language_out else {}),
            "files": [str(path) for path in paths],
            **({"failure": failure} if job.HasField("failure") else {}),
        }

    async def _write(self) -> list[Path]:
        if self._task.output is None:
            return []
        return await self._task.output.fetch(self._server, self._report.job, self._stem())

    async def _write_what_was_heard(self) -> list[Path]:
        """Nothing that was heard is lost; but nobody takes it for the whole."""
        output, job = self._task.output, self._report.job
        if output is None or not self._report.segments:
            return []
        try:
            paths = await output.fetch(
                self._server, job, f"{self._stem()}.partial", LAST_WORDS_SECONDS
            )
        except (grpc.aio.AioRpcError, CommandError) as error:
            what = error.details() if isinstance(error, grpc.aio.AioRpcError) else error
            self._screen.line(f"what was heard so far could not be written: {what}")
            return []
        self._screen.line(f"captions heard before the end: {self._report.segments}")
        return paths

    def _stem(self) -> str:
        source, job = self._task.order.source, self._report.job
        title = source.path.stem if isinstance(source, LocalFile) else job.media.title
        return file_stem(title, job.job_id)

    async def _leave(self) -> None:
        """We were told to stop: so is the job, and what was heard is kept."""
        job_id = self._report.job.job_id
        if not job_id:
            return
        if self._task.server is not None:
            await self._cancel(job_id)
        for path in await self._write_what_was_heard():
            self._screen.line(f"wrote {path}")

    async def _cancel(self, job_id: str) -> None:
        request = pb.CancelJobRequest(job_id=job_id, note="interrupted at the terminal")
        try:
            await self._server.pipeline.CancelJob(
                request, timeout=LAST_WORDS_SECONDS, metadata=call_metadata()
            )
        except grpc.aio.AioRpcError:
            self._screen.line(f"job {job_id} could not be cancelled and may still run")
        else:
            self._screen.line(f"job {job_id} was cancelled")

    def _tell_where_it_was(self) -> None:
        job_id = self._report.job.job_id
        if job_id and self._task.server is not None:
            self._screen.line(
                f"job {job_id} may still run; follow it with: ytcaption watch {job_id}"
            )
