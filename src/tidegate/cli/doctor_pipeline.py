"""What a pipeline uses of the world: folders, servers, packages.

pipeline -> [uses] -> gathering -> facts -> checks -> findings
"""

from __future__ import annotations

import glob
import os
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from tidegate.cli.doctor_facts import Place, Server
from tidegate.cli.doctor_places import ENOUGH_OUTPUT, ENOUGH_STATE, seen
from tidegate.pipeline import Pipeline, Target

_FILES: Final = ("files", "parquet", "json", "csv")
_PACKAGES: Final = {"delta": "deltalake", "kafka": "confluent-kafka", "postgres": "psycopg"}
_BROKERS: Final = ("bootstrap.servers", "kafka.bootstrap.servers", "bootstrap_servers", "servers")
_PAIR: Final = re.compile(r"(host|port)\s*=\s*'?([^\s']*)'?")
_KAFKA_PORT: Final = 9092
_POSTGRES_PORT: Final = 5432
_PATIENCE_S: Final = 3.0


class Address(NamedTuple):
    """Where a server listens; a host that begins with a slash is the folder of a socket."""

    host: str
    port: int

    def __str__(self) -> str:
        return self.host if self.host.startswith("/") else f"{self.host}:{self.port}"


class Part(NamedTuple):
    """A source, target or store, and what it is told."""

    what: str
    format: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """Everything outside of the process that a pipeline touches, as far as it says."""

    reads: tuple[tuple[str, str], ...] = ()
    """Paths, and what they are."""
    writes: tuple[tuple[str, str], ...] = ()
    state: str | None = None
    """The folder of the embedded store."""
    servers: tuple[tuple[str, Address], ...] = ()
    packages: Mapping[str, str]
    """By name, what for."""


def uses_of(pipeline: Pipeline) -> Uses:
    """What a pipeline uses; formats of Spark keep it to themselves."""
    sources = [Part(f"source {each.name}", each.format, each.options) for each in pipeline.sources]
    targets = [Part("target", pipeline.target.format, pipeline.target.options)]
    targets += [_channel(name, target) for name, target in pipeline.channels.items()]
    store = pipeline.state_store
    stores = [Part("state store", store.kind, {"url": store.url})]
    parts = [*sources, *targets, *stores]
    return Uses(
        reads=tuple(_paths(sources)),
        writes=tuple(_paths(targets)),
        state=store.url if store.kind == "sqlite" else None,
        servers=tuple((part.what, each) for part in parts for each in addresses_of(part)),
        packages={_PACKAGES[each.format]: f"the {each.what}" for each in parts if _packaged(each)},
    )


def _channel(name: str, target: Target) -> Part:
    return Part(f"target of {name} rows", target.format, target.options)


def _packaged(part: Part) -> bool:
    return part.format in _PACKAGES


def _paths(parts: list[Part]) -> Iterator[tuple[str, str]]:
    for what, name, options in parts:
        path = options.get("path")
        if name in (*_FILES, "delta") and isinstance(path, str | os.PathLike):
            text = str(path).removeprefix("file://")
            if "://" not in text:
                yield what, text


def addresses_of(part: Part) -> Iterator[Address]:
    """The servers of a part, as far as its options name them."""
    if part.format == "kafka":
        told = next((part.options[name] for name in _BROKERS if name in part.options), "")
        brokers = told if isinstance(told, list | tuple) else str(told).split(",")
        yield from (_address(str(each), _KAFKA_PORT) for each in brokers if str(each).strip())
    if part.format == "postgres":
        yield from _of_postgres(str(part.options.get("url") or ""))


def _of_postgres(url: str) -> Iterator[Address]:
    """The hosts of a URL, of which there may be several, or of `host=... port=...`."""
    if "://" in url:
        hosts = _hosts(urlsplit(url))
        yield from (_address(each, _POSTGRES_PORT) for each in hosts.split(",") if each)
    elif found := dict(_PAIR.findall(url)):
        port = found.get("port", "")
        yield Address(
            found.get("host") or "localhost", int(port) if port.isdigit() else _POSTGRES_PORT
        )


def _hosts(url: SplitResult) -> str:
    """What is behind the user and the password."""
    return url.netloc.rpartition("@")[2]


def _address(text: str, port: int) -> Address:
    """Host and port.

    >>> _address("db:6432", 5432), _address("[::1]", 5432)
    (Address(host='db', port=6432), Address(host='::1', port=5432))
    """
    host, colon, told = text.strip().rpartition(":")
    if not colon or not told.isdigit():
        host, told = text.strip(), str(port)
    return Address(host.strip("[]"), int(told))


def places_of(uses: Uses) -> Iterator[Place]:
    """The folders that are used, as they are now."""
    if uses.state is not None:
        yield seen("state folder", uses.state, enough=ENOUGH_STATE, times=True)
    for what, path in uses.reads:
        yield seen(what, _anchor(path), use="read")
    for what, path in uses.writes:
        yield seen(what, path, enough=ENOUGH_OUTPUT)
        if os.path.isdir(path):  # tasks stage beside it, which may be closed to us
            yield seen(f"{what}: staging", Path(path).absolute().parent)


def _anchor(path: str) -> str:
    """What has to exist: the path, or of a glob the folder that is named in front of it."""
    while not os.path.lexists(path) and glob.has_magic(path):
        path = os.path.dirname(path) or "."
    return path


def servers_of(uses: Uses) -> Iterator[Server]:
    """The servers that are used, and whether they take a connection now."""
    for what, address in uses.servers:
        yield Server(what=what, address=str(address), error=_why_unreachable(address))


def _why_unreachable(address: Address) -> str | None:
    if address.host.startswith("/"):
        return None if os.path.exists(address.host) else "no such folder"
    try:
        with socket.create_connection(address, timeout=_PATIENCE_S):
            return None
    except TimeoutError:
        return f"no answer in {_PATIENCE_S:g} s"
    except (OSError, UnicodeError) as error:
        return (getattr(error, "strerror", None) or str(error)).lower()
