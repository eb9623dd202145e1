"use strict";
// The timeline: one canvas that draws what can be seen. A lane with more spans than pixels becomes a picture of how busy
// it is, from running sums; so a frame costs the same for ten spans and for a million.

/** Colours of the current theme, read from the style sheet; phases are a little lighter on dark paper. */
page.readColours = function () {
  const style = getComputedStyle(document.documentElement);
  const of = name => style.getPropertyValue(`--${name}`).trim();
  const dark = document.documentElement.dataset.theme === "dark";
  const colours = {dark, phases: {}, text: {}};
  for (const name of ["paper", "card", "ink", "soft", "line", "lane", "lane2", "accent", "waitin", "waitspace", "idle", "track", "focus"]) {
    colours[name] = of(name);
  }
  for (const [phase, code] of Object.entries(page.about.colours)) {
    const base = page.rgb(code);
    const own = dark ? page.mix(base, [255, 255, 255], 0.12) : base;
    const other = page.mix(own, dark ? [0, 0, 0] : [255, 255, 255], 0.26);
    colours.phases[phase] = [page.css(own), page.css(other)];
    colours.text[phase] = [page.inkOn(own), page.inkOn(other)];
  }
  return colours;
};

page.rgb = code => [1, 3, 5].map(at => parseInt(code.slice(at, at + 2), 16));
page.mix = (colour, other, share) => colour.map((part, i) => part + (other[i] - part) * share);
page.css = colour => `rgb(${colour.map(Math.round).join(" ")})`;
/** Dark or light text, whichever has more contrast on a colour. */
page.inkOn = function (colour) {
  const [r, g, b] = colour.map(part => (part / 255) ** 2.2);
  const light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return 1.05 / (light + 0.05) > (light + 0.05) / 0.055 ? "#ffffff" : "#101317";
};

