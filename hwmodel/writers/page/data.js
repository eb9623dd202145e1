"use strict";
// Unpacks what the page carries: JSON in clear, and columns of numbers, compressed. Everything is in ticks of its run.

const page = {};  // what the scripts of this page share

/** Reads `about` and the columns; resolves to the runs. */
page.load = async function () {
  const about = JSON.parse(document.getElementById("about").textContent);
  const packed = Uint8Array.from(atob(document.getElementById("columns").textContent.trim()), c => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = await new Response(stream).arrayBuffer();
  const columns = page.unpack(about.columns, bytes);
  page.about = about;
  page.runs = about.runs.map((run, index) => page.run(run, index, columns));
  return page.runs;
};

const kinds = {u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i4: Int32Array, f8: Float64Array};

/** Typed arrays (or parsed JSON) of all columns. Those that grow hold differences and come back as sums. */
page.unpack = function (entries, bytes) {
  let offset = 0;
  return entries.map(entry => {
    const part = bytes.slice(offset, offset + entry.bytes);
    offset += entry.bytes;
    if (entry.type === "json") return JSON.parse(new TextDecoder().decode(part));
    const values = new kinds[entry.type](part);
    if (!entry.grows) return values;
    const sums = new Float64Array(values.length);
    let sum = 0;
    for (let i = 0; i < values.length; i++) sums[i] = sum += values[i];
    return sums;
  });
};

/** A run with its lanes, tracks and path as arrays. */
page.run = function (about, index, columns) {
  const run = {...about, index, letter: String.fromCharCode(65 + index % 26)};
  run.details = columns[about.details];
  run.labels = columns[about.labels];
  run.reasons = columns[about.reasons];
  run.lanes = about.lanes.map(lane => page.lane(run, lane, columns));
  run.tracks = about.tracks.map(track => ({...track, run, ticks: columns[track.ticks], used: columns[track.used]}));
  run.spans = run.lanes.reduce((sum, lane) => sum + lane.start.length, 0);
  const nodes = run.lanes.reduce((most, lane) => Math.max(most, lane.node.length ? lane.node.at(-1) : -1), -1) + 1;
  run.laneOf = new Uint16Array(nodes).fill(65535);
  run.placeOf = new Uint32Array(nodes);
  run.lanes.forEach((lane, number) => {
    for (let i = 0; i < lane.node.length; i++) {
      run.laneOf[lane.node[i]] = number;
      run.placeOf[lane.node[i]] = i;
    }
  });
  page.addPath(run, about.path, columns);
  return run;
};

page.lane = function (run, about, columns) {
  const lane = {...about, run};
  for (const name of ["start", "length", "node", "detail", "label", "number", "slack", "cause", "how"]) {
    lane[name] = columns[about[name]];
  }
  lane.end = page.ends(lane.start, lane.length);
  lane.busy = page.covering(lane.start, lane.end);
  lane.shade = page.shades(lane.label);
  const wait = {
    start: columns[about.wait_start], reason: columns[about.wait_reason],
    node: columns[about.wait_for], by: columns[about.wait_by],
  };
  wait.end = page.ends(wait.start, columns[about.wait_length]);
  lane.wait = wait;
  lane.waits = {};
  for (const kind of ["wait_input", "wait_space"]) {
    const chosen = [];
    for (let i = 0; i < wait.start.length; i++) if (run.reasons[wait.reason[i]][0] === kind) chosen.push(i);
    lane.waits[kind] = page.covering(
      Float64Array.from(chosen, i => wait.start[i]), Float64Array.from(chosen, i => wait.end[i]));
  }
  return lane;
};

page.ends = function (start, length) {
  const end = new Float64Array(start.length);
  for (let i = 0; i < end.length; i++) end[i] = start[i] + length[i];
  return end;
};

/** Neighbouring tiles alternate between two shades: 1 where the label has changed an odd number of times. */
page.shades = function (label) {
  const shade = new Uint8Array(label.length);
  for (let i = 1; i < shade.length; i++) shade[i] = label[i] === label[i - 1] ? shade[i - 1] : 1 - shade[i - 1];
  return shade;
};

/** Sorted, disjoint intervals with the sums that tell how much of any range they cover. */
page.covering = function (start, end) {
  const before = new Float64Array(start.length + 1);
  for (let i = 0; i < start.length; i++) before[i + 1] = before[i] + end[i] - start[i];
  return {start, end, before};
};

/** How many of the sorted values are at most `value`. */
page.upTo = function (values, value) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1; else high = middle;
  }
  return low;
};

/** Ticks that intervals cover before `tick`. */
page.coveredBefore = function (intervals, tick) {
  const count = page.upTo(intervals.start, tick);
  if (!count) return 0;
  return intervals.before[count] - Math.max(0, intervals.end[count - 1] - tick);
};

/** The critical path: its steps by lane, as intervals, and which instructions are on it. */
page.addPath = function (run, about, columns) {
  const start = columns[about.start], length = columns[about.length], node = columns[about.node];
  run.path = {start, end: page.ends(start, length), node};
  run.onPath = new Uint8Array(run.laneOf.length);
  const steps = run.lanes.map(() => [[], []]);
  for (let i = 0; i < node.length; i++) {
    if (node[i] < 0 || run.laneOf[node[i]] === 65535) continue;
    run.onPath[node[i]] = 1;
    const [starts, ends] = steps[run.laneOf[node[i]]];
    starts.push(start[i]);
    ends.push(run.path.end[i]);
  }
  run.lanes.forEach((lane, number) => {
    lane.path = page.covering(Float64Array.from(steps[number][0]), Float64Array.from(steps[number][1]));
  });
};
