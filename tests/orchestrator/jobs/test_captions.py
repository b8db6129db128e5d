"""GetCaptions: cue limits, formats and word cues, and what it refuses."""

import json
from typing import Any

import grpc
import pytest
import srt
from google.protobuf.duration import from_milliseconds, from_seconds
from google.protobuf.duration_pb2 import Duration

from mesh.status import reason_of
from tests.support import scripted_stages
from tests.support.client import Client
from tests.support.polling import until
from tests.support.scripted import Script
from tests.support.segments import transcribed_segment
from ytcaption.v1 import job_pb2, media_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

NARROW = media_pb2.CueRules(max_lines=1, max_line_length=8)
WORDED = job_pb2.JobOptions(word_timestamps=True)
VTT = media_pb2.CAPTION_FORMAT_VTT


async def captions(client: Client, job_id: str, **asked: Any) -> str:
    request = pb.GetCaptionsRequest(job_id=job_id, **asked)
    return (await client.pipeline.GetCaptions(request)).content.decode()


async def ended(client: Client, **options: Any) -> str:
    return (await client.finished((await client.create(**options)).job_id)).job_id


async def test_segments_share_cues_and_no_word_is_lost(client: Client) -> None:
    found = list(srt.parse(await captions(client, await ended(client))))

    assert " ".join(one.content.replace("\n", " ") for one in found) == (
        "word 1 word 2 word 3 word 4 word 5 word 6"
    )
    assert len(found) < 6


async def test_limits_of_the_job_are_its_cues_and_a_reader_may_ask_for_others(
    client: Client,
) -> None:
    job_id = await ended(client, options=job_pb2.JobOptions(cue_rules=NARROW))

    narrow = list(srt.parse(await captions(client, job_id)))
    wider = media_pb2.CueRules(max_line_length=20)
    wide = list(srt.parse(await captions(client, job_id, cue_rules=wider)))

    assert [one.content for one in narrow] == [f"word {number}" for number in range(1, 7)]
    assert len(wide) < 6
    assert not any("\n" in one.content for one in wide)  # one line: that is still the job's


async def test_a_duration_asked_for_replaces_the_jobs_and_is_not_added_to_it(
    client: Client,
) -> None:
    options = job_pb2.JobOptions(cue_rules=media_pb2.CueRules(max_duration=from_seconds(3)))
    job_id = await ended(client, options=options)
    shorter = media_pb2.CueRules(max_duration=from_milliseconds(1500))

    longest = [
        max((one.end - one.start).total_seconds() for one in srt.parse(text))
        for text in (
            await captions(client, job_id),
            await captions(client, job_id, cue_rules=shorter),
        )
    ]

    assert 1.5 < longest[0] <= 3
    assert longest[1] <= 1.5


async def test_jobs_that_differ_in_cues_alone_share_one_run(client: Client, script: Script) -> None:
    await ended(client, force=False)
    options = job_pb2.JobOptions(cue_rules=NARROW)
    second = await ended(client, force=False, options=options)

    assert len(script.downloads) == 1
    assert len(list(srt.parse(await captions(client, second)))) == 6


@pytest.mark.parametrize(
    ("format_", "begins"),
    [
        (media_pb2.CAPTION_FORMAT_UNSPECIFIED, "1\n00:00:00,000 --> "),
        (VTT, "WEBVTT\n\n1\n00:00:00.000 --> "),
        (media_pb2.CAPTION_FORMAT_TXT, "word 1 word 2 word 3"),
        (media_pb2.CAPTION_FORMAT_JSON, "{"),
        (media_pb2.CAPTION_FORMAT_TSV, "start\tend\ttext\n0\t"),
        (media_pb2.CAPTION_FORMAT_LRC, "[00:00.00]word 1"),
    ],
)
async def test_captions_in_every_format_are_available_while_the_job_runs(
    client: Client, script: Script, format_: Any, begins: str
) -> None:
    script.pause_before_segment = 4
    job = await client.create()
    await script.until_paused()

    async def settled() -> bool:
        return "word 4" in await client.text(job.job_id)

    await until(settled)

    text = await captions(client, job.job_id, format=format_)
    script.go_on.set()

    assert text.startswith(begins)
    assert "word 5" not in text


async def test_words_have_timestamps_if_the_job_has_word_times(client: Client) -> None:
    job_id = await ended(client, options=WORDED)

    assert "word <00:00:00.500>1 <00:00:01.000>word" in await captions(
        client, job_id, format=VTT, word_cues=True
    )
    assert "<" not in await captions(client, job_id, format=VTT)


WRONG: list[dict[str, Any]] = [
    {"max_lines": 0},
    {"max_lines": 5},
    {"max_line_length": 7},
    {"max_characters_per_second": float("nan")},
    {"min_duration": from_seconds(6)},
    {"min_duration": from_seconds(4), "max_duration": from_seconds(3)},
    {"min_gap": Duration(seconds=-1)},
    {"max_duration": Duration(seconds=2**62)},
]


@pytest.mark.parametrize("limits", WRONG, ids=str)
async def test_cue_limits_out_of_range_are_refused_at_submission_and_at_reading(
    client: Client, limits: dict[str, Any]
) -> None:
    rules = media_pb2.CueRules(**limits)
    job_id = await ended(client, force=False)

    with pytest.raises(grpc.aio.AioRpcError) as ordered:
        await client.create(options=job_pb2.JobOptions(cue_rules=rules))
    with pytest.raises(grpc.aio.AioRpcError) as read:
        await captions(client, job_id, cue_rules=rules)

    for caught in (ordered, read):
        assert reason_of(caught.value) == "REQUEST_INVALID"
        assert "cue_rules: " in (caught.value.details() or "")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"format": VTT, "word_cues": True}, "REQUEST_INVALID"),
        ({"format": media_pb2.CAPTION_FORMAT_LRC, "word_cues": True}, "REQUEST_INVALID"),
        ({"format": 77}, "OPTION_UNSUPPORTED"),
    ],
    ids=str,
)
async def test_caption_requests_a_job_cannot_satisfy_are_refused(
    client: Client, asked: dict[str, Any], reason: str
) -> None:
    job_id = await ended(client)

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await captions(client, job_id, **asked)

    assert reason_of(caught.value) == reason


async def test_a_running_job_names_no_translation_language_before_a_segment_is_translated(
    client: Client, script: Script
) -> None:
    script.pause_before_segment = 2
    job = await client.create(options=job_pb2.JobOptions(language_out="en"))
    await script.until_paused()

    found = json.loads(await captions(client, job.job_id, format=media_pb2.CAPTION_FORMAT_JSON))

    assert "language_out" not in found


async def test_a_job_is_translated_if_any_of_its_attempts_translated(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def translated(second: int, *, words: bool) -> media_pb2.Segment:
        segment = transcribed_segment(second, words=words)
        segment.translation = f"Wort {second}"
        return segment

    monkeypatch.setattr(scripted_stages, "transcribed_segment", translated)
    # The scripted transcriber ends like one that had nothing left to translate: without a language.
    job_id = await ended(client, options=job_pb2.JobOptions(language_out="en"))

    assert (await client.job(job_id)).language_out == "en"
    assert "Wort 6" in await captions(client, job_id, translated=True)


async def test_a_live_stream_refuses_cue_rules(client: Client) -> None:
    start = pb.TranscribeStreamStart(options=job_pb2.JobOptions(cue_rules=NARROW))
    call = client.pipeline.TranscribeStream(iter([pb.TranscribeStreamRequest(start=start)]))

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()

    assert reason_of(caught.value) == "OPTION_UNSUPPORTED"
