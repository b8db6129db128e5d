"""What became of webhooks."""

from typing import Annotated

from fastapi import APIRouter, Query

from gateway import collection_telling as telling
from gateway.collection_shapes import DeliveryList
from gateway.face import FaceOf
from gateway.paging import Limit, PageToken
from gateway.problems import described
from ytcaption.v1 import admin_service_pb2 as pb

router = APIRouter(prefix="/webhooks", tags=["webhooks"])

Id = Annotated[str, Query(max_length=64)]


@router.get("/deliveries", responses=described())
async def list_deliveries(
    face: FaceOf,
    limit: Limit = 50,
    page_token: PageToken = "",
    job_id: Id = "",
    collection_id: Id = "",
) -> DeliveryList:
    """Lists webhooks that were or will be sent, newest first, with every attempt."""
    orchestrator = face.orchestrator
    request = pb.ListWebhookDeliveriesRequest(
        page_size=limit, page_token=page_token, job_id=job_id, collection_id=collection_id
    )
    found = await orchestrator.ask(orchestrator.admin.ListWebhookDeliveries, request)
    return DeliveryList(
        deliveries=[telling.delivery(one) for one in found.deliveries],
        next_page_token=found.next_page_token,
    )
