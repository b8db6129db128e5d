"""Runs a context manager around every one of our RPCs, unary or streaming."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import grpc

Guard = Callable[[Any, str], AbstractAsyncContextManager[None]]
"""Takes the servicer context and the method's full name."""


class GuardInterceptor(grpc.aio.ServerInterceptor):
    """Enters the guard before a call begins and leaves it after the call ends."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def intercept_service(  # noqa: D102
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        # Health and reflection are not ours.
        if handler is None or not method.startswith("/ytcaption."):
            return handler
        kind = "_".join(
            "stream" if streaming else "unary"
            for streaming in (handler.request_streaming, handler.response_streaming)
        )
        behaviour = getattr(handler, kind)

        async def answer_once(request: Any, context: Any) -> Any:
            async with self._guard(context, method):
                return await behaviour(request, context)

        # A generator fails while it is iterated, not when it is called, so the
        # loop itself has to be inside the guard.
        async def answer_many(request: Any, context: Any) -> AsyncIterator[Any]:
            async with self._guard(context, method):
                answers = behaviour(request, context)
                if not hasattr(answers, "__aiter__"):  # a generated method that is not implemented
                    await answers
                    return
                async with aclosing(answers):
                    async for answer in answers:
                        yield answer

        return getattr(grpc, f"{kind}_rpc_method_handler")(
            answer_many if handler.response_streaming else answer_once,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )
