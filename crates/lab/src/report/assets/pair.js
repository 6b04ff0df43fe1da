// Two runs on shared axes, their difference below, and their numbers side by side.
var PAIR = [
  ["waf", "write amplification", say.ratio, has("waf"), function (run, i) { return run.columns.waf[i]; }],
  ["read", "read p99", say.time, has("read_p99_ns"), function (run, i) { return run.columns.read_p99_ns[i]; }],
  ["write", "write p99", say.time, has("write_p99_ns"), function (run, i) { return run.columns.write_p99_ns[i]; }],
  ["hits", "buffer hits", say.percent, has("buffer_hits"), hits],
  ["stall", "writes waiting for cleaning", say.count, has("gc_stall_ns"), waiting],
  ["pace", "requests a second", say.count, has("time_ns"), function (run, i) { return 1e9 * run.per / lasted(run, i); }]
];
// Numbers of whole runs: path, words, how they are said, whether less is better.
var NAMED = [["waf", "write amplification", say.ratio, 1], ["hit_ratio.total", "buffer hits", say.percent, 0],
  ["latency_ns.read.p50", "read p50", say.time, 1], ["latency_ns.read.p99", "read p99", say.time, 1], ["latency_ns.read.p999", "read p99.9", say.time, 1],
  ["latency_ns.write.p50", "write p50", say.time, 1], ["latency_ns.write.p99", "write p99", say.time, 1], ["latency_ns.write.p999", "write p99.9", say.time, 1],
  ["latency_ns.flush.p99", "flush p99", say.time, 1], ["iops", "requests a second", say.count, 0], ["gc.stall_ns", "waited for cleaning", say.time, 1],
  ["gc.pages", "slots copied", say.count, 1], ["erases", "erases", say.count, 1], ["wear.max", "erases of the worst block", say.count, 1]];
