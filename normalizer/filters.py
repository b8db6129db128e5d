"""Which filters a request leads to, in the order they run."""

from dataclasses import dataclass

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from normalizer.engine import SAMPLE_RATE, Filter, Options, Request, Target
from normalizer.isolation import Isolation

LOUDNESS_RANGE = (-70.0, -5.0)
"""What loudnorm accepts, in LUFS."""

OPUS_RATE = 48_000

_LATE = "0.025"
"""Seconds by which afftdn delays what it hears, whatever the rate; taken out again."""

VOICE = "mono|c0=c0"
VOICE_AND_ROOM = "mono|c0=0.7*c0+0.3*c1"
"""Whisper heard loud music better with some of it left in: ADR 12 has the figures and limits."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The graph: `shared` runs first, then its result goes down both branches."""

    heard: tuple[Filter, ...]
    """What comes before the isolation of the voice."""
    isolation: tuple[Filter, ...]
    """Empty, or the one step that is not ffmpeg's."""
    shared: tuple[Filter, ...]
    samples: tuple[Filter, ...]
    kept: tuple[Filter, ...]
    """Empty if no audio is kept."""

    @property
    def filters(self) -> tuple[Filter, ...]:
        """All of them in the order they run."""
        return (*self.heard, *self.isolation, *self.shared, *self.samples, *self.kept)


def plan(request: Request, isolation: Isolation | None = None) -> Plan:
    """Refuses what cannot be done, and says exactly what will be."""
    options = request.options
    _check(options)
    target = Target.BOTH if request.keep_audio else Target.TRANSCRIBER
    highpass = Filter("highpass", {"f": "80"}, target, "apply_highpass_filter")
    shape = {"sample_fmts": "s16", "sample_rates": str(SAMPLE_RATE), "channel_layouts": "mono"}
    return Plan(
        heard=() if isolation is None else (_heard(isolation, target),),
        isolation=() if isolation is None else (_isolated(isolation, target),),
        shared=(highpass,) if options.apply_highpass_filter else (),
        samples=(
            *_mixed(options, VOICE_AND_ROOM, Target.TRANSCRIBER),
            Filter("aformat", shape, Target.TRANSCRIBER),
        ),
        kept=(
            (*_mixed(options, VOICE, Target.KEPT_AUDIO), *_kept(options))
            if request.keep_audio
            else ()
        ),
    )


def _check(options: Options) -> None:
    low, high = LOUDNESS_RANGE
    if options.loudness_lufs is not None and not low <= options.loudness_lufs <= high:
        raise InvalidRequestError(
            f"loudness_lufs must be between {low:g} and {high:g}", reason=Reason.REQUEST_INVALID
        )


def _heard(isolation: Isolation, target: Target) -> Filter:
    shape = {
        "sample_fmts": "s16",
        "sample_rates": str(isolation.rate),
        "channel_layouts": "mono",
    }
    return Filter("aformat", shape, target, "isolate_vocals")


def _isolated(isolation: Isolation, target: Target) -> Filter:
    return Filter(isolation.name, isolation.settings, target, "isolate_vocals")


def _mixed(options: Options, mix: str, target: Target) -> tuple[Filter, ...]:
    """Out of the isolator come the voice (c0) and what was heard (c1)."""
    return (Filter("pan", {"args": mix}, target, "isolate_vocals"),) * options.isolate_vocals


def _kept(options: Options) -> tuple[Filter, ...]:
    def kept(name: str, option: str = "", **settings: str) -> Filter:
        return Filter(name, settings, Target.KEPT_AUDIO, option)

    # Channels first: what follows then works on fewer of them. Opus in WebM is at home with two.
    if options.convert_to_mono:
        chain = [kept("aformat", "convert_to_mono", channel_layouts="mono")]
    else:
        chain = [kept("aformat", channel_layouts="stereo|mono")]
    # On the kept audio only: Whisper hears worse after denoising.
    if options.remove_noise:
        chain += [
            kept("apad", "remove_noise", pad_dur=_LATE),
            kept("afftdn", "remove_noise", nr="12", nf="-25"),
            kept("atrim", "remove_noise", start=_LATE),
            kept("asetpts", "remove_noise", expr=f"PTS-{_LATE}/TB"),
        ]
    if options.loudness_lufs is not None:
        target = f"{options.loudness_lufs:g}"
        chain.append(kept("loudnorm", "loudness_lufs", I=target, TP="-1.5", LRA="11"))
    if options.set_sample_rate_16k:
        chain.append(kept("aformat", "set_sample_rate_16k", sample_rates=str(SAMPLE_RATE)))
    else:
        chain.append(kept("aformat", sample_rates=str(OPUS_RATE)))
    return tuple(chain)
