"""What the settings of a login provider mean, and why they cannot work: for services and doctor."""

from collections.abc import Iterator
from typing import Protocol
from urllib.parse import urlsplit

from mesh.addresses import is_loopback
from mesh.identity import Role

EVERYONE = "*"
"""Stands for a group that all people of the provider are in."""
PREFIX = "ORCHESTRATOR_OIDC_"


class ProviderSettings(Protocol):
    """The settings of a login by a provider."""

    @property
    def login(self) -> bool: ...  # noqa: D102 # as in the settings
    @property
    def oidc_issuer(self) -> str: ...  # noqa: D102
    @property
    def oidc_client_id(self) -> str: ...  # noqa: D102
    @property
    def oidc_redirect(self) -> str: ...  # noqa: D102
    @property
    def oidc_scopes(self) -> str: ...  # noqa: D102
    @property
    def oidc_roles(self) -> str: ...  # noqa: D102


def faults(settings: ProviderSettings) -> Iterator[str]:
    """Why the login by the provider cannot work, or is not safe; nothing if there is none."""
    if not settings.oidc_issuer:
        return
    if not settings.login:
        yield f"{PREFIX}ISSUER needs ORCHESTRATOR_LOGIN=true"
    for name, url in (("ISSUER", settings.oidc_issuer), ("REDIRECT", settings.oidc_redirect)):
        if not is_safe_url(url):
            yield f"{PREFIX}{name}={url} is no https address (http only on loopback)"
    if not settings.oidc_client_id:
        yield f"{PREFIX}CLIENT_ID is missing"
    if "openid" not in settings.oidc_scopes.split():
        yield f"{PREFIX}SCOPES lacks openid"
    if why := _table_fault(settings.oidc_roles):
        yield f"{PREFIX}ROLES {why}"


def _table_fault(text: str) -> str:
    try:
        return "" if role_table(text) else "gives no one a role, so no one could log in"
    except ValueError as error:
        return f"cannot be read: {error}"


def is_safe_url(url: str) -> bool:
    """Whether this is an https address, or an http address on loopback, without login or query."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:  # an invalid port, or half a bracket
        return False
    safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
    clean = url.isascii() and url.isprintable() and " " not in url and "@" not in parts.netloc
    return bool(safe and clean and host and not parts.query and not parts.fragment)


def role_table(text: str) -> dict[str, Role]:
    """Parses pairs `group=role`; a group may have equals signs and commas in it, as in LDAP."""
    table: dict[str, Role] = {}
    for pair in filter(None, map(str.strip, text.split(";"))):
        group, _, word = pair.rpartition("=")
        role = Role.__members__.get(word.strip().upper(), Role.ANYONE)
        if not group.strip() or role is Role.ANYONE:
            raise ValueError(f"{pair!r} is no pair group=role with one of the roles")
        table[group.strip()] = role
    return table
