/** Elements as nested calls: `h("p", { class: "hint" }, "text", h("b", {}, "more"))`. */

type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | EventListener | undefined>;

/** An HTML element. Attributes that begin with `on` are listeners; true is an empty attribute. */
export function h<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  fill(made, attributes, children);
  return made;
}

/** An element of SVG. */
export function svg(name: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  fill(made, attributes, children);
  return made;
}

function fill(made: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== undefined) made.setAttribute(name, String(value));
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) made.append(child as Node | string);
  }
}

/** A table with a head; each cell is a text or an element. */
export function grid(caption: string, head: string[], rows: Child[][]): HTMLElement {
  const body = rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", {}, cell))));
  return scrolled(
    caption,
    h(
      "table",
      {},
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, ...head.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ...body),
    ),
  );
}

/** A region that can be scrolled with the keyboard, too. */
export function scrolled(label: string, ...children: Node[]): HTMLElement {
  return h("div", { class: "scrolled", tabindex: 0, role: "region", "aria-label": label }, ...children);
}

/** A button with a text. */
export function button(text: string, press: () => void, attributes: Attributes = {}): HTMLButtonElement {
  return h("button", { type: "button", onclick: () => press(), ...attributes }, text);
}
