"""Calls of QuotaService: limits of owners, and what is used of them."""

from collections.abc import Sequence
from typing import Any

import click

from cli.channel import Server, call
from cli.render.screen import print_table
from cli.render.text import for_terminal, size, to_json
from mesh.messages import enum_number, enum_word
from ytcaption.v1 import quota_pb2
from ytcaption.v1 import quota_service_pb2 as pb


async def show(
    server: Server,
    owner: str | None,
    limits: Sequence[tuple[str, float | None]],
    *,
    as_json: bool,
) -> None:
    """Sets limits, if some are named; prints all of them as a table or as one JSON object."""
    found: pb.GetQuotaResponse | pb.SetQuotaResponse
    found = await call(server.quotas.GetQuota, pb.GetQuotaRequest(owner=owner))
    if limits:
        found = await call(server.quotas.SetQuota, _request(found.owner, limits))
    if as_json:
        click.echo(to_json({"owner": found.owner, "quotas": [*map(_plain, found.quotas)]}))
        return
    if found.owner:
        click.echo(f"owner: {for_terminal(found.owner)}", err=True)
    print_table(("limit", "used", "of", ""), map(_row, found.quotas))


def _request(owner: str, limits: Sequence[tuple[str, float | None]]) -> pb.SetQuotaRequest:
    request = pb.SetQuotaRequest(owner=owner)
    for name, maximum in limits:
        number = _number(name)
        if maximum is None:
            request.defaults.append(number)
        else:
            request.overrides.add(limit=number, maximum=maximum)
    return request


def _number(name: str) -> "quota_pb2.QuotaLimit.ValueType":
    descriptor = quota_pb2.QuotaLimit.DESCRIPTOR
    try:
        return enum_number(descriptor, name)  # type: ignore[return-value] # one of its numbers
    except KeyError:
        numbers = quota_pb2.QuotaLimit.values()[1:]
        names = ", ".join(enum_word(quota_pb2.QuotaLimit, one) for one in numbers)
        raise click.UsageError(f"there is no limit {name!r}; there are {names}") from None


def _plain(quota: quota_pb2.Quota) -> dict[str, Any]:
    return {
        "limit": enum_word(quota_pb2.QuotaLimit, quota.limit),
        "maximum": quota.maximum or None,
        "used": quota.used,
        "overridden": quota.overridden,
    }


def _row(quota: quota_pb2.Quota) -> Sequence[str]:
    stored = quota.limit == quota_pb2.QUOTA_LIMIT_STORED_BYTES

    def shown(amount: float) -> str:
        return size(amount) if stored else f"{amount:.2f}".rstrip("0").rstrip(".")

    return (
        enum_word(quota_pb2.QuotaLimit, quota.limit),
        shown(quota.used),
        shown(quota.maximum) if quota.maximum else "no limit",
        "set for this owner" if quota.overridden else "",
    )
