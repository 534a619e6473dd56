"""Spark is the judge of the hash: every key type, against its own `xxhash64`.

Spark has two implementations, one that it interprets and one that it compiles; a user may meet
either, so both must agree with ours.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from tidegate.core.hashing import continue_with_long, xxhash64

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 808
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FOLD_LOCALLY = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"


@pytest.fixture(scope="module", params=["interpreted", "compiled"])
def judge(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """Spark with one of its two implementations: by default it interprets what is this small."""
    if request.param == "compiled":
        spark.conf.set("spark.sql.optimizer.excludedRules", FOLD_LOCALLY)
        spark.conf.set("spark.sql.codegen.factoryMode", "CODEGEN_ONLY")
    else:
        spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield spark
    spark.conf.unset("spark.sql.optimizer.excludedRules")
    spark.conf.unset("spark.sql.codegen.factoryMode")


def texts(dice: random.Random) -> list[str]:
    """Strings of 0 to 100 characters, eight of each length, half of them beyond ASCII."""
    narrow, mixed = "abcXYZ 0123456789-_", "aé☃😀ßΩ漢\x00\U0010ffff"
    alphabets = (narrow, mixed) * 4
    return ["".join(dice.choices(a, k=n)) for n in range(101) for a in alphabets]


def integers(dice: random.Random, bits: int) -> list[int]:
    edges = [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]
    return edges + [dice.getrandbits(bits) - 2 ** (bits - 1) for _ in range(ROWS - len(edges))]


def decimals(dice: random.Random, precision: int, scale: int) -> list[Decimal]:
    """Return numbers of every size, with the edges at which a number needs one byte more."""
    edges = [sign * (2**bits + d) for bits in range(128) for d in (-1, 0, 1) for sign in (1, -1)]
    edges += [10**precision - 1, 1 - 10**precision]
    unscaled = [value for value in edges if abs(value) < 10**precision]
    while len(unscaled) < ROWS:
        size = 10 ** dice.randint(1, precision)
        unscaled.append(dice.randrange(1 - size, size))
    dice.shuffle(unscaled)
    return [Decimal(f"{value}e-{scale}") for value in unscaled]


def instants(dice: random.Random) -> list[datetime]:
    edges = [EPOCH, EPOCH - timedelta(microseconds=1), datetime(1, 1, 1, tzinfo=UTC)]
    spread = 10**16
    others = [dice.randrange(-spread, spread) for _ in range(ROWS - len(edges))]
    return edges + [EPOCH + timedelta(microseconds=us) for us in others]


def floats(dice: random.Random) -> list[float]:
    edges = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 5e-324, 1e-45, 3.4e38]
    return edges + [dice.gauss(0, 10.0 ** dice.randint(-5, 5)) for _ in range(ROWS - len(edges))]


def odd_nans() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    bits = np.array([0x7FF8000000000001, 0xFFF8000000000000, 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)
    return np.resize(bits.view(np.float64), ROWS)


def table() -> pl.DataFrame:
    dice = random.Random(20260102)
    days = [
        date(1970, 1, 1) + timedelta(days=dice.randint(-700_000, 2_900_000)) for _ in range(ROWS)
    ]
    instant = pl.Series(instants(dice), dtype=pl.Datetime("us", "UTC"))
    text = texts(dice)
    return pl.DataFrame(
        {
            "flag": pl.Series([bool(dice.getrandbits(1)) for _ in range(ROWS)]),
            "byte": pl.Series(integers(dice, 8), dtype=pl.Int8),
            "short": pl.Series(integers(dice, 16), dtype=pl.Int16),
            "int": pl.Series(integers(dice, 32), dtype=pl.Int32),
            "long": pl.Series(integers(dice, 64), dtype=pl.Int64),
            "day": pl.Series(days, dtype=pl.Date),
            "instant": instant,
            "instant_there": instant.dt.convert_time_zone("Asia/Kathmandu"),
            "local": instant.dt.replace_time_zone(None),
            "text": pl.Series(text),
            "bytes": pl.Series([t.encode("utf-16-le") + b"\xff" * (len(t) % 2) for t in text]),
            "decimal_1": pl.Series(decimals(dice, 1, 0), dtype=pl.Decimal(1, 0)),
            "decimal_9_2": pl.Series(decimals(dice, 9, 2), dtype=pl.Decimal(9, 2)),
            "decimal_18_4": pl.Series(decimals(dice, 18, 4), dtype=pl.Decimal(18, 4)),
            "decimal_19_0": pl.Series(decimals(dice, 19, 0), dtype=pl.Decimal(19, 0)),
            "decimal_25_10": pl.Series(decimals(dice, 25, 10), dtype=pl.Decimal(25, 10)),
            "decimal_38_0": pl.Series(decimals(dice, 38, 0), dtype=pl.Decimal(38, 0)),
            "decimal_38_38": pl.Series(decimals(dice, 38, 38), dtype=pl.Decimal(38, 38)),
            "float": pl.Series(floats(dice)).cast(pl.Float32),
            "double": pl.Series(floats(dice)),
            "odd_nan": pl.Series(odd_nans()),
        }
    )


def with_nulls(rows: pl.DataFrame) -> pl.DataFrame:
    """Make another third of each column NULL, and all of one row."""
    row = pl.int_range(pl.len())
    return rows.select(
        pl.when((row + nth) % 3 > 0, row != 7).then(pl.col(name)).alias(name)
        for nth, name in enumerate(rows.columns)
    )


TABLE = table()
NULLED = with_nulls(TABLE)


def spark_says(judge: SparkSession, rows: pl.DataFrame, *expressions: str) -> list[list[int]]:
    """Evaluate expressions over the rows in Spark; `@row` keeps their order."""
    frame = judge.createDataFrame(rows.with_row_index("@row").cast({"@row": pl.Int64}).to_arrow())
    found = frame.selectExpr("`@row`", *(f"{e} as h{n}" for n, e in enumerate(expressions)))
    columns = pl.DataFrame(found.toArrow()).sort("@row").drop("@row")
    return [column.to_list() for column in columns]


def test_every_type_alone(judge: SparkSession) -> None:
    for rows in (TABLE, NULLED):
        says = spark_says(judge, rows, *(f"xxhash64({name})" for name in rows.columns))
        for column, expected in zip(rows, says, strict=True):
            assert xxhash64([column]).tolist() == expected, column.name


def test_columns_in_any_company(judge: SparkSession) -> None:
    dice = random.Random(7)
    keys = [dice.sample(NULLED.columns, dice.randint(2, 6)) for _ in range(20)]
    says = spark_says(judge, NULLED, *(f"xxhash64({', '.join(key)})" for key in keys))
    for key, expected in zip(keys, says, strict=True):
        assert xxhash64([NULLED[name] for name in key]).tolist() == expected, key


def test_a_timestamp_without_a_zone(judge: SparkSession) -> None:
    (expected,) = spark_says(judge, NULLED, "xxhash64(cast(local as timestamp_ntz))")
    assert xxhash64([NULLED["local"]]).tolist() == expected


def test_all_columns_at_once(judge: SparkSession) -> None:
    (expected,) = spark_says(judge, NULLED, f"xxhash64({', '.join(NULLED.columns)})")
    assert xxhash64(NULLED.get_columns()).tolist() == expected


@pytest.mark.parametrize("key", [["text"], ["long"], ["text", "decimal_38_0", "day", "flag"]])
def test_a_session_id_can_be_recomputed_in_sql(judge: SparkSession, key: list[str]) -> None:
    rows = NULLED.with_columns(window_start=TABLE["instant"])
    (expected,) = spark_says(judge, rows, f"xxhash64({', '.join(key)}, window_start)")
    start_us = TABLE["instant"].to_physical().to_numpy()
    found = continue_with_long(xxhash64([NULLED[name] for name in key]), start_us)
    assert found.tolist() == expected
