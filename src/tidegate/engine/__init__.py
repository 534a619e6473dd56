"""Who decides: which epoch comes next, when it is committed, what happens after a failure.

It does not know Spark: an `Executor` runs the tasks of an epoch. `spark` and `frontends` import it.
"""
