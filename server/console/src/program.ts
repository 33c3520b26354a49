/** The SQL of one node, of what EXPLAIN (PROGRAM) prints of a query; and its columns, of the plan. */

import type { Topology, TopologyNode } from "./topology";

/** The statements that do the work of a node: comments above and within them name nodes. */
export function statementsOf(script: string, topology: Topology, node: TopologyNode): string[] {
  const wanted = textsOf(topology, node);
  const parts = script.split(/^-- sub-topology (\d+) .*$/m);
  const at = parts.findIndex((part, index) => index % 2 === 1 && Number(part) === node.subTopology);
  return (parts[at + 1] ?? "")
    .trim()
    .split("\n\n")
    .filter((statement) => at > 0 && statement.split("\n").some((line) => wanted.includes(named(line))));
}

/** The node that a comment names. */
function named(line: string): string {
  return /^\s*-- (?:Input: |State: )?(.*)$/.exec(line)?.[1] ?? "";
}

/** How comments name a node. One that reads what another sub-topology has written has its name. */
function textsOf(topology: Topology, node: TopologyNode): string[] {
  const texts = new Map(topology.nodes.map((one) => [one.name, one.text]));
  const writers = topology.edges.filter(([, to]) => node.topics.includes(to)).map(([from]) => texts.get(from) ?? "");
  return [node.text, ...writers].map((text) => text.split("\n")[0] ?? "").filter((text) => text !== "");
}

/** The columns that a node yields, as the plan lists them below it; "" if it does not, or if several nodes are called so. */
export function columnsOf(plan: string, node: TopologyNode): string {
  const lines = plan.split("\n").map((line) => line.trim());
  const at = lines.indexOf(node.text);
  const below = at >= 0 && at === lines.lastIndexOf(node.text) ? (lines[at + 1] ?? "") : "";
  return below.startsWith(": ") ? below.slice(2) : "";
}
