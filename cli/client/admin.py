"""What a mesh holds, and getting rid of it."""

from datetime import timedelta
from typing import Any

import click
from google.protobuf.duration import from_timedelta

from cli.channel import UNARY_SECONDS, connected
from cli.exits import Exit
from cli.text import for_terminal, size, to_json
from mesh.correlation import call_metadata
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2 as job_pb

# Every job is removed by itself, and there may be many.
REMOVING_SECONDS = 3600


async def show_stats(address: str, *, as_json: bool) -> Exit:
    """A line for each figure; every state is named, though no job be in it."""
    async with connected(address) as server:
        found = await server.admin.GetStats(
            pb.GetStatsRequest(), timeout=UNARY_SECONDS, metadata=call_metadata()
        )
    jobs = {_word(state): 0 for state in job_pb.JobState.values()[1:]}
    jobs |= {_word(one.state): one.count for one in found.jobs}
    uptime = found.uptime.ToTimedelta()
    if as_json:
        click.echo(
            to_json(
                {
                    "version": found.version,
                    "jobs": jobs,
                    "queue_depth": found.queue_depth,
                    "dead_letters": found.dead_letters,
                    "stored_bytes": found.stored_bytes,
                    "uptime_seconds": uptime.total_seconds(),
                }
            )
        )
        return Exit.OK
    facts = {
        **{name: str(count) for name, count in jobs.items()},
        "in the queue": str(found.queue_depth),
        "dead letters": str(found.dead_letters),
        "stored": size(found.stored_bytes),
        "up for": str(timedelta(seconds=int(uptime.total_seconds()))),
        "version": found.version,
    }
    for label, value in facts.items():
        click.echo(f"{label:<13} {for_terminal(value)}")
    return Exit.OK


def _word(state: "job_pb.JobState.ValueType") -> str:
    return job_pb.JobState.Name(state).removeprefix("JOB_STATE_").lower()


async def clean_up(address: str, max_age: timedelta, *, dry_run: bool, as_json: bool) -> Exit:
    """Says what went, or would."""
    async with connected(address) as server:
        done = await server.admin.Cleanup(
            pb.CleanupRequest(max_age=from_timedelta(max_age), dry_run=dry_run),
            timeout=REMOVING_SECONDS,
            metadata=call_metadata(),
        )
    if as_json:
        removed = {field.name: getattr(done, field.name) for field in done.DESCRIPTOR.fields}
        click.echo(to_json({"dry_run": dry_run, **removed}))
    else:
        click.echo(
            f"{_removed(dry_run)}: {done.jobs_removed} jobs, "
            f"{done.collections_removed} collections, {done.events_removed} events, "
            f"{done.artifacts_removed} files, {size(done.bytes_removed)}"
        )
    return Exit.OK


async def reset(address: str, confirmation: str, *, dry_run: bool, as_json: bool) -> Exit:
    """A line for each service; a service that could not do it is the exit code."""
    async with connected(address) as server:
        done = await server.admin.FactoryReset(
            pb.FactoryResetRequest(confirmation=confirmation, dry_run=dry_run),
            timeout=REMOVING_SECONDS,
            metadata=call_metadata(),
        )
    if as_json:
        services = [_plain(service) for service in done.services]
        click.echo(to_json({"dry_run": dry_run, "services": services}))
    else:
        for service in done.services:
            outcome = for_terminal(_outcome(service, dry_run=dry_run))
            click.echo(f"{for_terminal(service.name):<13} {outcome}")
    return Exit.OK if all(service.done for service in done.services) else Exit.UNAVAILABLE


def _plain(service: pb.ServiceReset) -> dict[str, Any]:
    return {field.name: getattr(service, field.name) for field in service.DESCRIPTOR.fields}


def _outcome(service: pb.ServiceReset, *, dry_run: bool) -> str:
    counts = (
        f"{_removed(dry_run)}: {service.jobs_removed} jobs, "
        f"{service.collections_removed} collections, {service.tasks_purged} tasks, "
        f"{service.files_removed} files, {size(service.bytes_removed)}"
    )
    return counts if service.done else f"NOT DONE  {service.error}; {counts}"


def _removed(dry_run: bool) -> str:
    return "would remove" if dry_run else "removed"
