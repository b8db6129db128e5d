"""A mesh that starts without model weights shows the progress of their download."""

import asyncio
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from cli.local.mesh import embedded_plan, phases, tls_of_services
from cli.local.supervisor import supervised
from mesh.channel import open_direct_channel
from tests.cli.local.children import RecordingDisplay
from tests.conftest import OVER_TLS, certificates_in
from tests.support.hub_site import serving_hub
from tests.support.polling import until
from transcriber.model.bundled_weights import BUNDLED
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import media_pb2
from ytcaption.v1.admin_service_pb2_grpc import AdminServiceStub

NAME = "someone/tiny.en"
HELD_AT = 40 * 1024**2


async def test_the_status_line_and_health_show_the_bytes_of_a_model_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = BUNDLED["tiny.en"].files()
    assert pieces is not None, "the offline extra is not installed"
    with serving_hub(pieces[0].parent) as hub:
        hub.hold_at = HELD_AT
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path))
        monkeypatch.setenv("TRANSCRIBER_MODEL", NAME)
        certs = certificates_in(tmp_path / "certs") if OVER_TLS else None
        plan = replace(embedded_plan(tmp_path), tls=tls_of_services(certs, {}))
        display = RecordingDisplay()
        mesh = supervised(phases(plan), tmp_path, grace_seconds=1, display=display)
        starting = asyncio.ensure_future(mesh.__aenter__())
        address, caller = plan.listen["orchestrator"], plan.tls["gateway"]
        async with open_direct_channel(address, caller) as channel:
            fetching = await _until_fetching(AdminServiceStub(channel))
            hub.go_on.set()
            await starting
            await until(lambda: _is_healthy(AdminServiceStub(channel)))
        await mesh.__aexit__(None, None, None)

    assert fetching.preparing.fetched.total_bytes > fetching.preparing.fetched.done_bytes > 0
    assert fetching.detail.startswith(f"fetching model {NAME}, ")
    assert any(f"transcriber (fetching model {NAME}, " in line for line in display.statuses)
    assert any("transcriber ready" in line for line in display.statuses)


async def _is_healthy(admin: AdminServiceStub) -> bool:
    return (await admin.GetHealth(pb.GetHealthRequest())).healthy


async def _until_fetching(admin: AdminServiceStub) -> pb.ComponentHealth:
    async with asyncio.timeout(240):
        while True:
            try:
                found = await admin.GetHealth(pb.GetHealthRequest(), wait_for_ready=True)
            except grpc.aio.AioRpcError:
                continue
            part = next(one for one in found.components if one.name == "transcriber")
            fetched = part.preparing.fetched.done_bytes
            if part.preparing.phase == media_pb2.PREPARATION_PHASE_FETCHING and fetched:
                return part
            await asyncio.sleep(0.05)
