"""stats, cleanup and factory-reset against the fake orchestrator on a real socket."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.command import run
from tests.support.fake_orchestrator import FakeAdmin, serving
from tests.support.job_updates import JOB_ID


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin()


async def test_stats_name_every_state_and_figure(admin: FakeAdmin) -> None:
    async with serving(admin=admin) as address:
        plain = await run("stats", "--server", address)
        as_json = await run("stats", "--json", "--server", address)

    assert plain.code == 0
    lines = dict(line.rsplit(maxsplit=1) for line in plain.out.splitlines() if "MB" not in line)
    assert lines["succeeded"] == "3"
    assert lines["queued"] == lines["running"] == lines["failed"] == lines["cancelled"] == "0"
    assert (lines["in the queue"], lines["dead letters"]) == ("2", "1")
    assert lines["up for"] == "1:01:01"
    found = json.loads(as_json.out)
    assert found["jobs"]["succeeded"] == 3
    assert (found["stored_bytes"], found["uptime_seconds"]) == (2_500_000, 3661.5)


async def test_cleanup_sends_its_age_and_prints_what_was_removed(admin: FakeAdmin) -> None:
    async with serving(admin=admin) as address:
        usual = await run("cleanup", "--server", address)
        dry = await run("cleanup", "--max-age-hours", "0.5", "--dry-run", "--server", address)
        as_json = await run("cleanup", "--json", "--server", address)
        logs = await run("cleanup", "--logs", "--server", address)

    assert usual.out == "removed: 4 jobs, 3 collections, 50 events, 0 files, 2.5 MB\n"
    assert dry.out.startswith("would remove: 4 jobs, 3 collections")
    ages = [request.max_age.ToTimedelta() for request in admin.cleanups]
    assert ages == [timedelta(hours=24), timedelta(minutes=30), *[timedelta(hours=24)] * 2]
    assert [request.dry_run for request in admin.cleanups] == [False, True, False, False]
    assert [request.logs for request in admin.cleanups] == [False, False, False, True]
    assert "0 files, 2 log files, 2.5 MB" in logs.out
    assert json.loads(as_json.out) == {
        "dry_run": False,
        "jobs_removed": 4,
        "events_removed": 50,
        "artifacts_removed": 0,
        "bytes_removed": 2_500_000,
        "collections_removed": 3,
        "log_files_removed": 0,
        "logs_cleaned": False,
    }


@pytest.mark.parametrize("hours", ["-1", "nan", "inf", "soon"])
async def test_an_invalid_age_never_reaches_the_server(admin: FakeAdmin, hours: str) -> None:
    async with serving(admin=admin) as address:
        ended = await run("cleanup", "--max-age-hours", hours, "--server", address)

    assert ended.code == 2
    assert admin.cleanups == []


async def test_a_reset_must_be_confirmed(admin: FakeAdmin) -> None:
    async with serving(admin=admin) as address:
        missing = await run("factory-reset", "--server", address)
        wrong = await run("factory-reset", "--confirm", "yes", "--server", address)

    assert missing.code == 2
    assert (wrong.code, wrong.err) == (3, "error: not confirmed (CONFIRMATION_MISSING)\n")
    assert admin.resets == []


async def test_a_reset_reports_each_service(admin: FakeAdmin) -> None:
    confirmed = ("factory-reset", "--confirm", "ERASE EVERYTHING")

    async with serving(admin=admin) as address:
        done = await run(*confirmed, "--server", address)
        dry = await run(*confirmed, "--dry-run", "--server", address)
        as_json = await run(*confirmed, "--json", "--server", address)

    assert done.code == 0
    assert "removed: 4 jobs, 3 collections, 2 tasks, 0 files" in done.out
    assert "would remove: 4 jobs, 3 collections" in dry.out
    assert [request.dry_run for request in admin.resets] == [False, True, False]
    [own, stage] = json.loads(as_json.out)["services"]
    assert (own["name"], own["done"], own["jobs_removed"]) == ("orchestrator", True, 4)
    assert (own["collections_removed"], stage["collections_removed"]) == (3, 0)
    assert (stage["name"], stage["files_removed"], stage["bytes_removed"]) == ("downloader", 7, 0)


async def test_a_service_that_could_not_be_reset_is_code_4(admin: FakeAdmin) -> None:
    admin.stage_error = "no \x1b[31manswer"

    async with serving(admin=admin) as address:
        ended = await run("factory-reset", "--confirm", "ERASE EVERYTHING", "--server", address)

    assert ended.code == 4
    assert "NOT DONE" in ended.out
    assert "answer" in ended.out
    assert "\x1b" not in ended.out


async def test_the_audit_is_a_table_of_who_did_what_with_which_outcome(admin: FakeAdmin) -> None:
    async with serving(admin=admin) as address:
        table = await run("audit", "--subject", "ana", "--hours", "1", "--server", address)
        as_json = await run("audit", "--json", "--server", address)

    heads, entry = table.out.splitlines()
    assert heads.split() == ["when", "who", "from", "what", "on", "outcome"]
    assert entry.split()[2:4] == ["ana", "192.0.2.7"]
    assert entry.split()[4:] == ["DeleteJob", JOB_ID, "JOB_NOT_FOUND"]
    assert json.loads(as_json.out)["subject"] == "ana"
    first, second = admin.audits
    age = datetime.now(UTC) - first.start_time.ToDatetime(UTC)
    assert timedelta(hours=1) <= age < timedelta(hours=2)
    assert (first.subject, second.subject) == ("ana", "")
    assert not second.HasField("start_time")
