"""Refuses what a route does not know: ignored, a misspelt parameter would be a wish lost."""

from collections.abc import Mapping
from functools import cache

from fastapi import FastAPI, Request

from gateway.problems import RefusedError


def refuse_unknown(request: Request) -> None:
    """Raises for the first parameter the route's description does not have."""
    known = described(request.app)[request.scope["route"].path, request.method]
    for name in request.query_params:
        if name not in known:
            raise RefusedError(422, f"{name}: there is no such parameter", field=name)


@cache
def described(app: FastAPI) -> Mapping[tuple[str, str], frozenset[str]]:
    """The parameters of each path and verb; a third of a second, once."""
    return {
        (path, verb.upper()): frozenset(
            one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"
        )
        for path, verbs in app.openapi()["paths"].items()
        for verb, operation in verbs.items()
    }
