"use strict";
const report = JSON.parse(document.getElementById("report").textContent);
const $ = id => document.getElementById(id);
const NAMES = { flat: "✓ flat", within: "✓ in budget", grows: "↗ grows", failed: "✕ failed" };
const OPERATIONS = {
  lookup: ["Lookup", "what is current, asked for by an open handle"],
  open: ["Cold open", "opening the catalog, with what is current"],
  commit: ["Commit", "one row into one table"],
  "commit to 3 tables": ["Commit to 3 tables", "one row into each, atomically"],
  read: ["Read of a table", "every row of it"],
  travel: ["Time travel", "to the middle of history"],
  fold: ["Negative control: fold", "what is current, by folding a journal: it must grow"],
  "manifest lookup": ["Negative control: lookup in a Lance table", "what is current, through a BTREE: it must grow"],
  "manifest commit": ["Negative control: commit to a Lance table", "one merge-insert: it must grow"],
};
const ACCESS = { "cold process": "cold process", "shared session": "cold handle, shared session", warm: "warm handle", unchanged: "nothing changed", "8 at once": "8 at once" };

const control = operation => OPERATIONS[operation][0].startsWith("Negative control");

const number = value => Number.isInteger(value) ? value.toLocaleString("en-US") : value.toLocaleString("en-US", { maximumFractionDigits: 1 });
function bytes(value) {
  if (value < 1000) return number(value) + " B";
  return value < 1e6 ? number(Math.round(value / 100) / 10) + " kB" : number(Math.round(value / 1e5) / 10) + " MB";
}
function element(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) name === "class" ? made.className = value : made.setAttribute(name, value);
  made.append(...children);
  return made;
}
function svg(tag, options = {}, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(options)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/* An object store is where it matters; the table below has every place. */
function shownFirst() {
  const authority = report.comparisons.some(one => one.authority === "s3") ? "s3" : "local";
  return report.comparisons.filter(one => one.authority === authority && one.control === "fold");
}
function headline() {
  const all = shownFirst();
  const count = verdict => report.cells.filter(cell => cell.verdict === verdict).length;
  const failed = count("failed");
  if (!report.ok) {
    $("claim").className = "bad";
    $("claim").append(element("em", {}, failed === 1 ? "1 curve" : `${failed} curves`), " grow or exceed their budget");
    $("lead").textContent = `Of ${report.cells.length} curves on ${report.places.map(place => place.name).join(" and on ")}, counted below every retry. What is wrong stands below, with the requests of the worst point.`;
  } else if (all.length) {
    const first = all[0], last = all.reduce((deepest, one) => one.depth > deepest.depth ? one : deepest);
    const same = all.every(one => one.requests === first.requests);
    const claim = $("claim");
    if (same) claim.append("What is current costs ", element("em", {}, `${first.requests} requests`), `, at ${number(first.depth)} commits and at ${number(last.depth)}`);
    else claim.append(`What is current costs ${first.requests} to ${last.requests} requests`);
    $("lead").textContent = `Folding a journal of as many commits takes ${number(first.control_requests)} requests, then ${number(last.control_requests)}: ${number(Math.round(last.ratio))} times ours. `
      + `Counted below every retry on ${report.places.map(place => place.name).join(" and on ")}.`;
  } else $("claim").append("No cost grows with history");
  const tile = (value, text, kind) => element("div", { class: "tile " + kind }, element("b", {}, String(value)), element("span", {}, text));
  $("tiles").append(
    tile(report.ok ? "✓ passed" : "✕ failed", "the gate", report.ok ? "good" : "bad"),
    tile(count("flat"), "curves flat at every depth", "good"),
    tile(count("within"), "in a budget that allows for log(depth), or for a table's own files", "good"),
    tile(count("grows"), "negative controls that grow, as they must", "grows"),
    tile(failed, failed === 1 ? "curve fails" : "curves fail", failed ? "bad" : ""));
  $("form").textContent = `· ${report.form} form · ${new Date(report.started).toISOString().slice(0, 10)}`;
  if (report.problems.length) {
    $("problems").hidden = false;
    $("problems").querySelector("ul").append(...report.problems.map(problem => element("li", {}, problem)));
  }
  $("footer").append(element("p", {}, "Made by ", element("code", {}, report.command), `, version ${report.version}, in ${number(report.seconds)} s.`),
    ...report.places.map(place => element("p", {}, `${place.authority}: ${place.name}, counted ${place.counted}.`)));
}

/* Both axes logarithmic; the curves carry their names. */
function chart(figure, series, unit) {
  figure.querySelector("svg")?.remove();
  const width = Math.max(280, figure.clientWidth - 32), height = 270, pad = { left: 46, right: 92, top: 22, bottom: 34 };
  const xs = series[0].points.map(point => point[0]), ys = series.flatMap(one => one.points.map(point => point[1]));
  const low = Math.pow(10, Math.floor(Math.log10(Math.max(1, Math.min(...ys))))), high = Math.pow(10, Math.ceil(Math.log10(Math.max(...ys) * 1.001)));
  const scale = (value, from, to, start, end) => start + (end - start) * (Math.log10(value) - Math.log10(from)) / ((Math.log10(to) - Math.log10(from)) || 1);
  const x = value => scale(value, xs[0], xs[xs.length - 1], pad.left + 8, width - pad.right), y = value => scale(Math.max(value, low), low, high, height - pad.bottom, pad.top);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": figure.dataset.label });
  for (let tick = low; tick <= high; tick *= 10) {
    root.append(svg("line", { x1: pad.left, x2: width - pad.right, y1: y(tick), y2: y(tick), class: "gridline" }));
    root.append(svg("text", { x: pad.left - 8, y: y(tick) + 4, "text-anchor": "end" }, unit === "bytes" ? bytes(tick) : number(tick)));
  }
  for (const value of xs) root.append(svg("text", { x: x(value), y: height - 12, "text-anchor": "middle" }, number(value)));
  root.append(svg("line", { x1: pad.left, x2: width - pad.right, y1: height - pad.bottom, y2: height - pad.bottom, class: "axis" }));
  for (const one of series) {
    const color = `var(--${one.kind})`, path = one.points.map(([at, value], i) => `${i ? "L" : "M"}${x(at)},${y(value)}`).join("");
    root.append(svg("path", { d: path, fill: "none", stroke: color, "stroke-width": 2.5, "stroke-linejoin": "round", "stroke-linecap": "round" }));
    for (const [at, value] of one.points) root.append(svg("circle", { cx: x(at), cy: y(value), r: 4.5, fill: color, stroke: "var(--card)", "stroke-width": 2 }));
    const [at, value] = one.points[one.points.length - 1];
    root.append(svg("text", { x: x(at) + 12, y: y(value) - 2, class: "name", style: `fill:${color}` }, one.name));
    root.append(svg("text", { x: x(at) + 12, y: y(value) + 13 }, unit === "bytes" ? bytes(value) : number(value)));
  }
  const rule = svg("line", { y1: pad.top, y2: height - pad.bottom, stroke: "var(--faint)", "stroke-dasharray": "3 3", visibility: "hidden" });
  root.append(rule);
  root.addEventListener("pointermove", event => {
    const inside = (event.clientX - root.getBoundingClientRect().left) * width / root.clientWidth;
    const nearest = xs.reduce((best, value) => Math.abs(x(value) - inside) < Math.abs(x(best) - inside) ? value : best);
    for (const side of ["x1", "x2"]) rule.setAttribute(side, x(nearest));
    rule.setAttribute("visibility", "visible");
    const line = one => { const value = one.points.find(point => point[0] === nearest)?.[1]; return value === undefined ? "" : `\n${one.name}: ${unit === "bytes" ? bytes(value) : number(value) + " requests"}`; };
    tip(event, `${number(nearest)} commits${series.map(line).join("")}`);
  });
  root.addEventListener("pointerleave", () => { rule.setAttribute("visibility", "hidden"); $("tip").hidden = true; });
  figure.append(root);
}
function tip(event, text) {
  const box = $("tip");
  box.textContent = text;
  box.hidden = false;
  box.style.left = Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8) + "px";
  box.style.top = event.clientY + 14 + "px";
}

