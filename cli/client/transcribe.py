"""transcribe and submit: one source becomes a job, and its captions become files."""

import asyncio
from contextlib import aclosing, closing
from dataclasses import dataclass
from pathlib import Path

import grpc

from cli.channel import CANCEL_SECONDS, Server, call
from cli.execution import clean_up
from cli.exits import CommandError, Exit
from cli.files.captions import CaptionOutput
from cli.files.sources import JobSpec, LocalFile, create_job
from cli.local.mesh import server_or_embedded
from cli.render.job_updates import JobRenderer, job_exit
from cli.render.messages import job_state, message_json
from cli.render.screen import Screen
from cli.render.text import file_stem, to_json
from mesh.watching import follow
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import pipeline_service_pb2 as pb


async def submit(server: Server, spec: JobSpec, *, wait: bool, as_json: bool) -> Exit:
    """Prints the job's id as soon as the job is durable."""
    with Screen() as screen:
        with closing(JobRenderer(screen, captions=False)) as renderer:
            await _create(server, spec, renderer)
            if not (wait and as_json):
                screen.out(message_json(renderer.job) if as_json else renderer.job.job_id)
            if not wait:
                return Exit.OK
            await follow_job(server, renderer)
        if as_json:
            screen.out(message_json(renderer.job))
        return job_exit(renderer.job)


async def _create(server: Server, spec: JobSpec, renderer: JobRenderer) -> None:
    renderer.job.CopyFrom(await create_job(server, spec, renderer.show_upload))


async def follow_job(server: Server, renderer: JobRenderer) -> None:
    """Renders the updates of the renderer's job to its end."""
    job_id, on_cut = renderer.job.job_id, renderer.connection.lost
    async with aclosing(follow(server.pipeline, job_id, on_cut=on_cut)) as updates:
        async for update in updates:
            renderer.render(update)


@dataclass(frozen=True, slots=True)
class TranscribeOptions:
    """The command line of `transcribe`."""

    spec: JobSpec
    output: CaptionOutput
    server: str | None
    """None starts a mesh for this command."""

    as_json: bool = False
    quiet: bool = False


async def transcribe(options: TranscribeOptions) -> Exit:
    """Prints captions while they are transcribed, and writes files at the end."""
    options.output.prepare()
    with Screen(quiet=options.quiet) as screen:
        async with server_or_embedded(options.server, screen) as server:
            return await _Transcription(options, server, screen).run()


class _Transcription:
    def __init__(self, options: TranscribeOptions, server: Server, screen: Screen) -> None:
        self._options = options
        self._server = server
        self._screen = screen
        self._renderer = JobRenderer(screen, json_lines=options.as_json)

    async def run(self) -> Exit:
        try:
            with closing(self._renderer):
                await _create(self._server, self._options.spec, self._renderer)
                await follow_job(self._server, self._renderer)
        except (asyncio.CancelledError, BrokenPipeError):
            await self._interrupt()
            raise
        except grpc.aio.AioRpcError:
            self._print_watch_hint()
            raise
        return await self._conclude()

    async def _conclude(self) -> Exit:
        job = self._renderer.job
        for warning in job.warnings:
            self._screen.line(f"warning: {warning.message} ({warning.reason})")
        if job.state == job_pb.JOB_STATE_SUCCEEDED:
            paths = await self._options.output.fetch(self._server, job, self._stem())
            self._print_result(paths)
            return Exit.OK
        self._print_result(await self._write_partial())
        return job_exit(job)

    def _print_result(self, paths: list[Path]) -> None:
        for path in paths:
            self._screen.line(f"wrote {path}")
        if self._options.as_json:
            self._screen.out(to_json(self._result(paths)))

    def _result(self, paths: list[Path]) -> dict[str, object]:
        job = self._renderer.job
        failure = {"reason": job.failure.reason, "message": job.failure.message}
        warnings = [{"reason": one.reason, "message": one.message} for one in job.warnings]
        return {
            "type": "finished",
            "job_id": job.job_id,
            "state": job_state(job).upper(),
            "language": job.language,
            "model": job.model,
            **({"language_out": job.language_out} if job.language_out else {}),
            "files": [str(path) for path in paths],
            **({"warnings": warnings} if warnings else {}),
            **({"failure": failure} if job.HasField("failure") else {}),
        }

    async def _write_partial(self) -> list[Path]:
        """Keeps the captions of a job that did not succeed, under names that say so."""
        output, job = self._options.output, self._renderer.job
        if not (output.formats and self._renderer.segments):
            return []
        try:
            paths = await output.fetch(self._server, job, f"{self._stem()}.partial", CANCEL_SECONDS)
        except (grpc.aio.AioRpcError, CommandError) as error:
            what = error.details() if isinstance(error, grpc.aio.AioRpcError) else error
            self._screen.line(f"the captions so far could not be written: {what}")
            return []
        self._screen.line(f"captions before the end: {self._renderer.segments}")
        return paths

    def _stem(self) -> str:
        source, job = self._options.spec.source, self._renderer.job
        title = source.path.stem if isinstance(source, LocalFile) else job.media.title
        return file_stem(title, job.job_id)

    async def _interrupt(self) -> None:
        """Cancels the job, and keeps the captions so far; a second signal skips that."""
        if self._renderer.job.job_id:
            await clean_up(self._clean_up(), self._screen.line)

    async def _clean_up(self) -> None:
        if self._options.server is not None:
            await self._cancel(self._renderer.job.job_id)
        for path in await self._write_partial():
            self._screen.line(f"wrote {path}")

    async def _cancel(self, job_id: str) -> None:
        request = pb.CancelJobRequest(job_id=job_id, note="interrupted at the terminal")
        try:
            await call(self._server.pipeline.CancelJob, request, CANCEL_SECONDS)
        except grpc.aio.AioRpcError:
            self._screen.line(f"job {job_id} could not be cancelled and may still run")
        else:
            self._screen.line(f"job {job_id} was cancelled")

    def _print_watch_hint(self) -> None:
        job_id = self._renderer.job.job_id
        if job_id and self._options.server is not None:
            self._screen.line(
                f"job {job_id} may still run; follow it with: ytcaption watch {job_id}"
            )
