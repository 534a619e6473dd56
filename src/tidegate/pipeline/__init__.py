"""What to run: a pipeline as a frozen value.

    Source, Target, Window(Aggregation), Watermark, StateStore -> Pipeline

A value is right once it exists: whatever is wrong with it is reported at once, as a
`ConfigError` with the path, the value, what is expected and what to do. Nothing here
reads a clock, a file or the network.
"""

from tidegate.pipeline.binding import BoundAggregation, BoundWindow, bind, check_columns
from tidegate.pipeline.datatypes import AggregationKind, DataType, aggregate_result
from tidegate.pipeline.watermark import Watermark
from tidegate.pipeline.window import Aggregation, Window

__all__ = [
    "Aggregation",
    "AggregationKind",
    "BoundAggregation",
    "BoundWindow",
    "DataType",
    "Watermark",
    "Window",
    "aggregate_result",
    "bind",
    "check_columns",
]
