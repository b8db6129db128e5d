"""What is left of a job."""

import grpc

from mesh.bus import Bus
from mesh.status import reason_of
from tests.support.client import Client


async def gone(client: Client, job_id: str) -> bool:
    try:
        await client.job(job_id)
    except grpc.aio.AioRpcError as error:
        return reason_of(error) == "JOB_NOT_FOUND"
    return False


async def traces(bus: Bus, job_id: str) -> list[str]:
    """Every stored message that still knows the job."""
    return [
        stored.subject
        for stream in bus.names.streams()
        async for stored in bus.read(stream, ">")
        if not stored.deleted and (job_id in stored.subject or job_id.encode() in stored.data)
    ]
