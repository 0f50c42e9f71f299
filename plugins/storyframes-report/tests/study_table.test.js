// The order, the filter and the window of the study page's table: node --test tests/inspect/study_table.test.js
"use strict";
const assert = require("node:assert/strict");
const test = require("node:test");
const { columnsOf, matching, countOf, sorted, inSight } = require("../storyframes_report/report/assets/study.js");

const data = {
  sessions: ["p1-s1", "p1-s2", "p2-s10", "p2-s9"],
  pages: [1, 1, 1, 1],
  participants: ["p1", "p1", "p2", "p2"],
  obstacles: ["", "the video is damaged", "", ""],
  clips: [5, 0, 7, 2],
  seconds: [61, 0, 3599.9, 30],
  findings: [{}, { "face lost": 2, silence: 1 }, {}, { silence: 1 }],
  notes: ["", "360 rows", "no CSV"],
  features: [
    { name: "openface", track: "main", states: "dfdo", measured: [990, null, 125, null], notes: [1, 2, 1, 1] },
    { name: "openface", track: "side", states: "nnsd", measured: [null, null, null, 500], notes: [0, 0, 2, 1] },
  ],
};
const column = (name) => columnsOf(data).find((one) => one.name === name);
const all = [0, 1, 2, 3];

test("ids are sorted as people count, in both directions", () => {
  assert.deepEqual(sorted(all, column("session").values, false), [0, 1, 3, 2]);
  assert.deepEqual(sorted(all, column("session").values, true), [2, 3, 1, 0]);
});

test("of a feature what is missing comes first, and what was not asked for or has no input last, whichever way", () => {
  const { values } = column("openface (main)");
  assert.deepEqual(values, [990, -1, 125, 1000]); // of the last the share was not recorded
  assert.deepEqual(sorted(all, values, false), [1, 2, 0, 3]);
  const side = column("openface (side)").values;
  assert.deepEqual(sorted(all, side, false), [3, 0, 1, 2]);
  assert.deepEqual(sorted(all, side, true), [3, 0, 1, 2]);
});

test("equal values keep their order, and rows that are filtered out stay out", () => {
  assert.deepEqual(sorted([3, 1, 0], column("participant").values, false), [0, 1, 3]);
  assert.deepEqual(sorted([0, 1], column("why it gives no clips").values, true), [1, 0]);
});

test("a filter finds ids, participants, states with reasons, findings and obstacles", () => {
  assert.deepEqual(matching(data, ""), all);
  assert.deepEqual(matching(data, " P2-S "), [2, 3]);
  assert.deepEqual(matching(data, "openface failed: no CSV"), [1]);
  assert.deepEqual(matching(data, "openface@side no input"), [2]);
  assert.deepEqual(matching(data, "silence"), [1, 3]);
  assert.deepEqual(matching(data, "damaged"), [1]);
  assert.deepEqual(matching(data, "nowhere"), []);
});

test("stories are a row of the table and no session", () => {
  const withStories = { pages: [1, 1, 0], sessions: ["p1-s1", "p1-s2", "stories"] };
  assert.equal(countOf(withStories, [0, 1, 2]), "2 of 2");
  assert.equal(countOf(withStories, [1, 2]), "1 of 2");
});

test("findings are counted, lengths are minutes and seconds, and nothing stands for none", () => {
  assert.deepEqual(column("findings").values, [0, 3, 0, 1]);
  assert.deepEqual(all.map(column("length").text), ["1:01", "", "59:59", "0:30"]);
  assert.deepEqual(all.map(column("clips").text), [5, "", 7, 2]);
});

test("only rows in sight and a few around them are in the page, and every row can come into sight", () => {
  const [count, height] = [2000, 544];
  const seen = new Set();
  for (let scrolled = 0; scrolled <= count * 32 - height; scrolled += 300) {
    const [first, stop] = inSight(scrolled, height, count);
    assert.ok(first <= scrolled / 32 && stop >= Math.min(count, (scrolled + height) / 32));
    assert.ok(stop - first <= 40);
    for (let row = first; row < stop; row++) seen.add(row);
  }
  for (let row = count - 20; row < count; row++) seen.add(inSight(count * 32 - height, height, count)[1] > row ? row : -1);
  assert.equal(seen.size, count);
  assert.deepEqual(inSight(0, 544, 3), [0, 3]);
  assert.deepEqual(inSight(5000, 544, 1), [0, 1]);
  assert.deepEqual(inSight(0, 544, 0), [0, 0]);
});
