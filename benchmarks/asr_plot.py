"""Progress against time, as a picture."""

from collections.abc import Mapping
from pathlib import Path

import click

from benchmarks.asr_heard import Heard


def plot_progress(heard: Mapping[str, Heard], media_seconds: float, path: Path) -> None:
    """A line for each contestant: media seconds with text against wall seconds."""
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise click.ClickException(
            "the plot needs matplotlib: python scripts/install --dependencies bench"
        ) from None
    canvas = Canvas(figsize=(8, 4.5), layout="constrained")
    axes = canvas.subplots()
    for name, run in heard.items():
        walls, media = zip(*run.progress, strict=True)
        axes.step(walls, media, where="post", label=name)
    axes.axhline(media_seconds, color="grey", linewidth=0.5)
    axes.set_xlabel("seconds since the first sample")
    axes.set_ylabel("seconds of the recording with text")
    axes.legend()
    canvas.savefig(path, dpi=150)
