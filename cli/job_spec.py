"""What the user chose, as the contract has it. Imports nothing heavy: `--help` must be quick."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cli.sources import Order
    from ytcaption.v1.job_pb2 import JobOptions, Priority
    from ytcaption.v1.media_pb2 import CueRules, DownloadOptions


def to_priority(name: str) -> "Priority.ValueType":
    """As the contract has it."""
    from ytcaption.v1.job_pb2 import Priority

    return Priority.Value(f"PRIORITY_{name.upper()}")


def to_order(source: str, given: dict[str, Any]) -> "Order":
    """What is asked of the server; takes everything that is about the job out of `given`."""
    from cli.sources import Order, parse_source

    about = {name: given.pop(name) for name in ("force", "caller", "webhook_url")}
    priority = to_priority(given.pop("priority"))
    return Order(parse_source(source), to_job_options(given), priority=priority, **about)


def to_job_options(given: dict[str, Any]) -> "JobOptions":
    """The server fills in what the user did not choose."""
    from ytcaption.v1.job_pb2 import JobOptions

    rules, download = to_cue_rules(given), _to_download_options(given)
    chosen = {name: value for name, value in given.items() if value is not None}
    return JobOptions(
        **chosen,
        cue_rules=rules if rules.ListFields() else None,
        download=download if download.ListFields() else None,
    )


def _to_download_options(given: dict[str, Any]) -> "DownloadOptions":
    from ytcaption.v1.media_pb2 import DownloadOptions

    names = ("user_agent", "max_bytes_per_second", "proxy")
    return DownloadOptions(**{name: value for name in names if (value := given.pop(name, None))})


def to_cue_rules(given: dict[str, Any]) -> "CueRules":
    """Takes the limits of cues out of what was given."""
    from google.protobuf.duration import from_milliseconds

    from ytcaption.v1.media_pb2 import CueRules

    names = [str(option.name) for option in CueRules.DESCRIPTOR.fields]
    limits = {name: value for name in names if (value := given.pop(name)) is not None}
    for name in ("min_duration", "max_duration", "min_gap"):
        if name in limits:
            limits[name] = from_milliseconds(round(1000 * limits[name]))
    return CueRules(**limits)
