"""`ytcaption transcribe --server` against the fake orchestrator on a real socket."""

import json
import os
import signal
from pathlib import Path

import pytest
from google.protobuf.duration import from_seconds

from mesh.errors import InvalidRequestError, LimitExceededError, UnavailableError
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason
from tests.support.command import finish, names_in, next_line, run, start
from tests.support.fake_orchestrator import FakePipeline, serving
from tests.support.job_updates import (
    EVENT_LOG,
    FAILED,
    JOB_ID,
    SUCCEEDED,
    finished,
    media_found,
    progress,
    segment,
)
from tests.support.polling import until
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import media_pb2 as media_pb

URL = "https://example.net/v"


async def test_captions_go_to_stdout_and_nothing_else_does() -> None:
    pipeline = FakePipeline([progress(1, None), *EVENT_LOG])

    async with serving(pipeline) as address:
        ended = await run("transcribe", URL, "--server", address)

    assert ended.code == 0, ended.err
    assert ended.out == (
        "[00:00:02.000 --> 00:00:02.500] hello\n[00:00:03.000 --> 00:00:03.500] world\n"
    )
    assert "title: A talk" in ended.err


async def test_only_chosen_options_are_sent() -> None:
    pipeline = FakePipeline()

    async with serving(pipeline) as address:
        await run(
            *("transcribe", URL, "--no-remove-noise", "--translate-to", "en", "--beam-size", "2"),
            YTCAPTION_SERVER=address,
        )

    options = pipeline.created[0].options
    assert {field.name: value for field, value in options.ListFields()} == {
        "remove_noise": False,
        "language_out": "en",
        "beam_size": 2,
    }
    assert pipeline.created[0].correlation_id == pipeline.metadata[0]["x-correlation-id"]


@pytest.mark.parametrize(
    "flags",
    [("--languages", "pt,en, es"), ("--languages", "pt", "--languages", "en,es,")],
    ids=["with commas", "repeated"],
)
async def test_candidates_of_detection_are_sent_with_the_job(flags: tuple[str, ...]) -> None:
    pipeline = FakePipeline()

    async with serving(pipeline) as address:
        await run("transcribe", URL, "--server", address, *flags)

    assert pipeline.created[0].options == job_pb.JobOptions(languages=["pt", "en", "es"])


async def test_each_warning_is_one_line_on_stderr_and_an_entry_of_the_result() -> None:
    job = job_pb.Job()
    job.CopyFrom(SUCCEEDED)
    job.warnings.add(reason="LANGUAGE_UNCERTAIN", message="It may be Galician.")
    job.warnings.add(reason="TRANSCRIPT_UNCERTAIN", message="1 passage is uncertain: 0:12")

    async with serving(FakePipeline([finished(1, job)])) as address:
        plain = await run("transcribe", URL, "--server", address)
        lines = await run("transcribe", URL, "--server", address, "--json")

    assert plain.code == 0
    assert plain.err.splitlines()[-2:] == [
        "warning: It may be Galician. (LANGUAGE_UNCERTAIN)",
        "warning: 1 passage is uncertain: 0:12 (TRANSCRIPT_UNCERTAIN)",
    ]
    assert json.loads(lines.out)["warnings"] == [
        {"reason": "LANGUAGE_UNCERTAIN", "message": "It may be Galician."},
        {"reason": "TRANSCRIPT_UNCERTAIN", "message": "1 passage is uncertain: 0:12"},
    ]


async def test_an_uncertain_segment_is_marked_in_json_lines() -> None:
    doubtful = segment(2, "hello")
    doubtful.event.segment_settled.segment.uncertain = True

    async with serving(FakePipeline([doubtful, segment(3, "world"), EVENT_LOG[-1]])) as address:
        ended = await run("transcribe", URL, "--server", address, "--json")

    found = [json.loads(line) for line in ended.out.splitlines()]
    assert [one.get("uncertain") for one in found[:2]] == [True, None]


async def test_cue_limits_are_sent_with_the_job() -> None:
    pipeline = FakePipeline()

    async with serving(pipeline) as address:
        await run("transcribe", URL, "--server", address, "--max-lines", "1", "--max-duration", "5")

    assert pipeline.created[0].options == job_pb.JobOptions(
        cue_rules=media_pb.CueRules(max_lines=1, max_duration=from_seconds(5))
    )


