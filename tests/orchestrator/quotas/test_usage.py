"""What owners use, counted from records."""

import random
from time import time

import pytest

from orchestrator.quotas.claims import MAX_CHARGES, compacted
from orchestrator.quotas.usage import (
    COLLECTIONS,
    DAY_SECONDS,
    LIMITS,
    QUEUED_JOBS,
    RUNNING_JOBS,
    STORED_BYTES,
    WEBHOOKS,
    LimitId,
    UsageTable,
    heard_of,
)
from ytcaption.v1 import collection_pb2, job_pb2
from ytcaption.v1 import quota_pb2 as pb

QUEUED, RUNNING = job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_RUNNING
SUCCEEDED, FAILED = job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_FAILED
OWNERS = ("", "ana", "bia")


def job_of(draw: random.Random) -> job_pb2.Job:
    job = job_pb2.Job(owner=draw.choice(OWNERS), state=draw.choice((QUEUED, RUNNING, SUCCEEDED)))
    job.webhook_url = draw.choice(("", "http://example.test"))
    job.source.upload.size_bytes = draw.choice((0, 10, 2**40))
    job.artifacts.add(size_bytes=draw.choice((0, 7)))
    job.media.duration.seconds = draw.choice((0, 60))
    job.update_time.GetCurrentTime()
    if job.state == SUCCEEDED:
        job.end_time.FromSeconds(int(time() - draw.choice((5, 2 * DAY_SECONDS))))
    return job


def counted(jobs: list[job_pb2.Job], limit: LimitId) -> int:
    """The same by another way: looking at every job."""
    return {
        QUEUED_JOBS: sum(job.state == QUEUED for job in jobs),
        RUNNING_JOBS: sum(job.state == RUNNING for job in jobs),
        STORED_BYTES: sum(
            job.source.upload.size_bytes + job.artifacts[0].size_bytes for job in jobs
        ),
        WEBHOOKS: sum(bool(job.webhook_url) and job.state != SUCCEEDED for job in jobs),
    }.get(limit, 0)


@pytest.mark.parametrize("seed", range(5))
def test_sums_are_those_of_all_records_after_any_changes(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 # no secret
    table, jobs = UsageTable(), dict[str, job_pb2.Job]()
    for revision in range(1, 400):
        id_ = str(draw.randrange(30))
        if draw.random() < 0.3:
            jobs.pop(id_, None)
            table.remove(id_, revision)
        else:
            jobs[id_] = job_of(draw)
            table.put_job(id_, jobs[id_], revision)
        assert table.revision(id_) == revision
        for owner in OWNERS:
            owned = {one: job for one, job in jobs.items() if job.owner == owner}
            for limit in LIMITS:
                assert table.used(owner, limit) == counted([*owned.values()], limit)
            day = time() - DAY_SECONDS
            heard = {one: heard_of(job) for one, job in owned.items()}
            assert table.heard(owner) == {
                one: what for one, what in heard.items() if what.seconds and what.time > day
            }


def test_a_collection_counts_until_it_is_settled() -> None:
    table = UsageTable()
    collection = collection_pb2.Collection(owner="ana", webhook_url="http://example.test")
    table.put_collection("one", collection, 1)
    open_ = [table.used("ana", limit) for limit in (COLLECTIONS, WEBHOOKS)]
    collection.settled = True
    table.put_collection("one", collection, 2)

    assert open_ == [1, 1]
    assert [table.used("ana", limit) for limit in LIMITS] == [0] * len(LIMITS)


def test_of_a_failed_job_the_part_that_was_heard_counts_and_of_captions_nothing() -> None:
    job = job_pb2.Job(state=FAILED, progress=0.25)
    job.media.duration.FromSeconds(100)
    part = heard_of(job).seconds
    job.state = SUCCEEDED
    whole = heard_of(job).seconds
    job.human_captions.SetInParent()

    assert (part, whole, heard_of(job).seconds) == (25, 100, 0)


def test_many_charges_become_one_for_each_hour_and_their_sum_stays() -> None:
    charges = [pb.AudioCharge(charge_id=str(n), seconds=n) for n in range(MAX_CHARGES + 1)]
    for n, charge in enumerate(charges):
        charge.time.FromSeconds(1_700_000_000 + 100 * n)
    random.Random(1).shuffle(charges)  # noqa: S311

    fewer = compacted(charges)

    assert len(fewer) < MAX_CHARGES * 0.6
    assert sum(one.seconds for one in fewer) == sum(range(MAX_CHARGES + 1))