function comparison() {
  const drawn = [];
  const ours = shownFirst(), place = report.places.find(one => one.authority === ours[0]?.authority);
  if (ours.length) {
    for (const unit of ["requests", "bytes"]) {
      const figure = element("figure", { "data-label": `${unit} over commits on ${place.name}` }, element("figcaption", {}, unit === "bytes" ? "Bytes" : "Requests", element("span", {}, `${place.name} · over commits`)));
      $("charts").append(figure);
      const curve = field => ours.map(one => [one.depth, one[field]]);
      drawn.push([figure, [{ name: "fold", kind: "control", points: curve("control_" + unit) }, { name: "Headwater", kind: "ours", points: curve(unit) }], unit]);
    }
  }
  const draw = () => drawn.forEach(one => chart(...one));
  draw();
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
  const head = ["commits", "place", "Headwater", "", "control", "", "", "ratio"];
  const row = one => element("tr", {}, element("td", {}, number(one.depth)), element("td", {}, one.authority), element("td", { class: "ours" }, `${number(one.requests)} requests`), element("td", {}, bytes(one.bytes)),
    element("td", {}, one.control), element("td", { class: "control" }, `${number(one.control_requests)} requests`), element("td", {}, bytes(one.control_bytes)), element("td", {}, `${number(one.ratio)} ×`));
  if (report.comparisons.length) $("comparison").append(element("thead", {}, element("tr", {}, ...head.map(name => element("th", {}, name)))), element("tbody", {}, ...report.comparisons.map(row)));
}

