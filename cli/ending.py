"""Stopping and removing jobs and collections."""

from functools import partial
from typing import Any

import click

from cli.channel import UNARY_SECONDS, Server, connected
from cli.collections import cancel_collection, delete_collection
from cli.exits import Exit
from cli.jobs import state_of
from cli.kinds import job_or_collection
from cli.reporting import as_dict
from cli.roster import collection_state
from cli.text import to_json
from mesh.correlation import call_metadata
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1.collection_pb2 import Collection


async def cancel(address: str, wanted: str, note: str, *, as_json: bool) -> Exit:
    """Says how the job or the collection stands afterwards: it may have ended by itself."""
    async with connected(address) as server:
        done = await job_or_collection(
            wanted,
            partial(_cancel_job, server, wanted, note),
            partial(cancel_collection, server, wanted, note),
        )
    state = state_of(done) if isinstance(done, job_pb.Job) else collection_state(done)
    click.echo(to_json(as_dict(done)) if as_json else f"{wanted} {state}")
    return Exit.OK


async def _cancel_job(server: Server, job_id: str, note: str) -> job_pb.Job | Collection:
    request = pb.CancelJobRequest(job_id=job_id, note=note)
    done = await server.pipeline.CancelJob(request, timeout=UNARY_SECONDS, metadata=call_metadata())
    return done.job


async def delete(address: str, wanted: str, *, as_json: bool) -> Exit:
    """Says what was removed."""
    async with connected(address) as server:
        removed = await job_or_collection(
            wanted, partial(_delete_job, server, wanted), partial(_delete_all, server, wanted)
        )
    if as_json:
        click.echo(to_json(removed))
    elif "job_id" in removed:
        events, files = removed["events_removed"], removed["artifacts_removed"]
        click.echo(f"{wanted} deleted: {events} events, {files} files")
    else:
        click.echo(f"{wanted} deleted: {removed['jobs_removed']} jobs")
    return Exit.OK


async def _delete_job(server: Server, job_id: str) -> dict[str, Any]:
    request = pb.DeleteJobRequest(job_id=job_id)
    done = await server.pipeline.DeleteJob(request, timeout=UNARY_SECONDS, metadata=call_metadata())
    return {
        "job_id": job_id,
        "events_removed": done.events_removed,
        "artifacts_removed": done.artifacts_removed,
    }


async def _delete_all(server: Server, collection_id: str) -> dict[str, Any]:
    removed = await delete_collection(server, collection_id)
    return {"collection_id": collection_id, "jobs_removed": removed}
