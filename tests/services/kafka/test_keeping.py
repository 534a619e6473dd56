from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.kafka_broker import KafkaServer
from tidegate.kafka.asking import cluster_id
from tidegate.kafka.broker import Broker
from tidegate.kafka.keeping import Keeper, close_idle


@dataclass
class Clients:
    """Clients that are names, and those that were closed."""

    now_s: float = 0.0
    closed: list[str] = field(default_factory=list)

    def keeper(self) -> Keeper[str, str]:
        return Keeper(self.closed.append, lambda: self.now_s)


@pytest.fixture
def clients() -> Clients:
    return Clients()


def test_a_client_that_is_given_back_is_there_for_the_next(clients: Clients) -> None:
    keeper = clients.keeper()
    keeper.give("here", "first")
    assert (keeper.take("here"), keeper.take("here"), keeper.take("there")) == ("first", None, None)
    assert clients.closed == []


def test_of_two_that_were_used_at_once_one_is_kept(clients: Clients) -> None:
    keeper = clients.keeper()
    keeper.give("here", "first")
    keeper.give("here", "second")
    assert (keeper.take("here"), clients.closed) == ("first", ["second"])


def test_who_was_not_used_for_a_minute_is_closed_when_another_is_given_back(
    clients: Clients,
) -> None:
    keeper = clients.keeper()
    keeper.give("gone", "old")
    clients.now_s = 59
    keeper.give("here", "new")
    assert clients.closed == []
    clients.now_s = 60
    keeper.give("there", "newer")
    assert clients.closed == ["old"]
    assert [keeper.take(each) for each in ("gone", "here", "there")] == [None, "new", "newer"]


def test_a_shared_client_is_made_once_and_lives_while_it_is_used(clients: Clients) -> None:
    keeper, made = clients.keeper(), iter(("first", "second"))
    used = []
    for now_s in (0, 50, 100, 200):
        clients.now_s = now_s
        keeper.give("other", f"at {now_s}")
        used.append(keeper.shared("here", lambda: next(made)))
    assert used == ["first", "first", "first", "second"]
    assert "first" in clients.closed


def test_what_is_used_is_not_idle(clients: Clients) -> None:
    keeper = clients.keeper()
    keeper.give("here", "used")
    keeper.give("there", "idle")
    assert keeper.take("here") == "used"
    close_idle()
    assert clients.closed == ["idle"]


def test_a_fork_neither_uses_nor_closes_the_clients_of_its_parent(clients: Clients) -> None:
    keeper = clients.keeper()
    keeper.give("here", "parent's")
    child = os.fork()
    if child == 0:
        none = keeper.take("here") is None
        close_idle()
        os._exit(0 if none and clients.closed == [] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert keeper.take("here") == "parent's"


def test_no_thread_of_a_client_is_left_when_it_is_closed(kafka_server: KafkaServer) -> None:
    close_idle()
    before = threads()
    broker = Broker(kafka_server.servers)
    cluster_id(broker)
    assert threads() > before
    close_idle()
    assert threads() == before


def threads() -> int:
    """Those of librdkafka, in this process."""
    found = 0
    for each in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # it ends meanwhile
            found += (each / "comm").read_text().startswith("rdk:")
    return found