/* A curve as small as a word, from nothing to its budget. */
function spark(values, budget, failed) {
  const width = 52, height = 24, top = Math.max(budget ?? 0, ...values, 1) * 1.06;
  const x = i => 3 + i * (width - 6) / Math.max(1, values.length - 1), y = value => height - 3 - (height - 6) * value / top;
  const color = failed ? "var(--bad)" : "var(--ours)", root = svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  if (budget != null) root.append(svg("line", { x1: 0, x2: width, y1: y(budget), y2: y(budget), stroke: "var(--faint)", "stroke-dasharray": "2 3" }));
  root.append(svg("path", { d: values.map((value, i) => `${i ? "L" : "M"}${x(i)},${y(value)}`).join(""), fill: "none", stroke: color, "stroke-width": 2, "stroke-linejoin": "round" }));
  values.forEach((value, i) => root.append(svg("circle", { cx: x(i), cy: y(value), r: 2, fill: color })));
  return root;
}

const SUMS = ["requests", "bytes"];
function total(cell, name) {
  const parts = cell.metrics.filter(metric => metric.name === name && (SUMS.includes(name) || metric.plane !== "data"));
  if (!parts.length || !parts[0].values.length) return null;
  const values = parts[0].values.map((_, i) => parts.reduce((sum, part) => sum + part.values[i], 0));
  const budgets = parts.map(part => part.budget);
  return { values, max: Math.max(...values), budget: budgets.some(budget => budget == null) ? null : budgets.reduce((sum, budget) => sum + budget, 0) };
}
function shown(cell, name, title, form = number) {
  const sum = total(cell, name), box = element("div", { class: "value", "data-name": title });
  if (!sum) return box;
  const limit = sum.budget == null ? "" : ` of ${form(sum.budget)}`;
  box.append(spark(sum.values, sum.budget, cell.verdict === "failed"), element("span", {}, form(sum.max), element("small", {}, limit)));
  return box;
}
function plain(cell, name, title) {
  const sum = total(cell, name), box = element("div", { class: "number", "data-name": title });
  if (sum) box.append(element("span", {}, number(sum.max), element("small", {}, sum.budget == null ? "" : ` of ${number(sum.budget)}`)));
  return box;
}

function details(cell) {
  const box = element("div", { class: "open" }, element("p", {}, cell.why + "."));
  for (const problem of cell.problems) box.append(element("p", { class: "bad" }, problem));
  const row = point => element("tr", {}, ...[point.depth, point.seq, point.control.requests, point.control.sent + point.control.received, point.control.entries, point.data.requests, point.data.sent + point.data.received, point.round_trips]
    .map((value, i) => element("td", {}, i === 3 || i === 6 ? bytes(value) : number(value))), element("td", {}, Object.entries(point.verbs).map(([verb, count]) => `${count} ${verb}`).join(", ")));
  const head = ["depth", "commits", "control requests", "control bytes", "entries", "data requests", "data bytes", "round trips", "which"];
  box.append(element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...head.map(name => element("th", {}, name)))), element("tbody", {}, ...cell.points.map(row)))));
  if (cell.log) box.append(element("pre", {}, cell.log));
  return box;
}

