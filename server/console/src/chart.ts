/** Rows as a picture: lines over time, or bars of a key. */

import uPlot from "uplot";

import { h } from "./dom";
import type { Row } from "./rows";
import { isNumber, isTime, numberOf, textOf, type Column } from "./values";

const SERIES_MAX = 12;
const BARS_MAX = 30;

/** What can be drawn of these columns: the column of time or of names, and the numbers. */
export interface Axes {
  across: number;
  overTime: boolean;
  numbers: number[];
}

/** The axes for these columns; null where there is no number. */
export function axesOf(columns: Column[]): Axes | null {
  const numbers = columns.flatMap((column, index) => (isNumber(column) && !column.key ? [index] : []));
  const time = columns.findIndex(isTime);
  const name = columns.findIndex((column) => column.type === "STRING");
  if (time >= 0 && numbers.length > 0) return { across: time, overTime: true, numbers };
  const across = name >= 0 ? name : columns.findIndex((_, index) => numbers.length > 1 && index === numbers[0]);
  if (numbers.length === 0) return null;
  return { across, overTime: across < 0, numbers: numbers.filter((index) => index !== across) };
}

/** A picture that is drawn anew with the rows there are now. */
export class Chart {
  readonly element = h("div", { class: "chart" });
  private picker = h("select", { "aria-label": "Column drawn" });
  private place = h("div");
  private plot: uPlot | null = null;
  private shape = "";

  constructor() {
    this.element.append(h("label", { class: "pick" }, "Draw ", this.picker), this.place);
  }

  /** Rows without a time are drawn over the moment at which they came. */
  draw(columns: Column[], rows: Row[]): void {
    const axes = axesOf(columns);
    if (axes === null) {
      this.place.replaceChildren(h("p", { class: "hint" }, "There is no column of numbers to draw."));
      return;
    }
    this.pick(columns, axes);
    const number = Number(this.picker.value);
    if (axes.overTime) this.lines(columns, rows, axes, number);
    else this.bars(columns, rows, axes.across, number);
  }

  private pick(columns: Column[], axes: Axes): void {
    const before = this.picker.value;
    const options = axes.numbers.map((index) => h("option", { value: index }, columns[index]?.name ?? ""));
    if (this.picker.options.length !== options.length) this.picker.replaceChildren(...options);
    if (before) this.picker.value = before;
  }

  private lines(columns: Column[], rows: Row[], axes: Axes, number: number): void {
    const names = columns.findIndex((column, index) => column.type === "STRING" && index !== number);
    const series = new Map<string, Map<number, number>>();
    for (const row of rows) {
      const name = names < 0 ? (columns[number]?.name ?? "") : textOf(row.values[names] ?? null);
      const at = axes.across < 0 ? row.at : numberOf(row.values[axes.across]);
      if (!series.has(name) && series.size >= SERIES_MAX) continue;
      const points = series.get(name) ?? new Map<number, number>();
      points.set(at, numberOf(row.values[number]));
      series.set(name, points);
    }
    const times = [...new Set([...series.values()].flatMap((points) => [...points.keys()]))].sort((a, b) => a - b);
    const values = [...series.values()].map((points) => times.map((at) => points.get(at) ?? null));
    this.show([...series.keys()], [times.map((at) => at / 1000), ...values], true, []);
  }

  private bars(columns: Column[], rows: Row[], across: number, number: number): void {
    const found = new Map<string, number>();
    for (const row of rows) found.set(textOf(row.values[across] ?? null), numberOf(row.values[number]));
    const top = [...found].sort((a, b) => b[1] - a[1]).slice(0, BARS_MAX);
    const data: uPlot.AlignedData = [top.map((_, index) => index), top.map(([, value]) => value)];
    this.show([columns[number]?.name ?? ""], data, false, top.map(([name]) => name));
  }

  private show(names: string[], data: uPlot.AlignedData, isTime: boolean, labels: string[]): void {
    const shape = JSON.stringify([names, isTime, labels, document.documentElement.dataset["theme"]]);
    if (this.plot !== null && shape === this.shape) {
      this.plot.setData(data);
      return;
    }
    this.shape = shape;
    this.plot?.destroy();
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
    const line = getComputedStyle(document.documentElement).getPropertyValue("--line").trim();
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    const bars = uPlot.paths.bars?.({ size: [0.7, 80] });
    const across = isTime
      ? axis
      : { ...axis, splits: () => labels.map((_, index) => index), values: (_: uPlot, at: number[]) => at.map((i) => labels[i] ?? "") };
    this.place.replaceChildren();
    this.plot = new uPlot(
      {
        width: Math.max(this.element.clientWidth, 300),
        height: 280,
        scales: { x: isTime ? { time: true } : { time: false, range: [-0.6, Math.max(labels.length, 1) - 0.4] }, y: { range: zeroBased } },
        axes: [across, axis],
        series: [
          isTime ? {} : { label: "", value: (_, at) => (at === null ? "" : (labels[at] ?? "")) },
          ...names.map((label, index) => ({
            label,
            stroke: colour(index),
            width: 2,
            spanGaps: true,
            ...(isTime || bars === undefined ? {} : { paths: bars, fill: colour(index) }),
          })),
        ],
      },
      data,
      this.place,
    );
  }
}

/** A scale with zero in it, and at least one unit high. */
function zeroBased(_: uPlot, least: number | null, most: number | null): [number, number] {
  const low = Math.min(0, least ?? 0);
  const high = Math.max(0, most ?? 0);
  return low === high ? [low, low + 1] : [low * 1.05, high * 1.05];
}

/** Colours that can be told apart, also by those who see fewer of them. */
function colour(index: number): string {
  return `hsl(${(210 + index * 137.5) % 360} 65% 50%)`;
}
