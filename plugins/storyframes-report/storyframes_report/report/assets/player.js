// Plays a recording of the reader's own disk beside the timelines: one cursor for all, on the session's clock.
//
// Nothing of a recording is in the page. Times: the recording's own seconds count from its first frame (or sample), as
// those of the features do; each track has its clock, and the session's seconds connect them.
"use strict";
(function () {
  const SECOND = 10000; // the page's times are whole numbers of 0.1 ms
  const CLICK_PX = 4; // a pointer that moves further drags
  const DIFFERENT_S = 1; // a recording whose length differs by more is probably another one
  const LATE_S = 0.08; // a sound that is further from the picture is moved to it
  const PROXY = "'storyframes report … --proxy FOLDER' writes recordings that every browser plays, and links them.";

  // --- times ---

  const unpack = window.storyframesUnpack; // of report.js

  async function frameTimes(text) {
    let at = 0;
    return Float64Array.from(await unpack(text, Int32Array), (step) => (at += step) / SECOND);
  }

  // The number of the frame that is shown at a second: the last one that has begun; -1 before the first. A frame's time
  // is rounded here, and in the browser to a microsecond: the two differ by less than a step.
  function frameAt(times, second) {
    let [low, high] = [0, times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] <= second + 1 / SECOND) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  // A second in the middle of a frame, so that no rounding shows a neighbour.
  function middleOf(times, frame) {
    const next = frame + 1 < times.length ? times[frame + 1] : 2 * times[frame] - (times[frame - 1] || 0);
    return (times[frame] + next) / 2;
  }

  // Along the straight pieces between moments; the outer ones continue.
  function along(second, from, to) {
    if (from.length === 1) return second - from[0] + to[0];
    let piece = 0;
    while (piece < from.length - 2 && second > from[piece + 1]) piece += 1;
    const slope = (to[piece + 1] - to[piece]) / (from[piece + 1] - from[piece]);
    return to[piece] + (second - from[piece]) * slope;
  }

  const toSession = (track, second) => along(second, track.clock_s, track.session_s);
  const toDevice = (track, second) => along(second, track.session_s, track.clock_s);

  function clockTime(second) {
    const minutes = Math.floor(Math.max(second, 0) / 60);
    return minutes + ":" + (Math.max(second, 0) - 60 * minutes).toFixed(2).padStart(5, "0");
  }

  // --- the cursor on a timeline ---

  function cursorOn(holder) {
    const line = document.createElement("div");
    line.className = "cursor";
    line.hidden = true;
    holder.append(line);
    let second = 0;
    function place() {
      const { xaxis, _size: size } = holder._fullLayout;
      const [start, stop] = storyframesTimeline.range(holder);
      const x = ((second - start) / (stop - start)) * xaxis._length;
      line.hidden = x < 0 || x > xaxis._length;
      line.style.left = xaxis._offset + x + "px";
      line.style.top = size.t + "px";
      line.style.height = size.h + "px";
      line.dataset.second = second;
    }
    const follow = () => { if (line.dataset.second) place(); };
    holder.on("plotly_afterplot", follow);
    holder.addEventListener("storyframes-moved", follow);
    return (at) => { second = at; place(); };
  }

  // Called with the second that was clicked; a drag zooms, as before.
  function onClick(holder, act) {
    let down = null;
    holder.addEventListener("pointerdown", (event) => { down = [event.clientX, event.clientY]; }, true);
    document.addEventListener("pointerup", (event) => {
      if (!down) return;
      const moved = Math.hypot(event.clientX - down[0], event.clientY - down[1]);
      down = null;
      const { xaxis } = holder._fullLayout;
      const x = event.clientX - holder.getBoundingClientRect().left - xaxis._offset;
      if (moved <= CLICK_PX && x >= 0 && x <= xaxis._length) act(xaxis.p2l(x));
    }, true);
  }

  // --- the player ---

  class Player {
    constructor(tracks) {
      this.tracks = tracks;
      this.track = tracks.find((track) => track.playable);
      this.video = document.querySelector("#stage video");
      this.readout = document.getElementById("player-time");
      this.message = document.getElementById("player-message");
      this.loop = document.getElementById("player-loop");
      this.sound = new Audio(); // a file of its own beside the video; its second 0 is the first frame's
      this.withSound = document.querySelector("#player-sound input");
      this.sound.addEventListener("error", () => {
        if (this.sound.src) this.message.textContent += `This browser cannot play the sound file of ${this.name}. `;
      });
      for (const [on, event] of [[this.video, "pause"], [this.video, "volumechange"], [this.withSound, "change"]]) {
        on.addEventListener(event, () => this.hear());
      }
      this.zero = null; // when the first frame is shown, in the browser's seconds of this file; null until it was shown
      this.wanted = null; // the second to go to as soon as that is known
      this.loaded = false;
      this.shown = null; // the browser's second of the frame that is shown
      this.onShow = []; // called with (track, second of the track, frame)
      for (const track of tracks) {
        track.holder = document.getElementById(track.chart);
        if (!track.holder) continue;
        track.cursor = cursorOn(track.holder);
        onClick(track.holder, (second) => { if (this.loaded) this.seek(toDevice(this.track, toSession(track, second))); });
      }
      this.video.addEventListener("loadedmetadata", () => this.begin());
      this.video.addEventListener("error", () => this.refuse());
      this.video.addEventListener("ended", () => this.turnBack(true));
      for (const event of ["timeupdate", "seeked", "play"]) this.video.addEventListener(event, () => this.follow());
      const frame = (_, shown) => {
        this.video.requestVideoFrameCallback(frame);
        if (!this.video.readyState) return; // a frame of the file before
        this.shown = shown.mediaTime;
        if (this.zero === null) this.findZero();
        else this.show(this.shown - this.zero);
      };
      this.video.addEventListener("seeked", () => {
        if (this.zero === null) this.findZero();
        setTimeout(() => { // nothing else came: the frame that was refused is the first
          if (this.zero !== null) return;
          this.refused = Infinity;
          this.findZero();
        }, 1000);
      });
      this.video.requestVideoFrameCallback(frame);
    }

    // The first frame is second 0. Who plays or seeks with the browser's own controls before it was shown is sent back.
    findZero() {
      const { video } = this;
      if (video.seeking || this.shown === null || this.shown >= this.refused) return;
      if (video.currentTime > 0 && this.shown > 0) {
        this.refused = this.shown; // its report may come again after the way back
        this.wanted ??= video.currentTime;
        this.resume = !video.paused;
        video.pause();
        video.currentTime = 0;
        return;
      }
      this.zero = this.shown;
      this.show(0);
      if (this.wanted !== null) this.seek(this.wanted);
      if (this.resume) video.play();
      [this.wanted, this.resume] = [null, false];
    }

    open(address, name, sound) {
      [this.zero, this.shown, this.refused, this.wanted, this.resume] = [null, null, Infinity, null, false];
      this.loaded = false;
      this.name = name;
      this.message.textContent = "";
      this.video.src = address;
      if (sound) this.sound.src = sound;
      else this.sound.removeAttribute("src");
      this.sound.load();
      document.getElementById("player-sound").hidden = !sound;
      this.video.muted = Boolean(sound) && this.withSound.checked;
    }

    // The sound file follows the video; its reader hears either it or the video's own sound.
    hear() {
      const { sound, video } = this;
      if (!sound.src || this.zero === null) return;
      [sound.playbackRate, sound.volume, sound.muted] = [video.playbackRate, video.volume, !this.withSound.checked];
      if (sound.muted === video.muted) video.muted = !sound.muted;
      if (Math.abs(sound.currentTime - this.second) > LATE_S) sound.currentTime = this.second;
      if (video.paused || this.second >= sound.duration) sound.pause();
      else if (sound.paused) sound.play().catch(() => {}); // it was paused meanwhile
    }

    begin() {
      this.loaded = true;
      this.pictures = this.video.videoWidth > 0;
      if (!this.pictures) this.zero = 0;
      document.getElementById("stage").hidden = false;
      this.judge();
      if (!this.pictures) this.show(0);
    }

    // Whether the file can be the recording of the chosen track.
    judge() {
      const { video, track } = this;
      const length = video.duration;
      this.message.textContent = "";
      if (Number.isFinite(length) && Math.abs(length - track.end_s) > DIFFERENT_S) {
        this.message.textContent = `${this.name} has ${length.toFixed(1)} s, and the features end at ` +
          `${track.end_s.toFixed(1)} s: is it the recording of ${track.name}? `;
      }
      if (!this.pictures && track.times.length) {
        this.message.textContent += `This browser shows no picture of ${this.name} and plays only its sound: where ` +
          `there is a picture, its codec is unknown here, and the cursor may be early or late. ${PROXY}`;
      }
    }

    refuse() {
      this.loaded = false;
      this.message.textContent = `This browser cannot play ${this.name}` +
        `${/\.avi$/i.test(this.name) ? ": browsers play no AVI" : " (it is not there, or its codec is unknown here)"}. ${PROXY}`;
    }

    // Whenever the screen is drawn while it plays: a loop turns back before a frame beyond it calls, and a sound has no
    // frames that call, so its cursor follows the clock of the player.
    follow() {
      if (!this.loaded || this.zero === null) return;
      if (!this.pictures) this.show(this.video.currentTime);
      this.turnBack();
      if (this.video.paused || this.waiting) return;
      this.waiting = true;
      requestAnimationFrame(() => { this.waiting = false; this.follow(); });
    }

    show(second) {
      this.second = second;
      const session = toSession(this.track, second);
      for (const track of this.tracks) if (track.cursor) track.cursor(toDevice(track, session));
      const frame = this.track.times && this.track.times.length ? frameAt(this.track.times, second) : null;
      this.frame = frame;
      const own = this.track.chart === "timeline" ? "" : `, ${clockTime(session)} of the session`;
      this.readout.textContent = clockTime(second) + own + (frame === null ? "" : `, frame ${frame}`);
      for (const button of document.querySelectorAll(`button.span[data-chart="${this.track.chart}"]`)) {
        const here = Number(button.dataset.start) <= second && second < Number(button.dataset.stop);
        button.setAttribute("aria-current", String(here));
      }
      for (const call of this.onShow) call(this.track, second, frame);
      this.hear();
    }

    // In a loop, what the timeline shows is played again from its beginning; the middle of the frame, as of seek, may be beyond its end.
    turnBack(ended = false) {
      if (!this.loop.checked || (this.video.paused && !ended) || this.video.seeking || !this.track.holder) return;
      const [start, stop] = storyframesTimeline.range(this.track.holder);
      const second = this.video.currentTime - this.zero;
      if (ended || second >= Math.min(stop, this.track.end_s) - 0.005 || second < start - 0.5) this.goTo(Math.max(start, 0) + 1 / SECOND);
      if (ended) this.video.play();
    }

    seek(second) {
      if (!this.loaded) return;
      if (this.zero === null) {
        this.wanted = second;
        return;
      }
      const times = this.track.times;
      const at = times && times.length ? middleOf(times, Math.max(frameAt(times, second), 0)) : Math.max(second, 0);
      this.goTo(at);
    }

    goTo(second) {
      this.video.currentTime = Math.min(this.zero + second, this.video.duration || Infinity);
    }

    step(frames) {
      const times = this.track.times;
      if (!times || !times.length) return this.seek(this.video.currentTime + frames * 0.04);
      const frame = Math.min(Math.max(this.frame + frames, 0), times.length - 1);
      this.seek(times[frame]);
    }

    toggle() {
      if (this.video.paused) this.video.play();
      else this.video.pause();
    }
  }

  // --- landmarks, joints and boxes over the picture ---

  const MISSING = -32768; // in place of a coordinate
  const GREY = "#808080"; // no measurement

  class Points {
    constructor(player, sizes, sets) {
      this.player = player;
      this.sizes = sizes;
      this.sets = sets;
      this.canvas = document.querySelector("#stage canvas");
      this.list = document.getElementById("player-points");
      for (const set of sets) {
        const box = document.createElement("input");
        const name = document.createElement("label");
        box.type = "checkbox";
        box.checked = true;
        box.addEventListener("change", () => { set.hidden = !box.checked; this.draw(); });
        name.append(box, " " + set.name);
        this.list.append(name);
        set.label = name;
      }
      player.onShow.push(() => this.draw());
      this.draw();
    }

    static async read(player, { sizes, sets }) {
      for (const set of sets) {
        const width = 2 * set.points;
        set.xy = await unpack(set.xy, Int16Array);
        for (let at = width; at < set.xy.length; at++) set.xy[at] += set.xy[at - width]; // wraps, as what was written
        set.measured = await unpack(set.measured, Int16Array);
      }
      return new Points(player, sizes, sets);
    }

    draw() {
      const { video, track, frame } = this.player;
      const context = this.canvas.getContext("2d");
      [this.canvas.width, this.canvas.height] = [video.clientWidth, video.clientHeight];
      this.drawn = 0; // points in this frame
      for (const set of this.sets) set.label.hidden = set.track !== track.name;
      if (!this.player.pictures || frame === null || frame < 0 || !this.sizes[track.name]) return;
      const scale = Math.min(video.clientWidth / video.videoWidth, video.clientHeight / video.videoHeight);
      const [width, height] = this.sizes[track.name];
      // From the pixels of the recording: a copy may be smaller, and pixels that are not square are shown wider.
      const zoom = [(scale * video.videoWidth) / width, (scale * video.videoHeight) / height];
      context.translate((video.clientWidth - scale * video.videoWidth) / 2, (video.clientHeight - scale * video.videoHeight) / 2);
      for (const set of this.sets) if (set.track === track.name && !set.hidden) this.drawSet(context, set, frame, zoom);
    }

    drawSet(context, set, frame, zoom) {
      const first = frame * set.points * 2;
      const at = (point) => zoom.map((factor, axis) => factor * set.xy[first + 2 * point + axis]);
      const there = (point) => set.xy[first + 2 * point] !== MISSING && first + 2 * point < set.xy.length;
      context.strokeStyle = context.fillStyle = set.measured[frame] ? set.colour : GREY;
      context.lineWidth = 2;
      context.beginPath();
      for (const [start, end] of set.bones) {
        if (!there(start) || !there(end)) continue;
        context.moveTo(...at(start));
        context.lineTo(...at(end));
      }
      context.stroke();
      for (let point = 0; point < set.points; point++) {
        if (!there(point)) continue;
        const [x, y] = at(point);
        context.fillRect(x - 1.5, y - 1.5, 3, 3);
        this.drawn += 1;
      }
    }
  }

  function points(player) {
    const button = document.getElementById("player-draw");
    if (!button) return;
    button.addEventListener("click", () => {
      button.disabled = true;
      window.storyframesPoints = async (content) => { player.points = await Points.read(player, content); };
      const script = document.createElement("script");
      script.src = button.dataset.script;
      document.head.append(script);
    });
  }

  // --- keys as in ELAN ---

  function keys(player) {
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest("input, select, textarea, summary, a") || event.target.matches(".scroll");
      if (!player.loaded || typing || event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.key === " " && event.target.closest("video")) return; // the browser's own: it may be on its mute button
      if (event.key === " " && !event.target.closest("button")) player.toggle();
      else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
        const sign = event.key === "ArrowLeft" ? -1 : 1;
        if (event.shiftKey) player.seek(player.second + sign);
        else player.step(sign);
      } else return;
      event.preventDefault();
      event.stopPropagation();
    }, true);
  }

  function controls(player) {
    const file = document.getElementById("player-file");
    const take = (files) => {
      const sounds = Array.from(files).filter((one) => one.type.startsWith("audio/"));
      const [picture] = Array.from(files).filter((one) => !sounds.includes(one)).concat(sounds);
      const [sound] = sounds.filter((one) => one !== picture);
      if (picture) player.open(URL.createObjectURL(picture), picture.name, sound && URL.createObjectURL(sound));
    };
    file.addEventListener("change", () => take(file.files));
    const section = document.getElementById("player");
    section.addEventListener("dragover", (event) => event.preventDefault());
    section.addEventListener("drop", (event) => { event.preventDefault(); take(event.dataTransfer.files); });
    const chosen = document.getElementById("player-track");
    const openLinked = () => {
      const { recording, sound } = player.track;
      if (recording) player.open(recording, decodeURIComponent(recording.split("/").pop()), sound);
    };
    if (chosen) chosen.addEventListener("change", () => {
      player.track = player.tracks[chosen.value];
      if (player.track.recording || !player.loaded) return openLinked();
      player.judge();
      player.show(player.second || 0);
    });
    const speed = document.getElementById("player-speed");
    speed.addEventListener("change", () => {
      player.video.defaultPlaybackRate = player.video.playbackRate = Number(speed.value); // also of the next file
    });
    document.getElementById("stage").addEventListener("click", (event) => {
      const button = event.target.closest("button[data-step]");
      if (button && player.loaded) player.step(Number(button.dataset.step));
    });
    openLinked();
  }

  async function start() {
    const element = document.getElementById("player-tracks");
    if (!element) return;
    const tracks = JSON.parse(element.textContent);
    for (const track of tracks) track.times = await frameTimes(track.frames);
    const player = new Player(tracks);
    window.storyframesPlayer = player;
    keys(player);
    controls(player);
    points(player);
    document.getElementById("player").hidden = false;
  }

  document.addEventListener("storyframes-drawn", start);
})();
