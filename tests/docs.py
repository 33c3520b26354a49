"""Write the parts of the documentation that are made from the source: `python -m tests.docs`.

docs/formats.md comes from the table of formats, docs/functions.md from the catalogue of functions,
docs/settings.md from the properties and the engine's settings, docs/metrics.md from the metrics,
docs/sql.md from the grammar and tests/sql_reference.md, docs/refused.md from tests/refusals/table,
and the stub of `millstream.fn` from the catalogue of functions.
tests/test_docs.py fails while a file is not what this would write.
"""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from millstream.catalog.formats import ALL_TYPES, CAPABILITIES, NESTED_TYPES, Capability
from millstream.functions.catalogue import builtin_catalogue
from millstream.functions.function import Function
from millstream.metrics.families import SECTIONS
from millstream.metrics.figures import (
    BackfillMetrics,
    Commits,
    EngineMetrics,
    PartitionPosition,
    ProcessMetrics,
    QueryMetrics,
    Restoration,
    SubTopologyMetrics,
    Traffic,
)
from millstream.model.properties import PROPERTIES
from millstream.model.settings import OF_INSTANCE, UNSUPPORTED, EngineSettings
from millstream.runtime.durations import Durations
from millstream_server.bootstrap.options import OPTIONS
from tests.docs_refused import chapters, refused
from tests.docs_sql import sql
from tests.stubs import stub

DOCS = Path(__file__).resolve().parent.parent / "docs"
MADE = "Made from the source by `make docs`; do not edit.\n"
SHAPES = (
    EngineMetrics,
    QueryMetrics,
    SubTopologyMetrics,
    Traffic,
    PartitionPosition,
    Restoration,
    Commits,
    Durations,
    ProcessMetrics,
    BackfillMetrics,
)
"""What `Database.metrics()` is made of."""


def functions() -> str:
    """docs/functions.md."""
    catalogue = builtin_catalogue()
    by_category: dict[str, list[Function]] = {}
    for scalar in catalogue.scalar.values():
        by_category.setdefault(scalar.category.capitalize(), []).append(scalar)
    by_category["Aggregate functions"] = list(catalogue.aggregate.values())
    by_category["Table functions"] = list(catalogue.table.values())
    count = sum(map(len, by_category.values()))
    text = f"# Functions\n\n{MADE}\n{count} functions. A NULL argument gives NULL unless the "
    text += "description says otherwise. Every example is a test.\n"
    for category in sorted(by_category):
        text += f"\n## {category}\n"
        for function in sorted(by_category[category], key=lambda item: item.name):
            text += "\n" + "\n".join(_entry(function)) + "\n"
    return text


def _entry(function: Function) -> Iterator[str]:
    yield f"### {function.name}\n"
    yield f"{function.description}\n"
    yield "```"
    for signature in function.signatures:
        yield f"{function.name}({signature})"
    yield "```"
    if function.examples:
        yield ""
    for example in function.examples:
        yield f"* `{example.expression}` is `{example.result}`"


def properties() -> str:
    """docs/settings.md."""
    text = f"# Settings\n\n{MADE}\n## Properties of a session\n\n"
    text += "Set with `SET 'name' = 'value';`, undone with `UNSET 'name';`, listed by "
    text += "`SHOW PROPERTIES;`. A persistent query keeps those it was created under for life. "
    text += "Each may be written with `ksql.streams.` before it.\n\n"
    text += "| property | values | default | meaning |\n|---|---|---|---|\n"
    for item in PROPERTIES:
        values = item.kind.replace("|", ", ")
        default = f"`{item.default}`" if item.default else ""
        text += f"| `{item.name}` | {values} | {default} | {item.description} |\n"
    text += "\n### Properties of Kafka Streams\n\n"
    text += "These count for a whole instance. They are given to `connect` among its properties or "
    text += "to the server's configuration; `SET` refuses them, or says that it has no effect:\n\n"
    text += "| property | setting |\n|---|---|\n"
    for name, setting in OF_INSTANCE.items():
        text += f"| `{name}` | `{setting}` |\n"
    text += "\nFor these there is nothing here. They are refused; in the server's configuration, "
    text += "they bring a warning:\n\n| property | why |\n|---|---|\n"
    for name, reason in UNSUPPORTED.items():
        text += f"| `{name}` | {reason} |\n"
    text += "\n## Settings of an engine\n\n"
    text += "Given to `millstream.connect(path, settings=EngineSettings(…))`.\n\n"
    text += "| setting | default | meaning |\n|---|---|---|\n"
    meanings = _docstrings(EngineSettings)
    defaults = EngineSettings()
    for field in fields(EngineSettings):
        meaning = meanings.get(field.name, "")
        text += f"| `{field.name}` | `{getattr(defaults, field.name)!r}` | {meaning} |\n"
    return text + _server()


