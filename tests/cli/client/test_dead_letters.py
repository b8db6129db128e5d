"""The dead-letter commands against the fake orchestrator on a real socket."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.command import finish, run, start
from tests.support.fake_orchestrator import FakeAdmin, FakePipeline, serving
from tests.support.job_updates import (
    FAILED,
    JOB_ID,
    REPLAYED,
    SUCCEEDED,
    accepted,
    attempt_failed,
    finished,
    segment,
)
from ytcaption.v1 import job_pb2 as job_pb


def letter(job_id: str, reason: str = "VIDEO_PRIVATE", **fields: Any) -> job_pb.DeadLetter:
    failure = job_pb.Failure(
        reason=reason, message="[bold]no\x1b[31m", stage=job_pb.STAGE_DOWNLOAD, attempt=4
    )
    found = job_pb.DeadLetter(
        job_id=job_id, failure=failure, attempts=4, correlation_id="thread-7", **fields
    )
    found.dead_time.FromDatetime(datetime(2026, 11, 5, 12, 30, 9, tzinfo=UTC))
    return found


def admin_with(*letters: job_pb.DeadLetter) -> FakeAdmin:
    admin = FakeAdmin()
    admin.letters = list(letters)
    return admin


async def test_letters_are_listed_over_pages_up_to_the_limit() -> None:
    admin = admin_with(*(letter(f"{number:036}") for number in range(7)))

    async with serving(admin=admin) as address:
        ended = await run("dlq", "list", "--limit", "5", "--json", "--server", address)

    assert ended.code == 0
    found = [json.loads(line) for line in ended.out.splitlines()]
    assert [one["job_id"] for one in found] == [f"{number:036}" for number in range(5)]
    assert found[0]["failure"]["reason"] == "VIDEO_PRIVATE"
    assert len(admin.listed) == 3


async def test_the_table_shows_only_the_given_reason_and_no_control_characters() -> None:
    admin = admin_with(letter(JOB_ID), letter(f"{7:036}", "NO_AUDIO"))

    async with serving(admin=admin) as address:
        ended = await run("dlq", "list", "--reason", "NO_AUDIO", "--server", address)

    assert [request.reason for request in admin.listed] == ["NO_AUDIO"]
    assert f"{7:036}" in ended.out
    assert JOB_ID not in ended.out
    assert "2026-11-05 12:30" in ended.out
    assert "[bold]no" in ended.out
    assert "\x1b" not in ended.out


async def test_a_letter_is_shown_with_all_its_facts() -> None:
    admin = admin_with(
        *(letter(f"{number:036}") for number in range(5)), letter(JOB_ID, sequence=9)
    )
    pipeline = FakePipeline()
    pipeline.jobs = [job_pb.Job()]
    pipeline.jobs[0].CopyFrom(FAILED)
    pipeline.jobs[0].source.url = "https://example.net/v"

    async with serving(pipeline, admin) as address:
        ended = await run("dlq", "show", JOB_ID, "--server", address)
        as_json = await run("dlq", "show", JOB_ID, "--server", address, "--json")

    facts = dict(line.split(None, 1) for line in ended.out.splitlines())
    assert ended.code == 0
    assert (facts["job"], facts["attempts"], facts["sequence"]) == (JOB_ID, "4", "9")
    assert facts["source"] == "https://example.net/v"
    assert facts["failure"].endswith("(VIDEO_PRIVATE)")
    assert (facts["stage"], facts["died"]) == ("download", "2026-11-05 12:30:09 UTC")
    assert "\x1b" not in ended.out
    assert json.loads(as_json.out)["sequence"] == "9"


@pytest.mark.parametrize("state", [job_pb.JOB_STATE_SUCCEEDED, job_pb.JOB_STATE_FAILED])
async def test_a_job_without_a_letter_cannot_be_shown(state: Any) -> None:
    pipeline = FakePipeline()
    pipeline.jobs = [job_pb.Job(job_id=JOB_ID, state=state)]

    async with serving(pipeline, admin_with(letter("another"))) as address:
        ended = await run("dlq", "show", JOB_ID, "--server", address)

    assert (ended.code, ended.out) == (3, "")
    assert ended.err.endswith("(DEAD_LETTER_NOT_FOUND)\n")


async def test_replay_says_that_the_job_is_queued() -> None:
    admin = admin_with(letter(JOB_ID))
    pipeline = FakePipeline()

    async with serving(pipeline, admin) as address:
        ended = await run("dlq", "replay", JOB_ID, "--server", address)
        as_json = await run("dlq", "replay", JOB_ID, "--server", address, "--json")

    assert (ended.code, ended.out, ended.err) == (0, f"{JOB_ID} queued\n", "")
    assert json.loads(as_json.out)["state"] == "JOB_STATE_QUEUED"
    assert admin.replayed == [JOB_ID, JOB_ID]
    assert pipeline.watches == []


@pytest.mark.parametrize(
    ("end", "code", "state"), [(SUCCEEDED, 0, "succeeded"), (FAILED, 1, "failed")]
)
async def test_replay_can_wait_for_the_end_of_the_replayed_job(
    end: job_pb.Job, code: int, state: str
) -> None:
    event_log = [
        accepted(1, job_pb.Job(job_id=JOB_ID, max_attempts=4)),
        attempt_failed(2, "before the replay"),
        finished(3, FAILED),
        accepted(4, REPLAYED),
        attempt_failed(5, "after the replay"),
        segment(6, "hello"),
        finished(7, end),
    ]

    async with serving(FakePipeline(event_log), admin_with(letter(JOB_ID))) as address:
        ended = await run("dlq", "replay", JOB_ID, "--wait", "--server", address)

    assert (ended.code, ended.out) == (code, f"{JOB_ID} {state}\n")
    assert "after the replay" in ended.err
    assert "before the replay" not in ended.err


async def test_replay_of_a_job_that_is_not_dead_is_refused() -> None:
    async with serving(admin=admin_with()) as address:
        ended = await run("dlq", "replay", JOB_ID, "--server", address)

    assert (ended.code, ended.out) == (3, "")
    assert ended.err == f"error: no dead letter of {JOB_ID} (DEAD_LETTER_NOT_FOUND)\n"


EVENT = job_pb.DeadLetter(
    letter_id="6f0c2c1e-8f0e-5c58-9d5f-0d3a5a3f2c11",
    kind=job_pb.LETTER_KIND_EVENT,
    subject="ytc.in.iniciar_coleta",
    content=b'{"fonte": \x1b}',
    failure=job_pb.Failure(reason="EVENT_MALFORMED", message="not JSON"),
    attempts=1,
)


async def test_an_event_letter_is_listed_and_shown_with_its_content() -> None:
    async with serving(admin=admin_with(letter(JOB_ID), EVENT)) as address:
        listed = await run("dlq", "list", "--server", address)
        shown = await run("dlq", "show", EVENT.letter_id, "--server", address)
        unknown = await run("dlq", "show", f"{7:036}", "--server", address)

    kinds = [line.split()[:2] for line in listed.out.splitlines()]
    assert kinds == [["letter", "kind"], [JOB_ID, "job"], [EVENT.letter_id, "event"]]
    facts = dict(line.split(None, 1) for line in shown.out.splitlines())
    assert (facts["kind"], facts["subject"]) == ("event", "ytc.in.iniciar_coleta")
    assert facts["content"].startswith('{"fonte": ')
    assert "job" not in facts
    assert "\x1b" not in shown.out
    assert (unknown.code, unknown.out) == (3, "")
    assert unknown.err.endswith("(DEAD_LETTER_NOT_FOUND)\n")


async def test_replay_of_an_event_says_that_it_was_sent() -> None:
    async with serving(admin=admin_with(EVENT)) as address:
        ended = await run("dlq", "replay", EVENT.letter_id, "--wait", "--server", address)
        as_json = await run("dlq", "replay", EVENT.letter_id, "--json", "--server", address)

    assert (ended.code, ended.out) == (0, f"{EVENT.letter_id} sent again\n")
    assert json.loads(as_json.out) == {"letter_id": EVENT.letter_id, "sent": True}


async def test_purge_sends_its_filters() -> None:
    admin = admin_with(letter(JOB_ID))

    async with serving(admin=admin) as address:
        which = ("--job", JOB_ID, "--reason", "NO_AUDIO", "--older-than", "1.5")
        ended = await run("dlq", "purge", *which, "--yes", "--server", address)
        everything = await run("dlq", "purge", "-y", "--json", "--server", address)

    assert (ended.code, ended.out) == (0, "1 dead letter removed\n")
    assert json.loads(everything.out) == {"dead_letters_removed": 1, "dry_run": False}
    chosen, all_of_them = admin.purged
    assert (chosen.job_id, chosen.reason, chosen.dry_run) == (JOB_ID, "NO_AUDIO", False)
    age = datetime.now(UTC) - chosen.before.ToDatetime(UTC)
    assert timedelta(hours=1.5) <= age < timedelta(hours=1.6)
    assert (all_of_them.job_id, all_of_them.HasField("before")) == ("", False)


@pytest.mark.parametrize("hours", ["nan", "-1", "inf"])
async def test_an_invalid_age_of_letters_is_a_usage_error(hours: str) -> None:
    ended = await run("dlq", "purge", "--yes", "--older-than", hours, "--server", "127.0.0.1:1")

    assert ended.code == 2
    assert "--older-than" in ended.err


async def test_a_dry_run_of_purge_does_not_ask() -> None:
    admin = admin_with(letter(JOB_ID), letter("another"))

    async with serving(admin=admin) as address:
        ended = await run("dlq", "purge", "--dry-run", "--server", address)

    assert (ended.code, ended.out) == (0, "2 dead letters would be removed\n")
    assert [request.dry_run for request in admin.purged] == [True]


@pytest.mark.parametrize(("answer", "purges"), [("y\n", 1), ("n\n", 0), ("\n", 0)])
async def test_purge_asks_first(answer: str, purges: int) -> None:
    admin = admin_with(letter(JOB_ID))

    async with serving(admin=admin) as address:
        process = await start("dlq", "purge", "--server", address, answers=answer)
        ended = await finish(process)

    assert ended.code == 0
    assert "Remove all dead letters? [y/N]" in ended.err
    assert len(admin.purged) == purges


async def test_purge_without_a_confirmation_removes_nothing() -> None:
    admin = admin_with(letter(JOB_ID))

    async with serving(admin=admin) as address:
        ended = await run("dlq", "purge", "--reason", "NO_AUDIO", "--server", address)

    assert (ended.code, ended.out) == (2, "")
    assert "give --yes" in ended.err
    assert "dead letters with NO_AUDIO?" in ended.err
    assert admin.purged == []
