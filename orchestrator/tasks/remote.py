"""Calls to services that strangers wrote: their statuses as our errors, and what they may send."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.struct_pb2 import Struct

from mesh.errors import MeshError, SourceRefusedError, TimedOutError, UnavailableError
from mesh.reasons import Reason
from mesh.status import reason_of, retry_after_of
from orchestrator.pipeline.circuit import CallPermit, Circuit

MAX_CHUNK_BYTES = 64 * 1024
MAX_METADATA_BYTES = 16 * 1024
MAX_MESSAGE = 1000
"""Characters of a stranger's message that callers see."""
MAX_REASON = 63

RETRIED = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.CANCELLED,  # a server that stops cancels its calls
    }
)
SILENT = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})
"""Of a service that is not there, unless an ErrorInfo shows that it said so itself."""


@dataclass(frozen=True, slots=True)
class Remote:
    """One registered type as a service: how its calls fail, and how long they may take."""

    what: str
    """For messages: "collector blog"."""
    unavailable: Reason
    failed: Reason
    circuit: Circuit
    timeout_seconds: float

    def refused(self, message: str) -> MeshError:
        """The error for a service that does not keep to the contract; it is not tried again."""
        return SourceRefusedError(f"{self.what}: {message}", reason=self.failed)

    def away(self, message: str) -> MeshError:
        """The error for a service that is not there; it is tried again."""
        return UnavailableError(f"{self.what}: {message}", reason=self.unavailable)

    def error_of(self, error: grpc.aio.AioRpcError) -> MeshError:
        """The error of a status, with the other's own reason and words."""
        code, said = error.code(), reason_of(error)[:MAX_REASON]
        words = (error.details() or code.name)[:MAX_MESSAGE]
        message = f"{self.what}: {words}" + (f" ({said})" if said else "")
        more: Any = {"metadata": {"reason": said} if said else {}}
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return TimedOutError(message, reason=Reason.DEADLINE, **more)
        if code in RETRIED:
            more["retry_after_seconds"] = retry_after_of(error)
            return UnavailableError(message, reason=self.unavailable, **more)
        return SourceRefusedError(message, reason=self.failed, **more)

    @asynccontextmanager
    async def permit(self) -> AsyncIterator[CallPermit]:
        """Waits for the circuit; inside, statuses become errors, and silence is counted."""
        async with self.circuit.permit() as permit, self.statuses():
            try:
                yield permit
            except grpc.aio.AioRpcError as error:
                silent = error.code() in SILENT and not reason_of(error)
                if silent or error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                    permit.failed(self.error_of(error))
                else:
                    permit.answered()
                raise

    @asynccontextmanager
    async def statuses(self) -> AsyncIterator[None]:
        """Inside, statuses become errors."""
        try:
            yield
        except grpc.aio.AioRpcError as error:
            raise self.error_of(error) from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The call was cancelled, not the caller: its channel was closed.
            raise self.away("its registration was changed") from error


def bytes_of(text: str) -> int:
    """How many bytes a text has as UTF-8."""
    return len(text.encode(errors="replace"))


def too_large(metadata: Struct) -> bool:
    """Whether metadata has more bytes than a task may add to what it found."""
    return metadata.ByteSize() > MAX_METADATA_BYTES
