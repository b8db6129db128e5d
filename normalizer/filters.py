"""Builds the filter graph for a request: which filters run, in which order, on which output."""

from dataclasses import dataclass

from mesh.errors import InvalidRequestError
from normalizer.engine import SAMPLE_RATE, Filter, IsolatorInfo, Options, Request, Target

LOUDNESS_RANGE = (-70.0, -5.0)
"""What loudnorm accepts, in LUFS."""

OPUS_RATE = 48_000

_AFFTDN_DELAY = "0.025"
"""Seconds by which afftdn delays its input at any sample rate; removed again afterwards."""

VOICE = "mono|c0=c0"
VOICE_AND_BACKGROUND = "mono|c0=0.7*c0+0.3*c1"
"""Whisper transcribes speech over loud music better with some of the music left in: see ADR 12."""


@dataclass(frozen=True, slots=True)
class FilterGraph:
    """Filters by position: `shared` runs first, and its result feeds both output branches."""

    before_isolation: tuple[Filter, ...]
    """The input format of the voice isolator; empty without isolation."""
    isolation: tuple[Filter, ...]
    """The voice isolator, the only step outside ffmpeg; empty without isolation."""
    shared: tuple[Filter, ...]
    samples: tuple[Filter, ...]
    kept: tuple[Filter, ...]
    """Empty if no audio is kept, or if it is the samples themselves."""

    @property
    def filters(self) -> tuple[Filter, ...]:
        """All filters in the order they run."""
        return (*self.before_isolation, *self.isolation, *self.shared, *self.samples, *self.kept)


def filter_graph(request: Request, isolation: IsolatorInfo | None = None) -> FilterGraph:
    """The filters for a request; raises if an option is out of range."""
    options = request.options
    _check(options)
    target = Target.BOTH if request.keep_audio else Target.TRANSCRIBER
    highpass = Filter("highpass", {"f": "80"}, target, "apply_highpass_filter")
    isolator_input: tuple[Filter, ...] = ()
    isolator: tuple[Filter, ...] = ()
    if isolation is not None:
        isolator_input = (_mono(isolation.rate, target, "isolate_vocals"),)
        isolator = (Filter(isolation.name, isolation.settings, target, "isolate_vocals"),)
    shared = (highpass,) if options.apply_highpass_filter else ()
    if _keeps_the_samples(request):
        s16 = Filter("aformat", {"sample_fmts": "s16"}, Target.TRANSCRIBER)
        return FilterGraph((), (), (*shared, *_resampled_once()), (s16,), ())
    return FilterGraph(
        before_isolation=isolator_input,
        isolation=isolator,
        shared=shared,
        samples=(
            *_mixed(options, VOICE_AND_BACKGROUND, Target.TRANSCRIBER),
            _mono(SAMPLE_RATE, Target.TRANSCRIBER),
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
        raise InvalidRequestError(f"loudness_lufs must be between {low:g} and {high:g}")


def _keeps_the_samples(request: Request) -> bool:
    """Whether the kept audio has the same sound as the samples: then one conversion feeds both."""
    options = request.options
    changed = options.remove_noise or options.isolate_vocals or options.loudness_lufs is not None
    same_shape = options.convert_to_mono and options.set_sample_rate_16k
    return request.keep_audio and same_shape and not changed


def _resampled_once() -> tuple[Filter, ...]:
    rate = {"sample_rates": str(SAMPLE_RATE)}
    return (
        Filter("aformat", {"channel_layouts": "mono"}, Target.BOTH, "convert_to_mono"),
        Filter("aformat", rate, Target.BOTH, "set_sample_rate_16k"),
    )


def _mono(rate: int, target: Target, option: str = "") -> Filter:
    shape = {"sample_fmts": "s16", "sample_rates": str(rate), "channel_layouts": "mono"}
    return Filter("aformat", shape, target, option)


def _mixed(options: Options, mix: str, target: Target) -> tuple[Filter, ...]:
    """Mixes the two channels of the isolator: the voice (c0) and the original sound (c1)."""
    return (Filter("pan", {"args": mix}, target, "isolate_vocals"),) * options.isolate_vocals


def _kept(options: Options) -> tuple[Filter, ...]:
    def kept(name: str, option: str = "", **settings: str) -> Filter:
        return Filter(name, settings, Target.KEPT_AUDIO, option)

    # Channels first, so that later filters process fewer. Opus in WebM supports mono and stereo.
    if options.convert_to_mono:
        chain = [kept("aformat", "convert_to_mono", channel_layouts="mono")]
    else:
        chain = [kept("aformat", channel_layouts="stereo|mono")]
    # On the kept audio only: denoising makes Whisper's transcripts worse.
    if options.remove_noise:
        chain += [
            kept("apad", "remove_noise", pad_dur=_AFFTDN_DELAY),
            kept("afftdn", "remove_noise", nr="12", nf="-25"),
            kept("atrim", "remove_noise", start=_AFFTDN_DELAY),
            kept("asetpts", "remove_noise", expr=f"PTS-{_AFFTDN_DELAY}/TB"),
        ]
    if options.loudness_lufs is not None:
        target = f"{options.loudness_lufs:g}"
        chain.append(kept("loudnorm", "loudness_lufs", I=target, TP="-1.5", LRA="11"))
    if options.set_sample_rate_16k:
        chain.append(kept("aformat", "set_sample_rate_16k", sample_rates=str(SAMPLE_RATE)))
    else:
        chain.append(kept("aformat", sample_rates=str(OPUS_RATE)))
    return tuple(chain)
