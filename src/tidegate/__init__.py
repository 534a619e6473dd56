"""Tidegate: event-time stream processing on Spark, with state one can see and trust.

A pipeline is a pure step, `(plan, state, events, watermark) -> (changes, output)`, run once
per shard per epoch. Spark moves the rows; the state store remembers; nothing is seen before
it is committed.
"""
