/** What all views share: the server, the properties of SET, and the names that can be completed. */

import type { Completion } from "@codemirror/autocomplete";

import { Server, type Entity, type Properties } from "./api";

export interface Source {
  name: string;
  kind: "STREAM" | "TABLE";
  topic: string;
  windowed: boolean;
  columns: { name: string; type: string; key: boolean }[];
  statement: string;
  readers: string[];
  writers: string[];
}

export class Session {
  readonly server = new Server();
  readonly properties: Properties = { "auto.offset.reset": "earliest" };
  sources = new Map<string, Source>();
  private functions: string[] = [];

  /** Ask for the streams, tables and functions there are. */
  async refresh(): Promise<void> {
    const entities = await this.server.statements("LIST STREAMS EXTENDED; LIST TABLES EXTENDED;");
    const found = entities.flatMap((entity) => (entity["sourceDescriptions"] ?? []) as Entity[]);
    this.sources = new Map(found.map(sourceOf).map((source) => [source.name, source]));
    if (this.functions.length === 0) {
      const [listed] = await this.server.statements("SHOW FUNCTIONS;");
      this.functions = (listed?.["functions"] ?? []).map((one: { name: string }) => one.name);
    }
  }

  /** Names for completion: sources first, then columns, then functions. */
  completions(): Completion[] {
    const sources = [...this.sources.values()];
    const columns = new Map(sources.flatMap((source) => source.columns.map(({ name, type }) => [name, type])));
    return [
      ...sources.map(({ name, kind }) => ({ label: name, type: "class", detail: kind.toLowerCase(), boost: 2 })),
      ...[...columns].map(([label, detail]) => ({ label, type: "property", detail, boost: 1 })),
      ...this.functions.map((label) => ({ label, type: "function", apply: `${label}(` })),
    ];
  }
}

function sourceOf(found: Entity): Source {
  const ids = (one: string): string[] => (found[one] ?? []).map((query: { id: string }) => query.id);
  return {
    name: found["name"],
    kind: found["type"],
    topic: found["topic"],
    windowed: Boolean(found["windowType"]),
    columns: (found["fields"] ?? []).map((field: any) => ({
      name: field.name,
      type: typeText(field.schema),
      key: field.type === "KEY",
    })),
    statement: found["statement"],
    readers: ids("readQueries"),
    writers: ids("writeQueries"),
  };
}

/** The type of a schema of the API, as it is written in SQL. */
export function typeText(schema: any): string {
  switch (schema.type) {
    case "DECIMAL":
      return `DECIMAL(${schema.parameters?.precision}, ${schema.parameters?.scale})`;
    case "ARRAY":
      return `ARRAY<${typeText(schema.memberSchema)}>`;
    case "MAP":
      return `MAP<STRING, ${typeText(schema.memberSchema)}>`;
    case "STRUCT":
      return `STRUCT<${schema.fields.map((field: any) => `${field.name} ${typeText(field.schema)}`).join(", ")}>`;
    default:
      return schema.type;
  }
}
