"""How much of a list is asked for, on every route that has one."""

from typing import Annotated

from fastapi import Query

Limit = Annotated[int, Query(ge=1, le=200)]
PageToken = Annotated[str, Query(max_length=200)]
