/** Topics, their sizes, and records of them. */

import type { Entity } from "../api";
import { grid, h } from "../dom";
import type { Session } from "../session";
import { short, timeText } from "../values";
import { problem, type View } from "../view";
import { sample } from "./sample";

/** The page of topics; `#topics/NAME` shows one. */
export function topics(session: Session): View {
  const list = h("div");
  const detail = h("div");
  const show = async (rest: string): Promise<void> => {
    const name = decodeURIComponent(rest);
    try {
      const [listed] = await session.server.statements("SHOW TOPICS EXTENDED;");
      list.replaceChildren(table((listed?.["topics"] ?? []) as Entity[], name));
    } catch (error) {
      list.replaceChildren(problem(error));
      return;
    }
    detail.replaceChildren();
    if (name) await sample(session, name, detail);
  };
  return {
    element: h("section", { "aria-label": "Topics" }, list, detail),
    show: (rest) => void show(rest),
    leave: () => undefined,
  };
}

function table(found: Entity[], chosen: string): HTMLElement {
  const bytes = new Intl.NumberFormat("en", { style: "unit", unit: "byte", notation: "compact", unitDisplay: "narrow" });
  const rows = found.map((topic) => [
    h("a", { href: `#topics/${encodeURIComponent(topic["name"])}`, ...(topic["name"] === chosen ? { "aria-current": "true" } : {}) }, topic["name"]),
    (topic["replicaInfo"] as number[]).length,
    short(topic["records"] ?? undefined),
    topic["bytes"] === null || topic["bytes"] === undefined ? "–" : bytes.format(topic["bytes"]),
    topic["oldestTimestamp"] === null || topic["oldestTimestamp"] === undefined ? "–" : timeText(topic["oldestTimestamp"]),
    topic["consumerGroupCount"],
  ]);
  return grid("Topics", ["Topic", "Partitions", "Records", "Size", "Oldest record", "Groups that read it"], rows);
}
