// A timeline: a row for each slot of requests in flight, for cleaning, and for each die; below them levels over time.
// An axis counts nanoseconds from the first slice; what is said of it, those from the start of the measured part.
var operations = [], requests = [], victims = [], rows = [], byId = Object.create(null);
function cells(id) { return rowsOf("csv-" + id).slice(1).map(fields); }
function places(words) { return words ? words.split(" ").map(Number) : []; }
function readTimeline() {
  operations = cells("operations").map(function (f, i) {
    return { id: "o" + i, die: +f[0], from: +f[1], to: +f[2], name: f[3], cause: f[4], request: +f[5], block: +f[6], page: +f[7], pages: +f[8],
      hue: hueOf(f[4] === "own" ? (/read$/.test(f[3]) ? "host_read" : "host_program") : f[4]), pale: /read$/.test(f[3]), waited: [] };
  });
  var names = (rowsOf("csv-requests")[0] || "").split(","), causes = names.slice(9, -1);
  requests = cells("requests").map(function (f) {
    var r = { id: "r" + f[0], number: +f[0], slot: +f[1], op: f[2], app: +f[3], offset: +f[4], bytes: +f[5], from: +f[6], to: +f[7], latency: +f[8],
      parts: {}, name: f[2], waited: places(f[9 + causes.length]) }, most = -1;
    causes.forEach(function (name, i) {
      var cause = name.replace(/_ns$/, ""), ns = +f[9 + i];
      r.parts[cause] = ns;
      if (ns > most) { most = ns; r.cause = cause; }
    });
    r.hue = hueOf(r.cause);
    return r;
  });
  victims = cells("victims").map(function (f, i) {
    return { id: "v" + i, line: +f[0], valid: +f[1], from: +f[2], to: +f[3], waited: places(f[4]), name: "victim", cause: "gc", hue: "gc" };
  });
  var all = operations.concat(requests, victims), low = Infinity, high = 0;
  all.forEach(function (one) { byId[one.id] = one; low = Math.min(low, one.from); high = Math.max(high, one.to); });
  if (!all.length) return;
  all.forEach(function (one) { one.from -= low; one.to -= low; });
  along.zero = low;
  most = Math.max(1, high - low);
  // Rows: slots, cleaning, dies.
  var tracks = cells("tracks");
  function add(kind, words, list, of) {
    var named = tracks.filter(function (f) { return f[0] === kind; });
    if (named.length) rows.push({ head: words, items: [] });
    var first = rows.length;
    named.forEach(function (f) { rows.push({ label: f[2].replace(/^slot /, "").replace(/^channel (\d+) die (\d+)$/, "$1.$2"), name: f[2], items: [] }); });
    list.forEach(function (one) { one.row = rows[first + one[of]]; one.row.items.push(one); });
  }
  add("slot", "slot", requests, "slot");
  if (victims.length) {
    var row = { label: "cleaning", name: "cleaning", items: victims };
    victims.forEach(function (one) { one.row = row; });
    rows.push(row);
  }
  add("die", "die", operations, "die");
  var lanes = rows.filter(function (row) { return !row.head; }).length, tall = lanes > 64 ? 8 : 15, y = 0;
  rows.forEach(function (row) { row.y = y; row.tall = row.head ? 17 : tall; y += row.tall; });
  rows.high = y + 2;
}
// A moment, as exact as a step on the axis asks.
function moment(t, step) {
  var end = along.zero + most, unit = end >= 1e9 ? [1e9, " s"] : end >= 1e6 ? [1e6, " ms"] : [1e3, " µs"];
  var digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(unit[0] / Math.max(1, step)) - 1e-9)));
  return ((along.zero + t) / unit[0]).toFixed(digits) + unit[1];
}
function fine() { var s = span(); return (s[1] - s[0]) / 1000; }
along.name = "time of the measured part";
along.tick = function (t) { var s = span(); return moment(t, ticks(s[1] - s[0], 4)[1]); };
along.words = function (from, to) { return to - from > 1 ? moment(from, fine()) + " to " + moment(to, fine()) : moment(from, fine()); };
// The slice of a row at a moment, or the nearest within some nanoseconds.
function sliceAt(row, t, slack) {
  var items = row.items, low = 0, high = items.length;
  while (low < high) { var mid = (low + high) >> 1; if (items[mid].from <= t) low = mid + 1; else high = mid; }
  var before = items[low - 1], after = items[low];
  if (before && t < before.to) return before;
  var a = before ? t - before.to : Infinity, b = after ? after.from - t : Infinity;
  return Math.min(a, b) > slack ? null : a <= b ? before : after;
}
// From the first slice of a row that ends in what is shown.
function firstSeen(row, from) {
  var items = row.items, low = 0, high = items.length;
  while (low < high) { var mid = (low + high) >> 1; if (items[mid].to < from) low = mid + 1; else high = mid; }
  return low;
}
function dieName(one) { return one.row.name; }
function bytesOf(r) { return r.bytes >= 1024 ? digits(r.bytes / 1024, 3).replace(/\.0+$/, "") + " KiB" : r.bytes + " B"; }
function titleOf(one) {
  if (one.id[0] === "r") return "request " + one.number + ": " + one.op + (one.bytes ? " of " + bytesOf(one) : "");
  return one.id[0] === "v" ? "line " + one.line + ", cleaned" : one.name + ", " + dieName(one);
}
// What is said of a slice: hue, word, value.
function said(one) {
  var out = [[one.hue, "took", say.time(one.id[0] === "r" ? one.latency : one.to - one.from)]];
  if (one.id[0] === "r") {
    SPENT.filter(function (c) { return one.parts[c[0]] > 0; }).sort(function (a, b) { return one.parts[b[0]] - one.parts[a[0]]; }).slice(0, 4)
      .forEach(function (c) { out.push([c[2], c[1], say.time(one.parts[c[0]])]); });
    out.push(["faint", "flash operations waited for", say.count(one.waited.length)]);
  } else if (one.id[0] === "v") {
    out.push([one.hue, "valid slots when chosen", say.count(one.valid)], [one.hue, "operations", say.count(one.waited.length)]);
  } else {
    out.push([one.hue, "block", one.block], [one.hue, "page", one.page], [one.hue, "pages", one.pages]);
    if (one.request) out.push([one.hue, "ordered by request", one.request]);
  }
  return out;
}
// What belongs to the slice that is picked: what it waited for, or who waited for it.
function litBy(one) {
  var lit = {};
  if (!one) return null;
  lit[one.id] = true;
  one.waited.forEach(function (at) { if (operations[at]) lit["o" + at] = true; });
  if (one.id[0] === "o") waitersOf(one).forEach(function (r) { lit[r.id] = true; });
  return lit;
}
function waitersOf(one) {
  var at = +one.id.slice(1);
  return requests.concat(victims).filter(function (r) { return r.waited.indexOf(at) >= 0; });
}
function drawRows(pen, width) {
  var X = acrossOf(width), s = span(), hues = {}, picked = byId[state.pick], lit = litBy(picked);
  function hue(name) { return hues[name] || (hues[name] = colour(name)); }
  rows.forEach(function (row) {
    if (row.head) return pen.box(0, row.y, width, 1, hue("rule"));
    pen.box(0, row.y + row.tall - 1, width, 1, hue("grid"));
    var high = row.tall - (row.tall > 10 ? 3 : 2), last = -1, lastHue = "";
    for (var i = firstSeen(row, s[0]); i < row.items.length && row.items[i].from <= s[1]; i++) {
      var one = row.items[i], x = X(one.from), wide = X(one.to) - x, on = !lit || lit[one.id];
      // Of those that share a pixel and a hue one is seen.
      if (wide < 1 && Math.floor(x) === last && one.hue === lastHue && !(lit && on)) continue;
      last = Math.floor(x); lastHue = one.hue;
      pen.box(x, row.y + 1, Math.max(1, wide - (wide > 4 ? 0.5 : 0)), high, hue(one.hue), (on ? 1 : 0.22) * (one.pale ? 0.6 : 1));
    }
  });
  if (!picked) return;
  function middle(one) { return one.row.y + one.row.tall / 2; }
  var x0 = X(picked.from), x1 = X(picked.to);
  Object.keys(lit).forEach(function (id) {
    var one = byId[id];
    if (id === picked.id || one.to < s[0] || one.from > s[1]) return;
    var x = Math.max(x0, Math.min(x1, X(one.from)));
    pen.line([[x, middle(picked)], [X(one.from), middle(one)]], hue("faint"), 0.7);
  });
  if (picked.to < s[0] || picked.from > s[1]) return;
  var y = picked.row.y + 0.5, h = picked.row.tall - 2, wide = Math.max(2, x1 - x0);
  pen.line([[x0, y], [x0 + wide, y], [x0 + wide, y + h], [x0, y + h], [x0, y]], hue("ink"), 1.5);
}
function labelRows(lane) {
  var last = -99;
  lane.left.textContent = "";
  rows.forEach(function (row) {
    var y = row.head ? row.y + 2 : row.y + row.tall / 2 - 8;
    if (!row.head && y - last < 14) return;
    last = y;
    make("span", row.head ? "head" : "", lane.left, row.head || row.label).style.top = y + "px";
  });
}
function many(n, word) { return say.count(n) + " " + word + (n === 1 ? "" : "s"); }
function inRange(one) { var r = state.range; return !r || one.to >= r[0] && one.from <= r[1]; }
function csvOfTimeline() {
  return "track,start_ns,end_ns,name,cause,request,block,page,pages\n" + requests.concat(victims, operations).filter(inRange).map(function (one) {
    return [one.row.name, one.from + along.zero, one.to + along.zero, one.name, one.cause, one.number || one.request || ""]
      .concat(one.id[0] === "o" ? [one.block, one.page, one.pages] : ["", "", ""]).join(",") + "\n";
  }).join("");
}
function svgOfTimeline() {
  var pen = svgPen(), width = 820, soft = colour("soft");
  pen.text(10, 20, document.querySelector("h1").textContent, "start", colour("ink"), true);
  pen.at(76, 30); drawRows(pen, width); pen.end();
  var last = -99;
  rows.forEach(function (row) {
    if (!row.head && row.y - last < 13) return;
    last = row.y;
    pen.text(70, 30 + row.y + 12, row.head || row.label, "end", soft);
  });
  xTicks().forEach(function (t) { pen.text(76 + acrossOf(width)(t), 45 + rows.high, along.tick(t), "middle", soft); });
  SPENT.forEach(function (c, n) {
    var x = 76 + n % 4 * 205, y = 70 + rows.high + Math.floor(n / 4) * 18;
    pen.box(x, y - 9, 10, 10, colour(c[2]));
    pen.text(x + 14, y, c[1], "start", soft);
  });
  return pen.done(910, 140 + rows.high);
}
var run = { at: 0, group: 0, label: "", per: 1, columns: {}, numbers: {}, step: function () { return Math.max(1, Math.round(fine() * 4)); } };
function rowsPanel() {
  var s = section("timeline", "Requests in flight, and what dies did", "a row for each slot of requests, for cleaning, and for each die as channel.die. " +
    "A request has the hue of what took most of its time; reads of dies are paler. Click a request to see what it stood behind.");
  button(s.tools, "CSV", "Copy the slices of the range as CSV", function (b) { copied(b, csvOfTimeline(), "text/csv", "timeline.csv"); });
  button(s.tools, "SVG", "Copy what is shown as SVG", function (b) { copied(b, svgOfTimeline(), "image/svg+xml", "timeline.svg"); });
  var keys = make("div", "keys", s), grid = make("div", "gantt", s), lane = laneOf(grid, run, ""), field = lane.field, known = {};
  requests.concat(victims, operations).forEach(function (one) { known[one.hue] = true; });
  spentKeys(keys, function (c) { return known[hueOf(c)]; });
  field.style.height = lane.left.style.height = lane.canvas.style.height = rows.high + "px";
  function sliceUnder(event) {
    var box = field.getBoundingClientRect(), s = span(), y = event.clientY - box.top, t = s[0] + (event.clientX - box.left) / box.width * (s[1] - s[0]);
    var row = rows.filter(function (row) { return y >= row.y && y < row.y + row.tall; })[0];
    return row ? sliceAt(row, t, 3 * (s[1] - s[0]) / box.width) : null;
  }
  var counted = ["", ""];
  var panel = {
    title: "Timeline",
    value: function (run, from, to, whole) {
      var key = from + "-" + to;
      if (counted[0] !== key) counted = [key, many(requests.filter(inRange).length, "request") + ", " + many(operations.filter(inRange).length, "flash operation") + (whole ? "" : " in the range")];
      return counted[1];
    },
    tip: function (run, t) {
      var flying = 0, busy = 0, cleaning = 0;
      rows.forEach(function (row) {
        var one = sliceAt(row, t, -1);
        if (!one || one.id[0] === "v") return;
        if (one.id[0] === "r") flying++; else { busy++; if (one.cause === "gc" || one.cause === "erase") cleaning++; }
      });
      return [["ink", "in flight", flying], ["host", "dies busy", busy], ["gc", "of them cleaning", cleaning]];
    },
    under: function (event) { var one = sliceUnder(event); return one && { head: titleOf(one) + ", " + along.words(one.from, one.to), rows: said(one) }; }
  };
  listen(lane, panel);
  var down = null;
  field.addEventListener("pointerdown", function (e) { down = e.clientX; });
  field.addEventListener("click", function (e) {
    if (down !== null && Math.abs(e.clientX - down) > 3) return;
    var one = sliceUnder(e);
    state.pick = one ? one.id : "";
    changed();
  });
  watch(s, function (whole) {
    var width = field.clientWidth;
    if (!width) return;
    if (whole) {
      drawRows(canvasPen(lane.canvas, width, rows.high), width);
      labelRows(lane);
      labelsBelow(lane, width);
    }
    overlay(lane, panel, width);
  });
}
function levelsPanel() {
  var list = [0, 1].filter(function (n) { return rowsOf("csv-level-" + n).length > 2; });
  if (!list.length) return;
  var s = section("levels", "Levels", "what the drive had at each moment."), grid = make("div", "lanes", s);
  var lanes = list.map(function (n) {
    var values = cells("level-" + n).map(function (f) { return [+f[0] - along.zero, +f[1]]; }), high = 0, hue = n ? "c6" : "c2";
    values.forEach(function (v) { high = Math.max(high, v[1]); });
    function at(t) { var last = NaN; values.some(function (v) { if (v[0] > t) return true; last = v[1]; return false; }); return last; }
    var title = document.getElementById("csv-level-" + n).parentNode.firstChild.textContent;
    var panel = { title: title, say: say.count, top: function () { return high; },
      value: function (run, from, to) { return say.count(at(from)) + " to " + say.count(at(to)); },
      tip: function (run, t) { return [[hue, title, say.count(at(t))]]; } };
    var lane = laneOf(grid, run, title);
    lane.canvas.style.height = HEIGHT + "px";
    listen(lane, panel);
    return { lane: lane, panel: panel, values: values, hue: hue };
  });
  watch(s, function (whole) {
    lanes.forEach(function (one) {
      var width = one.lane.field.clientWidth;
      if (!width) return;
      if (whole) {
        var axis = axisOf(one.panel, [], HEIGHT), pen = canvasPen(one.lane.canvas, width, HEIGHT), X = acrossOf(width), points = [];
        axis.ticks.forEach(function (t) { pen.box(0, Math.min(HEIGHT - 1, axis.Y(t)), width, 1, colour("grid")); });
        one.values.forEach(function (v, i) {
          var next = one.values[i + 1], end = next ? next[0] : most;
          if (end >= span()[0] && v[0] <= span()[1]) points.push([X(v[0]), axis.Y(v[1])], [X(end), axis.Y(v[1])]);
        });
        pen.line(points, colour(one.hue), 1.4);
        labels(one.lane, axis, one.panel, width);
      }
      overlay(one.lane, one.panel, width);
    });
  });
}
