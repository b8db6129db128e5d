"""Every `buf curl` of docs/grpcurl.md works against a real mesh, in the order it is written."""

import asyncio
import base64
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DATA, RealMesh
from tests.docs.pages import blocks, page
from ytcaption.v1 import (
    admin_service_pb2,
    auth_service_pb2,
    collection_service_pb2,
    pipeline_service_pb2,
    quota_service_pb2,
    search_service_pb2,
)

COMMANDS = [
    block for block in blocks(page("docs/grpcurl.md"), "sh") if re.search("buf curl|^call ", block)
]
SECONDS = 280


@pytest.fixture(scope="module")
async def said(
    real_mesh: RealMesh, spoken_url: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """The output of every command, by its name."""
    return await _run_all(real_mesh.server, spoken_url, tmp_path_factory.mktemp("grpcurl"))


def test_the_commands_create_watch_read_and_delete_a_job(said: dict[str, str]) -> None:
    assert "ytcaption.v1.PipelineService" in said["list-services"]
    assert "ytcaption.v1.PipelineService/WatchJob" in said["list-methods"]
    assert "fileDescriptorProto" in said["ServerReflectionInfo"]
    assert json.loads(said["Health/Check"])["status"] == "SERVING"
    assert json.loads(said["GetHealth"])["healthy"] is True
    assert json.loads(said["CreateJob"])["job"]["state"] == "JOB_STATE_QUEUED"
    assert "EVENT_TYPE_SEGMENT_SETTLED" in said["WatchJob"]
    assert "EVENT_TYPE_JOB_FINISHED" in said["WatchJob"]
    assert '"sequence": "1"' not in said["after_sequence"]
    assert " --> " in said["GetCaptions"]
    assert len(json.loads(said["ListJobs"])["jobs"]) >= 1
    assert json.loads(said["CancelJob"])["job"]["state"] == "JOB_STATE_SUCCEEDED"
    assert int(json.loads(said["DeleteJob"])["eventsRemoved"]) > 0


def test_an_upload_is_captioned_with_and_without_a_job(said: dict[str, str]) -> None:
    assert json.loads(said["CreateJobFromUpload"])["job"]["source"]["upload"]["fileName"]
    streamed = _messages(said["TranscribeStream"])
    assert "weather" in next(one for one in streamed if "segment" in one)["segment"]["text"]
    assert "finished" in streamed[-1]


def test_a_job_is_read_and_run_again(said: dict[str, str]) -> None:
    assert json.loads(said["GetAbilities"])["models"]
    assert json.loads(said["GetJob"])["job"]["state"] == "JOB_STATE_SUCCEEDED"
    artifact, chunk = _messages(said["DownloadArtifact"])
    assert artifact["artifact"]["name"] == "audio.webm"
    assert len(base64.b64decode(chunk["chunk"])) == 100
    repeated = json.loads(said["RepeatJob"])["job"]["jobId"]
    assert repeated != json.loads(said["CreateJob"])["job"]["jobId"]


def test_a_collection_is_created_watched_reported_and_deleted(said: dict[str, str]) -> None:
    assert json.loads(said["CreateCollection"])["collection"]["title"] == "Two"
    last = _messages(said["WatchCollection"])[-1]["collection"]
    assert (last["state"], last["settled"]) == ("COLLECTION_STATE_PARTIAL", True)
    states = [member["state"] for member in json.loads(said["GetCollection"])["members"]]
    assert sorted(states) == ["MEMBER_STATE_COMPLETED", "MEMBER_STATE_FAILED"]
    assert len(json.loads(said["ListCollections"])["collections"]) >= 1
    assert said["GetReport"].startswith("# Two\n")
    ended = json.loads(said["CancelCollection"])["collection"]
    assert ended["state"] == "COLLECTION_STATE_PARTIAL"
    assert json.loads(said["DeleteCollection"])["jobsRemoved"] == "2"


def test_list_watches_send_the_current_page(said: dict[str, str]) -> None:
    assert len(_messages(said["WatchJobs"])[0]["jobs"]) == 3
    assert len(_messages(said["WatchCollections"])[0]["collections"]) >= 1


def test_operators_read_statistics_replay_and_clean_up(said: dict[str, str]) -> None:
    assert json.loads(said["GetStats"])["jobs"]
    (letter, *_) = json.loads(said["ListDeadLetters"])["deadLetters"]
    assert letter["failure"]["reason"] == "VIDEO_NOT_FOUND"
    assert json.loads(said["ReplayDeadLetter"])["job"]["jobId"] == letter["letterId"]
    assert json.loads(said["PurgeDeadLetters"]).keys() <= {"deadLettersRemoved"}
    assert json.loads(said["ListWebhookDeliveries"]) == {}, "no job asked for a webhook"
    assert json.loads(said["ListAudit"]) == {}, "there is no login"
    assert json.loads(said["Cleanup"]) == {}, "nothing is a day old"
    own = json.loads(said["FactoryReset"])["services"][0]
    assert (int(own["jobsRemoved"]) >= 1, int(own["collectionsRemoved"]) >= 1) == (True, True)


def test_an_owner_is_exported_and_erased(said: dict[str, str]) -> None:
    assert json.loads(said["SetOwnerRetention"])["retention"]["retention"] == "2592000s"
    assert len(json.loads(said["ListOwnerRetentions"])["retentions"]) == 1
    first, *rest = _messages(said["ExportOwner"])
    assert first["mediaType"] == "application/zip"
    assert base64.b64decode(rest[0]["chunk"]).startswith(b"PK")
    assert _messages(said["EraseOwner"])[-1]["finished"] is True


def test_tokens_are_made_listed_and_revoked(said: dict[str, str]) -> None:
    assert json.loads(said["GetCaller"]) == {"role": "ROLE_ADMIN"}
    made = json.loads(said["CreateToken"])
    assert made["secret"].startswith(f"ytc_{made['token']['tokenId']}_")
    assert "secret" not in said["ListTokens"]
    assert "revokeTime" in json.loads(said["RevokeToken"])["token"]
    assert json.loads(said["EndSessions"]) == {}
    for name, code in (
        ("CreateLink", "permission_denied"),
        ("CreateSession", "permission_denied"),
        ("OpenLink", "unauthenticated"),
    ):
        assert code in said[name]


def test_a_type_is_registered_listed_and_taken_back(said: dict[str, str]) -> None:
    assert json.loads(said["RegisterType"])["type"]["removable"] is True
    listed = {one["type"] for one in json.loads(said["ListTypes"])["types"]}
    assert listed >= {"noticias", "youtube", "url", "legendas", "relatorio"}
    assert json.loads(said["UnregisterType"]) == {"removed": True}


def test_every_call_of_the_public_services_is_shown_once() -> None:
    named = [_name(command) for command in COMMANDS]
    public = (
        pipeline_service_pb2,
        collection_service_pb2,
        admin_service_pb2,
        auth_service_pb2,
        quota_service_pb2,
        search_service_pb2,
    )
    calls = {
        method.name
        for contract in public
        for service in contract.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }

    assert len(named) == len(set(named))
    assert set(named) >= calls


def _messages(printed: str) -> list[Any]:
    """The messages of a streaming answer."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(printed.rstrip()):
        message, at = decoder.raw_decode(printed, at)
        found.append(message)
        at = len(printed) - len(printed[at:].lstrip())
    return found


async def _run_all(server: str, url: str, folder: Path) -> dict[str, str]:
    """Runs all blocks in one shell, as a reader would; returns the output of each, by its name."""
    outputs = [folder / f"{number}.out" for number in range(len(COMMANDS))]
    script = "".join(
        f"{{\n{command}}} >{output}\n" for command, output in zip(COMMANDS, outputs, strict=True)
    )
    found = Path(sys.executable).parent
    shell = await asyncio.create_subprocess_exec(
        *(shutil.which("sh") or "/bin/sh", "-eu", "-c", script),
        cwd=folder,
        env={
            "PATH": f"{found}:{os.environ['PATH']}",
            "HOME": str(folder),
            "SERVER": server,
            "URL": url,
            "FILE": str(DATA / "short.ogg"),
        },
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(SECONDS):
            _, complaints = await shell.communicate()
    finally:
        if shell.returncode is None:
            shell.kill()
            await shell.wait()
    assert shell.returncode == 0, complaints.decode()
    return {
        _name(command): output.read_text()
        for command, output in zip(COMMANDS, outputs, strict=True)
    }


def _name(command: str) -> str:
    """The name of a block: the rpc it calls, or its distinguishing word."""
    for special in ("list-services", "list-methods", "Health/Check", "after_sequence", "call()"):
        if special in command:
            return special
    called = re.search(r"(?:\$SERVER/[\w.]+|^call \w+)/(\w+)", command)
    assert called, command
    return called[1]
