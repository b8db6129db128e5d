"""What was captioned is found over gRPC, from the end of a job until it is deleted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from captions.model import Transcript
from mesh.bus import Bus
from mesh.errors import SourceRefusedError, UnavailableError
from mesh.reasons import Reason
from mesh.tokens import write_token
from orchestrator.jobs.caption_files import CaptionReader
from orchestrator.search import follower, index
from tests.orchestrator.access.conftest import token_for
from tests.orchestrator.conftest import Start
from tests.support.client import Client, refusal
from tests.support.polling import until
from tests.support.scripted import Script
from tests.support.transcripts import spoken, store_job
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import auth_service_pb2 as auth_pb
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import job_pb2, token_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import search_service_pb2 as search_pb


@pytest.fixture
def script() -> Script:
    script = Script()
    script.echoes = True
    return script


def says(text: str) -> job_pb2.JobOptions:
    """The scripted transcriber says the prompt with every segment."""
    return job_pb2.JobOptions(initial_prompt=text)


async def captioned(client: Client, text: str, **fields: Any) -> job_pb2.Job:
    made = await client.create(options=says(text), **fields)
    return await client.finished(made.job_id)


async def caught_up(client: Client, jobs: int) -> None:
    async def is_there() -> bool:
        found = await client.search("word")
        return (found.indexed, found.behind) == (jobs, 0)

    await until(is_there)


async def ids(client: Client, query: str, **fields: Any) -> list[str]:
    return [hit.job_id for hit in (await client.search(query, **fields)).hits]


async def test_what_was_said_is_found_with_its_time(client: Client, script: Script) -> None:
    job = await captioned(client, "Zürich")
    await caught_up(client, 1)

    [hit] = (await client.search('"3 zurich"')).hits

    assert hit.job_id == job.job_id
    assert hit.title == "A talk of http://example.test/talk.mp3"
    assert hit.source == "http://example.test/talk.mp3"
    assert hit.end_time == job.end_time
    assert (hit.start_offset.ToMilliseconds(), hit.end_offset.ToMilliseconds()) == (0, 6000)
    assert 2000 <= hit.match_offset.ToMilliseconds() < 3000
    [place] = hit.matches
    assert hit.snippet[place.start : place.end] == "3 Zürich"
    assert (hit.language, hit.translated) == ("en", False)


async def test_captions_of_jobs_that_failed_or_were_cancelled_are_found_too(
    client: Client, script: Script
) -> None:
    script.segment_failures = {
        3: [SourceRefusedError("gone", reason=Reason.CORRUPT_MEDIA)],
    }
    failed = await captioned(client, "failed")
    script.pause_before_segment = 2
    running = await client.create(options=says("cancelled"))
    await script.until_paused()
    await client.pipeline.CancelJob(pb.CancelJobRequest(job_id=running.job_id))
    await caught_up(client, 2)

    assert failed.state == job_pb2.JOB_STATE_FAILED
    assert await ids(client, '"word 3 failed"') == [failed.job_id]
    assert await ids(client, '"word 4"') == []
    assert await ids(client, "cancelled") == [running.job_id]


async def test_a_deleted_job_is_not_found_from_the_answer_on(client: Client) -> None:
    gone, stays = [await captioned(client, text) for text in ("gone", "stays")]
    await caught_up(client, 2)

    await client.delete(gone.job_id)

    assert await ids(client, "gone") == []
    assert await ids(client, "word") == [stays.job_id]
    await caught_up(client, 1)


async def test_a_replayed_job_is_found_with_its_new_text(client: Client, script: Script) -> None:
    script.segment_failures = {2: [SourceRefusedError("gone", reason=Reason.CORRUPT_MEDIA)]}
    job = await captioned(client, "again")
    await caught_up(client, 1)
    assert await ids(client, '"word 5"') == []
    request = admin_pb.ReplayDeadLetterRequest(job_id=job.job_id)

    async def is_replayed() -> bool:
        try:
            await client.admin.ReplayDeadLetter(request)
        except Exception:  # noqa: BLE001 # the letter is on its way
            return False
        return True

    await until(is_replayed)
    assert (await client.finished(job.job_id)).state == job_pb2.JOB_STATE_SUCCEEDED

    async def is_new() -> bool:
        return await ids(client, '"word 5"') == [job.job_id]

    await until(is_new)
    assert await ids(client, '"word 1"') == [job.job_id]


async def test_a_search_of_a_collection_or_a_job_finds_only_its(client: Client) -> None:
    request = collection_pb.CreateCollectionRequest(
        addresses=["http://example.test/member.mp3"], force=True
    )
    made = (await client.collections.CreateCollection(request)).collection
    watch = collection_pb.WatchCollectionRequest(collection_id=made.collection_id)
    async for _ in client.collections.WatchCollection(watch):
        pass
    alone = await captioned(client, "alone")
    await caught_up(client, 2)

    [member] = (await client.search("word", collection_id=made.collection_id)).hits
    assert member.collection_id == made.collection_id
    assert await ids(client, "word", job_id=alone.job_id) == [alone.job_id]
    assert await ids(client, "word", collection_id=alone.job_id) == []
    assert await ids(client, "word", language="pt") == []
    assert sorted(await ids(client, "word", language="en-US")) == []
    assert len(await ids(client, "word", language="EN")) == 2


async def test_pages_follow_each_other(client: Client, broker_bus: Bus) -> None:
    made = {await store_job(broker_bus, spoken(["word"])) for _ in range(7)}
    await caught_up(client, 7)

    found, token = list[str](), ""
    for _ in range(9):
        page = await client.search("word", page_size=3, page_token=token)
        found += [hit.job_id for hit in page.hits]
        token = page.next_page_token
        if not token:
            break

    assert (len(found), set(found)) == (7, made)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"query": ""}, Reason.REQUEST_INVALID),
        ({"query": "-word"}, Reason.REQUEST_INVALID),
        ({"query": "w" * 501}, Reason.REQUEST_INVALID),
        ({"query": "w" * 5000}, Reason.REQUEST_INVALID),
        ({"query": "word", "page_size": -1}, Reason.REQUEST_INVALID),
        ({"query": "word", "page_token": "x"}, Reason.REQUEST_INVALID),
        ({"query": "word", "page_token": "-3"}, Reason.REQUEST_INVALID),
        ({"query": "word", "page_token": "9" * 30}, Reason.REQUEST_INVALID),
        ({"query": "word", "page_token": "١"}, Reason.REQUEST_INVALID),
        ({"query": "word", "language": "e'n"}, Reason.LANGUAGE_UNKNOWN),
        ({"query": "word", "job_id": "x" * 600}, Reason.REQUEST_INVALID),
    ],
)
async def test_a_search_that_cannot_be_is_refused(
    client: Client, fields: dict[str, object], reason: Reason
) -> None:
    request = search_pb.SearchRequest(**fields)  # type: ignore[arg-type]

    assert await refusal(client.searching.Search(request)) == reason


async def test_a_search_tells_nothing_of_other_owners_but_of_the_own_group(
    start: Start, tmp_path: Path
) -> None:
    first = write_token(tmp_path / "first.token")
    async with start(login=True, token_file=str(tmp_path / "first.token")) as stranger:
        admin = stranger.with_token(first)
        ana, bia = [
            stranger.with_token((await token_for(admin, name)).secret) for name in ("ana", "bia")
        ]
        request = auth_pb.CreateTokenRequest(subject="cid", role=token_pb2.ROLE_SUBMITTER)
        request.groups.append("team")
        cid = stranger.with_token((await admin.auth.CreateToken(request)).secret)
        request.subject = "dan"
        dan = stranger.with_token((await admin.auth.CreateToken(request)).secret)
        hers, shared = await captioned(ana, "private"), await captioned(cid, "private")
        await caught_up(admin, 2)

        async def seen(client: Client, **fields: Any) -> tuple[list[str], int, int, str]:
            found = await client.search("private", **fields)
            return (
                [hit.job_id for hit in found.hits],
                found.indexed,
                found.behind,
                found.next_page_token,
            )

        assert await seen(ana) == ([hers.job_id], 1, 0, "")
        assert await seen(bia) == ([], 0, 0, "")
        assert await seen(bia, job_id=hers.job_id) == ([], 0, 0, "")
        assert await seen(dan) == await seen(cid) == ([shared.job_id], 1, 0, "")
        assert len((await seen(admin))[0]) == 2


async def test_a_restart_finds_everything_and_removes_what_went_meanwhile(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start() as first:
        gone, stays = [await captioned(first, text) for text in ("gone", "stays")]
        await caught_up(first, 2)
    reads = counted_reads(monkeypatch)
    async with start() as second:
        await caught_up(second, 2)
        assert reads == []  # nothing is read again
        await second.delete(gone.job_id)
        later = await captioned(second, "later")
        await caught_up(second, 2)
        assert set(await ids(second, "word")) == {stays.job_id, later.job_id}


def counted_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of transcripts that are read from here on."""
    reads: list[str] = []
    read = CaptionReader.transcript

    async def counting(self: CaptionReader, job: job_pb2.Job) -> Transcript:
        reads.append(job.job_id)
        return await read(self, job)

    monkeypatch.setattr(CaptionReader, "transcript", counting)
    return reads


