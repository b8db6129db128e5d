"""Calls of AdminService about collectors and executors."""

from collections.abc import Sequence
from datetime import timedelta

import click
from google.protobuf.duration import from_timedelta

from cli.channel import Server, call
from cli.exits import Exit
from cli.render.messages import as_dict
from cli.render.screen import print_table
from cli.render.text import for_terminal, to_json
from mesh.messages import enum_word
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import task_pb2

HEADS = ("role", "type", "how", "where", "state", "waiting", "running", "what it does")


async def list_types(server: Server, *, as_json: bool) -> None:
    """Prints the types as a table, or as one JSON object a line."""
    found = await call(server.admin.ListTypes, pb.ListTypesRequest())
    if as_json:
        for one in found.types:
            click.echo(to_json(as_dict(one)))
    else:
        print_table(HEADS, map(_row, found.types))


async def add(  # noqa: PLR0913 # every part of a registration
    server: Server,
    role: str,
    name: str,
    addresses: Sequence[str],
    *,
    queue: bool,
    max_in_flight: int | None,
    timeout: timedelta | None,
    as_json: bool,
) -> None:
    """Registers a type, and prints it."""
    if queue == bool(addresses):
        raise click.UsageError("give --address, once for each replica, or --queue")
    transport = task_pb2.TASK_TRANSPORT_QUEUE if queue else task_pb2.TASK_TRANSPORT_GRPC
    request = pb.RegisterTypeRequest(
        type=name,
        role=_role(role),
        transport=transport,
        addresses=addresses,
        max_in_flight=max_in_flight or 0,
    )
    if timeout is not None:
        request.timeout.CopyFrom(from_timedelta(timeout))
    made = (await call(server.admin.RegisterType, request)).type
    if as_json:
        click.echo(to_json(as_dict(made)))
    else:
        print_table(HEADS, [_row(made)])


async def remove(server: Server, role: str, name: str, *, as_json: bool) -> Exit:
    """Takes a registration back."""
    request = pb.UnregisterTypeRequest(type=name, role=_role(role))
    removed = (await call(server.admin.UnregisterType, request)).removed
    if as_json:
        click.echo(to_json({"removed": removed}))
    elif not removed:
        click.echo(f"no {role} {for_terminal(name)} is registered", err=True)
    return Exit.OK if removed else Exit.REFUSED


def _role(word: str) -> "task_pb2.TaskRole.ValueType":
    return task_pb2.TaskRole.Value(f"TASK_ROLE_{word.upper()}")


def _row(found: task_pb2.RegisteredType) -> Sequence[str]:
    return (
        enum_word(task_pb2.TaskRole, found.role),
        found.type,
        enum_word(task_pb2.TaskTransport, found.transport).replace("_", " "),
        for_terminal(", ".join(found.addresses)),
        "healthy" if found.healthy else "away",
        str(found.queued),
        str(found.running),
        for_terminal(found.description.summary),
    )
