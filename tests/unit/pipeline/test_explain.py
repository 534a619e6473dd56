from __future__ import annotations

import pytest

from tests.unit.pipeline.examples import (
    COUNT,
    UNSET,
    Data,
    hopping,
    pipeline,
    session,
    source,
    tumbling,
)
from tidegate.pipeline import Pipeline

WHOLE = """\
pipeline visits

sources
  clicks: kafka (topic='clicks', sasl.password='***')
    event time  column ts, ms since 1970
    watermark   latest event seen, less 10 s; idle after 1 min; rows over 1 d ahead of the clock \
are rejected
    transform   SELECT * FROM source
  views: memory
    event time  the clock when the row is read
    watermark   latest event seen; moves after 100 more rows; idle after 5 s; follows the clock \
while all are idle

operator window
  reads     clicks and views
  windows   session, over after 30 s of silence, sealed at 1 d
  keys      user, page
  computes  count               = number of rows
            sum_amount          = sum(amount)
            visitors            = count_distinct(user), approx
            count_distinct_page = count_distinct(page), exact, at most 100000
            collect_amount      = collect(amount), at most 10000
  late      once the watermark is 5 s past the end of their window, rows go to channel late, \
with the reason
  sends     a window once, when its lateness is over

state
  postgres, schema streams; table of keys every 1 min
  window: about 124 bytes per key and open window, 124 MB with one window for each of 1,000,000 keys
    visitors: up to 16,384 bytes more
    count_distinct_page: up to 100,000 values more
    collect_amount: up to 10,000 values more
  limit: 1,000,000 keys or 2.5 GB; then rows of new keys are shed

target
  parquet (path='/out'): appends only

channels
  late: json (path='/late')
  rejected: counted only
"""


def _explained(**parts: object) -> str:
    return Pipeline.from_dict(pipeline(**parts)).explain()


def test_a_plan_is_explained_in_sections() -> None:
    text = _explained(
        sources=[
            source(
                format="kafka",
                event_time_unit="ms",
                watermark={"max_out_of_order_ms": 10_000},
                transform="SELECT *\n  FROM source",
                options={"topic": "clicks", "sasl.password": "hunter2"},
            ),
            source(
                name="views",
                event_time="arrival",
                watermark={
                    "advance_threshold": 100,
                    "advance_when_idle": True,
                    "source_idleness_ms": 5_000,
                },
            ),
        ],
        window=session(
            group_by=["user", "page"],
            late_data="side_output",
            allowed_lateness_ms=5_000,
            aggregations=[
                COUNT,
                {"kind": "sum", "input_column": "amount"},
                {"kind": "count_distinct", "input_column": "user", "output_name": "visitors"},
                {"kind": "count_distinct", "input_column": "page", "mode": "exact"},
                {"kind": "collect", "input_column": "amount"},
            ],
        ),
        target={"format": "parquet", "options": {"path": "/out"}},
        late={"format": "json", "options": {"path": "/late"}},
        state_store={
            "kind": "postgres",
            "url": "postgresql://ann:hunter2@db/x",
            "schema": "streams",
            "max_keys": 1_000_000,
            "max_state_bytes": 2_500_000_000,
            "on_state_cap": "shed",
        },
    )
    assert text == WHOLE


def test_output_columns_are_shown_where_their_types_are_known() -> None:
    text = _explained(sources=source(columns={"ts": "timestamp", "user": "string"}))
    assert text.endswith(
        "output columns\n"
        "  user          string\n"
        "  window_start  timestamp\n"
        "  window_end    timestamp\n"
        "  session_id    long\n"
        "  count         long\n"
        "  revision      long\n"
    )