/* With #open in its address, the page shows all it has. */
const EVERYTHING = location.hash === "#open";
const chosen = { authority: "", store: "", width: "" }, FIRST = { authority: "s3", store: "parquet", width: "10" };
function curves() {
  $("curves").replaceChildren();
  const fits = (cell, field) => !chosen[field] || String(cell[field]) === chosen[field];
  const wanted = cell => fits(cell, "authority") && (control(cell.operation) || (fits(cell, "store") && fits(cell, "width")));
  for (const [operation, [name, what]] of Object.entries(OPERATIONS)) {
    const rank = cell => [cell.authority === "s3" ? 0 : 1, cell.store, cell.width, Object.keys(ACCESS).indexOf(cell.access), cell.phase];
    const before = (one, other) => one < other ? -1 : one > other ? 1 : 0;
    const order = (one, other) => rank(one).map((key, i) => before(key, rank(other)[i])).find(sign => sign) ?? 0;
    const cells = report.cells.filter(cell => cell.operation === operation && wanted(cell)).sort(order);
    if (!cells.length) continue;
    const group = element("div", { class: "group" }, element("h3", {}, name, element("small", {}, what)));
    group.append(element("div", { class: "row head" }, ...["", "requests", "round trips", "bytes", "entries", ""].map(text => element("span", {}, text))));
    for (const cell of cells) {
      const where = [cell.authority, cell.store, `${cell.width} ${cell.width === 1 ? "table" : "tables"}`];
      const how = control(operation) ? (cell.layout ? [cell.layout] : []) : [cell.phase === "full" ? "full tail" : "equal tail", ...(cell.layout ? [cell.layout] : [])];
      const who = element("div", { class: "who" }, element("b", {}, ACCESS[cell.access] ?? cell.access), element("small", {}, [...where, ...how].join(" · ")));
      const summary = element("summary", { class: "row" }, who, shown(cell, "requests", "requests"), shown(cell, "round_trips", "trips"), shown(cell, "bytes", "bytes", bytes), plain(cell, "entries", "entries"),
        element("span", { class: "verdict " + cell.verdict }, NAMES[cell.verdict]));
      const line = element("details", { "data-id": cell.id }, summary);
      const fill = () => { if (line.open && line.children.length === 1) line.append(details(cell)); };
      line.addEventListener("toggle", fill);
      if (cell.verdict === "failed" || EVERYTHING) line.open = true;
      fill();
      group.append(line);
    }
    $("curves").append(group);
  }
}
function filters() {
  const choice = (field, title, values) => {
    if (values.length < 2) return;
    chosen[field] = values.includes(FIRST[field]) ? FIRST[field] : "";
    const box = element("div", {}, element("span", {}, title));
    for (const value of ["", ...values]) {
      const button = element("button", { type: "button", "aria-pressed": String(value === chosen[field]) }, value || "all");
      button.addEventListener("click", () => {
        chosen[field] = value;
        box.querySelectorAll("button").forEach(other => other.setAttribute("aria-pressed", String(other === button)));
        curves();
      });
      box.append(button);
    }
    $("filters").append(box);
  };
  const failed = report.cells.some(cell => cell.verdict === "failed");
  choice("authority", "place", [...new Set(report.cells.map(cell => cell.authority))]);
  choice("store", "store", [...new Set(report.cells.filter(cell => !control(cell.operation)).map(cell => cell.store))].sort());
  choice("width", "tables", [...new Set(report.cells.map(cell => cell.width))].sort((one, other) => one - other).map(String));
  if (failed || EVERYTHING) {
    for (const field of Object.keys(chosen)) chosen[field] = "";
    $("filters").querySelectorAll("button").forEach(button => button.setAttribute("aria-pressed", String(button.textContent === "all")));
  }
}

headline();
comparison();
filters();
curves();
