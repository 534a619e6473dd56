"""A real PostgreSQL for tests, benchmarks and faults: started, restarted and killed by them.

    with running_server() as server:
        place = server.new_place()          # a role that owns one schema, and nothing else
        StateStore(kind="postgres", url=place.url, schema=place.schema)

The server belongs to the process that started it and ends with it, however that ends.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql

from tests.ports import free_port

_DATABASE: Final = "tidegate"
_ELSEWHERE: Final = "elsewhere"
_PATIENCE_S: Final = 120.0
_SETTINGS: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "127.0.0.1",
    "max_connections": "40",
    "shared_buffers": "64MB",
    "timezone": "Pacific/Chatham",  # who mistakes local time for UTC is seen
    "log_timezone": "UTC",
    "max_wal_size": "1GB",
}
DURABLE: Final = {"fsync": "on", "full_page_writes": "on"}
"""Settings of a server that outlives a power cut, as in production."""

# Whoever started it holds the other end of its input: when that is closed, so is the server.
_UNTIL_LEFT_ALONE: Final = (
    '"$@" & server=$!; (read -r _; kill -QUIT $server 2>/dev/null) <&0 & wait $server'
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a test may keep something: a schema, and a role that owns only that."""

    url: str
    schema: str
    role: str
    database: str = _DATABASE


@dataclass
class Server:
    """A server of our own, on the loopback, in a folder of its own."""

    folder: Path
    password: str
    settings: Mapping[str, str]
    port: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        """The address for the superuser."""
        return _address(self.password, self.port)

    @property
    def pid(self) -> int:
        """The postmaster."""
        return int((self.folder / "data" / "postmaster.pid").read_text().split("\n")[0])

    def start(self) -> None:
        """Start it, on the port that it had; when this returns, it answers."""
        for _ in range(3):
            if self._tried():
                return
        raise RuntimeError(f"PostgreSQL did not start:\n{self.log()}")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it; SIGINT: connections are cut; SIGTERM: waits for them; SIGQUIT: as a crash."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError, FileNotFoundError):
            if process.poll() is None:
                os.kill(self.pid, how)
                process.wait(_PATIENCE_S)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(_PATIENCE_S)

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Cut all connections, and come back on the same port with what was committed."""
        self.stop(how)
        self.start()

    def log(self) -> str:
        """What the server said."""
        return (self.folder / "log").read_text(errors="replace")

    def run(
        self, query: str | sql.Composed, *values: Any, database: str = _DATABASE
    ) -> list[tuple[Any, ...]]:
        """Run a statement as the superuser, in a transaction of its own."""
        url = _address(self.password, self.port, database)
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(query, values or None)
            return cursor.fetchall() if cursor.description else []

    def terminate_backends(self, role: str, application: str = "%") -> int:
        """Cut the connections of a role, of applications whose names are like this; how many."""
        query = (
            "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity "
            "WHERE usename = %s AND application_name LIKE %s AND pid <> pg_backend_pid()"
        )
        return int(self.run(query, role, application)[0][0])

    def end_leases(self, role: str) -> int:
        """Cut the connections by which drivers of a role hold their pipelines; how many."""
        query = (
            "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity "
            "WHERE usename = %s AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')"
        )
        return int(self.run(query, role)[0][0])

    def new_place(self, schema: str | None = None, database: str = _DATABASE) -> Place:
        """A new schema and a role that owns it and can do nothing else, not even temporary tables.

        A schema of this name that is there goes, with all that is in it.
        """
        role, password = f"r{secrets.token_hex(6)}", f"pw-{secrets.token_hex(8)}"
        name = schema or f"s{secrets.token_hex(6)}"
        quoted = {"role": sql.Identifier(role), "schema": sql.Identifier(name)}
        for statement in (
            sql.SQL("CREATE ROLE {role} LOGIN PASSWORD {password}").format(
                password=sql.Literal(password), **quoted
            ),
            sql.SQL("DROP SCHEMA IF EXISTS {schema} CASCADE").format(**quoted),
            sql.SQL("CREATE SCHEMA {schema} AUTHORIZATION {role}").format(**quoted),
        ):
            self.run(statement, database=database)
        url = f"postgresql://{role}:{quote(password)}@127.0.0.1:{self.port}/{database}"
        return Place(url, name, role, database)

    def new_place_elsewhere(self) -> Place:
        """The same in another database: no transaction reaches both."""
        if not self.run("SELECT 1 FROM pg_database WHERE datname = %s", _ELSEWHERE):
            _make_database(self, _ELSEWHERE)
        return self.new_place(database=_ELSEWHERE)

    def drop(self, place: Place) -> None:
        """Delete a place, with all that is in it; connections of its role are cut."""
        self.terminate_backends(place.role)
        role = sql.Identifier(place.role)
        self.run(sql.SQL("DROP OWNED BY {} CASCADE").format(role), database=place.database)
        self.run(sql.SQL("DROP ROLE {}").format(role))

    def _tried(self) -> bool:
        port = self.port or free_port()
        options = {
            **_SETTINGS,
            "port": str(port),
            "unix_socket_directories": str(self.folder),
            **self.settings,
        }
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        server = [str(_program("postgres")), "-D", str(self.folder / "data"), *words]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_as_postgres(), "bash", "-c", _UNTIL_LEFT_ALONE, "server", *server],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C is for the tests
            )
        if self._answers(self._process, port):
            self.port = port
            return True
        self.stop(signal.SIGQUIT)
        return False

    def _answers(self, process: subprocess.Popen[bytes], port: int) -> bool:
        """Wait for it; False if it ends instead, as where somebody else has taken the port."""
        end = time.monotonic() + _PATIENCE_S
        while process.poll() is None and time.monotonic() < end:
            try:
                psycopg.connect(_address(self.password, port, "postgres")).close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return True
        return False


def _address(password: str, port: int, database: str = _DATABASE) -> str:
    return f"postgresql://postgres:{password}@127.0.0.1:{port}/{database}"


@contextmanager
def running_server(
    settings: Mapping[str, str] | None = None,
    *,
    wal: Path | None = None,
    within: Path | None = None,
) -> Iterator[Server]:
    """A new server, stopped and deleted in the end; all of it, or its log, is where it is told."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-postgres-", dir=within))
    server = Server(folder, secrets.token_hex(16), dict(settings or {}))
    try:
        _initialise(server, [] if wal is None else [f"--waldir={wal / 'wal'}"])
        server.start()
        _make_database(server)
        yield server
    finally:
        server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Disk:
    """A file system that can be filled, and harms nobody but who uses it."""

    folder: Path

    def fill(self, but: int = 0) -> None:
        """Take all that is free, but so many bytes."""
        there = os.statvfs(self.folder)
        self._ballast.write_bytes(bytes(max(0, there.f_bavail * there.f_frsize - but)))

    def free(self) -> None:
        """Give back what was taken."""
        self._ballast.unlink()

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"


