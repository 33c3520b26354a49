/** Calls to the server. All go to the origin of the page, with the credentials of its session. */

import { columnsOf, parsed, type Column, type Value } from "./values";

export type Entity = { "@type": string; statementText?: string } & { [name: string]: any };
export type Properties = Record<string, string>;

/** What the server refused, with the statement. */
export class Refused extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: number | undefined,
    readonly statement: string | undefined,
    readonly entities: Entity[],
  ) {
    super(message);
  }
}

/** What arrives of a query: its columns first, then rows; lines if it prints a topic. */
export interface Receiver {
  columns(columns: Column[]): void;
  rows(rows: { values: Value[]; deleted: boolean }[]): void;
  lines(lines: string[]): void;
}

const KSQL = "application/vnd.ksql.v1+json";

export class Server {
  private authorization: string | undefined;
  /** Called where credentials are missing or wrong; the call is made again after it. */
  signIn: (refused: boolean) => Promise<void> = () => Promise.reject(new Error("sign in"));

  /** Send a user and a password with all later calls. */
  useBasic(user: string, password: string): void {
    const bytes = new TextEncoder().encode(`${user}:${password}`);
    this.authorization = `Basic ${btoa(String.fromCharCode(...bytes))}`;
  }

  /** Send a token with all later calls. */
  useToken(token: string): void {
    this.authorization = `Bearer ${token}`;
  }

  /** Execute statements; the entities of ksqlDB's API. */
  async statements(text: string, properties: Properties = {}): Promise<Entity[]> {
    const reply = await this.call("/ksql", { ksql: text, streamsProperties: properties });
    return (await reply.json()) as Entity[];
  }

  /** Run SELECT, PEEK or PRINT until it ends, or `signal` ends it; an error raises Refused. */
  async query(text: string, properties: Properties, to: Receiver, signal: AbortSignal): Promise<void> {
    const reply = await this.call("/query", { ksql: text, streamsProperties: properties }, signal);
    const isRows = (reply.headers.get("content-type") ?? "").startsWith(KSQL);
    for await (const lines of linesOf(reply)) {
      if (isRows) received(lines, to);
      else to.lines(lines);
    }
  }

  /** A JSON value of the server. */
  async get(path: string): Promise<any> {
    return (await this.call(path)).json();
  }

  /** The figures of /metrics by name and labels; see `metrics.ts`. */
  async metrics(): Promise<string> {
    return (await this.call("/metrics", undefined, undefined, "text/plain")).text();
  }

  private async call(path: string, body?: object, signal?: AbortSignal, accept = KSQL): Promise<Response> {
    const headers: Record<string, string> = { accept };
    if (this.authorization !== undefined) headers["authorization"] = this.authorization;
    if (body !== undefined) headers["content-type"] = "application/json";
    const reply = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
      // The browser must not ask for a password itself, nor keep one.
      credentials: "omit",
    });
    if (reply.status === 401) {
      await this.signIn(headers["authorization"] !== undefined);
      return this.call(path, body, signal, accept);
    }
    if (!reply.ok) throw await refused(reply);
    return reply;
  }
}

async function refused(reply: Response): Promise<Refused> {
  const text = await reply.text();
  try {
    const found = JSON.parse(text) as Entity;
    return refusal(found, reply.status);
  } catch {
    return new Refused(text || reply.statusText, reply.status, undefined, undefined, []);
  }
}

function refusal(found: Entity, status: number): Refused {
  const message = typeof found["message"] === "string" ? found["message"] : JSON.stringify(found);
  return new Refused(message, status, found["error_code"], found.statementText, found["entities"] ?? []);
}

async function* linesOf(reply: Response): AsyncGenerator<string[]> {
  if (reply.body === null) return;
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const lines = (left + value).split("\n");
    left = lines.pop() ?? "";
    if (lines.length > 0) yield lines;
  }
  if (left !== "") yield [left];
}

/** Lines of the array of objects that /query sends, one object on each. */
function received(lines: string[], to: Receiver): void {
  const rows: { values: Value[]; deleted: boolean }[] = [];
  for (const line of lines) {
    const text = line.slice(line.indexOf("{"), line.lastIndexOf("}") + 1);
    if (text === "") continue;
    const found = parsed(text) as { [name: string]: any };
    if (found["header"]) to.columns(columnsOf(found["header"].schema));
    else if (found["row"]) rows.push({ values: found["row"].columns, deleted: isDeleted(found) });
    else if (found["errorMessage"]) {
      if (rows.length > 0) to.rows(rows);
      throw refusal(found["errorMessage"], 200);
    }
  }
  if (rows.length > 0) to.rows(rows);
}

function isDeleted(found: { [name: string]: any }): boolean {
  return found["row"].tombstone === true;
}
