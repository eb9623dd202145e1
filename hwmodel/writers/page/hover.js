"use strict";
// What a point of the timeline is: the tip at the pointer, the pinned instruction, and walking from cause to cause.

/** [term, text] pairs about what was hit. */
page.describe = function (hit) {
  if (hit.track) return page.describeTrack(hit);
  const {lane} = hit, run = lane.run;
  if (hit.place < 0) return {what: page.fillerText(hit), pairs: [["cycle", page.number(page.cycle(run, hit.tick))]]};
  return hit.wait ? page.describeWait(lane, hit.place) : page.describeInstruction(lane, hit.place);
};

page.when = function (run, start, end) {
  const cycles = `${page.number(page.cycle(run, start))} \u2013 ${page.number(page.cycle(run, end))}`;
  const us = page.microseconds(run, end - start);
  return `${cycles} = ${page.number(page.cycles(run, start, end))} cycles, ${page.number(us, us < 10 ? 3 : 1)} \u00b5s`;
};

page.describeInstruction = function (lane, place) {
  const run = lane.run, found = page.instruction(lane, place);
  const beyond = found.end - found.start - found.alone;
  const path = run.onPath[lane.node[place]];
  const slack = found.slack >= 2 ** 31 ? "more than the run" : `${page.number(found.slack / run.ticks_per_cycle)} cycles`;
  return {
    what: `${found.op} ${[found.subject, found.label].filter(Boolean).join(" ")}`,
    pairs: [
      ["engine", `${lane.engine} (${lane.unit}), instruction #${found.number}`],
      ["tile", found.label],
      ["when", page.when(run, found.start, found.end)],
      ["alone", beyond > 0 ? `${page.number(found.alone / run.ticks_per_cycle)} cycles; the rest is shared away` : ""],
      ["shape", found.shape],
      ["bytes", found.bytes ? page.bytes(found.bytes) : ""],
      ["MACs", found.macs ? page.number(found.macs) : ""],
      ["reads", found.reads],
      ["writes", found.writes],
      ["waited for", page.waitedFor(lane, place)],
      ["started when", page.startCause(lane, place)],
      ["flags", [found.waits && `waits ${found.waits}`, found.sets && `sets ${found.sets}`].filter(Boolean).join("; ")],
      ["critical path", path ? "on it" : `off it, slack ${slack}`],
    ],
  };
};

/** The waits that came before an instruction, in words. */
page.waitedFor = function (lane, place) {
  const {wait, run} = lane, texts = [];
  let i = page.upTo(wait.end, lane.start[place]) - 1;
  for (; i >= 0 && wait.node[i] === lane.node[place] && texts.length < 4; i--) {
    const cycles = page.number(page.cycles(run, wait.start[i], wait.end[i]));
    texts.unshift(`${page.reasonText(run.reasons[wait.reason[i]])}, ${cycles} cycles`);
  }
  return texts.join("; ") || "nothing";
};

page.describeWait = function (lane, place) {
  const {wait, run} = lane, reason = run.reasons[wait.reason[place]];
  const kinds = {wait_input: "waits for input", wait_space: "waits for space", idle: "idle, the pipeline fills"};
  return {
    what: page.reasonText(reason),
    pairs: [
      ["engine", `${lane.engine} (${lane.unit}) ${kinds[reason[0]]}`],
      ["when", page.when(run, wait.start[place], wait.end[place])],
      ["means", reason[3]],
      ["before", page.nodeName(run, wait.node[place])],
      ["ended by", page.nodeName(run, wait.by[place])],
    ],
  };
};

page.fillerText = function ({lane, tick}) {
  if (tick < lane.run.launch) return "launch";
  if (!lane.end.length) return "no work";
  if (tick >= lane.end.at(-1)) return "finished: others still work";
  return tick < lane.start[0] ? "nothing issued yet" : "between two instructions";
};

page.describeTrack = function ({track, tick, row}) {
  const at = Math.max(0, page.upTo(track.ticks, tick) - 1), used = track.used[at];
  return {
    what: `${track.buffer.toUpperCase()}: ${page.bytes(used)} in use, ${page.percent(used, track.capacity)}`,
    pairs: [
      ["cycle", page.number(page.cycle(row.run, tick))],
      ["capacity", page.bytes(track.capacity)],
      ["most in use", `${page.bytes(track.peak)}, ${page.percent(track.peak, track.capacity)}`],
    ],
  };
};

