"""What a pipeline means: pure functions on Polars frames, arrays and integers.

No Spark, no SQL, no clock, no logging, no environment. Start reading at `step`.
"""
