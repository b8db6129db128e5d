"""Builds the ASGI application: routes, middleware, lifespan and the OpenAPI description."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from operator import attrgetter
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.middleware.cors import CORSMiddleware

from gateway.client import connect
from gateway.deps import Dependencies
from gateway.http import problems
from gateway.http.access import role_of
from gateway.http.credentials import CredentialsMiddleware
from gateway.http.limits import LimitsMiddleware
from gateway.http.observability import ObservabilityMiddleware
from gateway.http.parameters import known_parameters, reject_unknown_parameters
from gateway.http.security import SecurityMiddleware
from gateway.routes import (
    admin,
    collections,
    dead_letters,
    files,
    health,
    jobs,
    lists,
    owners,
    page,
    pipeline,
    search,
    session,
    types,
)
from gateway.settings import Settings, comma_separated
from gateway.sse.feed import JobFeeds
from gateway.sse.jobs import FinalEvents
from gateway.sse.stream import OpenStreams

TITLE = "ytcaption"
DESCRIPTION = (
    "Turns a video URL or an uploaded file into captions, live. Errors are RFC 9457 problems; "
    "their `reason` is one of a closed list."
)
ROUTERS = (
    pipeline.router,
    lists.router,  # before the routers whose paths take any word as an id
    jobs.router,
    files.router,
    collections.router,
    admin.webhooks,
    dead_letters.router,
    admin.router,
    owners.router,
    types.router,
    search.router,
    session.router,
)


def create_app(settings: Settings) -> FastAPI:
    """Builds the application; its lifespan opens the channels to the orchestrator."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        known_parameters(app)  # at startup: it would block the event loop during a request
        async with connect(settings.orchestrator, settings.tls) as orchestrator:
            app.state.deps = Dependencies(
                settings,
                orchestrator,
                JobFeeds(orchestrator),
                FinalEvents(orchestrator),
                OpenStreams(settings.max_streams, settings.max_streams_per_client),
            )
            yield

    app = FastAPI(
        title=TITLE,
        version=version("ytcaption"),
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=attrgetter("name"),
        redirect_slashes=False,
    )
    for router in ROUTERS:
        app.include_router(router, dependencies=[Depends(reject_unknown_parameters)])
    app.include_router(health.router)
    page.install(app)
    session.install(app)
    problems.install(app)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign] # as FastAPI documents
    # The middleware added last is the outermost.
    app.add_middleware(CredentialsMiddleware)
    app.add_middleware(LimitsMiddleware, settings=settings)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=comma_separated(settings.cors_origins),
            allow_methods=["GET", "HEAD", "POST", "PUT", "DELETE"],
            allow_headers=[
                "Authorization",
                "Content-Type",
                "Last-Event-ID",
                "Range",
                "X-Correlation-Id",
            ],
            expose_headers=["Location", "Content-Range", "ETag", "Retry-After"],
        )
    app.add_middleware(SecurityMiddleware, settings=settings)
    app.add_middleware(ObservabilityMiddleware)
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Returns the OpenAPI description, with the schema all problems share."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        for path, operations in schema["paths"].items():
            for method, operation in operations.items():
                operation["x-role"] = role_of(f"{method.upper()} {path}").name.lower()
        components = schema.setdefault("components", {}).setdefault("schemas", {})
        components["Problem"] = problems.Problem.model_json_schema()
        app.openapi_schema = schema
    return app.openapi_schema
