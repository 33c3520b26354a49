/** The editor of SQL: highlighting, completion and history. */

import { autocompletion, closeBrackets, closeBracketsKeymap, closeCompletion, completionKeymap } from "@codemirror/autocomplete";
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { EditorState, Prec } from "@codemirror/state";
import { EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";

import words from "./words.json";
import { h } from "./dom";

const KEYWORDS = new Set(words.keywords);
const TYPES = new Set(words.types);

export interface Editor {
  text(): string;
  position(): number;
  replace(text: string): void;
  insert(text: string): void;
  focus(): void;
}

/** Builds an editor in `place`; `names` are completed beside keywords, `run` is Ctrl-Enter. */
export function editor(place: HTMLElement, names: () => Completion[], run: (all: boolean) => void): Editor {
  // In a shadow root styles are objects and no elements, which the page's policy would refuse.
  const inside = h("div", { class: "editor" });
  const root = inside.attachShadow({ mode: "open" });
  place.append(inside);
  const starts = (all: boolean) => (from: EditorView): boolean => {
    closeCompletion(from);
    run(all);
    return true;
  };
  const view = new EditorView({
    parent: root as unknown as Element,
    root,
    state: EditorState.create({
      extensions: [
        Prec.highest(keymap.of([
          { key: "Mod-Enter", run: starts(true) },
          { key: "Shift-Enter", run: starts(false) },
        ])),
        lineNumbers(),
        history(),
        drawSelection(),
        bracketMatching(),
        closeBrackets(),
        highlightActiveLine(),
        placeholder("SELECT * FROM orders EMIT CHANGES;"),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": "SQL" }),
        StreamLanguage.define({ startState: () => ({ inComment: false }), token }),
        syntaxHighlighting(COLOURS),
        autocompletion({ override: [(context) => completed(context, names())] }),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
        LOOK,
      ],
    }),
  });
  const changed = (from: number, to: number, insert: string): void => {
    view.dispatch({ changes: { from, to, insert }, selection: { anchor: from + insert.length } });
  };
  return {
    text: () => view.state.doc.toString(),
    position: () => view.state.selection.main.head,
    replace: (text) => changed(0, view.state.doc.length, text),
    insert: (text) => changed(view.state.selection.main.from, view.state.selection.main.to, text),
    focus: () => view.focus(),
  };
}

const LOOK = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--field)", fontSize: "14px", maxHeight: "40vh", minHeight: "8.5em" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--ink)", minHeight: "8em" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--field)", color: "var(--faint)", border: "none" },
  ".cm-activeLine": { backgroundColor: "transparent" },
  ".cm-placeholder": { color: "var(--faint)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { background: "var(--chosen) !important" },
  ".cm-tooltip": { backgroundColor: "var(--paper)", color: "var(--ink)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
});

const COLOURS = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--keyword)", fontWeight: "600" },
  { tag: tags.typeName, color: "var(--type)" },
  { tag: tags.string, color: "var(--text)" },
  { tag: tags.number, color: "var(--number)" },
  { tag: tags.comment, color: "var(--faint)", fontStyle: "italic" },
  { tag: tags.function(tags.variableName), color: "var(--function)" },
]);

interface Tokens {
  match(pattern: RegExp): RegExpMatchArray | boolean | null;
  skipToEnd(): void;
  next(): string | void;
  current(): string;
}

function token(stream: Tokens, state: { inComment: boolean }): string | null {
  if (state.inComment || stream.match(/^\/\*/)) {
    state.inComment = !stream.match(/^.*?\*\//);
    if (state.inComment) stream.skipToEnd();
    return "comment";
  }
  if (stream.match(/^--.*/)) return "comment";
  if (stream.match(/^'(?:[^']|'')*'?/)) return "string";
  if (stream.match(/^(?:`[^`]*`?|"[^"]*"?)/)) return null;
  if (stream.match(/^\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/)) return "number";
  if (stream.match(/^[A-Za-z_][A-Za-z0-9_$]*/)) {
    const word = stream.current().toUpperCase();
    if (KEYWORDS.has(word)) return "keyword";
    if (TYPES.has(word)) return "typeName";
    return stream.match(/^(?=\s*\()/) ? "variableName.function" : null;
  }
  stream.next();
  return null;
}

function completed(context: CompletionContext, names: Completion[]): CompletionResult | null {
  const word = context.matchBefore(/[A-Za-z_][A-Za-z0-9_]*$/);
  if (word === null && !context.explicit) return null;
  const before = context.state.sliceDoc(0, word?.from ?? context.pos);
  if (/(?:--[^\n]*|'[^']*)$/.test(before.replace(/'(?:[^']|'')*'/g, ""))) return null;
  const fixed = [
    ...words.keywords.map((label) => ({ label, type: "keyword" })),
    ...words.types.map((label) => ({ label, type: "type" })),
  ];
  return { from: word?.from ?? context.pos, options: [...names, ...fixed], validFor: /^\w*$/ };
}
