"""`tidegate dlq`: look at rows that were turned away, and send them back where they came from.

What reads targets is loaded by the command that needs it, as in `tidegate state`; nothing here
starts Spark, and nothing takes the pipeline over: it may be running.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.state import at_a_terminal
from tidegate.cli.telling import Exit, console, fail, say, say_json, told

dlq_app = typer.Typer(
    help="Look at late and rejected rows, and send them back.", no_args_is_help=True
)

File = Annotated[
    Path, typer.Argument(metavar="PIPELINE.toml", help="The TOML file of the pipeline.")
]


@dlq_app.command("list")
def list_(
    file: File,
    channel: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="`rejected`, `late`, or as the window calls it."),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="So many of the newest rows.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Tell how many rows were turned away and why, and show the newest."""
    from tidegate.cli.dlq_listing import letters_of, print_letters  # noqa: PLC0415
    from tidegate.cli.state_text import to_json  # noqa: PLC0415
    from tidegate.frontends.toml import load_pipeline  # noqa: PLC0415

    with told():
        found = letters_of(load_pipeline(file).pipeline, channel, limit)
        if as_json:
            say_json(to_json([each.to_dict() for each in found]))
        else:
            print_letters(console(), found)


@dlq_app.command()
def replay(
    file: File,
    *,
    channel: Annotated[str, typer.Option(metavar="NAME", help="`rejected` or `late`.")],
    to_topic: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="Send all to this topic, not whence they came."),
    ] = None,
    allow_topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC",
            help="Trust rows that name this topic, which no source reads; once for each.",
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="REASON", help="Only rows turned away for that.")
    ] = None,
    rebuilt: Annotated[
        bool,
        typer.Option("--rebuilt", help="Send rows whose records are gone as their columns tell."),
    ] = False,
    now: Annotated[
        bool, typer.Option("--now", help="Give records the time of now, not their own.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Send the rows of a dead-letter topic back to the topic of their source, each of them once.

    A row goes as the record that it was, if that is still there. What was sent is remembered in
    the cluster, in the transaction that sends it.
    """
    from tidegate.cli.state_text import counted  # noqa: PLC0415
    from tidegate.frontends.toml import load_pipeline  # noqa: PLC0415
    from tidegate.kafka import need_confluent_kafka  # noqa: PLC0415

    with told():
        pipeline = load_pipeline(file).pipeline
        need_confluent_kafka("--channel")
        from tidegate.cli.dlq_replaying import Replay, plan_of  # noqa: PLC0415
        from tidegate.cli.dlq_resolving import Terms  # noqa: PLC0415

        allowed = frozenset(allow_topic or ())
        terms = Terms(to_topic=to_topic, allowed_topics=allowed, rebuilt=rebuilt, now=now)
        with Replay.opened(pipeline, channel, terms) as opened:
            plan = plan_of(opened, reason)
            for sentence in plan.sentences():
                say(sentence)
            if plan.count:
                if not yes:
                    _ask()
                sent = opened.send(plan)
                say("sent" if sent == plan.count else f"sent {counted(sent, 'rows')} of them")


def _ask() -> None:
    if not at_a_terminal():
        fail("nobody is there to be asked; --yes sends without asking", Exit.MISTAKE)
    if not typer.confirm("send them?"):
        fail("nothing was sent", Exit.FAILED)
