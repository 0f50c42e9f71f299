// Moves and zooms a timeline. While it moves it is drawn on a canvas, at the speed of the screen; plotly, which needs a
// tenth of a second for its curves, draws it when it rests. Times are seconds of the track's own recording.
"use strict";
const storyframesTimeline = (function () {
  const REST_MS = 200; // without a further step: it rests
  const SHORTEST_S = 0.2; // that can be seen at once
  const COLUMN_PX = 2; // a curve's lowest and highest value in so many pixels are drawn
  const WORD_PX = 16; // on average at least, or no word is drawn
  const SQUEEZED = 0.7; // of its width is the least that a text is drawn in
  const SHADES = 256; // of a strip of colours
  const DASHES = { solid: [], dot: [3, 3], dash: [9, 9] };
  const KEYS = { "+": "in", "=": "in", "-": "out", "_": "out", "ArrowLeft": "left", "ArrowRight": "right", "0": "all", "Home": "all" };

  // --- plain functions ---

  // The part of the whole that is nearest to what was asked for, without the time before and after.
  function within([first, last], start, stop) {
    const width = Math.min(Math.max(stop - start, SHORTEST_S), last - first);
    const from = Math.min(Math.max(start, first), last - width);
    return [from, from + width];
  }

  // The first place in ascending times at or after a second.
  function placeOf(times, second) {
    let [low, high] = [0, times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] < second) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The points of a curve that are drawn between two seconds: all and one on each side, or where there are more the
  // lowest and the highest of each column, in their order; where a value is missing the line has a gap.
  function visible(x, y, start, stop, columns) {
    const first = Math.max(placeOf(x, start) - 1, 0);
    const end = Math.min(placeOf(x, stop) + 1, x.length);
    const each = Math.ceil((end - first) / columns);
    const places = [];
    if (each <= 2) {
      for (let at = first; at < end; at++) places.push(at);
      return places;
    }
    for (let from = first; from < end; from += each) {
      let [low, high] = [-1, -1];
      for (let at = from; at < Math.min(from + each, end); at++) {
        if (Number.isNaN(y[at])) continue;
        if (low < 0 || y[at] < y[low]) low = at;
        if (high < 0 || y[at] > y[high]) high = at;
      }
      if (low < 0) places.push(from);
      else places.push(...(low === high ? [low] : low < high ? [low, high] : [high, low]));
    }
    return places;
  }

  // A speaker's words as the page carries them, with the seconds of their starts and ends, and of the latest end so far.
  function timed({ steps, lengths, interpolated, texts }) {
    let [at, last] = [0, -Infinity];
    const starts = Float64Array.from(steps, (step) => (at += step) / 100);
    const ends = starts.map((start, number) => start + lengths[number] / 100);
    return { starts, ends, reached: ends.map((end) => (last = Math.max(last, end))), interpolated, texts };
  }

  // Round seconds for the ticks of an axis, as many as plotly has.
  function ticks(start, stop, width) {
    const rough = (stop - start) / (Math.min(Math.max(width / 80, 4), 9) + 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    const all = [];
    for (let number = Math.ceil(start / step); number * step <= stop; number++) all.push(Number((number * step).toFixed(6)));
    return all;
  }

  // --- drawing what plotly has drawn, elsewhere in time ---

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const plain = (text) => text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&#123;/g, "{").replace(/&amp;/g, "&");

  // A strip as a picture with a pixel for each cell, its first row on top as on the screen.
  function picture(trace, upwards) {
    const [rows, columns] = [trace.z.length, trace.z[0].length];
    const shades = document.createElement("canvas").getContext("2d");
    const gradient = shades.createLinearGradient(0, 0, SHADES, 0);
    for (const [place, colour] of trace.colorscale) gradient.addColorStop(place, colour);
    shades.fillStyle = gradient;
    shades.fillRect(0, 0, SHADES, 1);
    const scale = shades.getImageData(0, 0, SHADES, 1).data;
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [columns, rows];
    const image = new ImageData(columns, rows);
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const value = trace.z[row][column];
        if (value === null || Number.isNaN(value)) continue;
        const share = Math.min(Math.max((value - trace.zmin) / (trace.zmax - trace.zmin), 0), 1);
        const shade = 4 * Math.round(share * (SHADES - 1));
        image.data.set(scale.subarray(shade, shade + 4), 4 * ((upwards ? rows - 1 - row : row) * columns + column));
      }
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }

  function drawLine(context, trace, axis, [start, stop], toX, width) {
    const { x, y } = trace;
    const places = ArrayBuffer.isView(x) ? visible(x, y, start, stop, width / COLUMN_PX) : Array.from(x, (_, at) => at);
    let open = false;
    context.beginPath();
    for (const at of places) {
      if (y[at] === null || Number.isNaN(y[at])) open = false;
      else {
        context[open ? "lineTo" : "moveTo"](toX(x[at]), axis.d2p(y[at]));
        open = true;
      }
    }
    context.strokeStyle = trace.line.color;
    context.lineWidth = 1; // a wider one takes four times as long
    context.setLineDash(DASHES[trace.line.dash] || []);
    context.stroke();
    if (!trace.mode.includes("markers")) return; // as of a label of one moment, whose line has no length
    context.fillStyle = trace.line.color;
    for (const at of places) if (y[at] !== null && !Number.isNaN(y[at])) context.fillRect(toX(x[at]) - 2, axis.d2p(y[at]) - 2, 4, 4);
  }

  function drawBars(context, trace, axis, [start, stop], toX) {
    const height = (trace.width || 0.8) * Math.abs(axis.l2p(1) - axis.l2p(0));
    for (let at = 0; at < trace.x.length; at++) {
      const [from, to] = [trace.base[at], trace.base[at] + trace.x[at]];
      if (to < start || from > stop) continue;
      const [left, right] = [Math.max(toX(from), 0), toX(to)];
      const middle = axis.d2p(trace.y[at]);
      context.fillStyle = Array.isArray(trace.marker.color) ? trace.marker.color[at] : trace.marker.color;
      context.fillRect(left, middle - height / 2, Math.max(right - left, 1), height);
      if (trace.textposition !== "inside" || !trace.text) continue;
      const text = plain(trace.text[at]);
      if (context.measureText(text).width > right - left - 6) continue;
      context.fillStyle = trace.textfont.color[at];
      context.fillText(text, (left + right) / 2, middle);
    }
    if (trace.meta && trace.meta.words) drawWords(context, trace, axis, [start, stop], toX);
  }

  // What a speaker says word by word, outlined where times are interpolated, on the bars of the utterances, where words are wide enough.
  function drawWords(context, { meta, y }, axis, [start, stop], toX) {
    const { starts, ends, reached, interpolated, texts } = meta.words;
    const end = placeOf(starts, stop);
    if ((end - placeOf(starts, start)) * WORD_PX > toX(stop) - toX(start)) return;
    const [middle, height] = [axis.d2p(y[0]), 0.8 * Math.abs(axis.l2p(1) - axis.l2p(0)) - 4];
    context.strokeStyle = "#ffffff";
    for (let at = placeOf(reached, start); at < end; at++) {
      if (ends[at] < start) continue; // one that began before it is still spoken
      const [left, width] = [toX(starts[at]) + 1, toX(ends[at]) - toX(starts[at]) - 2];
      context.fillStyle = "rgba(0, 0, 0, 0.35)"; // or white has too little contrast
      context.fillRect(left, middle - height / 2, Math.max(width, 1), height);
      if (interpolated[at]) context.strokeRect(left, middle - height / 2, Math.max(width, 1), height);
      context.fillStyle = "#ffffff";
      if (SQUEEZED * context.measureText(texts[at]).width <= width - 4) context.fillText(texts[at], left + width / 2, middle, width - 4);
    }
  }

  function drawStrip(context, trace, axis, [start, stop], toX, width) {
    const [rows, columns] = [trace.z.length, trace.z[0].length];
    const edges = trace.y.length > rows ? [axis.d2p(trace.y[0]), axis.d2p(trace.y[rows])] : [axis.l2p(-0.5), axis.l2p(rows - 0.5)];
    const [top, bottom] = edges.slice().sort((a, b) => a - b);
    trace.drawn = trace.drawn || picture(trace, edges[0] > edges[1]);
    // A cell of a single row has its time in the middle, a larger one lies between two edges.
    const edge = (at) => (trace.x.length > columns ? trace.x[at]
      : at === 0 ? trace.x[0] : at === columns ? trace.x[columns - 1] : (trace.x[at - 1] + trace.x[at]) / 2);
    const cells = (from, to) => {
      const left = toX(edge(from));
      context.drawImage(trace.drawn, from, 0, to - from, rows, left, top, toX(edge(to)) - left, bottom - top);
    };
    const first = Math.max(placeOf(trace.x, start) - 1, 0);
    const end = Math.min(placeOf(trace.x, stop) + 1, columns);
    // Where cells are wide, each at its own times; else in blocks, in which a cell is less than a pixel from its place.
    const each = end - first > width / 8 ? 32 : 1;
    for (let at = first; at < end; at += each) cells(at, Math.min(at + each, end));
  }

  const DRAW = { scatter: drawLine, bar: drawBars, heatmap: drawStrip };

  // Everything of the figure that is in sight, from one second to another.
  function draw(holder, canvas, [start, stop]) {
    const { _fullLayout: layout, _fullData: traces } = holder;
    const { _offset: left, _length: width } = layout.xaxis;
    const box = holder.getBoundingClientRect();
    const top = Math.max(0, -box.top);
    const height = Math.max(Math.min(box.height, innerHeight - box.top) - top, 1);
    if (canvas.width !== Math.ceil(width) || canvas.height !== Math.ceil(height)) [canvas.width, canvas.height] = [Math.ceil(width), Math.ceil(height)];
    Object.assign(canvas.style, { left: `${left}px`, top: `${top}px` });
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    const toX = (second) => ((second - start) / (stop - start)) * width;
    const [paper, grid, ink] = ["--paper", "--grid", "--ink"].map(css);
    const at = ticks(start, stop, width);
    const below = layout._size.t + layout._size.h - top;
    Object.assign(context, { imageSmoothingEnabled: false, textAlign: "center", textBaseline: "middle", font: `12px ${layout.font.family}` });
    context.fillStyle = paper;
    context.fillRect(0, below + 1, width, 20);
    context.fillStyle = ink;
    for (const second of at) context.fillText(String(second), toX(second), below + 12);
    for (const name of Object.keys(layout).filter((key) => /^yaxis\d*$/.test(key))) {
      const axis = layout[name];
      const from = axis._offset - top;
      if (from > height || from + axis._length < 0) continue;
      context.save();
      context.translate(0, from);
      context.beginPath();
      context.rect(0, 0, width, axis._length);
      context.clip();
      context.fillStyle = paper;
      context.fillRect(0, 0, width, axis._length);
      context.fillStyle = grid;
      for (const second of at) context.fillRect(Math.round(toX(second)), 0, 1, axis._length);
      if (axis.showgrid) for (const { x: value } of axis._vals) context.fillRect(0, Math.round(axis.l2p(value)), width, 1);
      for (const shape of layout.shapes) {
        context.globalAlpha = shape.opacity;
        context.fillStyle = shape.fillcolor;
        context.fillRect(toX(shape.x0), 0, toX(shape.x1) - toX(shape.x0), axis._length);
        context.globalAlpha = 1;
      }
      for (const trace of traces) {
        if (trace.yaxis === axis._id) DRAW[trace.type](context, trace, axis, [start, stop], toX, width);
      }
      context.restore();
    }
  }

  // --- moving ---

  const moving = new WeakMap(); // by timeline: range, canvas, timer

  // What a timeline shows, also while it moves.
  function range(holder) {
    return moving.has(holder) ? moving.get(holder).range : holder.layout.xaxis.range.map(Number);
  }

  function overlay(holder, name) {
    const canvas = document.createElement("canvas");
    canvas.className = name;
    canvas.setAttribute("aria-hidden", "true");
    return holder.appendChild(canvas);
  }

  // The words of a timeline at rest, over plotly's bars.
  function words(holder) {
    const spoken = holder._fullData.filter((trace) => trace.meta && trace.meta.words);
    if (!spoken.length) return;
    const canvas = overlay(holder, "words");
    const show = () => {
      const { _fullLayout: layout } = holder;
      const axis = layout[spoken[0].yaxis.replace("y", "yaxis")];
      const [start, stop] = range(holder);
      const [width, height] = [layout.xaxis._length, axis._length];
      [canvas.width, canvas.height] = [width * devicePixelRatio, height * devicePixelRatio];
      Object.assign(canvas.style, { left: `${layout.xaxis._offset}px`, top: `${axis._offset}px`, width: `${width}px`, height: `${height}px` });
      const context = canvas.getContext("2d");
      context.scale(devicePixelRatio, devicePixelRatio);
      Object.assign(context, { textAlign: "center", textBaseline: "middle", font: `12px ${layout.font.family}` });
      for (const trace of spoken) drawWords(context, trace, axis, [start, stop], (second) => ((second - start) / (stop - start)) * width);
    };
    holder.on("plotly_afterplot", show);
    show();
  }

  const whole = (holder) => holder.layout.meta.range;

  function jump(holder, start, stop) {
    return Plotly.relayout(holder, { "xaxis.range": within(whole(holder), start, stop), "xaxis.autorange": false });
  }

  // One step of a movement. The event "storyframes-moved" says so to others who draw on the timeline.
  function move(holder, start, stop) {
    let state = moving.get(holder);
    if (!state) {
      state = { canvas: overlay(holder, "moving") };
      moving.set(holder, state);
    }
    state.range = within(whole(holder), start, stop);
    state.asked ??= requestAnimationFrame(() => {
      state.asked = null;
      draw(holder, state.canvas, state.range);
      holder.dispatchEvent(new Event("storyframes-moved"));
    });
    clearTimeout(state.timer);
    state.timer = setTimeout(() => rest(holder), REST_MS);
  }

  async function rest(holder) {
    const state = moving.get(holder);
    if (state.held) return;
    const shown = state.range;
    await jump(holder, ...shown);
    if (state.range !== shown) return; // it moves again
    cancelAnimationFrame(state.asked);
    state.canvas.remove();
    moving.delete(holder);
  }

  function act(holder, action) {
    const [start, stop] = range(holder);
    const [width, centre] = [stop - start, (start + stop) / 2];
    switch (action) {
      case "in": return move(holder, centre - width / 4, centre + width / 4);
      case "out": return move(holder, centre - width, centre + width);
      case "left": return move(holder, start - width / 4, stop - width / 4);
      case "right": return move(holder, start + width / 4, stop + width / 4);
      case "all": return move(holder, ...whole(holder));
    }
  }

  // A wheel that is turned sideways (or with shift) moves, one with Ctrl zooms where the pointer is.
  function turn(holder, event) {
    const { _offset: left, _length: length } = holder._fullLayout.xaxis;
    const [start, stop] = range(holder);
    const second = (stop - start) / length; // of a pixel
    const aside = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
    if (event.ctrlKey) {
      const at = start + (event.clientX - holder.getBoundingClientRect().left - left) * second;
      const factor = Math.exp(Math.min(Math.max(event.deltaY, -200), 200) / 300);
      move(holder, at + (start - at) * factor, at + (stop - at) * factor);
    } else if (Math.abs(aside) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
      move(holder, start + aside * second, stop + aside * second);
    } else return;
    event.preventDefault();
  }

  // A finger, or a mouse with shift, takes the timeline along; up and down a finger scrolls the page.
  function drag(holder, down) {
    if (!down.isPrimary || !(down.shiftKey || down.pointerType === "touch")) return;
    const [start, stop] = range(holder);
    const second = (stop - start) / holder._fullLayout.xaxis._length;
    const follow = (event) => {
      const by = (down.clientX - event.clientX) * second;
      if (!moving.has(holder) && Math.abs(down.clientX - event.clientX) < 4) return; // a click or a tap
      move(holder, start + by, stop + by);
      moving.get(holder).held = true;
    };
    const end = () => {
      for (const name of ["pointerup", "pointercancel"]) document.removeEventListener(name, end, true);
      document.removeEventListener("pointermove", follow, true);
      const state = moving.get(holder);
      if (!state) return;
      state.held = false;
      move(holder, ...state.range);
    };
    document.addEventListener("pointermove", follow, true);
    for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, end, true);
  }

  function listen(holder) {
    words(holder);
    const controls = holder.parentElement.querySelector(".controls");
    controls.hidden = false;
    controls.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) act(holder, button.dataset.action);
    });
    holder.addEventListener("keydown", (event) => {
      if (!KEYS[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      act(holder, KEYS[event.key]);
    });
    holder.addEventListener("wheel", (event) => turn(holder, event), { passive: false });
    holder.addEventListener("pointerdown", (event) => drag(holder, event), true);
    holder.addEventListener("mousedown", (event) => { if (event.shiftKey) event.stopPropagation(); }, true); // not plotly's
  }

  return { within, placeOf, visible, timed, ticks, drawLine, drawWords, range, jump, move, listen };
})();
if (typeof module !== "undefined") module.exports = storyframesTimeline;
