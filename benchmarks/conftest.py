"""One thread for Polars, as in a Spark worker; set before anything imports it."""

import os

os.environ["POLARS_MAX_THREADS"] = "1"
