"""Aggregates of other packages: found by entry point, and named where they are broken."""

from __future__ import annotations

import pytest

from tests.fix_packages import Packages
from tests.unit.pipeline.examples import pipeline, problems_of, tumbling
from tidegate.errors import ConfigError
from tidegate.pipeline import Aggregation, Pipeline, Window, bind, changes
from tidegate.pipeline.aggregate_lookup import packages_missing, spec_of
from tidegate.pipeline.aggregates import AGGREGATES

COLUMNS = {"user": "string", "amount": "long"}
GROWTH = {"kind": "geometric_mean", "input_column": "amount"}

CODE = """
from tidegate.aggregates import LONG, AggregateSpec

def spec(**changes):
    usual = {"name": "total", "version": "1", "help": "a long", "takes": "a column of numbers"}
    return AggregateSpec(**{**usual, "result": lambda _: LONG, "make": print, **changes})
"""


TOTAL = {"total": "mine:TOTAL"}


def made(**parts: object) -> Pipeline:
    return Pipeline.from_dict(pipeline(window=tumbling(aggregations=[GROWTH]), **parts))


def test_an_aggregate_of_a_package_is_written_like_any_other(packages: Packages) -> None:
    packages.install_geometric_mean()
    window = Window.from_dict(tumbling(aggregations=[GROWTH]))
    assert window.aggregations[0].output_name == "geometric_mean_amount"
    bound = bind(window, COLUMNS)
    assert str(bound.output_schema["geometric_mean_amount"]) == "double"
    assert "geometric_mean_amount = geometric_mean(amount)" in made().explain()


def test_a_column_that_it_does_not_take_is_told_in_its_words(packages: Packages) -> None:
    packages.install_geometric_mean()
    window = Window.from_dict(tumbling(aggregations=[GROWTH]))
    (problem,) = problems_of(lambda: bind(window, {**COLUMNS, "amount": "string"}))
    assert (problem.at, problem.found, problem.expected) == (
        *("aggregations[0].input_column", "'amount' of type string"),
        "a column of numbers for geometric_mean",
    )


def test_a_misspelt_name_has_the_nearest_of_all(packages: Packages) -> None:
    packages.install_geometric_mean()
    (problem,) = problems_of(lambda: Aggregation(kind="geometric_maen", input_column="a"))
    assert problem.hint == "did you mean 'geometric_mean'?"
    names = [*AGGREGATES, "geometric_mean"]
    assert problem.expected == f"{', '.join(map(repr, names[:-1]))} or 'geometric_mean'"


def test_the_aggregates_of_tidegate_cannot_be_replaced(packages: Packages) -> None:
    packages.install("mine", "raise ValueError('loaded')", aggregates={"sum": "mine:SUM"})
    assert spec_of("sum") is AGGREGATES["sum"]
    (problem,) = problems_of(lambda: Aggregation(kind="smu", input_column="a"))
    assert problem.expected.count("'sum'") == 1


def test_a_package_that_is_not_used_is_not_loaded(packages: Packages) -> None:
    packages.install("mine", "raise ValueError('loaded')", aggregates=TOTAL)
    assert Aggregation(kind="sum", input_column="a").output_name == "sum_a"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ValueError('no such driver')", "cannot be loaded: ValueError: no such driver"),
        ("import no_such_module", "cannot be loaded: ModuleNotFoundError"),
        ("", "cannot be loaded: AttributeError"),
        ("TOTAL = 5", "is of type int"),
        (f"{CODE}TOTAL = spec(name='sum')", "calls itself 'sum'"),
        (f"{CODE}TOTAL = spec(version='')", "has no version"),
        (f"{CODE}TOTAL = spec(make=None)", "has no make"),
        (f"{CODE}TOTAL = spec(takes=None)", "has no takes"),
    ],
)
def test_a_broken_package_is_named(packages: Packages, code: str, said: str) -> None:
    packages.install("mine", code, aggregates=TOTAL)
    (problem,) = problems_of(lambda: Aggregation(kind="total", input_column="a"))
    assert problem.at == "kind"
    assert problem.found.startswith(f"'total' of mine 1.0: mine:TOTAL, which {said}")
    assert problem.expected == "a value of type AggregateSpec called 'total'"
    assert problem.hint == "install another version of mine; `pip uninstall mine` removes it"


def test_two_packages_with_one_name_are_both_named(packages: Packages) -> None:
    packages.install("mine", f"{CODE}TOTAL = spec()", aggregates=TOTAL)
    packages.install("yours", f"{CODE}TOTAL = spec()", aggregates={"total": "yours:TOTAL"})
    (problem,) = problems_of(lambda: Aggregation(kind="total", input_column="a"))
    assert (problem.found, problem.expected) == (
        *("'total' of mine 1.0: mine:TOTAL and yours 1.0: yours:TOTAL", "one package"),
    )


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("lambda column: 1 / 0", "long, for which total fails: ZeroDivisionError"),
        ("lambda column: 'long'", "long, for which total gives 'long'"),
    ],
)
def test_a_package_that_gives_no_type_is_named(packages: Packages, result: str, said: str) -> None:
    packages.install("mine", f"{CODE}TOTAL = spec(result={result})", aggregates=TOTAL)
    aggregation = {"kind": "total", "input_column": "amount"}
    window = Window.from_dict(tumbling(aggregations=[aggregation]))
    (problem,) = problems_of(lambda: bind(window, COLUMNS))
    assert said in problem.found
    assert problem.expected == "a type, or None, of package mine"


def test_the_fingerprint_says_which_version_of_which_package(packages: Packages) -> None:
    home = packages.install_geometric_mean()
    before = made().fingerprint_fields()
    (operator,) = before["operators"].values()
    assert operator["aggregate_packages"] == {
        "geometric_mean": {"package": "tidegate-geometric-mean", "version": "1"}
    }
    (code,) = home.glob("*.py")
    code.write_text(code.read_text().replace('version="1"', 'version="2b"'))
    packages.forget(code.stem)
    assert changes(before, made().fingerprint_fields()) == [
        "window.aggregate_packages.geometric_mean.version changed from '1' to '2b'"
    ]


def test_no_package_is_part_of_the_fingerprint_of_the_aggregates_of_tidegate() -> None:
    fields = Pipeline.from_dict(pipeline()).fingerprint_fields()
    assert "aggregate_packages" not in str(fields)


def test_what_is_missing_is_said(packages: Packages) -> None:
    wanted = {"geometric_mean": {"package": "tidegate-geometric-mean", "version": "1"}}
    what = "aggregate 'geometric_mean', version '1' of package tidegate-geometric-mean: "
    assert packages_missing(wanted) == [f"{what}not installed here"]
    packages.install_geometric_mean()
    assert packages_missing(wanted) == []
    newer = {"geometric_mean": {"package": "other", "version": "0"}}
    assert packages_missing(newer) == [
        "aggregate 'geometric_mean', version '0' of package other: "
        "here it is version '1' of package tidegate-geometric-mean"
    ]
    assert packages_missing({"sum": {"package": "mine", "version": "1"}}) == [
        "aggregate 'sum', version '1' of package mine: here it is one of Tidegate"
    ]


def test_a_package_that_is_gone_is_an_error_that_says_how_to_get_it(packages: Packages) -> None:
    packages.install_geometric_mean()
    window = Window.from_dict(tumbling(aggregations=[GROWTH]))
    packages.uninstall("tidegate-geometric-mean")
    with pytest.raises(ConfigError, match="install the package that registers 'geometric_mean'"):
        spec_of(window.aggregations[0].kind)
