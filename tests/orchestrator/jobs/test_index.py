"""The job index against a naive model, and as the bucket changes under it."""

import asyncio
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.bus import Bus
from mesh.errors import InvalidRequestError
from mesh.tasks import SingleFlight
from orchestrator.jobs.index import JobIndex, JobTable
from orchestrator.jobs.store import JobStore
from orchestrator.pipeline.stages import StateId
from tests.support.unretrieved import Unretrieved
from ytcaption.v1 import job_pb2, media_pb2

STATES: list[StateId] = [
    job_pb2.JOB_STATE_QUEUED,
    job_pb2.JOB_STATE_RUNNING,
    job_pb2.JOB_STATE_SUCCEEDED,
    job_pb2.JOB_STATE_FAILED,
]
Happened: TypeAlias = "list[tuple[str, StateId | None]]"
"""Jobs that came to be in a state, or went."""

IDS = [f"id-{number:02}" for number in range(12)]

changes = st.lists(st.tuples(st.sampled_from(IDS), st.sampled_from([*STATES, None])), max_size=60)
filters = st.sets(st.sampled_from(STATES))


def _record(job_id: str, state: StateId) -> bytes:
    record = job_pb2.JobRecord(job=job_pb2.Job(job_id=job_id, state=state), runner_id="secret")
    return record.SerializeToString()


def _after(happened: Happened) -> tuple[JobTable, dict[str, StateId]]:
    """The shelf, and what it should hold."""
    index_, model = JobTable(), dict[str, StateId]()
    for job_id, state in happened:
        if state is None:
            index_.remove(job_id)
            model.pop(job_id, None)
        else:
            index_.put(job_id, _record(job_id, state))
            model[job_id] = state
    return index_, model


@given(changes, filters, st.integers(1, 15), st.sampled_from(["", "id", *IDS, "zzz"]))
def test_a_page_is_what_sorting_and_filtering_everything_gives(
    happened: Happened, states: set[StateId], size: int, token: str
) -> None:
    index_, model = _after(happened)

    page = index_.page(size, token, states)

    matching = sorted(
        (key for key, state in model.items() if not states or state in states), reverse=True
    )
    older = [key for key in matching if not token or key < token]
    assert [job.job_id for job in page.items] == older[:size]
    assert [job.state for job in page.items] == [model[key] for key in older[:size]]
    assert page.next_token == (older[size - 1] if len(older) > size else "")
    assert page.total == len(matching)


@given(changes, filters, st.integers(1, 5))
def test_following_the_tokens_lists_every_job_once(
    happened: Happened, states: set[StateId], size: int
) -> None:
    index_, model = _after(happened)
    listed: list[str] = []
    token = ""
    while True:
        page = index_.page(size, token, states)
        listed += [job.job_id for job in page.items]
        token = page.next_token
        if not token:
            break

    assert listed == sorted(
        (key for key, state in model.items() if not states or state in states), reverse=True
    )


TALK = job_pb2.Job(
    job_id="0199ab-1",
    state=job_pb2.JOB_STATE_SUCCEEDED,
    source=job_pb2.Source(url="https://video.test/watch?v=XyZ"),
    media=media_pb2.MediaInfo(title="Straßenmusik à Orléans"),
)
MEMO = job_pb2.Job(
    job_id="0199cd-2",
    state=job_pb2.JOB_STATE_FAILED,
    source=job_pb2.Source(upload=job_pb2.Upload(file_name="Memo 7.ogg")),
)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("STRASSEN", [TALK]),
        ("a\u0300 orle\u0301ans", [TALK]),  # composed otherwise
        ("watch?v=xyz", [TALK]),
        ("memo 7", [MEMO]),
        ("0199", [MEMO, TALK]),
        ("0199CD", [MEMO]),
        ("99cd", []),  # of an id only the beginning
        ("orléans\nhttps", []),
        ("nothing of this", []),
    ],
)
def test_a_search_looks_at_title_address_name_and_the_beginning_of_the_id(
    query: str, found: list[job_pb2.Job]
) -> None:
    index_ = _index(TALK, MEMO)

    page = index_.page(10, "", [], query)

    assert [job.job_id for job in page.items] == [job.job_id for job in found]
    assert page.total == len(found)


def test_a_search_is_paged_and_narrowed_by_state_like_any_other_list() -> None:
    talks = [job_pb2.Job(job_id=f"t{number}", media=TALK.media) for number in range(5)]
    for number, talk in enumerate(talks):
        talk.state = STATES[number % 2]
    index_ = _index(MEMO, *talks)

    first = index_.page(2, "", [], "musik")
    second = index_.page(2, first.next_token, [], "musik")
    queued = index_.page(9, "", [STATES[0]], "musik")

    assert [job.job_id for job in (*first.items, *second.items)] == ["t4", "t3", "t2", "t1"]
    assert (first.total, queued.total) == (5, 3)


