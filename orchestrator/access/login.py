"""The login: who a token stands for, whether it is still valid, and what is done with tokens."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from structlog import get_logger

from mesh.errors import ForbiddenError, InvalidRequestError, MeshError, UnauthenticatedError
from mesh.identity import METHODS, PACKAGE, STRANGER, Caller, Role, current
from mesh.reasons import Reason
from mesh.tokens import digest_of, id_of, matches, new_token
from orchestrator.access.audit import about
from orchestrator.access.tokens import TokenStore
from orchestrator.queue.paging import MAX_PAGE_BYTES, Page, fitting, page_size
from ytcaption.v1 import token_pb2

log = get_logger(__name__)

CHECK_SECONDS = 1.0
"""How often changes of other replicas are read: a revoked token is refused after about this."""
NOTE_SECONDS = 30.0
"""How often last uses are stored."""
LINK_TIME = timedelta(minutes=10)
MAX_LIFETIME = timedelta(days=36_500)
MAX_SUBJECT = 128
MAX_CHILDREN = 100
"""Sessions and links of one token; the oldest makes room."""
FIRST_SUBJECT = "admin"
"""The subject of the token of the setting."""

ACCESS, SESSION, LINK = (
    token_pb2.TOKEN_KIND_ACCESS,
    token_pb2.TOKEN_KIND_SESSION,
    token_pb2.TOKEN_KIND_LINK,
)


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token with its secret, which is not stored."""

    secret: str
    token: token_pb2.Token


