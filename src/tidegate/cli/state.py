"""`tidegate state`: look at what pipelines hold, take it out, forget it.

Looking hinders no run and starts no Spark, so it may be done at any time. What changes something
takes the pipeline over for a moment, and is refused while somebody runs it. What reads state is
loaded by the command that needs it: a shell that completes words does not wait for it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.telling import Exit, console, fail, say, say_json, told
from tidegate.text import count_text

state_app = typer.Typer(
    help="Look at what pipelines hold, export it, forget it.", no_args_is_help=True
)

Where = Annotated[
    Path | None,
    typer.Argument(
        metavar="WHERE",
        help="The TOML file of a pipeline, or a folder of state; by default ./.tidegate.",
        show_default=False,
    ),
]
Name = Annotated[
    str | None,
    typer.Option("--pipeline", "-p", metavar="NAME", help="Which one, where a folder has several."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


@state_app.command("list")
def list_(where: Where = None, pipeline: Name = None, as_json: AsJson = False) -> None:
    """Tell where pipelines stand, how much they hold, and who runs them."""
    from tidegate.cli.state_listing import look_at, print_listing  # noqa: PLC0415
    from tidegate.cli.state_text import to_json  # noqa: PLC0415
    from tidegate.cli.state_where import find  # noqa: PLC0415

    with told():
        place = find(where, pipeline)
        found = [each for name in place.pipelines if (each := look_at(place.catalog, name))]
        if as_json:
            say_json(to_json([each.to_dict() for each in found]))
        else:
            print_listing(console(), found)


@state_app.command()
def show(
    where: Where = None,
    pipeline: Name = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            "-k",
            metavar="COLUMN=VALUE",
            help="Only this key; once for each key column, or for some of them. "
            'NULL is written COLUMN=NULL, the text NULL COLUMN=\\"NULL\\".',
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="So many keys at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show what keys hold as of the last commit: sessions, windows, or rows that wait in a join."""
    from tidegate.cli.state_showing import print_state, see, state_json  # noqa: PLC0415
    from tidegate.cli.state_text import to_json  # noqa: PLC0415
    from tidegate.cli.state_where import find_one  # noqa: PLC0415

    with told():
        catalog, name = find_one(where, pipeline)
        seen = see(catalog, name, key or ())
        if seen.problem is not None and not as_json:
            say(f"tidegate: the state itself cannot be read: {seen.problem}", err=True)
        if as_json:
            say_json(to_json(state_json(seen, limit)))
        else:
            print_state(console(), seen, limit)


@state_app.command()
def export(
    where: Where = None,
    *,
    to: Annotated[Path, typer.Option("--to", metavar="FILE.parquet", help="The file to write.")],
    pipeline: Name = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file if it is there.")
    ] = False,
) -> None:
    """Write all that a pipeline holds as of its last commit to one parquet file."""
    from tidegate.cli import state_changing as changing  # noqa: PLC0415
    from tidegate.cli.state_where import find_one  # noqa: PLC0415

    with told():
        catalog, name = find_one(where, pipeline)
        epoch, rows = changing.export(catalog, name, to, force=force)
        say(f"{to}: {count_text(rows, 'rows')}, as of epoch {epoch}")


