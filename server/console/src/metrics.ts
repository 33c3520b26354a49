/** The figures of /metrics. */

export interface Sample {
  labels: Record<string, string>;
  value: number;
}

export type Figures = Map<string, Sample[]>;

/** Parses the text format of Prometheus. */
export function figuresOf(text: string): Figures {
  const found: Figures = new Map();
  for (const line of text.split("\n")) {
    const match = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (line.startsWith("#") || !match) continue;
    const [, name = "", labels = "", value = ""] = match;
    const sample = { labels: labelsOf(labels), value: Number(value) };
    found.set(name, [...(found.get(name) ?? []), sample]);
  }
  return found;
}

function labelsOf(text: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [, name = "", value = ""] of text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
    found[name] = value.replace(/\\(.)/g, (_, letter: string) => (letter === "n" ? "\n" : letter));
  }
  return found;
}

/** The value with these labels, undefined if there is none. */
export function figure(figures: Figures, name: string, labels: Record<string, string> = {}): number | undefined {
  return figures.get(name)?.find((sample) => matches(sample.labels, labels))?.value;
}

/** The sum of the values with these labels. */
export function total(figures: Figures, name: string, labels: Record<string, string> = {}): number {
  const found = figures.get(name)?.filter((sample) => matches(sample.labels, labels)) ?? [];
  return found.reduce((sum, sample) => sum + sample.value, 0);
}

function matches(labels: Record<string, string>, wanted: Record<string, string>): boolean {
  return Object.entries(wanted).every(([name, value]) => labels[name] === value);
}
