"""An orchestrator with a login, and its first token."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mesh.tokens import write_token
from tests.orchestrator.conftest import Start
from tests.support.client import Client
from ytcaption.v1 import auth_service_pb2 as pb
from ytcaption.v1 import token_pb2


@pytest.fixture
def first_token(tmp_path: Path) -> str:
    return write_token(tmp_path / "first.token")


@pytest.fixture
async def stranger(start: Start, first_token: str, tmp_path: Path) -> AsyncIterator[Client]:
    """A caller without a token."""
    async with start(login=True, token_file=str(tmp_path / "first.token")) as client:
        yield client


@pytest.fixture
async def admin(stranger: Client, first_token: str) -> Client:
    return stranger.with_token(first_token)


async def token_for(
    admin: Client, subject: str, role: "token_pb2.Role.ValueType" = token_pb2.ROLE_SUBMITTER
) -> pb.CreateTokenResponse:
    request = pb.CreateTokenRequest(subject=subject, role=role)
    return await admin.auth.CreateToken(request)
