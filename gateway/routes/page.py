"""The web page, and the description of all routes for people."""

from importlib.util import find_spec
from os import PathLike
from pathlib import Path

from fastapi import FastAPI
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

HERE = Path(__file__).parents[1]
PAGE = HERE / "page"
REFERENCE = HERE / "reference"


class Files(StaticFiles):
    """Asked for again each time, but sent again only if they changed."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, or that the client has it."""
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


class OneFile(Files):
    """The same file whatever is asked for: its route says what that is."""

    def __init__(self, path: Path) -> None:
        super().__init__(directory=path.parent)
        self._name = path.name

    def get_path(self, scope: Scope) -> str:
        """Its name."""
        return self._name


def install(app: FastAPI) -> None:
    """Adds what is not part of the API."""
    page: list[BaseRoute] = []
    if PAGE.is_dir():
        page = [_one("/", PAGE / "index.html"), Mount("/static", Files(directory=PAGE / "static"))]
    reference = [
        _one("/docs", REFERENCE / "index.html"),
        _one("/docs/start.js", REFERENCE / "start.js"),
        Mount("/docs/assets", Files(directory=_swagger_files())),
    ]
    app.routes.extend([*page, *reference])


def _one(path: str, file: Path) -> Route:
    return Route(path, OneFile(file), methods=["GET", "HEAD"])


def _swagger_files() -> "str | PathLike[str]":
    """Of the package only its files are used: its own page has a script within."""
    found = find_spec("fastapi_offline")
    places = found.submodule_search_locations if found else None
    return Path(places[0]) / "static" if places else REFERENCE
