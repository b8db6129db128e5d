"""Turns the values of flags into requests. Imports nothing slow: `--help` must be quick."""

from typing import TYPE_CHECKING, Any

from mesh.job_options import CUE_RULES, grouped

if TYPE_CHECKING:
    from cli.files.sources import JobSpec
    from ytcaption.v1.job_pb2 import JobOptions, Priority
    from ytcaption.v1.media_pb2 import CueRules


def to_priority(name: str) -> "Priority.ValueType":
    """The priority as the contract has it."""
    from ytcaption.v1.job_pb2 import Priority

    return Priority.Value(f"PRIORITY_{name.upper()}")


def to_job_spec(source: str, given: dict[str, Any]) -> "JobSpec":
    """The request for one job; takes everything about the job out of `given`."""
    from cli.files.sources import JobSpec, parse_source

    about = {name: given.pop(name) for name in ("force", "caller", "webhook_url")}
    priority = to_priority(given.pop("priority"))
    return JobSpec(parse_source(source), to_job_options(given), priority=priority, **about)


def to_job_options(given: dict[str, Any]) -> "JobOptions":
    """The options the user gave; the server fills in the rest."""
    from mesh.messages import fill
    from ytcaption.v1.job_pb2 import JobOptions

    options = JobOptions()
    fill(options, grouped(given))
    return options


def to_cue_rules(given: dict[str, Any]) -> "CueRules":
    """Takes the limits of cues out of what was given."""
    from mesh.messages import fill
    from ytcaption.v1.media_pb2 import CueRules

    rules = CueRules()
    fill(rules, {option.name: given.pop(option.name) for option in CUE_RULES.options})
    return rules
