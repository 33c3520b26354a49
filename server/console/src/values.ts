/** Values of rows: JSON without loss, types of columns, and their texts. */

/** A number that JavaScript's numbers would round, or show otherwise than the server does. */
export class Exact {
  constructor(readonly text: string) {}

  toJSON(): string {
    return this.text;
  }
}

export type Value = null | boolean | number | string | Exact | Value[] | { [name: string]: Value };

interface Column {
  name: string;
  type: string;
  key: boolean;
}
export type { Column };

/** Parses JSON; a number keeps the digits it was sent with (BIGINT, DECIMAL). */
export function parsed(text: string): Value {
  const keep = (_name: string, value: unknown, context?: { source?: string }): unknown => {
    const source = context?.source;
    return typeof value === "number" && source !== undefined && String(value) !== source
      ? new Exact(source)
      : value;
  };
  return JSON.parse(text, keep as (name: string, value: unknown) => unknown) as Value;
}

/** The columns of a header's schema: `` `ID` STRING KEY, `AT` STRUCT<`X` INTEGER> ``. */
export function columnsOf(schema: string): Column[] {
  return pieces(schema).map((piece) => {
    const [, quoted, rest] = /^`((?:[^`]|``)*)`\s+([\s\S]*)$/.exec(piece) ?? [];
    if (quoted === undefined || rest === undefined) return { name: piece, type: "", key: false };
    const key = / (?:PRIMARY )?KEY$/.exec(rest);
    const type = key ? rest.slice(0, key.index) : rest;
    return { name: quoted.replaceAll("``", "`"), type, key: key !== null };
  });
}

/** The parts between commas that are neither in brackets nor in quotes. */
function pieces(text: string): string[] {
  const found: string[] = [];
  let depth = 0;
  let quoted = false;
  let start = 0;
  for (let at = 0; at < text.length; at++) {
    const letter = text[at];
    if (letter === "`") quoted = !quoted;
    else if (quoted) continue;
    else if (letter === "<" || letter === "(") depth++;
    else if (letter === ">" || letter === ")") depth--;
    else if (letter === "," && depth === 0) {
      found.push(text.slice(start, at).trim());
      start = at + 1;
    }
  }
  const last = text.slice(start).trim();
  return last ? [...found, last] : found;
}

const BOUNDS = new Set(["WINDOWSTART", "WINDOWEND", "ROWTIME"]);

/** Whether a column holds times in ms: the bounds of windows, and ROWTIME. */
export function isTime(column: Column): boolean {
  return BOUNDS.has(column.name) && column.type === "BIGINT";
}

/** Whether a column can be drawn. */
export function isNumber(column: Column): boolean {
  return /^(INTEGER|BIGINT|DOUBLE|DECIMAL)/.test(column.type) && !isTime(column);
}

/** A value as people read it; nested ones as JSON. */
export function textOf(value: Value, column?: Column): string {
  if (value === null) return "null";
  if (value instanceof Exact) return value.text;
  if (typeof value === "string") return value;
  if (typeof value === "number" && column !== undefined && isTime(column)) return timeText(value);
  return typeof value === "object" ? jsonText(value) : String(value);
}

function jsonText(value: Value): string {
  if (value instanceof Exact) return value.text;
  if (Array.isArray(value)) return `[${value.map(jsonText).join(", ")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const fields = Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${jsonText(one)}`);
  return `{${fields.join(", ")}}`;
}

/** Local time with ms, in the order of ISO 8601. */
export function timeText(ms: number): string {
  const at = new Date(ms);
  const two = (n: number): string => String(n).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
  return `${day} ${clock}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

/** The number to draw, NaN if there is none. */
export function numberOf(value: Value | undefined): number {
  if (typeof value === "number") return value;
  return value instanceof Exact ? Number(value.text) : NaN;
}

/** A rate or a count, short. */
export function short(value: number | undefined): string {
  if (value === undefined || Number.isNaN(value)) return "–";
  if (value >= 10_000) return new Intl.NumberFormat("en", { notation: "compact" }).format(value);
  return Number.isInteger(value) ? String(value) : value.toFixed(value < 10 ? 2 : 1);
}
