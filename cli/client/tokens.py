"""Calls of AuthService: tokens, and links for browsers."""

from collections.abc import Sequence
from datetime import UTC, timedelta

import click
from google.protobuf.duration import from_timedelta
from google.protobuf.timestamp_pb2 import Timestamp

from cli.channel import Server, call
from cli.client.lists import ListSpec, print_list
from cli.render.messages import as_dict
from cli.render.text import to_json
from cli.token_files import link_of
from mesh.messages import enum_word
from ytcaption.v1 import auth_service_pb2 as pb
from ytcaption.v1 import token_pb2


async def create(  # noqa: PLR0913 # every field of a token
    server: Server,
    subject: str,
    role: str,
    lifetime: timedelta | None,
    groups: Sequence[str],
    note: str,
    *,
    as_json: bool,
) -> None:
    """Prints a new token; what is known about it goes to stderr."""
    request = pb.CreateTokenRequest(
        subject=subject,
        role=token_pb2.Role.Value(f"ROLE_{role.upper()}"),
        groups=groups,
        note=note,
    )
    if lifetime is not None:
        request.lifetime.CopyFrom(from_timedelta(lifetime))
    made = await call(server.auth.CreateToken, request)
    if as_json:
        click.echo(to_json({"secret": made.secret, **as_dict(made.token)}))
        return
    click.echo(made.secret)
    click.echo(f"its id is {made.token.token_id}; the token is not shown again", err=True)


async def list_tokens(server: Server, subject: str, limit: int, *, as_json: bool) -> None:
    """Prints tokens as a table, or as one JSON object a line."""
    request = pb.ListTokensRequest(subject=subject)
    await print_list(server.auth.ListTokens, request, TOKENS, limit, as_json=as_json)


async def revoke(server: Server, token_id: str, *, as_json: bool) -> None:
    """Ends a token."""
    ended = await call(server.auth.RevokeToken, pb.RevokeTokenRequest(token_id=token_id))
    if as_json:
        click.echo(to_json(as_dict(ended.token)))


async def logout(server: Server, subject: str, *, as_json: bool) -> None:
    """Ends the browser sessions of a subject."""
    ended = await call(server.auth.EndSessions, pb.EndSessionsRequest(subject=subject))
    if as_json:
        click.echo(to_json({"sessions_ended": ended.sessions_ended}))
    else:
        click.echo(f"sessions ended: {ended.sessions_ended}")


async def link(server: Server, page: str, *, as_json: bool) -> None:
    """Prints a link for a browser."""
    made = await call(server.auth.CreateLink, pb.CreateLinkRequest())
    address = link_of(page, made.code)
    click.echo(to_json({"link": address}) if as_json else address)


def _row(token: token_pb2.Token) -> Sequence[str]:
    state = "revoked" if token.HasField("revoke_time") else ""
    return (
        token.token_id,
        token.subject,
        enum_word(token_pb2.Role, token.role),
        _time(token.create_time),
        state or _time(token.expire_time if token.HasField("expire_time") else None),
        _time(token.last_use_time if token.HasField("last_use_time") else None),
        ", ".join(token.groups),
        token.note,
    )


def _time(moment: Timestamp | None) -> str:
    return moment.ToDatetime(UTC).strftime("%Y-%m-%d %H:%M") if moment is not None else "never"


TOKENS: ListSpec[token_pb2.Token] = ListSpec(
    id_field="token_id",
    heads=("token", "subject", "role", "created", "ends", "last used", "groups", "note"),
    row=_row,
    items=lambda page: page.tokens,
)
