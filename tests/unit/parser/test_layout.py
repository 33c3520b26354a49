"""SQL in one layout."""

from __future__ import annotations

import pytest

from millstream_parser.layout import format_script

CASES = {
    "one line": (
        "select  a,b\nfrom s  where a=1 emit changes ;",
        "SELECT a, b FROM s WHERE a = 1 EMIT CHANGES;\n",
    ),
    "clauses": (
        "create table t as select customer, count(*) as orders, sum(amount) as total from orders"
        " window tumbling (size 1 hour, grace period 10 minutes) where amount > -5 and a->b like"
        " 'x' group by customer having count(*)>3 emit changes limit 3;",
        """\
CREATE TABLE t AS
  SELECT customer, count(*) AS orders, sum(amount) AS total
  FROM orders
  WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 10 MINUTES)
  WHERE amount > -5 AND a->b LIKE 'x'
  GROUP BY customer
  HAVING count(*) > 3
  EMIT CHANGES
  LIMIT 3;
""",
    ),
    "columns": (
        "create stream orders (id string key, customer varchar, item struct<name string,"
        " tags array<map<string, int>>>, amount decimal(10,2)) with (kafka_topic = 'orders');",
        """\
CREATE STREAM orders (
  id STRING KEY,
  customer VARCHAR,
  item STRUCT<name STRING, tags ARRAY<MAP<STRING, INT>>>,
  amount DECIMAL(10, 2)
) WITH (kafka_topic='orders');
""",
    ),
    "a long list": (
        "select first_name, last_name, some_long_expression(with_arguments, and_more) as x,"
        " case when a between 1 and 2 and b then 'one of them' when c then 'another' else 'none of"
        " all these' end as kind, d from s emit changes;",
        """\
SELECT
  first_name,
  last_name,
  some_long_expression(with_arguments, and_more) AS x,
  CASE
    WHEN a BETWEEN 1 AND 2 AND b THEN 'one of them'
    WHEN c THEN 'another'
    ELSE 'none of all these' END AS kind,
  d
FROM s
EMIT CHANGES;
""",
    ),
    "joins": (
        "create stream j as select o.id from orders o left join customers c within 1 hour grace"
        " period 5 minutes on o.customer=c.id inner join items i on o.item=i.id emit changes;",
        """\
CREATE STREAM j AS
  SELECT o.id
  FROM orders o
  LEFT JOIN customers c WITHIN 1 HOUR GRACE PERIOD 5 MINUTES ON o.customer = c.id
  INNER JOIN items i ON o.item = i.id
  EMIT CHANGES;
""",
    ),
    "signs": (
        "select -a, a - -1, (-b)*-2, x[-1] from s;",
        "SELECT -a, a - -1, (-b) * -2, x[-1] FROM s;\n",
    ),
    "names stay": (
        'select `a b`, "C", key, s.key, value from s;',
        'SELECT `a b`, "C", key, s.key, value FROM s;\n',
    ),
    "variables": (
        "define x='y'; print ${x}; select x${n} from s;",
        "DEFINE x = 'y';\nPRINT ${x};\nSELECT x${n} FROM s;\n",
    ),
    "comments": (
        "-- about\n\n-- this\nselect a, -- first\n b /* second */ from s; -- end\n\n\n-- last",
        """\
-- about

-- this
SELECT
  a,  -- first
  b  /* second */
FROM s;  -- end

-- last
""",
    ),
    "paragraphs": ("select 1;\n\n\n\nselect 2; select 3;", "SELECT 1;\n\nSELECT 2;\nSELECT 3;\n"),
    "replaced": (
        "create or replace stream a_rather_long_name (a_column string key, another_column bigint,"
        " a_third_column double) with (kafka_topic='orders');",
        """\
CREATE OR REPLACE STREAM a_rather_long_name (
  a_column STRING KEY,
  another_column BIGINT,
  a_third_column DOUBLE
) WITH (kafka_topic='orders');
""",
    ),
    "nothing": (" \n ", ""),
    "not closed": ("select 'a", "SELECT 'a\n"),
}


@pytest.mark.parametrize("name", CASES)
def test_layout(name: str) -> None:
    text, expected = CASES[name]
    assert format_script(text) == expected
    assert format_script(expected) == expected


@pytest.mark.parametrize("opening", ["(", "[", "f(", "ARRAY<", "CASE WHEN "])
def test_deep_nesting_is_left_alone_or_laid_out(opening: str) -> None:
    text = f"SELECT {opening * 5000}1;"
    assert format_script(text).split() == text.split()


def test_long_statements_take_no_time_beyond_their_length() -> None:
    """Ten thousand conditions: squared, they would take minutes."""
    text = f"SELECT a FROM s WHERE {' OR '.join(f'a = {n}' for n in range(10_000))};"
    assert len(format_script(text).splitlines()) == 10_002
