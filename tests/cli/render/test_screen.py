"""Live bars on a terminal, lines elsewhere, captions always whole."""

import asyncio
import re
import sys
from datetime import timedelta

from cli.render.bars import LINE_SECONDS, Figure, PlainLines, figure
from cli.render.text import short_clock
from tests.support.command import environment
from tests.support.fake_orchestrator import FakePipeline, serving
from tests.support.job_updates import EVENT_LOG, progress
from tests.support.terminal import Terminal
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import media_pb2 as media_pb

CAPTION = "[00:00:02.000 --> 00:00:02.500] hello"


async def _transcribe(out: int, err: int) -> bytes:
    event_log = [progress(1, None), EVENT_LOG[0], progress(2, 10), *EVENT_LOG[1:]]
    async with serving(FakePipeline(event_log)) as address:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "cli", "transcribe", "https://example.net/v"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment(YTCAPTION_SERVER=address, TERM="xterm", COLUMNS="100"),
        )
        async with asyncio.timeout(60):
            printed, _ = await process.communicate()
    assert process.returncode == 0
    return printed or b""


async def test_a_pipe_gets_the_captions_while_the_terminal_shows_bars() -> None:
    terminal = Terminal()

    printed = await _transcribe(asyncio.subprocess.PIPE, terminal.far)

    shown = await terminal.everything()
    assert printed.decode().splitlines()[0] == CAPTION
    assert b"\x1b" not in printed
    assert re.search(r"download .*2\.0 kB of 10\.0 kB", shown)
    assert re.search(r"transcription .*0:02 of 0:10", shown)
    assert CAPTION not in shown


async def test_on_one_terminal_a_caption_is_a_line_of_its_own_above_the_bars() -> None:
    terminal = Terminal()

    await _transcribe(terminal.far, terminal.far)

    shown = await terminal.everything()
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert CAPTION in re.split(r"[\r\n]+", plain)


def _stage(**fields: object) -> job_pb.StageStatus:
    return job_pb.StageStatus(stage=job_pb.STAGE_DOWNLOAD, **fields)  # type: ignore[arg-type]


def test_an_unknown_total_is_not_guessed() -> None:
    amount = media_pb.Progress(bytes=media_pb.ByteProgress(done_bytes=1500))

    assert figure(_stage(progress=amount)) == Figure("download", 1500, None, "1.5 kB")


def test_a_skipped_stage_is_shown_as_skipped() -> None:
    assert figure(_stage(state=job_pb.STAGE_STATE_SKIPPED)) == Figure("download", 1, 1, "skipped")


def test_a_model_download_is_shown_in_bytes() -> None:
    fetched = media_pb.ByteProgress(done_bytes=45_000_000, total_bytes=145_000_000)
    preparing = media_pb.ModelPreparation(
        model="base", phase=media_pb.PREPARATION_PHASE_FETCHING, fetched=fetched
    )

    shown = figure(_stage(preparing=preparing))

    amount = "fetching model base, 45 of 145 MB"
    assert shown == Figure("download", 45_000_000, 145_000_000, amount)


def test_an_unknown_stage_is_skipped() -> None:
    assert figure(job_pb.StageStatus(stage=job_pb.STAGE_UNSPECIFIED)) is None


def test_plain_lines_are_written_periodically_with_the_newest_figures() -> None:
    now, lines = [0.0], list[str]()
    plain = PlainLines(lines.append, lambda: now[0])

    for second in range(25):
        now[0] = float(second)
        plain.show([Figure("download", second, None, f"{second} B")])

    assert lines == [f"download {number * int(LINE_SECONDS)} B" for number in (1, 2)]


def test_no_plain_line_is_written_without_progress() -> None:
    now, lines = [0.0], list[str]()
    plain = PlainLines(lines.append, lambda: now[0])

    for second in range(0, 60, 15):
        now[0] = float(second)
        plain.show([Figure("upload", 1, 1, "1 B")] if second == 15 else [])

    assert lines == ["upload 1 B"]


def test_clocks_for_bars_are_short() -> None:
    assert short_clock(timedelta(seconds=65)) == "1:05"
    assert short_clock(timedelta(seconds=3723)) == "1:02:03"