function change(a, b) { return a ? (b - a >= 0 ? "+" : "−") + digits(Math.abs(100 * (b - a) / a), 3) + " %" : "–"; }
function pairPanel() {
  if (runs.length < 2) return;
  var s = section("pair", "Two runs side by side", "A and B on one axis, B less A below it, over the same requests.");
  var names = runs.map(function (run) { return [run.at, run.label]; });
  var metrics = PAIR.filter(function (m) { return runs.some(m[3]); });
  if (metrics.length && !metrics.some(function (m) { return m[0] === state.m; })) state.m = metrics[0][0];
  var a = choice(s.tools, "A", names, state.a, function (v) { state.a = +v; changed(); });
  var b = choice(s.tools, "B", names, state.b, function (v) { state.b = +v; changed(); });
  var m = metrics.length ? choice(s.tools, "of", metrics.map(function (m) { return [m[0], m[1]]; }), state.m, function (v) { state.m = v; changed(); }) : null;
  button(s.tools, "Swap", "A becomes B", function () { var was = state.a; state.a = state.b; state.b = was; changed(); });
  button(s.tools, "CSV", "Copy the table as CSV", function (at) {
    copied(at, "metric,A: " + runs[state.a].label + ",B: " + runs[state.b].label + "\n" + NAMED.map(function (n) {
      var x = runs[state.a].numbers[n[0]], y = runs[state.b].numbers[n[0]];
      return n[0] + "," + (x === undefined ? "" : x) + "," + (y === undefined ? "" : y);
    }).join("\n") + "\n", "text/csv", "pair.csv");
  });
  button(s.tools, "SVG", "Copy the drawing as SVG", function (at) {
    var pen = svgPen(), list = [runs[state.a], runs[state.b]], both = panels(list), top = 46;
    if (!both) return;
    list.forEach(function (run, i) {
      pen.box(10 + i * 280, 12, 10, 10, colour("c" + i));
      pen.text(24 + i * 280, 21, (i ? "B " : "A ") + run.label, "start", colour("ink"));
    });
    both.forEach(function (panel) {
      pen.text(70, top - 6, panel.title, "start", colour("soft"));
      pen.at(70, top); panel.draw(pen, 520); pen.end();
      panel.axis.ticks.forEach(function (t) { pen.text(64, top + panel.axis.Y(t) + 4, tick(panel.say(t)), "end", colour("soft")); });
      xTicks().forEach(function (t) { pen.text(70 + acrossOf(520)(t), top + HEIGHT + 15, tick(say.count(t)), "middle", colour("soft")); });
      top += HEIGHT + 44;
    });
    copied(at, pen.done(610, top), "image/svg+xml", "pair.svg");
  });
  var grid = make("div", "lanes", s), table = make("div", "scroll", s);
  page.shade(table);
  function panels(list) {
    var of = metrics.filter(function (m) { return m[0] === state.m; })[0];
    if (!of || !list.every(of[3])) return null;
    var log = of[2] === say.time, high = 0, low = Infinity, far = 0;
    list.forEach(function (run) {
      for (var i = 0; i < run.windows; i++) { var v = of[4](run, i); if (v > high) high = v; if (v > 0 && v < low) low = v; }
    });
    if (!high) return null;
    // Over the requests that both have, in the wider of their windows.
    var per = Math.max(list[0].per, list[1].per), n = Math.min(list[0].windows * list[0].per, list[1].windows * list[1].per) / per;
    function at(run, k) { return of[4](run, windowAt(run, (k + 0.5) * per)); }
    function less(k) { return at(list[1], k) - at(list[0], k); }
    for (var k = 0; k < n; k++) { var d = Math.abs(less(k)); if (d > far) far = d; }
    var axis = axisOf(log ? { log: function () { return [low, high]; } } : { top: function () { return high; } }, list, HEIGHT);
    far = far || 1;
    var half = ticks(far, 2)[1];
    var signed = { Y: function (v) { return HEIGHT / 2 * (1 - v / (far * 1.04)); }, ticks: half <= far ? [-half, 0, half] : [0] };
    return [{ title: "A and B: " + of[1], say: of[2], axis: axis, draw: function (pen, width) {
      var X = acrossOf(width);
      axis.ticks.forEach(function (t) { pen.box(0, Math.min(HEIGHT - 1, axis.Y(t)), width, 1, colour("grid")); });
      list.forEach(function (run, i) {
        var v = visible(run);
        pen.line(steps(run, of[4], X, axis.Y, v[0], v[1]), colour("c" + i), 1.5, i ? [5, 3] : []);
      });
    } }, { title: "B less A", say: function (v) { return v < 0 ? "−" + of[2](-v) : of[2](v); }, axis: signed, draw: function (pen, width) {
      var X = acrossOf(width), sp = span();
      pen.box(0, HEIGHT / 2, width, 1, colour("faint"));
      for (var k = 0; k < n; k++) {
        if ((k + 1) * per < sp[0] || k * per > sp[1]) continue;
        var d = less(k), x = X(k * per), y = signed.Y(d), zero = HEIGHT / 2;
        if (!isNaN(d)) pen.box(x, Math.min(y, zero), Math.max(0.5, X((k + 1) * per) - x), Math.abs(y - zero), colour(d > 0 ? "c1" : "c0"), 0.75);
      }
    } }];
  }
  function draw(whole) {
    var list = [runs[state.a], runs[state.b]];
    a.value = state.a; b.value = state.b;
    if (m) m.value = state.m;
    if (!whole) return;
    grid.textContent = table.textContent = "";
    var both = panels(list);
    // All lanes first: how wide one is depends on how many there are.
    (both || []).map(function (panel, n) {
      var box = make("figure", "lane", grid), head = make("figcaption", "", box);
      make("b", "", head, panel.title);
      if (!n) list.forEach(function (run, i) {
        var key = make("span", "pairkey", head);
        make("i", "", key).style.background = "var(--c" + i + ")";
        key.appendChild(document.createTextNode((i ? "B " : "A ") + run.label));
      });
      var lane = { plot: make("div", "plot", box) };
      lane.left = make("div", "left", lane.plot);
      lane.field = make("div", "field", lane.plot);
      lane.canvas = make("canvas", "", lane.field);
      lane.below = make("div", "below", box);
      lane.field.setAttribute("role", "img");
      lane.field.setAttribute("aria-label", panel.title + ": " + list[0].label + ", " + list[1].label);
      return lane;
    }).forEach(function (lane, n) {
      var panel = both[n], canvas = lane.canvas, width = lane.field.clientWidth;
      canvas.style.height = HEIGHT + "px";
      panel.draw(canvasPen(canvas, width, HEIGHT), width);
      labels(lane, panel.axis, panel, width);
    });
    var t = make("table", "", table), row = make("tr", "", make("thead", "", t));
    ["whole runs", "A " + list[0].label, "B " + list[1].label, "B to A"].forEach(function (words) { make("th", "", row, words); });
    var body = make("tbody", "", t);
    NAMED.forEach(function (n) {
      var x = list[0].numbers[n[0]], y = list[1].numbers[n[0]];
      if (x === undefined && y === undefined) return;
      row = make("tr", "", body);
      make("th", "", row, n[1]);
      make("td", n[3] ? x < y ? "best" : "" : x > y ? "best" : "", row, x === undefined ? "–" : n[2](x));
      make("td", n[3] ? y < x ? "best" : "" : y > x ? "best" : "", row, y === undefined ? "–" : n[2](y));
      make("td", "", row, x === undefined || y === undefined ? "–" : change(x, y));
    });
  }
  watch(s, draw);
}
