"""Two drivers of one pipeline, in processes of their own: killed, paused, woken again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.postgres_server import Place, Server
from tidegate.errors import PipelineInUse
from tidegate.postgres.address import Address
from tidegate.state import DatabaseStore, postgres_lease
from tidegate.state.postgres import postgres_catalog, postgres_store
from tidegate.testing.epochs import manifest

DRIVER = """
import sys
from tidegate.postgres.address import Address
from tidegate.state import postgres_lease
from tidegate.state.postgres import postgres_store
from tidegate.testing.epochs import manifest

postgres_lease.BEAT_S = 0.05
store = postgres_store(Address(sys.argv[1], sys.argv[2]), "clicks")
token = store.open().token
print("open", flush=True)
for line in sys.stdin:
    try:
        store.commit(token, manifest(int(line)))
        print("committed", flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""


@dataclass
class Driver:
    """A driver that does as it is told, epoch by epoch."""

    process: subprocess.Popen[str]

    def begin(self, epoch: int) -> None:
        """Let it commit an epoch."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{epoch}\n")
        self.process.stdin.flush()

    def said(self) -> str:
        """Its next word."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            os.waitpid(self.process.pid, os.WUNTRACED)


def started(place: Place, **environment: str) -> Driver:
    return Driver(
        subprocess.Popen(
            [sys.executable, "-c", DRIVER, place.url, place.schema],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
    )


@pytest.fixture
def driver(postgres: Place) -> Iterator[Driver]:
    driver = started(postgres)
    assert driver.said() == "open"
    yield driver
    driver.process.kill()
    driver.process.communicate()


@pytest.fixture
def address(postgres: Place) -> Address:
    return Address(postgres.url, postgres.schema)


@pytest.fixture
def store(address: Address) -> Iterator[DatabaseStore]:
    store = postgres_store(address, "clicks")
    yield store
    store.close()


def test_a_second_driver_is_told_who_runs_the_pipeline(
    driver: Driver, store: DatabaseStore, address: Address
) -> None:
    words = f"process {driver.process.pid} on {socket.gethostname()} since 20"
    with pytest.raises(PipelineInUse, match=f"pipeline 'clicks' is run by {words}"):
        store.open()
    holder = postgres_catalog(address).holder("clicks")
    assert holder is not None
    assert holder.startswith(words)
    driver.begin(1)
    assert driver.said() == "committed"


def test_a_driver_that_is_killed_frees_its_pipeline_at_once(
    driver: Driver, store: DatabaseStore, address: Address
) -> None:
    driver.begin(1)
    assert driver.said() == "committed"
    driver.signal(signal.SIGKILL)
    driver.process.wait()
    end = time.monotonic() + 5
    while True:
        try:
            found = store.open()
        except PipelineInUse:  # the server is still about to notice
            assert time.monotonic() < end
        else:
            break
    assert (found.epoch, postgres_catalog(address).holder("clicks") is None) == (
        1,
        False,
    )


def test_a_driver_that_is_paused_is_taken_over_when_it_has_been_silent(
    driver: Driver, store: DatabaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.begin(1)
    assert driver.said() == "committed"
    driver.signal(signal.SIGSTOP)
    with pytest.raises(PipelineInUse):
        store.open()
    monkeypatch.setattr(postgres_lease, "SILENT_S", 0.3)
    found = _open_when_silent(store)
    assert found == 1
    driver.begin(2)
    driver.signal(signal.SIGCONT)
    assert driver.said() == "LostLease"
    assert store.open().epoch == 1


def _open_when_silent(store: DatabaseStore) -> int:
    end = time.monotonic() + 10
    while True:
        try:
            return store.open().epoch
        except PipelineInUse:
            assert time.monotonic() < end


def test_a_driver_that_is_paused_in_a_commit_is_taken_over(
    postgres: Place,
    postgres_server: Server,
    store: DatabaseStore,
    tmp_path: Path,
) -> None:
    """It holds the row of the pipeline in its sleep: its transaction is ended, not waited for."""
    held = tmp_path / "held"
    driver = started(postgres, TIDEGATE_FAULT="committing", TIDEGATE_FAULT_FILE=str(held))
    try:
        assert driver.said() == "open"
        driver.begin(1)
        end = time.monotonic() + 10
        while not held.exists():
            assert time.monotonic() < end
        driver.signal(signal.SIGSTOP)
        assert postgres_server.end_leases(postgres.role) == 1
        began = time.monotonic()
        found = store.open()
        assert (found.epoch, time.monotonic() - began < 5) == (0, True)
        store.commit(found.token, manifest(1))
        held.unlink()
        driver.signal(signal.SIGCONT)
        assert driver.said() == "StoreUnavailable"
        driver.begin(2)
        assert driver.said() in ("StoreUnavailable", "LostLease")
        assert store.open().last == manifest(1)
    finally:
        driver.process.kill()
        driver.process.communicate()
