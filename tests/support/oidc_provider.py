"""A small OpenID Connect provider: authorization code flow with PKCE, and a knob for every lie."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from time import time
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

CLIENT_ID = "captions & co"
CLIENT_SECRET = "shared:secret%"  # noqa: S105 # of a provider in the test
Claims = dict[str, Any]


@dataclass(frozen=True)
class Key:
    """A signing key."""

    kid: str
    algorithm: str
    private: Any

    @property
    def jwk(self) -> dict[str, Any]:
        """Its public half, as it is published."""
        kinds: dict[str, Any] = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}
        public = kinds[self.algorithm].to_jwk(self.private.public_key(), as_dict=True)
        return {**public, "kid": self.kid, "use": "sig", "alg": self.algorithm}

    def sign(self, claims: Claims, **header: Any) -> str:
        return jwt.encode(
            claims, self.private, self.algorithm, {"kid": self.kid} | header, sort_headers=True
        )


def new_key(kid: str, algorithm: str = "RS256") -> Key:
    makers: dict[str, Callable[[], Any]] = {
        "RS256": lambda: rsa.generate_private_key(65537, 2048),
        "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
        "EdDSA": ed25519.Ed25519PrivateKey.generate,
    }
    return Key(kid, algorithm, makers[algorithm]())


@dataclass
class Provider:
    """One provider: what it vouches for, and how it lies."""

    issuer: str
    key: Key = field(default_factory=lambda: new_key("first"))
    published: list[dict[str, Any]] = field(default_factory=list)
    claims: Claims = field(default_factory=lambda: {"sub": "ana", "groups": ["writers"]})
    lies: Claims = field(default_factory=dict)
    """Claims instead of the right ones; None leaves one out."""
    forge: Callable[[Claims], str] | None = None
    """Signs instead of the key."""
    discovered: dict[str, Any] = field(default_factory=dict)
    """What the discovery document says instead; None leaves it out."""
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    """By path: the answer instead of the right one."""
    asks: bool = False
    """Show a page with a link, instead of sending the browser back at once."""
    requests: list[str] = field(default_factory=list)
    """Paths, in order."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    logouts: list[dict[str, str]] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.published = [self.key.jwk]

    def rotate(self, key: Key) -> None:
        """Signs with another key from now on, and publishes no other."""
        self.key, self.published = key, [key.jwk]

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize?flow=usual",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "end_session_endpoint": f"{self.issuer}/logout",
            "authorization_response_iss_parameter_supported": True,
        } | self.discovered
        return {name: value for name, value in found.items() if value is not None}

    def authorize(self, query: dict[str, str]) -> str:
        """Vouches for the person; the address that brings the code to the client."""
        assert query["client_id"] == CLIENT_ID
        assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")
        assert "openid" in query["scope"].split()
        with self.lock:
            code = f"code-{len(self.codes)}"
            self.codes[code] = query
        answer = {"code": code, "state": query["state"], "iss": self.issuer}
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def id_token(self, nonce: str) -> str:
        now = int(time())
        usual = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300}
        claims = {**usual, "nonce": nonce, **self.claims, **self.lies}
        claims = {name: value for name, value in claims.items() if value is not None}
        return self.forge(claims) if self.forge else self.key.sign(claims)

    def exchange(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """The answer of the token endpoint."""
        client, secret = form.get("client_id", ""), form.get("client_secret", "")
        if authorization.startswith("Basic "):
            pair = base64.b64decode(authorization.removeprefix("Basic ")).decode()
            client, secret = map(unquote_plus, pair.split(":"))
        if (client, secret) != (CLIENT_ID, CLIENT_SECRET):
            return 401, {"error": "invalid_client"}
        with self.lock:
            query = self.codes.get(form["code"])
            self.codes[form["code"]] = {}  # a code works once
        challenge = base64.urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest())
        expected = {
            "redirect_uri": form["redirect_uri"],
            "code_challenge": challenge.rstrip(b"=").decode(),
        }
        if not query or expected.items() - query.items():
            return 400, {"error": "invalid_grant"}
        token = self.id_token(query["nonce"])
        return 200, {"access_token": "opaque", "token_type": "Bearer", "id_token": token}


class Handler(BaseHTTPRequestHandler):
    """Serves the provider of its server."""

    server: "ProviderServer"

    def do_GET(self) -> None:
        provider, parts = self.server.provider, urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        provider.requests.append(parts.path)
        if parts.path in provider.answers:
            self._send(*provider.answers[parts.path])
        elif parts.path == "/.well-known/openid-configuration":
            self._json(200, provider.document())
        elif parts.path == "/keys":
            self._json(200, {"keys": provider.published})
        elif parts.path == "/authorize":
            back = provider.authorize(query)
            page = f'<!doctype html><title>provider</title><a href="{back}">Go on as ana</a>'
            redirect = (302, {"Location": back}, b"")
            self._send(*((200, {}, page.encode()) if provider.asks else redirect))
        elif parts.path == "/logout":
            provider.logouts.append(query)
            self._send(302, {"Location": query["post_logout_redirect_uri"]}, b"")
        else:
            self._send(404, {}, b"")

    def do_POST(self) -> None:
        provider, path = self.server.provider, self.path
        provider.requests.append(path)
        form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        if path in provider.answers:
            self._send(*provider.answers[path])
        else:
            self._json(*provider.exchange(form, self.headers.get("Authorization", "")))

    def _json(self, status: int, found: dict[str, Any]) -> None:
        self._send(status, {"Content-Type": "application/json"}, json.dumps(found).encode())

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in ({"Content-Type": "text/html"} | headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class ProviderServer(ThreadingHTTPServer):
    """Serves one provider."""

    daemon_threads = True
    provider: Provider

    def handle_error(self, request: object, client_address: object) -> None:
        """Quiet."""


def variables_for(provider: Provider, secret_file: Path) -> dict[str, str]:
    """The settings of a mesh whose users log in by the provider; writes the file of its secret."""
    secret_file.write_text(CLIENT_SECRET)
    secret_file.chmod(0o600)
    return {
        "ORCHESTRATOR_OIDC_ISSUER": provider.issuer,
        "ORCHESTRATOR_OIDC_NAME": "Staff & Co",
        "ORCHESTRATOR_OIDC_CLIENT_ID": CLIENT_ID,
        "ORCHESTRATOR_OIDC_CLIENT_SECRET_FILE": str(secret_file),
        "ORCHESTRATOR_OIDC_REDIRECT": "{http}",
        "ORCHESTRATOR_OIDC_ROLES": "writers=submitter",
    }


@contextmanager
def serving_provider(host: str = "localhost") -> Iterator[Provider]:
    """Serves until the block ends; `localhost` is another site than 127.0.0.1 to a browser."""
    server = ProviderServer(("127.0.0.1", 0), Handler)
    provider = server.provider = Provider(f"http://{host}:{server.server_address[1]}")
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
