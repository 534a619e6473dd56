"""What a JVM and its workers say on the error stream."""

from __future__ import annotations

import subprocess
import sys

from tidegate.spark.jvm_output import telling

CODE = """
import subprocess, sys, threading
from tidegate.spark.jvm_output import silence, without_noise

CHILD = '''
import sys
for line in sys.stdin:
    sys.stderr.write(line)
    sys.stderr.flush()
    print("done", flush=True)
'''
with without_noise():
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

def says(line):
    child.stdin.write(line + chr(10))
    child.stdin.flush()
    child.stdout.readline()

says("WARNING: Using incubator modules: jdk.incubator.vector")
says("an error of its own")
says("\\x1b[31mred\\x1b[0m \\x1b]8;;http://x\\x07link \\x1b[2J")
sys.stderr.write("ours" + chr(10))
{before_the_end}
says("BrokenPipeError")
child.stdin.close()
child.wait()
for each in threading.enumerate():  # ends with the stream
    if each.name == "jvm-output":
        each.join()
"""


def told(before_the_end: str) -> list[str]:
    code = CODE.format(before_the_end=before_the_end)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return sorted(done.stderr.splitlines())


def test_lines_that_mean_nothing_are_left_out_and_all_others_passed_on() -> None:
    assert [line for line in told("") if "red" not in line] == [
        *("BrokenPipeError", "an error of its own", "ours")
    ]


def test_what_spark_quotes_of_rows_steers_no_terminal() -> None:
    (line,) = (line for line in told("") if "red" in line)
    assert line == "\x1b[31mred\x1b[0m \ufffd]8;;http://x\ufffdlink \ufffd[2J"


def test_at_the_end_nothing_is_passed_on() -> None:
    assert "BrokenPipeError" not in told("silence()")


DAEMON = b"""Traceback (most recent call last):
  File "/venv/site-packages/pyspark/daemon.py", line 131, in manager
    code = worker(sock, authenticated)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/venv/site-packages/pyspark/daemon.py", line 98, in worker
    outfile.flush()
BrokenPipeError: [Errno 32] Broken pipe
""".splitlines(keepends=True)
OF_OTHERS = [line.replace(b"pyspark/daemon.py", b"tidegate/spark/entry.py") for line in DAEMON]
OTHER_ERROR = [*DAEMON[:-1], b"MemoryError\n"]


def test_a_daemon_whose_worker_is_gone_is_not_heard() -> None:
    assert list(telling([b"before\n", *DAEMON, b"behind\n"])) == [b"before\n", b"behind\n"]


def test_every_other_traceback_is_passed_on_whole() -> None:
    said = [*OF_OTHERS, *OTHER_ERROR]
    assert list(telling(said)) == said


def test_a_traceback_cut_short_is_passed_on() -> None:
    assert list(telling(DAEMON[:3])) == DAEMON[:3]
    assert list(telling([*DAEMON[:3], *DAEMON])) == DAEMON[:3]
