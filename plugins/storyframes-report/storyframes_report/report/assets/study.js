// The study page's map of all sessions, drawn on a canvas, and its table, of which only the rows in sight are in the page.
"use strict";
const storyframesStudy = (function () {
  const STATES = {
    d: ["✓", "done", "done"], o: ["↻", "stale", "stale"], s: ["○", "no input", "no-input"], f: ["✗", "failed", "failed"],
    a: ["…", "not extracted", "not-extracted"], n: ["–", "not asked for", "not-asked-for"],
  };
  const ROW = 32; // CSS pixels, as in report.css

  // --- what is shown, in which order: plain functions ---

  function columnsOf(data) {
    const sum = (counts) => Object.values(counts).reduce((total, count) => total + count, 0);
    const findings = data.findings.map(sum);
    const several = new Set(data.features.map((feature) => feature.track)).size > 1;
    return [
      { name: "session", values: data.sessions },
      { name: "participant", values: data.participants },
      ...data.features.map((feature) => ({
        name: several ? `${feature.name} (${feature.track})` : feature.name, feature,
        values: Array.from(feature.states, (state, row) => (state === "n" || state === "s" ? null : state === "d" || state === "o" ? feature.measured[row] ?? 1000 : -1)),
      })),
      { name: "findings", values: findings, text: (row) => findings[row] || "" },
      { name: "length", values: data.seconds, text: (row) => (data.seconds[row] ? clock(data.seconds[row]) : "") },
      { name: "clips", values: data.clips, text: (row) => data.clips[row] || "" },
      { name: "why it gives no clips", values: data.obstacles, wide: true },
    ];
  }

  function clock(seconds) {
    return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
  }

  function cellText(data, feature, row) {
    const [, name] = STATES[feature.states[row]];
    const note = data.notes[feature.notes[row]];
    const track = feature.track === "main" ? "" : `@${feature.track}`;
    return `${feature.name}${track} ${name}${note ? ": " + note : ""}`;
  }

  function rowText(data, row) {
    const findings = Object.entries(data.findings[row]).map(([rule, count]) => `${rule} ${count}`);
    const features = data.features.map((feature) => cellText(data, feature, row));
    return [data.sessions[row], data.participants[row], data.obstacles[row], ...findings, ...features].join("\n").toLowerCase();
  }

  function matching(data, query) {
    const asked = query.trim().toLowerCase();
    const rows = data.sessions.map((_, row) => row);
    return asked ? rows.filter((row) => rowText(data, row).includes(asked)) : rows;
  }

  // Of rows without the stories, which have features and are no session.
  function countOf(data, rows) {
    const isSession = (row) => data.pages[row];
    return `${rows.filter(isSession).length} of ${data.sessions.filter((_, row) => isSession(row)).length}`;
  }

  // Rows in the order of a column's values; those without one are last, whichever way it is sorted.
  function sorted(rows, values, descending) {
    const order = typeof values.find((value) => value !== null) === "string"
      ? (a, b) => values[a].localeCompare(values[b], undefined, { numeric: true }) : (a, b) => values[a] - values[b];
    const known = rows.filter((row) => values[row] !== null && values[row] !== "");
    known.sort((a, b) => (descending ? order(b, a) : order(a, b)) || a - b);
    return known.concat(rows.filter((row) => values[row] === null || values[row] === ""));
  }

  // The first row that has to be in the page, and the one after the last.
  function inSight(scrolled, height, count) {
    const first = Math.max(0, Math.min(Math.floor(scrolled / ROW) - 8, count - 1));
    return [first, Math.min(count, Math.ceil((scrolled + height) / ROW) + 8)];
  }

  // --- the page ---

  function make(name, attributes = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }

  class Table {
    constructor(data) {
      [this.data, this.columns, this.by, this.descending, this.current] = [data, columnsOf(data), null, false, -1];
      this.scroller = document.getElementById("table");
      this.table = this.scroller.querySelector("table");
      this.body = this.table.tBodies[0];
      this.filter = document.getElementById("table-filter");
      this.printed = false;
      this.head();
      this.filter.addEventListener("input", () => this.update());
      this.scroller.addEventListener("scroll", () => this.render(), { passive: true });
      this.scroller.addEventListener("keydown", (event) => this.press(event));
      new ResizeObserver(() => this.render()).observe(this.scroller);
      document.getElementById("table-controls").hidden = false;
      this.update();
    }

    head() {
      const widths = this.columns.map((one, at) => make("col", { style: `width: ${at === 0 ? "min(13rem, 34vw)" : one.wide ? "16rem" : one.feature ? "8.5rem" : "7rem"}` }));
      this.table.prepend(make("colgroup", {}, ...widths));
      this.table.style.setProperty("--width", `calc(${widths.map((one) => one.style.width).join(" + ")})`);
      this.heads = this.columns.map((one) => {
        const button = make("button", { type: "button" }, one.name);
        button.addEventListener("click", () => {
          this.descending = this.by === one ? !this.descending : false;
          this.by = one;
          this.update();
        });
        return make("th", { scope: "col" }, button);
      });
      this.table.tHead.replaceChildren(make("tr", {}, ...this.heads));
    }

    update() {
      const rows = matching(this.data, this.filter.value);
      this.rows = this.by ? sorted(rows, this.by.values, this.descending) : rows;
      this.current = -1;
      this.heads.forEach((head, at) => {
        if (this.columns[at] === this.by) head.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
      document.getElementById("table-count").textContent = countOf(this.data, rows);
      this.table.setAttribute("aria-rowcount", this.rows.length + 1);
      this.render(true);
    }

    render(anew = false) {
      const count = this.rows.length;
      const [first, stop] = this.printed ? [0, count] : inSight(this.scroller.scrollTop, this.scroller.clientHeight, count);
      if (!anew && first === this.first && stop === this.stop) return;
      const focused = this.body.contains(document.activeElement);
      [this.first, this.stop] = [first, stop];
      const gap = (rows) => make("tr", { class: "gap", "aria-hidden": "true" }, make("td", { colspan: this.columns.length, style: `height: ${rows * ROW}px` }));
      const shown = this.rows.slice(first, stop).map((row, at) => this.row(row, first + at));
      this.body.replaceChildren(...(first ? [gap(first)] : []), ...shown, ...(stop < count ? [gap(count - stop)] : []));
      if (focused) (this.body.querySelector("tr[aria-current] a") || this.scroller).focus({ preventScroll: true });
    }

    row(row, place) {
      const { data } = this;
      const cells = this.columns.slice(1).map((one) => {
        if (!one.feature) return make("td", { title: one.wide ? one.values[row] : undefined, class: one.wide ? "text" : undefined }, String(one.text ? one.text(row) : one.values[row]));
        const [sign, name, style] = STATES[one.feature.states[row]];
        const share = one.feature.measured[row];
        const text = name === "done" || name === "stale" ? (share === null ? name : `${(share / 10).toFixed(1)} %`) : name;
        return make("td", { class: share === null ? style : `share ${style}`, title: cellText(data, one.feature, row), style: share === null ? undefined : `--share: ${share / 10}%` }, `${sign} ${text}`);
      });
      const id = data.sessions[row];
      const name = data.pages[row] ? make("a", { href: `sessions/${encodeURIComponent(id)}.html` }, id) : id;
      return make("tr", { "aria-rowindex": place + 2, "aria-current": place === this.current ? "true" : undefined }, make("th", { scope: "row", title: id }, name), ...cells);
    }

    choose(place) {
      this.current = Math.max(0, Math.min(place, this.rows.length - 1));
      const [top, height] = [this.current * ROW, this.scroller.clientHeight - 2 * ROW];
      if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
      else if (top > this.scroller.scrollTop + height - ROW) this.scroller.scrollTop = top - height + ROW;
      this.render(true);
      (this.body.querySelector("tr[aria-current] a") || this.scroller).focus({ preventScroll: true });
    }

    press(event) {
      if (event.target.closest("thead") || event.ctrlKey || event.altKey || event.metaKey) return;
      const page = Math.floor(this.scroller.clientHeight / ROW) - 1;
      const last = this.rows.length - 1;
      const to = { ArrowDown: this.current + 1, ArrowUp: this.current - 1, PageDown: this.current + page, PageUp: this.current - page, Home: 0, End: last }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      this.choose(to);
    }

    show(query) {
      this.filter.value = query;
      this.scroller.scrollTop = 0;
      this.update();
      this.filter.scrollIntoView({ block: "start" });
    }
  }

  // A column of pixels for each session (more than one where there is room), a row for each feature.
  function drawMap(data) {
    const figure = document.getElementById("map");
    const canvas = figure.querySelector("canvas");
    const style = getComputedStyle(document.documentElement);
    const [paper, grey] = [style.getPropertyValue("--paper"), style.getPropertyValue("--line")];
    figure.hidden = false;
    figure.querySelector(".names").replaceChildren(...data.features.map((one) => make("div", {}, one.track === "main" ? one.name : `${one.name} (${one.track})`)));
    const height = 16 * data.features.length;
    canvas.width = data.sessions.length;
    canvas.height = height;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    data.features.forEach((feature, at) => {
      for (let row = 0; row < data.sessions.length; row++) {
        const state = feature.states[row];
        const there = state === "d" || state === "o";
        context.fillStyle = there ? paper : { n: grey, s: "#8f8f8f" }[state] || "#d55e00";
        context.fillRect(row, 16 * at, 1, 15);
        if (!there) continue;
        context.globalAlpha = (feature.measured[row] ?? 1000) / 1000;
        context.fillStyle = "#1f78b4";
        context.fillRect(row, 16 * at, 1, 15);
        context.globalAlpha = 1;
      }
    });
    return canvas;
  }

  async function start() {
    const { deflated } = JSON.parse(document.getElementById("sessions").textContent);
    const bytes = Uint8Array.from(atob(deflated), (character) => character.charCodeAt(0));
    const data = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
    const table = new Table(data);
    const canvas = drawMap(data);
    const at = (event) => Math.min(data.sessions.length - 1, Math.floor((event.offsetX / canvas.clientWidth) * data.sessions.length));
    canvas.addEventListener("mousemove", (event) => {
      const feature = data.features[Math.min(data.features.length - 1, Math.floor(event.offsetY / 16))];
      canvas.title = `${data.sessions[at(event)]}: ${cellText(data, feature, at(event))}`;
    });
    canvas.addEventListener("click", (event) => {
      table.show("");
      table.choose(table.rows.indexOf(at(event)));
    });
    function toHash() {
      if (location.hash.startsWith("#show=")) table.show(decodeURIComponent(location.hash.slice(6)));
    }
    toHash();
    window.addEventListener("hashchange", toHash);
    const print = (printed) => {
      if (printed === table.printed) return;
      table.printed = printed;
      table.render(true);
      drawMap(data);
    };
    window.matchMedia("print").addEventListener("change", (event) => print(event.matches));
    window.addEventListener("beforeprint", () => print(true));
    window.addEventListener("afterprint", () => print(false));
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawMap(data));
    document.documentElement.dataset.listed = String(data.sessions.length);
  }

  return { columnsOf, matching, countOf, sorted, inSight, cellText, start };
})();
if (typeof module === "undefined") storyframesStudy.started = storyframesStudy.start();
else module.exports = storyframesStudy;
