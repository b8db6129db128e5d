"""A service with a token of its own: who may call it, and who may read its metrics."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub

from mesh.callers import guarded_by
from mesh.channel import open_channel
from mesh.errors import UnavailableError
from mesh.metrics import serve_metrics
from mesh.reasons import Reason
from mesh.server import running_server
from mesh.status import reason_of
from mesh.tokens import new_token, read_token, write_token
from tests.mesh.echo import echo_service
from ytcaption.v1 import downloader_service_pb2 as pb
from ytcaption.v1 import downloader_service_pb2_grpc as rpc

NAME = "ytcaption.v1.DownloaderService"
SECONDS = 60


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "stages.token"
    write_token(file)
    return file


@pytest.fixture
async def address(token_file: Path) -> AsyncIterator[str]:
    service = guarded_by(str(token_file), echo_service(None))
    async with running_server([service], grace_seconds=0) as server:
        yield f"127.0.0.1:{server.port}"


async def answered(address: str, token: str) -> str:
    """The reason of a refusal; "" for an answer."""
    async with open_channel(address, NAME, token=token) as channel:
        try:
            call = rpc.DownloaderServiceStub(channel).Download(pb.DownloadRequest())
            assert [one async for one in call]
        except grpc.aio.AioRpcError as error:
            return reason_of(error)
    return ""


async def test_a_service_with_a_token_refuses_callers_without_it(
    address: str, token_file: Path
) -> None:
    assert await answered(address, read_token(str(token_file))) == ""
    assert await answered(address, "") == Reason.TOKEN_REQUIRED
    for wrong in (new_token(), "junk", f"{read_token(str(token_file))}0"):
        assert await answered(address, wrong) == Reason.TOKEN_INVALID


async def test_the_token_of_a_channel_goes_before_other_metadata(
    address: str, token_file: Path
) -> None:
    async with open_channel(address, NAME, token=read_token(str(token_file))) as channel:
        call = rpc.DownloaderServiceStub(channel).Download(
            pb.DownloadRequest(), metadata=(("authorization", "Bearer other"),)
        )
        assert [one async for one in call]


async def test_health_of_such_a_service_needs_no_token(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        stub: object = HealthStub(channel)
        assert (await stub.Check(HealthCheckRequest())).status  # type: ignore[attr-defined]


def test_a_file_that_others_can_read_is_refused(token_file: Path) -> None:
    token_file.chmod(0o644)

    with pytest.raises(UnavailableError, match="other users can read it"):
        guarded_by(str(token_file), echo_service(None))


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer junk", "Basic eDp5", f"Bearer {new_token()}"]
)
def test_metrics_with_a_token_are_shown_to_no_one_else(header: str) -> None:
    token = new_token()
    url = f"http://127.0.0.1:{serve_metrics('127.0.0.1:0', token=token)}/metrics"

    with pytest.raises(HTTPError) as refused:
        urlopen(Request(url, headers={"Authorization": header}), timeout=SECONDS).close()
    right = Request(url, headers={"Authorization": f"Bearer {token}"})
    with urlopen(right, timeout=SECONDS) as answer:  # noqa: S310 # our own
        shown = answer.read()

    assert refused.value.code == 401
    assert refused.value.headers["WWW-Authenticate"] == "Bearer"
    assert b"python_info" not in refused.value.read()
    assert b"python_info" in shown
