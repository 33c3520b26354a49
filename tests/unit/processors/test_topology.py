"""The builder of topologies: what it describes, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import millstream
from millstream import KeyValueStore, Processor, ProcessorContext, StatementError, Topology


class Plain(Processor):
    output = "id STRING KEY, n INT"


class Other(Processor):
    output = "id STRING KEY, n BIGINT"


class Silent(Processor):
    """It declares no output."""


class Whole(millstream.BatchProcessor):
    output = "id STRING KEY"


class Waiting(millstream.AsyncProcessor):
    output = "id STRING KEY"


class Broken(Processor):
    output = "id STRING KEY"

    def init(self, context: ProcessorContext) -> None:
        raise LookupError("nothing there")


class Unknown(Processor):
    output = "id STRING KEY"

    def init(self, context: ProcessorContext) -> None:
        context.store("shared")


def begun() -> Topology:
    return Topology().add_source("a", "topic-a", key="id STRING", value="n INT")


def whole() -> Topology:
    return (
        begun()
        .add_source("end", "other_stream")
        .add_processor("p", Plain, "a", "end")
        .add_processor("q", Plain, "p")
        .add_store("seen", KeyValueStore("STRING", "INT"), "p", "q")
        .add_sink("out", "topic-out", "p", "q")
        .add_source("apart", "third")
        .add_processor("r", Plain, "apart")
    )


DESCRIBED = """\
Topology
  Sub-topology 0
    Source a (topic: topic-a)
      --> p
    Source end (stream or topic: other_stream)
      --> p
    Processor p (shared stores: seen)
      <-- a, end
      --> q, out
    Processor q (shared stores: seen)
      <-- p
      --> out
    Sink out (topic: topic-out)
      <-- p, q
  Sub-topology 1
    Source apart (stream or topic: third)
      --> r
    Processor r
      <-- apart"""
MERMAID = """\
flowchart TD
  n0(["a<br>topic-a"])
  n1(["end<br>other_stream"])
  n2["p"]
  n3["q"]
  n4[/"out<br>topic-out"/]
  n5(["apart<br>third"])
  n6["r"]
  n0 --> n2
  n1 --> n2
  n2 --> n3
  n2 --> n4
  n3 --> n4
  n5 --> n6"""
GRAPHVIZ = """\
digraph topology {
  n0 [shape=cylinder, label="a\\ntopic-a"];
  n1 [shape=cylinder, label="end\\nother_stream"];
  n2 [shape=box, label="p"];
  n3 [shape=box, label="q"];
  n4 [shape=cylinder, label="out\\ntopic-out"];
  n5 [shape=cylinder, label="apart\\nthird"];
  n6 [shape=box, label="r"];
  n0 -> n2;
  n1 -> n2;
  n2 -> n3;
  n2 -> n4;
  n3 -> n4;
  n5 -> n6;
}"""


def test_it_is_described_and_drawn() -> None:
    assert whole().describe() == DESCRIBED == repr(whole())
    assert whole().mermaid() == MERMAID
    assert whole().graphviz() == GRAPHVIZ


def test_a_notebook_shows_names_of_topics_as_text() -> None:
    topology = Topology().add_source("a", '<b onclick="x">&')
    bundle = topology._repr_mimebundle_()
    assert "<b" not in bundle["text/html"]
    assert "&lt;b" in bundle["text/html"]
    assert "<b " not in bundle["text/vnd.mermaid"]
    assert '"x"' not in topology.graphviz()


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a name twice": (lambda: begun().add_processor("A", Plain, "a"), "There is a node A already"),
    "no name": (lambda: begun().add_processor("1 x", Plain, "a"), "cannot be the name of a node"),
    "no parent": (lambda: begun().add_processor("p", Plain), "p has no parent"),
    "an unknown parent": (
        lambda: begun().add_processor("p", Plain, "b"),
        "Parent of p: there is no node b",
    ),
    "a child of a sink": (
        lambda: begun().add_sink("s", "t", "a").add_processor("p", Plain, "s"),
        "s is a sink",
    ),
    "no class": (lambda: begun().add_processor("p", "Plain", "a"), "needs a class"),  # type: ignore[arg-type]
    "no topic": (lambda: Topology().add_source("a"), "Source a has no topic"),
    "a topic twice": (lambda: Topology().add_source("a", "t", "t"), "reads t twice"),
    "columns of several topics": (
        lambda: Topology().add_source("a", "t", "u", value="n INT"),
        "gives columns to 2 topics",
    ),
    "a timestamp of a stream": (
        lambda: Topology().add_source("a", "t", timestamp="n"),
        "reads streams that there are",
    ),
    "two sinks of a topic": (
        lambda: begun().add_sink("s", "t", "a").add_sink("u", "t", "a"),
        "A sink writes the topic t already",
    ),
    "a store of nobody": (
        lambda: begun().add_store("s", KeyValueStore("STRING", "INT")),
        "Store s belongs to no processor",
    ),
    "a store of a source": (
        lambda: begun().add_store("s", KeyValueStore("STRING", "INT"), "a"),
        "Store s is for processors",
    ),
    "a store twice": (
        lambda: whole().add_store("SEEN", KeyValueStore("STRING", "INT"), "r"),
        "There is a store SEEN already",
    ),
    "another class for a sink": (
        lambda: whole().replace_processor("out", Plain),
        "out is no processor",
    ),
    "an empty topology": (lambda: Topology().parts("x"), "The topology has no nodes"),
    "a bad name": (lambda: whole().parts("a b"), "cannot be the name of an application"),
    "a processor without output that has children": (
        lambda: whole().replace_processor("p", Silent).parts("x"),
        "Processor p declares no output, and has the child q",
    ),
    "a processor of batches": (
        lambda: whole().replace_processor("p", Whole).parts("x"),
        "Processor p is one of batches, and it shares the store seen",
    ),
    "a processor that waits among others": (
        lambda: (
            begun()
            .add_processor("p", Waiting, "a")
            .add_processor("q", Plain, "p")
            .add_sink("s", "out", "p", "q")
            .parts("x")
        ),
        "Processor p is asynchronous, and it is connected to q, s",
    ),
    "a processor that waits with two sinks": (
        lambda: (
            begun()
            .add_processor("p", Waiting, "a")
            .add_sink("s", "out", "p")
            .add_sink("t", "other", "p")
            .parts("x")
        ),
        "Processor p is asynchronous, and it has 2 sinks",
    ),
    "another object": (
        lambda: whole().replace_processor("p", dict).parts("x"),  # type: ignore[arg-type]
        "p: dict is no millstream.Processor",
    ),
    "different columns for a sink": (
        lambda: whole().replace_processor("p", Other).parts("x"),
        "Sink out gets ID STRING KEY, N BIGINT from p, and ID STRING KEY, N INTEGER from q",
    ),
    "columns that nobody gives": (
        lambda: Topology().add_source("a", "stream").add_sink("s", "t", "a").parts("x"),
        "whose columns are not given",
    ),
    "a key that is marked": (
        lambda: (
            Topology()
            .add_source("a", "t", key="id INT KEY", value="n INT")
            .add_sink("s", "out", "a")
            .parts("x")
        ),
        "leave out KEY of ID",
    ),
    "a column twice": (
        lambda: (
            Topology()
            .add_source("a", "t", key="id INT", value="id INT")
            .add_sink("s", "out", "a")
            .parts("x")
        ),
        "has the column ID twice",
    ),
    "statements in columns": (
        lambda: (
            Topology()
            .add_source("a", "t", value="n INT); DROP STREAM x; CREATE STREAM y (n INT")
            .add_sink("s", "out", "a")
            .parts("x")
        ),
        "cannot be registered",
    ),
    "no name of a stream": (
        lambda: (
            Topology().add_source("a", "other-stream").add_processor("p", Plain, "a").parts("x")
        ),
        "A name cannot be 'other-stream'",
    ),
    "a cycle": (
        lambda: (
            Topology()
            .add_source("a", "one")
            .add_processor("p", Plain, "a")
            .add_sink("s", "two", "p")
            .add_source("b", "two")
            .add_processor("q", Plain, "b")
            .add_sink("t", "one", "q")
            .parts("x")
        ),
        "a cycle through topics",
    ),
    "columns for the topic of a sink": (
        lambda: (
            begun()
            .add_sink("s", "words", "a")
            .add_source("b", "words", value="n INT")
            .add_processor("p", Plain, "b")
            .parts("x")
        ),
        "Source b reads the topic words, which sink s writes",
    ),
    "an exception in init": (
        lambda: whole().replace_processor("r", Broken).parts("x"),
        "LookupError: nothing there. In node r of the topology",
    ),
    "a store that was not added": (
        lambda: whole().replace_processor("r", Unknown).parts("x"),
        "processor r has no store 'shared' by add_store",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    attempt, words = REFUSED[case]
    with pytest.raises(StatementError) as raised:
        attempt()
    assert words in str(raised.value)


def test_a_refused_node_is_not_there() -> None:
    topology = begun()
    with pytest.raises(StatementError):
        topology.add_processor("p", Plain, "nobody")
    assert topology.describe() == begun().describe()
