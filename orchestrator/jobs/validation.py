"""Validates what a job request asks for and fills in the defaults of the option table."""

from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

from google.protobuf.duration import to_timedelta
from google.protobuf.duration_pb2 import Duration

from mesh.errors import InvalidRequestError
from mesh.identity import HIGH_PRIORITY, current
from mesh.job_options import UNGROUPED, Kind
from mesh.languages import canonical, primary
from mesh.messages import fill
from mesh.reasons import Reason
from orchestrator.jobs.captions import rules_in_force
from orchestrator.pipeline.request import AUTO
from orchestrator.queue.lanes import PRIORITIES
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

TRANSCRIBE = job_pb2.CAPTIONS_POLICY_TRANSCRIBE
PREFER_HUMAN = job_pb2.CAPTIONS_POLICY_PREFER_HUMAN
MAX_WORD = 128

DEFAULTS = job_pb2.JobOptions()
fill(DEFAULTS, {option.name: option.default for option in UNGROUPED})


@dataclass(frozen=True, slots=True)
class SchedulingKey:
    """Caller and priority: they decide when a job is dispatched."""

    caller: str = ""
    priority: "job_pb2.Priority.ValueType" = job_pb2.PRIORITY_NORMAL


def resolve(asked: job_pb2.JobOptions) -> job_pb2.JobOptions:
    """The options in force; raises if one of them cannot be honoured."""
    options = deepcopy(DEFAULTS)
    options.MergeFrom(asked)
    options.language = canonical(options.language) if options.language not in ("", AUTO) else AUTO
    if options.language_out:  # the transcriber says which targets it has
        options.language_out = primary(options.language_out)
    else:
        options.ClearField("language_out")
    _check_captions_policy(options)
    _check_values(options)
    _resolve_languages(options)
    rules_in_force("", options.cue_rules)
    return options


def _resolve_languages(options: job_pb2.JobOptions) -> None:
    """Spells the candidates of detection, each once, in the caller's order."""
    options.languages[:] = dict.fromkeys(map(canonical, options.languages))
    if options.languages and options.language != AUTO:
        raise InvalidRequestError(
            "languages are for detection to choose among: leave out either languages or language"
        )


def _check_captions_policy(options: job_pb2.JobOptions) -> None:
    options.captions_policy = options.captions_policy or TRANSCRIBE
    if options.captions_policy not in (TRANSCRIBE, PREFER_HUMAN):
        raise InvalidRequestError(f"captions_policy {options.captions_policy} is unknown")
    if options.captions_policy == PREFER_HUMAN and options.word_timestamps:
        raise InvalidRequestError(
            "human-made captions have no word times: leave out either PREFER_HUMAN or "
            "word_timestamps"
        )


def permitted(priority: "job_pb2.Priority.ValueType") -> "job_pb2.Priority.ValueType":
    """The priority that a job had, or normal where the caller may not ask for that."""
    high = priority == job_pb2.PRIORITY_HIGH
    return job_pb2.PRIORITY_NORMAL if high and current().role < HIGH_PRIORITY else priority


def check_scheduling(
    request: pb.CreateJobRequest | pb.UploadStart | collection_pb.CreateCollectionRequest,
) -> SchedulingKey:
    """Caller and priority of a request; raises if either is invalid, or not the caller's to ask."""
    priority = request.priority or job_pb2.PRIORITY_NORMAL
    if priority not in PRIORITIES:
        raise InvalidRequestError(f"priority {priority} is unknown")
    if priority == job_pb2.PRIORITY_HIGH:
        current().require(HIGH_PRIORITY, "ask for high priority")
    return SchedulingKey(check_word(request.caller, "caller"), priority)


def _check_values(options: job_pb2.JobOptions) -> None:
    for option in UNGROUPED:
        given = option.kind is Kind.TEXTS or options.HasField(option.name)  # type: ignore[arg-type]
        if given and (fault := option.fault(getattr(options, option.name))):
            raise InvalidRequestError(fault)
    if options.mixed_languages and options.language != AUTO:
        raise InvalidRequestError(
            "mixed_languages detects the language of every stretch: leave out language"
        )


def check_url(url: str) -> str:
    """The address without surrounding space; raises unless it is an http or https address."""
    url = url.strip()
    try:
        parts = urlsplit(url)
        usable = parts.scheme.lower() in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable or any(character.isspace() or not character.isprintable() for character in url):
        raise InvalidRequestError(
            f"{url[:200]!r} is not an http or https address", reason=Reason.UNSUPPORTED_URL
        )
    return url


def check_duration(value: Duration, field: str) -> timedelta:
    """The duration; raises if it is out of range."""
    try:
        return to_timedelta(value)
    except (OverflowError, ValueError) as error:
        raise InvalidRequestError(f"{field} is not a valid duration") from error


def check_word(value: str, field: str) -> str:
    """A caller's own identifier: short and printable."""
    if len(value) > MAX_WORD or not value.isprintable():
        raise InvalidRequestError(f"{field} must be at most {MAX_WORD} printable characters")
    return value
