"""What the stages can honour on their machines, asked before a job is accepted."""

import asyncio

import grpc

from mesh.correlation import call_metadata
from mesh.errors import UnavailableError, UnsupportedError
from mesh.reasons import Reason
from orchestrator.stages import Stages
from ytcaption.v1 import job_pb2
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb

ASK_SECONDS = 3.0
KEPT_SECONDS = 30.0
"""A stage that is restarted with more installed is believed after this."""


class Abilities:
    """Refuses what would only be found out half-way."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._missing: dict[str, str] = {}
        self._asked_at: float | None = None

    async def check(self, options: job_pb2.JobOptions) -> None:
        """Raises if the machine that would have to cannot honour an option."""
        wanted = [name for name in _UNCERTAIN if getattr(options, name)]
        if not wanted:
            return
        missing = await self._ask()
        for name in wanted:
            if name in missing:
                raise UnsupportedError(
                    f"{name} cannot be honoured: {missing[name]}",
                    reason=Reason.OPTION_UNSUPPORTED,
                )

    async def _ask(self) -> dict[str, str]:
        now = asyncio.get_running_loop().time()
        if self._asked_at is None or now - self._asked_at > KEPT_SECONDS:
            request = normalizer_pb.GetCapabilitiesRequest()
            try:
                found = await self._stages.normalizer.GetCapabilities(
                    request, timeout=ASK_SECONDS, metadata=call_metadata()
                )
            except grpc.aio.AioRpcError as error:
                raise UnavailableError(
                    "whether the options can be honoured cannot be asked now",
                    reason=Reason.STAGE_UNAVAILABLE,
                ) from error
            self._missing = {
                one.option: one.why_not for one in found.capabilities if not one.honoured
            }
            self._asked_at = now
        return self._missing


_UNCERTAIN = ("isolate_vocals",)
"""Options that need more than every normalizer has."""
