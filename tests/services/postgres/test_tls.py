"""A server with a certificate of its own: options of TLS go through the url."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres_server import Place, Server, running_server
from tidegate.errors import ConfigError
from tidegate.postgres.address import Address
from tidegate.postgres.connecting import connect


def certificate(folder: Path, name: str) -> Path:
    """A certificate of 127.0.0.1 that signs itself; its key lies beside it."""
    made = folder / f"{name}.crt"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-nodes", "-days", "2", "-out", str(made), "-keyout", str(made.with_suffix(".key"))]
    subprocess.run([*words, *names, *files], check=True, capture_output=True)
    return made


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Place, Path]]:
    own = certificate(tmp_path_factory.mktemp("tls"), "own")
    with running_server() as server:
        data = server.folder / "data"
        for suffix in (".crt", ".key"):
            copy = Path(shutil.copy(own.with_suffix(suffix), data / f"server{suffix}"))
            shutil.copystat(data / "PG_VERSION", copy)
            shutil.chown(copy, (data / "PG_VERSION").owner(), (data / "PG_VERSION").group())
        server.settings = {**server.settings, "ssl": "on"}
        server.restart()
        yield server, server.new_place(), own


def test_a_server_is_believed_by_its_certificate(secured: tuple[Server, Place, Path]) -> None:
    _, place, own = secured
    url = f"{place.url}?sslmode=verify-full&sslrootcert={own}"
    with connect(Address(url, place.schema), "test") as connection:
        asked = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        assert connection.execute(asked).fetchall() == [(True,)]


def test_a_server_with_another_certificate_is_refused(
    secured: tuple[Server, Place, Path], tmp_path: Path
) -> None:
    _, place, _ = secured
    url = f"{place.url}?sslmode=verify-full&sslrootcert={certificate(tmp_path, 'other')}"
    with pytest.raises(ConfigError, match="certificate verify failed") as refused:
        connect(Address(url, place.schema), "test")
    assert "pw-" not in repr(refused.value)
