"""Benchmarks: ratios within one run, each with its output checked."""
