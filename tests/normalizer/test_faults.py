"""When ffmpeg or the caller fails, the error says which, and nothing hangs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mesh.errors import (
    MeshError,
    TimedOutError,
    UnavailableError,
    UnsupportedError,
    UnusableMediaError,
)
from mesh.reasons import Reason
from normalizer.engine import Request
from tests.normalizer.conftest import EngineMaker, ScriptMaker
from tests.normalizer.media import normalized, recording, sent
from tests.support.polling import until
from tests.support.processes import Newborn


async def test_a_missing_ffmpeg_is_named_before_anything_starts(
    make_engine: EngineMaker, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError) as caught:
        await normalized(make_engine(str(tmp_path / "nowhere")), recording("wav"))

    assert caught.value.reason is Reason.TOOL_MISSING


async def test_a_program_that_cannot_run_is_a_missing_tool(
    make_engine: EngineMaker, tmp_path: Path
) -> None:
    broken = tmp_path / "ffmpeg"
    broken.write_bytes(b"\x7fELF of another machine")
    broken.chmod(0o755)

    with pytest.raises(UnsupportedError) as caught:
        await normalized(make_engine(str(broken)), recording("wav"), Request(keep_audio=True))

    assert caught.value.reason is Reason.TOOL_MISSING


@pytest.mark.parametrize(
    ("body", "error", "reason"),
    [
        ("kill -SEGV $$", UnusableMediaError, Reason.CORRUPT_MEDIA),
        ("kill -KILL $$", UnavailableError, Reason.INTERNAL),
        (
            "echo \"[aost#1:0 @ 0x1] [fatal] Unknown encoder 'libopus'\" >&2; exit 8",
            UnsupportedError,
            Reason.TOOL_MISSING,
        ),
    ],
    ids=["crashed", "killed", "built without Opus"],
)
async def test_each_way_ffmpeg_can_die_has_its_reason(
    make_engine: EngineMaker,
    script: ScriptMaker,
    body: str,
    error: type[MeshError],
    reason: Reason,
) -> None:
    with pytest.raises(error) as caught:
        await normalized(make_engine(script(body)), recording("wav"))

    assert caught.value.reason is reason


@pytest.mark.parametrize("body", ["exec sleep 600", "cat >/dev/null; exec sleep 600"])
async def test_a_stalled_ffmpeg_times_out(
    make_engine: EngineMaker, script: ScriptMaker, body: str
) -> None:
    engine = make_engine(script(body), stall_seconds=0.5)

    with pytest.raises(TimedOutError) as caught:
        await normalized(engine, recording("wav"))

    assert caught.value.reason is Reason.STALLED


async def test_closing_kills_an_ffmpeg_that_ignores_signals_and_all_it_started(
    make_engine: EngineMaker, script: ScriptMaker, newborn: Newborn
) -> None:
    engine = make_engine(script("trap '' TERM INT HUP PIPE; sleep 600 & sleep 600"))
    events = engine.normalize(sent(recording("wav")), Request())
    await anext(events)
    working = asyncio.ensure_future(anext(events))
    await until(lambda: len(newborn()) == 3)

    working.cancel()
    await asyncio.wait([working])
    await events.aclose()

    assert not newborn()


@pytest.mark.parametrize("sent_bytes", [0, 100, 100_000])
async def test_a_caller_that_stops_sending_times_out(
    make_engine: EngineMaker, sent_bytes: int
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        if sent_bytes:
            yield recording("wav")[:sent_bytes]
        await asyncio.Event().wait()

    with pytest.raises(TimedOutError) as caught:
        await normalized(make_engine(stall_seconds=0.5), chunks())

    assert caught.value.reason is Reason.STALLED


async def test_a_flood_of_log_lines_neither_blocks_nor_fills_memory(
    make_engine: EngineMaker, script: ScriptMaker
) -> None:
    flood = "[mp3 @ 0x1] [error] " + "x" * 5_000
    body = f"i=0; while [ $i -lt 2000 ]; do echo '{flood}'; i=$((i+1)); done >&2; exit 1"

    with pytest.raises(UnusableMediaError) as caught:
        await normalized(make_engine(script(body)), recording("wav"))

    assert caught.value.reason is Reason.CORRUPT_MEDIA
    assert len(str(caught.value)) < 3_000


async def test_the_slot_of_a_failed_call_is_free_again(make_engine: EngineMaker) -> None:
    engine = make_engine(max_recordings=1)
    for _ in range(3):
        with pytest.raises(UnusableMediaError):
            await normalized(engine, b"not media")

    assert (await normalized(engine, recording("wav"))).finished
