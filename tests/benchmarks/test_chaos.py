"""A little chaos with everything real, and the counting that judges it."""

from collections import Counter
from typing import Any

import pytest

from benchmarks.chaos import Arguments, run_chaos
from benchmarks.chaos_caller import Seen
from benchmarks.chaos_gathered import Evidence, SeenCollection, weigh
from benchmarks.chaos_mesh import planned_kills
from benchmarks.chaos_report import Outcome, Run, judge, table
from benchmarks.processes import SERVICES
from ytcaption.v1 import collection_pb2, event_pb2, job_pb2
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import pipeline_service_pb2 as pb


@pytest.mark.timeout(290)
async def test_five_kills_lose_repeat_and_change_nothing() -> None:
    args = Arguments(jobs=3, kills=5, seed=7, limit_seconds=250, pause=1.5, members=4, sources=2)
    run = await run_chaos(args)

    assert run.fault() == "", table(run)
    assert len(run.outcomes) == 3
    assert run.collection is not None
    assert run.collection.members == 4
    assert run.kills == dict.fromkeys(SERVICES, 1)


def test_the_same_seed_strikes_in_the_same_order_and_every_kind_in_turn() -> None:
    planned = list(planned_kills(60, 4, 1))

    assert planned == list(planned_kills(60, 4, 1))
    assert planned != list(planned_kills(60, 4, 2))
    assert Counter(blow.kind for blow in planned) == dict.fromkeys(SERVICES, 12)
    assert all(0 <= blow.pause <= 8 for blow in planned)


def _event_log(*events: event_pb2.Event) -> list[pb.WatchJobResponse]:
    return [pb.WatchJobResponse(sequence=at, event=event) for at, event in enumerate(events, 11)]


def _segment(index: int) -> event_pb2.Event:
    event = event_pb2.Event(type=event_pb2.EVENT_TYPE_SEGMENT_SETTLED)
    event.segment_settled.segment.index = index
    return event


def _result(state: "job_pb2.StageState.ValueType") -> event_pb2.Event:
    result = event_pb2.ExecutionResult(state=state)
    return event_pb2.Event(type=event_pb2.EVENT_TYPE_EXECUTION_RESULT, execution_result=result)


GOOD = _result(job_pb2.STAGE_STATE_COMPLETED)
END = event_pb2.Event(type=event_pb2.EVENT_TYPE_JOB_FINISHED)
DONE = job_pb2.Job(state=job_pb2.JOB_STATE_SUCCEEDED, attempt=3)


def _judged(
    *events: event_pb2.Event,
    seen: list[pb.WatchJobResponse] | None = None,
    job: job_pb2.Job | None = DONE,
    differs: bool = False,
) -> Outcome:
    event_log, watched = _event_log(*events), Seen()
    for update in event_log if seen is None else seen:
        watched.note(update)
    return judge("id", "short", job, event_log, watched, differs=differs)


def _fault(outcome: Outcome) -> str:
    return Run(seed=1, jobs=1, outcomes=[outcome]).fault()


def test_a_job_that_was_seen_through_is_no_fault() -> None:
    assert _fault(_judged(_segment(0), _segment(1), GOOD, END)) == ""


@pytest.mark.parametrize(
    ("outcome", "fault"),
    [
        (_judged(GOOD, END, job=None), "1 jobs lost"),
        (_judged(job=job_pb2.Job(state=job_pb2.JOB_STATE_RUNNING)), "1 jobs lost"),
        (_judged(job=job_pb2.Job(state=job_pb2.JOB_STATE_FAILED)), "1 jobs lost"),
        (_judged(GOOD, GOOD, END), "1 jobs with a second result"),
        (_judged(GOOD, END, END), "1 jobs with a second result"),
        (_judged(GOOD, END, differs=True), "1 transcripts that differ"),
        (_judged(_segment(0), _segment(0), GOOD, END), "1 events a watcher saw twice"),
        (
            _judged(GOOD, END, seen=[*_event_log(GOOD, END), *_event_log(GOOD)]),
            "1 events a watcher saw twice",
        ),
        (_judged(_segment(0), END, seen=_event_log(_segment(0))), "1 events a watcher missed"),
    ],
)
def test_every_fault_is_named(outcome: Outcome, fault: str) -> None:
    assert _fault(outcome) == fault


def test_a_request_that_made_two_jobs_or_none_is_a_fault() -> None:
    assert Run(seed=1, jobs=1, surplus=1).fault() == "1 surplus jobs"
    assert Run(seed=1, jobs=1, not_accepted=1).fault() == "1 jobs not accepted in time"


COMPLETED = collection_pb2.MEMBER_STATE_COMPLETED
FAILED = collection_pb2.MEMBER_STATE_FAILED


def _member(number: int, **fields: Any) -> collection_pb2.Member:
    usual: dict[str, Any] = {
        "source_url": f"http://{number}",
        "job_id": f"job {number}",
        "state": COMPLETED,
    }
    return collection_pb2.Member(number=number, **(usual | fields))


def _counted(completed: int) -> collection_pb2.Collection:
    counts = [collection_pb2.MemberCount(state=COMPLETED, count=completed)]
    return collection_pb2.Collection(counts=counts, member_count=completed)


def _gathered(**changes: Any) -> str:
    """What is said of a collection of two in which all went well but for these changes."""
    members = [_member(1), _member(2)]
    watched = SeenCollection()
    for sequence, member in enumerate(changes.pop("seen", members), 5):
        watched.note(collection_pb.WatchCollectionResponse(sequence=sequence, member=member))
    watched.sequences += changes.pop("also", [])
    usual: dict[str, Any] = {
        "expected": ["http://1", "http://2"],
        "record": _counted(2),
        "fold": _counted(2),
        "members": members,
        "newest": [5, 6],
        "seen": watched,
        "succeeded": 2,
        "second_results": 0,
        "differing": 0,
    }
    return Run(seed=1, jobs=1, collection=weigh(Evidence(**(usual | changes)))).fault()


def test_a_collection_that_was_seen_through_is_no_fault() -> None:
    assert _gathered() == ""


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"expected": ["http://1", "http://2", "http://3"]}, "1 members lost, 5 counts of"),
        ({"members": [_member(1), _member(2, state=FAILED)]}, "1 members lost, 1 counts of"),
        ({"members": [_member(1), _member(2), _member(3)]}, "1 members counted twice, 1 counts"),
        ({"members": [_member(1), _member(2, job_id="job 1")]}, "1 members counted twice"),
        ({"seen": [_member(1), _member(2), _member(2)]}, "1 members counted twice"),
        ({"second_results": 1}, "1 members counted twice"),
        ({"differing": 1}, "1 members' transcripts that differ"),
        ({"also": [6]}, "1 changes of members a watcher saw twice"),
        ({"also": [4]}, "1 changes of members a watcher saw twice"),
        ({"newest": [5, 6, 7]}, "1 changes of members a watcher missed"),
        ({"record": _counted(3)}, "2 counts of members that are wrong"),
        ({"fold": _counted(1)}, "1 counts of members that are wrong"),
        ({"succeeded": 1}, "1 counts of members that are wrong"),
    ],
)
def test_every_fault_of_a_collection_is_named(changes: dict[str, Any], fault: str) -> None:
    assert _gathered(**changes).startswith(fault)
