"""Options several commands share. Imports nothing heavy: `--help` must be quick."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from cli.sources import Order
    from ytcaption.v1.job_pb2 import JobOptions

DEFAULT_SERVER = "127.0.0.1:50051"
PRIORITIES = ("high", "normal", "low")
FORMATS = ("srt", "vtt", "txt", "json")

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

_JOB_OPTIONS = (
    click.option(
        "--language", metavar="TAG", help="Language of the speech, such as en or pt; or auto."
    ),
    click.option(
        "--language-out",
        "--translate-to",
        "language_out",
        metavar="TAG",
        help="Language to translate into.",
    ),
    click.option(
        "--remove-noise/--no-remove-noise",
        default=None,
        help="Take steady noise out of the kept audio.",
    ),
    click.option("--convert-to-mono/--no-convert-to-mono", default=None, help="Keep one channel."),
    click.option(
        "--apply-highpass-filter/--no-apply-highpass-filter",
        default=None,
        help="Cut rumble below speech.",
    ),
    click.option(
        "--set-sample-rate-16k/--no-set-sample-rate-16k",
        default=None,
        help="Keep the audio at 16 kHz.",
    ),
    click.option(
        "--isolate-vocals/--no-isolate-vocals", default=None, help="Lift speech out of music."
    ),
    click.option(
        "--word-timestamps/--no-word-timestamps", default=None, help="Give each word its time."
    ),
    click.option("--initial-prompt", metavar="TEXT", help="Names and terms to expect."),
    click.option("--beam-size", type=click.IntRange(1, 10), help="Width of the beam search."),
)
"""Each is called like the field of JobOptions it sets; what was not given stays unset."""


def job_options(command: CommandT) -> CommandT:
    """Adds every choice a job has."""
    for option in reversed(_JOB_OPTIONS):
        command = option(command)
    return command


_ORDER_OPTIONS = (
    click.option("--force", is_flag=True, help="Run even if it was captioned lately."),
    click.option(
        "--priority",
        type=click.Choice(PRIORITIES),
        default="normal",
        show_default=True,
        help="Whether it goes before other jobs.",
    ),
    click.option(
        "--caller",
        default="",
        metavar="NAME",
        help="Who asks: a mesh serves its callers in turn.",
    ),
)


def order_options(command: CommandT) -> CommandT:
    """Adds what is said about a job besides its options."""
    for option in reversed(_ORDER_OPTIONS):
        command = option(command)
    return command


def to_order(source: str, given: dict[str, Any]) -> "Order":
    """What is asked of the server; takes everything that is about the job out of `given`."""
    from cli.sources import Order, parse_source
    from ytcaption.v1.job_pb2 import Priority

    force, caller = given.pop("force"), given.pop("caller")
    priority = Priority.Value(f"PRIORITY_{given.pop('priority').upper()}")
    return Order(parse_source(source), to_job_options(given), force, caller, priority)


def to_job_options(given: dict[str, Any]) -> "JobOptions":
    """The server fills in what the user did not choose."""
    from ytcaption.v1.job_pb2 import JobOptions

    return JobOptions(**{name: value for name, value in given.items() if value is not None})
