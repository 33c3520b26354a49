/** A page of the console, and what pages have in common. */

import { Refused } from "./api";
import { h } from "./dom";
import type { Session } from "./session";

export interface View {
  element: HTMLElement;
  /** Called when the page comes to be seen; `rest` is what follows its name in the address. */
  show(rest: string): void;
  /** Called when it is left: nothing may go on asking the server. */
  leave(): void;
}

/** Builds a view. */
export type Opens = (session: Session) => View;

/** A box that says what went wrong and what to do; the server's words. */
export function problem(error: unknown): HTMLElement {
  const text = error instanceof Error ? error.message : String(error);
  const code = error instanceof Refused && error.code !== undefined ? ` ${error.code}` : "";
  return h("div", { class: "problem", role: "alert" }, h("strong", {}, `Error${code}`), h("pre", {}, text));
}

/** Calls `ask` now and then while a view is seen. */
export class Repeated {
  private timer: number | undefined;
  private shown = 0;

  constructor(
    private ask: (still: () => boolean) => Promise<void>,
    private failed: (error: unknown) => void,
    private everyMs = 2000,
  ) {}

  start(): void {
    this.stop();
    const mine = ++this.shown;
    const still = (): boolean => mine === this.shown;
    const next = async (): Promise<void> => {
      try {
        if (!document.hidden) await this.ask(still);
      } catch (error) {
        if (still()) this.failed(error);
      }
      if (still()) this.timer = window.setTimeout(() => void next(), this.everyMs);
    };
    void next();
  }

  stop(): void {
    this.shown++;
    window.clearTimeout(this.timer);
  }
}
