"""What callers may choose: defaults filled in, impossible choices refused at the door."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from mesh.errors import InvalidRequestError
from mesh.languages import primary
from mesh.reasons import Reason
from orchestrator.captions import rules_in_force
from orchestrator.lanes import PRIORITIES
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

AUTO = "auto"
TRANSCRIBE = job_pb2.CAPTIONS_POLICY_TRANSCRIBE
PREFER_HUMAN = job_pb2.CAPTIONS_POLICY_PREFER_HUMAN
MAX_WORD = 128
MAX_PROMPT = 1000

DEFAULTS = job_pb2.JobOptions(
    language=AUTO,
    remove_noise=True,
    convert_to_mono=True,
    apply_highpass_filter=False,
    set_sample_rate_16k=True,
    isolate_vocals=False,
    word_timestamps=False,
    mixed_languages=False,
    captions_policy=TRANSCRIBE,
)


@dataclass(frozen=True, slots=True)
class Turn:
    """What decides when a job is taken up."""

    caller: str = ""
    priority: "job_pb2.Priority.ValueType" = job_pb2.PRIORITY_NORMAL


def resolve(asked: job_pb2.JobOptions) -> job_pb2.JobOptions:
    """The options in force; raises if one of them cannot be honoured."""
    options = job_pb2.JobOptions()
    options.CopyFrom(DEFAULTS)
    options.MergeFrom(asked)
    options.language = _language(options.language)
    _resolve_translation(options)
    _check_captions_policy(options)
    _check_ranges(options)
    rules_in_force("", options.cue_rules)
    return options


def _language(asked: str) -> str:
    return AUTO if asked in ("", AUTO) else primary(asked)


def _resolve_translation(options: job_pb2.JobOptions) -> None:
    """Which languages can be had is for the transcriber to say."""
    if options.language_out:
        options.language_out = primary(options.language_out)
    else:
        options.ClearField("language_out")


def _check_captions_policy(options: job_pb2.JobOptions) -> None:
    options.captions_policy = options.captions_policy or TRANSCRIBE
    if options.captions_policy not in (TRANSCRIBE, PREFER_HUMAN):
        raise InvalidRequestError(
            f"captions_policy {options.captions_policy} is none we know",
            reason=Reason.REQUEST_INVALID,
        )
    if options.captions_policy == PREFER_HUMAN and options.word_timestamps:
        raise InvalidRequestError(
            "captions a human made have no times for words: leave out either PREFER_HUMAN or "
            "word_timestamps",
            reason=Reason.REQUEST_INVALID,
        )


def check_turn(
    request: pb.CreateJobRequest | pb.UploadStart | collection_pb.CreateCollectionRequest,
) -> Turn:
    """Who asks, and how soon it shall be taken up."""
    priority = request.priority or job_pb2.PRIORITY_NORMAL
    if priority not in PRIORITIES:
        raise InvalidRequestError(
            f"priority {priority} is none we know", reason=Reason.REQUEST_INVALID
        )
    return Turn(check_word(request.caller, "caller"), priority)


def _check_ranges(options: job_pb2.JobOptions) -> None:
    if options.HasField("beam_size") and not 1 <= options.beam_size <= 10:
        raise InvalidRequestError("beam_size must be 1 to 10", reason=Reason.REQUEST_INVALID)
    if options.HasField("loudness_lufs") and not -70 <= options.loudness_lufs <= -5:
        raise InvalidRequestError("loudness_lufs must be -70 to -5", reason=Reason.REQUEST_INVALID)
    for name in ("initial_prompt", "hotwords"):
        if len(getattr(options, name)) > MAX_PROMPT:
            raise InvalidRequestError(
                f"{name} is over {MAX_PROMPT} characters", reason=Reason.REQUEST_INVALID
            )
    if options.mixed_languages and options.language != AUTO:
        raise InvalidRequestError(
            "mixed_languages means that the language is told anew again and again; do not name one",
            reason=Reason.REQUEST_INVALID,
        )


def check_url(url: str) -> str:
    """The address without surrounding space; raises if no downloader could ever fetch it."""
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


def check_word(value: str, field: str) -> str:
    """A caller's own identifier: short and printable."""
    if len(value) > MAX_WORD or not value.isprintable():
        raise InvalidRequestError(
            f"{field} must be at most {MAX_WORD} printable characters",
            reason=Reason.REQUEST_INVALID,
        )
    return value
