"""Path and query parameters that routes share, and the check that rejects unknown ones."""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Query, Request

from gateway.http.problems import RefusedError

_Id = Path(max_length=64, examples=["01997b3e-6e0a-7c44-9d5f-0d3a5a3f2c11"])
JobId = Annotated[str, _Id]
CollectionId = Annotated[str, _Id]
LetterId = Annotated[str, _Id]
CancelNote = Annotated[str, Query(max_length=1000)]
Naive = Annotated[
    bool,
    Query(description="Times without an offset, as the earlier system wrote them; they are UTC."),
]
PageToken = Annotated[str, Query(max_length=200)]


def _page(
    limit: Annotated[int, Query(ge=1, le=200)] = 50, page_token: PageToken = ""
) -> dict[str, Any]:
    return {"page_size": limit, "page_token": page_token}


Page = Annotated[dict[str, Any], Depends(_page)]
"""The requested page of a list, as the paging fields of the orchestrator's list requests."""


def reject_unknown_parameters(request: Request) -> None:
    """Rejects query parameters the route does not have: a misspelt one must not be ignored."""
    known = known_parameters(request.app)[request.scope["route"].path, request.method]
    for name in request.query_params:
        if name not in known:
            raise RefusedError(422, f"{name}: there is no such parameter", field=name)


@cache
def known_parameters(app: FastAPI) -> Mapping[tuple[str, str], frozenset[str]]:
    """Query parameters by path and method; building it takes a third of a second, once."""
    return {
        (path, method.upper()): frozenset(
            one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"
        )
        for path, methods in app.openapi()["paths"].items()
        for method, operation in methods.items()
    }
