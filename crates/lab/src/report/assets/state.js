// What is shown: runs, a range of requests, the crosshair, two runs to compare. It is in the address, so a link shows the same.
var runs = [], most = 0;
var state = { runs: [], range: null, zoom: false, at: null, a: 0, b: 1, m: "waf", sort: "", pick: "", frame: "" };
// A range that is being drawn while the axis spans another.
var drawn_range = null;
var watchers = [];
// What the axis counts.
var along = {
  name: "requests",
  // What is said of its beginning.
  zero: 0,
  tick: function (v) { return tick(say.count(v)); },
  words: function (from, to) { return "requests " + say.count(from) + " to " + say.count(to); }
};
function defaults() {
  // The first seed of each group, as many as can be told apart.
  var seen = {}, out = [];
  runs.forEach(function (run) {
    if (!(run.group in seen) && out.length < 16) { seen[run.group] = 1; out.push(run.at); }
  });
  return out;
}
function shown() { return runs.filter(function (run) { return state.runs.indexOf(run.at) >= 0; }); }
function write() {
  var parts = [], usual = defaults();
  if (state.runs.join() !== usual.join()) parts.push("runs=" + state.runs.join("."));
  if (state.range) parts.push("range=" + state.range.join("-"));
  if (state.zoom) parts.push("zoom=1");
  if (state.at !== null) parts.push("at=" + state.at);
  if (state.a !== 0) parts.push("a=" + state.a);
  if (state.b !== Math.min(1, runs.length - 1)) parts.push("b=" + state.b);
  if (state.m !== "waf") parts.push("m=" + encodeURIComponent(state.m));
  if (state.panel) parts.push("panel=" + encodeURIComponent(state.panel));
  if (state.sort) parts.push("sort=" + encodeURIComponent(state.sort));
  if (state.frame !== "") parts.push("frame=" + state.frame);
  if (state.pick) parts.push("pick=" + encodeURIComponent(state.pick));
  try { history.replaceState(null, "", parts.length ? "#" + parts.join("&") : location.pathname + location.search); } catch (e) {}
}
function restore() {
  var said = {};
  location.hash.slice(1).split("&").forEach(function (part) {
    var cut = part.indexOf("=");
    if (cut > 0) said[part.slice(0, cut)] = window.page.plain(part.slice(cut + 1));
  });
  function run(v, other) { return v !== undefined && runs[+v] ? +v : other; }
  var asked = (said.runs || "").split(".").filter(function (v) { return v !== "" && runs[+v]; }).map(Number);
  state.runs = asked.length ? asked : defaults();
  var range = (said.range || "").split("-").map(Number);
  state.range = range.length === 2 && range[0] >= 0 && range[1] > range[0] ? [range[0], Math.min(range[1], most)] : null;
  state.zoom = said.zoom === "1" && !!state.range;
  state.at = said.at !== undefined && +said.at >= 0 ? +said.at : null;
  state.a = run(said.a, 0); state.b = run(said.b, Math.min(1, runs.length - 1));
  state.m = said.m || "waf";
  state.panel = said.panel || "";
  state.sort = said.sort || "";
  state.pick = said.pick || "";
  state.frame = said.frame >= 0 ? +said.frame : "";
}
// Redraws once a frame, however often something changes.
var due = 0;
function changed(light) {
  if (!light) due = 2; else if (!due) due = 1; else return;
  requestAnimationFrame(function () {
    var whole = due === 2;
    if (!due) return;
    due = 0;
    watchers.forEach(function (f) { f(whole); });
    write();
  });
}
// The requests that the axis spans, and the windows of a run in a range of requests.
function span() { return state.zoom && state.range ? state.range : [0, most]; }
function windowsIn(run, range) {
  var r = range || [0, Infinity];
  var from = Math.max(0, Math.min(run.windows, Math.round(r[0] / run.per)));
  var to = Math.max(from, Math.min(run.windows, Math.round(r[1] / run.per)));
  return [from, to === from && range ? Math.min(run.windows, from + 1) : to];
}
function windowAt(run, request) { return Math.max(0, Math.min(run.windows - 1, Math.floor(request / run.per))); }
// When a window of a run began and ended, in virtual time.
function timeOf(run, window) {
  var ends = run.columns.time_ns;
  return ends ? [window ? ends[window - 1] : 0, ends[window]] : null;
}
