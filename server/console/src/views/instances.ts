/** The instances of the service, their tasks, and what this one costs. */

import { grid, h } from "../dom";
import { figure, figuresOf, type Figures } from "../metrics";
import type { Session } from "../session";
import { short, timeText } from "../values";
import { problem, Repeated, type View } from "../view";

interface Instance {
  hostAlive: boolean;
  lastStatusUpdateMs: number;
  activeStandbyPerQuery: Record<string, { activePartitions: { topic: string; partition: number }[]; standByPartitions: unknown[] }>;
}

/** The page of instances. */
export function instances(session: Session): View {
  const list = h("div");
  const repeated = new Repeated(async (still) => {
    const [info, status, figures] = await Promise.all([
      session.server.get("/info"),
      session.server.get("/clusterStatus"),
      session.server.metrics().then(figuresOf),
    ]);
    if (!still()) return;
    const about = info.KsqlServerInfo;
    list.replaceChildren(
      h("p", {}, `Service ${about.ksqlServiceId}, cluster ${about.kafkaClusterId}, API of ksqlDB ${about.version}`),
      hosts(status.clusterStatus),
      h("h2", {}, "This instance"),
      own(figures),
      h("h2", {}, "Tasks"),
      tasks(status.clusterStatus),
    );
  }, (error) => list.replaceChildren(problem(error)));
  return {
    element: h("section", { "aria-label": "Instances" }, list),
    show: () => repeated.start(),
    leave: () => repeated.stop(),
  };
}

function hosts(found: Record<string, Instance>): HTMLElement {
  return grid("Instances", ["Instance", "State", "Heard of at", "Queries"],
    Object.entries(found).map(([host, one]) => [
      host,
      h("span", { class: one.hostAlive ? "state running" : "state error" }, one.hostAlive ? "ALIVE" : "AWAY"),
      timeText(one.lastStatusUpdateMs),
      Object.keys(one.activeStandbyPerQuery).length,
    ]));
}

function tasks(found: Record<string, Instance>): HTMLElement {
  const rows = Object.entries(found).flatMap(([host, one]) =>
    Object.entries(one.activeStandbyPerQuery).map(([query, part]) => [
      query,
      host,
      part.activePartitions.map(({ topic, partition }) => `${topic}-${partition}`).join(", "),
      part.standByPartitions.length,
    ]));
  return grid("Tasks", ["Query", "Instance", "Partitions", "Standbys"], rows);
}

function own(figures: Figures): HTMLElement {
  const bytes = figure(figures, "millstream_process_resident_memory_bytes");
  const largest = figure(figures, "millstream_commit_round_largest");
  const decoded = figure(figures, "millstream_shared_records_decoded_total") ?? 0;
  const reused = figure(figures, "millstream_shared_records_reused_total") ?? 0;
  const share = decoded + reused > 0 ? `${((100 * reused) / (decoded + reused)).toFixed(0)} %` : "–";
  return grid("This instance", ["CPU used", "Memory", "Threads", "Queries that wait", "Largest commit round", "Decoded records reused"], [[
    `${short(figure(figures, "millstream_process_cpu_seconds_total"))} s`,
    bytes === undefined ? "–" : `${(bytes / 2 ** 20).toFixed(0)} MiB`,
    short(figure(figures, "millstream_process_threads")),
    short(figure(figures, "millstream_waiting_queries")),
    short(largest),
    share,
  ]]);
}
