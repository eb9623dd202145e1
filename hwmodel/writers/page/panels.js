"use strict";
// Everything below the timeline: tables and bars. Figures carry `data-key`, their path in result.json.

page.figure = (tag, key, value, attributes = {}) =>
  page.make(tag, {class: "n", "data-key": key, ...attributes}, typeof value === "number" ? page.exact(value) : String(value));

page.swatch = (fill, title = "") => page.make("i", {class: "swatch", style: `background:${fill}`, title});

page.titles = function () {
  const holder = document.getElementById("titles");
  holder.replaceChildren(...page.runs.map(run => {
    const {result} = run, values = result.values.status;
    const verdict = {bit_exact: ["values bit-exact", "good"], mismatch: ["VALUES DIFFER", "bad"], skipped: ["values skipped", "soft"]};
    const fact = (text, tone = "") => page.make("li", {class: tone}, text);
    const strong = (...parts) => page.make("li", {}, ...parts);
    const letter = page.runs.length > 1 ? `${run.letter}  ` : "";
    return page.make("div", {class: "titles"},
      page.make("h1", {}, `${letter}${result.name}`),
      run.question ? page.make("p", {class: "question"}, run.question) : null,
      page.make("ul", {class: "facts"},
        strong(page.make("b", {"data-key": "cycles"}, page.exact(result.cycles)), " cycles"),
        strong(page.make("b", {"data-key": "time_us"}, page.exact(result.time_us)), " \u00b5s"),
        strong("limited by ", page.make("b", {"data-key": "bound"}, result.bound || "nothing")),
        fact(run.problem), fact(run.tiling),
        fact(`${result.arch}, ${page.number(run.clock_mhz)} MHz${run.cores > 1 ? `, ${run.cores} cores` : ""}`),
        result.calibrated ? null : fact("timing not calibrated", "warn"),
        values in verdict ? fact(...verdict[values]) : null,
        run.cores_left_out ? fact(`${run.cores_left_out} more cores are simulated and not drawn`, "soft") : null));
  }));
};

page.legend = function (colours) {
  const used = new Set(page.runs.flatMap(run => run.lanes.map(lane => lane.phase)));
  const items = Object.keys(page.about.colours).filter(phase => used.has(phase))
    .map(phase => page.make("span", {}, page.swatch(colours.phases[phase][0]), phase));
  const stripes = (kind, angle) => {
    const ground = kind === "wait_space" ? colours.waitspace : colours.waitin, line = page.about.waits[kind].line;
    return page.make("span", {}, page.swatch(`repeating-linear-gradient(${angle}deg, ${line} 0 1px, ${ground} 1px 5px)`), page.about.waits[kind].label);
  };
  items.push(stripes("wait_input", -45), stripes("wait_space", 45));
  items.push(page.make("span", {}, page.make("i", {class: "swatch", style: `background:${colours.idle};border-color:${colours.line}`}), "idle"));
  items.push(page.make("span", {}, page.swatch(colours.accent), "critical path"));
  document.getElementById("legend").replaceChildren(...items);
};

page.heading = (text, note = "") => page.make("h2", {}, text, note ? page.make("small", {}, note) : null);

page.table = function (caption, columns, rows) {
  return page.make("div", {class: "table"}, page.make("table", {},
    caption ? page.make("caption", {}, caption) : null,
    page.make("thead", {}, page.make("tr", {}, ...columns.map(([text, number]) => page.make("th", {scope: "col", class: number ? "n" : false}, text)))),
    page.make("tbody", {}, ...rows)));
};

page.kindFill = function (kind, unit, run, colours) {
  if (kind === "busy") return colours.phases[run.units[unit]][0];
  if (kind === "idle") return colours.idle;
  const ground = kind === "wait_space" ? colours.waitspace : colours.waitin;
  return `repeating-linear-gradient(${kind === "wait_space" ? 45 : -45}deg, ${page.about.waits[kind].line} 0 1px, ${ground} 1px 5px)`;
};