def _server() -> str:
    text = "\n## Settings of the server\n\n"
    text += "Given to `millstream server start` by files, environment and flags "
    text += "([server.md](server.md)). No limit can be put above its most.\n\n"
    text += "| setting | value | default | most | meaning |\n|---|---|---|---|---|\n"
    for option in OPTIONS:
        default = f"`{option.default}`" if option.default else ""
        most = f"{option.most:,.0f}" if option.most else ""
        kind = option.kind.name.lower()
        text += f"| `{option.name}` | {kind} | {default} | {most} | {option.meaning} |\n"
    return text


METRICS = f"""# Metrics

{MADE}
`db.metrics()` tells what the queries have done, how far and how fast they are, and what the
process costs, as plain data:

```
told = db.metrics()
told.query("CTAS_SPENDING_1").lag                                 # records
told.query("CTAS_SPENDING_1").commits.took.quantile(0.99) / 1e6   # ms
told.arrow()                   # a table: a row for each query and sub-topology
millstream.exposition(told)    # text for Prometheus
```

`GET /metrics` of a server returns that text, or the same as OpenMetrics where `Accept` prefers it.

The same is in `SHOW QUERIES EXTENDED`, `EXPLAIN` of a query's id and `DESCRIBE … EXTENDED`.

* Counters begin at zero when the database is opened or the query is made, also when CREATE OR
  REPLACE makes it anew.
* Rates are means over the last half minute, or since the query is there. A thread writes the
  counters down once a second; the last point is the moment of the question.
* Repartition topics and changelogs carry a batch of rows in each record. Their records, lags and
  restorations count batches.
* A query's records are those of all its sub-topologies: what goes through a repartition topic is
  counted there again.
* An engine tells of what it does itself: the partitions it reads and the tasks it holds.
* What is not known is None in Python, NULL in the table, and left out of the text.
"""


FORMATS = """What may be named in FORMAT, KEY_FORMAT and VALUE_FORMAT. A statement that names
another is refused, and so are columns, WRAP_SINGLE_VALUE and settings that a format does not have.

* Keys of maps are STRING in every format. Keys of records hold no maps.
* Formats with keys take windowed ones: the bounds of the window follow the key's bytes.
* JOIN and GROUP BY do not work on values in the KAFKA format.
* Records in the format MSGPACK are read and written one by one in Python, those of the other
  formats by columns. So it costs much more CPU for each record. AVRO and PROTOBUF are read one by
  one where a column has another type than the schema, and so are single records that are bad or
  written as is seldom done, such as those of JSON_SR whose maps are lists of their entries.
* AVRO, JSON_SR and PROTOBUF have their schemas in a registry: a payload begins with a zero and the
  id of its schema. CREATE without columns takes them from the newest schema of the subject (the
  name of the topic, then -key or -value), or from VALUE_SCHEMA_ID; with columns it registers a
  schema where there is none; CREATE … AS SELECT registers that of its result. A payload is read by
  its own schema: fields by their names in any case, NULL for those that it does not have.
* A database in a file has a registry of its own: its schemas are records of an internal topic.
  Another one is named by `connect(…, schema_registry="http://localhost:8081")`, by
  --schema-registry, or by the server's settings `ksql.schema.registry.url` and others of
  confluent-kafka's client with that prefix (`basic.auth.user.info`, `bearer.auth.token`,
  `ssl.ca.location`, `ssl.certificate.location`, `ssl.key.location`, `timeout` in seconds). On Kafka
  these formats are refused without one. Schemas of Protobuf may be texts or descriptors in base64.
* A schema that is registered must be compatible with the earlier ones of its subject, by its level
  (NONE, BACKWARD, FORWARD, FULL, and …_TRANSITIVE), which is BACKWARD unless it is set
  ([over HTTP](server.md#the-schema-registry)).
* The id may be in a header instead (`__key_schema_id`, `__value_schema_id`), as Confluent's
  serialisers write it with `header_schema_id_serializer`: the global id of the schema behind a 1,
  or its id behind a 0. Millstream writes ids before payloads, and passes these headers on to no
  result.
* A field of several types is a STRUCT with a member for each, of which a value has one: in AVRO by
  the names of the types, in JSON_SR by those of Kafka Connect
  (`io.confluent.connect.json.OneOf.field.0`, …); a `oneof` of PROTOBUF is a column for each. Such
  structs are read; a sink has them as plain structs.
* A query that finds the id of a schema which the registry does not have, or does not tell, waits
  with the reason in its status and goes on by itself. What it has told is kept: queries with known
  schemas go on while it is down.
* A NULL scalar of a PROTOBUF record is written as a zero, and read as one, in pull queries too;
  PROTOBUF_NULLABLE_REPRESENTATION gives it a place.
* A record in the MSGPACK format is a map, and its fields are found and converted as those of JSON.
  BYTES are MessagePack's `bin`, and a TIMESTAMP is its extension type -1 (a number of milliseconds
  is read, too). DATE and TIME are numbers as in JSON: days, and milliseconds. A DECIMAL is written
  as text, so that no digit is lost, and read from text and from numbers. Other extension types,
  keys of maps that are not text, values nested more than 200 deep, and bytes behind the record make
  it invalid.
"""