class Login:
    """Decides who may call what; remembers which calls run with which token."""

    def __init__(
        self, store: TokenStore, *, on: bool, first_token: str = "", session_time: timedelta
    ) -> None:
        self.on = on
        self._store = store
        self._first_id = id_of(first_token)
        self._first_digest = digest_of(first_token)
        self._session_time = session_time
        self._used: set[str] = set()
        self._open: dict[str, set[asyncio.Task[Any]]] = {}

    async def identify(self, token: str, method: str) -> Caller:
        """The caller with this token; raises without a valid one, unless anyone may call."""
        try:
            return await self._identify(token)
        except UnauthenticatedError:
            if METHODS.get(method.removeprefix(PACKAGE)) is Role.ANYONE:
                return STRANGER
            raise

    async def _identify(self, token: str) -> Caller:
        if not token:
            raise UnauthenticatedError(
                "this call needs a token: authorization: Bearer ytc_…", reason=Reason.TOKEN_REQUIRED
            )
        token_id = id_of(token)
        if token_id == self._first_id and matches(token, self._first_digest) and token_id:
            return Caller(Role.ADMIN, FIRST_SUBJECT, token_id)
        record = self._store.find(token_id)
        if record is None and token_id:
            await self._store.catch_up()  # another replica may have made it
            record = self._store.find(token_id)
        digest = record.digest if record else b""
        if not matches(token, digest) or record is None or record.token.kind == LINK:
            raise UnauthenticatedError("the token is not valid", reason=Reason.TOKEN_INVALID)
        self._check(record.token)
        self._used.add(token_id)
        return Caller(Role(record.token.role), record.token.subject, token_id)

    def _check(self, token: token_pb2.Token) -> None:
        """Raises if the token, or the one it was made with, has ended."""
        if token.HasField("revoke_time"):
            raise UnauthenticatedError("the token was revoked", reason=Reason.TOKEN_INVALID)
        if _expired(token):
            raise UnauthenticatedError("the token has expired", reason=Reason.TOKEN_EXPIRED)
        if token.parent_id and token.parent_id != self._first_id:
            parent = self._store.find(token.parent_id)
            if parent is None:
                raise UnauthenticatedError("the token was revoked", reason=Reason.TOKEN_INVALID)
            self._check(parent.token)

    @contextmanager
    def running(self, caller: Caller) -> Iterator[None]:
        """Ends the block's task with an error once the caller's token has ended."""
        task = asyncio.current_task()
        if task is None or not caller.token_id or caller.token_id == self._first_id:
            yield
            return
        tasks = self._open.setdefault(caller.token_id, set())
        tasks.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if task in tasks:  # the client's doing, or the server's
                raise
            task.uncancel()
            self._check_id(caller.token_id)
            raise
        finally:
            tasks.discard(task)
            if not tasks:
                self._open.pop(caller.token_id, None)

    def _check_id(self, token_id: str) -> None:
        record = self._store.find(token_id)
        if record is None:
            raise UnauthenticatedError("the session has ended", reason=Reason.TOKEN_INVALID)
        self._check(record.token)

    async def run(self) -> None:
        """Reads changes, ends the calls of tokens that have ended, and stores last uses."""
        if not self.on:
            return
        clock = asyncio.get_running_loop().time
        note_at = clock() + NOTE_SECONDS
        while True:
            try:
                await self._store.catch_up()
                self._end_calls()
                if clock() >= note_at:
                    await self._keep()
                    note_at = clock() + NOTE_SECONDS
            except MeshError as error:
                log.warning("tokens cannot be read", error=str(error))
            await asyncio.sleep(CHECK_SECONDS)

    def _end_calls(self) -> None:
        for token_id, tasks in list(self._open.items()):
            try:
                self._check_id(token_id)
            except UnauthenticatedError:
                for task in list(tasks):
                    tasks.discard(task)
                    task.cancel()

    async def _keep(self) -> None:
        """Stores last uses; removes sessions and links that are over."""
        used, self._used = self._used, set()
        for token_id in used:
            await self._store.use(token_id)
        for token in self._store.all():
            if token.kind != ACCESS and _expired(token):
                await self._store.remove(token.token_id)
        # By then a replica that was away, and did not read of it, knows that it has expired.
        await self._store.forget_removed((self._session_time + LINK_TIME).total_seconds())

    async def ready(self) -> None:
        """Returns once tokens are known; warns if there is none to begin with."""
        await self._store.catch_up()
        admins = (one for one in self._store.all() if int(one.role) == Role.ADMIN)
        if self.on and not self._first_id and not any(map(self._valid, admins)):
            log.warning("no token of an admin is valid; set ORCHESTRATOR_TOKEN_FILE")

    def _valid(self, token: token_pb2.Token) -> bool:
        with suppress(UnauthenticatedError):
            self._check(token)
            return True
        return False

    async def create(
        self, subject: str, role: int, lifetime: timedelta | None, note: str
    ) -> NewToken:
        """Makes a token for a program or a person."""
        if not subject.strip() or len(subject) > MAX_SUBJECT or not subject.isprintable():
            raise InvalidRequestError(f"subject must be 1 to {MAX_SUBJECT} printable characters")
        if not note.isprintable():
            raise InvalidRequestError("note must be printable")
        if role not in set(Role) - {Role.ANYONE}:
            raise InvalidRequestError("role must be one of the roles")
        if lifetime is not None and not timedelta(0) < lifetime <= MAX_LIFETIME:
            raise InvalidRequestError("lifetime must be positive and at most a hundred years")
        token = token_pb2.Token(subject=subject, kind=ACCESS, note=note)
        token.role = Role(role)  # type: ignore[assignment] # the same numbers
        made = await self._make(token, lifetime)
        log.info("token created", token_id=made.token.token_id, subject=subject, by=current())
        return made

    async def revoke(self, token_id: str) -> token_pb2.Token:
        """Ends a token, with the sessions that were opened with it."""
        about(token_id)
        revoked = await self._store.revoke(token_id)
        self._end_calls()
        log.info("token revoked", token_id=token_id, subject=revoked.subject, by=current())
        return revoked

    async def page(self, size: int, token: str, subject: str) -> Page[token_pb2.Token]:
        """Tokens of programs and persons, newest first."""
        size = page_size(size)
        if token and not id_of_page(token):
            raise InvalidRequestError("page_token is not one we gave out")
        await self._store.catch_up()
        listed = [
            one for one in self._store.all() if one.kind == ACCESS and subject in ("", one.subject)
        ]
        ids = [one.token_id for one in listed]
        begin = ids.index(token) + 1 if token in ids else 0
        found = listed[begin : begin + size]
        end = fitting((one.ByteSize() for one in found), MAX_PAGE_BYTES)
        more = len(listed) > begin + end
        return Page(found[:end], found[end - 1].token_id if more and found else "")

    async def create_link(self) -> str:
        """A code that opens one session of the caller, once."""
        return (await self._child(LINK, LINK_TIME)).secret

    async def open_link(self, code: str) -> NewToken:
        """The session of a link; the link is used up."""
        link = self._store.find(id_of(code))
        if link is None:
            await self._store.catch_up()
            link = self._store.find(id_of(code))
        matching = matches(code, link.digest if link else b"")
        if link is None or not matching or link.token.kind != LINK:
            raise UnauthenticatedError(
                "the link is not valid, or was used already", reason=Reason.TOKEN_INVALID
            )
        self._check(link.token)
        if not await self._store.remove(link.token.token_id):
            raise UnauthenticatedError("the link was used already", reason=Reason.TOKEN_INVALID)
        token = token_pb2.Token(subject=link.token.subject, role=link.token.role, kind=SESSION)
        token.parent_id = link.token.parent_id
        return await self._make(token, self._session_time)

    async def create_session(self) -> NewToken:
        """A session of the caller."""
        return await self._child(SESSION, self._session_time)

    @property
    def session_time(self) -> timedelta:
        """How long a session lasts."""
        return self._session_time

    async def end_sessions(self, *, everywhere: bool) -> int:
        """Ends the caller's session, or all of the caller's sessions."""
        caller = current()
        await self._store.catch_up()
        ended = 0
        for token in self._store.all():
            own = token.token_id == caller.token_id
            same = everywhere and token.subject == caller.subject
            if token.kind in (SESSION, LINK) and (own or same):
                ended += await self._store.remove(token.token_id)
        return ended

    async def _child(self, kind: "token_pb2.TokenKind.ValueType", time: timedelta) -> NewToken:
        """A token that stands for the caller, and ends with the caller's."""
        caller = current()
        if not caller.token_id:
            raise ForbiddenError("this mesh has no login", reason=Reason.ROLE_REQUIRED)
        own = self._store.find(caller.token_id)
        parent = (own.token.parent_id if own else "") or caller.token_id
        await self._make_room(parent)
        token = token_pb2.Token(subject=caller.subject, kind=kind, parent_id=parent)
        token.role = caller.role  # type: ignore[assignment] # the same numbers
        return await self._make(token, time)

    async def _make_room(self, parent: str) -> None:
        children = [one for one in self._store.all() if one.parent_id == parent]
        for token in children[MAX_CHILDREN - 1 :]:
            await self._store.remove(token.token_id)

    async def _make(self, token: token_pb2.Token, lifetime: timedelta | None) -> NewToken:
        secret = new_token()
        token.token_id = id_of(secret)
        about(token.token_id)
        if lifetime is not None:
            token.expire_time.FromDatetime(datetime.now(UTC) + lifetime)
        await self._store.add(token, digest_of(secret))
        return NewToken(secret, token)


def id_of_page(token: str) -> bool:
    """Whether a page token has the form of those we give out: the id of a token."""
    return bool(id_of(f"ytc_{token}_{'0' * 64}"))


def _expired(token: token_pb2.Token) -> bool:
    return token.HasField("expire_time") and token.expire_time.ToDatetime(UTC) <= datetime.now(UTC)