page.unitsPanel = function (run, colours) {
  const {result} = run, kinds = ["busy", "wait_input", "wait_space", "idle"];
  const rows = Object.entries(result.units).map(([unit, figures]) => {
    const stack = page.make("div", {class: "stack", role: "img", "aria-label": kinds.map(kind => `${kind.replace("_", " for ")} ${page.percent(figures[`${kind}_cycles`], result.cycles)}`).join(", ")},
      ...kinds.map(kind => page.make("i", {
        style: `width:${100 * figures[`${kind}_cycles`] / result.cycles}%;background:${page.kindFill(kind, unit, run, colours)}`,
        title: `${unit} ${kind.replace("_", " for ")} ${page.percent(figures[`${kind}_cycles`], result.cycles)}`,
      })));
    return [page.make("tr", {class: unit === result.bound ? "limit above" : "above"},
      page.make("th", {scope: "row"}, unit),
      ...[...kinds, "alone"].map(kind => page.figure("td", `units.${unit}.${kind}_cycles`, figures[`${kind}_cycles`])),
      page.make("td", {class: "n"}, page.percent(figures.utilization))),
    page.make("tr", {}, page.make("td", {colspan: 7}, stack))];
  }).flat();
  const means = run.cores > 1 ? `means over ${run.cores} cores; ` : "";
  document.getElementById("units").replaceChildren(
    page.heading("Units", `${means}busy + waits + idle = ${page.exact(result.cycles)} cycles`),
    page.table("", [["unit"], ["busy", 1], ["waits for input", 1], ["waits for space", 1], ["idle", 1], ["alone", 1], ["busy share", 1]], rows),
    page.make("p", {class: "soft"}, `read from ${run.memory} `, page.figure("span", "traffic.gm_read_bytes", result.traffic.gm_read_bytes, {class: ""}), " bytes, written ",
      page.figure("span", "traffic.gm_write_bytes", result.traffic.gm_write_bytes, {class: ""}), " bytes; ",
      page.figure("span", "work.macs", result.work.macs, {class: ""}), " multiply-adds, ",
      page.figure("span", "work.tflops", result.work.tflops, {class: ""}), " Tflop/s"));
};

