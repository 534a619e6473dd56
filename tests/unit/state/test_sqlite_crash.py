"""A process that is killed leaves the old truth or the new one, and lets go of the pipeline."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tidegate.errors import PipelineInUse
from tidegate.state import sqlite_store
from tidegate.testing.epochs import bytes_of, manifest, stage

KILL_AT_EVERY_STATEMENT = textwrap.dedent(
    """
    import os, signal, sys
    from pathlib import Path
    from tidegate.state import sqlite_store
    from tidegate.testing.epochs import manifest, stage

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    def run(folder, point):
        store = sqlite_store(folder, "clicks")
        token = store.open().token
        old = stage(store.depot, token, 1, b"old")
        store.commit(token, manifest(1, [old]))
        new = stage(store.depot, token, 2, b"new")
        seen = []

        def trace(statement):
            seen.append(statement)
            if len(seen) == point:
                Path(folder, "last").write_text(statement.splitlines()[-1])
                die()

        store.adopt(token, {"gap_ms": 5})
        store._tables.database.connection().set_trace_callback(trace)
        log = {"clicks": ({"path": "a"}, {"path": "b"})}
        getattr(store, sys.argv[2])(token, manifest(2, [new], discovered=log))
        Path(folder, "last").write_text("returned")
        die()

    folder, point, last = Path(sys.argv[1]), 0, ""
    while last != "returned":
        point += 1
        if (child := os.fork()) == 0:
            run(folder / str(point), point)
        os.waitpid(child, 0)
        last = (folder / str(point) / "last").read_text()
        print(last)
    """
)


def found_in(folder: Path) -> tuple[int, bool, object, int]:
    """Epoch, whether the last manifest is whole with its parts, the plan, entries of the log."""
    store = sqlite_store(folder, "clicks")
    found = store.open()
    assert found.last is not None
    (entry,) = found.last.state["window"].shards[0]
    whole = bytes_of(store.depot, entry.part) == {1: b"old", 2: b"new"}[found.epoch]
    whole &= found.last.offsets == {"clicks": {"place": found.epoch * 10}}
    store.commit(found.token, manifest(found.epoch + 1))
    store.close()
    return found.epoch, whole, found.plan, len(found.logs.get("clicks", ()))


@pytest.mark.parametrize("act", ["commit", "reset"])
def test_an_act_is_all_or_nothing_wherever_the_process_is_killed(tmp_path: Path, act: str) -> None:
    command = [sys.executable, "-c", KILL_AT_EVERY_STATEMENT, str(tmp_path), act]
    points = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    points = points[:-1]
    assert [points[0], *points[-2:]] == ["BEGIN IMMEDIATE", "COMMIT", "returned"]
    found = [found_in(tmp_path / str(n)) for n in range(1, len(points) + 1)]
    assert found == [(1, True, None, 0)] * (len(points) - 1) + [(2, True, {"gap_ms": 5}, 2)]


HOLD = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from tidegate.state import sqlite_store

    sqlite_store(Path(sys.argv[1]), "clicks").open()
    print("open", flush=True)
    sys.stdin.read()
    """
)


def test_the_death_of_a_driver_lets_the_next_one_in(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == b"open\n"
    store = sqlite_store(tmp_path, "clicks")
    host = os.uname().nodename
    with pytest.raises(PipelineInUse, match=f"run by process {holder.pid} on {host} since 2"):
        store.open()
    holder.kill()
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()
    assert store.open().token == 2
    store.close()


def test_a_driver_that_finds_garbage_of_a_dead_one_removes_it(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path, "clicks")
    token = store.open().token
    stage(store.depot, token, 1, b"of an epoch that was never committed")
    store.close()
    assert store.collect_garbage(store.open().token) == 1
    store.close()
