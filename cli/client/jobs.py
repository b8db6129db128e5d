"""Looking at the jobs of a mesh, and ending them."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cli.bars import figure
from cli.channel import UNARY_SECONDS, connected
from cli.exits import Exit
from cli.listing import print_list, read_list
from cli.live_listing import Kind, watch_list
from cli.outputs import get_captions, write_whole
from cli.reporting import as_dict, failure_line
from cli.tables import minute, print_facts
from cli.text import lines_for_terminal, to_json
from mesh.correlation import call_metadata
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import pipeline_service_pb2 as pb


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which jobs to list."""

    states: Sequence[str]
    search: str
    limit: int

    def fields(self) -> dict[str, Any]:
        """Of a request."""
        states = [job_pb.JobState.Value(f"JOB_STATE_{name.upper()}") for name in self.states]
        return {"states": states, "query": self.search}


async def list_jobs(address: str, wanted: Wanted, *, as_json: bool) -> Exit:
    """A table, or one JSON object a line."""
    request = pb.ListJobsRequest(**wanted.fields())
    async with connected(address) as server:
        call = server.pipeline.ListJobs
        found = await read_list(call, request, JOBS.items, wanted.limit)
    print_list(found, JOBS.heads, JOBS.row, as_json=as_json)
    return Exit.OK


async def watch_jobs(address: str, wanted: Wanted, *, as_json: bool) -> Exit:
    """The same for as long as somebody looks."""
    request = pb.WatchJobsRequest(**wanted.fields())
    async with connected(address) as server:
        call = server.pipeline.WatchJobs
        await watch_list(call, request, JOBS, wanted.limit, as_json=as_json)
    return Exit.OK


def _row(job: job_pb.Job) -> Sequence[str]:
    heard = f"{job.progress:.0%}" if job.HasField("progress") else ""
    return job.job_id, state_of(job), heard, minute(job.create_time), title_of(job)


JOBS: Kind[job_pb.Job] = Kind(
    id_field="job_id",
    heads=("job", "state", "heard", "accepted", "source"),
    row=_row,
    items=lambda page: page.jobs,
)


def state_of(job: job_pb.Job) -> str:
    """The state in one word."""
    return job_pb.JobState.Name(job.state).removeprefix("JOB_STATE_").lower()


def priority_of(job: job_pb.Job) -> str:
    """The priority in one word, if it is not the usual one."""
    if job.priority in (job_pb.PRIORITY_UNSPECIFIED, job_pb.PRIORITY_NORMAL):
        return ""
    return job_pb.Priority.Name(job.priority).removeprefix("PRIORITY_").lower()


def title_of(job: job_pb.Job) -> str:
    """What a person would call it."""
    return job.media.title or job.source.url or job.source.upload.file_name


async def show_job(address: str, job_id: str, *, as_json: bool) -> Exit:
    """Everything worth knowing about one job."""
    async with connected(address) as server:
        request = pb.GetJobRequest(job_id=job_id)
        found = await server.pipeline.GetJob(
            request, timeout=UNARY_SECONDS, metadata=call_metadata()
        )
    if as_json:
        click.echo(to_json(as_dict(found.job)))
    else:
        print_facts(_facts(found.job))
    return Exit.OK


def _facts(job: job_pb.Job) -> list[tuple[str, str]]:
    stages = [one for one in map(figure, job.stages) if one is not None]
    return [
        ("job", job.job_id),
        ("state", state_of(job)),
        ("source", job.source.url or job.source.upload.file_name),
        ("title", job.media.title),
        ("attempt", f"{job.attempt} of {job.max_attempts}" if job.attempt else ""),
        ("language", job.language),
        ("model", job.model),
        *((one.label, one.amount) for one in stages),
        ("captions", str(job.segment_count or "")),
        ("failure", failure_line(job.failure) if job.HasField("failure") else ""),
        *(("warning", f"{warning.message} ({warning.reason})") for warning in job.warnings),
        ("cancelled", job.cancel_note),
        ("caller", job.caller),
        ("priority", priority_of(job)),
        ("webhook", job.webhook_url),
        ("collection", job.collection_id),
        ("correlation", job.correlation_id),
    ]


async def print_captions(address: str, request: pb.GetCaptionsRequest, output: Path | None) -> Exit:
    """As they are for a file or a pipe; harmless for a terminal."""
    async with connected(address) as server:
        content = await get_captions(server, request)
    if output is not None:
        write_whole(output, content)
        click.echo(f"wrote {output}", err=True)
    elif sys.stdout.isatty():
        click.echo(lines_for_terminal(content.decode(errors="replace")))
    else:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    return Exit.OK
