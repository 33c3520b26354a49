/** The result of one statement: rows that move, a picture of them, or what the server said. */

import type { Entity, Receiver } from "./api";
import type { Chart } from "./chart";
import { button, grid, h } from "./dom";
import { Rows, RowTable } from "./rows";
import { grouping } from "./statements";
import type { Session } from "./session";
import { textOf, type Column, type Value } from "./values";
import { problem } from "./view";

const LINES_KEPT = 500;

/** A panel that runs a query until it ends or is stopped. */
export class QueryPanel {
  readonly element: HTMLElement;
  private ending = new AbortController();
  private rows = new Rows();
  private table: RowTable;
  private chart: Chart | null = null;
  private note = h("span", { class: "note", role: "status" });
  private body = h("div");
  private lines: string[] | null = null;
  private drawing = false;
  private paused = false;
  private charted = false;
  private onlyCurrent = false;
  private buttons: Record<"stop" | "pause" | "chart" | "changes", HTMLButtonElement>;
  private started = performance.now();
  private state: "runs" | "ended" | "stopped" | "failed" = "runs";

  constructor(private session: Session, private text: string) {
    this.table = new RowTable(`Rows of ${text}`);
    this.buttons = {
      stop: button("Stop", () => this.stop()),
      pause: button("Pause", () => this.pause(), { "aria-pressed": "false" }),
      chart: button("Chart", () => void this.flip(), { "aria-pressed": "false" }),
      changes: button("Latest by key", () => this.turn(), { "aria-pressed": "false", hidden: true }),
    };
    const { stop, pause, chart, changes } = this.buttons;
    this.element = h("section", { class: "panel", "aria-label": text },
      h("header", {}, h("code", {}, text), this.note, changes, chart, pause, stop), this.body);
    this.body.append(this.table.element);
  }

  async run(): Promise<void> {
    const to: Receiver = {
      columns: (columns) => this.begin(columns),
      rows: (rows) => {
        this.rows.add(rows, Date.now());
        this.draws();
      },
      lines: (lines) => {
        this.lines = [...(this.lines ?? []), ...lines].slice(-LINES_KEPT);
        this.draws();
      },
    };
    try {
      await this.session.server.query(this.text, this.session.properties, to, this.ending.signal);
      this.state = "ended";
    } catch (error) {
      this.state = this.ending.signal.aborted ? "stopped" : "failed";
      if (this.state === "failed") this.element.append(problem(error));
    }
    this.buttons.stop.hidden = true;
    this.buttons.pause.hidden = true;
    this.draws();
  }

  stop(): void {
    this.ending.abort();
  }

  private begin(columns: Column[]): void {
    this.rows.columns = columns;
    this.rows.key = keyOf(this.text, columns, this.session);
    if (this.rows.key !== null) this.turn();
    this.buttons.changes.hidden = this.rows.key === null;
    this.table.columns(columns);
    this.draws();
  }

  private pause(): void {
    this.paused = !this.paused;
    this.buttons.pause.setAttribute("aria-pressed", String(this.paused));
    this.draws();
  }

  private async flip(): Promise<void> {
    // Pictures come in a file of their own, which most visits do not need.
    this.chart ??= new (await import("./chart")).Chart();
    this.charted = !this.charted;
    this.buttons.chart.setAttribute("aria-pressed", String(this.charted));
    this.body.replaceChildren(this.charted ? this.chart.element : this.table.element);
    this.draws();
  }

  private turn(): void {
    this.onlyCurrent = !this.onlyCurrent;
    this.buttons.changes.setAttribute("aria-pressed", String(this.onlyCurrent));
    this.draws();
  }

  /** Draws with the next frame, however many rows have come until then. */
  private draws(): void {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.tell();
      if (!this.paused) this.draw();
    });
  }

  private draw(): void {
    if (this.lines !== null) {
      this.buttons.chart.hidden = true;
      this.body.replaceChildren(h("pre", { class: "lines", tabindex: 0 }, this.lines.join("\n")));
      return;
    }
    const { columns } = this.rows;
    const moves = /\bEMIT\s+CHANGES\b/i.test(this.text);
    const shown = this.onlyCurrent || this.charted ? this.rows.current() : this.rows.changes();
    if (this.charted) this.chart?.draw(columns, shown);
    else this.table.draw(columns, shown, moves);
  }

  private tell(): void {
    const count = this.lines?.length ?? this.rows.received;
    const seconds = ((performance.now() - this.started) / 1000).toFixed(1);
    const unit = this.lines !== null ? "lines" : count === 1 ? "row" : "rows";
    const empty = count === 0 && this.state === "runs" && this.session.properties["auto.offset.reset"] === "latest";
    const hint = empty ? " · only records from now on are read: choose “from the beginning” for earlier ones" : "";
    this.note.textContent = `${count} ${unit} · ${this.paused ? "paused" : this.state} · ${seconds} s${hint}`;
  }
}

/** The positions of the key of a push query over a table; null if its rows replace nothing. */
function keyOf(text: string, columns: Column[], session: Session): number[] | null {
  if (!/\bEMIT\s+CHANGES\b/i.test(text)) return null;
  const found = grouping(text);
  const source = session.sources.get(found?.source ?? "");
  if (found === null || source === undefined) return null;
  const windowed = found.by === null ? source.windowed : /\bWINDOW\b/i.test(text);
  const own = source.kind === "TABLE" ? source.columns.filter((column) => column.key).map(({ name }) => name) : null;
  const names = found.by ?? own;
  if (names === null) return null;
  const wanted = windowed ? [...names, "WINDOWSTART"] : names;
  const positions = wanted.map((name) => columns.findIndex((column) => column.name === name));
  return positions.includes(-1) ? null : positions;
}

/** What /ksql said of a statement, one box for each entity. */
export function entityBox(entity: Entity): HTMLElement {
  const text = entity.statementText ?? "";
  const said = entity["commandStatus"]?.message as string | undefined;
  const failed = entity["commandStatus"]?.status === "ERROR";
  const body = said === undefined ? entityBody(entity) : h("p", { class: failed ? "problem" : "done" }, said);
  const warnings = (entity["warnings"] ?? []).map((one: { message: string }) => h("p", { class: "warning" }, one.message));
  return h("section", { class: "panel", "aria-label": text }, h("header", {}, h("code", {}, text)), body, ...warnings);
}

function entityBody(entity: Entity): HTMLElement {
  const description = entity["queryDescription"];
  if (description?.executionPlan) {
    return h("pre", { class: "lines", tabindex: 0 }, [description.topology, description.executionPlan].filter(Boolean).join("\n\n"));
  }
  const lists = Object.entries(entity).filter(([name, value]) => name !== "warnings" && Array.isArray(value));
  const [list] = lists;
  if (list && lists.length === 1 && (list[1] as unknown[]).every((one) => one !== null && typeof one === "object")) {
    return objectsTable(list[0], list[1] as Record<string, Value>[]);
  }
  const plain = Object.entries(entity).filter(([name]) => !["@type", "statementText", "warnings"].includes(name));
  return h("pre", { class: "lines", tabindex: 0 }, JSON.stringify(Object.fromEntries(plain), null, 2));
}

function objectsTable(label: string, objects: Record<string, Value>[]): HTMLElement {
  if (objects.length === 0) return h("p", { class: "hint" }, `No ${label}.`);
  const names = [...new Set(objects.flatMap((one) => Object.keys(one)))];
  return grid(label, names, objects.map((one) => names.map((name) => textOf(one[name] ?? null))));
}