async def test_word_cues_turn_word_times_on_and_apply_to_vtt_only(tmp_path: Path) -> None:
    pipeline = FakePipeline()

    async with serving(pipeline) as address:
        await run("transcribe", URL, "--server", address, "-o", str(tmp_path), "--word-cues")

    assert pipeline.created[0].options.word_timestamps
    assert [request.format for request in pipeline.captions_requested if request.word_cues] == [
        media_pb.CAPTION_FORMAT_VTT
    ]


@pytest.mark.parametrize(
    "flags", [(), ("-f", "srt"), ("-f", "vtt", "--no-word-timestamps")], ids=" ".join
)
async def test_word_cues_without_vtt_or_word_times_are_a_usage_error(
    flags: tuple[str, ...],
) -> None:
    ended = await run("transcribe", URL, "--server", "127.0.0.1:1", "--word-cues", *flags)

    assert ended.code == 2
    assert "--word-cues" in ended.err


async def test_the_four_files_are_written_under_the_title(tmp_path: Path) -> None:
    async with serving() as address:
        ended = await run("transcribe", URL, "--server", address, "-o", str(tmp_path / "new"))

    written = {path.name: path.read_text() for path in (tmp_path / "new").iterdir()}
    assert written == {
        f"A talk.{name}": f"{name.upper()} of {JOB_ID}\n" for name in ("srt", "vtt", "txt", "json")
    }
    assert ended.err.count("wrote ") == 4


async def test_a_format_alone_is_written_into_the_working_directory(tmp_path: Path) -> None:
    async with serving() as address:
        await run("transcribe", URL, "--server", address, "-f", "vtt", cwd=str(tmp_path))

    assert names_in(tmp_path) == ["A talk.vtt"]


async def test_a_hostile_title_stays_in_the_directory_and_off_the_terminal(tmp_path: Path) -> None:
    title = "../../etc/\x1b]0;owned\x07passwd\u202etxt"
    done = type(SUCCEEDED)()
    done.CopyFrom(SUCCEEDED)
    done.media.title = title
    event_log = [media_found(1, title), segment(2, "a\x1b[2Jb\nc"), finished(3, done)]

    async with serving(FakePipeline(event_log)) as address:
        ended = await run(
            "transcribe", URL, "--server", address, "-o", str(tmp_path / "out"), "-f", "srt"
        )

    assert names_in(tmp_path / "out") == ["_.._etc_ ]0;owned passwd txt.srt"]
    assert names_in(tmp_path) == ["out"]
    assert not {"\x1b", "\x07", "\u202e"} & set(ended.out + ended.err)
    assert ended.out.endswith("a\ufffd[2Jb c\n")


async def test_json_is_one_object_a_line_without_loss() -> None:
    event_log = [segment(1, "a\x9bb\u202e"), finished(2, SUCCEEDED)]

    async with serving(FakePipeline(event_log)) as address:
        ended = await run("transcribe", URL, "--server", address, "--json")

    caption, last = map(json.loads, ended.out.splitlines())
    assert (caption["type"], caption["start"], caption["text"]) == ("segment", 1.0, "a\x9bb\u202e")
    assert (last["type"], last["state"], last["files"]) == ("finished", "SUCCEEDED", [])
    assert "\x9b" not in ended.out


async def test_a_file_is_sent_in_frames(tmp_path: Path) -> None:
    source = tmp_path / "my talk.ogg"
    content = os.urandom(3 * MAX_FRAME_BYTES + 5)
    source.write_bytes(content)
    pipeline = FakePipeline()

    async with serving(pipeline) as address:
        ended = await run(
            *("transcribe", str(source), "--server", address, "-o", str(tmp_path), "-f", "txt")
        )

    assert ended.code == 0, ended.err
    assert pipeline.uploaded == content
    assert pipeline.largest_frame == MAX_FRAME_BYTES
    assert pipeline.upload_start.file_name == "my talk.ogg"
    assert pipeline.upload_start.size_bytes == len(content)
    assert (tmp_path / "my talk.txt").exists()


