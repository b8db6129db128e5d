"""What a mesh does that runs without us: handing a job in, following one or a collection."""

from contextlib import aclosing
from functools import partial

from cli.bars import bars_for
from cli.channel import Server, connected
from cli.collections import watch_collection
from cli.exits import CommandError, Exit
from cli.kinds import job_or_collection
from cli.reporting import Report, as_dict, failure_line
from cli.screen import Screen
from cli.sources import Order, create_job
from cli.text import to_json
from mesh.watching import follow
from ytcaption.v1 import job_pb2 as job_pb


async def submit(address: str, order: Order, *, wait: bool, as_json: bool) -> Exit:
    """The job's id on stdout as soon as it is durable."""
    async with connected(address) as server:
        with Screen() as screen:
            bars = bars_for(screen)
            report = Report(screen, bars, captions=False)
            try:
                report.job.CopyFrom(await create_job(server, order, report.sent))
                if not (wait and as_json):
                    screen.out(to_json(as_dict(report.job)) if as_json else report.job.job_id)
                if wait:
                    await _follow(server, report.job.job_id, report)
            finally:
                bars.close()
            if not wait:
                return Exit.OK
            if as_json:
                screen.out(to_json(as_dict(report.job)))
            return verdict(report.job)


async def _follow(server: Server, job_id: str, report: Report) -> None:
    async with aclosing(follow(server.pipeline, job_id, on_cut=report.cut_off)) as updates:
        async for update in updates:
            report.take(update)


async def watch(address: str, wanted: str, after: int, *, as_json: bool, quiet: bool) -> Exit:
    """Captions of a job, members of a collection, or every update, on stdout."""
    async with connected(address) as server:
        with Screen(quiet=quiet) as screen:
            return await job_or_collection(
                wanted,
                partial(_watch_job, server, screen, wanted, after, as_json=as_json),
                partial(watch_collection, server, screen, wanted, after, as_json=as_json),
            )


async def _watch_job(
    server: Server, screen: Screen, job_id: str, after: int, *, as_json: bool
) -> Exit:
    bars = bars_for(screen)
    report = Report(screen, bars, captions=not as_json)
    updates = follow(server.pipeline, job_id, after, on_cut=report.cut_off)
    try:
        async with aclosing(updates):
            async for update in updates:
                report.take(update)
                if as_json:
                    screen.out(to_json(as_dict(update)))
    finally:
        bars.close()
    return verdict(report.job)


def verdict(job: job_pb.Job) -> Exit:
    """The code of a job that has ended; raises if it ended badly."""
    if job.state == job_pb.JOB_STATE_SUCCEEDED:
        return Exit.OK
    if job.state == job_pb.JOB_STATE_CANCELLED:
        note = f": {job.cancel_note}" if job.cancel_note else ""
        raise CommandError(f"the job was cancelled{note}", Exit.JOB_FAILED)
    raise CommandError(failure_line(job.failure), Exit.JOB_FAILED)
