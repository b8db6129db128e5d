"""examples/executador_palavras counts words over gRPC, and makes a table of them."""

from pathlib import Path

import grpc

from mesh.addresses import free_ports
from tests.orchestrator.tasks.services import struct
from tests.support.strangers import ROOT, serving_program, stranger_environment
from ytcaption.v1 import collection_pb2, task_pb2
from ytcaption.v1 import executor_service_pb2 as pb
from ytcaption.v1 import executor_service_pb2_grpc as rpc


async def test_words_of_members_and_documents_are_counted_and_tabled(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    items = [
        pb.ExecuteRequest(start=pb.ExecuteStart(kind="palavras", parameters=struct({"limite": 2}))),
        pb.ExecuteRequest(member=collection_pb2.Member(number=1)),
        pb.ExecuteRequest(segments=pb.MemberSegments(member=1, text="Olá mundo, olá!")),
        pb.ExecuteRequest(missing=collection_pb2.Member(number=2)),
        pb.ExecuteRequest(document=task_pb2.Document(text="mundo e olá")),
    ]
    program = serving_program(
        stranger_environment(tmp_path),
        *("executador.py", address),
        folder=ROOT / "examples" / "executador_palavras",
    )
    async with program, grpc.aio.insecure_channel(address) as channel:
        executor = rpc.ExecutorServiceStub(channel)
        kinds = (await executor.Describe(pb.ExecutorServiceDescribeRequest())).kinds
        answers = [one async for one in executor.Execute(iter(items))]

    assert "limite" in str(kinds["palavras"].parameters_schema)
    assert [one.file.name for one in answers if one.HasField("file")] == ["palavras.csv"]
    content = b"".join(one.chunk for one in answers)
    assert content.decode() == "palavra,vezes\r\nolá,3\r\nmundo,2\r\n"
    assert dict(answers[-1].result) == {"itens": 2, "palavras": 6, "distintas": 3}
