"""A topology of processors: what reads, what processes, and what writes, by name."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from millstream.functions.function import ProcessorFunction
from millstream.model.errors import StatementError
from millstream.model.nearest import did_you_mean
from millstream.processors import describing
from millstream.processors.composing import CompiledPart, compile_parts
from millstream.processors.names import NAME
from millstream.processors.nodes import (
    AnyProcessor,
    Extractor,
    NodeOf,
    Partitioner,
    ProcessorNode,
    SinkNode,
    SourceNode,
    connected_parts,
)
from millstream.processors.stores import StoreKind


@dataclass(slots=True, repr=False)
class Topology:
    """Sources, processors, stores and sinks, connected by their names.

    ```python
    topology = (
        ms.Topology()
        .add_source("orders", "orders", key="id STRING", value="amount DOUBLE")
        .add_processor("check", Check, "orders")
        .add_sink("alerts", "alerts", "check")
    )
    application = db.deploy(topology, "fraud")
    ```
    A parent is named before its children. The methods change the topology and return it. They raise
    StatementError for a name that is taken or unknown.
    """

    nodes: dict[str, NodeOf] = field(default_factory=dict)
    """By name, in the order in which they were added."""
    stores: dict[str, tuple[StoreKind[Any], tuple[str, ...]]] = field(default_factory=dict)
    """Those of `add_store`, with the names of their processors."""

    def add_source(
        self,
        name: str,
        *topics: str,
        key: str | None = None,
        value: str | None = None,
        timestamp: str | Extractor | None = None,
        format: str | None = None,
        partitions: int | None = None,
    ) -> Topology:
        """Read topics.

        `key` and `value` are their columns, as in CREATE STREAM: key="id STRING", value="amount
        DOUBLE, note STRING"; then `deploy` creates the stream `name` over the one topic, and the
        topic too if there are `partitions` for it. Without them, the topics are names of streams
        that there are, or topics that a sink of this topology writes. `timestamp`: the column of
        the event time; or a function that returns the time of a `Record`, for streams that there
        are too. `format`: that of its values, by default JSON.
        """
        if not topics:
            raise StatementError(f"Source {name} has no topic", hint="Name a topic, or a stream.")
        if key is None and value is None:
            if isinstance(timestamp, str) or partitions is not None:
                raise StatementError(
                    f"Source {name} reads streams that there are, with their timestamp and"
                    " partitions",
                    hint="Leave these out, or give the columns with key and value.",
                )
        elif len(topics) > 1:
            raise StatementError(
                f"Source {name} gives columns to {len(topics)} topics",
                hint="Add a source for each of them.",
            )
        twice = next((topic for topic in topics if topics.count(topic) > 1), None)
        if twice is not None:
            raise StatementError(f"Source {name} reads {twice} twice")
        node = SourceNode(self._new(name), topics, key, value, timestamp, format, partitions)
        return self._with(node)

    def add_processor(
        self, name: str, supplier: Callable[[], AnyProcessor], *parents: str
    ) -> Topology:
        """Pass what the parents forward through a processor: `supplier` is its class, or another
        function that makes an instance for each task. What it forwards goes to all of its
        children, or with `forward(…, to="child")` to one. One that is asynchronous or of batches
        stands alone between sources and a sink."""
        if not callable(supplier):
            raise StatementError(f"Processor {name} needs a class, not {supplier!r}")
        return self._with(ProcessorNode(self._new(name), supplier, self._parents(name, parents)))

    def add_store(self, name: str, kind: StoreKind[Any], *processors: str) -> Topology:
        """A store that several processors share: `context.store(name)` gives it to each of
        them."""
        if not NAME.fullmatch(name):
            raise StatementError(f"{name!r} cannot be the name of a store")
        if name.casefold() in map(str.casefold, self.stores):
            raise StatementError(f"There is a store {name} already")
        if not processors:
            raise StatementError(f"Store {name} belongs to no processor", hint="Name one or more.")
        for each in processors:
            if not isinstance(self._known(each, f"Store {name}"), ProcessorNode):
                raise StatementError(f"Store {name} is for processors, and {each} is none")
        self.stores[name] = (kind, processors)
        return self

    def add_sink(
        self,
        name: str,
        topic: str,
        *parents: str,
        format: str | None = None,
        partitions: int | None = None,
        partitioner: str | Partitioner | None = None,
    ) -> Topology:
        """Write what the parents forward to a topic, which is created if it is missing; `deploy`
        creates the stream `name` over it. The columns are those of the parents. `format`: that of
        its values, by default JSON. `partitioner`: a column with the number of the partition, or a
        function of key and value that returns it, which is then in the column PARTITION; both
        modulo the number of partitions. Without, or for None, the key decides."""
        written = [node.topic for node in self.nodes.values() if isinstance(node, SinkNode)]
        if topic in written:
            raise StatementError(
                f"A sink writes the topic {topic} already", hint="Give that sink more parents."
            )
        parents = self._parents(name, parents)
        node = SinkNode(self._new(name), topic, parents, format, partitions, partitioner)
        return self._with(node)

    def replace_processor(self, name: str, supplier: Callable[[], AnyProcessor]) -> Topology:
        """Give a processor another class. Its stores stay if they have the same names and
        types."""
        node = self._known(name, "replace_processor")
        if not isinstance(node, ProcessorNode):
            raise StatementError(f"{name} is no processor")
        self.nodes[name] = replace(node, supplier=supplier)
        return self

    def copy(self) -> Topology:
        """Another topology with the same nodes and stores."""
        return Topology(dict(self.nodes), dict(self.stores))

    def parts(self, name: str) -> tuple[CompiledPart, ...]:
        """The connected parts as processors of an application of this name, each behind those whose
        sinks it reads. Raises StatementError."""
        if not NAME.fullmatch(name):
            raise StatementError(f"{name!r} cannot be the name of an application")
        if not self.nodes:
            raise StatementError("The topology has no nodes", hint="Begin with add_source.")
        users = [users for _, users in self.stores.values()]
        return compile_parts(name, connected_parts(self.nodes.values(), users), self.stores)

    def processors(self, name: str) -> tuple[ProcessorFunction, ...]:
        """What `connect(functions=…)` takes when a database with the application `name` of this
        topology is opened again. Raises StatementError."""
        return tuple(part.function for part in self.parts(name))

    def describe(self) -> str:
        """The nodes of each sub-topology, with their parents and children."""
        return describing.text(self.nodes.values(), self._stores_of)

    def mermaid(self) -> str:
        """The topology as a diagram in the language of Mermaid."""
        return describing.mermaid(self.nodes.values())

    def graphviz(self) -> str:
        """The topology as a diagram in the language of Graphviz (dot)."""
        return describing.graphviz(self.nodes.values())

    def __repr__(self) -> str:
        return self.describe()

    def _repr_mimebundle_(self, **_: Any) -> Mapping[str, str]:
        """What a notebook shows: a diagram where it can draw one, else the text."""
        shown = self.describe()
        return {
            "text/plain": shown,
            "text/html": f"<pre>{html.escape(shown)}</pre>",
            "text/vnd.mermaid": self.mermaid(),
        }

    def _stores_of(self, processor: str) -> tuple[str, ...]:
        return tuple(name for name, (_, users) in self.stores.items() if processor in users)

    def _with(self, node: NodeOf) -> Topology:
        self.nodes[node.name] = node
        return self

    def _new(self, name: str) -> str:
        if not NAME.fullmatch(name):
            raise StatementError(
                f"{name!r} cannot be the name of a node",
                hint="A letter or _, then letters, digits and _.",
            )
        if name.casefold() in map(str.casefold, self.nodes):
            raise StatementError(f"There is a node {name} already", hint="Choose another name.")
        return name

    def _parents(self, name: str, parents: Iterable[str]) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(parents))
        if not found:
            raise StatementError(f"{name} has no parent", hint="Name a source or a processor.")
        for parent in found:
            if isinstance(self._known(parent, f"Parent of {name}"), SinkNode):
                raise StatementError(f"{parent} is a sink, so it cannot be a parent of {name}")
        return found

    def _known(self, name: str, what: str) -> NodeOf:
        if name not in self.nodes:
            raise StatementError(
                f"{what}: there is no node {name}",
                hint=did_you_mean(name, self.nodes, "Add a parent before its children."),
            )
        return self.nodes[name]
