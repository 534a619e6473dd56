"""The pipeline: everything about what to run, in one value."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, WrapValidator

from tidegate.errors import InMemoryStateWarning, Problem
from tidegate.pipeline import pipeline_rules
from tidegate.pipeline.binding import Columns
from tidegate.pipeline.explain import explained
from tidegate.pipeline.fieldtypes import DERIVED, Freeze, nothing
from tidegate.pipeline.fingerprint import canonical, digest
from tidegate.pipeline.graph import (
    bound_operators,
    inputs_of,
    sinks_of,
    sinks_without_target,
    targets_of,
)
from tidegate.pipeline.html import pipeline_html
from tidegate.pipeline.join import Join
from tidegate.pipeline.masking import listed
from tidegate.pipeline.names import PlainName
from tidegate.pipeline.operators import Bound
from tidegate.pipeline.source import Source
from tidegate.pipeline.store import StateStore
from tidegate.pipeline.target import Target
from tidegate.pipeline.validation import Draft, Rule, SpelledOut, Value, keys_of, readable
from tidegate.pipeline.watermark import Watermark
from tidegate.pipeline.window import Window
from tidegate.pipeline.wording import misplaced_value, parts_expected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.engine.loop import Run, RunResult

_IN_MEMORY = (
    "pipeline {name!r} keeps its state in memory only: a crash or restart loses every open "
    "window; use StateStore() to keep it in ./.tidegate, or kind='postgres'"
)


def _window_or_join(value: Any) -> Any:
    """Take data for the one of the two that has most of its keys."""
    if isinstance(value, Window | Join | Draft):
        return value
    if not isinstance(value, Mapping):
        return Draft([misplaced_value("", value, parts_expected(Window | Join))], {})
    window, join = (len(value.keys() & {*keys_of(cls).values()}) for cls in (Window, Join))
    return (Window if window >= join else Join).checked(value)


_Operator = Annotated[Window | Join, WrapValidator(lambda value, _: _window_or_join(value))]


class Pipeline(Value):
    """Sources, the operators that read them, and the target of the results.

    `window=Window(...)` and `join=Join(...)` are short for one operator, `late=` and
    `rejected=` for the channels of these names, and a single source needs no list.
    """

    name: PlainName
    """What state, offsets and metrics are kept under."""
    sources: Sequence[Source]
    """Where rows come from; their order decides between rows with equal event times."""
    operators: Sequence[_Operator] = ()
    """What is computed, as a graph without cycles; most pipelines have one window or join."""
    target: Target = DERIVED
    """Where the results of the last operator go, unless it has a target of its own."""
    channels: Annotated[Mapping[str, Target], *Freeze] = Field(default_factory=nothing)
    """Where other rows go: `late`, or as windows call it, and `rejected`."""
    watermark: Watermark = Watermark()
    """How sources measure event time, unless they say otherwise."""
    state_store: StateStore = DERIVED
    """Where state is kept; session windows need it to be said."""

    rules: ClassVar[tuple[Rule, ...]] = pipeline_rules.PIPELINE
    shorthands: ClassVar[tuple[str, ...]] = ("window", "join", "late", "rejected")

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str,
            sources: Source | Sequence[Source],
            target: Target | None = None,
            window: Window | None = None,
            join: Join | None = None,
            operators: Sequence[Window | Join] = (),
            channels: Mapping[str, Target] = ...,
            late: Target | None = None,
            rejected: Target | None = None,
            watermark: Watermark = ...,
            state_store: StateStore | None = None,
        ) -> None: ...

    else:

        def __init__(self, /, **data: Any) -> None:
            super().__init__(**data)
            if self.state_store.kind == "in_memory":
                message = _IN_MEMORY.format(name=self.name)
                warnings.warn(message, InMemoryStateWarning, stacklevel=2)

        __init__.__pydantic_base_init__ = True  # as that of Value: data is checked without it

    @classmethod
    def spelled_out(cls, data: Mapping[str, Any]) -> SpelledOut:
        """Put a single source, the window and the short channels where they belong."""
        full = {k: v for k, v in data.items() if v is not None or k not in _MAY_BE_NONE}
        written: dict[str, str] = {}
        if isinstance(full.get("sources"), Source | Mapping):
            full["sources"], written["sources[0]"] = [full["sources"]], "sources"
        problems = [*_short_operator(full, written), *_short_channels(full, written)]
        return SpelledOut(full, _inputs_written(full, written) | written, tuple(problems))

    @classmethod
    def completed(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Fill in the embedded store, where no session asks for a decision, and the target."""
        done = dict(fields)
        kinds = {each.kind for _, each in readable(fields.get("operators", ()), "kind")}
        sessions = kinds & {"session", "session_session"}
        if fields.get("state_store", "") is None and not sessions:
            done["state_store"] = StateStore()
        if fields.get("target", "") is None and {"sources", "operators"} <= fields.keys():
            graph: Any = Draft((), fields)
            last = sinks_of(graph)[-1:]
            done["target"] = next(
                (targets_of(graph)[name] for name in last if not sinks_without_target(graph)), None
            )
        return done

    def watermark_of(self, source: str) -> Watermark:
        """Give the settings that hold for the source of this name."""
        own = {each.name: each.watermark for each in self.sources}
        return own[source] or self.watermark

    def inputs(self) -> Mapping[str, tuple[str, ...]]:
        """For each operator id the names of the sources and operators it reads."""
        return inputs_of(self)

    def targets(self) -> Mapping[str, Target]:
        """For each operator id that writes somewhere the target of its results."""
        return targets_of(self)

    def bound(self, columns: Mapping[str, Columns] | None = None) -> Mapping[str, Bound]:
        """Operators by id with their types, where those are known.

        `columns` has the columns of sources as they turned out to be, transforms
        included; without it the declared ones count.
        """
        return bound_operators(self, columns)

    def fingerprint_fields(self, columns: Mapping[str, Columns] | None = None) -> dict[str, Any]:
        """Everything that state and output depend on, as JSON; `columns` as in `bound`."""
        return canonical(self, columns)

    def fingerprint(self, columns: Mapping[str, Columns] | None = None) -> str:
        """Hash what state and output depend on; `columns` as in `bound`."""
        return digest(canonical(self, columns))

    def explain(self) -> str:
        """Describe the plan for people, without secrets."""
        return explained(self)

    def _repr_html_(self) -> str:
        """As `explain`, for notebooks."""
        return pipeline_html(self)

    def run(self, **settings: Any) -> RunResult:
        """Run on Spark to the end of the input, or until SIGINT or SIGTERM.

        `settings` are those of `RunSettings`, and `spark`: the session to use, or `local=True`: run
        in this process, without Spark; `listeners`: what follows the run; `on_epoch`: a function
        that gets the report of each epoch.
        """
        return _engine().run(self, **settings)  # type: ignore[no-any-return]

    def start(self, **settings: Any) -> Run:
        """Run on Spark in the background; `settings` as in `run`."""
        return _engine().start(self, **settings)  # type: ignore[no-any-return]

    def batch_function(
        self, *, first_batch: int = 0, shards: int | None = None
    ) -> Callable[[DataFrame, int], None]:
        """Make a function for `foreachBatch`: an epoch for each micro-batch, exactly once.

        `first_batch` says where the query stands, if it does not begin with this pipeline.
        """
        door = importlib.import_module("tidegate.spark.batches")
        return door.batch_function(self, first_batch=first_batch, shards=shards)  # type: ignore[no-any-return]

    def reset(self) -> None:
        """Forget state and offsets, so that the next run reads everything again.

        Rows that are in the target stay there: empty it first. One that replaces rows by their
        identity keeps those of windows that come out otherwise. Refused while somebody runs it.
        """
        importlib.import_module("tidegate.engine.reset").reset(self)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Describe what `from_dict` takes, shorthands included, as JSON schema for editors."""
        schema = _without_null_defaults(cls.model_json_schema())
        properties = schema["properties"]
        source, target, window, join = (
            {"$ref": f"#/$defs/{name}"} for name in ("Source", "Target", "Window", "Join")
        )
        properties["sources"]["anyOf"] = [source, {"type": properties["sources"].pop("type")}]
        properties["sources"]["anyOf"][1]["items"] = properties["sources"].pop("items")
        window_keys = schema["$defs"]["Window"]["properties"]
        window_keys["from"] = {**window_keys["inputs"], "description": "The same as inputs."}
        properties["window"] = {
            **window,
            "description": "Short for operators with this one window.",
        }
        properties["join"] = {**join, "description": "Short for operators with this one join."}
        properties["late"] = {**target, "description": "Short for channels.late."}
        properties["rejected"] = {**target, "description": "Short for channels.rejected."}
        either = [{"required": [name]} for name in ("window", "join", "operators")]
        dialect = "https://json-schema.org/draft/2020-12/schema"
        return {"$schema": dialect, **schema, "anyOf": either}


def _engine() -> Any:
    """The engine, which stands above this room: loaded when somebody runs, and not before."""
    return importlib.import_module("tidegate.spark.running")


_MAY_BE_NONE = ("window", "join", "late", "rejected", "state_store", "target")


def _short_operator(full: dict[str, Any], written: dict[str, str]) -> list[Problem]:
    given = [name for name in ("window", "join") if name in full]
    operators = [full.pop(name) for name in given]
    if not given:
        return []
    if len(given) > 1 or full.get("operators"):
        names = [*given, *(["operators"] if full.get("operators") else [])]
        one = "one of the two" if len(names) == 2 else "one of them"
        hint = f"put the {given[0]} into operators, or remove {listed(names[1:], 'and')}"
        full["operators"] = full.get("operators") or [*map(_undecided, operators)]
        return [Problem(given[0], listed(names, "and"), one, hint)]
    full["operators"], written["operators[0]"] = operators, given[0]
    return []


def _undecided(operator: Any) -> Draft:
    """An operator of which only the problems count: it may not be meant to be there at all."""
    made = _window_or_join(operator)
    return made if isinstance(made, Draft) else Draft((), {})


def _inputs_written(full: Mapping[str, Any], written: Mapping[str, str]) -> dict[str, str]:
    """Where operators call their inputs `from`."""
    operators = full.get("operators")
    return {
        f"operators[{nth}].inputs": f"{written.get(f'operators[{nth}]', f'operators[{nth}]')}.from"
        for nth, operator in enumerate(operators if isinstance(operators, list | tuple) else ())
        if isinstance(operator, Mapping) and "from" in operator
    }


def _short_channels(full: dict[str, Any], written: dict[str, str]) -> list[Problem]:
    problems = []
    for name in ("late", "rejected"):
        channels, target = full.get("channels", {}), full.pop(name, None)
        if target is None or not isinstance(channels, Mapping):
            continue
        if name in channels:
            found, expected = f"{name} and channels.{name}", "one of the two"
            problems.append(Problem(name, found, expected, "remove one of them"))
            continue
        full["channels"], written[f"channels.{name}"] = {**channels, name: target}, name
    return problems


def _without_null_defaults(node: Any) -> Any:
    """Drop `default: null`, which would make editors offer a value that is none."""
    if isinstance(node, dict):
        return {
            key: _without_null_defaults(item)
            for key, item in node.items()
            if not (key == "default" and item is None)
        }
    return [_without_null_defaults(item) for item in node] if isinstance(node, list) else node
