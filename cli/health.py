"""How a mesh is, in its own words."""

import click

from cli.channel import UNARY_SECONDS, connected
from cli.exits import Exit
from cli.reporting import as_dict
from cli.text import for_terminal, to_json
from mesh.correlation import call_metadata
from ytcaption.v1 import admin_service_pb2 as pb


async def show_health(address: str, *, as_json: bool) -> Exit:
    """A line for each part."""
    async with connected(address) as server:
        found = await server.admin.GetHealth(
            pb.GetHealthRequest(), timeout=UNARY_SECONDS, metadata=call_metadata()
        )
    if as_json:
        click.echo(to_json({"healthy": found.healthy, **as_dict(found)}))
    else:
        for part in found.components:
            word = "ok" if part.healthy else "NOT OK"
            detail = for_terminal(f"{part.address}  {part.detail}")
            click.echo(f"{for_terminal(part.name):<13} {word:<7} {detail}")
        click.echo("a job would run" if found.healthy else "a job would not run now")
    return Exit.OK if found.healthy else Exit.UNAVAILABLE
