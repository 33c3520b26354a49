/** The persistent queries: how fast and how far they are, and each as a picture. */

import type { Entity } from "../api";
import { button, grid, h } from "../dom";
import { figure, figuresOf, total, type Figures } from "../metrics";
import type { Session } from "../session";
import type { Topology, TopologyNode } from "../topology";
import { short, timeText } from "../values";
import { problem, Repeated, type View } from "../view";
import { sample } from "./sample";

/** The figures of now, and those of the last time, for rates. */
interface Told {
  now: Figures;
  before: Figures;
  seconds: number;
}

/** The page of queries; `#queries/ID` shows one. */
export function queries(session: Session): View {
  const list = h("div");
  const detail = h("div");
  const trouble = h("div");
  let chosen = "";
  let last: { figures: Figures; at: number } | null = null;
  let shown: Detail | null = null;
  const repeated = new Repeated(async (still) => {
    const [[listed], figures] = await Promise.all([
      session.server.statements("SHOW QUERIES EXTENDED;"),
      session.server.metrics().then(figuresOf, () => new Map() as Figures),
    ]);
    if (!still()) return;
    const at = performance.now();
    const told = { now: figures, before: last?.figures ?? new Map(), seconds: last ? (at - last.at) / 1000 : 0 };
    last = { figures, at };
    const found = (listed?.["queryDescriptions"] ?? []) as Entity[];
    const persistent = found.filter((one) => one["queryType"] !== "PUSH");
    trouble.replaceChildren();
    list.replaceChildren(table(persistent, figures, chosen));
    const one = persistent.find((query) => query["id"] === chosen);
    const name = one === undefined ? "" : `${one["id"]} ${one["state"]}`;
    if (one === undefined) detail.replaceChildren();
    else if (shown?.name !== name || !shown.place.isConnected) {
      const made = await described(session, one, name);
      if (!still()) return;
      detail.replaceChildren(...made.parts);
      shown = made;
    }
    if (one !== undefined) shown?.draw(told);
  }, (error) => trouble.replaceChildren(problem(error)));
  return {
    element: h("section", { "aria-label": "Queries" }, trouble, list, detail),
    show: (rest) => {
      if (rest !== chosen) detail.replaceChildren();
      chosen = decodeURIComponent(rest);
      repeated.start();
    },
    leave: () => repeated.stop(),
  };
}

function table(found: Entity[], figures: Figures, chosen: string): HTMLElement {
  if (found.length === 0) {
    return h("p", { class: "hint" }, "No persistent query runs. CREATE TABLE … AS SELECT … begins one.");
  }
  const rows = found.map((query) => {
    const id = query["id"] as string;
    const labels = { query: id };
    const problems = total(figures, "millstream_query_problems_total", labels);
    return [
      h("a", { href: `#queries/${encodeURIComponent(id)}`, ...(id === chosen ? { "aria-current": "true" } : {}) }, id),
      h("span", { class: `state ${String(query["state"]).toLowerCase()}` }, query["state"]),
      short(figure(figures, "millstream_query_records_in_per_second", labels)),
      short(figure(figures, "millstream_query_records_out_per_second", labels)),
      short(figure(figures, "millstream_query_lag_records", labels)),
      problems > 0 ? h("a", { href: "#log", class: "bad" }, String(problems)) : "0",
      (query["sinks"] as string[]).join(", "),
    ];
  });
  return grid("Queries", ["Query", "State", "Records in/s", "Records out/s", "Lag", "Skipped or late", "Writes"], rows);
}

/** What is shown of one query: built once for each state of it, while its figures are drawn anew. */
interface Detail {
  name: string;
  parts: HTMLElement[];
  place: HTMLElement;
  draw: (told: Told) => void;
}

async function described(session: Session, query: Entity, name: string): Promise<Detail> {
  const id = query["id"] as string;
  const [[explained], { columnsOf, drawn, statementsOf, topologyOf }] = await Promise.all([
    session.server.statements(`EXPLAIN (PROGRAM) ${id};`),
    import("../pictures"),
  ]);
  const { topology: text = "", executionPlan = "", program = "" } = (explained?.["queryDescription"] ?? {}) as Entity;
  const topology = topologyOf(text);
  const rows = h("div");
  const choose = (node: TopologyNode): void => {
    const told = { columns: columnsOf(executionPlan, node), statements: statementsOf(program, topology, node) };
    // What was asked for by an earlier click goes on in a place of its own, which is not shown any more.
    const records = h("div");
    rows.replaceChildren(...about(node, told), records);
    rows.scrollIntoView({ block: "nearest" });
    void samples(session, topology, node, records);
  };
  const place = h("div", { class: "picture", tabindex: 0, role: "region", "aria-label": "Topology" });
  const draw = (told: Told): void => {
    const focused = place.querySelector(":focus")?.getAttribute("data-name");
    place.replaceChildren(drawn(topology, (node) => line(id, node, told), choose));
    if (focused) place.querySelector<SVGElement>(`[data-name="${CSS.escape(focused)}"]`)?.focus();
  };
  const parts = [
    h("h2", {}, id),
    actions(session, query, rows),
    h("pre", { class: "lines", tabindex: 0 }, query["statementText"]),
    ...errors(query),
    place,
    rows,
  ];
  return { name, parts, place, draw };
}

