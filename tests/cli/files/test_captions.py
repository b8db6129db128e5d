"""The files `ytcaption collect` writes."""

import json
from pathlib import Path

from tests.support.collection_updates import (
    COLLECTION_ID,
    COMPLETED,
    LIST,
    collection,
    member,
    updates_of,
)
from tests.support.command import names_in, run
from tests.support.fake_orchestrator import FakeCollections, FakePipeline, serving
from ytcaption.v1 import collection_pb2 as pb
from ytcaption.v1 import media_pb2 as media_pb


async def test_files_and_reports_are_written_in_the_order_of_the_collection(tmp_path: Path) -> None:
    scripted, pipeline = FakeCollections(), FakePipeline()

    async with serving(pipeline, collections=scripted) as address:
        ended = await run(
            *("collect", LIST, "--server", address, "-o", str(tmp_path / "new"), "-f", "vtt"),
            *("--report", "pdf", "--report", "zip", "--json"),
        )

    files = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    assert ended.code == 0, ended.err
    assert files == {
        "001 Talk 1.vtt": b"VTT of job-1\n",
        "002 Talk 2.vtt": b"VTT of job-2\n",
        "report.pdf": scripted.report,
        "captions.zip": scripted.report,
    }
    assert [request.caption_format for request in scripted.reports] == [
        media_pb.CAPTION_FORMAT_VTT
    ] * 2
    first, *changes, last = map(json.loads, ended.out.splitlines())
    assert first == {"type": "accepted", "collection_id": COLLECTION_ID}
    assert [(one["number"], one["state"]) for one in changes] == [
        *((1, "PENDING"), (2, "PENDING"), (1, "RUNNING"), (1, "COMPLETED")),
        *((2, "RUNNING"), (2, "COMPLETED")),
    ]
    assert last == {
        "type": "finished",
        "collection_id": COLLECTION_ID,
        "state": "COMPLETE",
        "members": 2,
        "late": 0,
        "counts": {"COMPLETED": 2},
        "files": [str(tmp_path / "new" / f"00{n} Talk {n}.vtt") for n in (1, 2)],
        "reports": [str(tmp_path / "new" / name) for name in ("report.pdf", "captions.zip")],
    }


async def test_hostile_titles_stay_in_the_directory_and_off_the_terminal(tmp_path: Path) -> None:
    title = "../../etc/\x1b]0;owned\x07passwd\u202etxt"
    event_log = updates_of(
        member(1, COMPLETED, title=title),
        collection(pb.COLLECTION_STATE_COMPLETE, 1, settled=True),
    )

    async with serving(collections=FakeCollections(event_log)) as address:
        ended = await run(
            "collect", LIST, "--server", address, "-o", str(tmp_path / "out"), "-f", "srt"
        )

    assert names_in(tmp_path / "out") == ["001 _.._etc_ ]0;owned passwd txt.srt"]
    assert not {"\x1b", "\x07", "\u202e"} & set(ended.out + ended.err)


async def test_an_unwritable_caption_file_fails_the_command_but_not_the_other_files(
    tmp_path: Path,
) -> None:
    (tmp_path / "001 Talk 1.srt").mkdir()

    async with serving() as address:
        ended = await run("collect", LIST, "--server", address, "-o", str(tmp_path), "-f", "srt")

    assert ended.code == 3
    assert "error: cannot write" in ended.err
    assert (tmp_path / "002 Talk 2.srt").is_file()
