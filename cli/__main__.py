"""The `ytcaption` command: its subcommands and its entry point."""

import os

import click

from cli import exits
from cli.commands import (
    admin,
    collections,
    dead_letters,
    jobs,
    local,
    owners,
    quota,
    search,
    tokens,
    transcribe,
    types,
)


@click.group(epilog=exits.HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ytcaption")
def command() -> None:
    """Captions for videos, live: an address or a file goes in, SRT, VTT, TXT and JSON come out."""


for _subcommand in (
    transcribe.transcribe,
    local.up,
    transcribe.submit,
    transcribe.watch,
    jobs.jobs,
    jobs.job,
    jobs.captions,
    jobs.cancel,
    jobs.delete,
    search.search,
    collections.collect,
    collections.collections,
    collections.collection,
    collections.report,
    dead_letters.dlq,
    admin.webhooks,
    admin.audit,
    admin.stats,
    admin.cleanup,
    admin.factory_reset,
    admin.health,
    owners.export,
    owners.forget,
    owners.retention,
    tokens.token,
    quota.quota,
    types.types,
    local.doctor,
    local.certs,
):
    command.add_command(_subcommand)


def main() -> None:
    """Runs the command line of this process."""
    # The command reports gRPC errors itself, in one line.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    command(prog_name="ytcaption")


if __name__ == "__main__":
    main()
