"use strict";
// What is drawn below what: a heading for each run, a row for each lane, a row for each buffer.

page.sizes = {gutter: 176, right: 14, axis: 40, head: 26, lane: 32, thin: 13, gap: 6, track: 38, core: 20};

/** Buffers worth a row: the accumulators, the shared memory of a NeuronCore, and those that once hold some of their capacity. */
page.usefulTrack = track => ["l0c", "psum", "sbuf"].includes(track.buffer) || track.peak >= 0.02 * track.capacity;

/** Rows with their place (y, height), and the height of all of them. */
page.layout = function (runs) {
  const size = page.sizes;
  const rows = [];
  let y = size.axis;
  const add = (row, height) => { rows.push({...row, y, height}); y += height; };
  for (const run of runs) {
    add({type: "head", run}, size.head);
    const cores = [...new Set(run.lanes.map(lane => lane.core))];
    for (const core of cores) {
      if (cores.length > 1) add({type: "core", run, core}, size.core);
      for (const lane of run.lanes.filter(each => each.core === core)) {
        if (lane.queue === 0) y += size.gap / 2;
        add({type: "lane", run, lane, alone: lane.queues === 1}, lane.queues > 1 ? size.thin : size.lane);
        if (lane.queue === lane.queues - 1) y += size.gap / 2;
      }
      for (const track of run.tracks.filter(each => each.core === core && page.usefulTrack(each))) {
        y += size.gap;
        add({type: "track", run, track}, size.track);
      }
    }
    y += size.gap * 2;
  }
  return {rows, height: y};
};

/** Numbers for an axis from `low` to `high`: multiples of a round step, at most `most` of them. */
page.roundNumbers = function (low, high, most, smallest = 0) {
  const span = high - low;
  if (!(span > 0)) return {numbers: [], digits: 0};
  const power = 10 ** Math.floor(Math.log10(span / most));
  const step = Math.max(smallest, power * [1, 2, 5, 10].find(factor => factor * power >= span / most * 0.999));
  const numbers = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) numbers.push(i * step + 0);  // no -0
  return {numbers, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9))};
};
