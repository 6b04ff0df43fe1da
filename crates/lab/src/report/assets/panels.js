// What the panels over the run show: for each, which runs have it, its axis, its strokes, and its numbers.
var CAUSES = [["host", "host data"], ["gc", "cleaning"], ["tx", "transactions"], ["map", "map pages"],
  ["metadata", "metadata"], ["padding", "padding"]];
function has(name) { return function (run) { return run.windows > 1 && !!run.columns[name]; }; }
function largest(list, of) {
  var high = 0;
  list.forEach(function (run) { for (var i = 0; i < run.windows; i++) { var v = of(run, i); if (v > high) high = v; } });
  return high;
}
function share(run, above, below, from, to) { return sum(run, above, from, to) / sum(run, below, from, to); }
function programs(run, i) {
  var all = 0;
  CAUSES.forEach(function (c) { all += run.columns["programs." + c[0]][i]; });
  return all;
}
// A window's write amplification that is due to a cause.
function due_to(run, cause, i) {
  var all = programs(run, i);
  return all ? run.columns.waf[i] * run.columns["programs." + cause][i] / all : 0;
}
function slotBytes(run) { return run.numbers["nand.programmed_bytes"] / run.numbers["nand.programs.total"]; }
function lineSlots(run) { return run.numbers["lines.bytes"] / slotBytes(run); }
function lasted(run, i) { var t = timeOf(run, i); return t ? t[1] - t[0] : NaN; }
// A line of steps: a window has one value.
function steps(run, of, X, Y, from, to) {
  var points = [];
  for (var i = from; i < to; i++) {
    var y = Y(of(run, i));
    points.push([X(i * run.per), y], [X((i + 1) * run.per), y]);
  }
  return points;
}
function under(points, floor) {
  var known = points.filter(function (p) { return !isNaN(p[1]); });
  if (!known.length) return [];
  return [[known[0][0], floor]].concat(known, [[known[known.length - 1][0], floor]]);
}
// One value in each window, in a colour, filled.
function simple(id, title, about, axis, of, value, needs, hue, label) {
  return {
    id: id, title: title, about: about, say: axis, has: has(needs),
    keys: function () { return [[hue, label]]; },
    top: function (list) { return largest(list, of); },
    draw: function (pen, run, X, Y, from, to, floor) {
      var points = steps(run, of, X, Y, from, to);
      pen.area(under(points, floor), colour(hue), 0.22);
      pen.line(points, colour(hue), 1.4);
    },
    value: value,
    tip: function (run, i) { return [[hue, label, axis(of(run, i))]]; },
    csv: function (run, i) { return [[label, of(run, i)]]; }
  };
}
function wafOver(run, from, to) {
  var all = 0, causes = CAUSES.map(function (c) { return "programs." + c[0]; });
  if (from === 0 && to >= run.windows) return run.numbers.waf;
  var bytes = sum(run, "host_write_bytes", from, to);
  if (isNaN(bytes)) {
    // A document that does not have them: what the ratio of a window says, from what was programmed.
    bytes = 0;
    for (var i = from; i < to; i++) if (run.columns.waf[i] > 0) bytes += programs(run, i) / run.columns.waf[i] * slotBytes(run);
  }
  causes.forEach(function (name) { all += sum(run, name, from, to); });
  return bytes ? all * slotBytes(run) / bytes : NaN;
}
function latencyPanel(op, title) {
  function p99(run, i) {
    var column = run.columns[op + "_p99_ns"], of = run.latency[op];
    if (column) return column[i];
    return of && of[i] ? quantile(bins(run, op, i, i + 1), run.edges, 0.99) : NaN;
  }
  function p50(run, i) { return run.latency[op] ? quantile(bins(run, op, i, i + 1), run.edges, 0.5) : NaN; }
  function edgesOf(list) {
    var low = Infinity, high = 0;
    list.forEach(function (run) {
      for (var i = 0; i < run.windows; i++) {
        var w = (run.latency[op] || [])[i], p = p99(run, i);
        if (w) {
          low = Math.min(low, run.edges[w.first] * 0.7);
          high = Math.max(high, run.edges[w.first + w.counts.length - 1]);
        } else if (p > 0) { low = Math.min(low, p); high = Math.max(high, p); }
      }
    });
    return high ? [low, high] : null;
  }
  return {
    id: op, title: title, log: edgesOf, say: say.time,
    about: "requests by how long they took, in each window: the darker, the more. Lines: median and p99",
    has: function (run) { return run.windows > 1 && !!(run.latency[op] || run.columns[op + "_p99_ns"]); },
    keys: function () { return [["accent", "requests"], ["ink", "median"], ["c1", "p99"]]; },
    draw: function (pen, run, X, Y, from, to) {
      var of = run.latency[op], high = 0, i, k, fill = colour("accent");
      for (i = from; of && i < to; i++) if (of[i]) for (k = 0; k < of[i].counts.length; k++) high = Math.max(high, of[i].counts[k]);
      for (i = from; of && i < to; i++) {
        var w = of[i], x = X(i * run.per), wide = X((i + 1) * run.per) - x;
        for (k = 0; w && k < w.counts.length; k++) {
          if (!w.counts[k]) continue;
          var upper = run.edges[w.first + k], lower = w.first + k ? run.edges[w.first + k - 1] : upper * 0.7;
          var y = Y(upper), alpha = 0.1 + 0.9 * Math.log(1 + w.counts[k]) / Math.log(1 + high);
          pen.box(x, y, wide + 0.3, Math.max(1, Y(lower) - y), fill, alpha);
        }
      }
      pen.line(steps(run, p50, X, Y, from, to), colour("ink"), 1.2);
      pen.line(steps(run, p99, X, Y, from, to), colour("c1"), 1.4);
    },
    value: function (run, from, to, whole) {
      var all = whole ? null : bins(run, op, from, to);
      return [["p50", 0.5], ["p99", 0.99], ["p99.9", 0.999]].map(function (q) {
        var v = whole ? run.numbers["latency_ns." + op + "." + q[0].replace(".", "")] : quantile(all, run.edges, q[1]);
        return q[0] + " " + (v === undefined ? "–" : (whole ? "" : "≤ ") + say.time(v));
      }).join("   ");
    },
    tip: function (run, i) { return [["ink", "median ≤", say.time(p50(run, i))], ["c1", "p99", say.time(p99(run, i))]]; },
    csv: function (run, i) { return [["p50_ns", p50(run, i)], ["p99_ns", p99(run, i)]]; }
  };
}
var waf = {
  id: "waf", title: "Write amplification", say: say.ratio, has: has("waf"),
  about: "bytes programmed for each byte the host wrote, by cause",
  keys: function (list) {
    return CAUSES.filter(function (c) {
      return list.some(function (run) { return run.numbers["nand.programs." + c[0]] > 0; });
    });
  },
  top: function (list) { return largest(list, function (run, i) { return run.columns.waf[i]; }); },
  draw: function (pen, run, X, Y, from, to, floor) {
    var below = [];
    for (var i = from; i < to; i++) below.push(0);
    CAUSES.forEach(function (c) {
      var lower = steps(run, function (r, i) { return below[i - from]; }, X, Y, from, to);
      for (var i = from; i < to; i++) below[i - from] += due_to(run, c[0], i) || 0;
      var upper = steps(run, function (r, i) { return below[i - from]; }, X, Y, from, to);
      if (run.numbers["nand.programs." + c[0]] > 0) pen.area(upper.concat(lower.reverse()), colour(c[0]), 0.9);
    });
  },
  value: function (run, from, to) { return say.ratio(wafOver(run, from, to)); },
  tip: function (run, i) {
    return [["ink", "all", say.ratio(run.columns.waf[i])]].concat(CAUSES.map(function (c) {
      return [c[0], c[1], due_to(run, c[0], i)];
    }).filter(function (row) { return row[2] > 0; }).map(function (row) { return [row[0], row[1], say.ratio(row[2])]; }));
  },
  csv: function (run, i) {
    return [["waf", run.columns.waf[i]]].concat(CAUSES.map(function (c) { return [c[0], due_to(run, c[0], i)]; }));
  }
};
function hits(run, i) { return run.columns.buffer_hits[i] / run.columns.buffer_units[i]; }
function dirty(run, i) { return run.columns.buffer_dirty[i] / run.numbers["buffer.slots"]; }
var buffer = {
  id: "buffer", title: "Buffer", about: "pages asked for that were there, and the share of its pages that are dirty",
  say: say.percent, has: has("buffer_hits"), top: function () { return 1; },
  keys: function () { return [["c2", "hits"], ["c6", "dirty"]]; },
  draw: function (pen, run, X, Y, from, to, floor) {
    pen.area(under(steps(run, dirty, X, Y, from, to), floor), colour("c6"), 0.3);
    pen.line(steps(run, hits, X, Y, from, to), colour("c2"), 1.6);
  },
  value: function (run, from, to, whole) {
    return "hits " + say.percent(whole ? run.numbers["hit_ratio.total"] : share(run, "buffer_hits", "buffer_units", from, to));
  },
  tip: function (run, i) { return [["c2", "hits", say.percent(hits(run, i))], ["c6", "dirty", say.percent(dirty(run, i))]]; },
  csv: function (run, i) { return [["hit_ratio", hits(run, i)], ["dirty_share", dirty(run, i)]]; }
};
// So many writes stood waiting for a free line, on average.
function waiting(run, i) { return run.columns.gc_stall_ns[i] / lasted(run, i); }
function valid(run, i) {
  var victims = run.columns.gc_victims[i];
  return victims ? run.columns.gc_valid_at_choice[i] / (victims * lineSlots(run)) : NaN;
}
var PANELS = [
  latencyPanel("read", "Reads: how long they took"),
  latencyPanel("write", "Writes: how long they took"),
  waf,
  simple("clean", "Cleaning stalls", "writes that stood waiting for a free line, on average in each window", say.count, waiting,
    function (run, from, to, whole) { return say.time(whole ? run.numbers["gc.stall_ns"] : sum(run, "gc_stall_ns", from, to)) + " waited"; },
    "gc_stall_ns", "gc", "writes waiting"),
  {
    id: "victims", title: "Cleaning: victims", about: "the share of a collected line that was still valid, and had to be copied",
    say: say.percent, has: has("gc_victims"), top: function () { return 1; },
    keys: function () { return [["gc", "valid when chosen"]]; },
    draw: function (pen, run, X, Y, from, to, floor) {
      var points = steps(run, valid, X, Y, from, to);
      pen.area(under(points, floor), colour("gc"), 0.22);
      pen.line(points, colour("gc"), 1.4);
    },
    value: function (run, from, to) {
      var victims = sum(run, "gc_victims", from, to);
      return say.count(victims) + " lines, " + say.percent(sum(run, "gc_valid_at_choice", from, to) / (victims * lineSlots(run))) + " valid";
    },
    tip: function (run, i) { return [["gc", "valid", say.percent(valid(run, i))], ["gc", "lines", say.count(run.columns.gc_victims[i])]]; },
    csv: function (run, i) { return [["victims", run.columns.gc_victims[i]], ["valid_share", valid(run, i)]]; }
  },
  buffer,
  simple("pace", "Requests a second", "requests of a window by the virtual time it took", say.count,
    function (run, i) { return 1e9 * run.per / lasted(run, i); },
    function (run, from, to, whole) {
      var ends = run.columns.time_ns, time = to > from ? ends[to - 1] - (from ? ends[from - 1] : 0) : NaN;
      return say.count(whole ? run.numbers.iops : 1e9 * run.per * (to - from) / time) + " a second";
    }, "time_ns", "c0", "requests a second"),
  latencyPanel("flush", "Flushes: how long they took")
];