page.Hover = class {
  constructor(timeline, tip, pinned, live) {
    Object.assign(this, {timeline, tip, pinned, live});
  }

  /** Shows the tip for what lies at a point of the canvas; (clientX, clientY) place it. */
  point(x, y, clientX, clientY) {
    this.timeline.pointer = {x, y};
    this.timeline.redraw();
    const hit = this.timeline.hit(x, y);
    if (!hit) return this.hide();
    const {what, pairs} = page.describe(hit);
    this.tip.replaceChildren(page.make("div", {class: "what"}, what), page.pairs(pairs));
    this.tip.hidden = false;
    const box = this.tip.getBoundingClientRect();
    const left = clientX + 18 + box.width > window.innerWidth ? clientX - box.width - 14 : clientX + 18;
    const top = Math.min(clientY + 16, window.innerHeight - box.height - 8);
    this.tip.style.left = `${Math.max(6, left)}px`;
    this.tip.style.top = `${Math.max(6, top)}px`;
    return hit;
  }

  leave() {
    this.timeline.pointer = null;
    this.timeline.redraw();
    this.hide();
  }

  hide() {
    this.tip.hidden = true;
    return null;
  }

  /** Pins what was hit: it stays outlined, described below the timeline, and said aloud. */
  pin(hit) {
    if (!hit || hit.track || hit.place < 0) return this.unpin();
    const {lane, place, wait = false} = hit;
    this.timeline.selected = {lane, place, wait};
    const {what, pairs} = page.describe(hit);
    const node = wait ? lane.wait.by[place] : page.causeOf(lane, place);
    const tools = page.make("div", {class: "tools"},
      node >= 0 ? page.make("button", {type: "button", onclick: () => this.follow()}, wait ? "Go to what ended it" : "Go to what let it start") : null,
      page.make("button", {type: "button", onclick: () => this.zoomTo()}, "Zoom to it"),
      page.make("button", {type: "button", onclick: () => this.unpin()}, "Let go"));
    this.pinned.replaceChildren(page.make("div", {class: "what"}, what), page.pairs(pairs), tools);
    this.pinned.hidden = false;
    this.live.textContent = `${what}; ${pairs.filter(([, text]) => text).slice(0, 3).map(pair => pair.join(" ")).join("; ")}`;
    this.timeline.redraw();
  }

  unpin() {
    this.timeline.selected = null;
    this.pinned.hidden = true;
    this.live.textContent = "";
    this.timeline.redraw();
  }

  span() {
    const {lane, place, wait} = this.timeline.selected;
    return wait ? [lane.wait.start[place], lane.wait.end[place]] : [lane.start[place], lane.end[place]];
  }

  zoomTo() {
    if (this.timeline.selected) this.timeline.reveal(this.timeline.selected.lane.run, ...this.span(), 1);
  }

  /** Moves the view, at its scale, where what is pinned cannot be seen. */
  bring() {
    const {timeline} = this, {lane} = timeline.selected, run = lane.run, [start, end] = this.span();
    const span = timeline.to - timeline.from, from = start * run.unit, to = end * run.unit;
    if (from < timeline.from || Math.min(to, from + span) > timeline.to) timeline.show((from + to - span) / 2, (from + to + span) / 2);
    const row = timeline.layout.rows.find(each => each.lane === lane), top = timeline.scroll.scrollTop;
    const seen = timeline.canvas.clientHeight;
    if (row.y - page.sizes.axis < top || row.y + row.height > top + seen) timeline.scroll.scrollTop = row.y - seen / 2;
  }

  pinNode(run, node) {
    if (!(node >= 0) || run.laneOf[node] === 65535) return;
    this.pin({lane: run.lanes[run.laneOf[node]], place: run.placeOf[node]});
    this.bring();
  }

  /** Goes to what let the pinned instruction start, or ended the pinned wait. */
  follow() {
    const {selected} = this.timeline;
    if (!selected) return;
    const {lane, place, wait} = selected;
    this.pinNode(lane.run, wait ? lane.wait.by[place] : page.causeOf(lane, place));
  }

  /** The instruction before (-1) or after (1) the pinned one, or the first that can be seen. */
  step(direction) {
    const {timeline} = this, {selected} = timeline;
    if (!selected) return this.pinAny();
    const {lane, place, wait} = selected;
    const from = wait ? page.upTo(lane.start, lane.wait.start[place]) - (direction > 0 ? 1 : 0) : place;
    const next = Math.min(Math.max(from + direction, 0), lane.start.length - 1);
    if (next < 0) return;
    this.pin({lane, place: next});
    this.bring();
  }

  /** The instruction of the next lane above (-1) or below (1) that is nearest in time. */
  stepLane(direction) {
    const {timeline} = this, {selected} = timeline;
    if (!selected) return this.pinAny();
    const lanes = timeline.layout.rows.filter(row => row.type === "lane" && row.lane.start.length).map(row => row.lane);
    const at = lanes.indexOf(selected.lane) + direction;
    if (at < 0 || at >= lanes.length) return;
    const [start] = this.span(), lane = lanes[at];
    const tick = start * selected.lane.run.unit / lane.run.unit;
    this.pin({lane, place: Math.max(0, page.upTo(lane.start, tick) - 1)});
    this.bring();
  }

  pinAny() {
    const {timeline} = this;
    const row = timeline.layout.rows.find(each => each.type === "lane" && each.lane.start.length);
    if (!row) return;
    const place = Math.min(page.upTo(row.lane.end, timeline.from / row.run.unit), row.lane.start.length - 1);
    this.pin({lane: row.lane, place});
    this.bring();
  }
};
