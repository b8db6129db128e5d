"""Ids of jobs and of collections look alike: what is no job may be a collection."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc

from cli.exits import CommandError, Exit
from cli.text import for_terminal

T = TypeVar("T")

NOT_THERE = frozenset({grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED})
"""An older server has no collections at all."""


async def job_or_collection(
    wanted: str, job: Callable[[], Awaitable[T]], collection: Callable[[], Awaitable[T]]
) -> T:
    """Does the one if there is such a job, else the other; one clear error if neither is there."""
    try:
        return await job()
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
    try:
        return await collection()
    except grpc.aio.AioRpcError as error:
        if error.code() not in NOT_THERE:
            raise
        message = f"there is no job and no collection {for_terminal(wanted)}"
        raise CommandError(message, Exit.REFUSED, "NOT_FOUND") from error