def metrics() -> str:
    """docs/metrics.md."""
    text = f"{METRICS}\n## In Python\n"
    for shape in SHAPES:
        text += f"\n### {shape.__name__}\n\n{inspect.cleandoc(shape.__doc__ or '')}\n\n"
        meanings = _docstrings(shape)
        for item in fields(shape):
            meaning = meanings.get(item.name)
            text += f"* `{item.name}`: `{item.type}`{f'. {meaning}' if meaning else ''}\n"
    text += "\n## For Prometheus\n"
    for title, families in SECTIONS.items():
        text += f"\n### {title}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n"
        for family in families:
            labels = ", ".join(family.labels)
            text += f"| `{family.name}` | {family.kind} | {labels} | {family.meaning} |\n"
    return text


def _docstrings(shape: type) -> dict[str, str]:
    """The strings that stand below the fields of a class."""
    (found,) = ast.parse(inspect.getsource(shape)).body
    assert isinstance(found, ast.ClassDef)
    return {
        field.target.id: " ".join(str(below.value.value).split())
        for field, below in itertools.pairwise(found.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
    }


def formats() -> str:
    """docs/formats.md."""
    text = f"# Formats\n\n{MADE}\n{FORMATS}\n"
    text += "| format | registry | types | several columns | keys | wrapping | settings |\n"
    text += "|---|---|---|---|---|---|---|\n"
    for name, able in CAPABILITIES.items():
        cells = (
            name,
            "yes" if able.registry else "no",
            _types(able),
            "yes" if able.many_columns and able.types else "no",
            "yes" if able.keys else "no",
            {(): "none", (False,): "never", (True,): "always"}.get(tuple(able.wraps), "as chosen"),
            ", ".join(f"`{setting}`" for setting in sorted(able.settings)) or "none",
        )
        text += f"| {' | '.join(cells)} |\n"
    return text


def _types(able: Capability) -> str:
    if able.types == ALL_TYPES:
        return "all"
    if able.types == ALL_TYPES - NESTED_TYPES:
        return f"all but {', '.join(sorted(NESTED_TYPES))}"
    return ", ".join(sorted(able.types)) or "none"


FILES = {
    "sql.md": lambda: sql(MADE, chapters()),
    "refused.md": lambda: refused(MADE),
    "../engine/millstream/dsl/fn.pyi": stub,
    "formats.md": formats,
    "functions.md": functions,
    "metrics.md": metrics,
    "settings.md": properties,
}


def main() -> None:
    """Write all files."""
    for name, text in FILES.items():
        (DOCS / name).write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
