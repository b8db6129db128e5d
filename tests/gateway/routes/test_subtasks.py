"""Collectors and executors over HTTP, with a fake orchestrator."""

from typing import Any

import httpx2
from google.protobuf.json_format import MessageToDict

from mesh.messages import struct_of
from tests.support.controlled_collections import ID, NEXT_PAGE, ControlledCollection, Update
from tests.support.http import all_events
from ytcaption.v1 import collection_pb2, job_pb2, task_pb2


def report() -> task_pb2.Subtask:
    return task_pb2.Subtask(
        task_id="01997b3e-6e0a-7c44-9d5f-0d3a5a3f2c12",
        number=1,
        role=task_pb2.TASK_ROLE_EXECUTOR,
        type="report",
        parameters=struct_of({"lines": 3}),
        state=task_pb2.SUBTASK_STATE_COMPLETED,
        progress=1.0,
        attempt=1,
        result=struct_of({"pages": 2}),
        files=[
            task_pb2.ResultFile(
                name="a b%.html", media_type="text/html", size_bytes=9, sha256="00" * 32
            )
        ],
    )


async def test_types_and_parameters_reach_the_orchestrator(
    fake_http: httpx2.AsyncClient, collection: ControlledCollection
) -> None:
    body = {
        "sources": ["https://example.test/list", {"type": "blog", "parameters": {"url": "x"}}],
        "executors": [{"kind": "resumo", "parameters": {"lines": 3}, "scope": "item"}],
    }

    answer = await fake_http.post("/collections", json=body)

    assert answer.status_code == 202
    [request] = collection.requests
    assert list(request.sources) == ["https://example.test/list"]
    [spec] = request.source_specs
    assert (spec.type, MessageToDict(spec.parameters)) == ("blog", {"url": "x"})
    [made] = request.executors
    assert (made.kind, made.scope) == ("resumo", task_pb2.EXECUTOR_SCOPE_ITEM)
    assert MessageToDict(made.parameters) == {"lines": 3}


async def test_nonsense_in_the_place_of_a_type_is_refused(fake_http: httpx2.AsyncClient) -> None:
    wrong: list[dict[str, Any]] = [
        {"sources": [{"parameters": {}}]},
        {"sources": [{"type": ""}]},
        {"sources": [{"type": "blog", "more": 1}]},
        {"sources": ["x"], "executors": [{"kind": "a", "scope": "all"}]},
        {"sources": ["x"], "executors": ["a"]},
    ]
    for body in wrong:
        assert (await fake_http.post("/collections", json=body)).status_code == 422, body


async def test_subtasks_and_documents_are_pages(
    fake_http: httpx2.AsyncClient, collection: ControlledCollection
) -> None:
    failed = task_pb2.Subtask(
        number=2,
        role=task_pb2.TASK_ROLE_COLLECTOR,
        type="blog",
        state=task_pb2.SUBTASK_STATE_FAILED,
        failure=job_pb2.Failure(reason="DEADLINE", message="too late", retryable=True),
        found=3,
    )
    collection.subtasks = [report(), failed]
    collection.documents = [
        task_pb2.Document(
            number=1, subtask=2, url="http://b", text="Text", metadata=struct_of({"a": [1, None]})
        )
    ]

    page = (await fake_http.get(f"/collections/{ID}/subtasks", params={"limit": 7})).json()
    texts = (await fake_http.get(f"/collections/{ID}/documents")).json()

    made, other = page["subtasks"]
    assert (made["role"], made["state"], made["progress"]) == ("executor", "completed", 100.0)
    assert (made["result"], made["parameters"]) == ({"pages": 2}, {"lines": 3})
    address = f"/collections/{ID}/subtasks/1/files/a%20b%25.html"
    assert [one["url"] for one in made["files"]] == [address]
    assert (other["role"], other["found"], other["result"]) == ("collector", 3, None)
    assert other["failure"]["reason"] == "DEADLINE"
    assert page["next_page_token"] == NEXT_PAGE
    assert collection.requests[0].page_size == 7
    [text] = texts["documents"]
    assert (text["text"], text["metadata"]) == ("Text", {"a": [1, None]})


async def test_the_file_of_an_executor_is_saved_and_never_shown(
    fake_http: httpx2.AsyncClient, collection: ControlledCollection
) -> None:
    collection.subtasks, collection.file = [report()], b"<script/>"

    answer = await fake_http.get(f"/collections/{ID}/subtasks/1/files/a%20b%25.html")

    assert (answer.status_code, answer.content) == (200, b"<script/>")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["content-security-policy"].startswith("sandbox")
    assert collection.requests[0].name == "a b%.html"


async def test_the_event_stream_has_subtasks_and_documents(
    fake_http: httpx2.AsyncClient, collection: ControlledCollection
) -> None:
    await collection.publish(
        Update(sequence=2, subtask=report()),
        Update(sequence=3, document=task_pb2.Document(number=1, subtask=1, title="Post")),
        Update(
            sequence=4,
            collection=collection_pb2.Collection(
                collection_id=ID, state=collection_pb2.COLLECTION_STATE_COMPLETE, settled=True
            ),
        ),
    )

    received = await all_events(fake_http, f"/collections/{ID}")

    by_name = {one.name: one.data for one in received}
    assert by_name["subtask"]["files"][0]["url"].startswith(f"/collections/{ID}/subtasks/1/")
    assert (by_name["document"]["title"], by_name["document"]["text"]) == ("Post", "")
