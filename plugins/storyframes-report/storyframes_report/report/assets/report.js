// Draws the figures that the page carries as JSON, in the colours of the page, and makes them usable from the keyboard.
"use strict";
(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const coarse = window.matchMedia("(pointer: coarse)").matches;
  const isAxis = (name) => /^[xy]axis\d*$/.test(name);

  // plotly is loaded when the page is there, so that what needs no chart does not wait for it.
  const library = document.currentScript.dataset.plotly;

  function load(source) {
    return new Promise((done, failed) => {
      const script = document.createElement("script");
      Object.assign(script, { src: source, onload: done, onerror: () => failed(new Error(`${source} cannot be read`)) });
      document.head.append(script);
    });
  }

  function read(id) {
    const element = document.getElementById(id);
    return element ? JSON.parse(element.textContent) : null;
  }

  // --- numbers that the page carries deflated (packing.py) ---

  async function unpack(text, Numbers) {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Numbers(await new Response(stream).arrayBuffer());
  }

  window.storyframesUnpack = unpack;

  async function inflate(content) {
    return content && JSON.parse(new TextDecoder().decode(await unpack(content.deflated, Uint8Array)));
  }

  // As plotly reads texts, with tags and entities.
  const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  function nameOf(part) {
    const [[, phase], , [, frames]] = part.about;
    return `${phase}, ${frames === "none" ? `from ${part.start.toFixed(2)} s` : `frames ${frames}`}`;
  }

  async function numbers({ decimals, first, steps, shape }) {
    const bytes = await unpack(steps, Uint8Array);
    const count = bytes.length / 4;
    const values = new Float64Array(count);
    const unit = 10 ** Math.abs(decimals);
    let level = 0;
    for (let at = 0; at < count; at++) {
      const step = bytes[at] | (bytes[count + at] << 8) | (bytes[2 * count + at] << 16) | (bytes[3 * count + at] << 24);
      level += (step >>> 1) ^ -(step & 1);
      if (level < 0) values[at] = NaN;
      else values[at] = decimals < 0 ? (first + level) * unit : (first + level) / unit;
    }
    if (!shape) return values;
    const [rows, width] = shape.split(",").map(Number);
    return Array.from({ length: rows }, (_, row) => values.subarray(row * width, (row + 1) * width));
  }

  async function unpackFigure(figure) {
    const arrays = await Promise.all((figure.packed || []).map(numbers));
    for (const trace of figure.data) {
      for (const key of ["x", "base", "y", "z"]) if (trace[key] && "packed" in trace[key]) trace[key] = arrays[trace[key].packed];
      if (trace.meta && trace.meta.words) trace.meta.words = storyframesTimeline.timed(await inflate(trace.meta.words));
    }
    return figure;
  }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  // The part of a layout that follows the page's colours.
  function theme(layout) {
    const themed = { "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "font.color": colour("--ink") };
    for (const name of Object.keys(layout).filter(isAxis)) {
      themed[name + ".gridcolor"] = colour("--grid");
      themed[name + ".zerolinecolor"] = colour("--line");
      themed[name + ".linecolor"] = colour("--line");
    }
    themed["hoverlabel.bgcolor"] = colour("--band");
    themed["hoverlabel.font.color"] = colour("--ink");
    return themed;
  }

  function place(layout, path, value) {
    const keys = path.split(".");
    const last = keys.pop();
    let at = layout;
    for (const key of keys) at = at[key] = at[key] || {};
    at[last] = value;
  }

  async function draw(holder) {
    const figure = await unpackFigure(read(holder.id + "-figure"));
    for (const trace of figure.data) {
      if (trace.meta === "windows") trace.text = (await inflate(read("windows"))).map((one) => escaped(nameOf(one)));
    }
    const layout = figure.layout;
    delete layout.template;
    layout.xaxis = layout.xaxis || {};
    layout.yaxis = layout.yaxis || {};
    for (const [path, value] of Object.entries(theme(layout))) place(layout, path, value);
    layout.height = Number(holder.dataset.height);
    layout.autosize = true;
    layout.font = Object.assign({ size: 12 }, layout.font);
    layout.margin = layout.margin || { l: 48, r: 12, t: 12, b: 44 };
    layout.legend = layout.legend || { orientation: "h", y: 1.02, yanchor: "bottom" };
    if (coarse) layout.dragmode = false; // a finger scrolls the page; the buttons zoom
    return Plotly.newPlot(holder, figure.data, layout, {
      responsive: true, doubleClick: "reset",
      displayModeBar: false, // it lies on the data, always so after a touch; the page's own buttons zoom
    });
  }

  function inSight(holder) {
    const { top, bottom } = holder.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  }

  // Until the browser has nothing else to do, half a second at most.
  function idle() {
    return new Promise((done) => (window.requestIdleCallback ? requestIdleCallback(done, { timeout: 500 }) : setTimeout(done)));
  }

  // --- on paper: in light colours, and as wide as the page is there, whatever the screen is ---

  function print(holders) {
    const page = document.documentElement;
    function prepare(printed) {
      if (printed === page.classList.contains("paper")) return;
      page.classList.toggle("paper", printed);
      for (const holder of holders) {
        const size = printed ? { width: holder.clientWidth, autosize: false } : { width: null, autosize: true };
        Plotly.relayout(holder, Object.assign(theme(holder.layout), size));
      }
    }
    window.matchMedia("print").addEventListener("change", (event) => prepare(event.matches));
    window.addEventListener("beforeprint", () => prepare(true));
    window.addEventListener("afterprint", () => prepare(false));
  }

  // --- windows of the session page ---

  async function windows(timeline) {
    const select = document.getElementById("window");
    const all = await inflate(read("windows"));
    if (!select || !all) return;
    all.forEach((one, number) => select.add(new Option(nameOf(one), number)));
    const list = document.getElementById("window-about");
    const drawn = (timeline.layout.shapes || []).slice();
    function show(number) {
      select.value = String(number);
      const chosen = all[number];
      list.replaceChildren(...(chosen ? chosen.about : []).flatMap((texts) => texts.map((text, at) => {
        const element = document.createElement(at ? "dd" : "dt");
        element.textContent = text;
        return element;
      })));
      const mark = chosen && { type: "rect", xref: "x", yref: "paper", x0: chosen.start, x1: chosen.stop, y0: 0, y1: 1, layer: "below",
        fillcolor: colour("--link"), opacity: 0.18, line: { width: 0 } };
      return Plotly.relayout(timeline, { shapes: drawn.concat(mark || []) });
    }
    select.addEventListener("change", () => show(select.value));
    document.getElementById("window-zoom").addEventListener("click", () => {
      const chosen = all[select.value];
      if (chosen) storyframesTimeline.jump(timeline, chosen.start - 1, chosen.stop + 1);
    });
    timeline.on("plotly_click", (event) => {
      const point = event.points.find((one) => one.data.meta === "windows");
      if (point) show(point.pointNumber);
    });
  }

  function spans() {
    for (const button of document.querySelectorAll("button.span")) {
      const timeline = document.getElementById(button.dataset.chart);
      if (timeline) button.addEventListener("click", () => {
        const [start, stop] = [Number(button.dataset.start), Number(button.dataset.stop)];
        const around = Math.max(1, (stop - start) / 4);
        storyframesTimeline.jump(timeline, start - around, stop + around);
        timeline.scrollIntoView({ block: "nearest" });
      });
    }
  }

  // The part of an address that says what to show: #timeline-2=12.50,14.00, seconds of that timeline.
  function moment() {
    const [, chart, start, stop] = /^#(timeline(?:-\d+)?)=(-?[\d.]+),(-?[\d.]+)$/.exec(location.hash) || [];
    const holder = chart && document.getElementById(chart);
    if (!holder) return;
    const around = Math.max(1, (stop - start) / 4);
    storyframesTimeline.jump(holder, Number(start) - around, Number(stop) + around);
    holder.scrollIntoView({ block: "nearest" });
  }

  function filter() {
    const box = document.getElementById("filter");
    if (!box) return;
    const rows = Array.from(document.querySelectorAll("#matrix tbody tr"));
    box.addEventListener("input", () => {
      const asked = box.value.trim().toLowerCase();
      const shown = rows.filter((row) => {
        row.hidden = !row.textContent.toLowerCase().includes(asked);
        return !row.hidden;
      });
      document.getElementById("filter-count").textContent = shown.length + " of " + rows.length;
    });
  }

  document.addEventListener("DOMContentLoaded", async () => {
    filter();
    if (typeof storyframesStudy !== "undefined") await storyframesStudy.started.catch(console.error);
    const holders = Array.from(document.querySelectorAll(".plot"));
    if (holders.length) await load(library);
    const left = holders.slice();
    while (left.length) {
      const next = left.findIndex(inSight);
      if (next < 0) document.documentElement.dataset.seen = ""; // all that are in sight, for who measures
      await (next < 0 ? idle() : new Promise((done) => setTimeout(done))); // clicks and keys in between
      const [holder] = left.splice(Math.max(next, 0), 1);
      await draw(holder);
      if ("controls" in holder.dataset) storyframesTimeline.listen(holder);
    }
    const timeline = document.getElementById("timeline"); // of the session's own files, of which windows are cut
    if (timeline) await windows(timeline);
    spans();
    moment();
    window.addEventListener("hashchange", moment);
    print(holders);
    dark.addEventListener("change", () => holders.forEach((holder) => Plotly.relayout(holder, theme(holder.layout))));
    Object.assign(document.documentElement.dataset, { seen: "", drawn: String(holders.length) });
    document.dispatchEvent(new Event("storyframes-drawn"));
  });
})();
