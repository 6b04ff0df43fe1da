// The numbers, read back from the texts of the page: what people see without a script is what is drawn with one.
var page = window.page;
function text(id) { var at = document.getElementById(id); return at ? at.textContent : ""; }
function fields(line) {
  var out = [], re = /("(?:[^"]|"")*"|[^,]*)(,|$)/g, m;
  while ((m = re.exec(line))) {
    out.push(m[1][0] === '"' ? m[1].slice(1, -1).replace(/""/g, '"') : m[1]);
    if (!m[2]) break;
  }
  return out;
}
function rowsOf(id) { return text(id).split("\n").filter(Boolean); }
function number(cell) { return cell === "" || cell === undefined ? NaN : +cell; }

// Every number of every run, by its path; texts stay texts.
function readNumbers(runs) {
  var table = document.getElementById("numbers");
  if (!table) return;
  Array.prototype.forEach.call(table.tBodies[0].rows, function (row) {
    var path = row.cells[0].textContent;
    runs.forEach(function (run, i) {
      var cell = row.cells[i + 1].textContent;
      if (cell !== "–") run.numbers[path] = +cell;
    });
  });
}
// The windows of a run: a column for each list. The last one, in which the run ended, is drawn only if it is full.
function readWindows(run) {
  var rows = rowsOf("csv-windows-" + run.at);
  if (!rows.length) return;
  var names = rows[0].split(","), per = run.numbers["series.requests_per_window"] || 1;
  var last = run.numbers["series.requests_in_last_window"] || per;
  run.all = rows.length - 1;
  run.windows = run.all > 1 && last < per ? run.all - 1 : run.all;
  run.per = per;
  run.requests = (run.all - 1) * per + last;
  names.forEach(function (name) { run.columns[name] = new Float64Array(run.all); });
  for (var i = 1; i < rows.length; i++) {
    var cells = rows[i].split(",");
    for (var c = 0; c < names.length; c++) run.columns[names[c]][i - 1] = number(cells[c]);
  }
}
// Latencies of each window: where its bins begin, and the requests in each; ~N are N bins without any.
function readLatencies(run) {
  run.edges = run.lists["series.latency_edges_ns"] || [];
  ["read", "write", "flush"].forEach(function (op) {
    var lines = rowsOf("csv-latency-" + run.at + "-" + op).slice(1);
    if (!lines.length) return;
    run.latency[op] = lines.map(function (line) {
      var cut = line.indexOf(","), counts = [];
      if (cut < 0) return null;
      line.slice(cut + 1).split(" ").forEach(function (word) {
        if (word[0] !== "~") return counts.push(+word);
        for (var n = +word.slice(1); n > 0; n--) counts.push(0);
      });
      return { first: +line.slice(0, cut), counts: counts };
    });
  });
}
function readLists(run) {
  rowsOf("csv-lists-" + run.at).forEach(function (line) {
    var cut = line.indexOf(",");
    var list = run.lists[line.slice(0, cut)] = [];
    line.slice(cut + 1).split(" ").forEach(function (word) {
      var times = word.indexOf("*"), v = number(word.slice(times + 1));
      for (var n = times < 0 ? 1 : +word.slice(0, times); n > 0; n--) list.push(v);
    });
  });
}
function read() {
  var swept = {}, runs = rowsOf("csv-runs").slice(1).map(function (line) {
    var f = fields(line);
    var run = { at: +f[0], group: +f[1], seed: f[2], label: f[3], document: f[4], swept: f.slice(5),
      numbers: {}, columns: {}, latency: {}, lists: {}, edges: [], windows: 0, all: 0, per: 1, requests: 0 };
    // The hue is of what was swept first, the strokes of all else.
    var first = (run.document ? run.document + " " : "") + (run.swept[0] || ""), rest = run.swept.slice(1).join(" ");
    var hues = swept.hues || (swept.hues = []), kinds = swept.kinds || (swept.kinds = []);
    if (hues.indexOf(first) < 0) hues.push(first);
    if (kinds.indexOf(rest) < 0) kinds.push(rest);
    run.hue = hues.indexOf(first) % 8;
    run.kind = kinds.indexOf(rest) % 4;
    return run;
  });
  readNumbers(runs);
  runs.forEach(function (run) { readWindows(run); readLists(run); readLatencies(run); });
  return runs;
}
// Buckets of whole runs: [upper edge, requests] of a run.
function histogram(op, run) {
  return rowsOf("csv-histogram-" + op).slice(1).map(function (line) {
    var f = line.split(",");
    return [+f[0], +(f[run.at + 1] || 0)];
  }).filter(function (pair) { return pair[1] > 0; });
}
// Sum of a column over windows.
function sum(run, name, from, to) {
  var column = run.columns[name], all = 0;
  if (!column) return NaN;
  for (var i = from; i < to; i++) all += column[i] || 0;
  return all;
}
// Requests by bins over windows.
function bins(run, op, from, to) {
  var of = run.latency[op], all = [];
  if (!of) return all;
  for (var i = from; i < to; i++) {
    var w = of[i];
    if (w) for (var k = 0; k < w.counts.length; k++) all[w.first + k] = (all[w.first + k] || 0) + w.counts[k];
  }
  return all;
}
// The upper edge of the bin that holds a quantile; unknown with fewer than ten requests beyond it.
function quantile(counts, edges, q) {
  var n = 0, seen = 0, i;
  for (i = 0; i < counts.length; i++) n += counts[i] || 0;
  if (n * (1 - q) < 10) return NaN;
  for (i = 0; i < counts.length; i++) { seen += counts[i] || 0; if (seen >= n * q) return edges[i]; }
  return NaN;
}

function digits(v, n) {
  if (!v) return "0";
  var places = Math.min(9, Math.max(0, n - 1 - Math.floor(Math.log10(Math.abs(v)))));
  return v.toFixed(places);
}
var say = {
  time: function (ns) {
    if (isNaN(ns)) return "–";
    var a = Math.abs(ns);
    if (a >= 1e9) return digits(ns / 1e9, 3) + " s";
    if (a >= 1e6) return digits(ns / 1e6, 3) + " ms";
    if (a >= 1e3) return digits(ns / 1e3, 3) + " µs";
    return digits(ns, 3) + " ns";
  },
  count: function (v) {
    if (isNaN(v)) return "–";
    var a = Math.abs(v);
    if (a >= 1e9) return digits(v / 1e9, 3) + " G";
    if (a >= 1e6) return digits(v / 1e6, 3) + " M";
    if (a >= 1e4) return digits(v / 1e3, 3) + " k";
    return a % 1 ? digits(v, 3) : String(v);
  },
  percent: function (v) { return isNaN(v) ? "–" : digits(100 * v, 3) + " %"; },
  ratio: function (v) { return isNaN(v) ? "–" : digits(v, 4); }
};
