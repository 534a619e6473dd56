"""What runs in a task: read and admit rows, split them by shard, step operators, stage the result.

The driver's side (`engine`) and whatever runs tasks (`spark`, or the engine in its own process)
import it; it knows neither Spark nor the driver.
"""
