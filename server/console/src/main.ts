/** The console: one page, whose views are in the address after `#`. */

import { button, h } from "./dom";
import { Session } from "./session";
import type { Opens, View } from "./view";
import { instances } from "./views/instances";
import { log } from "./views/log";
import { queries } from "./views/queries";
import { sources } from "./views/sources";
import { sql } from "./views/sql";
import { topics } from "./views/topics";

const VIEWS: { name: string; title: string; opens: Opens }[] = [
  { name: "sql", title: "SQL", opens: sql },
  { name: "queries", title: "Queries", opens: queries },
  { name: "sources", title: "Streams and tables", opens: sources },
  { name: "topics", title: "Topics", opens: topics },
  { name: "log", title: "Processing log", opens: log },
  { name: "instances", title: "Instances", opens: instances },
];
const THEME = "millstream.theme";

const session = new Session();
const place = h("main", { id: "main", tabindex: -1 });
const opened = new Map<string, View>();
const links = VIEWS.map(({ name, title }, index) => h("a", { href: `#${name}`, title: `Alt-${index + 1}` }, title));

/** Shows the view that the address names. */
function route(): void {
  const [name = "", ...rest] = location.hash.slice(1).split("/");
  const wanted = VIEWS.find((view) => view.name === name) ?? VIEWS[0];
  if (wanted === undefined) return;
  opened.forEach((view) => view.leave());
  const view = opened.get(wanted.name) ?? wanted.opens(session);
  opened.set(wanted.name, view);
  links.forEach((link, index) => {
    if (VIEWS[index] === wanted) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  });
  document.title = `${wanted.title} – Millstream`;
  if (place.firstChild !== view.element) place.replaceChildren(view.element);
  view.show(rest.join("/"));
}

/** Asks for a user or a token; the page forgets them when it is closed. */
function signIn(refused: boolean): Promise<void> {
  return new Promise((resolve) => {
    const user = h("input", { name: "user", autocomplete: "username" });
    const password = h("input", { name: "password", type: "password", autocomplete: "current-password" });
    const token = h("input", { name: "token", type: "password", autocomplete: "off" });
    const dialog = h("dialog", { "aria-label": "Sign in" });
    const form = h("form", { method: "dialog" },
      h("h2", {}, "Sign in"),
      refused && h("p", { class: "problem", role: "alert" }, "The server refused these. Try again."),
      h("label", {}, "User", user), h("label", {}, "Password", password),
      h("p", {}, "or"), h("label", {}, "Token", token),
      h("button", { type: "submit", class: "main" }, "Sign in"));
    form.addEventListener("submit", () => {
      if (token.value) session.server.useToken(token.value);
      else session.server.useBasic(user.value, password.value);
      dialog.remove();
      resolve();
    });
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.append(form);
    document.body.append(dialog);
    dialog.showModal();
  });
}

let asking: Promise<void> | null = null;
session.server.signIn = (refused) => (asking ??= signIn(refused).finally(() => (asking = null)));

function theme(): void {
  const dark = document.documentElement.dataset["theme"] === "dark";
  document.documentElement.dataset["theme"] = dark ? "light" : "dark";
  localStorage.setItem(THEME, dark ? "light" : "dark");
}

const isDark = localStorage.getItem(THEME) ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
document.documentElement.dataset["theme"] = isDark === "dark" ? "dark" : "light";
document.body.append(
  h("header", { class: "top" },
    h("a", { href: "#main", class: "skip", onclick: (event) => { event.preventDefault(); place.focus(); } }, "Skip to the content"),
    h("h1", {}, "Millstream"), h("nav", { "aria-label": "Views" }, ...links),
    button("Dark / light", theme)),
  place,
);
addEventListener("hashchange", route);
addEventListener("keydown", (event) => {
  const index = event.altKey ? Number(event.key) - 1 : -1;
  const wanted = VIEWS[index];
  if (wanted === undefined) return;
  event.preventDefault();
  location.hash = `#${wanted.name}`;
});
route();
