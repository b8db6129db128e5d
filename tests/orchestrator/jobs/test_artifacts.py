"""Files stored for jobs: any part can be read."""

import json
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from mesh.bus import Bus
from mesh.correlation import new_id
from orchestrator.jobs.artifacts import FAR_BYTES, Artifacts

NAME = "audio.webm"
CONTENT = b"".join(number.to_bytes(4) for number in range(FAR_BYTES // 2 + 1234))
"""Nowhere the same twice."""
CHUNK = 128 * 1024


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return path


async def stored(bus: Bus, path: Path) -> str:
    """Stores CONTENT for a new job."""
    job_id = new_id()
    assert await Artifacts(bus).put_file(job_id, NAME, path) == len(CONTENT)
    return job_id


async def part(bus: Bus, job_id: str, offset: int, limit: int) -> bytes:
    return b"".join([piece async for piece in Artifacts(bus).read(job_id, NAME, offset, limit)])


@pytest.mark.parametrize(
    ("offset", "limit"),
    [
        (0, 0),
        (5, 100),
        (FAR_BYTES - 1, 0),
        (FAR_BYTES, 1),
        (FAR_BYTES + 77, CHUNK + 1),
        (12 * CHUNK - 1, 2),
        (len(CONTENT) - 1, 0),
        (len(CONTENT), 0),
        (len(CONTENT) + FAR_BYTES, 10),
    ],
)
async def test_any_part_of_a_file_can_be_read(
    bus: Bus, file: Path, offset: int, limit: int
) -> None:
    job_id = await stored(bus, file)

    end = offset + limit if limit else None
    assert await part(bus, job_id, offset, limit) == CONTENT[offset:end]


async def test_a_distant_part_is_read_without_the_chunks_before_it(bus: Bus, file: Path) -> None:
    job_id = await stored(bus, file)
    await _forget_second_chunk(bus, job_id)

    assert await part(bus, job_id, FAR_BYTES + 9, 500) == CONTENT[FAR_BYTES + 9 : FAR_BYTES + 509]


async def test_a_file_whose_chunks_lie_between_those_of_others_is_read_whole(
    bus: Bus, file: Path
) -> None:
    job_id = await stored(bus, file)
    await _store_again_with_others_between(bus, job_id)

    for offset in (FAR_BYTES + 9, len(CONTENT) - 10):
        assert await part(bus, job_id, offset, 500) == CONTENT[offset : offset + 500]


async def _chunks(bus: Bus, job_id: str) -> tuple[dict[str, object], list[tuple[int, bytes]]]:
    bucket = bus.names.artifacts_bucket
    found = await bus.jetstream.get_last_msg(f"OBJ_{bucket}", _meta_subject(bus, job_id))
    info = json.loads(found.data or b"")
    stored = bus.read(f"OBJ_{bucket}", f"$O.{bucket}.C.{info['nuid']}", batch=4)
    return info, [(chunk.sequence, chunk.data) async for chunk in stored]


def _meta_subject(bus: Bus, job_id: str) -> str:
    coded = urlsafe_b64encode(f"{job_id}/{NAME}".encode()).decode()
    return f"$O.{bus.names.artifacts_bucket}.M.{coded}"


async def _forget_second_chunk(bus: Bus, job_id: str) -> None:
    _, chunks = await _chunks(bus, job_id)
    await bus.jetstream.delete_msg(f"OBJ_{bus.names.artifacts_bucket}", chunks[1][0])


async def _store_again_with_others_between(bus: Bus, job_id: str) -> None:
    """As two puts at the same time leave it."""
    bucket = bus.names.artifacts_bucket
    info, chunks = await _chunks(bus, job_id)
    for number, (_, data) in enumerate(chunks):
        await bus.publish(f"$O.{bucket}.C.AGAIN", data)
        if number % 3 == 0:
            await bus.publish(f"$O.{bucket}.C.OTHER", b"somebody else's")
    again = json.dumps({**info, "nuid": "AGAIN"}).encode()
    await bus.publish(_meta_subject(bus, job_id), again, {"Nats-Rollup": "sub"})
