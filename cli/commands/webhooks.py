"""webhooks."""

import click

from cli.exits import Exit
from cli.options import json_option, limit_option, server_option
from cli.running import run


@click.command()
@click.option("--job", "job_id", default="", metavar="ID", help="Only those that tell of this job.")
@click.option(
    "--collection",
    "collection_id",
    default="",
    metavar="ID",
    help="Only those that tell of this collection.",
)
@limit_option
@server_option
@json_option
def webhooks(job_id: str, collection_id: str, limit: int, server: str, as_json: bool) -> None:
    """Lists webhooks that were or will be sent, newest first."""

    async def main() -> Exit:
        from cli.deliveries import list_deliveries

        return await list_deliveries(server, job_id, collection_id, limit, as_json=as_json)

    run(main())
