"""An orchestrator with a login, and its first token."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mesh.tokens import write_token
from tests.orchestrator.access.table import REPORT, RESULT_FILE
from tests.orchestrator.conftest import Start
from tests.orchestrator.webhooks.receiver import SECRET
from tests.support.client import Client
from tests.support.fixed_types import FixedTypes
from tests.support.tasks import Made, ScriptedExecutor, executor, struct
from ytcaption.v1 import auth_service_pb2 as pb
from ytcaption.v1 import task_pb2, token_pb2


@pytest.fixture
def first_token(tmp_path: Path) -> str:
    return write_token(tmp_path / "first.token")


@pytest.fixture
def types() -> FixedTypes:
    """The executor of every collection, which makes one file."""
    made = Made(file=task_pb2.ResultFile(name=RESULT_FILE))
    report = ScriptedExecutor([made, Made(chunk=b"x"), Made(result=struct())])
    return FixedTypes([executor(REPORT, report)])


@pytest.fixture
async def stranger(
    start: Start, types: FixedTypes, first_token: str, tmp_path: Path
) -> AsyncIterator[Client]:
    """A caller without a token. There are webhooks, which belong to owners, too."""
    file, hooks = str(tmp_path / "first.token"), {"webhook_secret": SECRET, "webhook_private": True}
    async with start(types, login=True, token_file=file, **hooks) as client:
        yield client


@pytest.fixture
async def admin(stranger: Client, first_token: str) -> Client:
    return stranger.with_token(first_token)


async def token_for(
    admin: Client, subject: str, role: "token_pb2.Role.ValueType" = token_pb2.ROLE_SUBMITTER
) -> pb.CreateTokenResponse:
    request = pb.CreateTokenRequest(subject=subject, role=role)
    return await admin.auth.CreateToken(request)
