"""jobs, job and captions: lists jobs, shows one, prints its captions."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from cli.channel import Server, call
from cli.client.lists import ListSpec, print_list, watch_list
from cli.files.captions import write_whole
from cli.render.bars import figure
from cli.render.messages import (
    failure_line,
    job_source,
    job_state,
    job_title,
    message_json,
)
from cli.render.screen import minute, print_facts
from cli.render.text import lines_for_terminal
from mesh.messages import enum_word
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import pipeline_service_pb2 as pb


async def list_jobs(  # noqa: PLR0913 # one for each option
    server: Server, states: Sequence[str], search: str, limit: int, *, watch: bool, as_json: bool
) -> None:
    """Prints the list, or with `watch` shows it and its changes until it is interrupted."""
    numbers = [job_pb.JobState.Value(f"JOB_STATE_{name.upper()}") for name in states]
    if watch:
        watched = pb.WatchJobsRequest(states=numbers, query=search)
        await watch_list(server.pipeline.WatchJobs, watched, JOBS, limit, as_json=as_json)
    else:
        listed = pb.ListJobsRequest(states=numbers, query=search)
        await print_list(server.pipeline.ListJobs, listed, JOBS, limit, as_json=as_json)


def _row(job: job_pb.Job) -> Sequence[str]:
    progress = f"{job.progress:.0%}" if job.HasField("progress") else ""
    return job.job_id, job_state(job), progress, minute(job.create_time), job_title(job)


JOBS: ListSpec[job_pb.Job] = ListSpec(
    id_field="job_id",
    heads=("job", "state", "progress", "accepted", "source"),
    row=_row,
    items=lambda page: page.jobs,
)


async def show_job(server: Server, job_id: str, *, as_json: bool) -> None:
    """Prints the facts of one job."""
    job = (await call(server.pipeline.GetJob, pb.GetJobRequest(job_id=job_id))).job
    if as_json:
        click.echo(message_json(job))
    else:
        print_facts(_facts(job))


def _facts(job: job_pb.Job) -> list[tuple[str, str]]:
    stages = [one for one in map(figure, job.stages) if one is not None]
    usual = job.priority in (job_pb.PRIORITY_UNSPECIFIED, job_pb.PRIORITY_NORMAL)
    return [
        ("job", job.job_id),
        ("state", job_state(job)),
        ("source", job_source(job)),
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
        ("group", job.group),
        ("priority", "" if usual else enum_word(job_pb.Priority, job.priority)),
        ("webhook", job.webhook_url),
        ("collection", job.collection_id),
        ("correlation", job.correlation_id),
    ]


async def print_captions(
    server: Server, request: pb.GetCaptionsRequest, output: Path | None
) -> None:
    """Writes captions unchanged to a file or a pipe; made safe for a terminal."""
    content = (await call(server.pipeline.GetCaptions, request)).content
    if output is not None:
        write_whole(output, content)
        click.echo(f"wrote {output}", err=True)
    elif sys.stdout.isatty():
        click.echo(lines_for_terminal(content.decode(errors="replace")))
    else:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