async def test_an_orchestrator_with_another_folder_finds_what_others_captioned(
    start: Start, tmp_path: Path
) -> None:
    async with start() as one, start(work_dir=tmp_path / "other") as two:
        job = await captioned(one, "shared")
        await caught_up(two, 1)
        assert await ids(two, "shared") == [job.job_id]
        await one.delete(job.job_id)
        assert await ids(two, "shared") == []
        await caught_up(two, 0)


async def test_what_is_deleted_goes_from_the_disk_of_every_orchestrator(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "SCRUB_SECONDS", 0.05)
    folders = [tmp_path / "work" / "search", tmp_path / "other" / "search"]

    def holds(folder: Path) -> bool:
        return any(b"qsecretz" in path.read_bytes() for path in folder.rglob("index*"))

    async with start() as one, start(work_dir=tmp_path / "other") as two:
        job = await captioned(one, "qsecretz")
        await caught_up(one, 1)
        await caught_up(two, 1)
        assert all(map(holds, folders))
        await one.delete(job.job_id)
        await until(lambda: not any(map(holds, folders)))


async def test_a_transcript_that_cannot_be_read_now_is_indexed_later(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "AGAIN_SECONDS", 0.05)
    failures = 3

    async def failing(self: CaptionReader, job: job_pb2.Job) -> Transcript:
        nonlocal failures
        if failures:
            failures -= 1
            raise UnavailableError("away", reason=Reason.STORAGE_UNAVAILABLE)
        return await read(self, job)

    read = CaptionReader.transcript
    monkeypatch.setattr(CaptionReader, "transcript", failing)
    async with start() as client:
        job = await captioned(client, "late")
        await caught_up(client, 1)
        assert await ids(client, "late") == [job.job_id]
    assert failures == 0


