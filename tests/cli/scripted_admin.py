"""An AdminService that follows a script."""

from typing import Any

from mesh.errors import InvalidRequestError, NotFoundError
from mesh.reasons import Reason
from tests.cli.stories import REPLAYED, duration
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import admin_service_pb2_grpc as admin_rpc
from ytcaption.v1 import job_pb2 as job_pb


class ScriptedAdmin(admin_rpc.AdminServiceServicer):
    """Answers how it is, keeps dead letters, and says what it pretends to have removed."""

    def __init__(self) -> None:
        self.healthy = True
        self.cleanups: list[admin_pb.CleanupRequest] = []
        self.resets: list[admin_pb.FactoryResetRequest] = []
        self.stage_error = ""
        """Why the downloader could not be reset."""
        self.letters: list[job_pb.DeadLetter] = []
        """Newest first."""

        self.listed: list[admin_pb.ListDeadLettersRequest] = []
        self.replayed: list[str] = []
        self.purged: list[admin_pb.PurgeDeadLettersRequest] = []
        self.deliveries: list[admin_pb.WebhookDelivery] = []
        self.asked_deliveries: list[admin_pb.ListWebhookDeliveriesRequest] = []

    async def ListWebhookDeliveries(  # noqa: N802
        self, request: admin_pb.ListWebhookDeliveriesRequest, context: Any
    ) -> admin_pb.ListWebhookDeliveriesResponse:
        self.asked_deliveries.append(request)
        begin = int(request.page_token or 0)
        end = begin + min(request.page_size, 2)
        more = str(end) if end < len(self.deliveries) else ""
        return admin_pb.ListWebhookDeliveriesResponse(
            deliveries=self.deliveries[begin:end], next_page_token=more
        )

    async def ListDeadLetters(  # noqa: N802
        self, request: admin_pb.ListDeadLettersRequest, context: Any
    ) -> admin_pb.ListDeadLettersResponse:
        self.listed.append(request)
        wanted = [one for one in self.letters if request.reason in ("", one.failure.reason)]
        begin = int(request.page_token or 0)
        end = begin + min(request.page_size, 2)
        more = str(end) if end < len(wanted) else ""
        return admin_pb.ListDeadLettersResponse(
            dead_letters=wanted[begin:end], next_page_token=more
        )

    async def ReplayDeadLetter(  # noqa: N802
        self, request: admin_pb.ReplayDeadLetterRequest, context: Any
    ) -> admin_pb.ReplayDeadLetterResponse:
        known = {letter.letter_id or letter.job_id: letter for letter in self.letters}
        if request.job_id not in known:
            raise NotFoundError(
                f"no dead letter of {request.job_id}", reason=Reason.DEAD_LETTER_NOT_FOUND
            )
        self.replayed.append(request.job_id)
        if not known[request.job_id].job_id:
            return admin_pb.ReplayDeadLetterResponse()
        return admin_pb.ReplayDeadLetterResponse(job=REPLAYED)

    async def PurgeDeadLetters(  # noqa: N802
        self, request: admin_pb.PurgeDeadLettersRequest, context: Any
    ) -> admin_pb.PurgeDeadLettersResponse:
        self.purged.append(request)
        return admin_pb.PurgeDeadLettersResponse(dead_letters_removed=len(self.letters))

    async def GetHealth(  # noqa: N802
        self, request: admin_pb.GetHealthRequest, context: Any
    ) -> admin_pb.GetHealthResponse:
        part = admin_pb.ComponentHealth(
            name="nats", healthy=self.healthy, detail="speaks \x1b[31mred", address="127.0.0.1:1"
        )
        return admin_pb.GetHealthResponse(healthy=self.healthy, version="1", components=[part])

    async def GetStats(  # noqa: N802
        self, request: admin_pb.GetStatsRequest, context: Any
    ) -> admin_pb.GetStatsResponse:
        done = admin_pb.StateCount(state=job_pb.JOB_STATE_SUCCEEDED, count=3)
        return admin_pb.GetStatsResponse(
            version="1",
            jobs=[done],
            queue_depth=2,
            dead_letters=1,
            stored_bytes=2_500_000,
            uptime=duration(3661.5),
        )

    async def Cleanup(  # noqa: N802
        self, request: admin_pb.CleanupRequest, context: Any
    ) -> admin_pb.CleanupResponse:
        self.cleanups.append(request)
        return admin_pb.CleanupResponse(
            jobs_removed=4,
            collections_removed=3,
            events_removed=50,
            artifacts_removed=0,
            bytes_removed=2_500_000,
        )

    async def FactoryReset(  # noqa: N802
        self, request: admin_pb.FactoryResetRequest, context: Any
    ) -> admin_pb.FactoryResetResponse:
        if request.confirmation != "ERASE EVERYTHING":
            raise InvalidRequestError("not confirmed", reason=Reason.CONFIRMATION_MISSING)
        self.resets.append(request)
        own = admin_pb.ServiceReset(
            name="orchestrator", done=True, jobs_removed=4, collections_removed=3, tasks_purged=2
        )
        stage = admin_pb.ServiceReset(
            name="downloader", done=not self.stage_error, error=self.stage_error, files_removed=7
        )
        return admin_pb.FactoryResetResponse(services=[own, stage])
