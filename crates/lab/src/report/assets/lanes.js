// Panels over the run: a lane for each run, all with one axis, one range and one crosshair.
var HEIGHT = 92;
function make(tag, name, parent, words) {
  var at = document.createElement(tag);
  if (name) at.className = name;
  if (words !== undefined) at.textContent = words;
  if (parent) parent.appendChild(at);
  return at;
}
function swatch(run, parent) {
  var i = make("i", "swatch k" + run.kind, parent);
  i.style.background = "var(--c" + run.hue + ")";
  return i;
}
function button(parent, words, title, act) {
  var b = make("button", "tool", parent, words);
  b.type = "button";
  if (title) b.title = title;
  b.addEventListener("click", function () { act(b); });
  return b;
}
function copied(b, words, kind, name) {
  var was = b.dataset.was || (b.dataset.was = b.textContent);
  function show(said) { b.textContent = said; setTimeout(function () { b.textContent = was; }, 1500); }
  // A page opened from a file may have no clipboard: then it is saved.
  function save() {
    var a = make("a", "", null), url = URL.createObjectURL(new Blob([words], { type: kind }));
    a.href = url; a.download = name; a.click();
    setTimeout(function () { URL.revokeObjectURL(url); }, 1000);
    show("Saved");
  }
  if (!navigator.clipboard) return save();
  navigator.clipboard.writeText(words).then(function () { show("Copied"); }, save);
}
function section(id, title, about) {
  var s = make("section", "panel", document.getElementById("panels"));
  s.id = "panel-" + id;
  var head = make("div", "panel-head", s);
  make("h2", "", head, title);
  s.tools = make("div", "tools", head);
  make("p", "", s, about);
  return s;
}
// A panel is drawn when it comes near the window, and again when something changed since.
var near = null;
function watch(s, draw) {
  var stale = 2;
  s.draw = function () { if (stale) draw(stale === 2); stale = 0; };
  watchers.push(function (whole) {
    stale = Math.max(stale, whole ? 2 : 1);
    if (!near || s.near) s.draw();
  });
  if (!window.IntersectionObserver) return;
  near = near || new IntersectionObserver(function (seen) {
    seen.forEach(function (one) {
      one.target.near = one.isIntersecting;
      if (one.isIntersecting) one.target.draw();
    });
  }, { rootMargin: "300px" });
  near.observe(s);
}
// Room for so many lanes, before they are drawn.
function room(s, grid, lanes, high) {
  var columns = Math.max(1, Math.floor((s.clientWidth + 10) / 450));
  grid.style.minHeight = lanes ? Math.ceil(lanes / columns) * (high + 10) - 10 + "px" : "";
}
// A round number needs no zeroes behind its point.
function tick(words) { return words.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, ""); }
// Positions on an axis: where a value lies, from the floor up.
function axisOf(panel, list, height) {
  if (panel.log) {
    var edges = panel.log(list);
    if (!edges) return null;
    var low = Math.log10(edges[0]), high = Math.log10(edges[1] * 1.05);
    return { Y: function (v) { return v > 0 ? height * (1 - (Math.log10(v) - low) / (high - low)) : NaN; },
      ticks: decades(edges[0], edges[1], 4) };
  }
  var top = panel.top(list) || 1, at = ticks(top, 3), end = Math.max(top * 1.04, top);
  return { Y: function (v) { return height * (1 - v / end); }, ticks: at.filter(function (v) { return v <= end; }) };
}
function acrossOf(width) {
  var s = span();
  return function (request) { return (Math.max(s[0], Math.min(s[1], request)) - s[0]) / (s[1] - s[0]) * width; };
}
function visible(run) {
  var s = span();
  return [Math.max(0, Math.floor(s[0] / run.per)), Math.min(run.windows, Math.ceil(s[1] / run.per))];
}
function xTicks() {
  var s = span(), step = ticks(s[1] - s[0], 4)[1], out = [];
  for (var v = Math.ceil((s[0] + along.zero) / step) * step - along.zero; v <= s[1]; v += step) out.push(v);
  return out;
}
function strokes(panel, run, pen, width, axis) {
  var v = visible(run);
  axis.ticks.forEach(function (t) { pen.box(0, Math.min(HEIGHT - 1, axis.Y(t)), width, 1, colour("grid")); });
  panel.draw(pen, run, acrossOf(width), axis.Y, v[0], v[1], HEIGHT);
}
// HTML labels over the canvas: they keep their size on any screen.
function labels(lane, axis, panel, width) {
  lane.left.textContent = "";
  var last = -99;
  axis.ticks.slice().sort(function (a, b) { return axis.Y(b) - axis.Y(a); }).forEach(function (t) {
    var y = axis.Y(t);
    if (last !== -99 && last - y < 15) return;
    last = y;
    var l = make("span", "", lane.left, tick(panel.say(t)));
    l.style.top = Math.max(0, Math.min(HEIGHT - 14, y - 7)) + "px";
  });
  labelsBelow(lane, width);
}
function labelsBelow(lane, width) {
  var X = acrossOf(width), end = -99;
  lane.below.textContent = "";
  xTicks().forEach(function (t) {
    var words = along.tick(t), half = words.length * 3.6, x = Math.max(half, Math.min(width - half, X(t)));
    if (x - half < end + 8) return;
    end = x + half;
    make("span", "", lane.below, words).style.left = x + "px";
  });
}
// A lane: its name and what it says, labels at the left, the field with its canvas, labels below.
function laneOf(grid, run, label) {
  var lane = { run: run, box: make("figure", "lane", grid) };
  var head = make("figcaption", "", lane.box);
  lane.name = make("b", "", head);
  if (run.hue !== undefined) swatch(run, lane.name);
  lane.name.appendChild(document.createTextNode(label));
  lane.value = make("span", "value", head);
  lane.plot = make("div", "plot", lane.box);
  lane.left = make("div", "left", lane.plot);
  lane.field = make("div", "field", lane.plot);
  lane.canvas = make("canvas", "", lane.field);
  lane.mark = make("div", "range", lane.field);
  lane.cross = make("div", "crosshair", lane.field);
  lane.below = make("div", "below", lane.box);
  lane.field.tabIndex = 0;
  lane.field.setAttribute("role", "img");
  return lane;
}
function addPanel(panel) {
  var list = runs.filter(panel.has);
  if (!list.length) return;
  var s = section(panel.id, panel.title, panel.about + ".");
  var keys = make("div", "keys", s), grid = make("div", "lanes", s), lanes = [];
  function has() { return shown().filter(panel.has); }
  panel.keys(list).forEach(function (k) {
    var key = make("span", "", keys);
    make("i", "", key).style.background = "var(--" + k[0] + ")";
    key.appendChild(document.createTextNode(k[1]));
  });
  button(s.tools, "CSV", "Copy what is shown as CSV", function (b) { copied(b, csvOf(panel, has()), "text/csv", panel.id + ".csv"); });
  button(s.tools, "SVG", "Copy what is shown as SVG", function (b) { copied(b, svgOf(panel, has()), "image/svg+xml", panel.id + ".svg"); });
  function build(list) {
    grid.textContent = "";
    lanes = list.map(function (run) {
      var lane = laneOf(grid, run, run.label);
      listen(lane, panel);
      return lane;
    });
  }
  watchers.push(function (whole) {
    if (!whole) return;
    s.hidden = !has().length;
    room(s, grid, has().length, HEIGHT + 55);
  });
  function draw(whole) {
    var list = has(), names = list.map(function (r) { return r.at; }).join();
    if (!list.length) return;
    if (grid.dataset.runs !== names) { grid.dataset.runs = names; build(list); whole = true; }
    var axis = whole ? axisOf(panel, list, HEIGHT) : null;
    lanes.forEach(function (lane) {
      var width = lane.field.clientWidth;
      if (!width) return;
      if (axis) {
        lane.canvas.style.height = HEIGHT + "px";
        strokes(panel, lane.run, canvasPen(lane.canvas, width, HEIGHT), width, axis);
        labels(lane, axis, panel, width);
      }
      overlay(lane, panel, width);
    });
  }
  watch(s, draw);
}
// The range, the crosshair, and what the lane's head says.
function overlay(lane, panel, width) {
  var X = acrossOf(width), run = lane.run, r = drawn_range || state.range;
  lane.mark.hidden = !r || state.zoom && !drawn_range;
  if (r) { lane.mark.style.left = X(r[0]) + "px"; lane.mark.style.width = Math.max(2, X(r[1]) - X(r[0])) + "px"; }
  var s = span(), seen = state.at !== null && state.at >= s[0] && state.at <= s[1] && state.at < run.windows * run.per;
  lane.cross.hidden = !seen;
  if (seen) lane.cross.style.left = X(state.at) + "px";
  var w = windowsIn(run, state.range), words = panel.value(run, w[0], w[1], !state.range);
  if (seen) {
    words = panel.tip(run, windowAt(run, state.at)).map(function (row) { return row[1] + " " + row[2]; }).slice(0, 3).join("   ");
  }
  lane.value.textContent = words;
  lane.field.setAttribute("aria-label", panel.title + ", " + run.label + ": " + words);
}
function tipFor(panel, run, event) {
  var i = windowAt(run, state.at), t = timeOf(run, i), tip = document.getElementById("tip");
  var said = panel.under ? panel.under(event) : null;
  tip.textContent = "";
  make("b", "", tip, said ? said.head : along.words(i * run.per, (i + 1) * run.per) +
    (t ? ", " + say.time(t[0]) + " to " + say.time(t[1]) : ""));
  (said ? said.rows : panel.tip(run, i)).forEach(function (row) {
    var line = make("span", "", tip), left = make("span", "", line);
    left.style.display = "inline";
    make("i", "", left).style.background = "var(--" + row[0] + ")";
    left.appendChild(document.createTextNode(row[1]));
    make("strong", "", line, row[2]);
  });
  page.show(event);
}
function hideTip() { document.getElementById("tip").style.visibility = "hidden"; }
function listen(lane, panel) {
  var from = null, field = lane.field, run = lane.run;
  function requestAt(event) {
    var box = field.getBoundingClientRect(), s = span();
    return s[0] + Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)) * (s[1] - s[0]);
  }
  field.addEventListener("pointerdown", function (e) {
    if (e.button) return;
    from = requestAt(e);
    try { field.setPointerCapture(e.pointerId); } catch (x) {}
  });
  field.addEventListener("pointermove", function (e) {
    var to = requestAt(e);
    state.at = Math.round(to);
    if (from !== null && Math.abs(to - from) > (span()[1] - span()[0]) / 100) {
      var r = snapped(run, Math.min(from, to), Math.max(from, to));
      // The axis stays while one draws on it.
      if (state.zoom) drawn_range = r; else state.range = r;
    }
    if (windowAt(run, state.at) >= 0) tipFor(panel, run, e);
    changed(true);
  });
  field.addEventListener("pointerup", function () {
    from = null;
    if (drawn_range) state.range = drawn_range;
    drawn_range = null;
    changed();
  });
  field.addEventListener("pointercancel", function () { from = drawn_range = null; hideTip(); });
  field.addEventListener("pointerleave", function () { if (from === null) { state.at = null; hideTip(); changed(true); } });
  field.addEventListener("dblclick", function () { clearRange(); });
  field.addEventListener("keydown", function (e) { if (key(e, run)) e.preventDefault(); });
}
function snapped(run, from, to) {
  var a = Math.floor(from / run.per) * run.per, b = Math.ceil(to / run.per) * run.per;
  return [a, Math.min(most, Math.max(b, a + run.per))];
}
// Buttons for the range, in a bar.
function rangeTools(parent, whole) {
  var zoom = button(parent, "Zoom in", "The axis spans the range only (Enter)", function () { state.zoom = !state.zoom; changed(); });
  var clear = button(parent, whole, "Give up the range (Escape)", clearRange);
  button(parent, "Copy link", "The address of exactly this view", function (b) { write(); copied(b, location.href, "text/plain", "link.txt"); });
  watchers.push(function () {
    zoom.hidden = clear.hidden = !state.range;
    zoom.textContent = state.zoom ? "Zoom out" : "Zoom in";
  });
}
// Drawn again when the window, the colours or the address change.
function redrawn() {
  // What is printed is drawn, wherever it stands.
  addEventListener("beforeprint", function () { document.querySelectorAll(".panel").forEach(function (s) { s.draw(); }); });
  var wide = innerWidth;
  addEventListener("resize", function () { if (innerWidth !== wide) { wide = innerWidth; changed(); } });
  addEventListener("hashchange", function () { restore(); changed(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () { changed(); });
  document.querySelector("header .theme").addEventListener("click", function () { changed(); });
}
function clearRange() { state.range = null; state.zoom = false; changed(); }
var RANGE_HINT = "Drag over a panel to choose a range. Keys in a panel: arrows move the crosshair, with shift they choose a range, " +
  "Enter zooms, + and - show half as much or twice, Escape gives up.";
// Half as much around the crosshair, or twice.
function nearer(run, factor) {
  var s = span(), at = state.at === null ? (s[0] + s[1]) / 2 : Math.max(s[0], Math.min(s[1], state.at));
  var wide = Math.min(most, Math.max(run.per * 4, (s[1] - s[0]) * factor)), from = at - (at - s[0]) / (s[1] - s[0]) * wide;
  from = Math.max(0, Math.min(most - wide, from));
  state.range = snapped(run, from, from + wide);
  state.zoom = state.range[0] > 0 || state.range[1] < most;
  if (!state.zoom) state.range = null;
  changed();
}
// Arrows move the crosshair by a window, with shift they stretch the range; Enter zooms, Escape gives up.
function key(e, run) {
  var step = run.step ? run.step() : run.per;
  var at = state.at === null ? span()[0] : state.at, by = { ArrowLeft: -step, ArrowRight: step }[e.key];
  if (e.key === "Home") { at = span()[0]; by = 0; }
  if (e.key === "End") { at = span()[1] - 1; by = 0; }
  if (e.key === "Escape") { state.at = null; hideTip(); clearRange(); return true; }
  if (e.key === "Enter" && state.range) { state.zoom = !state.zoom; changed(); return true; }
  if (e.key === "+" || e.key === "-") { nearer(run, e.key === "+" ? 0.5 : 2); return true; }
  if (by === undefined) return false;
  var next = Math.max(0, Math.min(run.windows * run.per - 1, at + by));
  if (e.shiftKey) {
    var r = state.range || snapped(run, at, at + 1);
    state.range = snapped(run, Math.min(r[0], next), by < 0 && next >= r[0] ? next + 1 : Math.max(by < 0 ? r[1] : 0, next + 1));
    state.at = next;
    changed();
    return true;
  }
  state.at = next;
  changed(true);
  return true;
}
function csvOf(panel, list) {
  var out = "", head = null;
  list.forEach(function (run) {
    var w = windowsIn(run, state.range);
    for (var i = w[0]; i < w[1]; i++) {
      var cells = panel.csv(run, i), t = timeOf(run, i);
      if (!head) { head = cells.map(function (c) { return c[0]; }); out = "run,first_request,end_ns," + head.join(",") + "\n"; }
      out += '"' + run.label.replace(/"/g, '""') + '",' + i * run.per + "," + (t ? t[1] : "") + "," +
        cells.map(function (c) { return isNaN(c[1]) ? "" : c[1]; }).join(",") + "\n";
    }
  });
  return out;
}
function svgOf(panel, list) {
  var pen = svgPen(), width = 520, step = HEIGHT + 46, axis = axisOf(panel, list, HEIGHT), soft = colour("soft"), ink = colour("ink");
  pen.text(10, 20, panel.title, "start", ink, true);
  var x = 10;
  panel.keys(list).forEach(function (k) {
    pen.box(x, 30, 10, 10, colour(k[0]));
    pen.text(x + 14, 39, k[1], "start", soft);
    x += 26 + k[1].length * 6.6;
  });
  list.forEach(function (run, n) {
    var top = 66 + n * step, w = windowsIn(run, state.range), X = acrossOf(width);
    pen.text(70, top - 6, run.label, "start", ink, true);
    pen.text(70 + width, top - 6, panel.value(run, w[0], w[1], !state.range), "end", soft);
    pen.at(70, top);
    strokes(panel, run, pen, width, axis);
    pen.end();
    axis.ticks.forEach(function (t) { pen.text(64, top + axis.Y(t) + 4, tick(panel.say(t)), "end", soft); });
    xTicks().forEach(function (t) { pen.text(70 + X(t), top + HEIGHT + 15, along.tick(t), "middle", soft); });
  });
  pen.text(70 + width / 2, 66 + list.length * step - 8, along.name, "middle", soft);
  return pen.done(610, 72 + list.length * step);
}
