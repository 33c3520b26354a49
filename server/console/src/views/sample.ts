/** A few records of a topic. */

import { h } from "../dom";
import type { Session } from "../session";
import { problem } from "../view";

const RECORDS = 20;
const PATIENCE_MS = 3000;

/** Appends the first records of a topic to `into`, as PRINT shows them. */
export async function sample(session: Session, topic: string, into: HTMLElement): Promise<void> {
  const lines: string[] = [];
  const shown = h("pre", { class: "lines", tabindex: 0 }, "…");
  into.append(h("h3", {}, `First records of ${topic}`), shown);
  const ending = new AbortController();
  const timer = window.setTimeout(() => ending.abort(), PATIENCE_MS);
  const to = {
    columns: () => undefined,
    rows: () => undefined,
    lines: (more: string[]) => {
      lines.push(...more);
      shown.textContent = lines.join("\n");
    },
  };
  try {
    await session.server.query(`PRINT '${topic.replaceAll("'", "''")}' FROM BEGINNING LIMIT ${RECORDS};`, {}, to, ending.signal);
  } catch (error) {
    if (!ending.signal.aborted) shown.replaceWith(problem(error));
    else if (lines.length === 0) shown.textContent = "No records yet.";
  } finally {
    window.clearTimeout(timer);
  }
}
