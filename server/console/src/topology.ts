/** The picture of a query: its nodes as EXPLAIN prints them, from the left to the right. */

import dagre from "@dagrejs/dagre";

import { svg } from "./dom";

export interface TopologyNode {
  name: string;
  kind: "source" | "step" | "topic" | "store";
  text: string;
  subTopology: number | null;
  /** The topics that it reads or is. */
  topics: string[];
}

export interface Topology {
  nodes: TopologyNode[];
  edges: [string, string][];
}

/** Reads what EXPLAIN prints of a topology: sub-topologies, their nodes, arrows and states. */
export function topologyOf(text: string): Topology {
  const nodes = new Map<string, TopologyNode>();
  const edges: [string, string][] = [];
  let current: TopologyNode | null = null;
  let sub: number | null = null;
  const topic = (name: string): void => {
    if (!nodes.has(name)) nodes.set(name, { name, kind: "topic", text: `Topic ${name}`, subTopology: null, topics: [name] });
  };
  for (const line of text.split("\n")) {
    const opened = /^\s*Sub-topology: (\d+)/.exec(line);
    const node = /^\s*(\w[\w ]*): (\S+) \((.*)\)\s*$/.exec(line);
    const arrow = /^\s*--> (.+)$/.exec(line);
    if (opened) sub = Number(opened[1]);
    else if (/^\s*Internal topics:/.test(line)) break;
    else if (arrow && current !== null) {
      for (const target of (arrow[1] ?? "").split(",").map((name) => name.trim())) edges.push([current.name, target]);
    } else if (node && sub !== null) {
      current = nodeOf(node, sub);
      nodes.set(current.name, current);
      for (const name of current.topics) {
        topic(name);
        edges.push([name, current.name]);
      }
    }
  }
  for (const [, target] of edges) topic(target);
  return { nodes: [...nodes.values()], edges };
}

function nodeOf(match: RegExpExecArray, sub: number): TopologyNode {
  const [, kind = "", name = "", about = ""] = match;
  const topics = /topics: \[([^\]]*)\](?:, )?(.*)$/.exec(about);
  return {
    name,
    kind: kind === "Source" ? "source" : "step",
    text: topics ? topics[2] || "Read" : about,
    subTopology: sub,
    topics: kind === "Source" && topics?.[1] ? topics[1].split(",").map((one) => one.trim()) : [],
  };
}

const WIDTH = 280;
const HEIGHT = 48;
const INTERNAL = /^_millstream_.*-(\d+-\w+)$/;

/** Draws a topology; `figures` gives a line of text for a node, `choose` is called for a click. */
export function drawn(
  topology: Topology,
  figures: (node: TopologyNode) => string,
  choose: (node: TopologyNode) => void,
): SVGElement {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 24, ranksep: 26, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of topology.nodes) graph.setNode(node.name, { width: WIDTH, height: HEIGHT });
  for (const [from, to] of topology.edges) graph.setEdge(from, to);
  dagre.layout(graph);
  const { width = 0, height = 0 } = graph.graph();
  const edges = graph.edges().map((edge) => {
    const points = graph.edge(edge).points as { x: number; y: number }[];
    return svg("path", { class: "edge", d: `M${points.map(({ x, y }) => `${x} ${y}`).join("L")}`, "marker-end": "url(#arrow)" });
  });
  const nodes = topology.nodes.map((node) => box(node, graph.node(node.name), figures(node), choose));
  return svg(
    "svg",
    { class: "topology", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Topology" },
    svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      svg("path", { d: "M0 0L8 4L0 8Z" }))),
    ...edges,
    ...nodes,
  );
}

function box(
  node: TopologyNode,
  at: { x: number; y: number },
  figures: string,
  choose: (node: TopologyNode) => void,
): SVGElement {
  const press = (event: Event): void => {
    if (event instanceof KeyboardEvent && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(node);
  };
  return svg(
    "g",
    {
      class: `node ${node.kind}`,
      transform: `translate(${at.x - WIDTH / 2} ${at.y - HEIGHT / 2})`,
      "data-name": node.name,
      tabindex: 0,
      role: "button",
      onclick: press,
      onkeydown: press as EventListener,
    },
    svg("title", {}, node.kind === "topic" ? node.name : node.text),
    svg("rect", { width: WIDTH, height: HEIGHT, rx: node.kind === "topic" ? 26 : 6 }),
    svg("text", { x: WIDTH / 2, y: figures ? 20 : HEIGHT / 2 + 4 }, shortened(labelOf(node), 37)),
    svg("text", { x: WIDTH / 2, y: 37, class: "figures" }, shortened(figures, 42)),
  );
}

/** What is written in a box; internal topics without the name of the query. */
function labelOf(node: TopologyNode): string {
  if (node.kind !== "topic") return node.text;
  return INTERNAL.exec(node.name)?.[1] ?? node.name;
}

function shortened(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
