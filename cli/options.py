"""Options several commands share. Imports nothing slow: `--help` must be quick."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from captions import formats
from cli.execution import async_command
from cli.exits import Exit
from cli.params import NumberParam
from mesh.job_options import CUE_RULES, DOWNLOAD, UNGROUPED, Kind, Option

DEFAULT_SERVER = "127.0.0.1:50051"
PRIORITIES = ("high", "normal", "low")
FORMATS = tuple(formats.FORMATS)
USUAL_FORMATS = tuple(name for name, entry in formats.FORMATS.items() if entry.usual)
WORD_CUE_FORMATS = tuple(name for name, entry in formats.FORMATS.items() if entry.word_cues)

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

server_option = click.option(
    "--server",
    envvar="YTCAPTION_SERVER",
    default=DEFAULT_SERVER,
    show_default=True,
    metavar="HOST:PORT",
    help="The orchestrator to ask; also YTCAPTION_SERVER.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="JSON for programs.")
json_lines_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line on stdout."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Count only; remove nothing.")
limit_option = click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="At most."
)
watch_option = click.option(
    "--watch",
    is_flag=True,
    help="Stay, and show every change: a table on a terminal, else JSON lines.",
)
webhook_option = click.option(
    "--webhook",
    "webhook_url",
    default="",
    metavar="URL",
    help="Address notified of the end, signed.",
)


async def call_client(function: str, address: str, **given: Any) -> Exit:
    """Calls a function of `cli.client` with the server at this address, and the given values."""
    from cli.channel import connected, tls_of_command
    from cli.token_files import token_of_command

    module, _, name = function.partition(".")
    call = getattr(import_module(f"cli.client.{module}"), name)
    tls = tls_of_command()
    async with connected(address, tls, token_of_command(address, tls)) as server:
        return await call(server, **given) or Exit.OK


def server_command(function: str) -> Callable[[Callable[[], None]], Callable[..., NoReturn]]:
    """Makes a click callback that passes all options on to a function of `cli.client`.

    The decorated function gives its name and help alone.
    """

    def decorate(described: Callable[[], None]) -> Callable[..., NoReturn]:
        @wraps(described)
        async def main(server: str, **given: Any) -> Exit:
            return await call_client(function, server, **given)

        return server_option(json_option(async_command(main)))

    return decorate


def _flag(option: Option) -> Callable[[CommandT], CommandT]:
    """The flag of a job option, named like its field; unset if it is not given."""
    dashed = option.name.replace("_", "-")
    flags = (f"--{dashed}",) if option.flags is None else option.flags
    given: dict[str, Any] = {"help": option.help, "metavar": option.metavar}
    if option.kind is Kind.BOOL:
        flags, given["default"] = (f"--{dashed}/--no-{dashed}",), None
    elif option.flag_value is not None:
        given |= {"flag_value": option.flag_value, "default": None}
    elif option.kind is Kind.TEXTS:
        given |= {"multiple": True, "callback": _split}
    elif option.kind is Kind.CHOICE:
        given["type"] = click.Choice(option.choices)
    elif option.kind in (Kind.INT, Kind.INT64):
        given["type"] = click.IntRange(_whole(option.minimum), _whole(option.maximum))
    elif option.kind in (Kind.NUMBER, Kind.SECONDS):
        given["type"] = NumberParam(option.minimum, option.maximum)
    return click.option(*flags, option.name, **given)


def _split(
    _context: click.Context, _option: click.Parameter, values: Sequence[str]
) -> list[str] | None:
    """The entries of a list, whether separated by commas or given one flag each; None: no flag."""
    parts = [part.strip() for value in values for part in value.split(",")]
    return [part for part in parts if part] or None


def _whole(limit: float | None) -> int | None:
    return None if limit is None else int(limit)


def _flags(options: Iterable[Option]) -> list[Callable[[Any], Any]]:
    return [_flag(option) for option in options if option.flags != ()]


def _together(*options: Callable[[Any], Any]) -> Callable[[CommandT], CommandT]:
    """Makes one decorator that adds several options, in this order."""

    def add(command: CommandT) -> CommandT:
        for option in reversed(options):
            command = option(command)
        return command

    return add


word_cues_option = click.option(
    "--word-cues", is_flag=True, help="Give each word its time within its cue, in VTT."
)


cue_options = _together(*_flags(CUE_RULES.options))
"""Every limit of cues; those not given default to the usual ones of the language."""

job_options = _together(*_flags((*UNGROUPED, *DOWNLOAD.options, *CUE_RULES.options)))
"""Every option of a job."""

submission_options = _together(
    click.option("--force", is_flag=True, help="Run even if it was captioned lately."),
    click.option(
        "--priority",
        type=click.Choice(PRIORITIES),
        default="normal",
        show_default=True,
        help="Scheduling priority among queued jobs.",
    ),
    click.option(
        "--caller",
        default="",
        metavar="NAME",
        help="Name of the caller: a mesh serves its callers in turn.",
    ),
    click.option(
        "--group",
        metavar="NAME",
        help='Group of your token to share it with; "": none.  [default: the first of these]',
    ),
)
"""The fields of a submission that are not options of the job."""


def optional_server_option(what: str) -> Callable[[CommandT], CommandT]:
    """Adds --server without a default: commands start a mesh if it is not given."""
    return click.option(
        "--server",
        envvar="YTCAPTION_SERVER",
        metavar="HOST:PORT",
        help=f"Use this mesh; without it (or YTCAPTION_SERVER) one is started for {what}.",
    )


def caption_files_options(written: str) -> Callable[[CommandT], CommandT]:
    """Adds the directory and the formats of caption files."""
    return _together(
        click.option(
            "-o",
            "--output",
            type=click.Path(file_okay=False, path_type=Path),
            metavar="DIR",
            help=written,
        ),
        click.option(
            "-f",
            "--format",
            "formats",
            type=click.Choice(FORMATS),
            multiple=True,
            help=f"May be repeated; {', '.join(USUAL_FORMATS)} if only -o is given, "
            "here if only -f is.",
        ),
    )


def require_server(flag: str, server: str | None) -> None:
    """Refuses a flag whose work goes on after the command: an embedded mesh ends with it."""
    if server is None:
        raise click.UsageError(
            f"{flag} needs a mesh that goes on running: give --server or YTCAPTION_SERVER"
        )
