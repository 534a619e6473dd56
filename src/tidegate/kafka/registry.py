"""A schema registry, as Confluent's: schemas have numbers, and values begin with one.

    address -> [fetch_schema | schema_by_id | register] -> a schema, or its number

The user and the password in the address go into a header, and are shown nowhere. `at` is where in
the configuration the address is.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import struct
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from tidegate.errors import BrokerUnavailable, ConfigError, Problem
from tidegate.pipeline.masking import masked_text

_AT: Final = "options"
_HOST: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\])(:\d{1,5})?(/[!-~]*)?")
_PAUSES_S: Final = (0.2, 0.8)
"""How long is waited before each other attempt."""
_TIMEOUT_S: Final = 10
_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_MAGIC: Final = 0
_OF_THE_SCHEMA: Final = (409, 422)
"""It does not go with its predecessors, or is none: the registry says why."""
_UNKNOWN_FOR_S: Final = 60.0
"""How long an id that the registry does not know is not asked for again, within a reading."""

_MOST_UNKNOWN: Final = 10_000
"""So many of them are remembered."""
_HIGHEST: Final = 2**31 - 1
"""No schema has a higher number."""

PREFIX_BYTES: Final = 5
"""So many bytes stand before a value."""

_known: dict[tuple[str, int], str] = {}
_unknown: dict[tuple[str, int], float] = {}


def prefix_of(number: int) -> bytes:
    """What a value begins with.

    >>> prefix_of(7).hex()
    '0000000007'
    """
    return struct.pack(">bI", _MAGIC, number)


def number_in(value: bytes) -> int | None:
    """The number of the schema that a value begins with; None if it does not."""
    if len(value) < PREFIX_BYTES or value[0] != _MAGIC:
        return None
    number = int.from_bytes(value[1:PREFIX_BYTES], "big")
    return number if number <= _HIGHEST else None


def address_flaw(registry: str) -> tuple[str, str] | None:
    """What is wrong with an address, and what to do; None if it can be asked.

    It is not shown: nobody knows where in a wrong one the password ends.
    """
    scheme, _, host = _without_user(registry).partition("://")
    if scheme not in ("http", "https") or not host:
        return "an address without http:// and a host", ""
    if not _HOST.fullmatch(host):
        hint = "percent-encode what is odd in the user or the password: / is %2F, @ is %40"
        return "an address whose host or port cannot be read", hint
    return None


@cache
def register(registry: str, subject: str, schema: str, at: str = _AT) -> int:
    """The number of a schema, made known under `subject`. Raises as `fetch_schema` does.

    It never changes, so this process asks once.
    """
    body = json.dumps({"schema": schema}).encode()
    asked = _Registry(registry, at)
    found = asked.answer(f"/subjects/{quote(subject, safe='')}/versions", body)
    number = (found or {}).get("id")
    if not isinstance(number, int):
        expected = "a schema registry there"
        raise _wrong(at, f"no number in the answer of {asked.place}", expected)
    return number


def fetch_schema(registry: str, subject: str, at: str = _AT) -> str:
    """The newest schema of a subject, as JSON.

    Raises `BrokerUnavailable` if the registry is not there, and `ConfigError` for what it refuses.
    """
    asked = _Registry(registry, at)
    found = asked.schema(f"/subjects/{quote(subject, safe='')}/versions/latest")
    if found is None:
        hint = "give the schema as a file by `schema`, or register one for the topic"
        known = f"a subject that the registry at {asked.place} has"
        raise _wrong(at, f"no schema of subject {subject!r}", known, hint)
    if (schema := asked.avro(found)) is None:
        raise _wrong(at, f"{subject!r} of type {found['schemaType']}", "Avro")
    return schema


def schema_by_id(registry: str, number: int, at: str = _AT) -> str | None:
    """The schema of this number, as JSON; None if the registry has none, or one that is not Avro.

    It never changes, so this process asks once. Raises as `fetch_schema` does.
    """
    key = (registry, number)
    if key not in _known and not time.monotonic() < _unknown.get(key, 0.0):
        asked = _Registry(registry, at)
        found = asked.schema(f"/schemas/ids/{number}", unknown=(400, 404))
        schema = None if found is None else asked.avro(found)
        if schema is None:
            if len(_unknown) >= _MOST_UNKNOWN:
                _unknown.clear()
            _unknown[key] = time.monotonic() + _UNKNOWN_FOR_S
        else:
            _known[key] = schema
    return _known.get(key)


def forget_unknown() -> None:
    """Let ids that were not known be asked for again: a reading begins.

    A task that runs again may do so in another process, which has asked before an id was
    registered; that must not last. If it was registered between the two runs they differ, and the
    epoch fails: see `InconsistentEpoch`.
    """
    _unknown.clear()


@dataclass(frozen=True, slots=True)
class _Registry:
    """The one at an address; `unknown` are the codes by which it says that it has no such thing."""

    address: str
    at: str

    @property
    def place(self) -> str:
        """The address without its user, for requests and for people."""
        url = urlsplit(_without_user(self.address))
        return f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}"

    def avro(self, found: Mapping[str, Any]) -> str | None:
        """The schema of an answer; with others that it needs, it is the last of a list."""
        if found.get("schemaType", "AVRO") != "AVRO":
            return None
        needed = [*self._needed(found, set())]
        return (
            json.dumps([*needed, json.loads(found["schema"])]) if needed else str(found["schema"])
        )

    def _needed(self, found: Mapping[str, Any], seen: set[str]) -> Iterator[Any]:
        """The schemas that a schema refers to, each behind those that it needs itself."""
        for each in found.get("references") or ():
            path = f"/subjects/{quote(each['subject'], safe='')}/versions/{each['version']}"
            if path not in seen and (referred := self.schema(path)) is not None:
                seen.add(path)
                yield from self._needed(referred, seen)
                yield json.loads(referred["schema"])

    def schema(self, path: str, unknown: Collection[int] = (404,)) -> dict[str, Any] | None:
        """The answer, which must have a schema in it."""
        found = self.answer(path, unknown=unknown)
        if found is not None and not isinstance(found.get("schema"), str):
            expected = "a schema registry there"
            raise _wrong(self.at, f"no schema in the answer of {self.place}", expected)
        return found

    def answer(
        self, path: str, body: bytes | None = None, unknown: Collection[int] = (404,)
    ) -> dict[str, Any] | None:
        """What the registry answers; None if it says that it has no such thing."""
        request = self._request(path, body)
        for pause in (*_PAUSES_S, None):
            try:
                return self._answered(request, unknown)
            except (OSError, http.client.HTTPException) as error:
                reason = _reason(error)
            if pause is not None:
                time.sleep(pause)
        raise BrokerUnavailable(
            f"the schema registry at {self.place} does not answer: {reason}\n"
            "  hint: see that it runs, and that it can be reached from here"
        )

    def _request(self, path: str, body: bytes | None) -> Request:
        """With the user of the address in its header, where nothing shows it."""
        if (flaw := address_flaw(self.address)) is not None:
            found, hint = flaw
            raise _wrong(self.at, found, "one like http://host:8081", hint)
        headers = {"Accept": f"{_TYPE}, application/json", "Content-Type": _TYPE}
        if (user := _user(self.address)) is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        return Request(f"{self.place}{path}", body, headers)

    def _answered(self, request: Request, unknown: Collection[int]) -> dict[str, Any] | None:
        try:
            with _OPENER.open(request, timeout=_TIMEOUT_S) as answer:
                return _object(answer.read())
        except HTTPError as error:
            with error:
                said = _object(error.read())
            if error.code in unknown and "error_code" in said:
                return None
            if error.code in (408, 429) or error.code >= 500:
                raise OSError(f"HTTP {error.code} {error.reason}") from None
            raise self._refusal(error, str(said.get("message", ""))) from None

    def _refusal(self, error: HTTPError, said: str) -> ConfigError:
        if error.code in _OF_THE_SCHEMA:
            found = f"HTTP {error.code} {masked_text(said) or error.reason} from {self.place}"
            hint = "use another topic, or another compatibility for the subject"
            return _wrong(self.at, found, "a subject that takes the schema of these rows", hint)
        found = f"HTTP {error.code} {error.reason} from {self.place}"
        if error.code in (401, 403):
            hint = "write them into the address: https://user:${PASSWORD}@host"
            expected = "a user and a password that the schema registry accepts"
            return _wrong(self.at, found, expected, hint)
        return _wrong(self.at, found, "the address of a schema registry")


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _wrong(at: str, found: str, expected: str, hint: str = "") -> ConfigError:
    return ConfigError([Problem(f"{at}.schema_registry", found, expected, hint)])


def _without_user(registry: str) -> str:
    """Whatever stands before the last @ is not the host: a password may hold anything."""
    scheme, mark, rest = registry.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


def _user(registry: str) -> str | None:
    """The user and the password, as they are meant; None if the address has none."""
    written, mark, _ = registry.partition("://")[2].rpartition("@")
    name, _, password = written.partition(":")
    return f"{unquote(name)}:{unquote(password)}" if mark else None


def _reason(error: Exception) -> str:
    """Why there was no answer; what http.client has against an address would show the address."""
    if isinstance(error, http.client.InvalidURL):
        return "its address cannot be asked"
    found = getattr(error, "reason", None) or error
    return str(getattr(found, "strerror", None) or found or type(found).__name__)


class _NeverElsewhere(HTTPRedirectHandler):
    """Redirections are refused: a password must not go where it was not meant to."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        """No other request is made."""


_OPENER: Final = build_opener(_NeverElsewhere())