async def test_an_upload_refused_midway_is_one_line(tmp_path: Path) -> None:
    source = tmp_path / "big"
    source.write_bytes(bytes(5_000_000))
    pipeline = FakePipeline()
    pipeline.refusal = LimitExceededError("too large", reason=Reason.TOO_LARGE)

    async with serving(pipeline) as address:
        ended = await run("transcribe", str(source), "--server", address)

    assert (ended.code, ended.err) == (3, "error: too large (TOO_LARGE)\n")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("missing.mp4", "there is no file missing.mp4"),
        (".", ". is not a file"),
        ("ftp://example.net/x", "neither an http(s) address nor a file"),
    ],
)
async def test_an_invalid_source_is_refused_before_anything_starts(source: str, words: str) -> None:
    ended = await run("transcribe", source)

    assert ended.code == 3
    assert ended.err.startswith("error: ")
    assert words in ended.err
    assert ended.err.count("\n") == 1


async def test_a_failed_job_gives_its_reason_and_keeps_its_captions_so_far(tmp_path: Path) -> None:
    event_log = [segment(1, "hello"), finished(2, FAILED)]

    async with serving(FakePipeline(event_log)) as address:
        ended = await run("transcribe", URL, "--server", address, "-o", str(tmp_path), "-f", "srt")

    assert ended.code == 1
    assert ended.err.endswith("error: the video is private (VIDEO_PRIVATE)\n")
    assert names_in(tmp_path) == [f"{JOB_ID}.partial.srt"]


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (InvalidRequestError("no such language", reason=Reason.LANGUAGE_UNKNOWN), 3),
        (UnavailableError("the disk is gone", reason=Reason.STORAGE_UNAVAILABLE), 4),
    ],
)
async def test_a_refusal_is_one_line_with_its_reason(
    refusal: InvalidRequestError | UnavailableError, code: int
) -> None:
    pipeline = FakePipeline()
    pipeline.refusal = refusal

    async with serving(pipeline) as address:
        ended = await run("transcribe", URL, "--server", address)

    assert (ended.code, ended.err) == (code, f"error: {refusal} ({refusal.reason})\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_an_interrupted_job_is_cancelled_and_keeps_its_captions_so_far(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    pipeline = FakePipeline([segment(1, "hello")])
    pipeline.stays_open = True

    async with serving(pipeline) as address:
        process = await start(
            "transcribe", URL, "--server", address, "-o", str(tmp_path), "-f", "srt"
        )
        await next_line(process)
        process.send_signal(number)
        ended = await finish(process)

    assert ended.code == code
    assert [request.job_id for request in pipeline.cancelled] == [JOB_ID]
    assert f"job {JOB_ID} was cancelled" in ended.err
    assert names_in(tmp_path) == [f"{JOB_ID}.partial.srt"]


async def test_a_second_interruption_exits_at_once() -> None:
    pipeline = FakePipeline([segment(1, "hello")])
    pipeline.stays_open = True
    pipeline.cancels_answer = False

    async with serving(pipeline) as address:
        process = await start("transcribe", URL, "--server", address)
        await next_line(process)
        process.send_signal(signal.SIGINT)
        await until(lambda: len(pipeline.cancelled) == 1)
        process.send_signal(signal.SIGINT)
        ended = await finish(process)

    assert ended.code == 130
    assert "left before everything was written" in ended.err
    assert "could not be cancelled" not in ended.err


async def test_a_broken_pipe_cancels_the_job_without_a_traceback() -> None:
    event_log = [segment(number, "x" * 1000) for number in range(1, 500)]
    pipeline = FakePipeline(event_log)
    pipeline.stays_open = True

    async with serving(pipeline) as address:
        process = await start("transcribe", URL, "--server", address)
        await next_line(process)
        process.stdout._transport.close()  # type: ignore[union-attr]
        await until(lambda: process.returncode is not None)

    assert process.returncode == 141
    assert process.stderr is not None
    assert b"Traceback" not in await process.stderr.read()
    assert len(pipeline.cancelled) == 1


async def test_an_unusable_output_directory_is_refused_first(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    ended = await run("transcribe", URL, "-o", str(tmp_path / "file" / "out"))

    assert ended.code == 3
    assert "cannot write into" in ended.err


async def test_quiet_prints_captions_only(tmp_path: Path) -> None:
    async with serving() as address:
        ended = await run("transcribe", URL, "--server", address, "-q", "-o", str(tmp_path))

    assert ended.err == ""
    assert len(ended.out.splitlines()) == 2
