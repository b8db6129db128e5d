"""Everything an operator can change about the orchestrator."""

import base64
import binascii
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from mesh.errors import InvalidRequestError
from mesh.identity import Role
from mesh.login_provider import faults, role_table
from mesh.old_names import attempts_of, stage_addresses
from mesh.settings import ServiceSettings, default_work_dir, scaled
from mesh.type_names import listed_types
from orchestrator.worker.retry import Schedule


class Settings(ServiceSettings):
    """Read once, in __main__, from ORCHESTRATOR_* variables; then passed down."""

    model_config = SettingsConfigDict(
        env_prefix="ORCHESTRATOR_",
        frozen=True,
        extra="ignore",
        hide_input_in_errors=True,  # one of them is a secret
    )

    listen: str = "127.0.0.1:50051"
    """Address of the gRPC server."""

    metrics_listen: str = "127.0.0.1:9101"
    """Address of the Prometheus endpoint; empty turns it off."""

    login: bool = False
    """Refuse callers without a token; off, everyone who reaches the port may do everything."""

    token_file: str = ""
    """File with a token whose holder is admin: the first one, before others are made."""

    session_hours: float = Field(default=12, gt=0, le=10_000)
    """How long the login of a browser lasts."""

    oidc_issuer: str = ""
    """OpenID Connect provider whose users may log in to the page; empty: none."""

    oidc_name: str = ""
    """What the login form calls the provider; empty: its host name."""

    oidc_client_id: str = ""
    """What the provider calls this mesh."""

    oidc_client_secret_file: str = ""
    """File with the secret that the provider gave this mesh; empty: PKCE alone."""

    oidc_redirect: str = ""
    """Address of the page; the provider must allow it with /login/callback and /login behind it."""

    oidc_scopes: str = "openid profile email"
    """What the provider is asked for, separated by blanks."""

    oidc_subject_claim: str = "sub"
    """The claim of the ID token that is the subject, and so the owner of what a person makes."""

    oidc_roles_claim: str = "groups"
    """The claim with the person's groups; `a.b`: the claim b within a."""

    oidc_roles: str = ""
    """Which group has which role: pairs `group=role`, separated by semicolons; `*`: everyone. Of
    several the highest counts; without one the login is refused."""

    oidc_hosts: str = ""
    """Hosts besides the issuer's where the provider has its endpoints, separated by commas."""

    reflection: bool = True
    """Describe the services to clients that ask, such as grpcurl and buf curl."""

    nats_url: str = "nats://127.0.0.1:4222"
    """The broker, or several of one cluster, separated by commas."""

    nats_credentials: str = ""
    """File to log in with: an nkey seed, .creds, or a line user:password; empty: no login."""

    nats_seconds: float = Field(default=5, gt=0)
    """A broker that has not answered a request after this long counts as unavailable."""

    accept_seconds: float = Field(default=1.25, gt=0)
    """A job or collection is refused once the store has acknowledged nothing for this long."""

    prefix: str = Field(default="YTC", pattern="^[A-Z][A-Z0-9_]*$")
    """Prefix of every stream, bucket and subject on the broker."""

    replicas: int = Field(default=1, ge=1, le=5)
    """Copies of each stream and bucket: 1 on one machine, 3 on a cluster."""

    storage_bytes: int = Field(default=16 * 1024**3, ge=64 * 1024**2)
    """Storage reserved on the broker for all streams and buckets."""

    downloader: str = "127.0.0.1:50052"
    """Addresses of the downloader's replicas, separated by commas."""

    normalizer: str = "127.0.0.1:50053"
    """Addresses of the normalizer's replicas, separated by commas."""

    transcriber: str = "127.0.0.1:50054"
    """Addresses of the transcriber's replicas, separated by commas."""

    stages_token_file: str = ""
    """File with the token that calls to the stages carry; empty: they carry none."""

    concurrency: int = Field(default=2, ge=1)
    """Jobs this runner has under way at once."""

    max_attempts: int = Field(default=4, ge=1)
    """How often a job that fails for a passing reason is tried in all."""

    max_crashes: int = Field(default=20, ge=1)
    """How often a job may lose its runner before it counts as the cause."""

    max_deliveries: int = Field(default=100, ge=2)
    """A job delivered to runners this often is given up; retries and restarts need far fewer."""

    retry_seconds: float = Field(default=2, gt=0)
    """Wait before the second attempt; doubled each time, with jitter."""

    retry_limit_seconds: float = Field(default=300, gt=0)
    """Longest wait between two attempts."""

    circuit_failures: int = Field(default=5, ge=1)
    """A stage that does not answer this many calls in a row gets none for a while."""

    circuit_seconds: float = Field(default=1, gt=0)
    """How long at first; doubled up to half a minute while trial calls fail."""

    ack_wait_seconds: float = Field(default=15, gt=0)
    """A runner silent for this long loses its job to another."""

    cache_hours: float = Field(default=24, ge=0)
    """How long the captions of a finished job are copied to identical ones; 0 turns it off."""

    stall_seconds: float = Field(default=120, gt=0)
    """An attempt in which no stage moves for this long has failed."""

    download_stall_seconds: float = Field(default=0, ge=0)
    """The same where the download is what is waited for; 0: as above."""

    normalization_stall_seconds: float = Field(default=0, ge=0)
    """The same where normalization is what is waited for; 0: as above."""

    transcription_stall_seconds: float = Field(default=0, ge=0)
    """The same where transcription is what is waited for; 0: as above."""

    live_idle_seconds: float = Field(default=60, gt=0)
    """A caller of TranscribeStream that sends next to nothing for this long is refused."""

    job_seconds: float = Field(default=12 * 3600, gt=0)
    """Longest an attempt may take."""

    max_upload_bytes: int = Field(default=8 * 1024**3, gt=0)
    """Largest file a caller may send."""

    upload_idle_seconds: float = Field(default=60, gt=0)
    """An upload that brings less than 4 KiB in this time is refused."""

    work_dir: Path = Field(default_factory=partial(default_work_dir, "orchestrator"))
    """For uploads and kept audio on their way to the store."""

    log_dir: str = ""
    """Folder of log files that a supervisor moves aside; cleanups may remove these. Empty: none."""

    min_free_bytes: int = Field(default=256 * 1024**2, ge=0)
    """No job is accepted or begun while the disk of the working folder has less left."""

    retention_hours: float = Field(default=720, ge=0, le=10_000_000)
    """Jobs and collections that ended longer ago are removed with every trace; 0: never."""

    trim_percent: float = Field(default=90, gt=0, le=100)
    """A store fuller than this loses ended jobs' files, then jobs and collections; oldest first."""

    full_percent: float = Field(default=95, gt=0, le=100)
    """No job is accepted while a store is fuller than this."""

    max_in_flight: int = Field(default=8, ge=1, le=1000)
    """Members a collection has under way at once, unless its request says otherwise."""

    max_members: int = Field(default=5000, ge=1, le=20_000)
    """Most members of a collection; a request may ask for fewer."""

    fan_in_seconds: float = Field(default=0, ge=0, le=30 * 86_400)
    """Members that have not ended this long after their collection was accepted are timed out,
    unless its request says otherwise; 0: never."""

    executor_margin_seconds: float = Field(default=10, ge=0)
    """Executors of a whole collection begin this long before its time is up, with what is there;
    at most a quarter of its time."""

    max_task_bytes: int = Field(default=1024**3, gt=0)
    """Bytes one call of a collector or an executor may bring, over all its attempts."""

    max_collections: int = Field(default=200, ge=1)
    """Collections this orchestrator keeps going at once."""

    collectors: str = ""
    """Collectors that are services: `type=address,address;type=queue`. `queue` in place of the
    addresses: programs that take JSON messages from the queue of that type."""

    executors: str = ""
    """Executors, in the same form."""

    types_token_file: str = ""
    """File with the token that calls to collectors and executors carry; empty: they carry none."""

    task_max_in_flight: int = Field(default=4, ge=1, le=1000)
    """Tasks of one type under way at once over all orchestrators, where its registration names no
    other number."""

    task_seconds: float = Field(default=3600.0, gt=0, le=86_400)
    """Longest an attempt of a task may take, where the registration of its type names no other."""

    quota_queued_jobs: int = Field(default=0, ge=0)
    """Jobs of one owner that may wait; one more is refused. 0 for this and the others: no limit."""

    quota_running_jobs: int = Field(default=0, ge=0)
    """Jobs of one owner that run at once; one more waits."""

    quota_collections: int = Field(default=0, ge=0)
    """Collections of one owner that are not settled."""

    quota_live_streams: int = Field(default=0, ge=0)
    """Live streams one owner may have open."""

    quota_uploads: int = Field(default=0, ge=0)
    """Uploads of one owner that are received at once."""

    quota_stored_bytes: int = Field(default=0, ge=0)
    """Bytes of uploads and kept audio one owner may have stored."""

    quota_audio_hours: float = Field(default=0, ge=0)
    """Hours of audio that are transcribed for one owner within 24 hours."""

    quota_webhooks: int = Field(default=0, ge=0)
    """Webhooks of one owner that are promised and not delivered."""

    webhook_secret: SecretStr = SecretStr("")
    """Signs webhooks: whsec_ and base64 of 24 to 64 bytes. Empty: webhooks are off.
    Several separated by blanks sign each webhook several times, while receivers change over."""

    webhook_private: bool = False
    """Let webhooks go to this machine and its private networks. Only for trusted callers."""

    webhook_seconds: float = Field(default=15, gt=0, le=300)
    """A receiver that has not answered after this long has not taken the webhook."""

    webhook_at_once: int = Field(default=32, ge=1, le=1000)
    """Webhooks this orchestrator sends at once: at most a quarter to one host, a third for one
    owner, half to one network."""

    webhook_backoff: str = "5,30,120,600,3600,21600,86400"
    """Waits before the second and every further attempt, separated by commas; after the last of
    them a webhook is given up."""

    @property
    def knows_callers(self) -> bool:
        """By their tokens, or by the names in their certificates."""
        return self.login or bool(self.tls.names)

    @property
    def oidc_role_table(self) -> dict[str, Role]:
        """The role of each group."""
        return role_table(self.oidc_roles)

    def check(self) -> None:
        """Also refuses a login by a provider that is not safe, and lists of types that are none."""
        super().check()
        for fault in faults(self):
            raise InvalidRequestError(fault)
        for name in ("collectors", "executors"):
            try:
                listed_types(getattr(self, name))
            except InvalidRequestError as error:
                raise InvalidRequestError(f"ORCHESTRATOR_{name.upper()}: {error}") from error

    @field_validator("oidc_roles")
    @classmethod
    def _readable_roles(cls, given: str) -> str:
        role_table(given)
        return given

    @field_validator("webhook_secret")
    @classmethod
    def _readable_secret(cls, given: SecretStr) -> SecretStr:
        webhook_keys(given.get_secret_value())
        return given

    @field_validator("webhook_backoff")
    @classmethod
    def _readable_backoff(cls, given: str) -> str:
        Schedule.parse(given)
        return given

    @classmethod
    def from_old_names(cls, environ: Mapping[str, str]) -> dict[str, Any]:
        """Maps variables of the earlier system; its stage timeouts become stall times here."""
        found: dict[str, Any] = {
            name: environ[old] for old, name in OLD_NAMES.items() if old in environ
        }
        found |= stage_addresses(environ)
        if "HTTP_MAX_RETRIES" in environ:
            found["max_attempts"] = attempts_of(environ["HTTP_MAX_RETRIES"])
        if "JOB_TIMEOUT_MINUTES" in environ:
            found["job_seconds"] = scaled(environ["JOB_TIMEOUT_MINUTES"], 60)
        return found


OLD_NAMES = {
    "CACHE_TTL_HOURS": "cache_hours",
    "WORKERS": "concurrency",
    "RETRY_BACKOFF_BASE_SECONDS": "retry_seconds",
    "VIDEO_DOWNLOADER_TIMEOUT": "download_stall_seconds",
    "AUDIO_NORMALIZATION_TIMEOUT": "normalization_stall_seconds",
    "AUDIO_TRANSCRIBER_TIMEOUT": "transcription_stall_seconds",
}

KEY_PREFIX = "whsec_"
MIN_KEY_BYTES, MAX_KEY_BYTES = 24, 64
"""Bytes of a key, as the scheme wants them."""


def webhook_keys(secret: str) -> list[bytes]:
    """Decodes the keys of a setting; the ValueError for a bad one never shows it."""
    return [_webhook_key(word) for word in secret.split()]


def _webhook_key(word: str) -> bytes:
    text = word.removeprefix(KEY_PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise ValueError(f"a webhook secret is {KEY_PREFIX} and base64") from None
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise ValueError(f"a webhook key has {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes")
    return key
