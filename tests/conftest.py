"""Fixtures come from small plug-ins, named by what they fix."""

pytest_plugins = ["tests.fix_spark"]
