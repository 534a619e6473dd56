"""What a JVM and its workers say on the error stream."""

from __future__ import annotations

import subprocess
import sys

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
print("ours", file=sys.stderr, flush=True)
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
    assert told("") == ["BrokenPipeError", "an error of its own", "ours"]


def test_at_the_end_nothing_is_passed_on() -> None:
    assert "BrokenPipeError" not in told("silence()")