def test_a_search_sees_what_a_job_has_become_and_not_what_it_was() -> None:
    index_ = _index(TALK, MEMO)
    renamed = job_pb2.Job()
    renamed.CopyFrom(TALK)
    renamed.media.title = "Another title"

    index_.put(TALK.job_id, job_pb2.JobRecord(job=renamed).SerializeToString())
    index_.remove(MEMO.job_id)

    assert index_.page(9, "", [], "musik").total == 0
    assert index_.page(9, "", [], "another").total == 1
    assert index_.page(9, "", [], "memo").total == 0


def _index(*jobs: job_pb2.Job) -> JobTable:
    index_ = JobTable()
    for job in jobs:
        index_.put(job.job_id, job_pb2.JobRecord(job=job).SerializeToString())
    return index_


@given(changes)
def test_counts_leave_out_states_without_jobs(
    happened: Happened,
) -> None:
    index_, model = _after(happened)

    states = list(model.values())
    assert index_.counts() == {state: states.count(state) for state in set(states)}


async def _create(bus: Bus, job_id: str) -> None:
    job = job_pb2.Job(job_id=job_id, state=job_pb2.JOB_STATE_QUEUED)
    await JobStore(bus).create(job_pb2.JobRecord(job=job))


def _finish(record: job_pb2.JobRecord) -> bool:
    record.job.state = job_pb2.JOB_STATE_SUCCEEDED
    return True


UUIDS = [f"00000000-0000-7000-8000-{number:012}" for number in range(5)]


async def test_the_index_follows_the_bucket_through_changes_and_removals(bus: Bus) -> None:
    early, jobs = JobIndex(bus), JobStore(bus)
    for job_id in UUIDS:
        await _create(bus, job_id)
    await jobs.reserve("some-request")
    assert await early.counts() == {job_pb2.JOB_STATE_QUEUED: 5}

    await jobs.change(UUIDS[1], _finish)
    await jobs.remove(UUIDS[3])

    for index in (early, JobIndex(bus)):  # one that saw it happen, and one that came later
        page = await index.page(10, "", [])
        assert [job.job_id for job in page.items] == [UUIDS[4], UUIDS[2], UUIDS[1], UUIDS[0]]
        finished = await index.page(10, "", [job_pb2.JOB_STATE_SUCCEEDED])
        assert [job.job_id for job in finished.items] == [UUIDS[1]]
        assert (finished.total, finished.next_token) == (1, "")


async def test_concurrent_readers_all_see_what_was_stored_before(bus: Bus) -> None:
    index = JobIndex(bus)

    async def create_and_list(job_id: str) -> bool:
        await _create(bus, job_id)
        return job_id in {job.job_id for job in (await index.page(10, "", [])).items}

    assert all(await asyncio.gather(*map(create_and_list, UUIDS)))


async def test_a_negative_page_is_refused(bus: Bus) -> None:
    with pytest.raises(InvalidRequestError):
        await JobIndex(bus).page(-1, "", [])


async def test_callers_that_arrive_during_a_run_share_the_next_one() -> None:
    runs = 0
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def act() -> None:
        nonlocal runs
        runs += 1
        begun.set()
        await go_on.wait()

    shared = SingleFlight(act)
    first = asyncio.create_task(shared())
    await begun.wait()
    late = [asyncio.create_task(shared()) for _ in range(10)]
    await asyncio.sleep(0)
    assert runs == 1
    go_on.set()
    await asyncio.gather(first, *late)

    assert runs == 2


async def test_a_caller_that_gives_up_does_not_end_the_run_of_others() -> None:
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def act() -> None:
        begun.set()
        await go_on.wait()
        done.set()

    shared = SingleFlight(act)
    impatient, patient = asyncio.create_task(shared()), asyncio.create_task(shared())
    await begun.wait()
    impatient.cancel()
    go_on.set()
    await patient

    assert done.is_set()
    assert impatient.cancelled() or impatient.cancelling()


async def test_a_failed_run_raises_for_all_its_callers_and_the_next_run_is_fresh() -> None:
    failing = True

    async def act() -> None:
        if failing:
            raise RuntimeError("no")

    shared = SingleFlight(act)
    results = await asyncio.gather(shared(), shared(), return_exceptions=True)
    assert [type(result) for result in results] == [RuntimeError] * 2

    failing = False
    await shared()


async def test_a_run_that_fails_after_all_callers_were_cancelled_reports_no_error(
    unretrieved: Unretrieved,
) -> None:
    begun, go_on, over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def act() -> None:
        begun.set()
        await go_on.wait()
        asyncio.get_running_loop().call_soon(over.set)  # when it has failed
        raise RuntimeError("no caller is left")

    caller = asyncio.create_task(SingleFlight(act)())
    await begun.wait()
    caller.cancel()
    await asyncio.wait([caller])
    go_on.set()
    await over.wait()
    del caller

    assert unretrieved() == []
