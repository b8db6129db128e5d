"""The gateway as one ASGI application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware

from gateway import problems
from gateway.backend import connected
from gateway.endings import Endings
from gateway.face import Face
from gateway.limits import Limits
from gateway.observing import Watch
from gateway.parameters import described, refuse_unknown
from gateway.routes import (
    admin,
    collections,
    dead_letters,
    events,
    files,
    health,
    jobs,
    lists,
    page,
    pipeline,
    reports,
    webhooks,
)
from gateway.security import Guard
from gateway.settings import Settings, listed

TITLE = "ytcaption"
ABOUT = (
    "A video address or a file goes in, captions come out, live. Errors are RFC 9457 problems; "
    "their `reason` is from a closed list."
)
ROUTERS = (
    pipeline.router,
    lists.router,  # before those that take any word for an id
    jobs.router,
    events.router,
    files.router,
    collections.router,
    reports.router,
    webhooks.router,
    dead_letters.router,
    admin.router,
)


def create_app(settings: Settings) -> FastAPI:
    """Everything wired; channels are opened when it starts."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        described(app)  # now, not while the first caller waits and streams stand still
        async with connected(settings.orchestrator) as orchestrator:
            app.state.face = Face(settings, orchestrator, Endings(orchestrator))
            yield

    app = FastAPI(
        title=TITLE,
        version=version("ytcaption"),
        description=ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=_operation_id,
        redirect_slashes=False,
    )
    for router in ROUTERS:
        app.include_router(router, dependencies=[Depends(refuse_unknown)])
    app.include_router(health.router)
    page.install(app)
    problems.install(app)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign] # FastAPI's own way
    # The last one added is the outermost.
    app.add_middleware(Limits, settings=settings)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=listed(settings.cors_origins),
            allow_methods=["GET", "HEAD", "POST", "DELETE"],
            allow_headers=["Content-Type", "Last-Event-ID", "Range", "X-Correlation-Id"],
            expose_headers=["Location", "Content-Range", "ETag", "Retry-After"],
        )
    app.add_middleware(Guard, settings=settings)
    app.add_middleware(Watch)
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name


def _described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description, with the one shape of all problems."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        shapes = schema.setdefault("components", {}).setdefault("schemas", {})
        shapes["Problem"] = problems.Problem.model_json_schema()
        app.openapi_schema = schema
    return app.openapi_schema
