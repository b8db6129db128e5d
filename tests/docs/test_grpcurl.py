"""Every `buf curl` of docs/grpcurl.md works against a real mesh, in the order it is written."""

import asyncio
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import blocks, page

COMMANDS = [block for block in blocks(page("docs/grpcurl.md"), "sh") if "buf curl" in block]
SECONDS = 150


@pytest.fixture
def mesh_address(real_mesh: Any) -> str:
    """host:port of the orchestrator of a mesh that runs."""
    return str(real_mesh.server)


async def test_the_commands_lead_from_listing_to_captions(
    mesh_address: str, spoken_url: str, tmp_path: Path
) -> None:
    said = await _run_all(mesh_address, spoken_url, tmp_path)

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


def test_every_command_is_run_and_looked_at() -> None:
    assert len(COMMANDS) == len({_name(command) for command in COMMANDS}) == 12


async def _run_all(server: str, url: str, folder: Path) -> dict[str, str]:
    """Runs all blocks in one shell, as a reader would; what each printed, by its name."""
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
    """What a block asks for: the rpc it calls, or what is special about it."""
    for special in ("list-services", "list-methods", "Health/Check", "after_sequence"):
        if special in command:
            return special
    called = re.search(r"\$SERVER/[\w.]+/(\w+)", command)
    assert called, command
    return called[1]
