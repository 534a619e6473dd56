"""What a pipeline's state and output depend on, and what changed since they were written.

Stored state belongs to one fingerprint. A setting that is left out of it may change
between two runs: see `MAY_CHANGE`. Fields at their default are left out too, so that
a new version, with a new field, does not turn every stored pipeline into another one;
the price is that the default of a field in the fingerprint can never change.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from tidegate.pipeline.aggregate_lookup import identities
from tidegate.pipeline.binding import Columns, known_type
from tidegate.pipeline.formats import PLACES, Format
from tidegate.pipeline.graph import Flow, columns_of, inputs_of, sinks_of, targets_of
from tidegate.pipeline.masking import USER_IN_URL, masked, masked_text
from tidegate.pipeline.operators import Operator, kind_of
from tidegate.pipeline.plugins import source_format, target_format
from tidegate.pipeline.source import Source
from tidegate.pipeline.target import Target
from tidegate.pipeline.validation import given
from tidegate.pipeline.window import Aggregation, Window

if TYPE_CHECKING:
    from tidegate.pipeline.pipeline import Pipeline

VERSION: Final = 1
"""Of the form of the fingerprint itself."""

MAY_CHANGE: Final = {
    "watermark": "moves on from where it is, by the new settings",
    "sources[].watermark": "as for the pipeline",
    "sources[].max_rejected_share": "it can stop the first epoch, and changes no row",
    "sources[].columns": "but for the types of the columns that operators read",
    "sources[].options": "but for those that say what is read, see `Format.identity_options`",
    "target.options": "but for those that say where results go, see `Format.identity_options`",
    "operators[].target.options": "as for the target",
    "channels.*.options": "as for the target",
    "state_store": "state says itself which pipeline it belongs to, wherever it is",
    "operators[].aggregations[].max_distinct": "a bound, not part of the result",
    "operators[].aggregations[].max_values": "a bound, not part of the result",
    "operators[].max_state_rows_per_key": "a bound, not part of the result",
}
"""What may change between two runs of a pipeline with the same state, and why."""

_DSN_PLACE: Final = re.compile(r"\b(?:host|hostaddr|port|dbname)\s*=\s*(?:'[^']*'|\S+)")


def canonical(pipeline: Pipeline, columns: Mapping[str, Columns] | None = None) -> dict[str, Any]:
    """Give everything that state and output depend on, as JSON without secrets.

    `columns` has the columns of sources as they turned out to be; without it the types
    of undeclared ones are not part of the result.
    """
    inputs, flow = inputs_of(pipeline), columns_of(pipeline, columns)
    targets, last = dict(targets_of(pipeline)), sinks_of(pipeline)[-1]
    target = _target(targets.pop(last))
    operators = {each.id: _operator(each, inputs[each.id], flow) for each in pipeline.operators}
    for name, each in targets.items():
        operators[name]["target"] = _target(each)
    return {
        "version": VERSION,
        "name": pipeline.name,
        "sources": {each.name: _source(each) for each in pipeline.sources},
        "source_order": [each.name for each in pipeline.sources],
        "operators": operators,
        "target": target,
        "channels": {name: _target(each) for name, each in pipeline.channels.items()},
    }


def digest(fields: Mapping[str, Any]) -> str:
    """Hash canonical fields: 64 hexadecimal digits, the same on every machine."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


@cache
def code_of(function: Callable[..., Any]) -> str | None:
    """Hash the code of a function below `@pipeline`; None where its source cannot be read.

    Comments, layout, docstrings, type hints, its name and `@pipeline` itself (its first decorator)
    do not count, nor does code that it calls. Cached, because the file may be edited while the
    function that was loaded from it runs.
    """
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, SyntaxError, TypeError, ValueError):
        return None
    if not isinstance(tree, ast.FunctionDef):
        return None
    tree.name, tree.returns, tree.decorator_list = "function", None, tree.decorator_list[1:]
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return f"code {hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:32]}"


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Name each difference between two canonical forms, with the old and the new value."""
    return [*_differences("", old, new)]


_OF_NO_RESULT: Final = {"name", "watermark", "columns", "options", "max_rejected_share"}
"""Of a source; or they come in another way."""


def _source(source: Source) -> dict[str, Any]:
    fields = given(source, leave_out=_OF_NO_RESULT)
    return {**fields, **_identity(source.options, source_format(source.format))}


def _target(target: Target) -> dict[str, Any]:
    identity = _identity(target.options, target_format(target.format))
    return {"format": target.format, "mode": target.mode, **identity}


def _operator(operator: Operator, inputs: tuple[str, ...], flow: Flow) -> dict[str, Any]:
    kind = kind_of(operator)
    fields = kind.fingerprint(operator, inputs, flow.bound.get(operator.id))
    if operator.id in flow.seen and (read := kind.reading(operator).columns_read()):
        handed_on = flow.handed_on[inputs[0]]
        fields[TYPES_IN_FRONT] = {name: str(known_type(handed_on[name])) for name in read}
    packages = aggregate_packages(operator)
    return {**fields, PACKAGES: packages} if packages else fields


TYPES_IN_FRONT: Final = "input_types"
"""The key of an operator under which the types stand that its `where` and `select` read."""

PACKAGES: Final = "aggregate_packages"
"""The key of an operator under which the packages of its aggregates stand."""


def aggregate_packages(operator: Operator) -> dict[str, Mapping[str, str]]:
    """The packages that aggregates of an operator come from, with their versions, by kind."""
    return identities(each.kind for each in kind_of(operator).aggregations(operator))


def _identity(options: Mapping[str, Any], format: Format | None) -> dict[str, Any]:
    names = PLACES if format is None else format.identity_options
    known = {name: _place(name, each) for name, each in options.items() if name.lower() in names}
    return {"options": known} if known else {}


def _place(name: str, value: Any) -> Any:
    if name.lower() == "url":
        return _address(str(value))
    if isinstance(value, Mapping):
        return {key: _place(key, item) for key, item in masked(name, value).items()}
    if isinstance(value, list | tuple):
        return [_place(name, item) for item in value]
    return value if isinstance(value, int | float | None) else masked_text(str(value))


def _address(url: str) -> str:
    if "://" in url:
        kind, _, rest = url.partition("://")
        server, slash, path = rest.partition("/")
        place = f"{kind}://{server.rpartition('@')[2]}{slash}{path}"  # a password may hold a ?
        return masked_text(USER_IN_URL.sub("", place.partition("?")[0]))
    return " ".join(sorted(pair[0] for pair in _DSN_PLACE.finditer(url)))


def _differences(path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted({*old, *new}):
        at = key if path in ("", "operators") else f"{path}.{key}"
        before, after = old.get(key, _default(key)), new.get(key, _default(key))
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _differences(at, before, after)
        elif isinstance(before, Mapping) or isinstance(after, Mapping):
            yield f"{at} was {'removed' if isinstance(before, Mapping) else 'added'}"
        elif before != after:
            yield f"{at} changed from {before!r} to {after!r}"


def _default(key: str) -> Any:
    return _DEFAULTS.get(key)


_DEFAULTS: Final = {
    name: info.get_default(call_default_factory=True)
    for cls in (Source, Aggregation, Window)
    for name, info in cls.model_fields.items()
    if not info.is_required()
}
