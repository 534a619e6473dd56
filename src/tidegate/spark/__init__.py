"""Who runs a pipeline: the only room that knows Spark.

    running -> engine (plan, commit, publish) -> job -> map_task | shuffle | step_task

Nothing in here can be wrong about event time: it moves rows to `core.step` and remembers
what comes back.
"""
