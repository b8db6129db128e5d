"""Options several commands share. Imports nothing heavy: `--help` must be quick."""

from collections.abc import Callable
from math import isnan
from pathlib import Path
from typing import Any, TypeVar

import click

DEFAULT_SERVER = "127.0.0.1:50051"
PRIORITIES = ("high", "normal", "low")
FORMATS = ("srt", "vtt", "txt", "json", "tsv", "lrc")
USUAL_FORMATS = FORMATS[:4]

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
limit_option = click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="At most."
)
watch_option = click.option(
    "--watch",
    is_flag=True,
    help="Stay, and show every change: a table on a terminal, else JSON lines.",
)
MOST_WATCHED = 200
"""What one page of a server holds."""

webhook_option = click.option(
    "--webhook",
    "webhook_url",
    default="",
    metavar="URL",
    help="Address that is told of the end, signed.",
)

_JOB_OPTIONS = (
    click.option(
        "--language", metavar="TAG", help="Language of the speech, such as en or pt; or auto."
    ),
    click.option(
        "--language-out",
        "--translate-to",
        "language_out",
        metavar="TAG",
        help="Language to translate into, beside the original: en, or what the server can.",
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
    click.option(
        "--hotwords", metavar="WORDS", help="Words to prefer where the model is in doubt."
    ),
    click.option(
        "--mixed-languages/--no-mixed-languages",
        default=None,
        help="Tell the language of every stretch anew.",
    ),
    click.option(
        "--prefer-human-captions",
        "captions_policy",
        flag_value="CAPTIONS_POLICY_PREFER_HUMAN",
        default=None,
        help="Take captions a human made for the video, if there are any, instead of listening.",
    ),
    click.option("--beam-size", type=click.IntRange(1, 10), help="Width of the beam search."),
)
"""Each is called like the field of JobOptions it sets; what was not given stays unset."""


class _Amount(click.FloatRange):
    """A number of something; FloatRange lets "nan" pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or click's own complaint."""
        found = super().convert(value, param, ctx)
        if isnan(found):
            self.fail(f"{value!r} is not a number", param, ctx)
        return found


_COUNT = click.IntRange(0, 10_000)
_SECONDS = _Amount(0, 3600)
_CUE_OPTIONS = (
    click.option("--max-lines", type=_COUNT, metavar="N", help="Lines of a cue."),
    click.option("--max-line-length", type=_COUNT, metavar="N", help="Characters of a line."),
    click.option(
        "--max-cps",
        "max_characters_per_second",
        type=_Amount(0),
        metavar="N",
        help="Characters a second, where the speech allows.",
    ),
    click.option(
        "--min-duration", type=_SECONDS, metavar="S", help="Seconds a cue stays at least."
    ),
    click.option("--max-duration", type=_SECONDS, metavar="S", help="Seconds it stays at most."),
    click.option(
        "--min-gap", type=_SECONDS, metavar="S", help="Seconds between two cues at least."
    ),
)
"""Each is called like the field of CueRules it sets; the server knows the exact ranges."""

word_cues_option = click.option(
    "--word-cues", is_flag=True, help="Give each word its time within its cue, in VTT."
)


def cue_options(command: CommandT) -> CommandT:
    """Adds every limit of cues; what is not given is as usual in the language."""
    for option in reversed(_CUE_OPTIONS):
        command = option(command)
    return command


def job_options(command: CommandT) -> CommandT:
    """Adds every choice a job has."""
    command = cue_options(command)
    for option in reversed((*_JOB_OPTIONS, *_DOWNLOAD_OPTIONS)):
        command = option(command)
    return command


_DOWNLOAD_OPTIONS = (
    click.option("--user-agent", metavar="TEXT", help="User agent shown to the site."),
    click.option(
        "--max-bytes-per-second", type=click.IntRange(1), metavar="N", help="Download no faster."
    ),
    click.option(
        "--proxy", metavar="URL", help="Proxy to download through, if the mesh lets callers choose."
    ),
)
"""Each is called like the field of DownloadOptions it sets."""

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


def own_mesh_option(what: str) -> Callable[[CommandT], CommandT]:
    """Adds a server that need not be given."""
    return click.option(
        "--server",
        envvar="YTCAPTION_SERVER",
        metavar="HOST:PORT",
        help=f"Use this mesh; without it (or YTCAPTION_SERVER) one is started for {what}.",
    )


def caption_files_options(written: str) -> Callable[[CommandT], CommandT]:
    """Adds where captions are written to, and as what."""
    output = click.option(
        "-o",
        "--output",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help=written,
    )
    formats = click.option(
        "-f",
        "--format",
        "formats",
        type=click.Choice(FORMATS),
        multiple=True,
        help=f"May be repeated; {', '.join(USUAL_FORMATS)} if only -o is given, "
        "here if only -f is.",
    )
    return lambda command: output(formats(command))


def refuse_to_watch_too_many(limit: int) -> None:
    """Those beyond would be left out silently."""
    if limit > MOST_WATCHED:
        raise click.UsageError(f"--watch shows {MOST_WATCHED} at most: give a smaller --limit")


def refuse_a_webhook_nobody_would_send(webhook_url: str, server: str | None) -> None:
    """A mesh that ends with the command has no time to deliver one."""
    if webhook_url and server is None:
        raise click.UsageError(
            "--webhook needs a mesh that goes on running: give --server or YTCAPTION_SERVER"
        )
