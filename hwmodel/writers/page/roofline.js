"use strict";
// The roofline: operations a second against operations a byte, both axes logarithmic, drawn by uPlot.

page.rooflinePanel = function (run, colours) {
  const holder = document.getElementById("roofs"), roofline = run.explanation.roofline;
  holder.hidden = !roofline;
  if (!roofline) return;
  const names = {GM: "store", L2: "load", HBM: "load", L1: "extract", L0C: "drain", PSUM: "drain"};
  const colour = level => colours.phases[names[level.name] ?? "store"][0];
  const tera = perCycle => perCycle * run.clock_mhz / 1e6;
  const peak = roofline.peak_tflops, reached = roofline.tflops;
  const rows = roofline.levels.map(level => page.make("tr", {},
    page.make("th", {scope: "row"}, page.swatch(colour(level)), ` ${level.name}`),
    page.make("td", {}, level.by),
    page.make("td", {class: "n"}, page.number(level.intensity, 1)),
    page.make("td", {class: "n"}, page.number(level.bytes_per_cycle)),
    page.make("td", {class: "n"}, page.number(tera(level.attainable), 1)),
    page.make("td", {class: "n"}, page.percent(level.reached))));
  const chart = page.make("div", {role: "img", "aria-label": `Roofline: ${page.number(reached, 2)} Tflop/s of ${page.number(peak, 1)} at the peak`});
  holder.replaceChildren(
    page.heading("Roofs", `${page.number(reached, 2)} Tflop/s, ${page.percent(reached, peak)} of the peak ${page.number(peak, 1)}`),
    page.make("div", {class: "roof"}, chart,
      page.table("where each level stands", [["level"], ["moved by"], ["op/byte", 1], ["B/cycle", 1], ["allows Tflop/s", 1], ["reached", 1]], rows)));
  page.drawRoofline(chart, roofline, run, colours, colour, tera);
};

page.drawRoofline = function (chart, roofline, run, colours, colour, tera) {
  const peak = roofline.peak_tflops, reached = roofline.tflops;
  const ridges = roofline.levels.map(level => roofline.peak_flops_per_cycle / level.bytes_per_cycle);
  const marks = roofline.levels.map(level => level.intensity);
  const low = 10 ** Math.floor(Math.log10(Math.min(...ridges, ...marks) / 2));
  const high = 10 ** Math.ceil(Math.log10(Math.max(...ridges, ...marks) * 2));
  const steps = 160, grid = Array.from({length: steps + 1}, (_, i) => low * (high / low) ** (i / steps));
  const xs = [...new Set([...grid, ...ridges, ...marks])].sort((a, b) => a - b);
  const roofs = roofline.levels.map(level => xs.map(x => Math.min(peak, tera(level.bytes_per_cycle * x))));
  const points = roofline.levels.map(level => xs.map(x => x === level.intensity ? reached : null));
  const floor = 10 ** Math.floor(Math.log10(Math.min(reached, peak / 50)));
  const font = "12px system-ui, sans-serif", log = (self, splits) => splits.map(v => Math.abs(Math.log10(v) % 1) < 1e-9 ? page.exact(v) : "");
  const axis = {stroke: colours.ink, font, labelFont: font, grid: {stroke: colours.line, width: 1}, ticks: {stroke: colours.line}, values: log};
  const series = [{}];
  roofline.levels.forEach((level, i) => series.push({label: level.name, stroke: colour(level), width: 3, dash: i % 2 ? [8, 5] : [], points: {show: false}}));
  roofline.levels.forEach(level => series.push({
    label: `${level.name}: this run`, stroke: colours.ink, width: 0, paths: () => null,
    points: {show: true, size: 13, width: 2, fill: colour(level), stroke: colours.ink},
  }));
  const names = self => {
    const pen = self.ctx, ratio = devicePixelRatio || 1;
    pen.save();
    pen.font = `600 ${12 * ratio}px system-ui, sans-serif`;
    const placed = [];
    roofline.levels.forEach((level, i) => {
      const x = self.valToPos(level.intensity, "x", true), y = self.valToPos(reached, "y", true);
      let down = 20 * ratio;
      while (placed.some(([px, py]) => Math.abs(px - x) < 34 * ratio && Math.abs(py - (y + down)) < 14 * ratio)) down += 15 * ratio;
      placed.push([x, y + down]);
      pen.fillStyle = colours.ink;
      pen.textAlign = "center";
      pen.fillText(level.name, x, y + down);
      const roof = self.valToPos(Math.min(peak, tera(level.attainable)), "y", true);
      pen.strokeStyle = colour(level);
      pen.setLineDash([3 * ratio, 3 * ratio]);
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(x, roof);
      pen.stroke();
    });
    pen.setLineDash([]);
    pen.textAlign = "right";
    pen.fillStyle = colours.soft;
    pen.fillText(`peak ${page.number(peak, 1)} Tflop/s`, self.bbox.left + self.bbox.width - 8 * ratio, self.valToPos(peak, "y", true) - 8 * ratio);
    pen.restore();
  };
  chart.replaceChildren();
  page.plot = new uPlot({
    width: Math.max(320, chart.clientWidth), height: 360,
    scales: {x: {time: false, distr: 3, range: [low, high]}, y: {distr: 3, range: [floor, peak * 2.2]}},
    axes: [{...axis, label: "operations for each byte moved (op/B)"}, {...axis, label: "Tflop/s", size: 64}],
    series, legend: {show: false}, cursor: {show: false}, hooks: {draw: [names]},
  }, [xs, ...roofs, ...points], chart);
};
