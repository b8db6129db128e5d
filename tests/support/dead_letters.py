"""Dead jobs, and the actions on their dead letters."""

from typing import Any

import pytest

from mesh.bus import Bus
from mesh.errors import SourceRefusedError, UnavailableError
from mesh.reasons import Reason
from tests.support.client import Client
from tests.support.scripted import Script
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2


def private() -> SourceRefusedError:
    return SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE)


def busy() -> UnavailableError:
    return UnavailableError("busy", reason=Reason.SITE_ERROR)


async def dead_job(client: Client, script: Script) -> job_pb2.Job:
    script.failures = [private()]
    job = await client.finished((await client.create()).job_id)
    assert job.state == job_pb2.JOB_STATE_FAILED
    return job


async def letters(client: Client, **wanted: Any) -> list[job_pb2.DeadLetter]:
    listed = await client.admin.ListDeadLetters(pb.ListDeadLettersRequest(**wanted))
    return list(listed.dead_letters)


async def replay(client: Client, job_id: str) -> job_pb2.Job:
    request = pb.ReplayDeadLetterRequest(job_id=job_id)
    return (await client.admin.ReplayDeadLetter(request)).job


async def purge(client: Client, **wanted: Any) -> int:
    done = await client.admin.PurgeDeadLetters(pb.PurgeDeadLettersRequest(**wanted))
    return int(done.dead_letters_removed)


async def stored(bus: Bus, stream: str, subject: str) -> int:
    return len([item async for item in bus.read(stream, subject)])


async def queue_is_empty(bus: Bus) -> bool:
    return await stored(bus, bus.names.work_stream, ">") == 0


def dies_once(
    monkeypatch: pytest.MonkeyPatch, kind: type, name: str, *, at: str = "", times: int = 1
) -> list[str]:
    """Kills the next callers; only those with `at` as first argument or keyword, if it is given."""
    real = getattr(kind, name)
    deaths: list[str] = []

    async def dying(self: Any, *arguments: Any, **named: Any) -> Any:
        if len(deaths) < times and (not at or at in (*arguments[:1], *named)):
            deaths.append(name)
            raise RuntimeError("killed")
        return await real(self, *arguments, **named)

    monkeypatch.setattr(kind, name, dying)
    return deaths
