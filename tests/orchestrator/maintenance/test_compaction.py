"""What nats-server leaves in its files, and how it is made to drop it."""

from pathlib import Path

import pytest

from mesh.bus import Bus
from mesh.correlation import new_id
from mesh.errors import LimitExceededError
from mesh.stores import is_filler
from orchestrator.jobs.dead_letters import DeadLetterFilter, DeadLetters
from orchestrator.jobs.index import JobIndex
from orchestrator.jobs.store import ConflictError, JobStore
from orchestrator.maintenance.compaction import FILLER_BYTES, Compaction
from tests.orchestrator.maintenance.test_erasure import found_in_files
from tests.support.polling import until
from ytcaption.v1 import job_pb2

MARK = "markana"
BLOCK = 8 * 1024 * 1024


async def compact(bus: Bus, stream: str) -> None:
    for name, filler_subject, again in Compaction(bus).steps():
        if name == stream:
            await Compaction(bus).run(name, filler_subject, again=again)


async def fill(bus: Bus, own: str, other: str) -> None:
    """Events of two jobs in one block; the other job has three quarters of it."""
    names = bus.names
    for number in range(40):
        mine = number % 8 == 0
        data = (MARK if mine else "other").encode() + bytes(128 * 1024)
        await bus.publish(names.event(own if mine else other, "segment_settled"), data)


async def test_a_purge_leaves_the_bytes_beside_those_of_others_and_erasing_overwrites_them(
    broker_bus: Bus, tmp_path: Path
) -> None:
    bus, names = broker_bus, broker_bus.names
    stream, purged, erased, other = names.events_stream, new_id(), new_id(), new_id()
    await fill(bus, purged, other)

    await bus.purge(stream, names.event(purged, "*"))
    await compact(bus, stream)
    assert found_in_files(tmp_path, MARK), "the control: others fill more than half of the block"

    async def is_gone() -> bool:
        return not found_in_files(tmp_path, MARK)

    await bus.purge(stream, ">")  # of everything: the files go, a moment later
    await until(is_gone)
    await fill(bus, erased, other)
    assert found_in_files(tmp_path, MARK)
    async for stored in bus.read(stream, names.event(erased, "*")):
        assert await bus.erase(stream, stored.sequence)
        assert not await bus.erase(stream, stored.sequence)

    assert found_in_files(tmp_path, MARK) == []
    assert len([one async for one in bus.read(stream, names.event(other, "*"))]) == 35


async def test_former_values_of_keys_stay_until_the_bucket_is_compacted(
    broker_bus: Bus, tmp_path: Path
) -> None:
    bus, jobs = broker_bus, JobStore(broker_bus)
    index = JobIndex(bus)
    kept, gone, deleted = [new_id() for _ in range(3)]
    for job_id in (kept, gone, deleted):
        record = job_pb2.JobRecord(job=job_pb2.Job(job_id=job_id, caller=f"{MARK} {job_id}"))
        await jobs.create(record)
    for _ in range(30):  # others' records fill more than half of what is written
        record = job_pb2.JobRecord(job=job_pb2.Job(job_id=new_id(), caller="x" * 64 * 1024))
        await jobs.create(record)
    before = await jobs.get(kept)
    before.job.caller = "another"
    await jobs.save(before)
    await jobs.remove(gone)
    await jobs.remove(deleted)
    await index.catch_up()
    stored = dict([one async for one in jobs.stored()])
    assert found_in_files(tmp_path, MARK)

    await compact(bus, f"KV_{bus.names.jobs_bucket}")

    assert found_in_files(tmp_path, MARK) == []
    assert dict([one async for one in jobs.stored()]) == stored
    with pytest.raises(ConflictError):
        await jobs.save(before)
    assert (await jobs.get(kept)).job.caller == "another"
    assert not await jobs.exists(deleted)
    await index.catch_up()
    assert len(await index.owned("")) == 31


async def test_dead_letters_keep_their_order_and_their_ids(broker_bus: Bus, tmp_path: Path) -> None:
    letters = DeadLetters(broker_bus, JobStore(broker_bus))
    ids = [new_id() for _ in range(20)]
    for id_ in ids:
        letter = job_pb2.DeadLetter(kind=job_pb2.LETTER_KIND_EVENT, letter_id=id_, subject="x")
        letter.failure.message = MARK if id_ == ids[3] else "other"
        assert await letters.add(letter)
    await letters.purge(DeadLetterFilter(job_id=ids[3]), dry_run=False)
    assert found_in_files(tmp_path, MARK)

    await compact(broker_bus, broker_bus.names.dead_letter_stream)

    listed = (await letters.page(50, "", "")).items
    assert [one.letter_id for one in listed] == [one for one in reversed(ids) if one != ids[3]]
    assert found_in_files(tmp_path, MARK) == []
    again = await letters.of(ids[0])
    assert again is not None
    await letters.remove(again)
    assert await letters.of(ids[0]) is None


async def test_no_filler_stays_not_even_of_a_run_that_was_killed(broker_bus: Bus) -> None:
    bus = broker_bus
    for stream, filler_subject, again in Compaction(bus).steps():
        await bus.publish(filler_subject(1), b"")

        await Compaction(bus).run(stream, filler_subject, again=again)

        left = [one.subject async for one in bus.read(stream, ">") if is_filler(one.subject)]
        assert left == []
    ids = [f"a.work.low.{new_id()}", f"a.events.{new_id()}.job_finished", "$KV.A.cache.0"]
    assert not any(map(is_filler, ids))


async def test_a_store_without_room_refuses_and_loses_nothing(broker_bus: Bus) -> None:
    bus, names = broker_bus, broker_bus.names
    state = await bus.state(names.dead_letter_stream)
    config = (await bus.jetstream.stream_info(names.dead_letter_stream)).config
    await bus.publish(names.dead_letter(new_id()), b"precious")
    await bus.jetstream.update_stream(config.evolve(max_bytes=FILLER_BYTES // 2))

    with pytest.raises(LimitExceededError):
        await compact(bus, names.dead_letter_stream)

    assert (await bus.state(names.dead_letter_stream)).messages == state.messages + 1
