"use strict";
// Numbers and texts for people, and small helpers that make elements. Texts never become markup.

page.number = (value, digits = 0) =>
  Number(value).toLocaleString("en-US", {minimumFractionDigits: digits, maximumFractionDigits: digits});

/** All digits a figure of result.json has, up to three after the point. */
page.exact = value => Number(value).toLocaleString("en-US", {maximumFractionDigits: 3});

page.percent = (part, whole = 1, digits = 1) => whole ? `${(100 * part / whole).toFixed(digits)} %` : "0 %";

/** `12 %`; what is there but rounds to nothing is `< 1 %`. Halves go to the even number, as in the summary of a run. */
page.share = function (part, whole) {
  if (part > 0 && part < 0.01 * whole) return "< 1 %";
  const share = 100 * part / whole;
  return `${share % 1 === 0.5 ? 2 * Math.round(share / 2) : Math.round(share)} %`;
};

page.bytes = function (size) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) { size /= 1024; unit++; }
  return `${unit && size < 100 && size % 1 ? size.toFixed(1) : page.number(size)} ${units[unit]}`;
};

/** The cycle of a tick, rounded up as in result.json. */
page.cycle = (run, tick) => Math.ceil(tick / run.ticks_per_cycle);

page.cycles = (run, from, to) => page.cycle(run, to) - page.cycle(run, from);

page.microseconds = (run, ticks) => ticks / run.ticks_per_cycle / run.clock_mhz;

/** An element: `page.make("td", {class: "n"}, "12", other)`; null children are left out. */
page.make = function (name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick") element.addEventListener("click", value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null) element.setAttribute(key, value);
  }
  element.append(...children.filter(child => child !== null));
  return element;
};

/** A list of terms and descriptions from [term, text] pairs; empty ones are left out. */
page.pairs = function (pairs) {
  const list = page.make("dl", {class: "pairs"});
  for (const [term, text] of pairs) {
    if (text === "" || text === null || text === undefined) continue;
    list.append(page.make("dt", {}, term), page.make("dd", {}, String(text)));
  }
  return list;
};

/** Instruction `place` of a lane, with its texts. */
page.instruction = function (lane, place) {
  const [op, phase, subject, shape, bytes, macs, reads, writes, waits, sets, alone] = lane.run.details[lane.detail[place]];
  const label = lane.run.labels[lane.label[place]];
  return {
    op, phase, subject, shape, bytes, macs, reads, writes, waits, sets, alone, label,
    title: `${op} ${label || subject}`.trim(),
    number: lane.number[place], start: lane.start[place], end: lane.end[place], slack: lane.slack[place],
  };
};

/** What a node is called, with its engine; empty where it is not on the page. */
page.nodeName = function (run, node) {
  if (!(node >= 0) || run.laneOf[node] === 65535 || run.laneOf[node] === undefined) return "";
  const lane = run.lanes[run.laneOf[node]];
  const found = page.instruction(lane, run.placeOf[node]);
  return `${found.title} (${lane.engine} #${found.number})`;
};

/** Why an instruction started when it did. */
page.startCause = function (lane, place) {
  const how = page.about.how[lane.how[place]];
  const name = page.nodeName(lane.run, page.causeOf(lane, place));
  if (how === "launch") return lane.run.launch ? "the launch was over" : "the run began";
  if (how === "engine") return `its engine was free: after ${name || "the one before"}`;
  if (how === "bank") return `a bank was given back by ${name}`;
  return `its flag was set by ${name}`;
};

/** The node that let an instruction start, -1 for none. */
page.causeOf = (lane, place) => lane.cause[place] ? lane.node[place] - lane.cause[place] : -1;

/** The same for a narrow place, the longest text first: the hatching says already that it waits. */
page.reasonTexts = function (reason) {
  const [, category, text] = reason, whole = page.reasonText(reason);
  return category === "input" ? [whole, text, text.split(" ").at(-1)] : [whole, text.split(/[,(]/)[0].trim()];
};

/** ``waits for tload b``, ``l0c full (tstore uses it)`` */
page.reasonText = function (reason) {
  const [, category, text] = reason;
  if (category === "input") return `waits for ${text}`;
  if (category === "fill") return `fill: ${text}`;
  return text;
};