async def test_a_transcript_that_is_none_does_not_hold_up_the_others(
    client: Client, broker_bus: Bus
) -> None:
    bad = await store_job(broker_bus, spoken(["word"]))
    await broker_bus.artifacts.put(f"{bad}/transcript.pb", b"\xff" * 9)
    good = await store_job(broker_bus, spoken(["word"]))
    await caught_up(client, 2)

    assert set(await ids(client, "word")) - {bad} == {good}


@pytest.mark.parametrize(
    "harm", [lambda path: path.unlink(), lambda path: path.write_bytes(b"x" * 99)]
)
async def test_an_index_that_is_lost_or_damaged_is_made_again(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], object]
) -> None:
    monkeypatch.setattr(follower, "AGAIN_SECONDS", 0.05)
    job = await captioned(client, "back")
    await caught_up(client, 1)
    for path in (tmp_path / "work" / "search").rglob("index.db*"):
        harm(path)

    async def is_found() -> bool:
        other = await captioned(client, "new")  # the writer notices, or the reader does
        try:
            return await ids(client, "back") == [job.job_id] and other.job_id in await ids(
                client, "new"
            )
        except Exception:  # noqa: BLE001 # it is being made again
            return False

    await until(is_found)


async def test_without_fts5_jobs_run_and_a_search_says_what_is_missing(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "has_fts5", lambda: False)
    async with start() as client:
        job = await captioned(client, "text")
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED

        async def is_said() -> bool:
            return await refusal(client.search("text")) == Reason.TOOL_MISSING

        await until(is_said)
        request = admin_pb.FactoryResetRequest(confirmation="ERASE EVERYTHING")
        reset = await client.admin.FactoryReset(request)
        assert [one.error for one in reset.services if one.name == "orchestrator"] == [""]


async def test_a_factory_reset_leaves_no_word_on_the_disk(client: Client, tmp_path: Path) -> None:
    await captioned(client, "qsecretz")
    await caught_up(client, 1)
    folder = tmp_path / "work" / "search"

    def holds() -> bool:
        return any(b"qsecretz" in path.read_bytes() for path in folder.rglob("index*"))

    assert holds()

    request = admin_pb.FactoryResetRequest(confirmation="ERASE EVERYTHING")
    await client.admin.FactoryReset(request)

    assert not holds()
    assert (await client.search("qsecretz")).indexed == 0
