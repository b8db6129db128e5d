"""Interceptors, called directly with a handler in place of a server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import grpc
import pytest

from mesh.errors import NotFoundError
from mesh.reasons import Reason
from mesh.server import GuardInterceptor
from mesh.status import errors_as_statuses

METHOD = "/ytcaption.v1.EchoService/Echo"


class _Details(NamedTuple):
    method: str


class _LeftError(Exception):
    """What a write to a client that has gone raises here."""


class _Context:
    """Records what was written to a call, and how it was aborted."""

    def __init__(self, leaves_after: int | None = None) -> None:
        self.code: grpc.StatusCode | None = None
        self.details = ""
        self.written: list[Any] = []
        self._leaves_after = leaves_after

    async def write(self, answer: Any) -> None:
        if len(self.written) == self._leaves_after:
            raise _LeftError
        self.written.append(answer)

    async def abort(self, code: grpc.StatusCode, details: str, metadata: Any) -> None:
        self.code, self.details = code, details
        raise grpc.aio.AbortError


class _Guarded:
    """An interceptor whose guard records when it is entered and left."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.interceptor = GuardInterceptor(self._guard)

    @asynccontextmanager
    async def _guard(self, _context: Any, _method: str) -> AsyncIterator[None]:
        self.steps.append("enter")
        try:
            yield
        except ValueError:
            self.steps.append("failed")
            raise
        finally:
            self.steps.append("leave")

    async def unary(self, request: str, _context: Any) -> str:
        self.steps.append("answer")
        return request

    async def stream(self, request: str, _context: Any) -> AsyncIterator[str]:
        try:
            for letter in request:
                if letter == "!":
                    raise ValueError(letter)
                self.steps.append("answer")
                yield letter
        finally:
            self.steps.append("end")


async def _intercepted(
    interceptor: grpc.aio.ServerInterceptor, handler: Any, method: str = METHOD
) -> Any:
    async def continuation(_: Any) -> Any:
        return handler

    details: Any = _Details(method)
    return await interceptor.intercept_service(continuation, details)


@pytest.mark.parametrize("requests", ["unary", "stream"])
async def test_a_unary_answer_is_made_within_the_guard(requests: str) -> None:
    guarded = _Guarded()
    make = getattr(grpc, f"{requests}_unary_rpc_method_handler")
    handler = await _intercepted(guarded.interceptor, make(guarded.unary))

    assert await getattr(handler, f"{requests}_unary")("hi", _Context()) == "hi"
    assert guarded.steps == ["enter", "answer", "leave"]


@pytest.mark.parametrize("requests", ["unary", "stream"])
async def test_every_answer_of_a_stream_is_made_within_the_guard(requests: str) -> None:
    guarded = _Guarded()
    make = getattr(grpc, f"{requests}_stream_rpc_method_handler")
    handler = await _intercepted(guarded.interceptor, make(guarded.stream))

    context = _Context()
    await getattr(handler, f"{requests}_stream")("hi", context)

    assert context.written == ["h", "i"]
    assert guarded.steps == ["enter", "answer", "answer", "end", "leave"]


async def test_a_failure_in_the_middle_of_a_stream_passes_through_the_guard() -> None:
    guarded = _Guarded()
    handler = await _intercepted(
        guarded.interceptor, grpc.unary_stream_rpc_method_handler(guarded.stream)
    )

    context = _Context()
    with pytest.raises(ValueError, match="!"):
        await handler.unary_stream("h!", context)
    assert context.written == ["h"]
    assert guarded.steps == ["enter", "answer", "end", "failed", "leave"]


async def test_an_abandoned_stream_ends_its_servicer_before_the_guard_is_left() -> None:
    guarded = _Guarded()
    handler = await _intercepted(
        guarded.interceptor, grpc.unary_stream_rpc_method_handler(guarded.stream)
    )

    context = _Context(leaves_after=1)
    with pytest.raises(_LeftError):
        await handler.unary_stream("hi!", context)

    assert context.written == ["h"]
    assert guarded.steps == ["enter", "answer", "answer", "end", "leave"]


@pytest.mark.parametrize("method", ["/grpc.health.v1.Health/Check", "/grpc.reflection.v1.X/Y"])
async def test_methods_of_other_packages_are_left_alone(method: str) -> None:
    guarded = _Guarded()
    handler: Any = grpc.unary_unary_rpc_method_handler(guarded.unary)

    assert await _intercepted(guarded.interceptor, handler, method) is handler


async def test_a_method_without_a_handler_stays_without_one() -> None:
    assert await _intercepted(_Guarded().interceptor, None) is None


async def test_an_error_of_the_mesh_aborts_the_call_with_its_status() -> None:
    async def fail(_request: str, _context: Any) -> str:
        raise NotFoundError("there is no job 7", reason=Reason.JOB_NOT_FOUND)

    context = _Context()
    handler = await _intercepted(
        GuardInterceptor(errors_as_statuses), grpc.unary_unary_rpc_method_handler(fail)
    )
    with pytest.raises(grpc.aio.AbortError):
        await handler.unary_unary("", context)

    assert context.code is grpc.StatusCode.NOT_FOUND
    assert context.details == "there is no job 7"


async def test_an_unexpected_error_reveals_nothing_to_the_caller() -> None:
    async def fail(_request: str, _context: Any) -> str:
        raise RuntimeError("the password is 1234")

    context = _Context()
    handler = await _intercepted(
        GuardInterceptor(errors_as_statuses), grpc.unary_unary_rpc_method_handler(fail)
    )
    with pytest.raises(grpc.aio.AbortError):
        await handler.unary_unary("", context)

    assert context.code is grpc.StatusCode.INTERNAL
    assert context.details == "internal error"
