"""An export has everything stored about its owner, and nothing of others, and no secret."""

import io
import json
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
import pytest

from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason
from mesh.status import reason_of
from mesh.tokens import digest_of
from tests.orchestrator.access.conftest import token_for
from tests.orchestrator.maintenance import test_erasure
from tests.orchestrator.maintenance.test_erasure import (
    all_delivered,
    owner_named,
    with_everything,
)
from tests.orchestrator.webhooks.receiver import Receiver
from tests.support.client import Client
from tests.support.polling import until
from tests.support.scripted import SECOND, Script
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import auth_service_pb2 as auth_pb
from ytcaption.v1 import token_pb2

script, first_token, receiver = (
    test_erasure.script,
    test_erasure.first_token,
    test_erasure.receiver,
)
login, stranger, admin = test_erasure.login, test_erasure.stranger, test_erasure.admin


async def exported(client: Client, owner: str = "") -> tuple[bytes, list[pb.ExportOwnerResponse]]:
    parts = [part async for part in client.admin.ExportOwner(pb.ExportOwnerRequest(owner=owner))]
    return b"".join(part.chunk for part in parts), parts


def unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        assert found.testzip() is None
        assert len(found.namelist()) == len(set(found.namelist()))
        return {name: found.read(name) for name in found.namelist()}


def lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.decode().splitlines()]


async def test_an_export_has_everything_of_its_owner_and_nothing_of_others(
    stranger: Client, admin: Client, script: Script, receiver: Receiver, tmp_path: Path
) -> None:
    ana, bia = [await owner_named(admin, stranger, name) for name in ("ana", "bia")]
    ana, bia = [await with_everything(one, script, receiver.url) for one in (ana, bia)]
    await until(lambda: all_delivered(ana.client))

    data, parts = await exported(ana.client)
    files = unpacked(data)

    assert (parts[0].media_type, parts[0].chunk) == ("application/zip", b"")
    assert parts[0].file_name.startswith("ytcaption ana ")
    assert (parts[-1].done, parts[-1].total) == (6, 6)
    assert all(len(part.chunk) <= MAX_FRAME_BYTES for part in parts)
    manifest = json.loads(files["manifest.json"])
    assert manifest["owner"] == "ana"
    assert manifest["missing"] == []
    assert {one["name"] for one in manifest["files"]} == files.keys() - {"manifest.json"}
    for one in manifest["files"]:
        content = files[one["name"]]
        assert (len(content), sha256(content).hexdigest()) == (one["size_bytes"], one["sha256"])

    done = f"jobs/{ana.done}"
    assert json.loads(files[f"{done}/job.json"])["owner"] == "ana"
    assert lines(files[f"{done}/events.jsonl"])[-1]["type"] == "EVENT_TYPE_JOB_FINISHED"
    assert ana.mark.encode() in files[f"{done}/captions.srt"]
    assert ana.mark in json.loads(files[f"{done}/transcript.json"])["segments"][0]["text"]
    assert files[f"{done}/audio.webm"]
    uploads = [name for name in files if name.startswith(f"jobs/{ana.uploaded}/upload")]
    assert [files[name] for name in uploads] == [f"{ana.mark} content".encode() * 2000 + SECOND]
    assert ana.mark in json.loads(files[f"collections/{ana.collection}/collection.json"])["title"]
    assert len(lines(files["webhook-deliveries.jsonl"])) == 4
    [letter] = lines(files["dead-letters.jsonl"])
    assert letter["failure"]["message"] == f"{ana.mark} failed"
    [token] = lines(files["tokens.jsonl"])
    assert (token["token_id"], token["note"]) == (ana.token_id, f"{ana.mark} note")
    assert len(lines(files["published-events.jsonl"])) > 20
    assert lines(files["audit.jsonl"])[0]["method"] == "PipelineService/CreateJob"

    everything = b"".join(files.values())
    assert bia.mark.encode() not in everything
    assert bia.done.encode() not in everything
    # The query of a webhook address is a secret of its receiver.
    assert f"{ana.mark}=secret".encode() not in everything
    assert b"?REDACTED" in everything


async def test_only_an_admin_exports_another_owner(stranger: Client, admin: Client) -> None:
    ana = await owner_named(admin, stranger, "ana")
    job = await test_erasure.one_job(ana)
    small = [
        stranger.with_token((await token_for(admin, name, role)).secret)
        for name, role in (
            ("bia", token_pb2.ROLE_READER),
            ("bia", token_pb2.ROLE_SUBMITTER),
            ("op", token_pb2.ROLE_OPERATOR),
        )
    ]
    for client in small:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await exported(client, "ana")
        assert reason_of(caught.value) == Reason.ROLE_REQUIRED
        assert job.encode() not in (await exported(client))[0]
    reader = stranger.with_token((await token_for(admin, "ana", token_pb2.ROLE_READER)).secret)

    for client in (reader, ana.client):
        assert f"jobs/{job}/job.json" in unpacked((await exported(client))[0])
    files = unpacked((await exported(admin, "ana"))[0])

    assert f"jobs/{job}/job.json" in files
    # What the admin did to the owner is in it, not from where.
    entries = lines(files["audit.jsonl"])
    assert all("peer" not in one for one in entries if one.get("subject") == "admin")


async def test_a_running_job_is_exported_as_far_as_it_is(
    stranger: Client, admin: Client, script: Script
) -> None:
    ana = await owner_named(admin, stranger, "ana")
    script.pause_before_segment = 2
    job = await ana.client.create(
        f"http://example.test/{ana.mark}.mp3", options=test_erasure.options(ana)
    )
    await script.until_paused()

    async def has_text() -> bool:
        files = unpacked((await exported(ana.client))[0])
        return b"word 2" in files.get(f"jobs/{job.job_id}/captions.srt", b"")

    await until(has_text)
    script.go_on.set()


async def test_no_token_and_no_digest_is_in_an_export(
    stranger: Client, admin: Client, first_token: str
) -> None:
    secret = (await token_for(admin, "ana")).secret
    ana = stranger.with_token(secret)
    session = await ana.auth.CreateSession(auth_pb.CreateSessionRequest())

    everything = b"".join(unpacked((await exported(ana))[0]).values())

    for word in (secret, session.session, first_token):
        assert word.encode() not in everything
        assert digest_of(word) not in everything
        assert digest_of(word).hex().encode() not in everything