@contextmanager
def small_disk(megabytes: int) -> Iterator[Disk | None]:
    """A disk of its own, in memory; None where this user cannot mount one."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-disk-"))
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m,mode=1777", "tidegate-disk", str(folder)]
    mounted = os.getuid() == 0 and not subprocess.run(["mount", *options], check=False).returncode
    try:
        yield Disk(folder) if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


@dataclass(frozen=True)
class FileLimit:
    """Files of a server that cannot grow beyond a size, which anybody may tell a server of theirs.

    To the server that is a disk that is full: a part of a block is written, and no more.
    """

    server: Server
    limit: int

    def fill(self, but: int = 0) -> None:
        """From now on."""
        self._limit(str(self.limit + but))

    def free(self) -> None:
        """No more."""
        self._limit("unlimited")

    def _limit(self, size: str) -> None:
        with suppress(FileNotFoundError, psutil.NoSuchProcess):  # it may have ended of it
            postmaster = psutil.Process(self.server.pid)
            for each in (postmaster, *postmaster.children()):
                command = ["prlimit", f"--pid={each.pid}", f"--fsize={size}:"]
                subprocess.run([*_as_postgres(), *command], check=False)


def _initialise(server: Server, more: Sequence[str]) -> None:
    password = server.folder / "password"
    password.write_text(server.password)
    if os.getuid() == 0:
        for path in (server.folder, password):
            shutil.chown(path, "postgres", "postgres")
    command = [
        *_as_postgres(),
        str(_program("initdb")),
        *("-D", str(server.folder / "data"), "-U", "postgres", "--no-sync"),
        *("--encoding=UTF8", "--locale=C.UTF-8"),
        *("--auth=scram-sha-256", f"--pwfile={password}"),
        *more,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=server.folder)
    if done.returncode:
        raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")


def _make_database(server: Server, name: str = _DATABASE) -> None:
    server.run(f"CREATE DATABASE {name}", database="postgres")
    server.run(f"REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC", database=name)
    server.run("REVOKE CREATE ON SCHEMA public FROM PUBLIC", database=name)


def _as_postgres() -> list[str]:
    """The server refuses to run as root."""
    return ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []


def _program(name: str) -> Path:
    if (found := shutil.which(name)) is not None:
        return Path(found).resolve()
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if not places:
        raise RuntimeError("PostgreSQL is missing: scripts/need-postgres installs it")
    return places[-1]
