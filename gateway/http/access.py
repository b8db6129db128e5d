"""Which call of the orchestrator decides about each route; its role is that of the route."""

from mesh.identity import METHODS, Role

OPEN = ""
"""Answered to anyone: liveness, the page without data, and the way to log in."""

ROUTES: dict[str, str] = {
    "POST /pipeline": "PipelineService/CreateJob",
    "POST /uploads": "PipelineService/CreateJobFromUpload",
    "GET /jobs": "PipelineService/ListJobs",
    "GET /jobs/events": "PipelineService/WatchJobs",
    "GET /collections": "CollectionService/ListCollections",
    "GET /collections/events": "CollectionService/WatchCollections",
    "GET /jobs/{job_id}": "PipelineService/GetJob",
    "GET /jobs/{job_id}/events": "PipelineService/WatchJob",
    "POST /jobs/{job_id}/cancel": "PipelineService/CancelJob",
    "POST /jobs/{job_id}/retry": "PipelineService/RepeatJob",
    "DELETE /jobs/{job_id}": "PipelineService/DeleteJob",
    "GET /jobs/{job_id}/captions.{format}": "PipelineService/GetCaptions",
    "GET /jobs/{job_id}/cues": "PipelineService/GetCaptions",
    "GET /jobs/{job_id}/audio": "PipelineService/DownloadArtifact",
    "HEAD /jobs/{job_id}/audio": "PipelineService/DownloadArtifact",
    "POST /collections": "CollectionService/CreateCollection",
    "GET /collections/{collection_id}": "CollectionService/GetCollection",
    "GET /collections/{collection_id}/events": "CollectionService/WatchCollection",
    "POST /collections/{collection_id}/cancel": "CollectionService/CancelCollection",
    "DELETE /collections/{collection_id}": "CollectionService/DeleteCollection",
    "GET /collections/{collection_id}/report": "CollectionService/GetReport",
    "GET /collections/{collection_id}/subtasks": "CollectionService/ListSubtasks",
    "GET /collections/{collection_id}/documents": "CollectionService/ListDocuments",
    "GET /collections/{collection_id}/subtasks/{number}/files/{name}": (
        "CollectionService/GetResultFile"
    ),
    "GET /webhooks/deliveries": "AdminService/ListWebhookDeliveries",
    "GET /dead-letters": "AdminService/ListDeadLetters",
    "POST /dead-letters/{letter_id}/replay": "AdminService/ReplayDeadLetter",
    "DELETE /dead-letters/{letter_id}": "AdminService/PurgeDeadLetters",
    "DELETE /dead-letters": "AdminService/PurgeDeadLetters",
    "GET /admin/stats": "AdminService/GetStats",
    "POST /admin/cleanup": "AdminService/Cleanup",
    "POST /admin/factory-reset": "AdminService/FactoryReset",
    "GET /admin/types": "AdminService/ListTypes",
    "POST /admin/types": "AdminService/RegisterType",
    "DELETE /admin/types/{role}/{type}": "AdminService/UnregisterType",
    "GET /owners/export": "AdminService/ExportOwner",
    "DELETE /owners": "AdminService/EraseOwner",
    "GET /owners/retention": "AdminService/ListOwnerRetentions",
    "PUT /owners/retention": "AdminService/SetOwnerRetention",
    "GET /session": "AuthService/GetCaller",
    "GET /search": "SearchService/Search",
    "GET /quota": "QuotaService/GetQuota",
    "GET /health": "AdminService/GetHealth",
    "GET /live": OPEN,
    "GET /capabilities": "PipelineService/GetAbilities",
    "GET /metrics": "AuthService/GetCaller",
    "GET /login": OPEN,
    "POST /login": "AuthService/CreateSession",
    "GET /login/oidc": "AuthService/BeginLogin",
    "GET /login/callback": "AuthService/CompleteLogin",
    "POST /logout": OPEN,
    "GET /": OPEN,
    "GET /static": OPEN,
    "GET /docs": OPEN,
    "GET /docs/start.js": OPEN,
    "GET /docs/assets": OPEN,
    "GET /openapi.json": OPEN,
}


def role_of(route: str) -> Role:
    """The least role for a route, such as "GET /jobs"; KeyError for one that is not listed."""
    method = ROUTES[route]
    return METHODS[method] if method else Role.ANYONE