page.Timeline = class {
  constructor(canvas, overview, scroll, spacer) {
    Object.assign(this, {canvas, overview, scroll, spacer});
    this.context = canvas.getContext("2d", {alpha: false});
    this.layout = page.layout(page.runs);
    this.inMicroseconds = new Set(page.runs.map(run => run.clock_mhz)).size > 1;
    for (const run of page.runs) {
      run.unit = this.inMicroseconds ? 1 / run.ticks_per_cycle / run.clock_mhz : 1 / run.ticks_per_cycle;
    }
    this.end = Math.max(...page.runs.map(run => run.end * run.unit), 1e-6);
    this.least = this.end / Math.max(1, Math.min(1e7, this.end / (this.inMicroseconds ? 0.005 : 8)));
    this.from = 0;
    this.to = this.end;
    this.critical = false;
    this.selected = null;
    this.pointer = null;
    this.frames = 0;
    this.drawMilliseconds = 0;
    this.onDraw = () => {};
    this.measure();
    this.setTheme();
  }

  setTheme() {
    this.colours = page.readColours();
    this.hatches = {};
    for (const [kind, look] of Object.entries(page.about.waits)) this.hatches[kind] = this.hatch(kind, look.line);
    this.overviewPicture = null;
    this.redraw();
  }

  hatch(kind, line) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const pen = tile.getContext("2d");
    pen.fillStyle = kind === "wait_space" ? this.colours.waitspace : this.colours.waitin;
    pen.fillRect(0, 0, 8, 8);
    pen.strokeStyle = line;
    pen.globalAlpha = this.colours.dark ? 0.55 : 0.7;
    pen.lineWidth = 1;
    pen.beginPath();
    for (const shift of [-8, 0, 8]) {
      if (kind === "wait_space") { pen.moveTo(shift, 0); pen.lineTo(shift + 8, 8); }
      else { pen.moveTo(shift, 8); pen.lineTo(shift + 8, 0); }
    }
    pen.stroke();
    return this.context.createPattern(tile, "repeat");
  }

  // -- view --------------------------------------------------------------------------------------------------------

  /** Pixels of the time axis; measured once a frame, as asking the page for it takes long. */
  measure() { this.width = Math.max(60, this.canvas.clientWidth - page.sizes.gutter - page.sizes.right); }
  x(run, tick) { return page.sizes.gutter + (tick * run.unit - this.from) / (this.to - this.from) * this.width; }
  at(x) { return this.from + (x - page.sizes.gutter) / this.width * (this.to - this.from); }

  show(from, to) {
    const span = Math.min(Math.max(to - from, this.least), this.end);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(0, middle - span / 2), this.end - span);
    this.to = this.from + span;
    this.redraw();
  }

  zoom(factor, x = page.sizes.gutter + this.width / 2) {
    const pivot = Math.min(Math.max(this.at(x), this.from), this.to);
    const span = Math.min(Math.max((this.to - this.from) * factor, this.least), this.end);
    const left = (pivot - this.from) / (this.to - this.from);
    const from = Math.min(Math.max(0, pivot - left * span), this.end - span);
    this.show(from, from + span);
  }

  pan(share) {
    const step = (this.to - this.from) * share;
    this.show(this.from + step, this.to + step);
  }

  fit() { this.show(0, this.end); }

  /** Shows a stretch of a run's ticks with some room around it. */
  reveal(run, start, end, room = 1) {
    const extra = Math.max((end - start) * run.unit * room, this.least / 4);
    this.show(start * run.unit - extra, end * run.unit + extra);
  }

  redraw() {
    if (this.planned) return;
    this.planned = requestAnimationFrame(() => { this.planned = 0; this.draw(); });
  }

  // -- drawing -----------------------------------------------------------------------------------------------------

  draw() {
    const began = performance.now();
    const ratio = window.devicePixelRatio || 1;
    const most = Math.round(window.innerHeight * 0.76);
    const height = Math.min(this.layout.height, most), width = this.scroll.clientWidth;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.style.height = `${height}px`;
      this.spacer.style.height = `${this.layout.height}px`;
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.overviewPicture = null;
    }
    this.measure();
    const pen = this.context;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = this.colours.card;
    pen.fillRect(0, 0, width, height);
    const top = this.scroll.scrollTop;
    this.drawGrid(pen, height);
    for (const row of this.layout.rows) {
      const y = row.y - top;
      if (y + row.height < page.sizes.axis || y > height) continue;
      this[`${row.type}Row`](pen, row, y);
    }
    if (this.critical) this.drawPathLinks(pen, top);
    if (this.selected) this.drawSelected(pen, top);
    this.drawAxis(pen, width);
    if (this.pointer) this.drawPointer(pen, height);
    this.drawOverview(ratio);
    this.frames++;
    this.drawMilliseconds = performance.now() - began;
    this.onDraw();
  }

  ticks() {
    const most = Math.max(2, Math.floor(this.width / 110));
    return page.roundNumbers(this.from, this.to, most, this.inMicroseconds ? 0 : 1);
  }

  drawGrid(pen, height) {
    pen.fillStyle = this.colours.line;
    const {numbers} = this.ticks();
    for (const number of numbers) {
      const x = page.sizes.gutter + (number - this.from) / (this.to - this.from) * this.width;
      pen.fillRect(Math.round(x), page.sizes.axis, 1, height);
    }
  }

  drawAxis(pen, width) {
    const {gutter, axis} = page.sizes;
    pen.fillStyle = this.colours.card;
    pen.fillRect(0, 0, width, axis);
    pen.textBaseline = "alphabetic";
    const label = (numbers, digits, scale, y, colour, unit) => {
      pen.fillStyle = colour;
      pen.textAlign = "right";
      pen.fillText(unit, gutter - 12, y);
      pen.textAlign = "center";
      for (const number of numbers) {
        const x = gutter + (number / scale - this.from) / (this.to - this.from) * this.width;
        const text = page.number(number, digits), half = pen.measureText(text).width / 2;
        pen.fillText(text, Math.min(Math.max(x, gutter + (x < gutter + half ? half - 2 : 0)), width - half - 2), y);
      }
    };
    const {numbers, digits} = this.ticks();
    pen.font = "600 13px system-ui, sans-serif";
    label(numbers, digits, 1, 33, this.colours.ink, this.inMicroseconds ? "\u00b5s" : "cycles");
    if (!this.inMicroseconds) {
      const scale = 1 / page.runs[0].clock_mhz;
      const other = page.roundNumbers(this.from * scale, this.to * scale, Math.max(2, Math.floor(this.width / 150)));
      pen.font = "11px system-ui, sans-serif";
      label(other.numbers, other.digits, scale, 14, this.colours.soft, "\u00b5s");
    }
    pen.fillStyle = this.colours.soft;
    pen.fillRect(gutter, axis - 1, this.width, 1);
  }

  gutter(pen, y, height, name, note, value) {
    const middle = y + height / 2;
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    pen.font = "600 14px system-ui, sans-serif";
    pen.fillStyle = this.colours.ink;
    pen.fillText(name, 6, middle);
    const taken = pen.measureText(name).width;
    pen.font = "12px system-ui, sans-serif";
    pen.fillStyle = this.colours.soft;
    const room = page.sizes.gutter - 26 - taken - (value ? pen.measureText(value).width : 0);
    pen.fillText(page.shortened(pen, note, room), 12 + taken, middle + 0.5);
    pen.textAlign = "right";
    if (value) pen.fillText(value, page.sizes.gutter - 10, middle + 0.5);
  }

  headRow(pen, row, y) {
    const {run} = row;
    const several = page.runs.length > 1;
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    pen.font = "600 13px system-ui, sans-serif";
    pen.fillStyle = several ? this.colours.ink : this.colours.soft;
    pen.fillText(page.shortened(pen, several ? `${run.letter}  ${run.result.name}` : "phases", page.sizes.gutter - 16), 6, y + row.height / 2);
    const shades = {prologue: 0.10, "steady state": 0.2, epilogue: 0.10, run: 0.06};
    for (const phase of run.explanation.phases.phases) {
      const from = this.x(run, phase.start_cycle * run.ticks_per_cycle);
      const to = this.x(run, (phase.start_cycle + phase.cycles) * run.ticks_per_cycle);
      const left = Math.max(from, page.sizes.gutter), right = Math.min(to, page.sizes.gutter + this.width);
      if (right <= left) continue;
      pen.globalAlpha = shades[phase.name] ?? 0.1;
      pen.fillStyle = this.colours.ink;
      pen.fillRect(left, y + 3, right - left, row.height - 6);
      pen.globalAlpha = 1;
      if (from > page.sizes.gutter) pen.fillRect(Math.round(from), y + 3, 1, row.height - 6);
      const steady = run.explanation.phases.steady_state;
      const more = phase.name === "steady state" ? `: ${steady.periods} \u00d7 ${page.number(steady.period_cycles)} cycles` : "";
      pen.font = "12px system-ui, sans-serif";
      pen.fillStyle = this.colours.ink;
      this.inside(pen, `${phase.name === "run" ? "no steady state" : phase.name}${more}`, left, right, y + row.height / 2);
    }
  }

  coreRow(pen, row, y) {
    const fold = row.run.folded[row.core] > 1 ? `, stands for ${row.run.folded[row.core]}` : "";
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    pen.font = "600 12px system-ui, sans-serif";
    pen.fillStyle = this.colours.soft;
    pen.fillText(`core ${row.core}${fold}`, 6, y + row.height / 2 + 2);
  }

  laneRow(pen, row, y) {
    const {run, lane} = row, {gutter} = page.sizes;
    const t0 = this.from / run.unit, t1 = this.to / run.unit;
    const height = row.height - 1;
    const stop = Math.min(this.x(run, run.end), gutter + this.width);
    if (stop <= gutter) return;
    pen.fillStyle = this.colours.idle;
    pen.fillRect(gutter, y, stop - gutter, height);
    pen.save();
    pen.beginPath();
    pen.rect(gutter, y - 1, stop - gutter, height + 2);
    pen.clip();
    const first = page.upTo(lane.end, t0), last = page.upTo(lane.start, t1);
    const waits = page.upTo(lane.wait.start, t1) - page.upTo(lane.wait.end, t0);
    if (Math.max(last - first, waits) > this.width * 0.6) this.drawDensity(pen, run, lane, y, height);
    else this.drawSpans(pen, row, y, height, first, last, t0, t1);
    pen.restore();
    if (lane.queue === 0) {
      const busy = page.coveredBefore(lane.busy, t1) - page.coveredBefore(lane.busy, t0);
      const inside = Math.min(t1, run.end) - t0;
      const value = row.alone && inside > 0 ? page.percent(busy, inside, 0) : "";
      this.gutter(pen, y, lane.queues > 1 ? page.sizes.thin * Math.min(lane.queues, 2) : height, lane.engine, lane.unit, value);
    }
  }

  drawSpans(pen, row, y, height, first, last, t0, t1) {
    const {run, lane} = row, wait = lane.wait;
    const scale = run.unit / (this.to - this.from) * this.width, shift = page.sizes.gutter - this.from / (this.to - this.from) * this.width;
    for (let i = page.upTo(wait.end, t0); i < wait.start.length && wait.start[i] < t1; i++) {
      const x = wait.start[i] * scale + shift, w = wait.end[i] * scale + shift - x;
      const reason = run.reasons[wait.reason[i]];
      if (reason[0] !== "idle") {
        pen.fillStyle = this.hatches[reason[0]];
        pen.fillRect(x, y + 1, w, height - 2);
      }
      if (w > 60 && height > 20) this.plate(pen, page.reasonTexts(reason), x, x + w, y + height / 2, reason[0] === "idle");
    }
    this.drawFillers(pen, run, lane, y, height, scale, shift);
    const [colour, other] = this.colours.phases[lane.phase], [ink, otherInk] = this.colours.text[lane.phase];
    pen.font = height > 20 ? "600 13px system-ui, sans-serif" : "10px system-ui, sans-serif";
    pen.textBaseline = "middle";
    for (let i = first; i < last; i++) {
      const x = lane.start[i] * scale + shift, w = Math.max(0.75, lane.end[i] * scale + shift - x);
      const phase = run.details[lane.detail[i]][1];
      const shaded = lane.shade[i];
      pen.globalAlpha = this.critical && !run.onPath[lane.node[i]] ? 0.2 : 1;
      pen.fillStyle = phase === lane.phase ? (shaded ? other : colour) : this.colours.phases[phase][shaded];
      pen.fillRect(x, y, w > 3 ? w - 0.75 : w, height);
      if (w > 22) {
        pen.fillStyle = phase === lane.phase ? (shaded ? otherInk : ink) : this.colours.text[phase][shaded];
        this.inside(pen, this.names(lane, i), x, x + w, y + height / 2 + 0.5);
      }
    }
    pen.globalAlpha = 1;
    if (this.critical) this.drawPath(pen, lane, y, height, t0, t1, scale, shift);
  }

  /** What a span may be called, the longest name first: down to its innermost index, or what it works on. */
  names(lane, i) {
    const [op, , subject] = lane.run.details[lane.detail[i]], label = lane.run.labels[lane.label[i]];
    if (!label) return [`${op} ${subject}`, subject];
    return [`${op} ${subject} ${label}`, `${subject} ${label}`, label, label.split(" ").at(-1)];
  }

  /** Launch, fill and finish: idle, and said so where there is room. */
  drawFillers(pen, run, lane, y, height, scale, shift) {
    if (height < 20) return;
    const say = (from, to, text) => {
      const x = from * scale + shift, end = to * scale + shift;
      if (end - x > 60) this.plate(pen, text, x, end, y + height / 2, true);
    };
    if (run.launch) say(0, run.launch, "launch");
    if (!lane.end.length) say(run.launch, run.end, "no work");
    else if (lane.end.at(-1) < run.end) say(lane.end.at(-1), run.end, "finished");
  }

  /** Text on a plate of its own, so that it can be read over a hatching. */
  plate(pen, text, left, right, middle, plain) {
    left = Math.max(left, page.sizes.gutter) + 6;
    right = Math.min(right, page.sizes.gutter + this.width) - 6;
    if (right - left < 44) return;
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    const short = page.fitting(pen, text, right - left - 8);
    if (!short) return;
    const width = pen.measureText(short).width;
    const x = left + (right - left - width) / 2;
    if (!plain) {
      pen.fillStyle = this.colours.card;
      pen.fillRect(x - 5, middle - 9, width + 10, 18);
    }
    pen.fillStyle = plain ? this.colours.soft : this.colours.ink;
    pen.fillText(short, x, middle + 0.5);
  }

  /** Centred text that stays inside what is visible of a span. */
  inside(pen, text, left, right, middle) {
    left = Math.max(left, page.sizes.gutter) + 4;
    right = Math.min(right, page.sizes.gutter + this.width) - 4;
    const short = page.fitting(pen, text, right - left);
    if (!short) return;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(short, (left + right) / 2, middle);
  }

  drawPath(pen, lane, y, height, t0, t1, scale, shift) {
    pen.fillStyle = this.colours.accent;
    const {start, end} = lane.path;
    for (let i = page.upTo(end, t0); i < start.length && start[i] < t1; i++) {
      const x = start[i] * scale + shift;
      pen.fillRect(x, y + height - 4, Math.max(1, end[i] * scale + shift - x), 4);
    }
  }

  /** Lines from step to step of the critical path, where they can be told apart. */
  drawPathLinks(pen, top) {
    for (const run of page.runs) {
      const {start, end, node} = run.path;
      const first = page.upTo(end, this.from / run.unit), last = page.upTo(start, this.to / run.unit);
      if (last - first > 400) continue;
      pen.strokeStyle = this.colours.accent;
      pen.lineWidth = 1.5;
      pen.beginPath();
      for (let i = Math.max(first, 1); i < last; i++) {
        const from = this.rowOf(run, node[i - 1]), to = this.rowOf(run, node[i]);
        if (!from || !to || from === to) continue;
        const x = this.x(run, start[i]);
        if (x < page.sizes.gutter || x > page.sizes.gutter + this.width) continue;
        pen.moveTo(x, from.y + from.height - 3 - top);
        pen.lineTo(x, to.y + to.height - 3 - top);
      }
      pen.stroke();
    }
  }

  rowOf(run, node) {
    if (!(node >= 0) || run.laneOf[node] === 65535) return null;
    const lane = run.lanes[run.laneOf[node]];
    return this.layout.rows.find(row => row.lane === lane);
  }

  /** How busy a lane is: shares of its time for each column of pixels. */
  drawDensity(pen, run, lane, y, height) {
    const step = 2, count = Math.ceil(this.width / step);
    const per = (this.to - this.from) / run.unit / this.width * step, begin = this.from / run.unit;
    const shares = [lane.busy, lane.waits.wait_space, lane.waits.wait_input].map(each => this.shares(each, begin, per, count));
    const stacked = Float32Array.from(shares[0]);
    const layers = [[stacked.slice(), this.colours.phases[lane.phase][0]]];
    for (const [which, kind] of [[1, "wait_space"], [2, "wait_input"]]) {
      for (let i = 0; i < count; i++) stacked[i] = Math.min(1, stacked[i] + shares[which][i]);
      layers.push([stacked.slice(), this.hatches[kind]]);
    }
    pen.globalAlpha = 1;
    for (let layer = layers.length - 1; layer >= 0; layer--) {
      if (layer === 0 && this.critical) pen.globalAlpha = 0.25;
      this.area(pen, layers[layer][0], layers[layer][1], y, height, step);
    }
    pen.globalAlpha = 1;
    if (this.critical) {
      const path = this.shares(lane.path, begin, per, count);
      this.area(pen, path, this.colours.phases[lane.phase][0], y, height, step);
      this.area(pen, path.map(share => share > 0 ? Math.max(0.25, share) : 0), this.colours.accent, y + height - 5, 5, step);
    }
  }

  shares(intervals, begin, per, count) {
    const result = new Float32Array(count);
    let before = page.coveredBefore(intervals, begin);
    for (let i = 0; i < count; i++) {
      const after = page.coveredBefore(intervals, begin + (i + 1) * per);
      result[i] = (after - before) / per;
      before = after;
    }
    return result;
  }

  area(pen, shares, fill, y, height, step) {
    const left = page.sizes.gutter, bottom = y + height;
    pen.fillStyle = fill;
    pen.beginPath();
    pen.moveTo(left, bottom);
    for (let i = 0; i < shares.length; i++) {
      const top = bottom - shares[i] * height;
      pen.lineTo(left + i * step, top);
      pen.lineTo(left + (i + 1) * step, top);
    }
    pen.lineTo(left + shares.length * step, bottom);
    pen.fill();
  }

  trackRow(pen, row, y) {
    const {run, track} = row, {gutter} = page.sizes;
    const t0 = this.from / run.unit, t1 = Math.min(this.to / run.unit, run.end);
    const height = row.height - 2, bottom = y + height;
    const stop = Math.min(this.x(run, run.end), gutter + this.width);
    if (stop <= gutter) return;
    pen.fillStyle = this.colours.lane2;
    pen.fillRect(gutter, y, stop - gutter, height);
    pen.save();
    pen.beginPath();
    pen.rect(gutter, y, this.width, height);
    pen.clip();
    pen.beginPath();
    const {ticks, used} = track;
    const first = Math.max(0, page.upTo(ticks, t0) - 1), last = page.upTo(ticks, t1);
    const scale = run.unit / (this.to - this.from) * this.width, shift = gutter - this.from / (this.to - this.from) * this.width;
    let x = Math.max(gutter, ticks[first] * scale + shift);
    const end = t1 * scale + shift;
    let drawn = -1, most = 0;
    pen.moveTo(x, bottom);
    for (let i = first; i < last; i++) {
      const next = i + 1 < last ? ticks[i + 1] * scale + shift : end;
      most = Math.max(most, used[i]);
      if (next - x < 0.8 && i + 1 < last) continue;  // several changes in a pixel: the largest one is drawn
      const top = bottom - page.trackHeight(track, most, height - 2);
      pen.lineTo(x, top);
      pen.lineTo(next, top);
      x = next;
      drawn = most;
      most = 0;
    }
    if (drawn < 0) pen.lineTo(x, bottom);
    pen.lineTo(x, bottom);
    pen.fillStyle = this.colours.track;
    pen.globalAlpha = 0.38;
    pen.fill();
    pen.globalAlpha = 1;
    pen.strokeStyle = this.colours.track;
    pen.lineWidth = 1;
    pen.stroke();
    pen.restore();
    pen.font = "10px system-ui, sans-serif";
    pen.fillStyle = this.colours.soft;
    pen.textAlign = "right";
    pen.textBaseline = "top";
    const peak = page.share(track.peak, track.capacity);
    pen.fillText(`peak ${page.bytes(track.peak)}, ${peak}`, stop - 4, y + 4);
    const parts = track.partitions > 1 ? ` \u00d7 ${track.partitions}` : "";
    this.gutter(pen, y, height, track.buffer.toUpperCase(), page.bytes(track.capacity) + parts);
  }

  drawSelected(pen, top) {
    const {lane, place} = this.selected, run = lane.run;
    const row = this.layout.rows.find(each => each.lane === lane);
    const wait = this.selected.wait;
    const [start, end] = wait ? [lane.wait.start[place], lane.wait.end[place]] : [lane.start[place], lane.end[place]];
    pen.save();
    pen.beginPath();
    pen.rect(page.sizes.gutter, page.sizes.axis, this.width, 1e5);
    pen.clip();
    pen.strokeStyle = this.colours.ink;
    pen.lineWidth = 2.5;
    const x = this.x(run, start);
    pen.strokeRect(x, row.y - top, Math.max(3, this.x(run, end) - x), row.height - 1);
    let node = wait ? lane.wait.by[place] : page.causeOf(lane, place);
    let to = {row, x: wait ? this.x(run, end) : x};
    pen.lineWidth = 2;
    for (let hop = 0; hop < 6 && node >= 0; hop++) {
      const from = this.rowOf(run, node);
      if (!from) break;
      const source = run.placeOf[node];
      const x0 = Math.min(this.x(run, from.lane.end[source]), to.x);
      pen.globalAlpha = 1 - hop * 0.14;
      const [y0, y1] = [from, to.row].map(each => each.y + each.height / 2 - top);
      pen.beginPath();
      pen.moveTo(x0, y0);
      const bend = Math.max(14, Math.abs(to.x - x0) / 2);
      pen.bezierCurveTo(x0 + bend, y0, to.x - bend, y1, to.x, y1);
      pen.stroke();
      pen.beginPath();
      pen.arc(x0, y0, 4, 0, 7);
      pen.fillStyle = this.colours.ink;
      pen.fill();
      to = {row: from, x: this.x(run, from.lane.start[source])};
      node = page.causeOf(from.lane, source);
    }
    pen.globalAlpha = 1;
    pen.restore();
  }

  drawPointer(pen, height) {
    const {x} = this.pointer, {gutter, axis} = page.sizes;
    if (x < gutter || x > gutter + this.width) return;
    pen.fillStyle = this.colours.soft;
    pen.fillRect(Math.round(x), axis, 1, height);
    const text = page.number(this.at(x), this.inMicroseconds ? 3 : 0);
    pen.font = "600 12px system-ui, sans-serif";
    const width = pen.measureText(text).width + 12;
    const left = Math.min(Math.max(x - width / 2, gutter), gutter + this.width - width);
    pen.fillStyle = this.colours.ink;
    pen.fillRect(left, axis - 20, width, 19);
    pen.fillStyle = this.colours.card;
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillText(text, left + 6, axis - 10);
  }

  // -- overview ----------------------------------------------------------------------------------------------------

  drawOverview(ratio) {
    const canvas = this.overview, width = canvas.clientWidth, height = 46;
    if (!this.overviewPicture) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      this.overviewPicture = this.pictureOfAll(width, height, ratio);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.drawImage(this.overviewPicture, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const left = page.sizes.gutter + this.from / this.end * this.width, right = page.sizes.gutter + this.to / this.end * this.width;
    pen.fillStyle = this.colours.card;
    pen.globalAlpha = 0.66;
    pen.fillRect(page.sizes.gutter, 0, left - page.sizes.gutter, height);
    pen.fillRect(right, 0, page.sizes.gutter + this.width - right, height);
    pen.globalAlpha = 1;
    pen.strokeStyle = this.colours.focus;
    pen.lineWidth = 2;
    pen.strokeRect(left + 1, 1, Math.max(2, right - left - 2), height - 2);
  }

  /** A strip for each unit of each run: how busy it is over the whole time. */
  pictureOfAll(width, height, ratio) {
    const picture = document.createElement("canvas");
    picture.width = Math.round(width * ratio);
    picture.height = Math.round(height * ratio);
    const pen = picture.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = this.colours.card;
    pen.fillRect(0, 0, width, height);
    pen.fillStyle = this.colours.soft;
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.fillText("busy, whole run", 6, height / 2);
    const strips = page.runs.flatMap(run => Object.keys(run.units).map(unit => [run, unit]));
    const each = (height - 4) / strips.length;
    const step = 2, count = Math.ceil(this.width / step);
    strips.forEach(([run, unit], number) => {
      const lanes = run.lanes.filter(lane => lane.unit === unit);
      const cores = new Set(lanes.map(lane => lane.core)).size || 1;
      const sum = new Float32Array(count);
      for (const lane of lanes) {
        const own = this.shares(lane.busy, 0, this.end / run.unit / this.width * step, count);
        for (let i = 0; i < count; i++) sum[i] += own[i];
      }
      const y = 2 + number * each;
      pen.fillStyle = this.colours.idle;
      pen.fillRect(page.sizes.gutter, y, this.width * run.end * run.unit / this.end, each - 1);
      this.area(pen, sum.map(share => Math.min(1, share / cores)), this.colours.phases[run.units[unit]][0], y, each - 1, step);
    });
    return picture;
  }

  // -- what is where -----------------------------------------------------------------------------------------------

  /** What lies at a point of the canvas: {row, tick, lane, place} and for waits `wait`, or null. */
  hit(x, y) {
    if (x < page.sizes.gutter || x > page.sizes.gutter + this.width) return null;
    const whole = y + this.scroll.scrollTop;
    if (y < page.sizes.axis) return null;
    const row = this.layout.rows.find(each => whole >= each.y && whole < each.y + each.height);
    if (!row || (row.type !== "lane" && row.type !== "track")) return null;
    const tick = this.at(x) / row.run.unit;
    if (tick < 0 || tick > row.run.end) return null;
    if (row.type === "track") return {row, tick, track: row.track};
    const {lane} = row, near = 2 * (this.to - this.from) / row.run.unit / this.width;
    const place = page.upTo(lane.start, tick) - 1;
    if (place >= 0 && tick < lane.end[place]) return {row, tick, lane, place};
    const wait = page.upTo(lane.wait.start, tick) - 1;
    if (wait >= 0 && tick < lane.wait.end[wait] && lane.wait.end[wait] - lane.wait.start[wait] > near) {
      return {row, tick, lane, place: wait, wait: true};
    }
    for (const other of [place, place + 1]) {
      if (other >= 0 && other < lane.start.length && tick > lane.start[other] - near && tick < lane.end[other] + near) {
        return {row, tick, lane, place: other};
      }
    }
    if (wait >= 0 && tick < lane.wait.end[wait]) return {row, tick, lane, place: wait, wait: true};
    return {row, tick, lane, place: -1};
  }
};

/** Pixels that `used` bytes of a buffer are high: a track is as high as the buffer is large, and what is there is seen. */
page.trackHeight = (track, used, height) => used > 0 ? Math.max(1.5, used / track.capacity * height) : 0;

/** The first of several texts that fits, else the last one cut short; names of one or two letters are not cut. */
page.fitting = function (pen, texts, width) {
  const all = [].concat(texts);
  return all.find(text => pen.measureText(text).width <= width) ?? page.shortened(pen, all.at(-1), width);
};

/** Text that fits `width`, cut with an ellipsis; empty where not even a few letters fit. */
page.shortened = function (pen, text, width) {
  if (width < 8) return "";
  const whole = pen.measureText(text).width;
  if (whole <= width) return text;
  const letters = Math.floor(text.length * width / whole) - 1;
  return letters < 3 ? "" : `${text.slice(0, letters)}\u2026`;
};