@pytest.mark.parametrize(
    ("window", "line"),
    [
        (tumbling(), "windows   tumbling, 1 min each"),
        (tumbling(offset_ms=-100), "windows   tumbling, 1 min each, bounds moved by -100 ms"),
        (hopping(), "windows   hopping, 1 min each, a new one every 10 s"),
        (
            session(gap_ms=UNSET, gap_column="gap"),
            "windows   session, over after the silence that column gap gives in ms "
            "(a row without: left out), sealed at 1 d",
        ),
        (
            session(gap_ms=UNSET, gap_column="gap", nonpositive_gap="keep"),
            "windows   session, over after the silence that column gap gives in ms "
            "(a row without: a session of length 0), sealed at 1 d",
        ),
        (tumbling(), "keys      none: one group for all rows"),
        (
            session(),
            "late      once the watermark passes the end of their window, rows are dropped "
            "and counted",
        ),
        (
            session(allowed_lateness_ms="unbounded"),
            "late      never: a window takes rows for ever, and is held for ever",
        ),
        (
            session(late_data="reassign", max_lateness_ms=60_000),
            "late      once the watermark passes the end of their window, rows count at the "
            "watermark if at most 1 min late, else are dropped and counted",
        ),
        (
            session(late_data="reopen"),
            "sends     a window when it closes, and again whenever late rows change it",
        ),
        (
            session(emit="on_update"),
            "sends     a window in each epoch that changed it, as it is then",
        ),
        (
            session(emit="changelog"),
            "sends     a window as its changes, in rows with op (+I, -U, +U, -D)",
        ),
        (
            session(emit="final"),
            "sends     a window once, when its lateness is over; late rows are gone",
        ),
        (
            session(emit="every", every_ms=10_000),
            "sends     a window every 10 s of event time if it changed, when it closes and when "
            "it is over",
        ),
    ],
)
def test_windows_are_explained_in_words(window: Data, line: str) -> None:
    assert f"  {line}\n" in _explained(window=window)


def test_embedded_state_says_where_it_is_and_that_nothing_limits_it() -> None:
    text = _explained(state_store={"url": "/var/state"})
    assert "  sqlite in /var/state; table of keys every 1 min\n" in text
    assert "  no limit\n" in text


@pytest.mark.filterwarnings("ignore::tidegate.errors.InMemoryStateWarning")
def test_state_in_memory_says_so() -> None:
    assert "  in memory: a crash loses all of it\n" in _explained(state_store={"kind": "in_memory"})


GRAPH = """\
pipeline visits

graph
  clicks
  -> visits        by user; about 76 bytes per key and open window
                   reads clicks by ts, at its watermark
                   writes to postgres visits
     -> hours      without a key; about 68 bytes per key and open window
                   reads visits by window_start, 1 d 30 s behind its watermark
                   writes to parquet out
     -> pairs      by user; about 89 bytes per waiting left row, 65 bytes per right row
                   reads visits by window_time, 1 us behind its watermark
                   reads orders by at, at its watermark
        -> bought  by user; about 76 bytes per key and open window
                   reads pairs by match_ts, up to 1 min 5 s behind its watermark
                   writes to memory
  orders
  -> pairs         as above

sources
"""


def test_a_graph_is_drawn_in_front() -> None:
    pairs = {"id": "pairs", "left": "visits", "right": "orders", "on": "user"}
    panes = {"kind": "tumbling_tumbling", "size_ms": 60_000, "allowed_lateness_ms": 5_000}
    table = {"table": "visits", "url": "postgresql://ann:hunter2@db/x"}
    text = _explained(
        sources=[
            source(columns={"ts": "timestamp", "user": "long"}),
            source(
                name="orders",
                event_time="at",
                columns={"at": "timestamp", "user": "long", "n": "long"},
            ),
        ],
        window=UNSET,
        operators=[
            session(id="visits", inputs="clicks", target={"format": "postgres", "options": table}),
            tumbling(
                id="hours",
                event_time="window_start",
                target={"format": "parquet", "options": {"path": "out"}},
            ),
            {**pairs, **panes},
            tumbling(id="bought", inputs="pairs", group_by="user"),
        ],
    )
    assert text.startswith(GRAPH)
    assert (
        "targets\n"
        "  visits: postgres (table='visits', url='postgresql://***@db/x'): "
        "replaces and deletes by key\n"
        "  hours: parquet (path='out'): appends only\n"
        "  bought: memory: replaces and deletes by key\n"
    ) in text
    assert "output columns of hours\n" in text


def test_what_is_in_front_of_a_window_is_explained() -> None:
    select = {"user": "user", "n": "amount * 2"}
    text = _explained(window=session(where="amount >\n 1", select=select))
    assert (
        "  where     amount > 1\n"
        "  selects   user = user\n"
        "            n = amount * 2\n"
        "  windows   session"
    ) in text


def test_a_chain_is_explained_operator_by_operator() -> None:
    text = _explained(window=UNSET, operators=[session(id="a"), tumbling(id="b")])
    assert "operator a\n  reads     clicks\n" in text
    assert "operator b\n  reads     a\n" in text
