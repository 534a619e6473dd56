"""What to run: a pipeline as a frozen value.

    Source, Window(Aggregation), Watermark, StateStore, Target -> Pipeline

A value is right once it exists: whatever is wrong with it is reported at once, as a
`ConfigError` with the path, the value, what is expected and what to do. Nothing here
reads a clock, a file or the network.
"""

from tidegate.pipeline.aggregate_lookup import AggregationKind, aggregate_result
from tidegate.pipeline.aggregates import AggregateSpec
from tidegate.pipeline.binding import BoundAggregation, BoundWindow, Columns, bind, check_columns
from tidegate.pipeline.datatypes import DataType
from tidegate.pipeline.emit_strategies import Emit, LateData, Moment, sending_of
from tidegate.pipeline.fingerprint import changes
from tidegate.pipeline.join import Join, JoinKind, JoinType, Side
from tidegate.pipeline.join_binding import BoundJoin, bind_join, check_join_columns
from tidegate.pipeline.pipeline import Pipeline
from tidegate.pipeline.pipeline_rules import MAIN, REJECTED
from tidegate.pipeline.run_settings import KEY_GROUPS, RunSettings
from tidegate.pipeline.source import ARRIVAL, Source
from tidegate.pipeline.store import StateStore
from tidegate.pipeline.target import Target
from tidegate.pipeline.watermark import Watermark
from tidegate.pipeline.window import Aggregation, Window, WindowKind
from tidegate.pipeline.window_rules import ORIGINAL_EVENT_TS, SYSTEM_COLUMNS

__all__ = [
    "ARRIVAL",
    "KEY_GROUPS",
    "MAIN",
    "ORIGINAL_EVENT_TS",
    "REJECTED",
    "SYSTEM_COLUMNS",
    "AggregateSpec",
    "Aggregation",
    "AggregationKind",
    "BoundAggregation",
    "BoundJoin",
    "BoundWindow",
    "Columns",
    "DataType",
    "Emit",
    "Join",
    "JoinKind",
    "JoinType",
    "LateData",
    "Moment",
    "Pipeline",
    "RunSettings",
    "Side",
    "Source",
    "StateStore",
    "Target",
    "Watermark",
    "Window",
    "WindowKind",
    "aggregate_result",
    "bind",
    "bind_join",
    "changes",
    "check_columns",
    "check_join_columns",
    "sending_of",
]
