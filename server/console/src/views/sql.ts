/** Statements and their results. */

import { Refused } from "../api";
import { button, h } from "../dom";
import { editor } from "../editor";
import { entityBox, QueryPanel } from "../results";
import type { Session } from "../session";
import { routeOf, settingOf, split, statementAt } from "../statements";
import { problem, type View } from "../view";

const PANELS_MAX = 12;
const REMEMBERED = 30;
const MEMORY = "millstream.statements";

/** The page with the editor. */
export function sql(session: Session): View {
  const results = h("div", { class: "results", "aria-live": "off" });
  const place = h("div");
  const remembered = h("select", { "aria-label": "Earlier statements" });
  const since = h("select", { "aria-label": "Where queries begin" },
    h("option", { value: "earliest" }, "from the beginning"),
    h("option", { value: "latest" }, "from now on"));
  const running: QueryPanel[] = [];
  const written = editor(place, () => session.completions(), (all) => void run(all));

  const put = (element: HTMLElement): void => {
    results.prepend(element);
    while (results.childElementCount > PANELS_MAX) {
      const last = results.lastElementChild;
      // Nobody sees its rows any more.
      running.find((panel) => panel.element === last)?.stop();
      last?.remove();
    }
  };
  const begin = (text: string): void => {
    const panel = new QueryPanel(session, text);
    running.push(panel);
    put(panel.element);
    void panel.run();
  };
  const execute = async (statements: string[]): Promise<void> => {
    let waiting: string[] = [];
    const send = async (): Promise<void> => {
      if (waiting.length === 0) return;
      const text = waiting.join("\n");
      waiting = [];
      const entities = await session.server.statements(text, session.properties);
      entities.forEach((entity) => put(entityBox(entity)));
      if (entities.length === 0) put(h("section", { class: "panel" }, h("header", {}, h("code", {}, text)), h("p", { class: "done" }, "Done.")));
      await session.refresh();
    };
    for (const statement of statements) {
      const route = routeOf(statement);
      if (route === "statements") {
        waiting.push(statement);
        continue;
      }
      await send();
      if (route === "setting") set(session, statement, put);
      else begin(statement);
    }
    await send();
  };
  const run = async (all: boolean): Promise<void> => {
    const text = written.text();
    const statements = all ? split(text) : [statementAt(text, written.position())];
    if (statements.length === 0 || statements[0] === "") return;
    remember(text, remembered);
    try {
      await execute(statements);
    } catch (error) {
      if (error instanceof Refused) error.entities.forEach((entity) => put(entityBox(entity)));
      put(problem(error));
    }
    since.value = session.properties["auto.offset.reset"] ?? "latest";
  };

  since.addEventListener("change", () => (session.properties["auto.offset.reset"] = since.value));
  remembered.addEventListener("change", () => {
    if (remembered.value) written.replace(remembered.value);
    remembered.selectedIndex = 0;
    written.focus();
  });
  recall(remembered);
  const stopAll = (): void => running.splice(0).forEach((panel) => panel.stop());
  const element = h("section", { "aria-label": "SQL" }, place,
    h("div", { class: "bar" },
      button("Run", () => void run(true), { class: "main", title: "Ctrl-Enter; Shift-Enter runs the statement at the cursor" }),
      button("Stop all", stopAll, { title: "Escape" }), since, remembered,
      button("Clear results", () => { stopAll(); results.replaceChildren(); })),
    results);
  element.addEventListener("keydown", (event) => {
    // In the editor, Escape first closes what completes.
    if (event.key === "Escape" && !event.defaultPrevented) stopAll();
  });
  return {
    element,
    show: (rest) => {
      if (rest) {
        written.replace(decodeURIComponent(rest));
        history.replaceState(null, "", "#sql");
      }
      written.focus();
      session.refresh().catch((error: unknown) => put(problem(error)));
    },
    leave: () => undefined,
  };
}

function set(session: Session, statement: string, put: (element: HTMLElement) => void): void {
  const found = settingOf(statement);
  if (found === null) throw new Error(`${statement} is written SET 'name' = 'value'; or UNSET 'name';`);
  if (found.value === undefined) delete session.properties[found.name];
  else session.properties[found.name] = found.value;
  put(h("p", { class: "done" }, found.value === undefined ? `${found.name} is no longer set.` : `${found.name} is '${found.value}' in this page.`));
}

function remember(text: string, into: HTMLSelectElement): void {
  const texts = [text, ...memory().filter((one) => one !== text)].slice(0, REMEMBERED);
  localStorage.setItem(MEMORY, JSON.stringify(texts));
  recall(into);
}

function recall(into: HTMLSelectElement): void {
  const options = memory().map((text) => h("option", { value: text }, text.replace(/\s+/g, " ").slice(0, 60)));
  into.replaceChildren(h("option", { value: "" }, "Earlier statements"), ...options);
}

function memory(): string[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(MEMORY) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}
