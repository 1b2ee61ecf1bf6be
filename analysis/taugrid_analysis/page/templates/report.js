// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Names the cell under the pointer in any heat map, and hands out the CSV of a section. Reads what heat_maps.py packs.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");
const CELL = { uint16: Uint16Array, float32: Float32Array };

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

async function numbers(packed) {
  return packed ? new CELL[packed.type](await unpacked(packed.data)) : null;
}

// √(p(1 − p)/n), with p no nearer to 0 or 1 than 1/(n + 2): as sampling.binomial.
function binomial(share, n) {
  const p = Math.min(Math.max(share, 1 / (n + 2)), 1 - 1 / (n + 2));
  return Math.sqrt((p * (1 - p)) / n);
}

function shown(value, error, note) {
  if (!Number.isFinite(value)) return "not measured";
  const digits = Math.abs(value) >= 10 ? 1 : 3;
  const told = value.toFixed(digits);
  return Number.isFinite(error) ? `${told} ± ${error.toFixed(digits)}` : `${told} (${note})`;
}

// Of a grid: value and error of a pair at [first, second], or of the mean over pairs.
function gridCell(map, pair, first, second) {
  const size = map.alpha.length;
  const place = (p, side) => ((p * 2 + side) * size + first) * size + second;
  const terms = (p) =>
    [0, 1].map((side) => {
      const n = map.points ? map.points[p][side] : 0;
      const share = map.cells[place(p, side)] / (n || 1);
      return [share, n ? binomial(share, n) : NaN];
    });
  if (pair < map.tasks.length) {
    const [a, b] = terms(pair);
    return [a[0] + b[0], Math.hypot(a[1], b[1])];
  }
  const sums = map.tasks.map((_, p) => terms(p)).map(([a, b]) => a[0] + b[0]);
  const known = sums.filter(Number.isFinite);
  const mean = known.length ? known.reduce((sum, one) => sum + one, 0) / known.length : NaN;
  return [mean, map.means ? map.means[first * size + second] : NaN];
}

function matrixCell(map, row, column) {
  const place = row * map.columns.length + column;
  return [map.cells[place], map.spreads ? map.spreads[place] : NaN];
}

// Which cell holds this part, 0 … 1, of an axis with these centres.
function cellAt(centres, part) {
  const half = centres.slice(1).map((next, k) => (next - centres[k]) / 2);
  const edges = [centres[0] - half[0], ...half.map((h, k) => centres[k] + h)];
  const end = centres[centres.length - 1] + half[half.length - 1];
  const value = edges[0] + part * (end - edges[0]);
  let cell = 0;
  while (cell + 1 < centres.length && value >= edges[cell + 1]) cell += 1;
  return cell;
}

function lines(map, panel, across, down) {
  if (map.kind === "grid") {
    const first = cellAt(map.alpha, across);
    const second = cellAt(map.alpha, 1 - down); // α2 grows upwards
    const [a, b] = map.tasks[panel] || ["the column's task", "the row's task"];
    const title = map.tasks[panel] ? `${a} + ${b}` : `mean over ${map.tasks.length} pairs`;
    const [value, error] = gridCell(map, panel, first, second);
    return [
      `${title} (${map.title})`,
      `α of ${a} = ${+map.alpha[first].toFixed(4)}, α of ${b} = ${+map.alpha[second].toFixed(4)}`,
      `${map.quantity} = ${shown(value, error, map.note)}`,
    ];
  }
  const row = Math.min(Math.floor(down * map.rows.length), map.rows.length - 1);
  const column = Math.min(Math.floor(across * map.columns.length), map.columns.length - 1);
  const [value, error] = matrixCell(map, row, column);
  const named = `${map.roles[0]} ${map.rows[row]}, ${map.roles[1]} ${map.columns[column]}`;
  return [`${named} (${map.title})`, `${map.quantity} = ${shown(value, error, map.note)}`];
}

function point(event) {
  const axes = event.target.closest ? event.target.closest("[data-map]") : null;
  const image = axes ? axes.querySelector("image") : null;
  const box = image ? image.getBoundingClientRect() : null;
  const across = box ? (event.clientX - box.left) / box.width : -1;
  const down = box ? (event.clientY - box.top) / box.height : -1;
  if (across < 0 || across >= 1 || down < 0 || down >= 1) {
    tip.hidden = true;
    return;
  }
  const parts = axes.dataset.map.split("/");
  const panel = parts.length > 2 ? Number(parts.pop()) : 0;
  const map = data.maps[parts.join("/")];
  if (!map || !map.cells) return;
  tip.replaceChildren(
    ...lines(map, panel, across, down).map((text) => {
      const line = document.createElement("div");
      line.textContent = text;
      return line;
    }),
  );
  tip.hidden = false;
  const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  const above = event.clientY - tip.offsetHeight - 12;
  tip.style.left = `${Math.max(left, 8)}px`;
  tip.style.top = `${above > 8 ? above : event.clientY + 18}px`;
}

// A cell of CSV; no text is one that a spreadsheet computes.
function quoted(value) {
  const formula = typeof value === "string" && /^[=+\-@\t\r]/.test(value) && Number.isNaN(Number(value));
  const text = (formula ? "'" : "") + String(value);
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// Every cell of the maps whose keys begin with this.
function mapCsv(prefix) {
  const rows = [];
  for (const [key, map] of Object.entries(data.maps)) {
    if (!key.startsWith(`${prefix}/`)) continue;
    if (map.kind === "grid") {
      if (!rows.length) rows.push(["regime", "task_1", "task_2", "alpha_1", "alpha_2", "value", "error"]);
      map.tasks.forEach((tasks, pair) => {
        map.alpha.forEach((one, i) => {
          map.alpha.forEach((two, j) => rows.push([map.title, ...tasks, one, two, ...gridCell(map, pair, i, j)]));
        });
      });
    } else {
      if (!rows.length) rows.push(["regime", map.roles[0], map.roles[1], "value", "error"]);
      map.rows.forEach((row, i) => {
        map.columns.forEach((column, j) => rows.push([map.title, row, column, ...matrixCell(map, i, j)]));
      });
    }
  }
  return rows.map((row) => row.map((one) => quoted(Number.isNaN(one) ? "" : one)).join(",")).join("\n");
}

async function download(event) {
  const link = event.target.closest ? event.target.closest("a[data-csv]") : null;
  if (!link || link.href.startsWith("blob:")) return;
  event.preventDefault();
  const name = link.dataset.csv;
  const text = name.startsWith("map:") ? mapCsv(name.slice(4)) : await (await new Response(await unpacked(data.csv[name]))).text();
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.click();
}

async function start() {
  for (const map of Object.values(data.maps)) {
    map.cells = await numbers(map);
    map.means = await numbers(map.mean_error);
    map.spreads = await numbers(map.errors);
  }
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
  document.addEventListener("scroll", () => (tip.hidden = true), true);
  document.addEventListener("click", download);
  document.documentElement.dataset.ready = "yes";
}

start();
