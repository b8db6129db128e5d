"""Everything an operator can change about the transcriber."""

from pathlib import Path
from typing import Literal

from platformdirs import user_cache_path
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from mesh.settings import StageSettings


class Settings(StageSettings):
    """Read once, in __main__, from TRANSCRIBER_* variables; then passed down."""

    model_config = SettingsConfigDict(env_prefix="TRANSCRIBER_", frozen=True, extra="ignore")

    listen: str = "127.0.0.1:50054"
    """Address of the gRPC server."""

    metrics_listen: str = "127.0.0.1:9104"
    """Address of the Prometheus endpoint; empty turns it off."""

    model: str = "auto"
    """A folder, a model name (fetched from the hub if it is not here), or auto: the best model
    already on this machine, else "base" from the hub. `name@commit` (40 digits) pins a model of the
    hub; without a commit its newest is taken when it is fetched, and logged."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the model runs."""

    compute_type: str = "auto"
    """How it computes, as CTranslate2 spells it; auto: on a processor what was measured as fastest
    there (`python -m transcriber.model.backends`), else int8; float16 on a GPU."""

    measure_backends: bool = False
    """Whether the first start on a machine measures compute types and backends, for about fifteen
    seconds, before it serves; only for compute_type auto on a processor. `ytcaption up` and the
    container set it."""

    beam_size: int = Field(default=5, ge=1, le=10)
    """Width of the beam search unless a job names another; 1 is faster, 5 mishears less."""

    cpu_threads: int = Field(default=0, ge=0)
    """Threads of all workers together; 0: as many as this process may use, at most 8."""

    workers: int = Field(default=0, ge=0, le=16)
    """Threads that decode at once and share the weights; 0: one for each processor thread, at most
    4; one if the model is large or on a GPU."""

    translation_model: str = ""
    """Folder of a CTranslate2 translation model with its vocabulary (NLLB, M2M100, Opus-MT); empty:
    speech is translated into English only, by the speech model itself."""

    translation_languages: str = ""
    """What it translates, such as "de,fr>en"; only for models whose vocabulary does not say."""

    idle_unload_seconds: float = Field(default=900, ge=0)
    """The model is freed after so long without speech, and loaded again for the next; 0: never."""

    cache_dir: Path = Field(default_factory=lambda: user_cache_path("ytcaption"))
    """Where weights that come in pieces are put together."""

    max_recordings: int = Field(default=4, ge=1)
    """Concurrent recordings whose audio flows; the rest wait under gRPC flow control."""

    max_live_streams: int = Field(default=4, ge=1)
    """The same for live streams, which have slots of their own."""
