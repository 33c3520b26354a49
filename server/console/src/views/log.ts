/** The processing log: records that queries could not process. */

import { grid, h } from "../dom";
import type { Session } from "../session";
import { textOf, timeText, type Value } from "../values";
import { problem, type View } from "../view";

const ENTRIES = 200;
const QUERY = "SELECT LOGGER, LEVEL, TIME, MESSAGE FROM KSQL_PROCESSING_LOG;";

/** The page of the processing log. */
export function log(session: Session): View {
  const list = h("div");
  const show = async (): Promise<void> => {
    const entries: Value[][] = [];
    try {
      await session.server.query(QUERY, {}, {
        columns: () => undefined,
        rows: (rows) => entries.push(...rows.map((row) => row.values)),
        lines: () => undefined,
      }, new AbortController().signal);
    } catch (error) {
      list.replaceChildren(problem(error));
      return;
    }
    list.replaceChildren(table(entries));
  };
  return {
    element: h("section", { "aria-label": "Processing log" }, list),
    show: () => void show(),
    leave: () => undefined,
  };
}

function table(entries: Value[][]): HTMLElement {
  if (entries.length === 0) return h("p", { class: "hint" }, "The processing log is empty: every record was processed.");
  const rows = entries.slice(-ENTRIES).reverse().map(([logger, level, time, message]) => [
    typeof time === "number" ? timeText(time) : textOf(time ?? null),
    textOf(level ?? null),
    textOf(logger ?? null),
    said(message ?? null),
  ]);
  return grid("Processing log", ["Time", "Level", "Logger", "Message"], rows);
}

/** The part of a message that says something: the others are null. */
function said(message: Value): string {
  if (message === null || typeof message !== "object" || Array.isArray(message)) return textOf(message);
  const parts = Object.values(message).filter((part) => part !== null && typeof part === "object");
  const errors = parts.map((part) => (part as { [name: string]: Value })["ERRORMESSAGE"] ?? null);
  return errors.filter((one) => one !== null).map((one) => textOf(one)).join(" ") || textOf(message);
}
