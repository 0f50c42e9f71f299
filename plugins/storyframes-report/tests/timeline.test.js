// The parts, points and ticks of a timeline that moves: node --test tests/inspect/timeline.test.js
"use strict";
const assert = require("node:assert/strict");
const test = require("node:test");
const { within, placeOf, visible, timed, ticks, drawLine, drawWords } = require("../storyframes_report/report/assets/timeline.js");

test("what is shown stays within the whole, is never shorter than 0.2 s, and keeps its width at both ends", () => {
  assert.deepEqual(within([0, 100], -5, 20), [0, 25]);
  assert.deepEqual(within([0, 100], 90, 110), [80, 100]);
  assert.deepEqual(within([0, 100], -50, 400), [0, 100]);
  assert.deepEqual(within([2, 100], 50, 50), [50, 50.2]);
});

test("a place is the first at or after a second", () => {
  const times = Float64Array.of(0, 1, 1, 2);
  assert.deepEqual([-1, 0, 0.5, 1, 2, 3].map((second) => placeOf(times, second)), [0, 0, 1, 1, 3, 4]);
});

test("few points are all drawn, with one on each side of what is shown", () => {
  const x = Float64Array.from({ length: 100 }, (_, at) => at);
  assert.deepEqual(visible(x, x, 10.5, 12.5, 10), [10, 11, 12, 13]);
  assert.deepEqual(visible(x, x, -5, 1.5, 10), [0, 1, 2]);
  assert.deepEqual(visible(x, x, 97.5, 300, 10), [97, 98, 99]);
});

test("of many points the lowest and the highest of each column are drawn in their order, and no peak is lost", () => {
  const x = Float64Array.from({ length: 3000 }, (_, at) => at);
  const y = x.map((at) => Math.sin(at / 40));
  [y[1234], y[1235]] = [50, -50];
  const places = visible(x, y, 0, 3000, 100);
  assert.ok(places.length <= 200);
  assert.ok(places.every((place, at) => at === 0 || place > places[at - 1]));
  assert.ok(places.includes(1234) && places.includes(1235));
});

test("a column without a value is a gap, and one with a single value is one point", () => {
  const x = Float64Array.from({ length: 400 }, (_, at) => at);
  const y = x.map((at) => (at < 200 ? at : NaN));
  y[399] = 1;
  const places = visible(x, y, 0, 400, 4);
  assert.deepEqual(places.map((at) => y[at]), [0, 99, 100, 199, NaN, 1]);
});

test("a label of one moment is drawn while the timeline moves, and a gap is not", () => {
  const drawn = [];
  const context = { fillRect: (...square) => drawn.push(square), beginPath() {}, moveTo() {}, lineTo() {}, setLineDash() {}, stroke() {} };
  const trace = { x: [1, 1, null, 4, 5, null], y: [7, 7, null, 2, 2, null], mode: "lines+markers", line: { color: "red", dash: "solid" } };
  drawLine(context, trace, { d2p: (value) => 10 * value }, [0, 10], (second) => 100 * second, 1000);
  assert.deepEqual(drawn, [[98, 68, 4, 4], [98, 68, 4, 4], [398, 18, 4, 4], [498, 18, 4, 4]]);
  drawLine(context, { ...trace, mode: "lines" }, { d2p: (value) => value }, [0, 10], (second) => second, 1000);
  assert.equal(drawn.length, 4);
});

// What is drawn of words between two seconds on 1000 pixels: boxes, outlines and texts; a letter is 10 pixels wide.
function words(trace, from, to) {
  const drawn = [];
  const note = (kind) => (...of) => drawn.push([kind, ...of]);
  const context = { fillRect: note("box"), strokeRect: note("outline"), fillText: note("text"), measureText: (text) => ({ width: 10 * text.length }) };
  drawWords(context, trace, { d2p: () => 50, l2p: (row) => 30 * row }, [from, to], (second) => (1000 * (second - from)) / (to - from));
  return drawn;
}

test("a word is a box at its times, outlined where they are interpolated, and is read where there is room", () => {
  const spoken = timed({ steps: [100, 50, 50], lengths: [40, 50, 10], interpolated: [0, 1, 0], texts: ["well", "then", "nevertheless"] });
  assert.deepEqual(words({ y: ["A"], meta: { words: spoken } }, 0, 10), [
    ["box", 101, 40, 38, 20], ["text", "well", 120, 50, 34],
    ["box", 151, 40, 48, 20], ["outline", 151, 40, 48, 20], ["text", "then", 175, 50, 44],
    ["box", 201, 40, 8, 20],
  ]);
  assert.deepEqual(words({ y: ["A"], meta: { words: spoken } }, 1.35, 1.85).map(([kind]) => kind), ["box", "text", "box", "outline", "text"]); // from the one before on
  assert.deepEqual(words({ y: ["A"], meta: { words: spoken } }, 1.45, 1.95).map(([kind]) => kind), ["box", "outline", "text"]); // which is over
});

test("of many words only those in sight are drawn, and none while they are narrow", () => {
  const many = (value) => Array(15000).fill(value);
  const spoken = timed({ steps: many(40), lengths: many(30), interpolated: many(0), texts: many("") });
  const trace = { y: ["A"], meta: { words: spoken } };
  assert.equal(words(trace, 0, 6000).length, 0);
  assert.equal(words(trace, 0, 30).length, 0);
  assert.deepEqual(words(trace, 4000, 4002).filter(([kind]) => kind === "box").map(([, left]) => Math.round(left)), [1, 201, 401, 601, 801]);
});

test("a word that is still spoken is drawn, however many began after it and are over", () => {
  const spoken = timed({ steps: [0, 100, 100, 100], lengths: [900, 10, 10, 10], interpolated: [0, 0, 0, 0], texts: ["long", "a", "b", "c"] });
  const boxes = (from, to) => words({ y: ["A"], meta: { words: spoken } }, from, to).filter(([kind]) => kind === "box").map(([, left]) => Math.round(left));
  assert.deepEqual(boxes(2.5, 3.5), [-2499, 501]);
  assert.deepEqual(boxes(5, 6), [-4999]);
  assert.deepEqual(boxes(9.5, 10), []);
});

test("ticks are round seconds within the range", () => {
  assert.deepEqual(ticks(720, 1440, 1000), [800, 900, 1000, 1100, 1200, 1300, 1400]);
  assert.deepEqual(ticks(0.05, 0.25, 320), [0.05, 0.1, 0.15, 0.2, 0.25]);
  for (const [start, stop] of [[0, 7200], [3, 3.2], [-0.3, 12]]) {
    const all = ticks(start, stop, 800);
    assert.ok(all.length >= 4 && all.length <= 11);
    assert.ok(all[0] >= start && all.at(-1) <= stop);
  }
});
