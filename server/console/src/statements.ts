/** Splits a script into statements, and tells what each needs. */

export type Route = "statements" | "rows" | "lines" | "setting";

const SKIPPED = /^(?:\s+|--[^\n]*(?:\n|$)|\/\*[\s\S]*?(?:\*\/|$))+/;
const SETTING = /^(UN)?SET\s+'([^']+)'(?:\s*=\s*'((?:[^']|'')*)')?\s*;?\s*$/i;

/** The statements of a script, each with its semicolon. Quotes and comments are left alone. */
export function split(text: string): string[] {
  const token = /'(?:[^']|'')*'?|`[^`]*`?|"[^"]*"?|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|;/g;
  const found: string[] = [];
  let start = 0;
  for (const match of text.matchAll(token)) {
    if (match[0] !== ";") continue;
    found.push(text.slice(start, match.index + 1));
    start = match.index + 1;
  }
  found.push(text.slice(start));
  return found.map(bare).filter((statement) => statement !== "" && statement !== ";");
}

/** The statement around a position of a script, for running it alone. */
export function statementAt(text: string, position: number): string {
  let end = 0;
  for (const statement of split(text)) {
    end = text.indexOf(statement, end) + statement.length;
    if (position <= end) return statement;
  }
  return split(text).at(-1) ?? "";
}

/** Without blanks and comments before it. */
function bare(statement: string): string {
  return statement.replace(SKIPPED, "").trim();
}

/** The way that a statement goes: to /ksql, to /query for rows or lines of text, or nowhere. */
export function routeOf(statement: string): Route {
  const word = /^\w+/.exec(statement)?.[0].toUpperCase() ?? "";
  if (word === "SELECT" || word === "PEEK") return "rows";
  if (word === "PRINT") return "lines";
  return SETTING.test(statement) ? "setting" : "statements";
}

/** SET or UNSET of a property of the page's session; `value` is undefined for UNSET. */
export function settingOf(statement: string): { name: string; value: string | undefined } | null {
  const match = SETTING.exec(statement);
  if (!match?.[2] || (match[1] === undefined && match[3] === undefined)) return null;
  return { name: match[2], value: match[1] ? undefined : match[3]?.replaceAll("''", "'") };
}

/** The name in back-ticks where it needs them. */
export function quoted(name: string): string {
  return /^[A-Z_][A-Z0-9_]*$/.test(name) ? name : `\`${name.replaceAll("`", "``")}\``;
}

/** The source and the grouping of a push query over one source; null for any other text. */
export function grouping(text: string): { source: string; by: string[] | null } | null {
  const plain = text.replace(/'(?:[^']|'')*'/g, "''");
  if (!/^SELECT\b/i.test(plain) || /\bJOIN\b|\bPARTITION\s+BY\b/i.test(plain)) return null;
  const source = /\bFROM\s+(`[^`]+`|\w+)/i.exec(plain)?.[1];
  if (source === undefined) return null;
  const by = /\bGROUP\s+BY\s+([\s\S]+?)\s*(?:\bHAVING\b|\bEMIT\b|\bLIMIT\b|;|$)/i.exec(plain)?.[1];
  return { source: plainName(source), by: by?.split(",").map((one) => plainName(one.trim())) ?? null };
}

function plainName(text: string): string {
  return text.startsWith("`") ? text.slice(1, -1) : text.toUpperCase();
}
