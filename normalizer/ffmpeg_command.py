"""Finds ffmpeg and builds its command lines and environment."""

import os
import shutil
from typing import Any

import ffmpeg
import imageio_ffmpeg

from mesh.errors import UnsupportedError
from mesh.reasons import Reason
from normalizer.engine import SAMPLE_RATE, Filter, Options
from normalizer.filters import FilterGraph

KEPT_MEDIA_TYPE = "audio/webm"

PIPE = "pipe:0"

DEMUXERS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dts,eac3,flac,flv,matroska,mov,mp3,mpc,mpc8,"
    "mpeg,mpegts,mxf,ogg,rm,tta,voc,w64,wav,wv"
)
"""Media formats only. Playlists and concat lists would open other files and URLs."""

_INHERITED = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

_BLOCK_SAMPLES = SAMPLE_RATE // 20
"""Samples in one Matroska block: 50 ms.

ffmpeg hands every frame from thread to thread, so few large frames cost less than many small ones.
A block has one timestamp: sound after a gap may be off by a block, which normalizer.timeline
tolerates anyway.
"""

_PACKET_MS = 120
"""Milliseconds of sound in one Opus packet, the most there can be: six frames of 20 ms."""

_GLOBAL = ("-hide_banner", "-nostdin", "-nostats", "-loglevel", "level+info")


def locate(configured: str) -> str:
    """Path of the ffmpeg to run; "" means the one on PATH, else the one installed as a wheel."""
    found = shutil.which(configured or "ffmpeg")
    if found is None and not configured:
        try:
            found = str(imageio_ffmpeg.get_ffmpeg_exe())
        except RuntimeError:
            found = None
    if found is None:
        raise UnsupportedError(
            f"ffmpeg was not found{f' at {configured}' if configured else ''}",
            reason=Reason.TOOL_MISSING,
        )
    return found


def environment() -> dict[str, str]:
    """The environment of ffmpeg: only the variables it needs."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    # A static build crashes on every MPEG-TS if its iconv finds the modules of another libc.
    return {**inherited, "LC_ALL": "C", "GCONV_PATH": "/nonexistent"}


def before_isolation(source: str, graph: FilterGraph) -> list[str]:
    """Arguments of the ffmpeg that decodes the media for the voice isolator."""
    return [*_GLOBAL, *_matroska(_chain(media(source), graph.before_isolation)).get_args()]


def isolated(rate: int) -> Any:
    """The audio that the voice isolator writes."""
    return ffmpeg.input(PIPE, protocol_whitelist="pipe", f="s16le", ar=rate, ac=2)["a:0"]


def media(source: str) -> Any:
    """The audio of the media."""
    return ffmpeg.input(
        source,
        protocol_whitelist="pipe" if source == PIPE else "file",
        format_whitelist=DEMUXERS,
        threads=1,
        vn=None,
        sn=None,
        dn=None,
    )["a:0"]


def outputs(source: Any, graph: FilterGraph, options: Options, kept_fd: int | None) -> list[str]:
    """Arguments of the ffmpeg that writes samples to stdout, and kept audio to `kept_fd`."""
    audio = _chain(source, graph.shared)
    if kept_fd is None:
        written = _samples(audio, graph)
    else:
        halves = audio.filter_multi_output("asplit")
        written = ffmpeg.merge_outputs(
            _samples(halves[0], graph), _kept(halves[1], graph, options, kept_fd)
        )
    return [*_GLOBAL, *written.get_args()]


def _chain(stream: Any, filters: tuple[Filter, ...]) -> Any:
    for each in filters:
        stream = stream.filter(each.name, **each.settings)
    return stream


def _samples(audio: Any, graph: FilterGraph) -> Any:
    blocks = _chain(audio, graph.samples).filter("asetnsamples", n=_BLOCK_SAMPLES, p=0)
    return _matroska(blocks)


def _matroska(audio: Any) -> Any:
    # The Matroska container carries the timestamps of the samples: see normalizer.timeline.
    return ffmpeg.output(audio, "pipe:1", f="matroska", acodec="pcm_s16le", flush_packets=1)


def _kept(audio: Any, graph: FilterGraph, options: Options, kept_fd: int) -> Any:
    return ffmpeg.output(
        _chain(audio, graph.kept),
        f"pipe:{kept_fd}",
        f="webm",
        acodec="libopus",
        frame_duration=_PACKET_MS,
        flush_packets=1,
        **_encoder_settings(options),
    )


def _encoder_settings(options: Options) -> dict[str, Any]:
    """Bitrate and encoder effort: ADR 15 has the trade-off between bytes and processor time."""
    mono = options.convert_to_mono or options.isolate_vocals
    if options.set_sample_rate_16k:
        return {"audio_bitrate": "40k" if mono else "60k", "compression_level": 0}
    return {"audio_bitrate": "64k" if mono else "96k"}
