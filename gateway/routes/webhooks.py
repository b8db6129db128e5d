"""Webhook deliveries."""

from typing import Annotated

from fastapi import APIRouter, Query

from gateway.client import call
from gateway.deps import Deps
from gateway.http.parameters import Page
from gateway.http.problems import problem_responses
from gateway.presenters.admin import delivery
from gateway.schemas.mesh import DeliveryList
from ytcaption.v1 import admin_service_pb2 as pb

router = APIRouter(prefix="/webhooks", tags=["webhooks"])

Id = Annotated[str, Query(max_length=64)]


@router.get("/deliveries", responses=problem_responses())
async def list_deliveries(
    deps: Deps, page: Page, job_id: Id = "", collection_id: Id = ""
) -> DeliveryList:
    """Lists webhook deliveries with their attempts, newest first."""
    request = pb.ListWebhookDeliveriesRequest(**page, job_id=job_id, collection_id=collection_id)
    found = await call(deps.orchestrator.admin.ListWebhookDeliveries, request)
    return DeliveryList(
        deliveries=[delivery(one) for one in found.deliveries],
        next_page_token=found.next_page_token,
    )
