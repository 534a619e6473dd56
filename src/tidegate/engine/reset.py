"""Starting over: state is forgotten, and targets take no more rows of what was before.

reset -> store: a new incarnation -> [claim_anew] -> publishers of the old one are refused
"""

from __future__ import annotations

import logging

from tidegate.errors import telling_line
from tidegate.pipeline import MAIN, Pipeline
from tidegate.state import open_store
from tidegate.targets import open_target

logger = logging.getLogger("tidegate")


def reset(pipeline: Pipeline) -> None:
    """See `Pipeline.reset`."""
    store = open_store(pipeline.state_store, pipeline.name)
    try:
        store.reset(store.open().token)
        claim_anew(pipeline, store.open().incarnation)
    finally:
        store.close()


def claim_anew(pipeline: Pipeline, incarnation: str) -> None:
    """Note in the targets that another incarnation has begun.

    What does not succeed is logged: the next run does it, and nobody needs it before unless a
    driver sleeps.
    """
    for channel, target in {MAIN: pipeline.target, **pipeline.channels}.items():
        try:
            writer = open_target(
                target, pipeline=pipeline.name, channel=channel, store=pipeline.state_store
            )
            if writer is not None:
                writer.claim(incarnation)
                writer.close()
        except Exception as error:
            logger.warning(
                "the target of %r was not reached: until the next run begins, a driver that slept "
                "through the reset may write an epoch to it: %s",
                channel,
                telling_line(error),
                extra={"pipeline": pipeline.name},
            )
