"""`tidegate dlq`: look at rows that were turned away, and send them back where they came from.

What reads targets is loaded by the command that needs it, as in `tidegate state`; nothing here
starts Spark, and nothing takes the pipeline over: it may be running.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from tidegate.cli.state import at_a_terminal
from tidegate.cli.telling import Exit, console, fail, plain, say, say_json, told
from tidegate.text import count_text, number_text

if TYPE_CHECKING:
    from tidegate.deadletters.listing import Letters
    from tidegate.deadletters.replay import ReplayPlan

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
    from tidegate.cli.state_text import to_json  # noqa: PLC0415
    from tidegate.deadletters.listing import letters_of  # noqa: PLC0415
    from tidegate.frontends.toml import load_pipeline  # noqa: PLC0415

    with told():
        found = letters_of(load_pipeline(file).pipeline, channel, limit)
        if as_json:
            say_json(to_json(found))
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
    skip: Annotated[
        bool, typer.Option("--skip", help="Pass over rows that cannot be sent, for good.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Send the rows of a dead-letter topic back to the topic of their source, each of them once.

    A row goes as the record that it was: key, value, headers and time. What was sent is remembered
    in the cluster, in the transaction that sends it.
    """
    from tidegate.frontends.toml import load_pipeline  # noqa: PLC0415
    from tidegate.kafka import need_confluent_kafka  # noqa: PLC0415

    with told():
        pipeline = load_pipeline(file).pipeline
        need_confluent_kafka("--channel")
        from tidegate.deadletters.replay import Replay  # noqa: PLC0415

        with closing(Replay(pipeline, channel, to_topic, allow_topic or ())) as opened:
            plan = opened.plan(reason)
            for sentence in sentences(plan):
                say(sentence)
            if plan.unsendable and not skip:
                fail("nothing was sent; --skip passes over rows that cannot be sent, for good")
            if not plan.sent and not plan.unsendable:
                return
            if not yes:
                _ask()
            for why, count in sorted(opened.send(plan, skip=skip).items()):
                say(f"passed over {count_text(count, 'rows')}: {why}")
            say("sent" if plan.sent else "nothing was sent")


def _ask() -> None:
    if not at_a_terminal():
        fail("nobody is there to be asked; --yes sends without asking", Exit.MISTAKE)
    if not typer.confirm("send them?"):
        fail("nothing was sent", Exit.FAILED)


def sentences(plan: ReplayPlan) -> Iterator[str]:
    """What a replay will send, and what not."""
    for (reason, topic), count in sorted(plan.sent.items()):
        yield f"{count_text(count, 'rows')} ({reason}) to topic {topic}"
    if plan.incomplete:
        rows = count_text(plan.incomplete, "rows")
        yield f"  {rows} as bytes with key and time, without headers: their records are gone"
    for kept, told_ in _KEPT.items():
        if plan.kept[kept]:
            yield f"{count_text(plan.kept[kept], 'rows')} {told_}"
    for why, count in sorted(plan.unsendable.items()):
        yield f"{count_text(count, 'rows')} cannot be sent: {why}"
    if plan.no_letters:
        records = count_text(plan.no_letters, "records")
        yield f"besides {records} that cannot be read as dead letters"
    if not plan.sent:
        yield "there is nothing to send"
    elif plan.channel != "rejected":
        yield _LATE_AGAIN


_LATE_AGAIN: Final = (
    "late rows will be late again, unless the pipeline that reads them allows more lateness or "
    "begins anew: its watermark does not go back"
)
_KEPT: Final = {
    "sent before": "were sent before, and are not sent again",
    "same record": "come with the record of another, which is sent once",
}


def print_letters(console: Console, found: Sequence[Letters]) -> None:
    """For people: a line a channel, its reasons, and the newest rows."""
    from tidegate.cli.state_text import print_table  # noqa: PLC0415

    for nth, each in enumerate(found):
        if nth:
            console.print()
        for line in _lines(each):
            console.print(Text(plain(line)))
        if each.newest:
            columns = [*dict.fromkeys(name for row in each.newest for name in row)]
            cells = [[Text(_cell(row.get(name))) for name in columns] for row in each.newest]
            console.print()
            print_table(console, columns, cells)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _lines(letters: Letters) -> Iterator[str]:

    place = f"{letters.channel} ({letters.target})"
    if letters.rows is None:
        yield f"{place}: rows there cannot be read back"
        return
    yield f"{place}: {count_text(letters.rows, 'rows')}"
    for reason, count in letters.reasons.items():
        yield f"  {number_text(count):>10}  {reason}"
    if letters.unreadable:
        yield f"  besides {count_text(letters.unreadable, 'records')} that cannot be read as rows"