/** The figures of a node: those of its topic, or of its sub-topology. */
function line(id: string, node: TopologyNode, told: Told): string {
  const figures = told.now;
  if (node.kind === "topic") {
    const lags = figures.get("millstream_query_partition_lag_records")?.filter(
      ({ labels }) => labels["query"] === id && labels["topic"] === node.name);
    return lags?.length ? `lag ${short(lags.reduce((sum, { value }) => sum + value, 0))}` : "";
  }
  const labels = { query: id, sub_topology: String(node.subTopology) };
  if (/^(Write|Repartition)\b/.test(node.text)) return until(figure(figures, "millstream_sub_topology_stream_time_seconds", labels));
  const name = node.kind === "source" ? "millstream_sub_topology_records_in_total" : "millstream_sub_topology_changes_total";
  const unit = node.kind === "source" ? "records" : "changes";
  if (node.kind === "step" && !/^(\w*(Aggregate|Join)|Process)\b/.test(node.text)) return "";
  const value = figure(figures, name, labels);
  const before = figure(told.before, name, labels);
  const kept = node.kind === "step" ? `${short(total(figures, "millstream_state_rows", labels))} rows of state, ` : "";
  if (value === undefined || before === undefined || told.seconds <= 0) return `${kept}${short(value)} ${unit}`;
  return `${kept}${short(value)} ${unit}, ${short(Math.max(0, value - before) / told.seconds)}/s`;
}

/** Up to which event time the records are processed. */
function until(seconds: number | undefined): string {
  return seconds === undefined ? "" : `up to ${timeText(seconds * 1000)}`;
}

/** What a node does: in words, its columns, and the SQL that DuckDB runs for it. */
function about(node: TopologyNode, told: { columns: string; statements: string[] }): HTMLElement[] {
  if (node.kind === "topic") return [h("h3", {}, `Topic ${node.name}`)];
  const shown: HTMLElement[] = [h("h3", {}, node.name), h("p", {}, node.text)];
  if (told.columns) shown.push(h("p", { class: "hint" }, `Columns: ${told.columns}`));
  if (told.statements.length > 0) {
    shown.push(
      h("h3", {}, `What DuckDB runs for it in sub-topology ${node.subTopology}`),
      h("pre", { class: "lines", tabindex: 0 }, told.statements.join("\n\n")),
    );
  }
  return shown;
}

/** Records of the topics that a node is, reads or writes, but for those that are internal. */
async function samples(session: Session, topology: Topology, node: TopologyNode, into: HTMLElement): Promise<void> {
  const topics = new Set(topology.nodes.filter((one) => one.kind === "topic").map((one) => one.name));
  const written = topology.edges.filter(([from, to]) => from === node.name && topics.has(to)).map(([, to]) => to);
  const own = node.kind === "topic" ? [] : written;
  for (const topic of [...node.topics, ...own]) {
    if (!topic.startsWith("_millstream")) await sample(session, topic, into);
  }
}

function errors(query: Entity): HTMLElement[] {
  return ((query["queryErrors"] ?? []) as Entity[]).map((one) => problem(new Error(`${one["type"]}: ${one["errorMessage"]}`)));
}

function actions(session: Session, query: Entity, into: HTMLElement): HTMLElement {
  const id = query["id"] as string;
  const send = (text: string): void => {
    session.server.statements(text).catch((error: unknown) => into.prepend(problem(error)));
  };
  const paused = query["state"] === "PAUSED";
  return h("div", { class: "bar" },
    button(paused ? "Resume" : "Pause", () => send(`${paused ? "RESUME" : "PAUSE"} ${id};`)),
    button("Terminate", () => {
      if (confirm(`Terminate ${id}? What it has written stays, but it goes on no more.`)) send(`TERMINATE ${id};`);
    }, { class: "danger" }));
}
