"""The run of the demo, in a process of its own that can be killed.

    python -m tidegate.cli.demo_child <pipeline.toml>

It says on stdout, pickled, what each epoch came to, and waits for a line before it goes on:
the job of the next epoch has run by then, and nothing of it is committed. Whoever reads that can
kill it there. An error that is meant for the user is said in the same way.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import IO, Any

from tidegate.errors import TidegateError
from tidegate.frontends.toml import load_pipeline


def main(file: str) -> int:
    """Run the pipeline of the file; what libraries print goes to stderr."""
    with os.fdopen(os.dup(1), "wb") as said:
        os.dup2(2, 1)
        try:
            load_pipeline(file).run(on_epoch=lambda result: _say(result, said))
        except TidegateError as error:
            pickle.dump(error, said)
            return 1
    return 0


def _say(what: Any, said: IO[bytes]) -> None:
    try:
        pickle.dump(what, said)
        said.flush()
        heard = sys.stdin.readline()
    except BrokenPipeError:
        heard = ""
    if not heard:
        os._exit(1)  # nobody is there any more


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
