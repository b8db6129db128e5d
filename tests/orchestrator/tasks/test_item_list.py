"""The items of a message to an executor behind a queue: whole texts, or their addresses."""

from collections.abc import AsyncIterator

from orchestrator.tasks.exchange import MAX_ITEMS, MAX_ITEMS_BYTES, MAX_TEXT_BYTES, listed
from ytcaption.v1 import collection_pb2, media_pb2, task_pb2
from ytcaption.v1.executor_service_pb2 import ExecuteRequest, MemberSegments

MEMBER = ExecuteRequest(member=collection_pb2.Member(number=1, job_id="j", title="A talk"))


async def _each(*items: ExecuteRequest) -> AsyncIterator[ExecuteRequest]:
    for item in items:
        yield item


def text(words: str) -> ExecuteRequest:
    return ExecuteRequest(segments=MemberSegments(member=1, text=words))


def document(number: int, words: str) -> ExecuteRequest:
    return ExecuteRequest(document=task_pb2.Document(number=number, text=words))


async def test_the_parts_of_a_text_are_joined() -> None:
    segment = media_pb2.Segment(text="three")
    parts = [text("one"), text("two"), ExecuteRequest(segments=MemberSegments(segments=[segment]))]

    [found] = await listed("c", _each(MEMBER, *parts))

    assert (found["texto"], found["endereco"]) == ("one two three", "/jobs/j/captions.txt")


async def test_a_text_that_is_too_long_is_left_out_whole() -> None:
    long = "x" * (MAX_TEXT_BYTES - 1)

    [found, other] = await listed("c", _each(MEMBER, text(long), text("yy"), text("z"), MEMBER))

    assert "texto" not in found
    assert found["endereco"]
    assert "texto" not in other


async def test_texts_of_all_items_together_are_bounded() -> None:
    long = "x" * MAX_TEXT_BYTES
    wanted = MAX_ITEMS_BYTES // MAX_TEXT_BYTES

    found = await listed("c", _each(*(document(one, long) for one in range(wanted + 5))))

    assert sum("texto" in one for one in found) == wanted
    assert len(found) == wanted + 5
    assert {one["endereco"] for one in found} == {"/collections/c/documents"}


async def test_so_are_the_items() -> None:
    found = await listed("c", _each(*[MEMBER] * (MAX_ITEMS + 1)))

    assert len(found) == MAX_ITEMS


async def test_a_recording_without_captions_says_so() -> None:
    [found] = await listed("c", _each(ExecuteRequest(missing=collection_pb2.Member(number=3))))

    assert (found["status"], "endereco" in found) == ("erro", False)
