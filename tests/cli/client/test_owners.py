"""export, forget and retention against the fake orchestrator on a real socket."""

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

from tests.support.command import run
from tests.support.fake_orchestrator import FakeAdmin, serving
from tests.support.polling import until


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin()


async def test_an_export_is_written_whole_and_says_where(admin: FakeAdmin, tmp_path: Path) -> None:
    async with serving(admin=admin) as address:
        own = await run("export", "-o", str(tmp_path / "own.zip"), "--server", address)
        anas = await run("export", "ana", "-o", str(tmp_path), "--json", "--server", address)

    assert (own.code, own.out) == (0, "")
    assert "own.zip" in own.err
    assert (tmp_path / "own.zip").read_bytes() == b"PKthe rest"
    assert json.loads(anas.out) == {
        "path": str(tmp_path / "ytcaption ana.zip"),
        "size_bytes": 10,
    }
    assert (tmp_path / "ytcaption ana.zip").read_bytes() == b"PKthe rest"
    assert admin.exported == ["", "ana"]


async def test_an_interrupted_export_leaves_no_file(admin: FakeAdmin, tmp_path: Path) -> None:
    admin.export_stalls = True
    async with serving(admin=admin) as address:
        process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("ytcaption")),
            *("export", "-o", str(tmp_path / "own.zip"), "--server", address),
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            await until(lambda: bool(names_in(tmp_path)))
            process.send_signal(signal.SIGINT)
            code = await asyncio.wait_for(process.wait(), 60)
        finally:
            if process.returncode is None:
                process.kill()

    assert code == 130
    assert names_in(tmp_path) == []


async def test_an_erasure_must_be_confirmed(admin: FakeAdmin) -> None:
    async with serving(admin=admin) as address:
        missing = await run("forget", "ana", "--server", address)
        wrong = await run("forget", "ana", "--confirm", "ERASE bia", "--server", address)

    assert missing.code == 2
    assert (wrong.code, wrong.err) == (3, "error: not confirmed (CONFIRMATION_MISSING)\n")
    assert admin.erased == []


async def test_an_erasure_reports_each_kind_and_what_stays(admin: FakeAdmin) -> None:
    confirmed = ("forget", "ana", "--confirm", "ERASE ana")
    admin.remarks = ["a token\x1b stays"]
    async with serving(admin=admin) as address:
        done = await run(*confirmed, "--server", address)
        dry = await run(*confirmed, "--dry-run", "--server", address)
        as_json = await run(*confirmed, "--json", "--server", address)

    assert done.out.startswith("erased: 2 jobs, 0 collections, 0 events, 3 files, 0 webhooks")
    assert done.out.endswith("2.5 MB\n")
    assert "token" in done.err
    assert "\x1b" not in done.err
    assert dry.out.startswith("would erase: 2 jobs")
    assert [one.dry_run for one in admin.erased] == [False, True, False]
    assert json.loads(as_json.out)["removed"]["jobs"] == 2


async def test_a_retention_is_set_listed_and_taken_back(admin: FakeAdmin) -> None:
    async with serving(admin=admin) as address:
        set_ = await run("retention", "ana", "--days", "1.5", "--server", address)
        listed = await run("retention", "--server", address)
        usual = await run("retention", "ana", "--default", "--server", address)
        empty = await run("retention", "--json", "--server", address)
        unclear = await run("retention", "ana", "--server", address)
        whose = await run("retention", "--days", "1", "--server", address)

    assert set_.out == "ana: 1.5 days\n"
    assert "ana" in listed.out
    assert usual.out == "ana: as the settings say\n"
    assert empty.out == ""
    assert (unclear.code, whose.code) == (2, 2)
