"""Static files: the web page, and the API reference at /docs."""

from importlib.util import find_spec
from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

GATEWAY = Path(__file__).parents[1]
PAGE = GATEWAY / "page"
REFERENCE = GATEWAY / "reference"


class RevalidatedFiles(StaticFiles):
    """Static files that browsers revalidate on each use; unchanged files are answered with 304."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Serves the file with Cache-Control: no-cache."""
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


def install(app: FastAPI) -> None:
    """Adds the page and the reference; they are not part of the OpenAPI description."""
    page: list[BaseRoute] = []
    if PAGE.is_dir():
        page = [
            _file("/", PAGE / "index.html"),
            Mount("/static", RevalidatedFiles(directory=PAGE / "static")),
        ]
    reference = [
        _file("/docs", REFERENCE / "index.html"),
        _file("/docs/start.js", REFERENCE / "start.js"),
        Mount("/docs/assets", RevalidatedFiles(directory=_swagger_files())),
    ]
    app.routes.extend([*page, *reference])


def _file(path: str, file: Path) -> Route:
    files = RevalidatedFiles(directory=file.parent)

    async def serve(request: Request) -> Response:
        return await files.get_response(file.name, request.scope)

    return Route(path, serve, methods=["GET", "HEAD"])


def _swagger_files() -> Path:
    """The assets of Swagger UI; the package's own page has an inline script, which CSP blocks."""
    found = find_spec("fastapi_offline")
    locations = found.submodule_search_locations if found else None
    return Path(locations[0]) / "static" if locations else REFERENCE
