"""Real speech through the real mesh."""

import json

import grpc
import pytest
import srt
from jiwer import wer

from benchmarks.cue_judge import judge
from captions.model import Cue
from captions.rules import rules_for
from mesh.status import reason_of
from tests.conftest import DATA
from tests.end_to_end.spoken import chunks_of, plain
from tests.support.client import Client
from tests.support.site import Site
from ytcaption.v1 import event_pb2, job_pb2, media_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb


async def test_the_first_segment_settles_before_the_download_has_finished(
    client: Client, site: Site
) -> None:
    site.release.clear()
    job = await client.create(f"{site.url}/held/sample.ogg")
    order: list[str] = []
    async for seen in client.watch(job.job_id):
        event = seen.event
        if event.type == event_pb2.EVENT_TYPE_SEGMENT_SETTLED:
            order.append("segment")
            site.release.set()  # only now does the site send the last third
        elif event.type == event_pb2.EVENT_TYPE_COLLECTION_RESULT:
            order.append("downloaded")
        elif event.type == event_pb2.EVENT_TYPE_JOB_FINISHED:
            ended = event.job_finished.job

    assert order[0] == "segment"
    assert "downloaded" in order
    assert ended.state == job_pb2.JOB_STATE_SUCCEEDED
    reference = (DATA / "sample.txt").read_text()
    assert wer(plain(reference), plain(await client.text(job.job_id))) < 0.1


async def test_portuguese_is_detected_and_transcribed(client: Client) -> None:
    job = await client.upload(*chunks_of(DATA / "portuguese.ogg"), file_name="portuguese.ogg")
    ended = await client.finished(job.job_id)

    assert (ended.language, ended.model) == ("pt", "base")
    assert ended.language_probability > 0.5
    reference = (DATA / "portuguese.txt").read_text()
    assert wer(plain(reference), plain(await client.text(job.job_id))) < 0.2


@pytest.mark.parametrize("words", [False, True])
async def test_cues_of_real_speech_follow_the_rules(client: Client, words: bool) -> None:
    options = job_pb2.JobOptions(word_timestamps=words)
    job = await client.upload(*chunks_of(DATA / "sample.ogg"), options=options)
    await client.finished(job.job_id)
    request = pb.GetCaptionsRequest(job_id=job.job_id, format=media_pb2.CAPTION_FORMAT_SRT)
    text = (await client.pipeline.GetCaptions(request)).content.decode()
    cues = [
        Cue(
            round(one.start.total_seconds() * 1000),
            round(one.end.total_seconds() * 1000),
            tuple(one.content.split("\n")),
        )
        for one in srt.parse(text)
    ]

    verdict = judge(cues, rules_for("en"))
    assert verdict.cues > 3
    assert verdict.faults == ()
    assert verdict.speed_share >= 0.95
    assert plain(" ".join(" ".join(cue.lines) for cue in cues)) == plain(
        await client.text(job.job_id)
    )


async def test_json_captions_have_the_documented_fields(client: Client) -> None:
    job = await client.upload(*chunks_of(DATA / "short.ogg"), file_name="short.ogg")
    await client.finished(job.job_id)
    request = pb.GetCaptionsRequest(job_id=job.job_id, format=media_pb2.CAPTION_FORMAT_JSON)
    captions = await client.pipeline.GetCaptions(request)
    found = json.loads(captions.content)

    assert captions.file_name == "short.json"
    assert captions.complete
    assert (found["language"], found["model"]) == ("en", "base")
    assert found["duration"] == pytest.approx(
        (await client.job(job.job_id)).media.duration.ToTimedelta().total_seconds(), abs=0.05
    )
    assert plain(found["text"]) == plain((DATA / "short.txt").read_text())
    ends = [0.0]
    for segment in found["segments"]:
        assert ends[-1] <= segment["start"] < segment["end"] <= found["duration"] + 0.05
        ends.append(segment["end"])


async def test_the_stored_audio_has_the_chosen_filters(client: Client) -> None:
    job = await client.upload(*chunks_of(DATA / "short.ogg"), file_name="short.ogg")
    ended = await client.finished(job.job_id)
    artifact = ended.artifacts[0]
    request = pb.DownloadArtifactRequest(job_id=job.job_id, name=artifact.name)
    frames = [frame async for frame in client.pipeline.DownloadArtifact(request)]
    audio = b"".join(frame.chunk for frame in frames[1:])

    assert frames[0].artifact == artifact
    assert len(audio) == artifact.size_bytes
    assert audio.startswith(b"\x1a\x45\xdf\xa3")  # Matroska, of which WebM is a kind
    assert "remove_noise" in {applied.option for applied in ended.applied_filters}


async def test_a_translated_job_has_its_captions_in_both_languages(client: Client) -> None:
    job = await client.upload(
        *chunks_of(DATA / "portuguese.ogg"),
        file_name="portuguese.ogg",
        options=job_pb2.JobOptions(language_out="en"),
    )
    ended = await client.finished(job.job_id)

    assert (ended.language, ended.language_out) == ("pt", "en")
    both = []
    for translated in (False, True):
        request = pb.GetCaptionsRequest(job_id=job.job_id, translated=translated)
        both.append(await client.pipeline.GetCaptions(request))
    original, english = (plain(captions.content.decode()) for captions in both)
    assert "trabalhar" in original
    assert "work" in english
    assert [captions.file_name for captions in both] == ["portuguese.srt", "portuguese.en.srt"]


async def test_captions_of_an_untranslated_job_are_not_offered_as_a_translation(
    client: Client,
) -> None:
    job = await client.upload(
        *chunks_of(DATA / "short.ogg"),
        file_name="short.ogg",
        options=job_pb2.JobOptions(language_out="en"),
    )
    ended = await client.finished(job.job_id)

    assert (ended.state, ended.language_out) == (job_pb2.JOB_STATE_SUCCEEDED, "")
    request = pb.GetCaptionsRequest(job_id=job.job_id, translated=True)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await client.pipeline.GetCaptions(request)
    assert reason_of(refused.value) == "NOT_TRANSLATED"