page.stallsPanel = function (run, colours, timeline, hover) {
  const all = Object.entries(run.explanation.stalls).flatMap(([unit, one]) => one.causes.map(cause => ({...cause, unit})));
  all.sort((a, b) => b.cycles - a.cycles);
  const words = {wait_input: "waits for input", wait_space: "waits for space", idle: "idle"};
  const jump = place => page.make("button", {
    type: "button", title: `cycle ${page.number(place.start_cycle)}`,
    onclick: () => {
      const lane = run.lanes.find(each => each.core === place.core && Array.prototype.includes.call(each.number, place.instruction) &&
        run.details[each.detail[Array.prototype.indexOf.call(each.number, place.instruction)]][0] === place.op);
      timeline.reveal(run, place.start_cycle * run.ticks_per_cycle, (place.start_cycle + place.cycles) * run.ticks_per_cycle, 0.6);
      if (lane) hover.pin({lane, place: Array.prototype.indexOf.call(lane.number, place.instruction)});
      timeline.canvas.scrollIntoView({block: "center"});
    },
  }, `${place.tile || `#${place.instruction}`}: ${page.number(place.cycles)}`);
  const row = cause => page.make("tr", {},
    page.make("th", {scope: "row"}, cause.unit),
    page.make("td", {}, page.swatch(page.kindFill(cause.kind, cause.unit, run, colours)), ` ${words[cause.kind]}`),
    page.make("td", {title: ""}, page.reasonText([cause.kind, cause.category, cause.text])),
    page.make("td", {class: "n"}, page.exact(cause.cycles)),
    page.make("td", {class: "n"}, page.percent(cause.share)),
    page.make("td", {style: "width:12%"}, page.make("div", {class: "meter"}, page.make("i", {style: `width:${100 * cause.share}%`}))),
    page.make("td", {class: "n"}, page.number(cause.waits)),
    page.make("td", {class: "places"}, ...cause.longest.map(jump)));
  const columns = [["unit"], ["kind"], ["cause"], ["cycles", 1], ["of all", 1], [""], ["times", 1], ["longest, by tile"]];
  const shown = 10, rows = all.map(row);
  rows.slice(shown).forEach(each => { each.hidden = true; });
  const more = rows.length > shown ? page.make("button", {type: "button", onclick: event => {
    rows.forEach(each => { each.hidden = false; });
    event.target.remove();
  }}, `Show all ${rows.length}`) : null;
  const slow = Object.entries(run.explanation.stalls).filter(([, one]) => one.slowdown_cycles > 0)
    .map(([unit, one]) => one.slowdown_inside_busy ? `${unit}: ${page.exact(one.slowdown_cycles)} of its busy cycles are slow-down (${one.slowdown_on})` :
      `${unit}: its overlapping instructions took ${page.number(one.slowdown_cycles)} cycles longer than alone, in sum (${one.slowdown_on})`);
  document.getElementById("stalls").replaceChildren(
    page.heading("Stalls", "every cycle of every unit that is not busy has one cause; they add up to 100 %; longest first, of all units"),
    page.table("", columns, rows), ...(more ? [more] : []),
    ...(slow.length ? [page.make("p", {class: "soft"}, slow.join("; "))] : []));
};

page.pathPanel = function (run, colours, timeline) {
  const path = run.explanation.critical_path, total = run.result.cycles;
  const fill = unit => run.units[unit] ? colours.phases[run.units[unit]][0] : colours.soft;
  const parts = Object.entries(path.cycles_by_unit);
  const link = one => page.make("span", {class: "link", style: `border-color:${fill(one.unit)}`},
    `${one.what}${one.first ? ` ${one.first === one.last ? one.first : `${one.first} \u2026 ${one.last}`}` : ""} ${page.number(one.cycles)}`);
  const chain = run.chain.map(({times, links}) => page.make("li", {}, ...(times > 1 ? [`${times} \u00d7 ( `] : []),
    ...links.flatMap((one, i) => i ? [" \u203a ", link(one)] : [link(one)]), ...(times > 1 ? [" )"] : [])));
  const slack = Object.entries(path.slack).map(([unit, one]) => page.make("tr", {},
    page.make("th", {scope: "row"}, unit),
    page.make("td", {class: "n"}, page.number(path.cycles_by_unit[unit] || 0)),
    page.make("td", {class: "n"}, page.percent(path.cycles_by_unit[unit] || 0, total)),
    page.make("td", {class: "n"}, page.number(one.instructions)),
    page.make("td", {class: "n"}, page.number(one.without_slack)),
    page.make("td", {class: "n"}, page.exact(one.median_cycles))));
  document.getElementById("path").replaceChildren(
    page.heading("Critical path", `core ${path.core}: what the run waited for, all ${page.number(total)} cycles`),
    page.make("div", {class: "stack", role: "img", "aria-label": parts.map(([unit, cycles]) => `${unit} ${page.percent(cycles, total)}`).join(", ")},
      ...parts.map(([unit, cycles]) => page.make("i", {style: `width:${100 * cycles / total}%;background:${fill(unit)}`, title: `${unit} ${page.percent(cycles, total)}`}))),
    page.make("ol", {class: "chain"}, ...chain),
    page.table("", [["unit"], ["on the path", 1], ["of all", 1], ["instructions", 1], ["without slack", 1], ["median slack", 1]], slack));
};

page.phasesPanel = function (run, colours) {
  const {phases, steady_state: steady, busiest} = run.explanation.phases;
  const units = Object.keys(run.result.units);
  const rows = phases.map(phase => page.make("tr", {},
    page.make("th", {scope: "row"}, phase.name),
    page.make("td", {class: "n"}, page.number(phase.cycles)),
    ...units.map(unit => page.make("td", {class: "n"}, page.percent(phase.units[unit].busy_cycles, phase.cycles, 0),
      page.make("div", {class: "meter"}, page.make("i", {style: `width:${100 * phase.units[unit].busy_cycles / phase.cycles}%;background:${colours.phases[run.units[unit]][0]}`}))))));
  const plural = steady && steady.instructions > 1 ? "s" : "";
  const note = steady ? `the steady state is ${steady.periods} periods of ${page.number(steady.period_cycles)} cycles (${steady.instructions} instruction${plural} of ${steady.engine}); busiest in it: ${busiest}` : "nothing repeats: no steady state";
  document.getElementById("phases").replaceChildren(page.heading("Phases", note),
    page.table("busy share of each unit", [["phase"], ["cycles", 1], ...units.map(unit => [unit, 1])], rows));
};

page.whatifPanel = function (run) {
  const holder = document.getElementById("whatif"), what = run.explanation.what_if;
  holder.hidden = !what;
  document.getElementById("units").classList.toggle("wide", !what);
  if (!what) return;
  if (!what.baseline_reproduced) {
    holder.replaceChildren(page.heading("What if"), page.make("p", {class: "soft"}, `Left out: simulated again, the scenario gives ${page.number(what.baseline_cycles)} cycles.`));
    return;
  }
  const advice = ["double", "more", "larger", "both"];
  const gain = one => {
    const size = Math.min(100, 100 * Math.abs(one.gain));
    const command = Object.entries(one.overrides).map(([path, value]) => `--set ${path}=${value}`).join(" ");
    return [page.make("b", {}, one.target), page.make("span", {title: command}, one.change),
      page.make("span", {class: "track", role: "img", "aria-label": `${one.gain < 0 ? "loses" : "saves"} ${page.percent(Math.abs(one.gain))}`},
        page.make("i", {class: one.gain < 0 ? "loss" : false, style: `width:${size}%`})),
      page.make("span", {class: "n"}, one.kind === "clock" ? `${page.number(one.time_us, 3)} \u00b5s` : page.number(one.cycles), " ",
        page.make("span", {class: one.gain > 0.0005 ? "good" : one.gain < -0.0005 ? "bad" : "soft"}, `${one.gain > 0 ? "\u2212" : "+"}${page.percent(Math.abs(one.gain))}`))];
  };
  const list = chosen => page.make("div", {class: "gain"}, ...chosen.flatMap(gain));
  const nothing = one => Math.abs(one.gain) < 0.00005;
  const could = what.ranking.filter(one => advice.includes(one.kind) && !nothing(one)), bounds = what.ranking.filter(one => !advice.includes(one.kind));
  const best = what.worth_most;
  const worth = page.make("p", {class: "worth"}, best ? "Worth most: " : "No single change gains anything.",
    best ? page.make("b", {}, `${best.target} ${best.change}`) : null,
    best ? `, ${page.number(best.cycles)} cycles, ${page.percent(best.gain)} less time` : null);
  const same = what.ranking.filter(one => advice.includes(one.kind) && nothing(one)).map(one => `${one.target} ${one.change}`);
  const rest = [...what.impossible.map(one => `${one.target} ${one.change}: ${one.problem}`), ...what.left_out.map(one => `${one}: not asked, the run is long`)];
  holder.replaceChildren(
    page.heading("What if", `each simulated; the run itself came out again: ${page.number(what.baseline_cycles)} cycles`),
    worth, list(could), ...(same.length ? [page.make("p", {class: "soft"}, `No difference: ${same.join("; ")}.`)] : []),
    page.make("details", {open: could.length < 8}, page.make("summary", {}, "Bounds: no start-up, no limit at all"), list(bounds)),
    ...(rest.length ? [page.make("details", {}, page.make("summary", {}, "Without an answer"), ...rest.map(text => page.make("div", {class: "soft"}, text)))] : []));
};

page.comparePanel = function (runs) {
  const holder = document.getElementById("compare");
  holder.hidden = runs.length < 2;
  if (holder.hidden) return;
  const units = [...new Set(runs.flatMap(run => Object.keys(run.result.units)))], base = runs[0].result;
  const rows = runs.map(run => page.make("tr", {},
    page.make("th", {scope: "row"}, `${run.letter}  ${run.result.name}`),
    page.figure("td", `${run.index}.cycles`, run.result.cycles),
    page.figure("td", `${run.index}.time_us`, run.result.time_us),
    page.make("td", {class: "n"}, run.index ? `${(run.result.time_us / base.time_us).toFixed(3)} \u00d7` : "baseline"),
    page.make("td", {}, run.result.bound),
    ...units.map(unit => page.make("td", {class: "n"}, run.result.units[unit] ? page.percent(run.result.units[unit].utilization) : "\u2013")),
    page.make("td", {class: "n"}, page.bytes(run.result.traffic.gm_read_bytes))));
  holder.replaceChildren(page.heading("Side by side", "time against the first; busy share of each unit"),
    page.table("", [["run"], ["cycles", 1], ["\u00b5s", 1], ["time", 1], ["limit"], ...units.map(unit => [unit, 1]), ["read", 1]], rows));
};
