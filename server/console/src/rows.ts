/** The rows of a query as they come: the latest, or the latest of each key. */

import { h, scrolled } from "./dom";
import { isNumber, isTime, textOf, type Column, type Value } from "./values";

export const KEPT = 1000;
const DRAWN = 200;

export interface Row {
  values: Value[];
  deleted: boolean;
  /** When it came, in ms. */
  at: number;
}

/** Rows of one query. Keeps the latest 1,000 of them, and all keys' latest up to as many. */
export class Rows {
  columns: Column[] = [];
  received = 0;
  /** The positions of the key, of which a later row replaces the former; null if none does. */
  key: number[] | null = null;
  private latest: Row[] = [];
  private byKey = new Map<string, Row>();

  add(rows: { values: Value[]; deleted: boolean }[], at: number): void {
    this.received += rows.length;
    for (const row of rows) {
      const made = { ...row, at };
      this.latest.push(made);
      if (this.key !== null) this.replace(this.key, made);
    }
    if (this.latest.length > KEPT) this.latest = this.latest.slice(-KEPT);
  }

  /** All rows that came and are kept, the oldest first. */
  changes(): Row[] {
    return this.latest;
  }

  /** What is true now: the latest row of each key, or all rows if they have no key. */
  current(): Row[] {
    return this.key === null ? this.latest.filter((row) => !row.deleted) : [...this.byKey.values()];
  }

  private replace(key: number[], row: Row): void {
    const name = JSON.stringify(key.map((position) => row.values[position] ?? null));
    this.byKey.delete(name);
    if (!row.deleted) this.byKey.set(name, row);
    if (this.byKey.size > KEPT) {
      const oldest = this.byKey.keys().next();
      if (!oldest.done) this.byKey.delete(oldest.value);
    }
  }
}

/** Draws rows into a table; the newest are at the top while `newestFirst`. */
export class RowTable {
  readonly element: HTMLElement;
  private head = h("tr");
  private body = h("tbody");

  constructor(label: string) {
    const caption = h("caption", { class: "hidden" }, label);
    this.element = scrolled(label, h("table", { class: "rows" }, caption, h("thead", {}, this.head), this.body));
  }

  columns(columns: Column[]): void {
    this.head.replaceChildren(
      ...columns.map((column) =>
        h("th", { scope: "col", title: column.type }, column.name, h("small", {}, column.type)),
      ),
    );
  }

  draw(columns: Column[], rows: Row[], newestFirst: boolean): void {
    const shown = rows.slice(-DRAWN);
    if (newestFirst) shown.reverse();
    this.body.replaceChildren(...shown.map((row) => line(columns, row)));
  }
}

function line(columns: Column[], row: Row): HTMLElement {
  const cells = columns.map((column, index) => {
    const value = row.values[index] ?? null;
    const look = value === null ? "null" : isNumber(column) || isTime(column) ? "number" : "";
    return h("td", { class: look }, textOf(value, column));
  });
  return h("tr", { class: row.deleted ? "deleted" : "" }, ...cells);
}
