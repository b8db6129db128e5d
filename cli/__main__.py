"""The `ytcaption` command."""

import os

import click

from cli import exits
from cli.commands import captioning, collecting, dlq, housekeeping, jobs, machine, webhooks


@click.group(epilog=exits.HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ytcaption")
def command() -> None:
    """Captions for videos, live: an address or a file goes in, SRT, VTT, TXT and JSON come out."""


for _one in (
    captioning.transcribe,
    machine.up,
    captioning.submit,
    captioning.watch,
    jobs.jobs,
    jobs.job,
    jobs.captions,
    jobs.cancel,
    jobs.delete,
    collecting.collect,
    collecting.collections,
    collecting.collection,
    collecting.report,
    dlq.dlq,
    webhooks.webhooks,
    housekeeping.stats,
    housekeeping.cleanup,
    housekeeping.factory_reset,
    machine.health,
    machine.doctor,
):
    command.add_command(_one)


def main() -> None:
    """Runs what was typed."""
    # gRPC says on stderr what we say in one line.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    command(prog_name="ytcaption")


if __name__ == "__main__":
    main()
