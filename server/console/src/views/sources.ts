/** Streams and tables. */

import { button, grid, h } from "../dom";
import type { Session, Source } from "../session";
import { quoted } from "../statements";
import { problem, type View } from "../view";
import { sample } from "./sample";

/** The page of streams and tables; `#sources/NAME` shows one. */
export function sources(session: Session): View {
  const list = h("div");
  const detail = h("div");
  const show = async (rest: string): Promise<void> => {
    try {
      await session.refresh();
    } catch (error) {
      list.replaceChildren(problem(error));
      return;
    }
    const name = decodeURIComponent(rest);
    list.replaceChildren(table([...session.sources.values()], name));
    const chosen = session.sources.get(name);
    detail.replaceChildren();
    if (chosen !== undefined) await describe(session, chosen, detail);
  };
  return {
    element: h("section", { "aria-label": "Streams and tables" }, list, detail),
    show: (rest) => void show(rest),
    leave: () => undefined,
  };
}

function table(found: Source[], chosen: string): HTMLElement {
  const rows = found.map((source) => [
    h("a", { href: `#sources/${encodeURIComponent(source.name)}`, ...(source.name === chosen ? { "aria-current": "true" } : {}) }, source.name),
    source.kind.toLowerCase() + (source.windowed ? ", windowed" : ""),
    source.topic,
    source.columns.length,
    source.readers.length,
  ]);
  return grid("Streams and tables", ["Name", "Kind", "Topic", "Columns", "Read by queries"], rows);
}

async function describe(session: Session, source: Source, into: HTMLElement): Promise<void> {
  const name = quoted(source.name);
  const ask = (text: string): void => {
    location.hash = `#sql/${encodeURIComponent(text)}`;
  };
  const links = (ids: string[]): HTMLElement[] => ids.map((id) => h("a", { href: `#queries/${encodeURIComponent(id)}` }, `${id} `));
  into.append(
    h("h2", {}, source.name),
    h("div", { class: "bar" },
      button("Query it", () => ask(`SELECT * FROM ${name} EMIT CHANGES;`), { class: "main" }),
      ...(source.kind === "TABLE" ? [button("Its rows now", () => ask(`SELECT * FROM ${name};`))] : [])),
    h("pre", { class: "lines", tabindex: 0 }, source.statement),
    grid(`Columns of ${source.name}`, ["Column", "Type", "Key"], source.columns.map(({ name: column, type, key }) => [column, type, key ? "key" : ""])),
    h("p", {}, "Written by ", ...(source.writers.length ? links(source.writers) : ["clients"])),
    h("p", {}, "Read by ", ...(source.readers.length ? links(source.readers) : ["no query"])),
  );
  await sample(session, source.topic, into);
}