@state_app.command()
def reset(
    where: Where = None,
    pipeline: Name = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Forget what a pipeline holds and how far it has read, so that its next run begins anew.

    What it has sent stays where it is. Where WHERE is the file of the pipeline, its targets take no
    more rows from a driver that slept through the reset.
    """
    from tidegate.cli import state_changing as changing  # noqa: PLC0415
    from tidegate.cli.state_listing import look_at  # noqa: PLC0415
    from tidegate.cli.state_where import find_one  # noqa: PLC0415

    with told():
        catalog, name = find_one(where, pipeline)
        changing.check_free(catalog, name)
        found = look_at(catalog, name)
        if found is None or found.committed.holds_nothing:
            say(f"pipeline {name!r} holds nothing: there is nothing to forget")
            return
        for sentence in changing.forgotten_by_reset(found):
            say(sentence)
        if not yes:
            _ask("forget it?", "--yes forgets", "nothing was forgotten")
        changing.reset(catalog, name, None if yes else found.committed.epoch)
        changing.claim_targets(where, catalog, name)
        say("forgotten")


def _ask(question: str, with_yes: str, otherwise: str) -> None:
    if not at_a_terminal():
        fail(f"nobody is there to be asked; {with_yes} without asking", Exit.MISTAKE)
    if not typer.confirm(question):
        fail(otherwise, Exit.FAILED)


def at_a_terminal() -> bool:
    """Whether somebody can answer."""
    return sys.stdin.isatty()


@state_app.command()
def rewind(
    where: Where = None,
    pipeline: Name = None,
    *,
    source: Annotated[str, typer.Option(metavar="NAME", help="The source to read again.")],
    to: Annotated[
        str,
        typer.Option(metavar="OFFSET", help="`earliest`, or an offset as `state list` shows it."),
    ],
    reset_state: Annotated[
        bool, typer.Option("--reset-state", help="Forget what is held: rows would count twice.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Let the next run read a source again from an offset; other sources stay where they are.

    Refused without --reset-state: what was counted of the rows that come again is in the state.
    """
    from tidegate.cli import state_changing as changing  # noqa: PLC0415
    from tidegate.cli.state_listing import look_at  # noqa: PLC0415
    from tidegate.cli.state_offsets import offset_of  # noqa: PLC0415
    from tidegate.cli.state_where import find_one  # noqa: PLC0415

    with told():
        catalog, name = find_one(where, pipeline)
        changing.check_free(catalog, name)
        found = look_at(catalog, name)
        if found is None or found.committed.holds_nothing:
            fail(f"pipeline {name!r} has read nothing: there is nothing to rewind", Exit.MISTAKE)
        offset = offset_of(found.committed, source, to)
        if not reset_state:
            fail(
                f"rows of {source!r} that come again would count twice in what is held\n"
                "  hint: --reset-state forgets what is held; other sources stay where they are",
                Exit.MISTAKE,
            )
        for sentence in changing.forgotten_by_rewind(found, source):
            say(sentence)
        if not yes:
            _ask("forget it?", "--yes forgets", "nothing was forgotten")
        epoch = changing.rewind(
            catalog, name, source, offset, None if yes else found.committed.epoch
        )
        changing.claim_targets(where, catalog, name)
        say(f"{source} stands at {to} as of epoch {epoch}")


@state_app.command()
def skip_publish(
    where: Where = None,
    pipeline: Name = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Go on without output that is committed and cannot be published: its rows are lost.

    For a pipeline that does not start because staged rows are gone, or its target refuses them.
    State and offsets stay.
    """
    from tidegate.cli import state_changing as changing  # noqa: PLC0415
    from tidegate.cli.state_where import find_one  # noqa: PLC0415

    with told():
        catalog, name = find_one(where, pipeline)
        manifests = changing.unpublished(catalog, name)
        if not manifests:
            say(f"pipeline {name!r} has published all that it committed")
            return
        for sentence in changing.given_up(name, manifests):
            say(sentence)
        if not yes:
            _ask("give it up?", "--yes gives it up", "nothing was given up")
        changing.skip_publish(catalog, name, manifests)
        say(f"given up: {count_text(len(manifests), 'epochs')}")


@state_app.command()
def fold(where: Where = None, pipeline: Name = None) -> None:
    """Bring the table of keys, which SQL can read, up to date with the last commit."""
    from tidegate.cli import state_changing as changing  # noqa: PLC0415
    from tidegate.cli.state_where import find_one  # noqa: PLC0415

    with told():
        catalog, name = find_one(where, pipeline)
        as_of = "as of" if changing.fold(catalog, name) else "already as of"
        if committed := catalog.committed(name):
            keys = count_text(committed.folded_keys, "keys")
            say(f"{name}: {keys}, {as_of} epoch {committed.folded_epoch}")
