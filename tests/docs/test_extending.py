"""docs/extending.md, followed line by line in an empty folder, against a real mesh."""

import asyncio
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from google.protobuf.json_format import MessageToDict

from mesh.addresses import free_ports
from orchestrator.events.parsing import ContractMessage
from orchestrator.tasks import grpc_collector, grpc_executor, validation
from tests.conftest import COMMAND, RealMesh
from tests.docs.pages import blocks, page
from tests.orchestrator.tasks.services import struct
from tests.support.strangers import serving_program, stranger_environment
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import admin_service_pb2_grpc as admin_rpc
from ytcaption.v1 import collection_pb2, task_pb2
from ytcaption.v1 import collector_service_pb2 as collector_pb
from ytcaption.v1 import collector_service_pb2_grpc as collector_rpc
from ytcaption.v1 import executor_service_pb2 as executor_pb
from ytcaption.v1 import executor_service_pb2_grpc as executor_rpc

PAGE = page("docs/extending.md")
PROGRAMS = dict(
    re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
)
LINES = [line for block in blocks(PAGE, "sh") for line in block.splitlines()]
SERVED = ("escavador.py", "executador.py")


@dataclass(frozen=True, slots=True)
class Follower:
    """A folder in which the page was followed up to the use of what was written."""

    folder: Path
    environment: dict[str, str]
    ports: dict[str, str]
    server: str
    printed: dict[str, str]

    async def run(self, line: str) -> str:
        """Runs a line of the page; returns what it prints."""
        program, *words = shlex.split(self.real(line))
        command = [sys.executable, "-S"] if program == "python" else [COMMAND]
        mesh = {"YTCAPTION_SERVER": self.server}
        process = await asyncio.create_subprocess_exec(
            *command,
            *words,
            cwd=self.folder,
            env=self.environment if program == "python" else {**os.environ, **mesh},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == 0, f"{line}\n{out.decode()}{err.decode()}"
        return out.decode()

    def real(self, text: str) -> str:
        """The text with the ports and the server of this test."""
        for shown, port in self.ports.items():
            text = text.replace(shown, port)
        return text.replace("127.0.0.1:50051", self.server)


@pytest.fixture(scope="module")
async def follower(
    real_mesh: RealMesh, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Follower]:
    folder = tmp_path_factory.mktemp("stranger")
    environment = stranger_environment(folder)
    ports = dict(zip(("7001", "7002"), map(str, free_ports(2)), strict=True))
    found = Follower(folder, environment, ports, real_mesh.server, {})
    for name, text in PROGRAMS.items():
        (folder / name).write_text(found.real(text))
    ends = LINES.index("python coleta.py 127.0.0.1:50051")
    async with AsyncExitStack() as running:
        for line in LINES[:ends]:
            program = line.removeprefix("python ")
            if program in SERVED:
                served = serving_program(environment, program, folder=folder)
                await running.enter_async_context(served)
            else:
                found.printed[line] = await found.run(line)
        yield found
        for line in LINES[ends + 1 :]:
            await found.run(line)


def test_the_page_has_three_programs_and_the_test_runs_every_line() -> None:
    assert [*PROGRAMS] == [*SERVED, "coleta.py"]
    assert all(line.split()[0] in ("python", "ytcaption") for line in LINES)


async def test_what_the_page_registers_is_listed_as_healthy(follower: Follower) -> None:
    listed = follower.printed["ytcaption types"]

    assert re.search(r"linhas .* healthy .*A document for each line\.", " ".join(listed.split()))
    async with grpc.aio.insecure_channel(follower.server) as channel:
        admin = admin_rpc.AdminServiceStub(channel)
        types = {
            one.type: one for one in (await admin.ListTypes(admin_pb.ListTypesRequest())).types
        }
    assert types["tamanho"].timeout.seconds == 600
    assert "linhas" in MessageToDict(types["linhas"].description)["parametersSchema"]["properties"]


async def test_the_collector_of_the_page_finds_each_line(follower: Follower) -> None:
    request = collector_pb.CollectRequest(
        type="linhas", parameters=struct({"linhas": ["Era uma vez", "e acabou."]})
    )
    async with grpc.aio.insecure_channel(f"127.0.0.1:{follower.ports['7001']}") as channel:
        call = collector_rpc.CollectorServiceStub(channel).Collect(request)
        found = [one async for one in call]

    documents = [one for one in found if one.HasField("document")]
    assert [(one.key, one.document.text) for one in documents] == [
        ("linha-1", "Era uma vez"),
        ("linha-2", "e acabou."),
    ]


async def test_the_executor_of_the_page_measures_what_it_gets(follower: Follower) -> None:
    items = [
        executor_pb.ExecuteRequest(start=executor_pb.ExecuteStart(kind="tamanho")),
        executor_pb.ExecuteRequest(member=collection_pb2.Member(number=1)),
        executor_pb.ExecuteRequest(segments=executor_pb.MemberSegments(member=1, text="olá")),
        executor_pb.ExecuteRequest(document=task_pb2.Document(text="1234")),
    ]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{follower.ports['7002']}") as channel:
        answers = [
            one async for one in executor_rpc.ExecutorServiceStub(channel).Execute(iter(items))
        ]

    assert answers[1].chunk == b"7\n"
    assert dict(answers[-1].result) == {"itens": 2, "caracteres": 7}


async def test_a_collection_uses_both_as_the_page_shows(follower: Follower) -> None:
    [shown] = blocks(PAGE, "text")

    assert await follower.run("python coleta.py 127.0.0.1:50051") == shown


def test_the_bounds_of_the_page_are_those_of_the_code() -> None:
    said = " ".join(PAGE.split())

    for kind, bound in (
        ("Text of a document {} KiB", grpc_collector.MAX_TEXT_BYTES // 1024),
        ("metadata {} KiB", 16),
        ("a chunk {} KiB", 64),
        ("title {} characters", grpc_collector.MAX_TITLE),
        ("key and address {};", grpc_collector.MAX_KEY),
        ("files of an executor {},", grpc_executor.MAX_FILES),
        ("its result {} KiB", grpc_executor.MAX_RESULT_BYTES // 1024),
        ("Parameters {} KiB,", validation.MAX_PARAMETERS_BYTES // 1024),
        ("their schema {} KiB", validation.MAX_SCHEMA_BYTES // 1024),
    ):
        assert kind.format(bound) in said


def test_the_messages_of_the_page_are_messages_of_the_contract() -> None:
    asked, answered = (ContractMessage.model_validate_json(one) for one in blocks(PAGE, "json"))

    assert (asked.tipo_evento, answered.tipo_evento) == ("iniciar_coleta", "resultado_coleta")
    assert asked.payload.keys() == {"tarefa_id", "tipo", "parametros", "tentativa"}
    assert answered.payload.keys() == {"tarefa_id", "status", "dados", "erros"}
