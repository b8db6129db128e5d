"""One call to a stage, from its circuit to its last event."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc

from mesh.errors import UnavailableError
from mesh.reasons import Reason
from mesh.status import to_error
from orchestrator.pipeline.stages import StageError, StageId, Stages
from orchestrator.pipeline.stall import StallWatch

_CUT_SHORT = UnavailableError("it ended before it finished", reason=Reason.STAGE_UNAVAILABLE)


class StageCaller:
    """Makes the calls of one attempt."""

    def __init__(self, stages: Stages, watch: StallWatch) -> None:
        self._stages = stages
        self._watch = watch

    async def events(
        self, stage: StageId, begin: Callable[[], Any], on_begun: Callable[[], Awaitable[None]]
    ) -> AsyncGenerator[Any, None]:
        """Yields a stage's events up to `finished`; the call is cancelled when this ends."""
        async with AsyncExitStack() as ending:
            with self._watch.waiting_for(stage):
                circuit = self._stages.circuits[stage]
                permit = await ending.enter_async_context(circuit.permit())
            call = begin()
            ending.callback(call.cancel)
            await on_begun()
            try:
                while (event := await self._read(stage, call)) is not grpc.aio.EOF:
                    permit.answered()
                    yield event
                    if event.WhichOneof("event") == "finished":
                        return
            except grpc.aio.AioRpcError as error:
                failure = to_error(error)
                permit.failed(failure)
                raise StageError(stage, failure) from error
            raise StageError(stage, _CUT_SHORT)

    async def _read(self, stage: StageId, call: Any) -> Any:
        with self._watch.waiting_for(stage):
            return await call.read()
