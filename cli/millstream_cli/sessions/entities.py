"""A server's responses to statements, as messages and tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from millstream.log.usage import USAGE_COLUMNS
from millstream.model.iso_times import iso_timestamp
from millstream_cli.screen.cells import cell
from millstream_cli.sessions.results import Message, Outcome, ResultTable, Row

Entity = Mapping[str, Any]


def outcomes(entity: Entity) -> Iterator[Outcome]:
    """An entity as the shell shows it, followed by its warnings."""
    kind = str(entity.get("@type", ""))
    reader = _READERS.get(kind)
    if kind in _SEVERAL:
        field, inner = _SEVERAL[kind]
        for item in entity.get(field) or ():
            yield from outcomes({"@type": inner, inner: item})
    elif reader is not None:
        yield reader(entity)
    elif kind in _LISTS:
        field, columns = _LISTS[kind]
        yield _listed(entity, entity.get(field) or [], columns)
    elif kind in _SENTENCES:
        yield Message(_SENTENCES[kind](entity), kind == "warning_entity", entity)
    else:
        yield _anything(entity)
    for warning in entity.get("warnings") or ():
        yield Message(str(warning.get("message")), warning=True)


def type_text(schema: Mapping[str, Any] | None) -> str:
    """The SQL text of a type, from its JSON description."""
    match schema:
        case {"type": "ARRAY", "memberSchema": member}:
            return f"ARRAY<{type_text(member)}>"
        case {"type": "MAP", "memberSchema": member}:
            return f"MAP<STRING, {type_text(member)}>"
        case {"type": "STRUCT", "fields": list(fields)}:
            inner = ", ".join(f"{f['name']} {type_text(f.get('schema'))}" for f in fields)
            return f"STRUCT<{inner}>"
        case {"type": "DECIMAL", "parameters": {"precision": precision, "scale": scale}}:
            return f"DECIMAL({precision}, {scale})"
        case {"type": kind}:
            return str(kind)
        case _:
            return str(schema or "")


def _listed(entity: Entity, items: Sequence[Entity], columns: Mapping[str, str]) -> ResultTable:
    rows = [tuple(_flat(item.get(name)) for name in columns.values()) for item in items]
    footer = "For details: EXPLAIN <Query ID>;" if entity["@type"] == "queries" else ""
    return ResultTable(list(columns), rows, footer=footer, entity=entity)


def _flat(value: Any) -> Any:
    match value:
        case bool():
            return cell(value)
        case dict():
            return ",".join(f"{name}:{count}" for name, count in value.items())
        case list():
            return ", ".join(str(item) for item in value)
        case _:
            return value


_SOURCE = {
    "Kafka Topic": "topic",
    "Key Format": "keyFormat",
    "Value Format": "valueFormat",
    "Windowed": "isWindowed",
}
_LISTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "streams": ("streams", {"Stream Name": "name", **_SOURCE}),
    "tables": ("tables", {"Table Name": "name", **_SOURCE}),
    "queries": (
        "queries",
        {
            "Query ID": "id",
            "Query Type": "queryType",
            "Status": "statusCount",
            "Sink Name": "sinks",
            "Sink Kafka Topic": "sinkKafkaTopics",
            "Query String": "queryString",
        },
    ),
    "function_names": ("functions", {"Function Name": "name", "Category": "category"}),
    "variables": ("variables", {"Variable Name": "name", "Value": "value"}),
    "connector_list": (
        "connectors",
        {"Connector Name": "name", "Type": "type", "Class": "className", "Status": "state"},
    ),
    "connector_plugins_list": (
        "connectorsPlugins",
        {"Class": "className", "Type": "type", "Version": "version"},
    ),
}
"""Entity that is a list -> its field, and column -> field of an item."""
_SENTENCES: Mapping[str, Callable[[Entity], str]] = {
    "currentStatus": lambda e: str(e["commandStatus"]["message"]).split("\n")[0],
    "warning_entity": lambda e: str(e["message"]),
    "terminate_query": lambda e: f"Query terminated: {e['queryId']}",
    "connector_info": lambda e: f"Created connector {e['info']['name']}",
    "drop_connector": lambda e: f"Dropped connector {e['connectorName']}",
    "assert_topic": lambda e: (
        f"Topic {e['topicName']} {'exists' if e.get('exists', True) else 'does not exist'}."
    ),
    "assert_schema": lambda e: (
        f"Schema {e.get('subject') or e.get('id')} "
        f"{'exists' if e.get('exists', True) else 'does not exist'}."
    ),
}


def _topics(entity: Entity) -> ResultTable:
    extended = entity["@type"] == "kafka_topics_extended"
    marked = any("internal" in topic for topic in entity["topics"])
    measured = any("endOffsets" in topic for topic in entity["topics"])
    columns = ["Kafka Topic", "Partitions", "Partition Replicas"]
    columns += ["Internal"] if marked else []
    rows: list[Row] = []
    for topic in entity["topics"]:
        replicas = topic.get("replicaInfo") or []
        same = len(set(replicas)) == 1
        shown = str(replicas[0]) if same else ", ".join(map(str, replicas))
        internal = ("true" if topic.get("internal") else "false",) if marked else ()
        more = (topic.get("consumerCount"), topic.get("consumerGroupCount")) if extended else ()
        more = (*more, *_usage(topic)) if measured else more
        rows.append((topic["name"], len(replicas), shown, *internal, *more))
    columns += ["Consumers", "ConsumerGroups"] if extended else []
    return ResultTable(columns + (list(USAGE_COLUMNS) if measured else []), rows, entity=entity)


def _usage(topic: Entity) -> Row:
    """What servers of ksqlDB do not tell of a topic."""
    starts, ends = (
        ", ".join(map(str, topic.get(name) or ())) for name in ("startOffsets", "endOffsets")
    )
    oldest = topic.get("oldestTimestamp")
    time = None if oldest is None else iso_timestamp(oldest * 1000)
    return (
        starts,
        ends,
        topic.get("records"),
        topic.get("bytes"),
        time,
        topic.get("uncompactedBytes"),
    )


def _properties(entity: Entity) -> ResultTable:
    given = set(entity.get("overwrittenProperties") or ())
    defaults = set(entity.get("defaultProperties") or ())
    rows = [
        (
            item["name"],
            item.get("scope", ""),
            "SESSION" if item["name"] in given else "" if item["name"] in defaults else "SERVER",
            "NULL" if item.get("value") is None else str(item["value"]),
        )
        for item in entity["properties"]
    ]
    columns = ["Property", "Scope", "Default override", "Effective Value"]
    return ResultTable(columns, rows, entity=entity)


def _types(entity: Entity) -> ResultTable:
    rows = [(name, type_text(schema)) for name, schema in sorted(entity["types"].items())]
    return ResultTable(["Type Name", "Schema"], rows, entity=entity)


def _connector(entity: Entity) -> ResultTable:
    status = entity["status"]
    own = status.get("connector") or {}
    rows: list[Row] = [
        ("Name", status.get("name")),
        ("Class", entity.get("connectorClass")),
        ("Type", status.get("type")),
        ("State", own.get("state")),
        ("WorkerId", own.get("worker_id")),
    ]
    rows += [("Trace", own["trace"])] if own.get("trace") else []
    for task in status.get("tasks") or ():
        text = f"{task.get('state')} {task.get('trace') or ''}".strip()
        rows.append((f"Task {task.get('id')}", text))
    rows += [("Topic", topic) for topic in entity.get("topics") or ()]
    rows += [("Source", source.get("name")) for source in entity.get("sources") or ()]
    return ResultTable(["Property", "Value"], rows, entity=entity)


_SCHEMAS = (("Key schema", "keySchema"), ("Value schema", "valueSchema"))


def _source(entity: Entity) -> ResultTable:
    source = entity["sourceDescription"]
    fields = [(field["name"], _field_type(field, source)) for field in source["fields"]]
    if not source.get("extended"):
        return ResultTable(["Field", "Type"], fields, f"Name : {source['name']}", entity=entity)
    partitions, replicas = source.get("partitions"), source.get("replication")
    facts: list[Row] = [
        ("Type", source.get("type")),
        ("Timestamp field", source.get("timestamp") or "Not set - using <ROWTIME>"),
        ("Key format", source.get("keyFormat")),
        ("Value format", source.get("valueFormat")),
        *((name, source[key]) for name, key in _SCHEMAS if source.get(key)),
        ("Kafka topic", f"{source['topic']} (partitions: {partitions}, replication: {replicas})"),
        ("Statement", source.get("statement")),
        *((f"Field {name}", kind) for name, kind in fields),
        *(("Read by", query["id"]) for query in source.get("readQueries") or ()),
        *(("Written by", query["id"]) for query in source.get("writeQueries") or ()),
        ("Statistics", source.get("statistics")),
    ]
    return ResultTable(["Property", "Value"], facts, f"Name : {source['name']}", entity=entity)


def _field_type(field: Mapping[str, Any], source: Mapping[str, Any]) -> str:
    text = type_text(field.get("schema"))
    match field.get("type"):
        case "KEY":
            return f"{text} ({'primary ' if source.get('type') == 'TABLE' else ''}key)"
        case "HEADER":
            key = field.get("headerKey")
            return f"{text} (header('{key}'))" if key else f"{text} (headers)"
        case _:
            return text


def _query(entity: Entity) -> ResultTable:
    query = entity["queryDescription"]
    names = {
        "ID": "id",
        "Query Type": "queryType",
        "SQL": "statementText",
        "Host Query Status": "ksqlHostQueryStatus",
        "Sources": "sources",
        "Sinks": "sinks",
        "Execution plan": "executionPlan",
        "Processing topology": "topology",
        "Overridden Properties": "overriddenProperties",
    }
    facts = [(title, _flat(query.get(name))) for title, name in names.items() if query.get(name)]
    facts += [(f"Field {f['name']}", type_text(f.get("schema"))) for f in query.get("fields") or ()]
    facts += [("Error", error.get("errorMessage")) for error in query.get("queryErrors") or ()]
    return ResultTable(["Property", "Value"], facts, entity=entity)


def _function(entity: Entity) -> ResultTable:
    facts: list[Row] = [
        (title, entity.get(name))
        for title, name in (
            ("Author", "author"), ("Version", "version"),
            ("Overview", "description"), ("Type", "type"),
        )
        if entity.get(name)
    ]  # fmt: skip
    for variant in entity.get("functions") or ():
        arguments = ", ".join(
            f"{a.get('name') or ''} {a.get('type')}".strip() for a in variant.get("arguments") or ()
        )
        facts.append(("Variation", f"{entity['name']}({arguments}) → {variant.get('returnType')}"))
        if variant.get("description"):
            facts.append(("", variant["description"]))
    return ResultTable(["Property", "Value"], facts, f"Name : {entity['name']}", entity=entity)


def _anything(entity: Entity) -> ResultTable:
    """An entity without a format of its own: its objects, if it is one list of them, else its
    fields."""
    fields = {name: value for name, value in entity.items() if name not in _ABOUT}
    match list(fields.items()):
        case [(name, list(items))] if all(isinstance(item, dict) for item in items):
            columns = {_title(field): field for field in (items[0] if items else [name])}
            return _listed(entity, items, columns)
    rows = [(name, cell(value)) for name, value in entity.items() if name != "statementText"]
    return ResultTable(["Property", "Value"], rows, entity=entity)


def _title(name: str) -> str:
    """The title of a column, from the name of a field: "queryId" is "Query ID"."""
    words = re.sub(r"([A-Z])", r" \1", name).split()
    return " ".join("ID" if word.upper() == "ID" else word.capitalize() for word in words)


_READERS: Mapping[str, Callable[[Entity], Outcome]] = {
    "kafka_topics": _topics,
    "kafka_topics_extended": _topics,
    "properties": _properties,
    "type_list": _types,
    "sourceDescription": _source,
    "queryDescription": _query,
    "describe_function": _function,
    "connector_description": _connector,
}
_ABOUT = frozenset({"@type", "statementText", "warnings"})
"""The fields that every entity has."""
_SEVERAL = {
    "source_descriptions": ("sourceDescriptions", "sourceDescription"),
    "query_descriptions": ("queryDescriptions", "queryDescription"),
}
"""Entity that contains others -> its field, and their kind."""
