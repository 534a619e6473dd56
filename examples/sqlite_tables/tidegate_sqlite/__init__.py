"""Tables of SQLite as sources and targets: what is known of the format by its name.

The entry points of `pyproject.toml` lead here; the modules that do the work are imported when a
pipeline that uses them is opened.
"""

from tidegate.pipeline.formats import SourceFormat, TargetFormat

SOURCE = SourceFormat(
    name="sqlite",
    opens="tidegate_sqlite.source:open_source",
    options="tidegate_sqlite.options:TableOptions",
)

TARGET = TargetFormat(
    name="sqlite",
    opens="tidegate_sqlite.target:open_target",
    options="tidegate_sqlite.options:TableOptions",
    modes=("upsert", "append"),
)
