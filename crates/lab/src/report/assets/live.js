// What happens now: events of the server, kept for as long as it keeps them. The right edge is the present.
var KEEP = 1200, SPANS = [[60, "1 minute"], [300, "5 minutes"], [1200, "20 minutes"]];
var events = [], blocks = null, turns = [], drawn = [], at = null, seconds = 300, map = "erases";
// The field's words for what a layer writes, and their hues.
var CAUSE = { user: "host", data: "host", host: "host", directory: "c5", node: "c3", gc: "gc", cleaning_data: "gc", cleaning_node: "c1",
  tx: "tx", map: "map", nat: "map", sit: "c2", ssa: "c6", metadata: "metadata", header: "metadata", meta: "c6", root: "c7",
  checkpoint: "c4", journal: "tx", superblock: "c7", padding: "padding" };
var LAYERS = [["fs", "file system"], ["log", "host log"], ["drive", "drive"]], KINDS = ["read", "write", "flush", "trim"];
function size(v) {
  if (isNaN(v)) return "–";
  var units = ["B", "KiB", "MiB", "GiB", "TiB"], i = 0;
  while (v >= 1024 && i < 4) { v /= 1024; i++; }
  return (i || v % 1 ? digits(v, 3) : String(v)) + " " + units[i];
}
function rate(v) { return isNaN(v) ? "–" : size(v) + "/s"; }
function each(v) { return isNaN(v) ? "–" : say.count(v) + "/s"; }
function pick(e, path) {
  var v = e.is;
  path.split(".").some(function (name) { v = v === undefined || v === null ? undefined : v[name]; return v === undefined; });
  return typeof v === "number" ? v : NaN;
}
function of(path) { return function (e) { return pick(e, path); }; }
// Bytes a second that a layer wrote for a cause: what was added since the event before. Counters begin anew at a power cut.
function caused(layer, cause) {
  return function (e) {
    var now = pick(e, layer + ".bytes_by_cause." + cause), was = e.before ? pick(e.before, layer + ".bytes_by_cause." + cause) : NaN;
    if (isNaN(now) || isNaN(was)) return NaN;
    return (now >= was ? now - was : now) / e.is.seconds;
  };
}
function place(name) { return function (kind) { return name + "." + kind; }; }
function panelsOf(e) {
  var out = [], is = e.is;
  [["host", is.device ? "Files" : "Host"], ["device", "Device below the volume"]].forEach(function (p) {
    if (!is[p[0]]) return;
    var name = place(p[0]);
    out.push({ id: p[0] + "-bytes", title: p[1] + ": bytes a second", say: rate, about: "bytes of answered requests",
      lines: [["c0", "read", of(name("read.bytes_per_second"))], ["c1", "write", of(name("write.bytes_per_second"))]] });
    out.push({ id: p[0] + "-requests", title: p[1] + ": requests a second", say: each, about: "requests answered",
      lines: KINDS.map(function (k, i) { return ["c" + i, k, of(name(k + ".per_second"))]; }) });
    out.push({ id: p[0] + "-latency", title: p[1] + ": latency", say: say.time, log: true,
      about: "upper edges of histogram buckets, at most a quarter too high",
      lines: [["c0", "read p50", of(name("read.p50_ns")), [2, 3]], ["c0", "read p99", of(name("read.p99_ns"))],
        ["c1", "write p50", of(name("write.p50_ns")), [2, 3]], ["c1", "write p99", of(name("write.p99_ns"))],
        ["c2", "flush p99", of(name("flush.p99_ns"))]] });
  });
  LAYERS.forEach(function (l) {
    var layer = is[l[0]];
    if (!layer) return;
    var name = l[1].charAt(0).toUpperCase() + l[1].slice(1), unit = layer.free_blocks === undefined ? "segments" : "blocks";
    out.push({ id: l[0] + "-causes", title: name + ": writes by cause", say: rate, about: "bytes a second, one cause upon the other", stack: true,
      lines: Object.keys(layer.bytes_by_cause).map(function (c) { return [CAUSE[c] || "c7", c.replace(/_/g, " "), caused(l[0], c)]; }) });
    out.push({ id: l[0] + "-waf", title: name + ": write amplification", say: say.ratio,
      about: "bytes written for each byte of data, in each interval and in all",
      lines: [["gc", "now", of(l[0] + ".write_amplification_now")], ["soft", "in all", of(l[0] + ".write_amplification"), [4, 3]]] });
    out.push({ id: l[0] + "-free", title: name + ": free " + unit, say: say.count, about: "free " + unit + ", and those cleaned a second",
      lines: [["c2", "free", of(l[0] + ".free_" + unit)], ["gc", "cleaned a second", of(l[0] + ".cleaned_per_second")]] });
  });
  return out;
}
function shownEvents() {
  // Not more than there is, but a minute.
  var last = events.length ? events[events.length - 1].at : 0, from = events.length ? Math.min(events[0].at, last - 60000) : 0;
  from = Math.max(from, last - seconds * 1000);
  return { from: from, to: last, list: events.filter(function (e) { return e.at >= from; }) };
}
function across(view, width) { return function (t) { return (t - view.from) / (view.to - view.from || 1) * width; }; }
function axis(panel, view) {
  var high = 0, low = Infinity;
  view.list.forEach(function (e) {
    if (!e.is) return;
    var all = 0;
    panel.lines.forEach(function (l) { var v = l[2](e); if (v > 0) { all += v; low = Math.min(low, v); if (!panel.stack) high = Math.max(high, v); } });
    if (panel.stack) high = Math.max(high, all);
  });
  if (panel.log) {
    if (!high) return null;
    return axisOf({ log: function () { return [low / 1.5, high * 1.5]; } }, [], HEIGHT);
  }
  // Round in the unit that is said.
  var unit = panel.say === rate ? Math.pow(1024, Math.max(0, Math.floor(Math.log(high) / Math.log(1024)))) || 1 : 1;
  var round = axisOf({ top: function () { return high / unit; } }, [], HEIGHT);
  return { Y: function (v) { return round.Y(v / unit); }, ticks: round.ticks.map(function (t) { return t * unit; }) };
}
// Lines break where the source was gone or its power off.
function stroke(panel, view, pen, width, axis) {
  var X = across(view, width);
  axis.ticks.forEach(function (t) { pen.box(0, Math.min(HEIGHT - 1, axis.Y(t)), width, 1, colour("grid")); });
  view.list.forEach(function (e) {
    if (e.is && e.is.power.on) return;
    var from = X(e.before ? e.before.at : e.at - 1000);
    pen.box(from, 0, Math.max(1, X(e.at) - from), HEIGHT, colour(e.is ? "c4" : "faint"), 0.14);
  });
  turns.forEach(function (turn) { if (turn.cut && turn.at >= view.from) pen.box(X(turn.at) - 1, 0, 2, HEIGHT, colour("c4")); });
  if (panel.stack) {
    var below = view.list.map(function () { return 0; });
    panel.lines.forEach(function (l) {
      var lower = view.list.map(function (e, i) { return [X(e.at), axis.Y(below[i])]; });
      view.list.forEach(function (e, i) { below[i] += (e.is && l[2](e)) || 0; });
      var upper = view.list.map(function (e, i) { return [X(e.at), axis.Y(below[i])]; });
      pen.area(upper.concat(lower.reverse()), colour(l[0]), 0.85);
    });
    return;
  }
  panel.lines.forEach(function (l) {
    // A step for each interval: what lasted for one is seen, too.
    var points = [];
    view.list.forEach(function (e) {
      var y = e.is ? axis.Y(l[2](e)) : NaN;
      points.push([X(e.before ? Math.max(e.before.at, view.from) : e.at), y], [X(e.at), y]);
    });
    pen.line(points, colour(l[0]), 1.6, l[3]);
  });
}
function ago(ms) { var s = Math.round(ms / 1000); return s < 120 ? s + " s ago" : digits(s / 60, 2) + " min ago"; }
function eventAt(view) {
  if (at === null) return null;
  return view.list.reduce(function (best, e) { return !best || Math.abs(e.at - at) < Math.abs(best.at - at) ? e : best; }, null);
}
function csvOf(panel) {
  return "unix_ms," + panel.lines.map(function (l) { return l[1]; }).join(",") + "\n" + events.filter(function (e) { return e.is; }).map(function (e) {
    return e.at + "," + panel.lines.map(function (l) { var v = l[2](e); return isNaN(v) ? "" : v; }).join(",");
  }).join("\n") + "\n";
}
function svgOf(panel) {
  var pen = svgPen(), view = shownEvents(), scale = axis(panel, view);
  pen.text(10, 20, panel.title, "start", colour("ink"), true);
  if (scale) {
    scale.ticks.forEach(function (t) { pen.text(76, 36 + scale.Y(t) + 4, tick(panel.say(t)), "end", colour("soft")); });
    pen.at(82, 36); stroke(panel, view, pen, 540, scale); pen.end();
  }
  panel.lines.forEach(function (l, i) { pen.box(10 + i % 4 * 155, 140 + Math.floor(i / 4) * 18, 10, 10, colour(l[0])); pen.text(24 + i % 4 * 155, 149 + Math.floor(i / 4) * 18, l[1], "start", colour("soft")); });
  return pen.done(640, 150 + Math.ceil(panel.lines.length / 4) * 18);
}
function addLive(panel) {
  var s = section(panel.id, panel.title, panel.about), keys = make("div", "keys", s);
  s.setAttribute("data-live", "");
  button(s.tools, "CSV", "Copy everything kept of this panel as CSV", function (b) { copied(b, csvOf(panel), "text/csv", panel.id + ".csv"); });
  button(s.tools, "SVG", "Copy what is shown as SVG", function (b) { copied(b, svgOf(panel), "image/svg+xml", panel.id + ".svg"); });
  var values = panel.lines.map(function (l) {
    var key = make("span", "", keys);
    make("i", "", key).style.background = "var(--" + l[0] + ")";
    key.appendChild(document.createTextNode(l[1] + " "));
    return make("b", "", key);
  });
  var box = make("figure", "lane", s), plot = make("div", "plot", box), left = make("div", "left", plot), field = make("div", "field", plot);
  var canvas = make("canvas", "", field), cross = make("div", "crosshair", field), below = make("div", "below", box);
  canvas.style.height = HEIGHT + "px";
  field.tabIndex = 0;
  field.setAttribute("role", "img");
  field.setAttribute("aria-label", panel.title);
  function point(e) { var r = field.getBoundingClientRect(), view = shownEvents(); at = view.from + (e.clientX - r.left) / r.width * (view.to - view.from); again(); }
  field.addEventListener("pointermove", point);
  field.addEventListener("pointerleave", function () { at = null; again(); });
  field.addEventListener("keydown", function (e) {
    var step = { ArrowLeft: -1, ArrowRight: 1 }[e.key], view = shownEvents(), now = eventAt(view);
    if (e.key === "Escape") at = null;
    else if (step) { var i = view.list.indexOf(now || view.list[view.list.length - 1]) + step; if (view.list[i]) at = view.list[i].at; }
    else return;
    e.preventDefault(); again();
  });
  drawn.push(function (view) {
    var width = field.clientWidth;
    // What nobody sees is not drawn.
    var r = s.getBoundingClientRect();
    if (!width || r.bottom < -200 || r.top > innerHeight + 200) return;
    var scale = axis(panel, view), pen = canvasPen(canvas, width, HEIGHT), told = eventAt(view) || view.list[view.list.length - 1];
    left.textContent = below.textContent = "";
    if (scale) {
      stroke(panel, view, pen, width, scale);
      var last = -99;
      scale.ticks.slice().sort(function (a, b) { return scale.Y(b) - scale.Y(a); }).forEach(function (t) {
        var y = scale.Y(t);
        if (last !== -99 && last - y < 15) return;
        last = y;
        make("span", "", left, tick(panel.say(t))).style.top = Math.max(0, Math.min(HEIGHT - 14, y - 7)) + "px";
      });
    }
    [0, 0.5, 1].forEach(function (share) {
      var words = share === 1 ? "now" : ago((1 - share) * (view.to - view.from)), half = words.length * 3.4;
      make("span", "", below, words).style.left = Math.max(half, Math.min(width - half, share * width)) + "px";
    });
    panel.lines.forEach(function (l, i) { values[i].textContent = told && told.is ? panel.say(l[2](told)) : "–"; });
    cross.hidden = at === null;
    if (at !== null && told) cross.style.left = across(view, width)(told.at) + "px";
  });
}
function addMap() {
  var s = section("blocks", "The drive's blocks", "every block now: planes of dies below each other, a plane's blocks side by side. The darker, the more.");
  var label = make("label", "choice", s.tools, "colour "), pickBy = make("select", "", label);
  [["erases", "erases"], ["valid", "valid data"]].forEach(function (o) { make("option", "", pickBy, o[1]).value = o[0]; });
  pickBy.value = map;
  pickBy.addEventListener("change", function () { map = pickBy.value; remember(); again(); });
  button(s.tools, "CSV", "Copy every block as CSV", function (b) {
    copied(b, "block,erases,valid_units\n" + blocks.erases.map(function (n, i) { return i + "," + (n === null ? "bad" : n) + "," + (blocks.valid[i] === null ? "" : blocks.valid[i]) + "\n"; }).join(""), "text/csv", "blocks.csv");
  });
  var box = make("figure", "lane", s), head = make("figcaption", "", box), said = make("span", "value", head);
  var field = make("div", "field bare", box), canvas = make("canvas", "", field);
  function tall() { return Math.max(60, Math.min(200, blocks.planes * 10)); }
  field.setAttribute("role", "img");
  field.addEventListener("pointermove", function (e) {
    var r = field.getBoundingClientRect(), rows = Math.ceil(blocks.erases.length / blocks.planes);
    var i = Math.min(rows - 1, Math.floor((e.clientX - r.left) / r.width * rows)) * blocks.planes +
      Math.min(blocks.planes - 1, Math.max(0, Math.floor((e.clientY - r.top) / r.height * blocks.planes)));
    if (i < 0 || i >= blocks.erases.length) return;
    document.getElementById("tip").textContent = "block " + i + " (die " + Math.floor(i % blocks.planes / (blocks.planes / blocks.dies)) + "): " +
      (blocks.erases[i] === null ? "bad" : blocks.erases[i] + " erases") + (blocks.valid[i] === null ? "" : ", " + blocks.valid[i] + " units valid");
    page.show(e);
  });
  field.addEventListener("pointerleave", hideTip);
  drawn.push(function () {
    var width = field.clientWidth, values = blocks[map], high = tall();
    if (!width) return;
    field.style.height = canvas.style.height = high + "px";
    var pen = canvasPen(canvas, width, high), rows = Math.ceil(values.length / blocks.planes), w = width / rows, h = high / blocks.planes;
    var top = 0, most = -1, gap = w > 4 && h > 4 ? 0.6 : 0;
    blocks.erases.forEach(function (n, i) { if (n !== null && (most < 0 || n > blocks.erases[most])) most = i; });
    values.forEach(function (v) { if (v > top) top = v; });
    values.forEach(function (v, i) {
      var bad = blocks.erases[i] === null;
      pen.box(Math.floor(i / blocks.planes) * w, i % blocks.planes * h, w - gap, h - gap, colour(bad ? "c4" : "accent"), bad ? 1 : 0.06 + 0.94 * (top ? v / top : 0));
    });
    said.textContent = most < 0 ? "" : "most: block " + most + ", " + blocks.erases[most] + " erases";
    field.setAttribute("aria-label", said.textContent);
  });
}
// What stands in words: the power, and when it went or came.
function tell() {
  var last = events[events.length - 1], at = document.getElementById("power"), list = document.getElementById("said");
  if (last) {
    at.hidden = false;
    at.className = "note" + (last.is && last.is.power.on ? "" : " warn off");
    at.textContent = !last.is ? "Nobody answers: " + last.gone : (last.is.power.on ? "The power is on" : "The power is off") +
      (last.is.power.cuts ? "; it was cut " + (last.is.power.cuts === 1 ? "once." : last.is.power.cuts + " times.") : ".");
  }
  list.textContent = "";
  if (!turns.length) return;
  make("h2", "", list, "What happened");
  var items = make("ol", "", list);
  turns.slice(-50).forEach(function (turn) { make("li", "", items, new Date(turn.at).toLocaleTimeString() + " " + turn.words); });
}
function add(event) {
  var before = events[events.length - 1];
  event.before = before && before.is ? { at: before.at, is: before.is } : null;
  if (event.is) {
    var was = event.before && event.before.is.power, now = event.is.power;
    if (was && now.cuts > was.cuts) turns.push({ at: event.at, cut: true, words: "power cut" + (now.on ? ", and on again: what was recovered is served" : "") });
    else if (was && now.on && !was.on) turns.push({ at: event.at, words: "power on: what was recovered is served" });
    else if (was && !now.on && was.on) turns.push({ at: event.at, cut: true, words: "power off" });
    if (before && !before.is) turns.push({ at: event.at, words: "it answers again" });
  } else if (!before || before.is) turns.push({ at: event.at, words: "nobody answers: " + event.gone });
  events.push(event);
  if (events.length > KEEP) events.shift();
  document.getElementById("panels").dataset.kept = events.length;
}
var made = {}, due = false, mapped = false;
function again() {
  if (due || document.hidden) return;
  due = true;
  requestAnimationFrame(function () {
    due = false;
    var last = events[events.length - 1];
    // Layers come with the power.
    if (last && last.is) panelsOf(last).forEach(function (panel) { if (!made[panel.id]) { made[panel.id] = true; addLive(panel); } });
    if (blocks && !mapped) { mapped = true; addMap(); }
    var view = shownEvents();
    drawn.forEach(function (f) { f(view); });
    tell();
  });
}
function remember() {
  try { history.replaceState(null, "", "#span=" + seconds + "&map=" + map); } catch (e) {}
}
function follow() {
  var source = new EventSource("events");
  // Whoever connects is told all that is kept, once more.
  source.onopen = function () { events = []; turns = []; };
  source.onmessage = function (message) {
    var event = JSON.parse(message.data);
    if (event.blocks) blocks = event.blocks; else add(event);
    again();
  };
  source.onerror = function () {
    var at = document.getElementById("power");
    at.hidden = false; at.className = "note warn off";
    at.textContent = "The page has lost its server, and tries again.";
  };
}
(function () {
  var said = /span=(\d+)/.exec(location.hash), by = /map=(erases|valid)/.exec(location.hash);
  if (said && SPANS.some(function (s) { return s[0] === +said[1]; })) seconds = +said[1];
  if (by) map = by[1];
  var bar = make("div", "bar-top", document.getElementById("panels"));
  make("span", "said", bar, "the last");
  SPANS.forEach(function (span) {
    var b = button(bar, span[1], "Show so much", function () { seconds = span[0]; remember(); again(); mark(); });
    drawn.push(mark);
    function mark() { b.setAttribute("aria-pressed", String(seconds === span[0])); }
  });
  addEventListener("resize", again);
  addEventListener("scroll", again, { passive: true });
  document.addEventListener("visibilitychange", again);
  document.querySelector("header .theme").addEventListener("click", again);
  if (window.EventSource) follow();
})();
