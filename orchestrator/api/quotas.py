"""QuotaService: limits and usage of owners."""

from dataclasses import dataclass
from math import isfinite
from typing import Any

from mesh.errors import InvalidRequestError
from mesh.identity import QUOTAS_OF_OTHERS, current
from orchestrator.access.audit import about
from orchestrator.jobs.validation import check_word
from orchestrator.quotas.quotas import Quotas, name_of
from orchestrator.quotas.usage import AUDIO_HOURS, LIMITS, LimitId
from ytcaption.v1 import quota_service_pb2 as pb
from ytcaption.v1 import quota_service_pb2_grpc as rpc

LARGEST = 2**53
"""Whole numbers up to this are exact in a double."""


@dataclass(frozen=True, slots=True)
class QuotaServicer(rpc.QuotaServiceServicer):
    """Translates between messages and quotas; decides nothing."""

    quotas: Quotas

    async def GetQuota(self, request: pb.GetQuotaRequest, context: Any) -> pb.GetQuotaResponse:
        caller = current()
        owner = caller.subject
        if request.HasField("owner") and request.owner != owner:
            caller.require(QUOTAS_OF_OTHERS, "read the quota of another owner")
            owner = check_word(request.owner, "owner")
        return pb.GetQuotaResponse(owner=owner, quotas=await self.quotas.report(owner))

    async def SetQuota(self, request: pb.SetQuotaRequest, context: Any) -> pb.SetQuotaResponse:
        owner = check_word(request.owner, "owner")
        about(owner)
        quotas = await self.quotas.set(owner, _overrides(request))
        return pb.SetQuotaResponse(owner=owner, quotas=quotas)


def _overrides(request: pb.SetQuotaRequest) -> dict[LimitId, float | None]:
    """What to set, None for the default; raises if a limit is unknown, named twice or no number."""
    named = [*((one.limit, one.maximum) for one in request.overrides)]
    given: list[tuple[LimitId, float | None]] = [*named, *((one, None) for one in request.defaults)]
    if not given:
        raise InvalidRequestError("name at least one limit")
    for limit, maximum in given:
        if limit not in LIMITS:
            raise InvalidRequestError(f"limit {limit} is unknown")
        if maximum is not None and not (isfinite(maximum) and 0 <= maximum <= LARGEST):
            raise InvalidRequestError(f"{name_of(limit)} must be 0 or more, and at most {LARGEST}")
        if maximum is not None and limit != AUDIO_HOURS and maximum != int(maximum):
            raise InvalidRequestError(f"{name_of(limit)} must be a whole number")
    found = dict(given)
    if len(found) < len(given):
        raise InvalidRequestError("a limit is named twice")
    return found
